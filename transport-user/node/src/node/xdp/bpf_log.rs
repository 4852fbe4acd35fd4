//! The log of the XDP programs: refused packets, locks that could not be taken, exchanges.
//!
//! It needs the cargo feature `bpf-log`, and the node must request it when it loads the programs. Otherwise the
//! verifier removes the log code from the programs.

#[cfg(not(feature = "bpf-log"))]
use aya::Ebpf;

#[cfg(not(feature = "bpf-log"))]
use crate::node::error::NodeError;
#[cfg(feature = "bpf-log")]
pub(crate) use told::BpfLog;

/// The log of a library without the feature. It never exists.
#[cfg(not(feature = "bpf-log"))]
#[derive(Debug)]
pub(crate) enum BpfLog {}

#[cfg(not(feature = "bpf-log"))]
impl BpfLog {
    /// Always fails.
    ///
    /// # Errors
    /// [`NodeError::NoBpfLog`].
    pub(crate) fn listen(_: &mut Ebpf) -> Result<Self, NodeError> {
        Err(NodeError::NoBpfLog)
    }

    pub(crate) fn pass_on(&mut self) {
        match *self {}
    }
}

#[cfg(feature = "bpf-log")]
mod told {
    use aya::Ebpf;
    use aya_log::EbpfLogger;
    use log::{Level, Log, Metadata, Record};
    use transport_common::counters::Counter;

    use crate::node::error::NodeError;

    /// The text in front of the number of a counter.
    const COUNTER: &str = ", counter ";

    /// The programs' ring of events.
    pub(crate) struct BpfLog(EbpfLogger<Forward>);

    impl std::fmt::Debug for BpfLog {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("BpfLog")
        }
    }

    impl BpfLog {
        /// Takes the ring out of a loaded object.
        ///
        /// # Errors
        /// [`NodeError::Object`].
        pub(crate) fn listen(object: &mut Ebpf) -> Result<Self, NodeError> {
            let logger = EbpfLogger::init_with_logger(object, Forward);
            logger.map(Self).map_err(|_| NodeError::Object("ring of events (AYA_LOGS)"))
        }

        /// Forwards the new log entries.
        pub(crate) fn pass_on(&mut self) {
            self.0.flush();
        }
    }

    /// Forwards log records to the subscriber of the process.
    struct Forward;

    impl Log for Forward {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }

        fn log(&self, record: &Record<'_>) {
            let text = named(&record.args().to_string());
            match record.level() {
                Level::Error | Level::Warn => tracing::warn!(target: "bpf", "{text}"),
                _ => tracing::info!(target: "bpf", "{text}"),
            }
        }

        fn flush(&self) {}
    }

    /// Replaces the number of a counter by its name.
    fn named(text: &str) -> String {
        let name = |(event, number): (&str, &str)| {
            let counter = Counter::ALL.get(number.parse::<usize>().ok()?)?;
            Some(format!("{event}: {}", counter.name()))
        };
        text.split_once(COUNTER).and_then(name).unwrap_or_else(|| text.to_owned())
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_refused_packet_has_its_reason() {
            let text = format!("packet refused{COUNTER}{}", Counter::DropSpi as u32);
            assert_eq!(named(&text), "packet refused: drop_spi");
            assert_eq!(named("slot 3: exchange"), "slot 3: exchange");
            assert_eq!(named("x, counter 9999"), "x, counter 9999");
        }
    }
}

//! The limits of open files: what to do when one is reached, and how a listener goes on.
//!
//! A listener without a free file descriptor accepts nobody. New connections wait in the queue of its socket. It tries again
//! after a pause, because nothing reports that a descriptor is free again.

use std::io;
use std::time::{Duration, Instant};

/// Pause of a listener that cannot accept.
pub(crate) const PAUSE: Duration = Duration::from_millis(100);
/// Least time between two complaints of a listener.
const QUIET: Duration = Duration::from_secs(60);

/// Returns what to do about a failure, if it is for want of a file descriptor.
pub(crate) fn remedy(error: &io::Error) -> Option<&'static str> {
    match error.raw_os_error() {
        Some(libc::EMFILE) => Some(
            "all file descriptors of the process are in use: raise its limit (`ulimit -n`, LimitNOFILE= of the unit)",
        ),
        Some(libc::ENFILE) => {
            Some("all file descriptors of the machine are in use: raise fs.file-max (`sysctl fs.file-max`)")
        }
        _ => None,
    }
}

/// What a listener says when it cannot accept. It complains once in [`QUIET`] at most, however often that fails, and reports
/// the end of it.
#[derive(Debug, Default)]
pub(crate) struct Complaints {
    last: Option<Instant>,
    /// Whether the end is still to be reported.
    open: bool,
}

impl Complaints {
    /// Takes a failure to accept `whom`. Returns the complaint if it is time for one.
    pub(crate) fn failed(&mut self, whom: &str, error: &io::Error, now: Instant) -> Option<String> {
        if self.last.is_some_and(|last| now.saturating_duration_since(last) < QUIET) {
            return None;
        }
        *self = Self { last: Some(now), open: true };
        Some(match remedy(error) {
            Some(remedy) => {
                format!("cannot accept {whom}: {remedy}; new connections wait until one is free")
            }
            None => format!("cannot accept {whom}: {error}"),
        })
    }

    /// Takes a success. Returns true once after a complaint.
    pub(crate) fn ended(&mut self) -> bool {
        std::mem::take(&mut self.open)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn without_descriptors(code: i32, now: Instant, complaints: &mut Complaints) -> Option<String> {
        complaints.failed("a peer", &io::Error::from_raw_os_error(code), now)
    }

    #[test]
    fn each_limit_of_open_files_has_its_remedy() {
        for (code, limit) in [(libc::EMFILE, "`ulimit -n`"), (libc::ENFILE, "`sysctl fs.file-max`")] {
            let said = without_descriptors(code, Instant::now(), &mut Complaints::default());
            let said = said.expect("it is the first");
            assert!(said.starts_with("cannot accept a peer: all file descriptors of the "), "{said}");
            assert!(said.contains(limit) && said.contains("wait until one is free"), "{said}");
        }
        let aborted = io::Error::from_raw_os_error(libc::ECONNABORTED);
        assert_eq!(remedy(&aborted), None);
        let said = Complaints::default().failed("a peer", &aborted, Instant::now());
        assert_eq!(said, Some(format!("cannot accept a peer: {aborted}")));
    }

    /// A listener fails ten times a second for an hour, and accepts somebody now and then.
    #[test]
    fn a_listener_complains_once_a_minute_and_reports_the_end() {
        let (mut complaints, start) = (Complaints::default(), Instant::now());
        assert!(!complaints.ended(), "nothing has failed");
        let (mut said, mut ends) = (0, 0);
        for step in 0..36_000 {
            let now = start + PAUSE * step;
            said += u32::from(without_descriptors(libc::EMFILE, now, &mut complaints).is_some());
            ends += u32::from(step % 7 == 6 && complaints.ended());
        }
        assert_eq!((said, ends), (60, 60));
        let later = start + PAUSE * 36_000;
        assert!(without_descriptors(libc::EMFILE, later, &mut complaints).is_some());
        assert!(complaints.ended() && !complaints.ended());
    }
}

//! Log messages about rare events, for finding faults. Without the feature `log`, the programs contain none of
//! this. With it, the node still decides at load time whether messages are logged.

/// Logs an event: level, context of the program, format, values.
#[cfg(feature = "log")]
macro_rules! tell {
    ($level:ident, $ctx:expr, $($text:tt)+) => { aya_log_ebpf::$level!($ctx, $($text)+) };
}

/// Does nothing. It does not even evaluate the values.
#[cfg(not(feature = "log"))]
macro_rules! tell {
    ($level:ident, $ctx:expr, $text:literal $(, $value:expr)*) => { {
        let _ = || { let _ = (&$ctx $(, &$value)*); };
    } };
}

pub(crate) use tell;

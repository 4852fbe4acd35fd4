//! Rare events, for whoever looks for a fault. Without the feature `log` there is nothing of it in the programs; with it
//! the node still decides, when it loads them, whether anything is told.

/// Tells of an event: level, context of the program, format, values.
#[cfg(feature = "log")]
macro_rules! tell {
    ($level:ident, $ctx:expr, $($text:tt)+) => { aya_log_ebpf::$level!($ctx, $($text)+) };
}

/// Nothing; the values are not even looked at.
#[cfg(not(feature = "log"))]
macro_rules! tell {
    ($level:ident, $ctx:expr, $text:literal $(, $value:expr)*) => { {
        let _ = || { let _ = (&$ctx $(, &$value)*); };
    } };
}

pub(crate) use tell;

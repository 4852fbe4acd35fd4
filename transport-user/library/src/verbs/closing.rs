//! When a connection that is being closed has to be asked whether the datapath has closed it.

use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Time between two questions. One copies the whole connection, under its lock.
const ASK_AGAIN: Duration = Duration::from_millis(20);

/// A connection that is being closed, or not. Its shared page says when the datapath has closed it, but this is a hint: the
/// application can write there whatever it likes. So the datapath itself is asked: once at the hint, and from time to time
/// without it.
#[derive(Debug, Default)]
pub(crate) struct Closing(Mutex<Option<Question>>);

#[derive(Clone, Copy, Debug)]
struct Question {
    /// When it was asked last, or when closing began.
    last: Instant,
    /// Whether it was asked at the hint.
    hinted: bool,
}

impl Closing {
    /// Notes that the connection is being closed. Returns false if it was before.
    pub(crate) fn begin(&self, now: Instant) -> bool {
        let mut question = self.0.lock().expect("no panic under the lock");
        let first = question.is_none();
        question.get_or_insert(Question { last: now, hinted: false });
        first
    }

    /// Returns whether the connection is being closed.
    pub(crate) fn has_begun(&self) -> bool {
        self.0.lock().expect("no panic under the lock").is_some()
    }

    /// Returns whether the datapath should be asked now. `hint` is what the shared page says.
    pub(crate) fn is_due(&self, hint: bool, now: Instant) -> bool {
        let mut question = self.0.lock().expect("no panic under the lock");
        let Some(question) = question.as_mut() else { return false };
        let due = (hint && !question.hinted) || now.saturating_duration_since(question.last) >= ASK_AGAIN;
        if due {
            *question = Question { last: now, hinted: question.hinted || hint };
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_counts_once_and_time_goes_on() {
        let (closing, begin) = (Closing::default(), Instant::now());
        let at = |millis| begin + Duration::from_millis(millis);
        assert!(!closing.is_due(true, at(0)), "it is not being closed");
        assert!(closing.begin(begin) && !closing.begin(begin) && closing.has_begun());
        assert!(!closing.is_due(false, at(1)));
        assert!(closing.is_due(true, at(2)), "at once with the hint");
        assert!(!closing.is_due(true, at(3)), "the hint was wrong");
        assert!(!closing.is_due(false, at(21)));
        assert!(closing.is_due(false, at(22)));
        assert!(!closing.is_due(true, at(41)) && closing.is_due(true, at(42)));
    }
}

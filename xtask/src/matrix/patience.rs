//! Waiting: for a condition, with a bound, and not beyond the wish of the person in front of the screen.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Between two looks at a condition.
const PAUSE: Duration = Duration::from_millis(50);

/// When everything has to stop: the user says so, or the whole run has taken too long.
#[derive(Clone)]
pub(crate) struct Patience {
    interrupted: Arc<AtomicBool>,
    end: Option<Instant>,
}

impl Patience {
    /// Ends with SIGINT, SIGTERM and SIGHUP, and when `limit` is over. Those signals end the process no more.
    ///
    /// # Errors
    /// If the signals cannot be caught.
    pub(crate) fn new(limit: Option<Duration>) -> Result<Self> {
        let interrupted = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, interrupted.clone()).context("cannot catch signals")?;
        }
        Ok(Self { interrupted, end: limit.map(|limit| Instant::now() + limit) })
    }

    /// # Errors
    /// If everything has to stop.
    pub(crate) fn check(&self) -> Result<()> {
        if self.interrupted.load(Ordering::Relaxed) {
            bail!("interrupted");
        }
        if self.is_over() {
            bail!("the time for the whole run is over");
        }
        Ok(())
    }

    /// Whether the whole run has taken too long.
    pub(crate) fn is_over(&self) -> bool {
        self.end.is_some_and(|end| Instant::now() > end)
    }

    /// Looks again and again until `look` finds something.
    ///
    /// # Errors
    /// If `look` fails, `limit` is over, or everything has to stop.
    pub(crate) fn until<T>(
        &self,
        what: &str,
        limit: Duration,
        mut look: impl FnMut() -> Result<Option<T>>,
    ) -> Result<T> {
        let end = Instant::now() + limit;
        loop {
            self.check()?;
            if let Some(found) = look()? {
                return Ok(found);
            }
            if Instant::now() > end {
                bail!("{what}: not within {} s", limit.as_secs());
            }
            thread::sleep(PAUSE);
        }
    }

    /// Never ends by itself.
    #[cfg(test)]
    pub(crate) fn endless() -> Self {
        Self { interrupted: Arc::default(), end: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_with_what_it_waits_for() {
        let mut looks = 0;
        let found = Patience::endless().until("three", Duration::from_secs(60), || {
            looks += 1;
            Ok((looks == 3).then_some(looks))
        });
        assert_eq!(found.unwrap(), 3);
    }

    #[test]
    fn a_wait_ends_with_its_bound_and_says_what_was_missing() {
        let never = Patience::endless().until("a link", Duration::ZERO, || Ok(None::<()>));
        assert_eq!(never.unwrap_err().to_string(), "a link: not within 0 s");
    }

    #[test]
    fn nothing_is_waited_for_after_an_interruption() {
        let patience = Patience::endless();
        patience.interrupted.store(true, Ordering::Relaxed);
        let error = patience.until("x", Duration::from_secs(60), || Ok(Some(()))).unwrap_err();
        assert_eq!(error.to_string(), "interrupted");
    }
}

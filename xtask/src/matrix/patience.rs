//! Waiting for a condition, with a time limit. The user can interrupt it.

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

/// Pause between two checks of a condition.
const PAUSE: Duration = Duration::from_millis(50);

/// When everything must stop: on a signal, or when the whole run has taken too long.
#[derive(Clone)]
pub(crate) struct Patience {
    interrupted: Arc<AtomicBool>,
    end: Option<Instant>,
}

impl Patience {
    /// Ends on SIGINT, SIGTERM and SIGHUP, and after `limit`. These signals no longer end the process.
    ///
    /// # Errors
    /// If the signal handlers cannot be installed.
    pub(crate) fn new(limit: Option<Duration>) -> Result<Self> {
        let interrupted = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, interrupted.clone()).context("cannot catch signals")?;
        }
        Ok(Self { interrupted, end: limit.map(|limit| Instant::now() + limit) })
    }

    /// # Errors
    /// If everything must stop.
    pub(crate) fn check(&self) -> Result<()> {
        if self.interrupted.load(Ordering::Relaxed) {
            bail!("interrupted");
        }
        if self.is_over() {
            bail!("the time for the whole run is over");
        }
        Ok(())
    }

    /// Returns whether the whole run has taken too long.
    pub(crate) fn is_over(&self) -> bool {
        self.end.is_some_and(|end| Instant::now() > end)
    }

    /// Calls `look` repeatedly until it returns a value.
    ///
    /// # Errors
    /// If `look` fails, `limit` has passed, or everything must stop.
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

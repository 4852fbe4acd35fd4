//! The signal that takes an engine thread out of a live run.
//!
//! The kernel ends a live run early for nothing but a pending signal. So the library takes one for the whole process: a
//! real-time signal that nobody has a handler on. It is sent to engine threads only, and given back with the last of
//! them.

use std::collections::BTreeMap;
use std::io;
use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};

use libc::{c_int, pthread_t};

use crate::error::Error;

/// Engines by the signal they are interrupted with.
static TAKEN: Mutex<BTreeMap<c_int, usize>> = Mutex::new(BTreeMap::new());

/// A signal of this process that is ours while this lives.
#[derive(Debug)]
pub(crate) struct Interrupt {
    signal: c_int,
}

impl Interrupt {
    /// Takes the signal asked for, or the highest real-time signal that nobody has a handler on.
    ///
    /// # Errors
    /// [`Error::EngineOption`] if it is no real-time signal, [`Error::SignalTaken`] if the application has a handler on
    /// it or ignores it.
    pub(crate) fn take(wanted: Option<i32>) -> Result<Self, Error> {
        let mut taken = lock();
        let signal = match wanted {
            Some(signal) => check(signal, &taken)?,
            None => free(&taken)?,
        };
        install(signal).map_err(|error| Error::system("install the engine's signal handler", error))?;
        *taken.entry(signal).or_default() += 1;
        Ok(Self { signal })
    }

    /// Checks what [`Self::take`] would say, and takes nothing.
    pub(crate) fn check(wanted: Option<i32>) -> Result<(), Error> {
        let taken = lock();
        match wanted {
            Some(signal) => check(signal, &taken).map(drop),
            None => free(&taken).map(drop),
        }
    }

    /// Interrupts a live run of `thread`, which must not have been joined.
    pub(crate) fn send(&self, thread: pthread_t) {
        // SAFETY: by the contract of this function. A thread that has ended is no failure that matters.
        let _ = unsafe { libc::pthread_kill(thread, self.signal) };
    }

    /// Lets no other signal through to the calling thread: those of the application would cut live runs short, and one
    /// that the application blocks must not keep this one out.
    pub(crate) fn mask_others(&self) -> io::Result<()> {
        // SAFETY: a set of signals on the stack, filled before it is used.
        let error = unsafe {
            let mut set: libc::sigset_t = mem::zeroed();
            libc::sigfillset(&mut set);
            libc::sigdelset(&mut set, self.signal);
            libc::pthread_sigmask(libc::SIG_SETMASK, &set, std::ptr::null_mut())
        };
        if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(error)) }
    }
}

impl Drop for Interrupt {
    fn drop(&mut self) {
        let mut taken = lock();
        let Some(engines) = taken.get_mut(&self.signal) else { return };
        *engines -= 1;
        if *engines > 0 {
            return;
        }
        taken.remove(&self.signal);
        // The application may have put a handler of its own in our place meanwhile: that one stays.
        if handler(self.signal).is_ok_and(|handler| handler == ours())
            && let Err(error) = set_handler(self.signal, libc::SIG_DFL)
        {
            tracing::warn!(signal = self.signal, %error, "could not give the engine's signal back");
        }
    }
}

fn lock() -> MutexGuard<'static, BTreeMap<c_int, usize>> {
    TAKEN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn check(signal: c_int, taken: &BTreeMap<c_int, usize>) -> Result<c_int, Error> {
    if !(libc::SIGRTMIN()..=libc::SIGRTMAX()).contains(&signal) {
        let range = "a real-time signal, most often 34 to 64 (`kill -l`: SIGRTMIN to SIGRTMAX)";
        return Err(Error::EngineOption { option: "signal", value: signal.unsigned_abs().into(), range });
    }
    let handler = handler(signal).map_err(|error| Error::system("look at a signal's handler", error))?;
    let is_free = handler == libc::SIG_DFL || (handler == ours() && taken.contains_key(&signal));
    if is_free { Ok(signal) } else { Err(Error::SignalTaken { signal }) }
}

fn free(taken: &BTreeMap<c_int, usize>) -> Result<c_int, Error> {
    let mut all = (libc::SIGRTMIN()..=libc::SIGRTMAX()).rev();
    let free = all.find(|signal| check(*signal, taken).is_ok());
    free.ok_or(Error::SignalTaken { signal: libc::SIGRTMAX() })
}

extern "C" fn interrupted(_: c_int) {}

fn ours() -> libc::sighandler_t {
    interrupted as extern "C" fn(c_int) as libc::sighandler_t
}

fn handler(signal: c_int) -> io::Result<libc::sighandler_t> {
    // SAFETY: an action on the stack that the call fills.
    let (result, action) = unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        (libc::sigaction(signal, std::ptr::null(), &mut action), action)
    };
    if result == 0 { Ok(action.sa_sigaction) } else { Err(io::Error::last_os_error()) }
}

fn install(signal: c_int) -> io::Result<()> {
    set_handler(signal, ours())
}

/// Without restart: the signal then ends a live run with `EINTR`.
fn set_handler(signal: c_int, handler: libc::sighandler_t) -> io::Result<()> {
    // SAFETY: an action on the stack, with an empty mask; our handler touches nothing.
    let result = unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = handler;
        libc::sigemptyset(&mut action.sa_mask);
        libc::sigaction(signal, &action, std::ptr::null_mut())
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    extern "C" fn of_the_application(_: c_int) {}

    /// One test, since signals belong to the process.
    #[test]
    fn a_signal_is_taken_shared_refused_and_given_back() {
        let highest = libc::SIGRTMAX();
        let application = of_the_application as extern "C" fn(c_int) as libc::sighandler_t;
        set_handler(highest, application).expect("a real-time signal");
        let first = Interrupt::take(None).expect("there is a free one");
        let second = Interrupt::take(None).expect("the same");
        assert!(first.signal < highest && second.signal == first.signal);
        assert_eq!(handler(first.signal).expect("a signal"), ours());

        let refused = Interrupt::take(Some(highest)).expect_err("the application's");
        assert!(matches!(refused, Error::SignalTaken { signal } if signal == highest), "{refused}");
        assert_eq!(handler(highest).expect("a signal"), application, "it stays the application's");
        for none in [libc::SIGUSR1, 0, -1, highest + 1] {
            assert!(matches!(
                Interrupt::check(Some(none)),
                Err(Error::EngineOption { option: "signal", .. })
            ));
        }

        let signal = first.signal;
        drop(first);
        assert_eq!(handler(signal).expect("a signal"), ours(), "one engine still has it");
        drop(second);
        assert_eq!(handler(signal).expect("a signal"), libc::SIG_DFL);
        let third = Interrupt::take(Some(signal)).expect("free again");
        set_handler(signal, application).expect("a real-time signal");
        drop(third);
        assert_eq!(handler(signal).expect("a signal"), application);
        for signal in [signal, highest] {
            set_handler(signal, libc::SIG_DFL).expect("a real-time signal");
        }
    }
}

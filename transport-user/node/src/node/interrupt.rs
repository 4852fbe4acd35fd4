//! The signal that ends a live run of an engine thread early.
//!
//! The kernel ends a live run early only for a pending signal. So the library uses one signal for the whole
//! process: a real-time signal without a handler. The library sends it to engine threads only, and gives it back
//! when the last one ends.

use std::collections::BTreeMap;
use std::io;
use std::mem;
use std::sync::Mutex;

use libc::{c_int, pthread_t};

use crate::common::mutex::lock;
use crate::node::error::NodeError;

/// Number of engines per signal.
static TAKEN: Mutex<BTreeMap<c_int, usize>> = Mutex::new(BTreeMap::new());

/// A signal of this process that the library uses. Dropping it gives the signal back.
#[derive(Debug)]
pub(crate) struct Interrupt {
    signal: c_int,
}

impl Interrupt {
    /// Takes the given signal, or the highest real-time signal without a handler.
    ///
    /// # Errors
    /// [`NodeError::EngineOption`] if it is not a real-time signal, [`NodeError::SignalTaken`] if the application handles
    /// or ignores it.
    pub(crate) fn take(wanted: Option<i32>) -> Result<Self, NodeError> {
        let mut taken = lock(&TAKEN);
        let signal = match wanted {
            Some(signal) => check(signal, &taken)?,
            None => free(&taken)?,
        };
        install(signal).map_err(|error| NodeError::system("install the engine's signal handler", error))?;
        *taken.entry(signal).or_default() += 1;
        Ok(Self { signal })
    }

    /// Checks whether [`Self::take`] would succeed, without taking a signal.
    pub(crate) fn check(wanted: Option<i32>) -> Result<(), NodeError> {
        let taken = lock(&TAKEN);
        match wanted {
            Some(signal) => check(signal, &taken).map(drop),
            None => free(&taken).map(drop),
        }
    }

    /// Interrupts a live run of `thread`, which must not have been joined.
    pub(crate) fn send(&self, thread: pthread_t) {
        // SAFETY: the caller guarantees that the thread was not joined. If it has ended, the error does not
        // matter.
        let _ = unsafe { libc::pthread_kill(thread, self.signal) };
    }

    /// Blocks all other signals for the calling thread, because signals for the application would end live runs
    /// early. Unblocks this signal, in case the application has blocked it.
    pub(crate) fn mask_others(&self) -> io::Result<()> {
        // SAFETY: the set of signals is on the stack and is filled before it is used.
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
        let mut taken = lock(&TAKEN);
        let Some(engines) = taken.get_mut(&self.signal) else { return };
        *engines -= 1;
        if *engines > 0 {
            return;
        }
        taken.remove(&self.signal);
        // The application may have installed its own handler in the meantime. Then that handler stays.
        if handler(self.signal).is_ok_and(|handler| handler == ours())
            && let Err(error) = set_handler(self.signal, libc::SIG_DFL)
        {
            tracing::warn!(signal = self.signal, %error, "cannot give the engine's signal back");
        }
    }
}

fn check(signal: c_int, taken: &BTreeMap<c_int, usize>) -> Result<c_int, NodeError> {
    if !(libc::SIGRTMIN()..=libc::SIGRTMAX()).contains(&signal) {
        let range = "a real-time signal, most often 34 to 64 (`kill -l`: SIGRTMIN to SIGRTMAX)";
        return Err(NodeError::EngineOption { option: "signal", value: signal.unsigned_abs().into(), range });
    }
    let handler = handler(signal).map_err(|error| NodeError::system("read a signal's handler", error))?;
    let is_free = handler == libc::SIG_DFL || (handler == ours() && taken.contains_key(&signal));
    if is_free { Ok(signal) } else { Err(NodeError::SignalTaken { signal }) }
}

fn free(taken: &BTreeMap<c_int, usize>) -> Result<c_int, NodeError> {
    let mut all = (libc::SIGRTMIN()..=libc::SIGRTMAX()).rev();
    let free = all.find(|signal| check(*signal, taken).is_ok());
    free.ok_or(NodeError::SignalTaken { signal: libc::SIGRTMAX() })
}

// Its address tells our handler from others. A function that may be inlined has one in each unit of code generation.
#[inline(never)]
extern "C" fn interrupted(_: c_int) {}

fn ours() -> libc::sighandler_t {
    interrupted as extern "C" fn(c_int) as libc::sighandler_t
}

fn handler(signal: c_int) -> io::Result<libc::sighandler_t> {
    // SAFETY: the action is on the stack, and the call fills it.
    let (result, action) = unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        (libc::sigaction(signal, std::ptr::null(), &mut action), action)
    };
    if result == 0 { Ok(action.sa_sigaction) } else { Err(io::Error::last_os_error()) }
}

fn install(signal: c_int) -> io::Result<()> {
    set_handler(signal, ours())
}

/// Sets a handler without `SA_RESTART`, so that the signal ends a live run with `EINTR`.
fn set_handler(signal: c_int, handler: libc::sighandler_t) -> io::Result<()> {
    // SAFETY: the action is on the stack and has an empty mask, and our handler does nothing.
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

    #[inline(never)]
    extern "C" fn of_the_application(_: c_int) {}

    /// This is a single test, because signals belong to the whole process.
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
        assert!(matches!(refused, NodeError::SignalTaken { signal } if signal == highest), "{refused}");
        assert_eq!(handler(highest).expect("a signal"), application, "it stays the application's");
        for none in [libc::SIGUSR1, 0, -1, highest + 1] {
            assert!(matches!(
                Interrupt::check(Some(none)),
                Err(NodeError::EngineOption { option: "signal", .. })
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

//! Waits for packets of the peer, and for their absence.

use transport_common::units::{PicosecondSpan, Picoseconds};

use super::Session;
use crate::received::Received;
use crate::verdict::{Outcome, Stop};

impl Session<'_> {
    /// Waits for a packet. Packets before it stay available for later calls.
    ///
    /// # Errors
    /// [`Stop::Fail`] if it does not arrive in time.
    pub fn expect(&mut self, what: &str, matches: impl FnMut(&Received) -> bool) -> Outcome<Received> {
        let patience = self.patience.answer;
        self.expect_within(patience, what, matches)
    }

    /// Waits for a packet for a given time.
    ///
    /// # Errors
    /// [`Stop::Fail`] if it does not arrive in time.
    pub fn expect_within(
        &mut self,
        patience: PicosecondSpan,
        what: &str,
        matches: impl FnMut(&Received) -> bool,
    ) -> Outcome<Received> {
        match self.find(patience, matches)? {
            Some(received) => Ok(received),
            None => {
                Err(Stop::fail(what, format!("no such packet in {} ms", patience.as_nanos() / 1_000_000)))
            }
        }
    }

    /// Waits for a packet for a given time. Returns `None` if it does not arrive.
    ///
    /// # Errors
    /// If the interface fails.
    pub fn find(
        &mut self,
        patience: PicosecondSpan,
        matches: impl FnMut(&Received) -> bool,
    ) -> Outcome<Option<Received>> {
        let deadline = self.wire.now().after(patience);
        self.find_by(deadline, matches)
    }

    /// Waits for a packet that arrives until `deadline`, whenever the tester takes it. Later packets stay available for later
    /// calls.
    ///
    /// # Errors
    /// If the interface fails.
    pub fn find_by(
        &mut self,
        deadline: Picoseconds,
        mut matches: impl FnMut(&Received) -> bool,
    ) -> Outcome<Option<Received>> {
        let mut looked_at = 0;
        loop {
            while let Some(received) = self.inbox.get(looked_at) {
                if received.at.0 <= deadline.0 && matches(received) {
                    return Ok(self.inbox.remove(looked_at));
                }
                looked_at += 1;
            }
            if !self.take(deadline)? {
                return Ok(None);
            }
        }
    }

    /// Checks that no such packet arrives for a while.
    ///
    /// # Errors
    /// [`Stop::Fail`] with the packet if one arrives.
    pub fn silence(&mut self, what: &str, matches: impl FnMut(&Received) -> bool) -> Outcome {
        let patience = self.patience.silence;
        self.silence_for(patience, what, matches)
    }

    /// Checks that no such packet arrives for this time.
    ///
    /// # Errors
    /// [`Stop::Fail`] with the packet if one arrives.
    pub fn silence_for(
        &mut self,
        patience: PicosecondSpan,
        what: &str,
        matches: impl FnMut(&Received) -> bool,
    ) -> Outcome {
        let deadline = self.wire.now().after(patience);
        self.silence_by(deadline, what, matches)
    }

    /// Checks that no such packet arrives until `deadline`, whenever the tester takes it.
    ///
    /// # Errors
    /// [`Stop::Fail`] with the packet if one arrives.
    pub fn silence_by(
        &mut self,
        deadline: Picoseconds,
        what: &str,
        matches: impl FnMut(&Received) -> bool,
    ) -> Outcome {
        match self.find_by(deadline, matches)? {
            Some(received) => Err(Stop::fail(what, received.text())),
            None => Ok(()),
        }
    }
}

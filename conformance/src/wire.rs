//! The network between the tester and its peer.

use std::io;

use transport_common::units::Picoseconds;

/// Sends frames to the peer and receives the peer's frames.
pub trait Wire {
    /// Returns the tester's clock. It never goes back.
    fn now(&mut self) -> Picoseconds;

    /// Sends an Ethernet frame.
    ///
    /// # Errors
    /// If the interface does not take the frame.
    fn send(&mut self, frame: &[u8]) -> io::Result<()>;

    /// Waits for the next frame until `deadline`. Returns the frame and the time when it arrived, or `None`
    /// at the deadline. A caller that is late gets first what arrived before.
    ///
    /// # Errors
    /// If the interface fails.
    fn receive(&mut self, deadline: Picoseconds) -> io::Result<Option<(Picoseconds, Vec<u8>)>>;
}

impl<W: Wire + ?Sized> Wire for &mut W {
    fn now(&mut self) -> Picoseconds {
        (**self).now()
    }

    fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        (**self).send(frame)
    }

    fn receive(&mut self, deadline: Picoseconds) -> io::Result<Option<(Picoseconds, Vec<u8>)>> {
        (**self).receive(deadline)
    }
}

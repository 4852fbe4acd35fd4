//! Parses a frame into a [`Packet`](crate::wire::packet::Packet): all checks that need no connection (D-23 step 1).
//!
//! In two stages, with the opening of the packet between them: [`outer`] reads what anybody on the way may read and change,
//! `open` makes an [`Opened`](open::Opened) of it, and only with that [`inner`] reads the rest. So no
//! header that a cipher protects is read before it is authentic.

mod inner;
mod open;
mod outer;
mod parsed;

use super::{Platform, Scratch};
use open::{Opener, Plaintext};
use parsed::Parsed;

pub use parsed::{mac_word, words};

/// Parses the frame into `s.step.input.packet`. Returns a [`Parsed`] in one word, because a function of the BPF
/// target returns no more.
#[inline(never)]
pub(super) fn parse<P: Platform>(p: &mut P, s: &mut Scratch) -> u32 {
    match parse_frame(p, s) {
        Parsed::Falcon => FALCON,
        Parsed::Pass(counter) => PASS | counter as u32,
        Parsed::Drop(counter) => DROP | counter as u32,
    }
}

/// Result of [`parse`]: a Falcon packet, now in the scratch.
pub(super) const FALCON: u32 = 0;
/// Result of [`parse`]: not a packet for us. The lower bits hold the counter.
pub(super) const PASS: u32 = 1 << 16;
/// Result of [`parse`]: a packet for us that is unusable. The lower bits hold the counter.
pub(super) const DROP: u32 = 2 << 16;

/// Each stage takes what comes after it as a function, and does not return what it found: merged with every way to fail, that
/// would cost 60 instructions for each packet.
#[inline(always)]
fn parse_frame<P: Platform>(p: &mut P, s: &mut Scratch) -> Parsed {
    let mut cursor = p.cursor();
    outer::read(p, s, &mut cursor, |s, cursor, sealed| {
        Plaintext.open(sealed, |opened| inner::read(s, cursor, opened))
    })
}

//! Sizes of the windows, and the bitmap that holds a window.

use crate::bitmap::Bitmap128;

/// Largest transmit and receive window for Pull Requests, packets (F-9-1).
pub const REQUEST_WINDOW: u32 = 64;
/// Largest transmit and receive window for Push and Pull Data, packets (F-9-1).
pub const DATA_WINDOW: u32 = 128;
/// Entries of a packet table.
pub const PACKETS: usize = DATA_WINDOW as usize;

/// One bit for each packet of a window, from its base on. An EACK on the wire always has 128 bits for data and 64 for
/// requests (F-7.7.2): a wider window needs another format of it too.
pub type WindowBits = Bitmap128;

const _: () = {
    assert!(
        DATA_WINDOW == WindowBits::WIDTH,
        "the bitmap of a window has another width: choose another `WindowBits`"
    );
    assert!(REQUEST_WINDOW <= u64::BITS, "an EACK shows the request window in one word");
};

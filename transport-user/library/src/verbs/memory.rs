//! The allocation of the node's registered memory.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use range_alloc::RangeAllocator;
use transport_common::queues::{BANK_BYTES, DEFAULT_MEMORY, MAX_BANKS};

use crate::common::error::Error;
use crate::verbs::maps::Maps;

/// Bytes of a node's memory if nothing else is asked for. Also the least: transfers that peers begin may use a quarter of
/// it.
pub const DEFAULT: u64 = DEFAULT_MEMORY;
/// Most bytes of a node's memory.
pub const MOST: u64 = (MAX_BANKS * BANK_BYTES) as u64;

/// Granularity of allocation, bytes.
pub(crate) const PAGE: usize = 4096;

/// Returns the bytes of whole banks for a node with `asked` bytes of memory.
pub fn whole_banks(asked: u64) -> Result<u64, Error> {
    if !(DEFAULT..=MOST).contains(&asked) {
        return Err(Error::NodeMemory { asked, least: DEFAULT, most: MOST });
    }
    Ok(asked.next_multiple_of(BANK_BYTES as u64))
}

/// Returns an error if the machine does not have the memory of a node. The kernel would find that out too, but only after
/// it has taken from all others what they can spare.
pub fn check_available(asked: u64) -> Result<(), Error> {
    let available = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| available_in(&text));
    match available {
        Some(free) if free < asked => Err(Error::NoNodeMemory { asked, available }),
        _ => Ok(()),
    }
}

/// Returns the bytes that are available by the text of `/proc/meminfo`.
fn available_in(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim_end().parse::<u64>().ok()?.checked_mul(1024)
}

/// The pages of the pool, by number.
#[derive(Debug)]
pub struct Pool {
    pages: Mutex<RangeAllocator<usize>>,
}

impl Pool {
    /// Makes a pool of `bytes` bytes with no allocations.
    pub(crate) fn new(bytes: usize) -> Self {
        Self { pages: Mutex::new(RangeAllocator::new(0..bytes / PAGE)) }
    }

    fn take(&self, bytes: usize) -> Result<Range<usize>, Error> {
        let mut pages = self.pages.lock().expect("no panic under the lock");
        pages.allocate_range(bytes.div_ceil(PAGE)).map_err(|error| {
            let largest = largest_hole(&pages) * PAGE;
            let free = error.fragmented_free_length * PAGE;
            Error::OutOfMemory { asked: bytes as u64, free: free as u64, largest: largest as u64 }
        })
    }

    fn give_back(&self, pages: Range<usize>) {
        self.pages.lock().expect("no panic under the lock").free_range(pages);
    }

    /// Returns the number of bytes that are not allocated.
    pub fn free_bytes(&self) -> usize {
        self.pages.lock().expect("no panic under the lock").total_available() * PAGE
    }
}

fn largest_hole(pages: &RangeAllocator<usize>) -> usize {
    let mut largest = 0;
    let mut end = pages.initial_range().start;
    for taken in pages.allocated_ranges() {
        largest = largest.max(taken.start - end);
        end = taken.end;
    }
    largest.max(pages.initial_range().end - end)
}

/// A zeroed piece of the node's memory. Dropping it frees the memory.
///
/// Each work request in flight keeps a reference to its memory by an [`Arc`]. So memory that the datapath may
/// still read or write is not allocated again.
#[derive(Debug)]
pub(crate) struct Allocation {
    maps: Arc<Maps>,
    pool: Arc<Pool>,
    pages: Range<usize>,
    length: usize,
}

impl Allocation {
    /// Allocates `length` bytes, at least 1, and zeroes them, so that old content is not visible.
    pub(crate) fn new(maps: &Arc<Maps>, pool: &Arc<Pool>, length: usize) -> Result<Self, Error> {
        if length == 0 {
            return Err(Error::EmptyRegion);
        }
        let pages = pool.take(length)?;
        let allocation = Self { maps: Arc::clone(maps), pool: Arc::clone(pool), pages, length };
        // SAFETY: only this allocation uses the pages, and they lie within the mapping.
        unsafe { allocation.as_ptr().write_bytes(0, allocation.pages.len() * PAGE) };
        Ok(allocation)
    }

    /// Returns the offset of the first byte in the node's memory.
    pub(crate) fn offset(&self) -> u64 {
        (self.pages.start * PAGE) as u64
    }

    /// Returns the length that was requested, bytes.
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// Returns a pointer to the first byte.
    pub(crate) fn as_ptr(&self) -> *mut u8 {
        // SAFETY: the address is within the mapping.
        unsafe { self.maps.memory.as_ptr().add(self.pages.start * PAGE) }
    }

    /// Returns whether `[offset, offset + length)` lies within.
    pub(crate) fn contains(&self, offset: u64, length: u64) -> bool {
        offset <= self.length as u64 && length <= self.length as u64 - offset
    }

    /// Returns whether it is memory of the node with these maps.
    pub(crate) fn belongs_to(&self, maps: &Arc<Maps>) -> bool {
        Arc::ptr_eq(&self.maps, maps)
    }

    /// Copies `bytes` to `offset`. Returns false if they do not fit. A peer that reads at the same time may see a
    /// part of them.
    pub(crate) fn write(&self, offset: u64, bytes: &[u8]) -> bool {
        if !self.contains(offset, bytes.len() as u64) {
            return false;
        }
        // SAFETY: the check makes sure that this is in bounds, and no reference to this memory exists.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.as_ptr().add(offset as usize), bytes.len())
        };
        true
    }

    /// Copies bytes from `offset`. Returns false if the region is too short. If a peer writes at the same time, a
    /// part of its bytes may be seen.
    pub(crate) fn read(&self, offset: u64, bytes: &mut [u8]) -> bool {
        if !self.contains(offset, bytes.len() as u64) {
            return false;
        }
        // SAFETY: as for `write`.
        unsafe {
            std::ptr::copy_nonoverlapping(self.as_ptr().add(offset as usize), bytes.as_mut_ptr(), bytes.len())
        };
        true
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        self.pool.give_back(self.pages.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const POOL_BYTES: usize = 256 << 20;

    #[test]
    fn a_node_has_whole_banks() {
        assert_eq!(whole_banks(DEFAULT).ok(), Some(DEFAULT));
        assert_eq!(whole_banks(DEFAULT + 1).ok(), Some(DEFAULT + BANK_BYTES as u64));
        assert_eq!(whole_banks(MOST).ok(), Some(MOST));
        for asked in [0, DEFAULT - 1, MOST + 1, u64::MAX] {
            assert!(matches!(whole_banks(asked), Err(Error::NodeMemory { .. })), "{asked}");
        }
    }

    #[test]
    fn what_the_machine_has_is_read() {
        let text = "MemTotal:       24567890 kB\nMemAvailable:   20000 kB\n";
        assert_eq!(available_in(text), Some(20_000 * 1024));
        for bad in ["", "MemAvailable: 5", "MemAvailable: x kB", "MemAvailable: 99999999999999999999 kB"] {
            assert_eq!(available_in(bad), None, "{bad}");
        }
        assert!(check_available(1).is_ok());
        assert!(matches!(check_available(u64::MAX), Err(Error::NoNodeMemory { available: Some(_), .. })));
    }

    #[test]
    fn the_whole_pool_is_one_piece_again_after_everything_came_back() {
        let pool = Pool::new(POOL_BYTES);
        let pieces: Vec<_> = (1..100).map(|n| pool.take(n * 1000).expect("there is room")).collect();
        for piece in pieces.into_iter().rev() {
            pool.give_back(piece);
        }
        assert_eq!(pool.free_bytes(), POOL_BYTES);
        let all = pool.take(POOL_BYTES).expect("coalesced");
        assert_eq!(all, 0..POOL_BYTES / PAGE);
        assert_eq!(pool.free_bytes(), 0);
    }

    #[test]
    fn a_full_pool_says_how_much_there_is() {
        let pool = Pool::new(POOL_BYTES);
        let first = pool.take(PAGE).expect("there is room");
        pool.take(POOL_BYTES - 2 * PAGE).expect("there is room");
        pool.give_back(first);
        let Err(Error::OutOfMemory { asked, free, largest }) = pool.take(2 * PAGE) else {
            panic!("two holes of one page are not one of two");
        };
        assert_eq!((asked, free, largest), (2 * PAGE as u64, 2 * PAGE as u64, PAGE as u64));
    }

    proptest! {
        /// Compared with a simple model (one flag per page): pieces never overlap, and are freed completely.
        #[test]
        fn pieces_never_overlap(steps in prop::collection::vec((any::<bool>(), 1usize..40_000_000), 1..60)) {
            let pool = Pool::new(POOL_BYTES);
            let mut taken = vec![false; POOL_BYTES / PAGE];
            let mut pieces: Vec<Range<usize>> = Vec::new();
            for (give_back, n) in steps {
                if give_back && !pieces.is_empty() {
                    let piece = pieces.swap_remove(n % pieces.len());
                    taken[piece.clone()].fill(false);
                    pool.give_back(piece);
                } else if let Ok(piece) = pool.take(n) {
                    prop_assert!(taken[piece.clone()].iter().all(|t| !t) && piece.len() == n.div_ceil(PAGE));
                    taken[piece.clone()].fill(true);
                    pieces.push(piece);
                } else {
                    let longest = taken.split(|t| *t).map(<[bool]>::len).max().unwrap_or(0);
                    prop_assert!(longest < n.div_ceil(PAGE), "refused although there is a hole");
                }
                prop_assert_eq!(pool.free_bytes(), taken.iter().filter(|t| !**t).count() * PAGE);
            }
        }
    }
}

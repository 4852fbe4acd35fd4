//! Which bytes of a file cross: all of them, or of a sparse file those that are not in a hole.

use sha2::{Digest, Sha256};

use super::super::disk::Pulse;
use super::trouble::Trouble;

/// Most extents of a sparse file that an offer lists. If a file has more, small holes cross as zeros.
pub(super) const MOST_EXTENTS: usize = 1024;
/// A hole that is shorter crosses as zeros, bytes.
const SHORTEST_HOLE: u64 = 64 << 10;
/// Zeros are hashed in pieces of this size.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// The data of a file: its length, and the extents that cross, in order. What crosses is their bytes, one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Layout {
    length: u64,
    /// Begin and length of each.
    extents: Vec<(u64, u64)>,
}

impl Layout {
    /// A file without holes.
    pub(in super::super) fn dense(length: u64) -> Self {
        Self { length, extents: if length == 0 { Vec::new() } else { vec![(0, length)] } }
    }

    /// A file with these data, each with its begin and its end, in order.
    pub(super) fn sparse(length: u64, data: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let mut extents: Vec<(u64, u64)> = Vec::new();
        for (begin, end) in data {
            let end = end.min(length);
            match extents.last_mut() {
                Some((at, bytes)) if begin.saturating_sub(*at + *bytes) < SHORTEST_HOLE => *bytes = end - *at,
                _ if begin < end => extents.push((begin, end - begin)),
                _ => {}
            }
        }
        let mut shortest = SHORTEST_HOLE;
        while extents.len() > MOST_EXTENTS {
            shortest *= 2;
            let merge = |kept: &mut Vec<(u64, u64)>, (at, bytes): (u64, u64)| match kept.last_mut() {
                Some((first, whole)) if at - (*first + *whole) < shortest => *whole = at + bytes - *first,
                _ => kept.push((at, bytes)),
            };
            let mut kept = Vec::new();
            extents.into_iter().for_each(|extent| merge(&mut kept, extent));
            extents = kept;
        }
        Self { length, extents }
    }

    /// Returns the layout that a peer tells, if it is one.
    pub(in super::super) fn told(length: u64, extents: Vec<(u64, u64)>) -> Option<Self> {
        let mut end = 0_u64;
        for &(at, bytes) in &extents {
            if at < end || bytes == 0 {
                return None;
            }
            end = at.checked_add(bytes)?;
        }
        (extents.len() <= MOST_EXTENTS && end <= length).then_some(Self { length, extents })
    }

    /// Length of the file, bytes.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Number of bytes that cross.
    pub(super) fn crossing(&self) -> u64 {
        self.extents.iter().map(|(_, bytes)| bytes).sum()
    }

    /// Returns the extents if there are holes.
    pub(super) fn holes(&self) -> Option<&[(u64, u64)]> {
        (self.crossing() < self.length).then_some(&self.extents)
    }
}

/// Goes through the data of a file in order, and hashes the whole file.
#[derive(Debug)]
pub(super) struct Walk {
    layout: Layout,
    /// The extent that comes next, and the bytes of it that are done.
    extent: usize,
    within: u64,
    /// What is hashed of the file.
    hashed: u64,
    hash: Sha256,
}

impl Walk {
    pub(super) fn new(layout: Layout) -> Self {
        Self { layout, extent: 0, within: 0, hashed: 0, hash: Sha256::new() }
    }

    pub(super) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns the place in the file and the number, at most `most`, of the next bytes that cross.
    pub(super) fn next(&self, most: usize) -> Option<(u64, usize)> {
        let (at, bytes) = self.layout.extents.get(self.extent)?;
        Some((at + self.within, most.min((bytes - self.within).try_into().unwrap_or(usize::MAX))))
    }

    /// Hashes the bytes that [`Self::next`] named, and goes past them.
    pub(super) fn pass(&mut self, bytes: &[u8], pulse: &Pulse) -> Result<(), Trouble> {
        let Some((at, size)) = self.next(bytes.len()) else { return Err(Trouble::OutOfStep) };
        debug_assert_eq!(size, bytes.len());
        self.hash_zeros(at, pulse)?;
        self.hash.update(bytes);
        self.hashed += bytes.len() as u64;
        self.within += bytes.len() as u64;
        if self.within == self.layout.extents[self.extent].1 {
            (self.extent, self.within) = (self.extent + 1, 0);
        }
        Ok(())
    }

    /// Hashes the hole up to `end`. A file may have terabytes of it.
    fn hash_zeros(&mut self, end: u64, pulse: &Pulse) -> Result<(), Trouble> {
        while self.hashed < end {
            if !pulse.goes_on() {
                return Err(Trouble::Cancelled);
            }
            let piece = ZEROS.len().min((end - self.hashed).try_into().unwrap_or(usize::MAX));
            self.hash.update(&ZEROS[..piece]);
            self.hashed += piece as u64;
        }
        Ok(())
    }

    /// Returns the SHA-256 of the whole file, hexadecimal.
    pub(super) fn digest(&mut self, pulse: &Pulse) -> Result<String, Trouble> {
        self.hash_zeros(self.layout.length, pulse)?;
        Ok(hex::encode(self.hash.finalize_reset()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// What crosses, put at its places, is the file; and the hash is that of the file.
        #[test]
        fn the_pieces_make_the_file(runs in prop::collection::vec((0..300_000_u64, 1..300_000_u64), 0..12), tail in 0..200_000_u64, piece in 1..100_000_usize) {
            let (mut at, mut data) = (0, Vec::new());
            for (gap, bytes) in runs {
                data.push((at + gap, at + gap + bytes));
                at += gap + bytes;
            }
            let mut file = vec![0; (at + tail) as usize];
            for &(begin, end) in &data {
                file[begin as usize..end as usize].fill(7);
            }
            let layout = Layout::sparse(file.len() as u64, data);
            prop_assert_eq!(Layout::told(layout.length, layout.extents.clone()), Some(layout.clone()));
            let (pulse, mut walk, mut copy) = (Pulse::default(), Walk::new(layout.clone()), vec![0; file.len()]);
            let mut crossed = 0;
            while let Some((at, size)) = walk.next(piece) {
                let bytes = &file[at as usize..][..size];
                copy[at as usize..][..size].copy_from_slice(bytes);
                walk.pass(bytes, &pulse).unwrap();
                crossed += size as u64;
            }
            prop_assert_eq!(crossed, layout.crossing());
            prop_assert_eq!(walk.digest(&pulse).unwrap(), hex::encode(Sha256::digest(&file)));
            prop_assert!(copy == file);
        }
    }

    #[test]
    fn a_file_with_many_holes_has_few_extents() {
        let data = (0..10_000_u64).map(|n| (n << 20, (n << 20) + 1));
        let layout = Layout::sparse(10_000 << 20, data);
        assert!(
            layout.extents.len() <= MOST_EXTENTS
                && layout.holes().is_some() == (layout.crossing() < 10_000 << 20)
        );
    }

    #[test]
    fn what_a_peer_tells_is_checked() {
        assert!(Layout::told(10, vec![(0, 4), (6, 4)]).is_some() && Layout::told(0, vec![]).is_some());
        for wrong in
            [vec![(0, 11)], vec![(4, 2), (0, 2)], vec![(0, 4), (3, 2)], vec![(1, 0)], vec![(u64::MAX, 2)]]
        {
            assert_eq!(Layout::told(10, wrong.clone()), None, "{wrong:?}");
        }
        assert_eq!(Layout::told(u64::MAX, (0..=MOST_EXTENTS as u64).map(|n| (2 * n, 1)).collect()), None);
    }
}

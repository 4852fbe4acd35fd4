//! The lookup of a table: it finds the entry that matches a key.

use std::collections::{HashMap, HashSet};

use super::error::MatchFault;
use super::ir::{Chosen, Match, MatchKind, Table, mask};

/// Exact keys of at most this many bits are looked up in an array.
const DIRECT_BITS: u32 = 12;
/// No entry.
const NONE: u32 = u32::MAX;

/// The bounds of a field with range match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Bounds {
    shift: u32,
    width: u32,
    low: u128,
    high: u128,
}

/// The keys that match an entry.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Pattern {
    value: u128,
    mask: u128,
    bounds: Vec<Bounds>,
    /// Number of leading bits that are compared.
    prefix: u32,
}

#[derive(Clone, Debug)]
enum Index {
    Direct(Vec<u32>),
    Hash(HashMap<u128, u32>),
    /// Patterns in the order in which they are tried.
    Scan(Vec<(Pattern, u32)>),
}

/// The entries of a table, indexed for lookup.
#[derive(Clone, Debug)]
pub(super) struct Lookup {
    keys: Vec<(MatchKind, u32)>,
    index: Index,
    patterns: HashSet<Pattern>,
    entries: Vec<Chosen>,
    pub(super) default: Chosen,
    size: usize,
}

impl Lookup {
    /// Creates the lookup of a table. The error is the index of the first invalid entry and its problem. If the
    /// key itself is invalid, the index is `usize::MAX`.
    pub(super) fn new(table: &Table) -> Result<Self, (usize, MatchFault)> {
        let bits: u32 = table.keys.iter().map(|(_, width)| *width).sum();
        let is_exact = table.keys.iter().all(|(kind, _)| *kind == MatchKind::Exact);
        if table.keys.iter().filter(|(kind, _)| *kind == MatchKind::Lpm).count() > 1 {
            return Err((usize::MAX, MatchFault::TwoPrefixes));
        }
        let index = match is_exact {
            true if bits <= DIRECT_BITS => Index::Direct(vec![NONE; 1 << bits]),
            true => Index::Hash(HashMap::new()),
            false => Index::Scan(Vec::new()),
        };
        let mut lookup = Self {
            keys: table.keys.clone(),
            index,
            patterns: HashSet::new(),
            entries: Vec::new(),
            default: table.default.clone(),
            size: table.size,
        };
        for (number, entry) in table.entries.iter().enumerate() {
            lookup.insert(&entry.matches, entry.chosen.clone()).map_err(|fault| (number, fault))?;
        }
        Ok(lookup)
    }

    fn pattern(&self, matches: &[Match]) -> Result<Pattern, MatchFault> {
        let mut pattern = Pattern { value: 0, mask: 0, bounds: Vec::new(), prefix: 0 };
        if matches.len() != self.keys.len() {
            return Err(MatchFault::Count);
        }
        let mut shift: u32 = self.keys.iter().map(|(_, width)| *width).sum();
        for (one, (kind, width)) in matches.iter().zip(&self.keys) {
            shift -= *width;
            let all = mask(*width);
            let widest = match *one {
                Match::Any => 0,
                Match::Value(value) => value,
                Match::Mask(value, mask) => value | mask,
                Match::Range(low, high) => low | high,
            };
            if widest > all {
                return Err(MatchFault::Width);
            }
            let (value, wanted) = match (kind, *one) {
                (_, Match::Value(value)) => (value, all),
                (MatchKind::Exact, _) => return Err(MatchFault::Exact),
                (_, Match::Any) => (0, 0),
                (MatchKind::Ternary, Match::Mask(value, mask)) => (value, mask),
                (MatchKind::Lpm, Match::Mask(value, mask)) => {
                    let rest = !mask & all;
                    if rest & rest.wrapping_add(1) != 0 {
                        return Err(MatchFault::Prefix);
                    }
                    (value, mask)
                }
                (MatchKind::Range, Match::Range(low, high)) if low <= high => {
                    pattern.bounds.push(Bounds { shift, width: *width, low, high });
                    (0, 0)
                }
                (MatchKind::Lpm, _) => return Err(MatchFault::Prefix),
                (MatchKind::Ternary, _) => return Err(MatchFault::Ternary),
                (MatchKind::Range, _) => return Err(MatchFault::Range),
            };
            if *kind == MatchKind::Lpm {
                pattern.prefix = wanted.count_ones();
            }
            pattern.value |= (value & wanted) << shift;
            pattern.mask |= wanted << shift;
        }
        Ok(pattern)
    }

    /// Adds an entry after the others.
    pub(super) fn insert(&mut self, matches: &[Match], chosen: Chosen) -> Result<(), MatchFault> {
        let pattern = self.pattern(matches)?;
        if self.patterns.contains(&pattern) {
            return Err(MatchFault::Duplicate);
        }
        if self.entries.len() >= self.size {
            return Err(MatchFault::Full);
        }
        self.patterns.insert(pattern.clone());
        let number = self.entries.len() as u32;
        self.entries.push(chosen);
        match &mut self.index {
            Index::Direct(numbers) => numbers[pattern.value as usize] = number,
            Index::Hash(numbers) => {
                numbers.insert(pattern.value, number);
            }
            Index::Scan(patterns) => {
                // With lpm and exact fields only, the longest prefix is tried first. Otherwise the order of the
                // entries decides.
                let by_prefix =
                    self.keys.iter().all(|(kind, _)| matches!(kind, MatchKind::Lpm | MatchKind::Exact));
                let place = if by_prefix {
                    patterns.partition_point(|(other, _)| other.prefix >= pattern.prefix)
                } else {
                    patterns.len()
                };
                patterns.insert(place, (pattern, number));
            }
        }
        Ok(())
    }

    /// Removes all entries.
    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.patterns.clear();
        match &mut self.index {
            Index::Direct(numbers) => numbers.fill(NONE),
            Index::Hash(numbers) => numbers.clear(),
            Index::Scan(patterns) => patterns.clear(),
        }
    }

    /// Returns the action for a key, and true if an entry matched. The fields of the key are concatenated.
    #[inline]
    pub(super) fn find(&self, key: u128) -> (&Chosen, bool) {
        let number = match &self.index {
            Index::Direct(numbers) => numbers.get(key as usize).copied().unwrap_or(NONE),
            Index::Hash(numbers) => numbers.get(&key).copied().unwrap_or(NONE),
            Index::Scan(patterns) => patterns
                .iter()
                .find(|(pattern, _)| {
                    key & pattern.mask == pattern.value
                        && pattern.bounds.iter().all(|bounds| {
                            let field = key >> bounds.shift & mask(bounds.width);
                            (bounds.low..=bounds.high).contains(&field)
                        })
                })
                .map_or(NONE, |(_, number)| *number),
        };
        self.entries.get(number as usize).map_or((&self.default, false), |chosen| (chosen, true))
    }
}

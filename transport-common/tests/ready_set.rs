//! The set of the connections that ask for a service, against a list of flags.

use bytemuck::Zeroable;
use proptest::prelude::*;
use transport_common::shard::ReadySet;

/// The set as a list of flags.
struct Flags(Vec<bool>);

impl Flags {
    fn next(&self, cursor: u32) -> Option<u32> {
        let slots = self.0.len() as u32;
        (0..slots).map(|n| (cursor + n) % slots).find(|slot| self.0[*slot as usize])
    }
}

#[derive(Clone, Copy, Debug)]
enum Action {
    Set(u32),
    Clear(u32),
    /// Searches from the cursor. Removes what it finds if the flag is set.
    Next(bool),
    /// Moves the cursor.
    Jump(u32),
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    // Often a slot of few, so that words become empty and are used again.
    let slot = || prop_oneof![0u32..4096, (0u32..8).prop_map(|n| n * 521)];
    let action = prop_oneof![
        4 => slot().prop_map(Action::Set),
        1 => slot().prop_map(Action::Clear),
        6 => any::<bool>().prop_map(Action::Next),
        1 => slot().prop_map(Action::Jump),
    ];
    prop::collection::vec(action, 1..if cfg!(miri) { 20 } else { 200 })
}

/// Plays the actions on a set of `WORDS` words and on the list. They must agree after each.
fn play<const WORDS: usize>(actions: &[Action]) -> Result<(), TestCaseError> {
    let set = ReadySet::<WORDS>::zeroed();
    let slots = ReadySet::<WORDS>::SLOTS;
    let mut flags = Flags(vec![false; slots as usize]);
    let mut cursor = 0;
    for action in actions {
        match *action {
            Action::Set(slot) => {
                set.set(slot);
                flags.0[(slot % slots) as usize] = true;
            }
            Action::Clear(slot) => {
                set.clear(slot);
                flags.0[(slot % slots) as usize] = false;
            }
            Action::Jump(slot) => cursor = slot % slots,
            Action::Next(serves) => {
                let expected = flags.next(cursor);
                let moved = expected.map_or(cursor, |slot| (slot + 1) % slots);
                prop_assert_eq!(set.next(&mut cursor), expected);
                prop_assert_eq!(cursor, moved);
                if let Some(slot) = expected
                    && serves
                {
                    set.clear(slot);
                    flags.0[slot as usize] = false;
                }
            }
        }
        prop_assert_eq!(set.is_empty(), flags.next(0).is_none());
        if let Action::Set(slot) | Action::Clear(slot) = *action {
            prop_assert_eq!(set.contains(slot), flags.0[(slot % slots) as usize]);
        }
    }
    // What is saved and restored is the same set.
    let other = ReadySet::<WORDS>::zeroed();
    other.restore(set.bits());
    let mut at = (cursor, cursor);
    for _ in 0..=slots {
        let next = set.next(&mut at.0);
        prop_assert_eq!(next, flags.next(at.1));
        prop_assert_eq!(next, other.next(&mut at.1));
        let Some(slot) = next else { return Ok(()) };
        set.clear(slot);
        other.clear(slot);
        flags.0[slot as usize] = false;
    }
    Err(TestCaseError::fail("a slot that was removed is found again"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 300 }, failure_persistence: None, ..ProptestConfig::default() })]

    /// With one level and with two.
    #[test]
    fn search_finds_what_a_list_of_flags_has_next(actions in actions()) {
        play::<1>(&actions)?;
        play::<4>(&actions)?;
        play::<8>(&actions)?;
        play::<16>(&actions)?;
        play::<64>(&actions)?;
    }
}

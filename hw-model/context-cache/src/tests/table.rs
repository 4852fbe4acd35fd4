//! Tests the table of the state machine.

use std::collections::BTreeSet;

use crate::{ARCS, Event, State};

#[test]
fn every_state_and_event_is_in_the_table_or_cannot_happen() {
    let mut in_table = BTreeSet::new();
    for arc in ARCS {
        assert_eq!(arc.from.after(arc.event), Some(arc.to));
        assert!(in_table.insert((arc.from, arc.event)), "{arc}: twice");
    }
    // Not in the table: completions of operations that are not in progress, and evictions of entries that are not
    // valid.
    for state in State::ALL {
        for event in Event::ALL {
            let impossible = match event {
                Event::ReadCompletion => state != State::Allocated,
                Event::WriteCompletion => state == State::Invalid,
                Event::Evict => state != State::Valid,
                _ => false,
            };
            assert_eq!(state.after(event).is_none(), impossible, "{state} {event:?}");
        }
    }
    let line = ARCS[0].to_string();
    assert_eq!(line, "Invalid | Command | Allocated | take an entry, read the context, queue the command");
}

#[test]
fn only_a_write_completion_frees_an_entry() {
    let frees = ARCS.iter().filter(|arc| arc.to == State::Invalid);
    let events: Vec<_> = frees.map(|arc| (arc.from, arc.event)).collect();
    assert_eq!(
        events,
        [(State::Evicting, Event::WriteCompletion)],
        "patent: the only operation that may deallocate"
    );
}

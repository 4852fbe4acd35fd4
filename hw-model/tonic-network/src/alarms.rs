//! The alarms of flows: the times at which their timers must be checked.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use fabric_model::Time;

/// The alarms of flows. If a flow's timer moves to a later time, its alarm stays. It then rings too early and is
/// set again. This is cheaper than a removal at each change.
#[derive(Debug, Default)]
pub(super) struct Alarms {
    heap: BinaryHeap<Reverse<(Time, u16)>>,
    /// The time of each flow's alarm.
    set: Vec<Option<Time>>,
}

impl Alarms {
    /// Makes sure that a flow's alarm rings at `due` or earlier.
    pub(super) fn set(&mut self, flow: u16, due: Option<Time>) {
        let Some(due) = due else { return };
        let index = usize::from(flow);
        if index >= self.set.len() {
            self.set.resize(index + 1, None);
        }
        if self.set[index].is_none_or(|set| due < set) {
            self.set[index] = Some(due);
            self.heap.push(Reverse((due, flow)));
        }
    }

    /// Returns when the next alarm may ring.
    pub(super) fn next(&self) -> Option<Time> {
        self.heap.peek().map(|Reverse((time, _))| *time)
    }

    /// Removes and returns the next alarm before `end`. The flow then has no alarm.
    pub(super) fn ring(&mut self, end: Time) -> Option<(Time, u16)> {
        while let Some(&Reverse((time, flow))) = self.heap.peek().filter(|Reverse((time, _))| *time < end) {
            self.heap.pop();
            let set = &mut self.set[usize::from(flow)];
            if *set == Some(time) {
                *set = None;
                return Some((time, flow));
            }
        }
        None
    }
}

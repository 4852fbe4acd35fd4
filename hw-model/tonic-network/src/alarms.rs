//! When which flow wants to be woken.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use fabric_model::Time;

/// Alarms of flows. A flow whose timer moves on keeps its alarm: it rings too early and is set anew, which is cheaper
/// than to take it out each time.
#[derive(Debug, Default)]
pub(super) struct Alarms {
    heap: BinaryHeap<Reverse<(Time, u16)>>,
    /// When each flow's alarm rings.
    set: Vec<Option<Time>>,
}

impl Alarms {
    /// The alarm of a flow is to ring by `due`.
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

    /// When the next alarm may ring.
    pub(super) fn next(&self) -> Option<Time> {
        self.heap.peek().map(|Reverse((time, _))| *time)
    }

    /// The next alarm before `end`. The flow has none then.
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

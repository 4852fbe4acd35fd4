//! The small worlds that are walked.

use super::small_world::SmallOp::{self, FetchAdd, Read, Send, Write};
use super::small_world::SmallWorld;

/// Operations of both ends.
type Operations = [&'static [SmallOp]; 2];

/// What makes a world, in addition to the order.
#[derive(Clone, Copy)]
struct Plan {
    operations: Operations,
    blocks: bool,
    busy: bool,
    /// Frames that may be lost, frames that may be copied, timers that may run early.
    budget: [u8; 3],
    close: bool,
}

const fn plan(operations: Operations, budget: [u8; 3]) -> Plan {
    Plan { operations, blocks: false, busy: false, budget, close: false }
}

const fn closed(operations: Operations, budget: [u8; 3]) -> Plan {
    Plan { close: true, ..plan(operations, budget) }
}

const fn blocks(operations: Operations, budget: [u8; 3], busy: bool) -> Plan {
    Plan { blocks: true, busy, ..plan(operations, budget) }
}

const PLANS: &[Plan] = &[
    // Three operations of each kind.
    plan([&[Write, Write, Write], &[]], [1, 1, 1]),
    plan([&[Write, Write, Write], &[]], [2, 1, 1]),
    plan([&[Write, Write, Write], &[]], [1, 2, 1]),
    plan([&[Write, Write, Write], &[]], [1, 1, 2]),
    plan([&[Read, Read, Read], &[]], [1, 1, 1]),
    plan([&[FetchAdd, FetchAdd, FetchAdd], &[]], [1, 1, 1]),
    plan([&[Send, Send, Send], &[]], [1, 1, 0]),
    plan([&[Send, Send, Send], &[]], [1, 0, 1]),
    plan([&[Send, Send, Send], &[]], [0, 1, 1]),
    plan([&[Write, Read, Send], &[]], [1, 1, 0]),
    plan([&[Write, Read, Send], &[]], [1, 0, 1]),
    plan([&[Write, Read, Send], &[]], [0, 1, 1]),
    plan([&[Send, FetchAdd, Write], &[]], [1, 1, 0]),
    plan([&[Read, Send, FetchAdd], &[]], [1, 1, 0]),
    // More of one thing.
    plan([&[Write, Read], &[]], [2, 2, 2]),
    plan([&[Read, FetchAdd], &[]], [2, 1, 1]),
    plan([&[Read, FetchAdd], &[]], [1, 1, 2]),
    plan([&[Send, FetchAdd], &[]], [2, 1, 1]),
    plan([&[FetchAdd, Send], &[]], [0, 2, 1]),
    plan([&[Send, Send], &[]], [1, 1, 1]),
    plan([&[Send, Send], &[]], [1, 0, 2]),
    // Operations of both ends.
    plan([&[Write, Send], &[Read]], [1, 1, 0]),
    plan([&[FetchAdd], &[Send, Write]], [1, 1, 0]),
    plan([&[Write, Write], &[Write]], [1, 1, 0]),
    plan([&[Read], &[Read]], [1, 1, 1]),
    plan([&[Send], &[FetchAdd]], [1, 1, 1]),
    // Either end may close the connection at any time.
    closed([&[Write, Write, Write], &[]], [1, 1, 1]),
    closed([&[Read, Read], &[]], [1, 1, 1]),
    closed([&[Read, Read, Read], &[]], [0, 1, 1]),
    closed([&[FetchAdd, FetchAdd, FetchAdd], &[]], [0, 1, 1]),
    closed([&[Send, Send, Send], &[]], [0, 1, 0]),
    closed([&[Send, Send], &[]], [1, 0, 1]),
    closed([&[Write, Read], &[]], [0, 1, 1]),
    closed([&[Send, Read], &[]], [0, 1, 1]),
    closed([&[Write], &[Read]], [1, 1, 1]),
    // The block protocol, which answers any request with RNR while its region is busy.
    blocks([&[Write, Write, Write], &[]], [1, 1, 1], false),
    blocks([&[Read, Read, Read], &[]], [1, 1, 1], false),
    blocks([&[Write, Write, Write], &[]], [1, 1, 0], true),
    blocks([&[Read, Read, Read], &[]], [1, 1, 0], true),
    blocks([&[Write, Read], &[]], [1, 1, 1], true),
    blocks([&[Read, Write], &[]], [1, 1, 1], true),
    Plan { close: true, ..blocks([&[Write, Read], &[]], [0, 1, 1], true) },
];

impl SmallWorld {
    /// Returns the small worlds that are walked: each ordered and unordered.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let both = |plan: &Plan| [true, false].map(|ordered| Self::of(plan, ordered));
        PLANS.iter().flat_map(both).collect()
    }

    fn of(plan: &Plan, ordered: bool) -> Self {
        let [losses, duplicates, timeouts] = plan.budget;
        let order = if ordered { "ordered" } else { "unordered" };
        let ulp = match (plan.blocks, plan.busy) {
            (true, true) => ", block protocol, busy at first",
            (true, false) => ", block protocol",
            _ => "",
        };
        let close = if plan.close { ", closed by either end" } else { "" };
        let [a, b] = plan.operations.map(list);
        Self {
            name: format!(
                "{order}{ulp}: {a}; {b}; {losses} lost, {duplicates} copied, {timeouts} early timers{close}"
            ),
            blocks: plan.blocks,
            busy: plan.busy,
            ordered,
            operations: plan.operations,
            window: 2,
            losses,
            duplicates,
            timeouts,
            close: plan.close,
        }
    }
}

fn list(operations: &[SmallOp]) -> String {
    if operations.is_empty() {
        return "none".to_owned();
    }
    let name = |op: &SmallOp| match op {
        Write => "WRITE",
        Read => "READ",
        FetchAdd => "fetch-add",
        Send => "SEND",
    };
    operations.iter().map(name).collect::<Vec<_>>().join(" ")
}

//! Collects evidence that helps to find out why a scenario failed.

use super::lab::{ASK_LIMIT, Lab, Side};

/// The commands that each guest runs.
const ASKED: [&str; 7] = [
    "cat /tmp/up.log",
    "tail -n 30 /tmp/trace.log",
    "timeout 5 tiercel status",
    "timeout 5 tiercel stats",
    "timeout 5 tiercel conn list",
    "cat /proc/net/dev",
    "dmesg | tail -n 15",
];

/// Returns the output of these commands from both guests, as far as they still answer.
pub(crate) fn gather(lab: &mut Lab) -> String {
    let mut all = String::new();
    for side in Side::BOTH {
        for asked in ASKED {
            let said = lab.run(side, asked, ASK_LIMIT);
            let answers = said.is_ok();
            let said = said.map_or_else(|error| format!("{error:#}"), |output| output.text);
            all += &format!("## {}: {asked}\n{said}\n\n", side.name());
            if !answers {
                break; // Every further command would wait for its time limit.
            }
        }
    }
    all
}

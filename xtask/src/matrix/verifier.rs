//! What the verifier of a guest's kernel walked for each program.

use std::{collections::BTreeMap, time::Duration};

use anyhow::Result;

use super::lab::{ASK_LIMIT, Lab, Side};

/// More would leave too little of the million at which a kernel gives up: the number differs by kernel.
pub(crate) const MOST_INSTRUCTIONS: u32 = 500_000;

/// Verified instructions of each program that a node loads, those that record a trace included.
///
/// # Errors
/// If no node comes up, or the kernel does not tell.
pub(crate) fn verified(lab: &mut Lab) -> Result<BTreeMap<String, u32>> {
    const TRACE: &str = "rm -f /tmp/trace; setsid tiercel trace --out /tmp/trace --duration 1000s \
                         >/tmp/trace.log 2>&1 </dev/null & echo $! >/tmp/trace.pid";
    lab.up()?;
    let mut all = BTreeMap::new();
    note(lab, &mut all)?;
    lab.must(Side::A, TRACE)?;
    let patience = lab.patience.clone();
    let recorded = patience.until("the programs that record", Duration::from_secs(240), || {
        note(lab, &mut all)?;
        Ok(all.keys().any(|name| name.starts_with("redeliver_rec")).then_some(()))
    });
    lab.must(Side::A, "kill -INT $(cat /tmp/trace.pid)")?;
    lab.wait_for(Side::A, "the end of the trace", "! kill -0 $(cat /tmp/trace.pid) 2>/dev/null")?;
    lab.run(Side::A, "rm -f /tmp/trace", ASK_LIMIT)?;
    recorded?;
    Ok(all)
}

/// Notes the programs that are loaded now. The kernel knows 15 bytes of their names; they are the object's.
fn note(lab: &mut Lab, all: &mut BTreeMap<String, u32>) -> Result<()> {
    for program in lab.inventory(Side::A)?.programs {
        all.insert(full_name(&program.name), program.verified);
    }
    Ok(())
}

/// The kernel cuts names off after 15 bytes.
fn full_name(name: &str) -> String {
    const LONG: [&str; 1] = ["redeliver_recorded"];
    LONG.iter()
        .find(|long| long.get(..15) == Some(name))
        .map_or_else(|| name.to_owned(), |long| (*long).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_object() {
        assert_eq!(full_name("redeliver_recor"), "redeliver_recorded");
        assert_eq!(full_name("wire"), "wire");
    }
}

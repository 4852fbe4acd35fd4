//! What runs inside a guest: this same program, which lists the BPF objects that the guest's kernel holds.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// The BPF objects of a kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Inventory {
    /// Loaded programs.
    pub(crate) programs: Vec<Program>,
    /// Id and name of each map.
    pub(crate) maps: Vec<(u32, String)>,
    /// Id of each link.
    pub(crate) links: Vec<u32>,
}

/// A loaded program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Program {
    pub(crate) id: u32,
    /// The first 15 bytes of its name.
    pub(crate) name: String,
    /// Number of instructions that the verifier walked.
    pub(crate) verified: u32,
}

impl Inventory {
    /// Describes what this inventory has and `earlier` does not have. Returns `None` if there is no difference.
    pub(crate) fn more_than(&self, earlier: &Self) -> Option<String> {
        let mut more = vec![];
        let known = |id: u32| earlier.programs.iter().any(|program| program.id == id);
        more.extend(self.programs.iter().filter(|p| !known(p.id)).map(|p| format!("program {}", p.name)));
        let known = |id: u32| earlier.maps.iter().any(|(other, _)| *other == id);
        more.extend(self.maps.iter().filter(|(id, _)| !known(*id)).map(|(_, name)| format!("map {name}")));
        let new = self.links.iter().filter(|id| !earlier.links.contains(id));
        more.extend(new.map(|id| format!("link {id}")));
        (!more.is_empty()).then(|| more.join(", "))
    }

    /// Adds its programs, and how many instructions the verifier walked of each, to those that are known.
    pub(crate) fn note(self, known: &mut BTreeMap<String, u32>) {
        known.extend(self.programs.into_iter().map(|program| (full_name(&program.name), program.verified)));
    }
}

/// Returns the whole name of a program. The kernel stores only 15 bytes of it.
fn full_name(name: &str) -> String {
    const LONG: &str = "redeliver_recorded";
    if LONG.get(..15) == Some(name) { LONG.to_owned() } else { name.to_owned() }
}

/// Prints the inventory of this kernel as JSON.
///
/// # Errors
/// The kernel's error, for example if the caller is not root.
pub(crate) fn print_inventory() -> Result<()> {
    let programs = bpf_call::loaded_programs().context("cannot list the BPF programs")?;
    let maps = bpf_call::loaded_maps().context("cannot list the BPF maps")?;
    let inventory = Inventory {
        programs: programs
            .into_iter()
            .map(|p| Program { id: p.id, name: p.name, verified: p.verified })
            .collect(),
        maps: maps.into_iter().map(|map| (map.id, map.name)).collect(),
        links: bpf_call::links().context("cannot list the BPF links")?,
    };
    println!("{}", serde_json::to_string(&inventory)?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inventory(ids: &[u32]) -> Inventory {
        Inventory {
            programs: ids.iter().map(|id| Program { id: *id, name: format!("p{id}"), verified: 1 }).collect(),
            maps: ids.iter().map(|id| (*id, format!("m{id}"))).collect(),
            links: ids.to_vec(),
        }
    }

    #[test]
    fn names_are_those_of_the_object() {
        assert_eq!(full_name("redeliver_recor"), "redeliver_recorded");
        assert_eq!(full_name("wire"), "wire");
    }

    #[test]
    fn what_was_there_before_is_not_left_behind() {
        assert_eq!(inventory(&[1, 2]).more_than(&inventory(&[1, 2, 3])), None);
        let left = inventory(&[1, 7]).more_than(&inventory(&[1]));
        assert_eq!(left.as_deref(), Some("program p7, map m7, link 7"));
    }

    #[test]
    #[ignore = "needs root: cargo xtask test"]
    fn a_loaded_program_is_listed_with_what_the_verifier_walked() {
        let _program = crate::bpf::DropProgram::load().unwrap();
        let programs = bpf_call::loaded_programs().unwrap();
        let own = programs.iter().find(|program| program.name == "preflight").unwrap();
        assert_eq!(own.verified, 2, "set the result, exit");
    }
}

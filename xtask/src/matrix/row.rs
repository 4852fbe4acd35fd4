//! One kernel and one card: boots the guests and runs the scenarios one after the other.

use std::{collections::BTreeMap, fs, path::Path, time::Instant};

use anyhow::{Result, bail};

use super::{
    evidence,
    guest::Accelerator,
    kernel::{Kernel, MINIMUM},
    lab::{Lab, Side},
    nic::Nic,
    patience::Patience,
    report::{Cell, Outcome},
    said::sentence,
    scenario::Scenario,
};
use crate::shell::Progress;

/// What to run, and how.
pub(crate) struct Row<'a> {
    pub(crate) kernel: &'a Kernel,
    pub(crate) nic: Nic,
    pub(crate) scenarios: Vec<Scenario>,
    pub(crate) accelerator: Accelerator,
    /// The directory of the initrd, and for sockets and logs.
    pub(crate) folder: &'a Path,
    /// Where to write evidence that helps to find out why a scenario failed.
    pub(crate) evidence: &'a Path,
    pub(crate) patience: &'a Patience,
    pub(crate) progress: &'a Progress,
    pub(crate) date: String,
    pub(crate) commit: &'a str,
}

/// The results of a row.
pub(crate) struct RowResults {
    pub(crate) cells: Vec<Cell>,
    /// Number of instructions that the verifier walked, by program.
    pub(crate) verified: BTreeMap<String, u32>,
}

impl Row<'_> {
    /// Boots the guests and runs the scenarios. Call it on a thread of its own.
    ///
    /// # Errors
    /// Only if everything must stop. Every other failure is a result.
    pub(crate) fn run(&self) -> Result<RowResults> {
        let mut results = RowResults { cells: vec![], verified: BTreeMap::new() };
        let mut lab = None;
        for scenario in self.scenarios() {
            if lab.is_none() {
                self.say("booting two guests");
                lab = match self.boot() {
                    Ok(lab) => Some(lab),
                    Err(error) => {
                        self.patience.check()?;
                        results.cells.push(self.cell(scenario, Outcome::Fails, format!("{error:#}"), 0));
                        continue;
                    }
                };
            }
            let Some(booted) = &mut lab else { continue };
            let cell = self.attempt(scenario, booted);
            self.patience.check()?;
            if cell.outcome != Outcome::NotRun {
                self.say(&format!("{}: {} {}", scenario.title(), short(cell.outcome), cell.note));
            }
            results.verified.append(&mut booted.verified.clone());
            let failed = matches!(cell.outcome, Outcome::Fails | Outcome::KernelFails);
            results.cells.push(cell);
            if failed {
                self.keep_evidence(scenario, booted);
                if booted.clear().is_err() {
                    self.patience.check()?;
                    lab = None; // The guests are no longer usable.
                }
            }
        }
        Ok(results)
    }

    fn scenarios(&self) -> Vec<Scenario> {
        if self.kernel.is_too_old() { vec![Scenario::Start] } else { self.scenarios.clone() }
    }

    fn boot(&self) -> Result<Lab> {
        Lab::boot(self.kernel, self.nic, self.accelerator, self.folder, self.patience)
    }

    fn attempt(&self, scenario: Scenario, lab: &mut Lab) -> Cell {
        let began = Instant::now();
        if lab.has_given_up() {
            return self.cell(scenario, Outcome::NotRun, "the nodes do not start".to_owned(), 0);
        }
        let (outcome, note) = if self.kernel.is_too_old() {
            told(refusal(lab), self.nic, Outcome::Refused)
        } else {
            told(scenario.perform(lab), self.nic, Outcome::Works)
        };
        if scenario == Scenario::Start && outcome == Outcome::Fails {
            lab.give_up(&note);
        }
        self.cell(scenario, outcome, note, began.elapsed().as_secs())
    }

    /// Writes down evidence that helps to find out why a scenario failed.
    fn keep_evidence(&self, scenario: Scenario, lab: &mut Lab) {
        let name = format!("{}-{:?}-{scenario:?}.txt", self.kernel.series(), self.nic);
        let file = self.evidence.join(name);
        let written =
            fs::create_dir_all(self.evidence).and_then(|()| fs::write(&file, evidence::gather(lab)));
        if written.is_ok() {
            self.say(&format!("what the guests tell of it is in {}", file.display()));
        }
    }

    fn cell(&self, scenario: Scenario, outcome: Outcome, note: String, seconds: u64) -> Cell {
        Cell {
            kernel: self.kernel.series(),
            release: self.kernel.release.to_string(),
            nic: self.nic,
            scenario,
            outcome,
            note,
            seconds,
            date: self.date.clone(),
            commit: self.commit.to_owned(),
            accelerator: self.accelerator.name().to_owned(),
        }
    }

    fn say(&self, what: &str) {
        self.progress.say(&format!("Linux {}, {}: {what}", self.kernel.series(), self.nic.title()));
    }
}

fn told(result: Result<String>, nic: Nic, good: Outcome) -> (Outcome, String) {
    match result {
        Ok(note) => (good, note),
        Err(error) => {
            let note = format!("{error:#}");
            match fault_of_the_kernel(nic, &note) {
                Some(fault) => (Outcome::KernelFails, fault.to_owned()),
                None => (Outcome::Fails, note),
            }
        }
    }
}

/// Returns the reason if a failure is known not to be Tiercel's fault.
///
/// Linux 6.16 and 7.3 hang when the driver virtio_net releases a card with several queues while an XDP program is
/// attached in the driver. This also happens with a program of two instructions that passes every packet (tried on
/// 7.3). With one queue they do not hang.
fn fault_of_the_kernel(nic: Nic, note: &str) -> Option<&'static str> {
    let hangs = nic.queues() > 1 && note.contains("unregister_netdevice: waiting for eth0");
    hangs.then_some(
        "the kernel waits for ever in unregister_netdevice; 7.3 does so with an XDP program of two instructions, too",
    )
}

fn short(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Works => "works:",
        Outcome::Refused => "refused:",
        Outcome::Fails => "FAILS:",
        Outcome::KernelFails => "THE KERNEL FAILS:",
        Outcome::NotRun => "not run:",
    }
}

/// Checks that a kernel is refused with a sentence that names the first supported one.
fn refusal(lab: &mut Lab) -> Result<String> {
    lab.begin_node(Side::A)?;
    match lab.await_node(Side::A)? {
        Ok(_) => bail!("it is not refused although it is older than {}.{}", MINIMUM.0, MINIMUM.1),
        Err(log) => judge_refusal(&log),
    }
}

/// Checks the sentence and the number of lines around it.
fn judge_refusal(log: &str) -> Result<String> {
    let minimum = format!("Linux {}.{}", MINIMUM.0, MINIMUM.1);
    let Some(line) = log.lines().find(|line| line.contains(&minimum)) else {
        bail!("the refusal does not name {minimum}: {}", sentence(log));
    };
    let line = line.trim_start_matches(['.', ' ']).trim_start_matches("error: ");
    Ok(match log.lines().count() {
        1 => line.to_owned(),
        lines => format!("{line} ({} more lines around it)", lines - 1),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hang_of_the_kernel_is_told_from_a_failure() {
        let outcome = |nic, note: &str| told(Err(anyhow::anyhow!(note.to_owned())), nic, Outcome::Works).0;
        let hang = "unregister_netdevice: waiting for eth0 to become free";
        assert_eq!(outcome(Nic::VirtioNetQueues, hang), Outcome::KernelFails);
        assert_eq!(outcome(Nic::VirtioNet, hang), Outcome::Fails);
        assert_eq!(outcome(Nic::VirtioNetQueues, "the guest does not answer"), Outcome::Fails);
    }

    #[test]
    fn a_refusal_names_the_first_kernel_that_serves() {
        let said = judge_refusal("error: x\nlog\n. Tiercel needs Linux 6.9 or later\n").unwrap();
        assert_eq!(said, "Tiercel needs Linux 6.9 or later (2 more lines around it)");
        assert_eq!(judge_refusal("error: needs Linux 6.9\n").unwrap(), "needs Linux 6.9");
        assert!(judge_refusal("error: no\n").is_err());
    }
}

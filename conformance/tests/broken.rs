//! Every check passes on the sound device, and fails on a device that breaks its clause.

mod device;
mod variants;

use device::{Broken, Device, patience, subjects};
use falcon_conformance::{Check, Checked, Verdict, catalogue, run};

fn checked(broken: Broken, checks: &[Check]) -> Vec<Checked> {
    let mut all = Vec::new();
    let mut device = Device::new(broken);
    let done = run(&mut device, &subjects(), patience(), checks, |checked| all.push(checked));
    done.expect("the device answers");
    all
}

fn shown(checked: &Checked) -> String {
    let packets: Vec<_> = checked.packets.iter().map(|line| format!("\n  {line}")).collect();
    format!("{} {}: {:?}{}", checked.clause, checked.title, checked.verdict, packets.concat())
}

#[test]
fn sound_device_passes_every_check_one_after_the_other() {
    let all = checked(Broken::sound(), &catalogue());
    assert_eq!(all.len(), catalogue().len());
    let wrong: Vec<_> = all.iter().filter(|checked| checked.verdict != Verdict::Pass).map(shown).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn sound_device_passes_every_check_alone() {
    for check in catalogue() {
        let all = checked(Broken::sound(), &[check]);
        assert_eq!(all[0].verdict, Verdict::Pass, "{}", shown(&all[0]));
    }
}

#[test]
fn each_check_fails_on_a_device_that_breaks_its_clause() {
    let mut wrong = Vec::new();
    for check in catalogue() {
        let Some(broken) = variants::breaking(check.clause) else {
            wrong.push(format!("{}: no device breaks it", check.clause));
            continue;
        };
        let all = checked(broken, &[check]);
        if !matches!(all[0].verdict, Verdict::Fail { .. }) {
            wrong.push(shown(&all[0]));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_clause_has_two_checks() {
    let mut clauses: Vec<_> = catalogue().iter().map(|check| check.clause).collect();
    let all = clauses.len();
    clauses.sort_unstable();
    clauses.dedup();
    assert_eq!(clauses.len(), all);
}

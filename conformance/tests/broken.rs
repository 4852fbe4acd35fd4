//! Every check passes on the sound device, and fails on a device that breaks its clause.

mod device;
mod variants;

use device::{Broken, Device, patience, subjects};
use falcon_conformance::{Check, Checked, Role, Settings, Verdict, catalogue, run};

fn checked(broken: Broken, checks: &[Check]) -> Vec<Checked> {
    let mut all = Vec::new();
    let mut device = Device::new(broken);
    let mut desk = device.desk();
    let done =
        run(&mut device, Some(&mut desk), &subjects(), patience(), checks, |checked| all.push(checked));
    done.expect("the device answers");
    all
}

fn shown(checked: &Checked) -> String {
    let packets: Vec<_> = checked.packets.iter().map(|line| format!("\n  {line}")).collect();
    format!(
        "{} {} {}: {:?}{}",
        checked.role,
        checked.clause,
        checked.title,
        checked.verdict,
        packets.concat()
    )
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
    let alone = |check| checked(Broken::sound(), &[check]).remove(0);
    let all: Vec<_> = catalogue().into_iter().map(alone).collect();
    let wrong: Vec<_> = all.iter().filter(|checked| checked.verdict != Verdict::Pass).map(shown).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_check_fails_on_a_device_that_breaks_its_clause() {
    let mut wrong = Vec::new();
    for check in catalogue() {
        let Some(broken) = variants::breaking(&check) else {
            wrong.push(format!("{} {}: no device breaks it", check.role, check.clause));
            continue;
        };
        let all = checked(broken, &[check]);
        if !matches!(all[0].verdict, Verdict::Fail { .. }) {
            wrong.push(shown(&all[0]));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn of_initiator(clause: &str) -> Check {
    let is_meant = |check: &Check| check.role == Role::Initiator && check.clause == clause;
    catalogue().into_iter().find(is_meant).expect("a check of the clause")
}

#[test]
fn a_check_of_several_things_fails_on_a_device_that_breaks_one_of_them() {
    let mut wrong = Vec::new();
    for (number, (clause, broken)) in variants::parts().into_iter().enumerate() {
        let all = checked(broken, &[of_initiator(clause)]);
        if !matches!(all[0].verdict, Verdict::Fail { .. }) {
            wrong.push(format!("device {number}: {}", shown(&all[0])));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_check_without_the_setting_that_it_needs_names_the_option() {
    for (clause, option) in
        [("F-9.1.5-1", "--attempts"), ("F-11-6", "--attempts"), ("F-11-19", "--transaction-timeout")]
    {
        let check = of_initiator(clause);
        let (mut device, mut subjects) = (Device::new(Broken::sound()), subjects());
        subjects[0].settings = Settings::default();
        let mut verdict = None;
        let mut desk = device.desk();
        run(&mut device, Some(&mut desk), &subjects, patience(), &[check], |checked| {
            verdict = Some(checked.verdict);
        })
        .expect("the device answers");
        let Some(Verdict::Skipped { reason }) = verdict else { panic!("{clause}: {verdict:?}") };
        assert!(reason.contains(option), "{clause}: {reason}");
    }
}

#[test]
fn no_clause_has_two_checks_of_a_role() {
    let mut clauses: Vec<_> = catalogue().iter().map(|check| (check.role as u8, check.clause)).collect();
    let all = clauses.len();
    clauses.sort_unstable();
    clauses.dedup();
    assert_eq!(clauses.len(), all);
}

//! Every check passes on the sound device, and fails on a device that breaks its clause.

mod device;
mod variants;

use std::collections::VecDeque;
use std::io;

use device::{Broken, Device, RTO, patience, subjects};
use falcon_conformance::{
    Check, Checked, Misfit, Role, RunError, Settings, Subject, Verdict, Wire, catalogue, run,
};
use transport_common::ids::{Psn, RKey};
use transport_common::queues::AccessFlags;
use transport_common::units::{PicosecondSpan, Picoseconds};
use transport_common::wire::PacketType;

/// Offset of the Falcon header in a frame of the tester.
const FALCON: usize = 14 + 20 + 8 + 16;

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

/// Runs everything, and returns what is wrong with the preparation.
fn misfit(broken: Broken, change: impl FnOnce(&mut Subject)) -> Option<Misfit> {
    let (mut device, mut subjects) = (Device::new(broken), subjects());
    change(&mut subjects[0]);
    let accuse = |checked: Checked| {
        let accused = matches!(checked.verdict, Verdict::Fail { .. });
        assert!(!accused, "the peer is not accused: {}", shown(&checked));
    };
    match run(&mut device, None, &subjects, patience(), &catalogue(), accuse) {
        Ok(()) => None,
        Err(RunError::Misfit(misfit)) => Some(misfit),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_connection_that_is_not_fresh_is_no_violation() {
    for [data, request] in [[2, 0], [7, 3], [1, 1]] {
        let misfit = misfit(Broken::sound(), |subject| {
            subject.tx.data_psn = Psn(subject.tx.data_psn.0.wrapping_sub(data));
            subject.tx.request_psn = Psn(subject.tx.request_psn.0.wrapping_sub(request));
        });
        let Some(Misfit::NotFresh { found, expected, .. }) = misfit else { panic!("{misfit:?}") };
        let distances = [found.0.distance_from(expected.0), found.1.distance_from(expected.1)];
        assert_eq!(distances, [data, request]);
    }
}

#[test]
fn a_region_that_does_not_allow_everything_is_no_violation() {
    let wrong_key = misfit(Broken::sound(), |subject| subject.rkey = RKey(77));
    assert_eq!(wrong_key, Some(Misfit::Region { operation: "WRITE", rkey: RKey(77) }));
    for (access, operation) in [
        (AccessFlags::REMOTE_READ | AccessFlags::REMOTE_ATOMIC, "WRITE"),
        (AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_ATOMIC, "READ"),
        (AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_READ, "fetch-and-add"),
    ] {
        let refused = misfit(Broken::with_region(8192, access), |_| ());
        assert_eq!(refused, Some(Misfit::Region { operation, rkey: RKey(1) }));
    }
    let short = misfit(Broken::with_region(2048, AccessFlags::all()), |_| ());
    assert_eq!(short, Some(Misfit::Region { operation: "WRITE", rkey: RKey(1) }));
}

/// A tester that is stopped for a while after some of its EACKs and NACKs.
struct Stopped {
    device: Device,
    /// EACKs and NACKs after which it is stopped.
    stops: usize,
    /// For how long.
    length: PicosecondSpan,
    /// What has arrived and is not taken yet.
    arrived: VecDeque<(Picoseconds, Vec<u8>)>,
}

impl Wire for Stopped {
    fn now(&mut self) -> Picoseconds {
        self.device.now()
    }

    fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        self.device.send(frame)?;
        let kind = frame[FALCON + 7] >> 1 & 0xf;
        if (kind == PacketType::Eack as u8 || kind == PacketType::Nack as u8) && self.stops > 0 {
            self.stops -= 1;
            let awake = self.now().after(self.length);
            while let Some(taken) = self.device.receive(awake)? {
                self.arrived.push_back(taken);
            }
        }
        Ok(())
    }

    fn receive(&mut self, deadline: Picoseconds) -> io::Result<Option<(Picoseconds, Vec<u8>)>> {
        match self.arrived.pop_front() {
            Some(taken) => Ok(Some(taken)),
            None => self.device.receive(deadline),
        }
    }
}

/// What arrives after the time of a check does not count, though the tester takes it together with the rest.
#[test]
fn a_tester_that_gets_no_cpu_accuses_nobody() {
    let device = Device::new(Broken::sound());
    let mut desk = device.desk();
    // Until the retransmission timeout of the device is over.
    let length = PicosecondSpan(RTO.as_picos().0 * 5 / 4);
    let mut busy = Stopped { device, stops: usize::MAX, length, arrived: VecDeque::new() };
    let early = ["F-9.1.4-1", "F-9.1.4-3", "F-9.1.4-4", "F-9.2.3-8", "F-6.6.6-2", "F-9.2.4-3"];
    let checks: Vec<_> = catalogue().into_iter().filter(|check| early.contains(&check.clause)).collect();
    assert!(checks.len() > early.len(), "both roles");
    let mut all = Vec::new();
    run(&mut busy, Some(&mut desk), &subjects(), patience(), &checks, |checked| all.push(checked))
        .expect("it answers");
    let wrong: Vec<_> = all.iter().filter(|checked| checked.verdict != Verdict::Pass).map(shown).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// F-9.1.4-2: a device may send a copy for each of two EACKs that are more than a round trip apart. So a tester that is always
/// stopped between them cannot tell a device that breaks the clause; one that is stopped sometimes can.
#[test]
fn a_tester_that_is_stopped_between_two_eacks_accuses_nobody() {
    let verdict = |check: Check, broken: Broken, stops: usize| {
        let device = Device::new(broken);
        let mut desk = device.desk();
        let length = PicosecondSpan(RTO.as_picos().0 / 8);
        let mut stopped = Stopped { device, stops, length, arrived: VecDeque::new() };
        let mut verdict = None;
        run(&mut stopped, Some(&mut desk), &subjects(), patience(), &[check], |checked| {
            verdict = Some(checked.verdict);
        })
        .expect("it answers");
        verdict.expect("one check")
    };
    let checks: Vec<_> = catalogue().into_iter().filter(|check| check.clause == "F-9.1.4-2").collect();
    assert_eq!(checks.len(), 2, "both roles");
    for check in checks {
        let broken = || variants::breaking(&check).expect("a device breaks it");
        let always = verdict(check, broken(), usize::MAX);
        assert!(matches!(always, Verdict::Skipped { .. }), "{}: {always:?}", check.role);
        let sometimes = verdict(check, broken(), 4);
        assert!(matches!(sometimes, Verdict::Fail { .. }), "{}: {sometimes:?}", check.role);
        assert_eq!(verdict(check, Broken::sound(), 4), Verdict::Pass, "{}", check.role);
    }
}

/// Something that is no Falcon device: it answers each frame of the tester by another frame.
struct Mirror {
    answer: fn(Vec<u8>) -> Vec<u8>,
    now: Picoseconds,
    frames: Vec<Vec<u8>>,
}

impl Wire for Mirror {
    fn now(&mut self) -> Picoseconds {
        self.now
    }

    fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        self.frames.push((self.answer)(frame.to_vec()));
        Ok(())
    }

    fn receive(&mut self, deadline: Picoseconds) -> io::Result<Option<(Picoseconds, Vec<u8>)>> {
        self.now.0 += 1000;
        let frame = self.frames.pop();
        if frame.is_none() {
            self.now.0 = self.now.0.max(deadline.0);
        }
        Ok(frame.map(|frame| (self.now, frame)))
    }
}

/// Exchanges two fields of a frame.
fn exchanged(mut frame: Vec<u8>, one: usize, other: usize, length: usize) -> Vec<u8> {
    let (head, tail) = frame.split_at_mut(other);
    head[one..one + length].swap_with_slice(&mut tail[..length]);
    frame
}

#[test]
fn what_is_no_falcon_device_is_named() {
    let diagnosed = |answer: fn(Vec<u8>) -> Vec<u8>| {
        let mut mirror = Mirror { answer, now: Picoseconds(1_000_000_000), frames: vec![] };
        let outcome = run(&mut mirror, None, &subjects(), patience(), &catalogue(), |_| panic!("judged"));
        match outcome {
            Err(RunError::Misfit(misfit)) => misfit,
            other => panic!("{other:?}"),
        }
    };
    // A loop of the network; a program that answers at its host's address, from Falcon's port and to it.
    let addresses: fn(Vec<u8>) -> Vec<u8> = |frame| exchanged(exchanged(frame, 0, 6, 6), 26, 30, 4);
    let ports: fn(Vec<u8>) -> Vec<u8> =
        |frame| exchanged(exchanged(exchanged(frame, 0, 6, 6), 26, 30, 4), 34, 36, 2);
    assert_eq!(diagnosed(|frame| frame), Misfit::Echo);
    assert_eq!(diagnosed(ports), Misfit::Echo);
    assert_eq!(diagnosed(addresses), Misfit::Echo);
    // ICMP: destination unreachable, port unreachable, with the packet.
    assert_eq!(
        diagnosed(|frame| {
            let mut icmp = frame[..34].to_vec();
            icmp[23] = 1;
            [&icmp[..], &[3, 3, 0, 0, 0, 0, 0, 0], &frame[14..]].concat()
        }),
        Misfit::Unreachable
    );
    assert_eq!(diagnosed(|_| vec![0; 60]), Misfit::Silent);
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

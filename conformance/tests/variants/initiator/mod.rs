//! Devices that break a clause in what they do as initiator.

mod acknowledged;
mod answered;
mod ended;
mod numbers;
mod refused;
mod resent;

use std::collections::HashSet;

use host_nic::HostNic;

use super::behaviour::reads;
use super::format::{EACK, NACK};
use crate::device::{Broken, ORDERED, Packet};

pub(super) const PULL_REQUEST: u8 = 0;
pub(super) const PUSH_DATA: u8 = 5;
pub(super) const REQUESTS: &[u8] = &[PULL_REQUEST, PUSH_DATA];

/// Returns a device that breaks the clause.
pub(super) fn breaking(clause: &str) -> Option<Broken> {
    numbers::breaking(clause)
        .or_else(|| acknowledged::breaking(clause))
        .or_else(|| answered::breaking(clause))
        .or_else(|| refused::breaking(clause))
        .or_else(|| resent::breaking(clause))
        .or_else(|| ended::breaking(clause))
}

/// Returns devices that break other parts of clauses, for checks that look at several things.
pub(super) fn parts() -> Vec<(&'static str, Broken)> {
    ended::parts()
}

/// Returns true for the second and every later packet with the same type and PSN, of the types in `kinds`.
fn repeated(kinds: &'static [u8]) -> impl FnMut(&Packet) -> bool {
    let mut seen = HashSet::new();
    move |packet| kinds.contains(&packet.kind()) && !seen.insert((packet.kind(), packet.word(4)))
}

/// A device that changes the second and later copies of its packets of these types.
fn copies(kinds: &'static [u8], change: fn(Packet) -> Packet) -> Option<Broken> {
    let mut copy = repeated(kinds);
    Some(Broken::sends(move |packet| vec![if copy(&packet) { change(packet) } else { packet }]))
}

/// A device that exchanges each packet for which `late` returns true with the next packet of these types.
fn swaps(kinds: &'static [u8], mut late: impl FnMut(&Packet) -> bool + 'static) -> Option<Broken> {
    let mut held: Option<Packet> = None;
    Some(Broken::sends(move |packet| {
        if !kinds.contains(&packet.kind()) {
            return vec![packet];
        }
        let is_late = late(&packet);
        if held.is_none() && is_late {
            held = Some(packet);
            return vec![];
        }
        [packet].into_iter().chain(held.take()).collect()
    }))
}

/// A device that takes EACKs as if they were others.
fn eacks(change: fn(Packet) -> Packet) -> Option<Broken> {
    reads(move |_, packet| if packet.kind() == EACK { change(packet) } else { packet })
}

/// A device that takes NACKs as if they were others.
fn nacks(change: impl Fn(&HostNic, Packet) -> Packet + 'static) -> Option<Broken> {
    reads(move |nic, packet| if packet.kind() == NACK { change(nic, packet) } else { packet })
}

/// Sets words to 0.
fn cleared(packet: Packet, words: std::ops::Range<usize>) -> Packet {
    words.fold(packet, |packet, word| packet.edit(word, |_| 0))
}

/// The base of the device's transmit window for data.
fn base(nic: &HostNic) -> u32 {
    nic.entry(ORDERED as usize).connection.flow.delivery.data().tx.base.0
}

//! Go-back-N for comparison: a card without selective acknowledgement, as in RoCEv2's reliable connection.
//!
//! This model shares only the fabric and the packet lengths with the Falcon model. The receiver discards packets
//! that are out of order. It sends one NAK that names the packet it expects. It acknowledges every packet in order
//! cumulatively. The sender goes back to the packet that a NAK names, or to the oldest one after a timeout. Its
//! window is constant.
//!
//! A fabric decides losses by the ordinal of the frame. So the n-th packet of this sender and the n-th packet of a
//! Falcon sender are both lost or both delivered.
//!
//! [`run`] runs a [`Transfer`] and returns its [`Outcome`]. Times are in picoseconds.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use fabric_model::{ConfigError, Fabric, FabricConfig, Port, Span, Time};
use serde::Serialize;

use super::plan::HostModel;

const SENDER: Port = Port(0);
const RECEIVER: Port = Port(1);
/// Length of an acknowledgement. It is the length of a Falcon BACK over IPv4.
const ACKNOWLEDGEMENT_BYTES: usize = 14 + 20 + 8 + 16 + 32;
/// Bytes of the headers of a WRITE over IPv4.
const HEADER_BYTES: usize = 14 + 20 + 8 + 16 + 28 + 28;
/// Offset of the packet number, after the Ethernet, IPv4 and UDP headers.
const NUMBER_AT: usize = 14 + 20 + 8;
const NAK_AT: usize = NUMBER_AT + 8;

/// A transfer from one host to another at the same switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Number of packets to transfer.
    pub packets: u64,
    /// User data of one packet in bytes.
    pub segment: u32,
    /// Maximum number of outstanding packets.
    pub window: u64,
    /// Time without progress after which the sender goes back.
    pub timeout: Span,
    /// The cards of both hosts. The engine time and the ULP are ignored.
    pub host: HostModel,
    /// Interval of the samples of delivered bytes. Zero means no samples.
    pub sample_every: Span,
}

/// The result of a transfer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// When the last packet was acknowledged, in picoseconds. `None` if the limit came first.
    pub completed: Option<u64>,
    /// Data packets sent, including retransmissions.
    pub sent: u64,
    /// Data packets that the receiver discarded.
    pub discarded: u64,
    /// Number of times the sender went back because of a NAK.
    pub naks: u64,
    /// Number of times the sender went back because of its timer.
    pub timeouts: u64,
    /// Bytes of user data delivered at each sample.
    pub delivered: Vec<u64>,
}

/// A frame on the cable from a host to the switch. Frames are ordered by arrival, then by departure.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Entering {
    arrival: Time,
    number: u64,
    from: Port,
    frame: Vec<u8>,
}

struct Run {
    transfer: Transfer,
    now: Time,
    fabric: Fabric,
    entering: BinaryHeap<Reverse<Entering>>,
    /// The time when the wire of each host is free.
    wire_free: [Time; 2],
    frames: u64,
    /// State of the sender: the oldest unacknowledged packet, the next packet to send, and the time of the
    /// timeout.
    base: u64,
    next: u64,
    deadline: Time,
    /// State of the receiver: the expected packet, and whether a NAK was sent since the last packet in order.
    expected: u64,
    complained: bool,
    outcome: Outcome,
}

/// Runs `transfer` over a fabric of one switch until it is complete or `limit` is reached.
///
/// # Errors
/// Returns [`ConfigError::NoSuchPort`] if the configuration has a section for a port other than 0 (the sender) and
/// 1 (the receiver).
pub fn run(transfer: Transfer, fabric: FabricConfig, limit: Time) -> Result<Outcome, ConfigError> {
    let mut fabric = Fabric::new(2, fabric)?;
    [SENDER, RECEIVER].iter().for_each(|port| fabric.learn(mac(*port), *port));
    let mut run = Run {
        transfer,
        now: Time::ZERO,
        fabric,
        entering: BinaryHeap::new(),
        wire_free: [Time::ZERO; 2],
        frames: 0,
        base: 0,
        next: 0,
        deadline: Time::ZERO,
        expected: 0,
        complained: false,
        outcome: Outcome::default(),
    };
    let mut next_sample = Time::ZERO;
    while run.base < transfer.packets {
        let time = run.next_time();
        while next_sample <= time.min(limit) && transfer.sample_every > Span::ZERO {
            run.outcome.delivered.push(run.expected * u64::from(transfer.segment));
            next_sample = next_sample + transfer.sample_every;
        }
        if time > limit {
            return Ok(run.outcome);
        }
        run.now = time;
        run.step();
    }
    run.outcome.completed = Some(run.now.0);
    Ok(run.outcome)
}

fn mac(port: Port) -> [u8; 6] {
    [2, 0, 0, 0, 0, port.0 as u8]
}

/// Returns a UDP frame over IPv4 that carries a number. Its checksums are 0.
fn frame(from: Port, to: Port, number: u64, length: usize) -> Vec<u8> {
    let mut frame = vec![0; length];
    frame[..6].copy_from_slice(&mac(to));
    frame[6..12].copy_from_slice(&mac(from));
    frame[12..15].copy_from_slice(&[0x08, 0x00, 0x45]);
    // TTL and protocol.
    frame[22..24].copy_from_slice(&[255, 17]);
    frame[NUMBER_AT..NUMBER_AT + 8].copy_from_slice(&number.to_be_bytes());
    frame
}

fn number_of(frame: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&frame[NUMBER_AT..NUMBER_AT + 8]);
    u64::from_be_bytes(bytes)
}

impl Run {
    fn may_send(&self) -> bool {
        self.next < self.transfer.packets && self.next - self.base < self.transfer.window
    }

    fn next_time(&self) -> Time {
        let send = self.may_send().then(|| self.wire_free[0].max(self.now));
        let timeout = (self.next > self.base).then_some(self.deadline);
        let enter = self.entering.peek().map(|Reverse(first)| first.arrival);
        let all = [send, timeout, enter, self.fabric.next_event()];
        // One of them always exists, because a sender with nothing outstanding may send.
        all.into_iter().flatten().min().unwrap_or(self.now).max(self.now)
    }

    fn step(&mut self) {
        if let Some(delivery) = self.fabric.poll(self.now) {
            return match delivery.port {
                RECEIVER => self.receive(number_of(&delivery.frame)),
                _ => self.acknowledge(number_of(&delivery.frame), delivery.frame[NAK_AT] != 0),
            };
        }
        if self.entering.peek().is_some_and(|Reverse(first)| first.arrival <= self.now) {
            if let Some(Reverse(Entering { arrival, from, frame, .. })) = self.entering.pop() {
                self.fabric.offer(arrival, from, frame);
            }
        } else if self.next > self.base && self.deadline <= self.now {
            self.outcome.timeouts += 1;
            self.go_back(self.base);
        } else if self.may_send() && self.wire_free[0] <= self.now {
            self.send();
        }
    }

    fn depart(&mut self, from: Port, frame: Vec<u8>) {
        let HostModel { line_rate, cable, .. } = self.transfer.host;
        let free = &mut self.wire_free[usize::from(from.0)];
        *free = (*free).max(self.now) + line_rate.time_of(frame.len() as u64);
        let arrival = *free + cable;
        self.entering.push(Reverse(Entering { arrival, number: self.frames, from, frame }));
        self.frames += 1;
    }

    fn send(&mut self) {
        if self.next == self.base {
            self.deadline = self.now + self.transfer.timeout;
        }
        let length = HEADER_BYTES + self.transfer.segment as usize;
        self.depart(SENDER, frame(SENDER, RECEIVER, self.next, length));
        self.outcome.sent += 1;
        self.next += 1;
    }

    fn go_back(&mut self, to: u64) {
        self.next = to;
        self.deadline = self.now + self.transfer.timeout;
    }

    fn receive(&mut self, number: u64) {
        let in_order = number == self.expected;
        self.expected += u64::from(in_order);
        self.outcome.discarded += u64::from(!in_order);
        let gap = number > self.expected;
        if gap && self.complained {
            return;
        }
        self.complained = gap;
        let mut answer = frame(RECEIVER, SENDER, self.expected, ACKNOWLEDGEMENT_BYTES);
        answer[NAK_AT] = gap.into();
        self.depart(RECEIVER, answer);
    }

    /// Processes an acknowledgement of all packets before `expected`.
    fn acknowledge(&mut self, expected: u64, nak: bool) {
        if expected > self.base {
            self.base = expected;
            self.next = self.next.max(expected);
            self.deadline = self.now + self.transfer.timeout;
        }
        if nak && expected == self.base {
            self.outcome.naks += 1;
            self.go_back(expected);
        }
    }
}

//! Go-back-N, to compare with: what a card without selective acknowledgement does (RoCEv2's reliable connection).
//!
//! A model of its own, which shares with Falcon only the fabric and the length of the packets. The receiver discards
//! what is out of order and says once which packet it expects (a NAK); every packet in order is acknowledged
//! cumulatively. The sender goes back to the packet that a NAK names, or to the oldest one when it times out. Its
//! window is constant. Since a fabric decides losses by the ordinal of the frame, the n-th packet of this sender and of
//! a Falcon sender have the same luck.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use fabric_model::{ConfigError, Fabric, FabricConfig, Port, Span, Time};
use serde::Serialize;

use super::plan::HostModel;

const SENDER: Port = Port(0);
const RECEIVER: Port = Port(1);
/// Length of a BACK over IPv4, which an acknowledgement here is given as well.
const ACKNOWLEDGEMENT_BYTES: usize = 14 + 20 + 8 + 16 + 32;
/// Headers of a WRITE over IPv4.
const HEADER_BYTES: usize = 14 + 20 + 8 + 16 + 28 + 28;
/// Where the number of a packet stands, behind Ethernet, IPv4 and UDP headers.
const NUMBER_AT: usize = 14 + 20 + 8;
const NAK_AT: usize = NUMBER_AT + 8;

/// A transfer from one host to another at the same switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Packets to bring over.
    pub packets: u64,
    /// User data of one packet, bytes.
    pub segment: u32,
    /// Packets that may be outstanding.
    pub window: u64,
    /// Time without progress after which the sender goes back.
    pub timeout: Span,
    /// Both hosts' cards; their engine's time and ULP are of no account here.
    pub host: HostModel,
    /// How often the amount delivered is noted.
    pub sample_every: Span,
}

/// What became of a transfer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// When the last packet was acknowledged, picoseconds; none if time was up before.
    pub completed: Option<u64>,
    /// Data packets sent, copies included.
    pub sent: u64,
    /// Data packets the receiver had no use for.
    pub discarded: u64,
    /// Times the sender went back because of a NAK,
    pub naks: u64,
    /// and because of its timer.
    pub timeouts: u64,
    /// Bytes of user data delivered at each sample.
    pub delivered: Vec<u64>,
}

/// A frame on the cable from a host to the switch; ordered by when it gets there, then by when it left.
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
    /// When the wire of each host is free.
    wire_free: [Time; 2],
    frames: u64,
    /// Sender: the oldest packet not acknowledged, the next to send, and when it will have waited too long.
    base: u64,
    next: u64,
    deadline: Time,
    /// Receiver: the packet it expects, and whether it has said so since it last got one.
    expected: u64,
    complained: bool,
    outcome: Outcome,
}

/// Runs `transfer` over a fabric of one switch until it is complete or `limit` is reached.
///
/// # Errors
/// [`ConfigError::NoSuchPort`] if the configuration has a section for other ports than 0, the sender, and 1.
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

/// A UDP frame over IPv4, its checksums left out, with a number in it.
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
        // A sender that has nothing outstanding may send.
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

    /// All packets before `expected` have arrived.
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

//! Computes the expected results of a flow from its operations alone.
//!
//! An ordered flow whose packets are retried forever is replayed in the order of its RSNs on a model of the
//! target: memory, words, posted receives. For other flows, the oracle checks that each operation took effect
//! once or, if it failed, at most once.

use std::collections::{HashMap, HashSet};

use host_nic::HostNic;
use transport_common::queues::{AccessFlags, Completion, Verb, WorkFlags};
use transport_common::transaction::CompletionCode;
use transport_common::ulp::UlpCode;

use super::application::{Area, Flow, Kind, Op};

const ACK: u8 = CompletionCode::Ack as u8;
const CIE: u8 = CompletionCode::TargetNackCie as u8;

/// The expected result of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Expected {
    status: u8,
    ulp_code: u8,
    length: u32,
}

impl Expected {
    const fn success(length: u32) -> Self {
        Self { status: ACK, ulp_code: 0, length }
    }

    /// A push completes in error. A pull is answered with the ULP's code (D-45, D-84).
    const fn refused(kind: Kind, code: UlpCode, length: u32) -> Self {
        match kind {
            Kind::Write | Kind::Send => Self { status: CIE, ulp_code: code.0, length },
            _ => Self { status: ACK, ulp_code: code.0, length: 0 },
        }
    }
}

impl Flow {
    /// Checks everything that can be known once all operations have ended. `initiator` and `target` are the two
    /// cards.
    pub fn verify(&self, initiator: &HostNic, target: &HostNic) {
        if self.is_cut() {
            return self.verify_cut();
        }
        if self.ordered {
            let ends: Vec<u32> =
                self.ops.iter().filter_map(|op| op.ended).map(|(_, c)| self.nth(c.rsn)).collect();
            let mut times: Vec<(u64, u32)> =
                self.ops.iter().filter_map(|op| op.ended).map(|(time, c)| (time, self.nth(c.rsn))).collect();
            times.sort_unstable();
            let by_time: Vec<u32> = times.iter().map(|(_, n)| *n).collect();
            assert_eq!(by_time, ends, "F-8.4.2-1: completions in RSN order");
            let arrivals: Vec<u32> = self.arrivals.iter().map(|c| self.nth(c.rsn)).collect();
            assert!(arrivals.is_sorted(), "F-5-1: deliveries in RSN order: {arrivals:?}");
        }
        for (n, arrival) in (0..).zip(&self.arrivals) {
            assert_eq!(arrival.wr_id, n, "receives are consumed in the order of posting, each once");
        }
        if self.is_sequential() {
            Replay::new(self).run(initiator, target);
        } else {
            Unordered { flow: self, initiator, target }.run();
        }
    }

    /// Checks what holds although a host restarted: an application that still runs learns of the end of each of its
    /// operations, once, and nothing is delivered twice or out of nowhere.
    fn verify_cut(&self) {
        for (n, op) in self.ops.iter().enumerate().filter(|_| !self.is_forgotten()) {
            let silent = !op.work.flags.contains(WorkFlags::SIGNALED);
            let lost = self.lost_ends.contains(&(n as u32));
            assert!(silent || lost || op.ended.is_some(), "F-6.1-2: operation {n} never completed: {op:?}");
        }
        let mut arrived = HashSet::new();
        for arrival in &self.arrivals {
            let op = self.ops.get(self.nth(arrival.rsn) as usize).expect("a message that nobody sent");
            assert!(matches!(op.kind, Kind::Send | Kind::Write), "a receive for {:?}", op.kind);
            assert!(arrived.insert(arrival.rsn), "a message was received twice");
        }
    }

    pub(super) fn nth(&self, rsn: u32) -> u32 {
        rsn.wrapping_sub(self.first.0)
    }

    /// Whether the target shows that its ULP has accepted a push, or refused it. `arrived`: it has completed a receive.
    /// Nothing shows it of a WRITE whose bytes may be written again, and of the first segments of a message.
    pub(super) fn shows_acceptance(&self, number: u32, target: &HostNic, arrived: bool) -> bool {
        let op = &self.ops[number as usize];
        let work = &op.work;
        if op.kind == Kind::Send {
            let whole = work.opcode == Verb::SEND_ONLY || work.opcode == Verb::SEND_LAST && !self.errors;
            return arrived || !whole;
        }
        if !op.area.admits(AccessFlags::REMOTE_WRITE, work.remote_address, work.length) {
            return true;
        }
        let at = (self.remote_base() + op.area.place().0 + work.remote_address) as usize;
        let is_placed = op.area != Area::Unique || target.memory()[at..][..op.data.len()] == op.data;
        is_placed && (arrived || !work.flags.contains(WorkFlags::IMMEDIATE))
    }

    /// Checks the completion of `op` against the expected result.
    fn check_end(&self, n: usize, expected: Expected) {
        let op = &self.ops[n];
        let silent =
            !op.work.flags.contains(WorkFlags::SIGNALED) && expected.status == ACK && expected.ulp_code == 0;
        let Some((_, end)) = op.ended else {
            assert!(silent, "F-6.1-2: operation {n} never completed: {op:?}");
            return;
        };
        assert!(!silent, "operation {n} completed though it was not signaled: {end:?}");
        let got = Expected { status: end.status, ulp_code: end.ulp_code, length: end.length };
        assert_eq!(got, expected, "operation {n} ended otherwise: {:?} {:?}", op.work, op.area);
    }
}

/// The model of a target that takes operations in order.
struct Replay<'a> {
    flow: &'a Flow,
    overlap: Vec<u8>,
    words: [u64; 16],
    /// Next receive, bytes of the current message in it, and whether a message is incomplete.
    receive: usize,
    filled: u32,
    open: bool,
    arrivals: Vec<Completion>,
}

impl<'a> Replay<'a> {
    fn new(flow: &'a Flow) -> Self {
        let overlap = vec![0; Area::Overlap.place().1 as usize];
        let words = flow.words;
        Self { flow, overlap, words, receive: 0, filled: 0, open: false, arrivals: Vec::new() }
    }

    fn run(mut self, initiator: &HostNic, target: &HostNic) {
        for (n, op) in self.flow.ops.iter().enumerate() {
            let expected = match op.kind {
                Kind::Malformed => {
                    Expected { status: op.refusal() as u8, ulp_code: 0, length: op.work.length }
                }
                Kind::Write => self.write(n, op, target),
                Kind::Read => self.read(n, op, initiator, target),
                Kind::CompareSwap | Kind::FetchAdd => self.atomic(n, op, initiator),
                Kind::Send => self.send(n, op, target),
            };
            self.flow.check_end(n, expected);
        }
        assert_eq!(self.flow.arrivals, self.arrivals, "F-6.1-1: receives completed otherwise");
        let start = self.flow.remote_base() as usize;
        let memory = &target.memory()[start..];
        let (overlap, length) = Area::Overlap.place();
        assert!(
            memory[overlap as usize..][..length as usize] == self.overlap,
            "memory written in another order"
        );
        for (n, word) in self.words.iter().enumerate() {
            let held = u64::from_ne_bytes(memory[n * 8..][..8].try_into().expect("8 bytes"));
            assert_eq!(held, *word, "word {n}: atomics are executed exactly once, in order");
        }
    }

    fn write(&mut self, n: usize, op: &Op, target: &HostNic) -> Expected {
        let work = &op.work;
        if !op.area.admits(AccessFlags::REMOTE_WRITE, work.remote_address, work.length) {
            return Expected::refused(op.kind, UlpCode::ACCESS, work.length);
        }
        if work.flags.contains(WorkFlags::IMMEDIATE) {
            self.arrive(n, op, Verb::RECEIVE_IMMEDIATE, work.length, ACK);
        }
        if op.area == Area::Overlap {
            self.overlap[work.remote_address as usize..][..op.data.len()].copy_from_slice(&op.data);
        } else {
            let offset = (self.flow.remote_base() + op.area.place().0 + work.remote_address) as usize;
            assert!(target.memory()[offset..][..op.data.len()] == op.data, "operation {n}: data of a WRITE");
        }
        Expected::success(work.length)
    }

    /// Checks a READ. It sees everything before it. It may also see later WRITEs, because its data are fetched
    /// when its answer is built.
    fn read(&mut self, n: usize, op: &Op, initiator: &HostNic, target: &HostNic) -> Expected {
        let work = &op.work;
        if !op.area.admits(AccessFlags::REMOTE_READ, work.remote_address, work.length) {
            return Expected::refused(op.kind, UlpCode::ACCESS, work.length);
        }
        let address = work.remote_address as usize;
        let got = &initiator.memory()[op.local as usize..][..work.length as usize];
        if op.area != Area::Overlap {
            let offset = (self.flow.remote_base() + op.area.place().0) as usize + address;
            assert!(got == &target.memory()[offset..][..got.len()], "operation {n}: data of a READ");
            return Expected::success(work.length);
        }
        let ended = op.ended.map_or(u64::MAX, |(time, _)| time);
        let later = self.flow.ops[n + 1..].iter().take_while(|other| other.posted <= ended).filter(|other| {
            let right = other.area == Area::Overlap && other.kind == Kind::Write;
            right
                && other.area.admits(AccessFlags::REMOTE_WRITE, other.work.remote_address, other.work.length)
        });
        let mut allowed: Vec<Vec<u8>> =
            self.overlap[address..][..got.len()].iter().map(|byte| vec![*byte]).collect();
        for write in later {
            for (n, byte) in write.data.iter().enumerate() {
                let place = (write.work.remote_address as usize + n).wrapping_sub(address);
                if let Some(allowed) = allowed.get_mut(place) {
                    allowed.push(*byte);
                }
            }
        }
        let wrong = got.iter().zip(&allowed).position(|(byte, allowed)| !allowed.contains(byte));
        assert_eq!(wrong, None, "operation {n}: a READ returned what was never there");
        Expected::success(work.length)
    }

    fn atomic(&mut self, n: usize, op: &Op, initiator: &HostNic) -> Expected {
        let work = &op.work;
        if !op.area.admits(AccessFlags::REMOTE_ATOMIC, work.remote_address, 8) {
            return Expected::refused(op.kind, UlpCode::ACCESS, 0);
        }
        let word = &mut self.words[work.remote_address as usize / 8];
        assert_eq!(original(op, initiator), *word, "operation {n}: the original value of an atomic");
        if op.kind == Kind::FetchAdd {
            *word = word.wrapping_add(work.swap_or_add);
        } else if *word == work.compare {
            *word = work.swap_or_add;
        }
        Expected::success(8)
    }

    fn send(&mut self, n: usize, op: &Op, target: &HostNic) -> Expected {
        let work = &op.work;
        let first = matches!(work.opcode, Verb::SEND_FIRST | Verb::SEND_ONLY);
        let last = matches!(work.opcode, Verb::SEND_LAST | Verb::SEND_ONLY);
        if first == self.open {
            return Expected::refused(op.kind, UlpCode::INVALID_REQUEST, work.length);
        }
        let buffer = self.flow.receives[self.receive];
        let end = self.filled + work.length;
        if end > buffer.length {
            self.arrive(n, op, Verb::RECEIVE, end, CompletionCode::OperationError as u8);
            (self.filled, self.open) = (0, false);
            return Expected::refused(op.kind, UlpCode::INVALID_REQUEST, work.length);
        }
        let offset = (buffer.offset + u64::from(self.filled)) as usize;
        assert!(target.memory()[offset..][..op.data.len()] == op.data, "operation {n}: data of a SEND");
        (self.filled, self.open) = if last { (0, false) } else { (end, true) };
        if last {
            self.arrive(n, op, Verb::RECEIVE, end, ACK);
        }
        Expected::success(work.length)
    }

    /// Checks the completion of the next receive.
    fn arrive(&mut self, n: usize, op: &Op, opcode: Verb, length: u32, status: u8) {
        let immediate = op.work.flags.contains(WorkFlags::IMMEDIATE) && status == ACK;
        self.arrivals.push(Completion {
            wr_id: self.receive as u64,
            length,
            immediate: if immediate { op.work.immediate } else { 0 },
            rsn: self.flow.first.add(n as u32).0,
            status,
            opcode,
            flags: if immediate { WorkFlags::IMMEDIATE } else { WorkFlags::empty() },
            ..Completion::default()
        });
        self.receive += 1;
    }
}

/// Returns the value that an atomic returned.
fn original(op: &Op, initiator: &HostNic) -> u64 {
    let bytes = &initiator.memory()[op.local as usize..][..8];
    u64::from_ne_bytes(bytes.try_into().expect("8 bytes"))
}

/// Makes the checks that hold in any order and, for failed operations, whether or not they took effect.
struct Unordered<'a> {
    flow: &'a Flow,
    initiator: &'a HostNic,
    target: &'a HostNic,
}

impl Unordered<'_> {
    fn run(&self) {
        let arrivals: HashMap<u32, &Completion> = self.flow.arrivals.iter().map(|c| (c.rsn, c)).collect();
        assert_eq!(arrivals.len(), self.flow.arrivals.len(), "a message was received twice");
        let mut explained = 0;
        for (n, op) in self.flow.ops.iter().enumerate() {
            let expected = self.expected(op);
            let failed = op.ended.is_some_and(|(_, end)| self.may_fail(end.status));
            if !failed {
                self.flow.check_end(n, expected);
            }
            let good = expected.status == ACK && expected.ulp_code == 0;
            let arrival = arrivals.get(&self.flow.first.add(n as u32).0);
            let receives = op.kind == Kind::Send
                || op.kind == Kind::Write && op.work.flags.contains(WorkFlags::IMMEDIATE);
            match arrival {
                Some(arrival) => {
                    assert!(good && receives, "operation {n} has no business with receives: {arrival:?}");
                    self.check_arrival(n, op, arrival);
                    explained += 1;
                }
                None => assert!(
                    failed || !good || !receives,
                    "operation {n} ended well, its receive did not (F-6.1-1)"
                ),
            }
            if good && !failed {
                self.check_data(n, op);
            }
        }
        assert_eq!(explained, self.flow.arrivals.len(), "receives that nobody sent");
        (0..8).for_each(|word| self.check_additions(word));
        (8..16).for_each(|word| self.check_swaps(word));
    }

    /// Returns whether a correct operation may end with `status` (D-46, D-89).
    fn may_fail(&self, status: u8) -> bool {
        let failures = [CompletionCode::LocalTimeout as u8, CompletionCode::DeadConnection as u8];
        self.flow.profile == super::Profile::Exhausting && failures.contains(&status)
    }

    fn expected(&self, op: &Op) -> Expected {
        let work = &op.work;
        let (rights, length) = match op.kind {
            Kind::Malformed => {
                return Expected { status: op.refusal() as u8, ulp_code: 0, length: work.length };
            }
            Kind::Send => return Expected::success(work.length),
            Kind::Write => (AccessFlags::REMOTE_WRITE, work.length),
            Kind::Read => (AccessFlags::REMOTE_READ, work.length),
            Kind::CompareSwap | Kind::FetchAdd => (AccessFlags::REMOTE_ATOMIC, 8),
        };
        if op.area.admits(rights, work.remote_address, length) {
            Expected::success(length)
        } else {
            Expected::refused(op.kind, UlpCode::ACCESS, length)
        }
    }

    fn check_arrival(&self, n: usize, op: &Op, arrival: &Completion) {
        let immediate = op.work.flags.contains(WorkFlags::IMMEDIATE);
        let expected = Completion {
            wr_id: arrival.wr_id,
            length: op.work.length,
            immediate: if immediate { op.work.immediate } else { 0 },
            rsn: arrival.rsn,
            opcode: if op.kind == Kind::Write { Verb::RECEIVE_IMMEDIATE } else { Verb::RECEIVE },
            flags: if immediate { WorkFlags::IMMEDIATE } else { WorkFlags::empty() },
            ..Completion::default()
        };
        assert_eq!(*arrival, expected, "operation {n}");
        if op.kind == Kind::Send {
            let buffer = self.flow.receives[arrival.wr_id as usize];
            let held = &self.target.memory()[buffer.offset as usize..][..op.data.len()];
            assert!(held == op.data, "operation {n}: data of a SEND");
        }
    }

    fn check_data(&self, n: usize, op: &Op) {
        let offset = (self.flow.remote_base() + op.area.place().0 + op.work.remote_address) as usize;
        let length = op.work.length as usize;
        match op.kind {
            Kind::Write => {
                assert!(
                    self.target.memory()[offset..][..length] == op.data,
                    "operation {n}: data of a WRITE"
                );
            }
            Kind::Read => {
                let got = &self.initiator.memory()[op.local as usize..][..length];
                assert!(got == &self.target.memory()[offset..][..length], "operation {n}: data of a READ");
            }
            _ => {}
        }
    }

    fn word(&self, word: usize) -> u64 {
        let bytes = &self.target.memory()[self.flow.remote_base() as usize + word * 8..][..8];
        u64::from_ne_bytes(bytes.try_into().expect("8 bytes"))
    }

    /// Operations on a word: operand, original value if it succeeded, the operation.
    fn on_word(&self, word: usize) -> Vec<(Option<u64>, &Op)> {
        let there = |op: &&Op| {
            let kind = if word < 8 { Kind::FetchAdd } else { Kind::CompareSwap };
            op.kind == kind && op.area == Area::Atomics && op.work.remote_address == word as u64 * 8
        };
        let with_original = |op| (self.ended_well(op).then(|| original(op, self.initiator)), op);
        self.flow.ops.iter().filter(there).map(with_original).collect()
    }

    fn ended_well(&self, op: &Op) -> bool {
        op.ended.is_none_or(|(_, end)| !self.may_fail(end.status))
    }

    /// Checks that the additions to a word form one chain of original values, with each exactly once. If
    /// operations may fail, the addends are distinct powers of two, and the sum shows them.
    fn check_additions(&self, word: usize) {
        let operations = self.on_word(word);
        if operations.iter().any(|(original, _)| original.is_none()) {
            let sum = |well: bool| {
                let taken = operations.iter().filter(|(original, _)| !well || original.is_some());
                taken.map(|(_, op)| op.work.swap_or_add).sum::<u64>()
            };
            let (held, least, most) = (self.word(word), sum(true), sum(false));
            assert!(
                held & least == least && held & !most == 0,
                "word {word}: {held:x} not in {least:x}..{most:x}"
            );
            return;
        }
        let mut by_original: HashMap<u64, &Op> = HashMap::new();
        for (original, op) in &operations {
            let previous = by_original.insert(original.expect("all ended well"), op);
            assert!(previous.is_none(), "word {word}: two additions found the same value");
        }
        let mut value = self.flow.words[word];
        while let Some(op) = by_original.remove(&value) {
            value = value.wrapping_add(op.work.swap_or_add);
        }
        assert!(by_original.is_empty(), "word {word}: additions that found what was never there");
        assert_eq!(value, self.word(word), "word {word}: additions are executed exactly once");
    }

    /// Checks that successful swaps form one chain from the first value to the last, and that the others found
    /// a value of that chain.
    fn check_swaps(&self, word: usize) {
        let operations = self.on_word(word);
        if operations.iter().any(|(original, _)| original.is_none()) {
            let known = operations.iter().any(|(_, op)| op.work.swap_or_add == self.word(word));
            assert!(
                known || self.word(word) == self.flow.words[word],
                "word {word} holds what nobody brought"
            );
            return;
        }
        let swaps = operations.iter().filter(|(original, op)| *original == Some(op.work.compare));
        let mut chain: HashMap<u64, u64> = HashMap::new();
        for (_, op) in swaps {
            let previous = chain.insert(op.work.compare, op.work.swap_or_add);
            assert!(previous.is_none(), "word {word}: two swaps found the same value");
        }
        let (mut value, mut seen) = (self.flow.words[word], vec![self.flow.words[word]]);
        while let Some(next) = chain.remove(&value) {
            value = next;
            seen.push(next);
        }
        assert!(chain.is_empty(), "word {word}: swaps that found what was never there");
        assert_eq!(value, self.word(word), "word {word}: swaps are executed exactly once");
        for (original, _) in operations {
            assert!(
                original.is_some_and(|original| seen.contains(&original)),
                "word {word}: an unknown original"
            );
        }
    }
}

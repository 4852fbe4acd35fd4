//! The protocols fit the hardware, and give the same results in both arithmetics.

use clocked::RingBitmap;
use proptest::prelude::*;

use crate::logic::{Counting, Logic, Operation, Plain, Tape, UserState, Value};
use crate::protocols::{Falcon, Irn, Ndp, NewReno, Reno, RoceDcqcn, Sack, Swift, SwiftWindow, Tcp};
use crate::report::reports;
use crate::{Decision, Incoming, Periodic, Protocol, View};

use super::CLOCK;

#[test]
fn every_protocol_fits() {
    let reports = reports();
    let names: Vec<_> = reports.iter().map(|report| report.name.as_str()).collect();
    assert_eq!(names, ["reno", "new_reno", "sack", "ndp", "roce_dcqcn", "irn", "swift", "falcon"]);
    for report in reports {
        assert!(report.lines < 200 && report.code_lines < report.lines, "{}", report.name);
        // In table 3 of the paper it is less than 30 bytes. Here it includes round-trip estimation and longer
        // counters.
        assert!(report.state_bytes <= 36 && report.state_bytes < report.state_limit, "{}", report.name);
        assert!(report.incoming.depth <= report.incoming.total + 6 * 11, "{}", report.name);
        assert!(report.incoming.depth > 0 && report.periodic.depth > 0, "{}", report.name);
        // Only protocols that call the datapath's code have operations that are not counted.
        let boxes = [&report.incoming, &report.periodic].map(|cost| cost.operations[&Operation::Core]);
        let expected = match report.name.as_str() {
            "swift" => [1, 1],
            "falcon" => [2, 2],
            _ => [0, 0],
        };
        assert_eq!(boxes, expected, "{}", report.name);
    }
}

/// Random inputs for both arithmetics: 20 words, 8 flags and a bitmap.
#[derive(Clone, Debug)]
struct Inputs {
    words: Vec<u64>,
    flags: [bool; 8],
    bits: Vec<u32>,
    state: Vec<u64>,
}

fn inputs() -> impl Strategy<Value = Inputs> {
    let word = prop_oneof![0..300u64, any::<u32>().prop_map(u64::from), 0..1u64 << 48];
    (
        prop::collection::vec(word.clone(), 20),
        any::<[bool; 8]>(),
        prop::collection::vec(0..128u32, 0..60),
        prop::collection::vec(word, 16),
    )
        .prop_map(|(words, flags, bits, state)| Inputs { words, flags, bits, state })
}

impl Inputs {
    fn bitmap(&self) -> RingBitmap<2> {
        let mut bitmap = RingBitmap::EMPTY;
        self.bits.iter().for_each(|bit| bitmap.set(*bit));
        bitmap
    }

    fn view<L: Logic>(&self, word: impl Fn(u64) -> L::Word, bitmap: L::Bitmap) -> View<L> {
        View {
            now: word(self.words[0]),
            window_start: word(self.words[1] & 0xffff_ffff),
            window_size: word(self.words[2] % 129),
            next_new: word((self.words[1] + self.words[3] % 129) & 0xffff_ffff),
            data_left: word(self.words[4] % (1 << 31)),
            total_sent: word(self.words[5]),
            timer_period: word(self.words[6]),
            acked: bitmap,
            marked: bitmap,
            retransmitted: bitmap,
        }
    }

    fn incoming<L: Logic>(
        &self,
        word: impl Fn(u64) -> L::Word,
        flag: impl Fn(bool) -> L::Flag,
        bitmap: L::Bitmap,
    ) -> Incoming<L> {
        Incoming {
            is_ack: flag(self.flags[0]),
            is_nack: flag(self.flags[1]),
            is_pull: flag(self.flags[2]),
            is_cnp: flag(self.flags[3]),
            cumulative: word(self.words[7] & 0xffff_ffff),
            has_selective: flag(self.flags[4]),
            selective: word(self.words[8] & 0xffff_ffff),
            newly_selective: flag(self.flags[5]),
            data: word(self.words[9] & 0xffff_ffff),
            newly_acked: word(self.words[10] % 129),
            old_window_start: word((self.words[1].wrapping_sub(self.words[11] % 129)) & 0xffff_ffff),
            flow: self.view::<L>(&word, bitmap),
        }
    }
}

/// The outputs as numbers.
fn numbers<L: Logic, S: UserState<L>>(
    decision: &Decision<L>,
    state: &S,
    number: impl Fn(L::Word) -> u64,
    truth: impl Fn(L::Flag) -> bool,
) -> Vec<u64> {
    let words = [
        decision.mark_from,
        decision.mark_to,
        decision.window_size,
        decision.timer_period,
        decision.rate,
        decision.tokens,
    ];
    let mut numbers: Vec<u64> = words.into_iter().map(&number).collect();
    numbers
        .extend([decision.mark, decision.reset_timer, decision.set_rate].map(|flag| u64::from(truth(flag))));
    numbers.extend((0..S::WIDTHS.len()).map(|field| number(state.word(field))));
    numbers
}

/// Runs both functions of a protocol in one arithmetic.
fn run<L: Logic, P: Protocol>(
    protocol: &P,
    inputs: &Inputs,
    (word, flag, bitmap): (impl Fn(u64) -> L::Word, impl Fn(bool) -> L::Flag, L::Bitmap),
    (number, truth): (impl Fn(L::Word) -> u64, impl Fn(L::Flag) -> bool),
) -> Vec<u64> {
    let widths = <P::State<L> as UserState<L>>::WIDTHS;
    let mask = |field: usize| if widths[field] < 64 { (1 << widths[field]) - 1 } else { u64::MAX };
    let state = <P::State<L>>::from_words(|field| word(inputs.state[field] & mask(field)));
    let (decision, next) = protocol.incoming::<L>(&inputs.incoming::<L>(&word, &flag, bitmap), &state);
    let mut all = numbers::<L, _>(&decision, &next, &number, &truth);
    let input = Periodic { timer_expired: flag(inputs.flags[6]), flow: inputs.view::<L>(&word, bitmap) };
    let (decision, next) = protocol.periodic::<L>(&input, &state);
    all.extend(numbers::<L, _>(&decision, &next, &number, &truth));
    all.push(number(protocol.due::<L>(&state)));
    all
}

fn agrees<P: Protocol>(protocol: &P, inputs: &Inputs) {
    let plain = run::<Plain<2>, _>(
        protocol,
        inputs,
        (Value, |flag| flag, inputs.bitmap()),
        (|word: Value| word.0, |flag| flag),
    );
    let tape = Tape::default();
    let counted = run::<Counting<'_>, _>(
        protocol,
        inputs,
        (|word| tape.input(word), |flag| tape.flag(flag), tape.bitmap(inputs.bitmap())),
        (|word| word.value, |flag| flag.value),
    );
    assert_eq!(plain, counted, "{}", P::NAME);
}

proptest! {
    #[test]
    fn counting_changes_no_result(inputs in inputs()) {
        agrees(&Reno(Tcp::new(CLOCK)), &inputs);
        agrees(&NewReno(Tcp::new(CLOCK)), &inputs);
        agrees(&Sack(Tcp::new(CLOCK)), &inputs);
        agrees(&Ndp::new(CLOCK), &inputs);
        agrees(&RoceDcqcn::new(CLOCK, 40_000_000_000, 1_000), &inputs);
        agrees(&Irn::new(CLOCK, 40_000_000_000), &inputs);
        let swift = SwiftWindow::new(CLOCK, 40_000_000_000, 1_000);
        agrees(&Swift(swift), &inputs);
        agrees(&Falcon::new(swift), &inputs);
    }
}

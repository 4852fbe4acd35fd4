//! The cost of a protocol: lines, state, operations and depth of its user logic.
//!
//! [`reports`] returns the costs of the eight [`protocols`](crate::protocols), [`report`] those of any
//! [`Protocol`]. `tiercel model experiment tonic-protocols` prints them. `docs/model/tonic.md`
//! describes the results.

use std::collections::BTreeMap;

use clocked::RingBitmap;
use serde::{Deserialize, Serialize};

use super::logic::{Counted, Counting, Flag, Operation, Tape, UserState, Word};
use super::parameters::Frequency;
use super::protocol::{Credit, Decision, Incoming, Periodic, Protocol, View};
use super::protocols::{Falcon, Irn, Ndp, NewReno, Reno, RoceDcqcn, Sack, Swift, SwiftWindow, Tcp};
use super::user_state_bytes;

/// The cost of one of the two functions, counted by running it on [`Counting`] numbers. The logic cannot branch,
/// so the counts are the same for all inputs. A call of `transport-common` is one operation and one level,
/// whatever it does inside ([`Operation::Core`]). The cost of a protocol with such calls is therefore only the
/// cost of the logic around the calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    /// The operations by kind.
    pub operations: BTreeMap<Operation, u32>,
    /// The number of all operations.
    pub total: u32,
    /// The operations on the longest path from an input to an output. A bitmap operation counts as seven.
    pub depth: u32,
}

/// The cost of a protocol.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProtocolReport {
    /// The name of the protocol.
    pub name: String,
    /// The scheme by which its flows get credit.
    pub credit: Credit,
    /// The lines of its file.
    pub lines: usize,
    /// The lines that are not empty, not comments and not `#[inline]` attributes, which concern only the model.
    pub code_lines: usize,
    /// The code lines of the file that it shares with other protocols, if there is one: [`Tcp`] or
    /// [`SwiftWindow`].
    pub shared_code_lines: usize,
    /// The size of the user state in bytes.
    pub state_bytes: usize,
    /// The bytes of user state that the hardware has space for (table 4).
    pub state_limit: usize,
    /// The programmable stage of Incoming.
    pub incoming: Cost,
    /// Periodic Updates, including the check of user timers.
    pub periodic: Cost,
}

type L<'t> = Counting<'t>;

/// Returns inputs at depth 0. Their values do not matter.
fn view(tape: &Tape) -> View<L<'_>> {
    View {
        now: tape.input(0),
        window_start: tape.input(0),
        window_size: tape.input(0),
        next_new: tape.input(0),
        data_left: tape.input(0),
        total_sent: tape.input(0),
        timer_period: tape.input(0),
        acked: tape.bitmap(RingBitmap::EMPTY),
        marked: tape.bitmap(RingBitmap::EMPTY),
        retransmitted: tape.bitmap(RingBitmap::EMPTY),
    }
}

fn incoming(tape: &Tape) -> Incoming<L<'_>> {
    Incoming {
        is_ack: tape.flag(true),
        is_nack: tape.flag(false),
        is_pull: tape.flag(false),
        is_cnp: tape.flag(false),
        cumulative: tape.input(0),
        has_selective: tape.flag(false),
        selective: tape.input(0),
        newly_selective: tape.flag(false),
        data: tape.input(0),
        newly_acked: tape.input(0),
        old_window_start: tape.input(0),
        flow: view(tape),
    }
}

/// Returns the length of the longest path to any output.
fn depth<'t, S: UserState<L<'t>>>(decision: &Decision<L<'t>>, state: &S) -> u32 {
    let flags = [decision.mark, decision.reset_timer, decision.set_rate];
    let words = [
        decision.mark_from,
        decision.mark_to,
        decision.window_size,
        decision.timer_period,
        decision.rate,
        decision.tokens,
    ];
    let words = words.into_iter().chain((0..S::WIDTHS.len()).map(|field| state.word(field)));
    let words = words.chain(flags.map(Flag::word));
    words.map(|Counted { depth, .. }| depth).max().unwrap_or(0)
}

fn cost(tape: &Tape, depth: u32) -> Cost {
    let operations: BTreeMap<_, _> =
        Operation::ALL.map(|operation| (operation, tape.count(operation))).into_iter().collect();
    Cost { total: operations.values().sum(), operations, depth }
}

/// Returns the cost of a protocol. `source` is the text of its file, `shared` the text of the file that it shares
/// with other protocols.
pub fn report<P: Protocol>(protocol: &P, source: &str, shared: &str) -> ProtocolReport {
    let tape = Tape::default();
    let state = <P::State<L<'_>>>::from_words(|_| tape.input(0));
    let (decision, next) = protocol.incoming::<L<'_>>(&incoming(&tape), &state);
    let incoming = cost(&tape, depth(&decision, &next));

    let tape = Tape::default();
    let state = <P::State<L<'_>>>::from_words(|_| tape.input(0));
    let input = Periodic { timer_expired: tape.flag(true), flow: view(&tape) };
    let due = protocol.due::<L<'_>>(&state).at_most(input.flow.now);
    let (decision, next) = protocol.periodic::<L<'_>>(&input, &state);
    let periodic = cost(&tape, depth(&decision, &next).max(due.depth));

    let is_code = |line: &&str| {
        let line = line.trim();
        !line.is_empty() && !line.starts_with("//") && !line.starts_with("#[inline")
    };
    let code_lines = |source: &str| source.lines().filter(is_code).count();
    ProtocolReport {
        name: P::NAME.to_owned(),
        credit: P::CREDIT,
        lines: source.lines().count(),
        code_lines: code_lines(source),
        shared_code_lines: code_lines(shared),
        state_bytes: user_state_bytes::<P>(),
        state_limit: P::CREDIT.user_state_limit(),
        incoming,
        periodic,
    }
}

/// Returns the costs of the eight protocols.
#[must_use]
pub fn reports() -> Vec<ProtocolReport> {
    let clock = Frequency::default();
    let (tcp, rate) = (Tcp::new(clock), 100_000_000_000);
    let swift = SwiftWindow::new(clock, rate, 1_500);
    let (of_tcp, of_swift) = (include_str!("protocols/tcp.rs"), include_str!("protocols/fabric_window.rs"));
    let roce = RoceDcqcn::new(clock, rate, 1_500);
    vec![
        report(&Reno(tcp), include_str!("protocols/reno.rs"), of_tcp),
        report(&NewReno(tcp), include_str!("protocols/new_reno.rs"), of_tcp),
        report(&Sack(tcp), include_str!("protocols/sack.rs"), of_tcp),
        report(&Ndp::new(clock), include_str!("protocols/ndp.rs"), ""),
        report(&roce, include_str!("protocols/roce_dcqcn.rs"), ""),
        report(&Irn::new(clock, rate), include_str!("protocols/irn.rs"), ""),
        report(&Swift(swift), include_str!("protocols/swift.rs"), of_swift),
        report(&Falcon::new(swift), include_str!("protocols/falcon.rs"), of_swift),
    ]
}

//! One run of the datapath, as a coroutine that stops at every block.

use corosensei::Coroutine;
use corosensei::stack::DefaultStack;
use transport_common::datapath::{self, Scratch, Turn, Verdict};
use transport_common::units::Picoseconds;
use transport_common::wire::cursor::Cursor as _;

use super::backend::Backend;
use super::card::Card;
use super::event::Event;
use super::request::Request;
use super::task::Task;
use super::work::StepWork;

/// Bytes of a run's stack. The datapath needs only a few kilobytes, because it has to fit the stack of the BPF
/// target.
const STACK_BYTES: usize = 128 << 10;

/// The result of a coroutine.
pub(super) struct Done<B> {
    pub(super) backend: B,
    pub(super) verdict: Verdict,
    pub(super) idle: bool,
    pub(super) event: Event,
    pub(super) work: StepWork,
    pub(super) steps: u32,
    pub(super) readings: Vec<Picoseconds>,
    /// Bytes of the frame.
    pub(super) bytes: u32,
    pub(super) scratch: Option<Box<Scratch>>,
}

pub(super) type Course<B> = Coroutine<Picoseconds, Request, Done<B>>;

/// A pool of stacks and scratch areas for reuse.
#[derive(Default)]
pub struct Spares {
    pub(super) stacks: Vec<DefaultStack>,
    pub(super) scratches: Vec<Box<Scratch>>,
}

impl Spares {
    pub(super) fn stack(&mut self) -> DefaultStack {
        self.stacks.pop().unwrap_or_else(|| {
            DefaultStack::new(STACK_BYTES).expect("the address space is large enough for a small stack")
        })
    }

    pub(super) fn scratch(&mut self) -> Box<Scratch> {
        let mut scratch: Box<Scratch> = self.scratches.pop().unwrap_or_else(bytemuck::zeroed_box);
        scratch.poison();
        scratch
    }
}

fn finish<B: Backend>(
    card: Card<'_, B>,
    scratch: Box<Scratch>,
    task: Task,
    (verdict, idle): (Verdict, bool),
) -> Done<B> {
    let (mut backend, work, steps, readings) = card.into_parts();
    let event = Event::of(task, &scratch, &work, steps, verdict);
    let bytes = backend.cursor().remaining() as u32;
    Done { backend, verdict, idle, event, work, steps, readings, bytes, scratch: Some(scratch) }
}

/// Creates the coroutine that runs the datapath for one frame or turn.
pub(super) fn course<B: Backend>(
    task: Task,
    backend: B,
    stack: DefaultStack,
    mut scratch: Box<Scratch>,
) -> Course<B> {
    Coroutine::with_stack(stack, move |blocks, now| {
        let mut backend = backend;
        backend.set_time(now);
        let mut card = Card::new(backend, blocks, task == Task::Receive);
        match task {
            Task::Receive => {
                let verdict = datapath::receive(&mut card, &mut scratch);
                finish(card, scratch, task, (verdict, false))
            }
            Task::Turn { look_at_wheel } => {
                let mut turn = datapath::engine(&mut card, &mut scratch, look_at_wheel);
                if turn == Turn::Redeliver {
                    turn = datapath::redeliver(&mut card, &mut scratch);
                }
                let verdict = if turn == Turn::Transmit { Verdict::Transmit } else { Verdict::Drop };
                finish(card, scratch, task, (verdict, turn == Turn::Idle))
            }
        }
    })
}

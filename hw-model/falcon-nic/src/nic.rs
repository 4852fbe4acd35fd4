//! A card that works: the blocks over the host's memory, its receive buffer and its scheduler's turns.

use std::cell::{Ref, RefCell, RefMut};
use std::collections::VecDeque;
use std::rc::Rc;

use clocked::Cycle;
use host_nic::{FrameAtHand, HostConfig, HostNic};
use transport_common::datapath::Verdict;
use transport_common::timing_wheel::{self, NANOS_PER_TICK};
use transport_common::units::Picoseconds;

use super::backend::LiveFrame;
use super::offer::{Offer, Source};
use super::parameters::{ParameterError, Parameters};
use super::pipeline::Pipeline;
use super::run::Finished;
use super::statistics::Statistics;
use super::task::Task;

/// Levels of a receive buffer (F-10.2-3).
const LEVELS: u64 = 32;

/// A frame that left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// When its last bit was on the line.
    pub at: Picoseconds,
    /// Its bytes.
    pub frame: Vec<u8>,
}

/// The card in cycles. Applications use [`Self::host_mut`], as they use the plain one.
pub struct FalconNic {
    host: Rc<RefCell<HostNic>>,
    pipeline: Pipeline<LiveFrame>,
    sent: VecDeque<Sent>,
    dropped: u64,
}

impl FalconNic {
    /// A card without connections, just reset.
    ///
    /// # Errors
    /// A parameter that describes no hardware.
    pub fn new(config: HostConfig, parameters: Parameters) -> Result<Self, ParameterError> {
        let host = Rc::new(RefCell::new(HostNic::new(config)));
        Ok(Self { host, pipeline: Pipeline::new(parameters)?, sent: VecDeque::new(), dropped: 0 })
    }

    /// What the application and the connection manager see.
    ///
    /// # Panics
    /// While [`Self::host_mut`]'s answer is in use.
    pub fn host(&self) -> Ref<'_, HostNic> {
        self.host.borrow()
    }

    /// Likewise, to change it.
    ///
    /// # Panics
    /// While an earlier answer is in use.
    pub fn host_mut(&self) -> RefMut<'_, HostNic> {
        self.host.borrow_mut()
    }

    /// The blocks.
    pub const fn pipeline(&self) -> &Pipeline<LiveFrame> {
        &self.pipeline
    }

    /// What was counted so far.
    pub fn statistics(&mut self) -> Statistics {
        self.pipeline.statistics()
    }

    /// The cycle that the next [`Self::step`] computes.
    pub const fn now(&self) -> Cycle {
        self.pipeline.now()
    }

    /// A frame whose last bit comes off the line at an instant.
    pub fn receive(&mut self, frame: Vec<u8>, at: Picoseconds) {
        let bytes = frame.len() as u32;
        let limit = self.host.borrow().frame_limit(&frame);
        let frame = FrameAtHand { bytes: frame, limit, arrival: Some(at) };
        let backend = LiveFrame::new(Rc::clone(&self.host), frame);
        let cycle = self.pipeline.cycle_of(at);
        self.pipeline.offer(Offer { task: Task::Receive, source: Source::Backend(backend), bytes }, cycle);
    }

    /// Takes the frame that left first.
    pub fn take_sent(&mut self) -> Option<Sent> {
        self.sent.pop_front()
    }

    /// Whether the timing wheel has something to do at a cycle.
    fn wheel_is_due(&self, cycle: Cycle) -> bool {
        let tick = timing_wheel::now_tick(self.pipeline.time_of(cycle).0 / 1000);
        self.host.borrow_mut().wheel().next_event().is_some_and(|due| due <= tick)
    }

    /// Begins a turn if more connections ask for one than turns are on their way to them.
    fn begin_turn(&mut self) {
        if !self.pipeline.takes_turn() {
            return;
        }
        let now = self.now();
        let look_at_wheel = self.wheel_is_due(now);
        let asking = self.host.borrow_mut().asking() + usize::from(look_at_wheel);
        if self.pipeline.turns_unresolved() < asking {
            let backend = LiveFrame::new(Rc::clone(&self.host), FrameAtHand::of_the_engine());
            self.pipeline.offer(
                Offer { task: Task::Turn { look_at_wheel }, source: Source::Backend(backend), bytes: 0 },
                now,
            );
        }
    }

    /// Computes a cycle.
    pub fn step(&mut self) {
        self.begin_turn();
        let room = self.pipeline.parameters().receive_buffer;
        let level = (self.pipeline.buffered() * LEVELS / room).min(LEVELS - 1);
        self.host.borrow_mut().set_rx_buffer_level(level as u8);
        self.pipeline.step();
        while let Some(finished) = self.pipeline.take_finished() {
            self.leave(finished);
        }
    }

    fn leave(&mut self, finished: Finished<LiveFrame>) {
        match finished.verdict {
            Some(Verdict::Transmit) => {
                let at = self.pipeline.time_of(finished.finished);
                self.sent.push_back(Sent { at, frame: finished.backend.frame.bytes });
            }
            Some(Verdict::Pass | Verdict::Drop) => {}
            None => self.dropped += 1,
        }
    }

    /// Frames dropped as the receive buffer was full.
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// The first cycle in which something happens; `None`: never, unless a frame or the application comes.
    pub fn next_event(&self) -> Option<Cycle> {
        let mut host = self.host.borrow_mut();
        let now = self.now();
        if host.asking() > self.pipeline.turns_unresolved() && self.pipeline.takes_turn() {
            return Some(now);
        }
        let tick = host.wheel().next_event();
        let wheel = tick.map(|tick| {
            self.pipeline.cycle_of(Picoseconds(tick.saturating_mul(NANOS_PER_TICK * 1000))).max(now)
        });
        self.pipeline.next_event().into_iter().chain(wheel).min()
    }

    /// Passes over the cycles before `cycle`, in which nothing happens.
    pub(super) fn pass_to(&mut self, cycle: Cycle) {
        self.pipeline.skip_to(cycle);
    }

    /// Passes over cycles in which nothing happens, but not over `limit`.
    pub fn skip_idle(&mut self, limit: Cycle) {
        self.pass_to(self.next_event().unwrap_or(Cycle::NEVER).min(limit));
    }
}

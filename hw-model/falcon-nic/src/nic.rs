//! A whole card: the blocks over the host's memory, the receive buffer, and the turns of the engine.

use std::cell::{Ref, RefCell, RefMut};
use std::collections::VecDeque;
use std::rc::Rc;

use clocked::Cycle;
use host_nic::{FrameAtHand, HostConfig, HostNic};
use transport_common::datapath::Verdict;
use transport_common::timing_wheel::WheelTick;
use transport_common::units::Picoseconds;

use super::backend::{LiveFrame, SharedCard};
use super::offer::{Offer, Source};
use super::parameters::{ParameterError, Parameters};
use super::pipeline::Pipeline;
use super::run::Finished;
use super::statistics::Statistics;
use super::task::Task;

/// Number of levels of a receive buffer (F-10.2-3).
const LEVELS: u64 = 32;

/// A frame that the card sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The time when its last bit was on the line.
    pub at: Picoseconds,
    /// Its bytes.
    pub frame: Vec<u8>,
}

/// The card in cycles. Applications use it through [`Self::host_mut`], in the same way as the plain [`HostNic`].
pub struct FalconNic {
    host: Rc<RefCell<HostNic>>,
    pipeline: Pipeline<LiveFrame>,
    sent: VecDeque<Sent>,
    dropped: u64,
}

impl FalconNic {
    /// Creates a card without connections, in the state after a reset.
    ///
    /// # Errors
    /// Returns an error if a parameter is out of range.
    pub fn new(config: HostConfig, parameters: Parameters) -> Result<Self, ParameterError> {
        let host = Rc::new(RefCell::new(HostNic::new(config)));
        Ok(Self { host, pipeline: Pipeline::new(parameters)?, sent: VecDeque::new(), dropped: 0 })
    }

    /// Returns the host's view of the card, as the application and the connection manager see it.
    ///
    /// # Panics
    /// Panics while a value returned by [`Self::host_mut`] is in use.
    pub fn host(&self) -> Ref<'_, HostNic> {
        self.host.borrow()
    }

    /// Returns the host's view of the card for changes.
    ///
    /// # Panics
    /// Panics while an earlier returned value is in use.
    pub fn host_mut(&self) -> RefMut<'_, HostNic> {
        self.host.borrow_mut()
    }

    /// Returns the pipeline with its blocks.
    pub const fn pipeline(&self) -> &Pipeline<LiveFrame> {
        &self.pipeline
    }

    /// Returns the statistics so far.
    pub fn statistics(&mut self) -> Statistics {
        self.pipeline.statistics()
    }

    /// Returns the cycle that the next [`Self::step`] computes.
    pub const fn now(&self) -> Cycle {
        self.pipeline.now()
    }

    /// Receives a frame whose last bit arrives at the time `at`.
    pub fn receive(&mut self, frame: Vec<u8>, at: Picoseconds) {
        let bytes = frame.len() as u32;
        let limit = self.host.borrow().frame_limit(&frame);
        let frame = FrameAtHand { bytes: frame, limit, arrival: Some(at) };
        let backend = SharedCard::backend(Rc::clone(&self.host), frame);
        let cycle = self.pipeline.cycle_of(at);
        self.pipeline.offer(Offer { task: Task::Receive, source: Source::Backend(backend), bytes }, cycle);
    }

    /// Takes the oldest sent frame.
    pub fn take_sent(&mut self) -> Option<Sent> {
        self.sent.pop_front()
    }

    /// Returns true if the timing wheel has work at a cycle.
    fn wheel_is_due(&self, cycle: Cycle) -> bool {
        let tick = WheelTick::at(self.pipeline.time_of(cycle));
        self.host.borrow_mut().wheel().next_event().is_some_and(|due| !due.is_after(tick))
    }

    /// Starts a turn if more connections request one than turns are in progress without a connection.
    fn begin_turn(&mut self) {
        if !self.pipeline.takes_turn() {
            return;
        }
        let now = self.now();
        let look_at_wheel = self.wheel_is_due(now);
        let asking = self.host.borrow_mut().asking() + usize::from(look_at_wheel);
        if self.pipeline.turns_unresolved() < asking {
            let backend = SharedCard::backend(Rc::clone(&self.host), FrameAtHand::of_the_engine());
            self.pipeline.offer(
                Offer { task: Task::Turn { look_at_wheel }, source: Source::Backend(backend), bytes: 0 },
                now,
            );
        }
    }

    /// Computes one cycle.
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
                self.sent.push_back(Sent { at, frame: finished.backend.0.frame.bytes });
            }
            Some(Verdict::Pass | Verdict::Drop) => {}
            None => self.dropped += 1,
        }
    }

    /// Returns the number of frames dropped because the receive buffer was full.
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Returns the next cycle with work, or `None` if nothing happens without a new frame or an action of the
    /// application.
    pub fn next_event(&self) -> Option<Cycle> {
        let mut host = self.host.borrow_mut();
        let now = self.now();
        if host.asking() > self.pipeline.turns_unresolved() && self.pipeline.takes_turn() {
            return Some(now);
        }
        let tick = host.wheel().next_event();
        let wheel = tick.map(|tick| self.pipeline.cycle_of(tick.start()).max(now));
        self.pipeline.next_event().into_iter().chain(wheel).min()
    }

    /// Skips the cycles before `cycle`. The caller knows that nothing happens in them.
    pub(super) fn pass_to(&mut self, cycle: Cycle) {
        self.pipeline.skip_to(cycle);
    }

    /// Skips idle cycles, up to `limit` at most.
    pub fn skip_idle(&mut self, limit: Cycle) {
        self.pass_to(self.next_event().unwrap_or(Cycle::NEVER).min(limit));
    }
}

//! The contract of every platform, on recorded answers: the recorder takes them from the host's platform, and the
//! replay gives them again.

use std::any::Any;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use host_nic::contract::{self, Fixture};
use host_nic::{FrameAtHand, HostNic, HostPlatform};
use transport_common::datapath::Verdict;
use transport_common::queues::CONNECTIONS;
use transport_common::tape::{Recorded, RunKind, Tag, Tape, finish};

use super::Replayed;
use crate::player::Player;
use crate::tests::bytes_of;
use crate::{Connections, RecordedRun, Shared};

/// The checks that cannot hold, because they read a frame back. A trace has the headers of a received frame and no
/// more of it, and a replay does not apply what the datapath writes into a frame. It compares the headers with the
/// recorded ones instead.
const OF_FRAMES: [&str; 4] = [
    "frames_get_the_length_of_their_packet",
    "headers_are_stored_within_bounds",
    "memory_is_copied_within_bounds",
    "cells_keep_what_they_are_given",
];

/// What a node held, in the order in which a check looked.
type Seen = VecDeque<Box<dyn Any>>;

/// The host's node behind the recorder.
struct Recording {
    nic: HostNic,
    frame: FrameAtHand,
    tape: Box<Tape>,
    recorded: VecDeque<RecordedRun>,
    seen: Seen,
}

impl Recording {
    fn new() -> Self {
        Self {
            nic: contract::node(),
            frame: FrameAtHand::default(),
            tape: bytemuck::zeroed_box(),
            recorded: VecDeque::new(),
            seen: Seen::new(),
        }
    }

    /// Keeps the run that has ended, if there is one.
    fn end_run(&mut self) {
        if self.tape.kind.get() == 0 {
            return;
        }
        assert_ne!(finish(&self.tape, Verdict::Drop), usize::MAX, "the run fits the tape");
        self.recorded.push_back(RecordedRun::from_bytes(&bytes_of(&mut self.tape)).expect("a tape"));
        self.tape.kind.set(0);
    }
}

impl Fixture for Recording {
    type Platform<'a> = Recorded<'a, HostPlatform<'a>>;

    fn with(&mut self, frame: FrameAtHand) -> Self::Platform<'_> {
        self.end_run();
        self.frame = frame;
        self.tape.begin(RunKind::RECEIVE);
        let length = self.frame.bytes.len() as u32;
        let mut platform = Recorded::new(self.nic.platform(&mut self.frame), &self.tape);
        platform.note_frame(length);
        platform
    }

    fn arrange(&mut self, change: impl FnOnce(&mut HostNic)) {
        change(&mut self.nic);
    }

    fn look<R: Clone + 'static>(&mut self, at: impl FnOnce(&mut HostNic) -> R) -> R {
        let seen = at(&mut self.nic);
        self.seen.push_back(Box::new(seen.clone()));
        seen
    }
}

/// The replay of a [`Recording`]. It has no node: what the node held is recorded too.
struct Replaying {
    recorded: VecDeque<RecordedRun>,
    seen: Seen,
    connections: Shared,
    /// The tape of the latest run.
    player: Option<Rc<RefCell<Player>>>,
    runs: u64,
}

impl Replaying {
    fn new(recording: Recording) -> Self {
        let mut connections = Connections::default();
        let node = contract::node();
        for slot in 0..CONNECTIONS {
            connections.told(slot as u32, Box::new(*node.entry(slot)));
        }
        Self {
            recorded: recording.recorded,
            seen: recording.seen,
            connections: Rc::new(RefCell::new(connections)),
            player: None,
            runs: 0,
        }
    }

    /// Asserts that the run asked for everything that was recorded, and nothing else.
    fn end_run(&mut self) {
        let Some(player) = self.player.take() else { return };
        let player = player.borrow();
        assert!(player.difference.is_none(), "run {}: {:?}", self.runs, player.difference);
        assert!(player.stands_at(Tag::End), "run {} asked for less than was recorded", self.runs);
    }
}

impl Fixture for Replaying {
    type Platform<'a> = Replayed;

    fn with(&mut self, _: FrameAtHand) -> Replayed {
        self.end_run();
        self.runs += 1;
        let run = self.recorded.pop_front().expect("the recording has as many runs");
        let platform = Replayed::new(self.runs, Rc::new(run), Rc::clone(&self.connections));
        self.player = Some(Rc::clone(&platform.player));
        platform
    }

    fn arrange(&mut self, _: impl FnOnce(&mut HostNic)) {}

    fn look<R: Clone + 'static>(&mut self, _: impl FnOnce(&mut HostNic) -> R) -> R {
        let seen = self.seen.pop_front().expect("the recording has as many looks");
        *seen.downcast().expect("the check looks at the same things")
    }
}

#[test]
fn the_replay_keeps_the_contract_except_for_frames() {
    let checks = contract::checks::<Recording>().into_iter().zip(contract::checks::<Replaying>());
    let mut left_out = Vec::new();
    for ((name, record), (_, replay)) in checks {
        if OF_FRAMES.contains(&name) {
            left_out.push(name);
            continue;
        }
        let mut recording = Recording::new();
        record(&mut recording);
        recording.end_run();
        let mut replaying = Replaying::new(recording);
        replay(&mut replaying);
        replaying.end_run();
        assert!(replaying.runs > 0 && replaying.recorded.is_empty() && replaying.seen.is_empty(), "{name}");
    }
    assert_eq!(left_out, OF_FRAMES);
}

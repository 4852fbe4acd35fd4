//! The operations of a small world, and the results that they must have.

use std::collections::VecDeque;

use host_nic::HostNic;
use transport_common::connection::State;
use transport_common::queues::{Completion, Verb, WorkFlags, WorkRequest};

use super::state::{KEY, RECEIVES, REMOTE, SLOT, Small};
use super::{BYTES, SmallOp};
use crate::simulation::invariants;

impl Small<'_> {
    /// Checks the results when nothing can happen any more.
    pub(super) fn verify(&self) {
        for side in [0, 1] {
            let nic = &self.hosts[side];
            let operations = self.world.operations[side];
            let completions = &self.completions[side];
            let own: Vec<&Completion> = completions.iter().filter(|c| !is_receive(c)).collect();
            let mut ended: Vec<u64> = own.iter().map(|completion| completion.wr_id).collect();
            if self.world.ordered {
                assert!(ended.is_sorted(), "F-8.4.2-1: completions in RSN order: {ended:?}");
            }
            ended.sort_unstable();
            assert_eq!(
                ended,
                (0..operations.len() as u64).collect::<Vec<_>>(),
                "F-6.1-2: each completes once"
            );
            assert_eq!(nic.cells_in_use(), 0, "receive cells are given back");
            if self.closed {
                assert_ne!(nic.entry(SLOT).connection.state, State::Closing, "the close ends");
                continue;
            }
            invariants::check_idle(nic.entry(SLOT));
            let peer = &self.hosts[1 - side];
            for completion in &own {
                assert_eq!((completion.status, completion.ulp_code), (0, 0), "{completion:?}");
            }
            for (number, op) in operations.iter().enumerate() {
                let (local, remote) = (local(number) as usize, remote(number) as usize);
                let length = BYTES as usize;
                match op {
                    SmallOp::Write => {
                        assert!(
                            peer.memory()[REMOTE as usize + remote..][..length]
                                == nic.memory()[local..][..length]
                        );
                    }
                    SmallOp::Read => {
                        assert!(
                            nic.memory()[local..][..length]
                                == peer.memory()[REMOTE as usize + remote..][..length]
                        );
                    }
                    SmallOp::FetchAdd => {
                        let word = &peer.memory()[REMOTE as usize + remote..][..8];
                        assert_eq!(word, 7u64.to_ne_bytes(), "an atomic is executed once");
                    }
                    SmallOp::Send => {}
                }
            }
            self.verify_receives(side);
        }
    }

    /// Checks that each SEND of the peer arrived once, with its bytes.
    fn verify_receives(&self, side: usize) {
        let sends: Vec<usize> = (0..)
            .zip(self.world.operations[1 - side])
            .filter(|(_, op)| **op == SmallOp::Send)
            .map(|(n, _)| n)
            .collect();
        let received: Vec<&Completion> = self.completions[side].iter().filter(|c| is_receive(c)).collect();
        assert_eq!(received.len(), sends.len(), "each message arrives once");
        let first = self.hosts[1 - side]
            .entry(SLOT)
            .connection
            .initiator
            .brsn
            .0
            .wrapping_sub(self.world.operations[1 - side].len() as u32);
        let mut numbers: VecDeque<usize> =
            received.iter().map(|c| c.rsn.wrapping_sub(first) as usize).collect();
        for (place, number) in numbers.iter().enumerate() {
            let got = &self.hosts[side].memory()[(RECEIVES + place as u64 * 64) as usize..][..BYTES as usize];
            assert!(
                got == &self.hosts[1 - side].memory()[local(*number) as usize..][..BYTES as usize],
                "data of a SEND"
            );
        }
        if !self.world.ordered {
            numbers.make_contiguous().sort_unstable();
        }
        assert_eq!(numbers, sends, "F-5-1: messages in RSN order");
    }
}

fn is_receive(completion: &Completion) -> bool {
    [Verb::RECEIVE, Verb::RECEIVE_IMMEDIATE].contains(&completion.opcode)
}

/// Returns the place of an operation's bytes at its initiator.
const fn local(number: usize) -> u64 {
    64 * number as u64
}

/// Returns the place of an operation's bytes in the target's region. Each has its own.
const fn remote(number: usize) -> u64 {
    64 * number as u64
}

pub(super) fn work(number: usize, op: SmallOp) -> WorkRequest {
    let base = WorkRequest {
        flags: WorkFlags::SIGNALED,
        wr_id: number as u64,
        length: BYTES,
        local_offset: local(number),
        remote_address: remote(number),
        rkey: KEY,
        ..WorkRequest::default()
    };
    match op {
        SmallOp::Write => WorkRequest { opcode: Verb::WRITE, ..base },
        SmallOp::Read => WorkRequest { opcode: Verb::READ, ..base },
        SmallOp::FetchAdd => WorkRequest { opcode: Verb::FETCH_ADD, length: 0, swap_or_add: 7, ..base },
        SmallOp::Send => WorkRequest { opcode: Verb::SEND_ONLY, rkey: 0, remote_address: 0, ..base },
    }
}

/// Fills the bytes that an operation moves.
pub(super) fn prepare(hosts: &mut [HostNic; 2], side: usize, number: usize, op: SmallOp) {
    let bytes = [0x10 * (side as u8 + 1) + number as u8 + 1; BYTES as usize];
    match op {
        SmallOp::Write | SmallOp::Send => {
            hosts[side].memory_mut()[local(number) as usize..][..bytes.len()].copy_from_slice(&bytes);
        }
        SmallOp::Read => {
            let at = (REMOTE + remote(number)) as usize;
            hosts[1 - side].memory_mut()[at..][..bytes.len()].copy_from_slice(&bytes);
        }
        SmallOp::FetchAdd => {}
    }
}

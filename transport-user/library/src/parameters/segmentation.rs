//! The largest user data of one transaction, and the cutting of operations into transactions (D-84).

use transport_common::datapath::MAX_FRAME_BYTES;
use transport_common::queues::{Verb, WorkFlags, WorkRequest};

/// Ethernet header with an 802.1Q tag (D-86).
const ETHERNET: u32 = 18;
/// IPv4 and IPv6 header.
const IP: [u32; 2] = [20, 40];
const UDP: u32 = 8;
const PSP: u32 = 16;
/// Push Data, the largest Falcon header in front of data (D-02).
const FALCON: u32 = 28;
/// BTH, RETH and immediate data, the largest RDMA headers in front of data.
const RDMA: u32 = 12 + 16 + 4;
/// Largest IP MTU of a node, bytes: 3390. A longer packet with its Ethernet header does not fit a frame of the engine.
pub const LARGEST_MTU: u32 = MAX_FRAME_BYTES - ETHERNET;
/// The largest segment is a multiple of this, so that the segments of an aligned buffer are aligned for the copy.
const ALIGNMENT: u32 = 64;
/// Largest segment at any MTU: 3264 bytes, the same for both IP versions. In tunnel mode it is 3200 bytes, again the same
/// for both versions of the inner packet (F-7.1.2-1).
pub const LARGEST_SEGMENT: u32 = largest_segment(0);

/// Returns the largest segment at any MTU with an inner IP header of `inner` bytes; 0 is transport mode.
const fn largest_segment(inner: u32) -> u32 {
    let room = LARGEST_MTU - IP[1] - UDP - PSP - inner - FALCON - RDMA;
    room - room % ALIGNMENT
}
/// Smallest user data of a segment, bytes. A node does not come up if the MTU allows less.
const SMALLEST_SEGMENT: u32 = ALIGNMENT;

const fn overhead(ipv6: bool) -> u32 {
    IP[ipv6 as usize] + UDP + PSP + FALCON + RDMA
}

/// Returns the MTU of a node, bytes: the chosen one, as far as the interface and the engine's frames carry it.
pub fn node_mtu(interface: u32, chosen: Option<u32>) -> u32 {
    chosen.unwrap_or(LARGEST_MTU).min(interface).min(LARGEST_MTU)
}

/// Returns the smallest MTU of a node, bytes.
pub const fn smallest_mtu(ipv6: bool) -> u32 {
    overhead(ipv6) + SMALLEST_SEGMENT
}

/// Returns the largest user data of one transaction at this MTU, bytes. The MTU must not be below
/// [`smallest_mtu`]. `inner` is the length of the inner IP header; 0 is transport mode.
pub const fn max_segment(mtu: u32, ipv6: bool, inner: u32) -> u32 {
    let room = mtu.saturating_sub(overhead(ipv6) + inner);
    let segment = room - room % 8;
    if segment < largest_segment(inner) { segment } else { largest_segment(inner) }
}

/// Difference of the largest headers in front of data and of the headers of Pull Data, bytes. Pull Data has a
/// Falcon header of 24 bytes and RDMA headers of 16 bytes.
const PULL_DATA_SPARES: u32 = (FALCON + RDMA) - (24 + 16);

/// Returns the largest user data of Pull Data at this MTU, bytes: all that fits it, and a frame of the engine with a VLAN
/// tag (F-8.5.3.2-1, D-16). A peer with a larger MTU may ask for more than we can send. `inner` is the length of the inner
/// IP header; 0 is transport mode.
pub(crate) const fn max_answer(mtu: u32, ipv6: bool, inner: u32) -> u32 {
    let mtu = if mtu < LARGEST_MTU { mtu } else { LARGEST_MTU };
    mtu.saturating_sub(overhead(ipv6) + inner) + PULL_DATA_SPARES
}

/// An operation before it is cut into segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RdmaOperation {
    Write { rkey: u32, address: u64 },
    Read { rkey: u32, address: u64 },
    Send,
    CompareSwap { rkey: u32, address: u64, compare: u64, swap: u64 },
    FetchAdd { rkey: u32, address: u64, add: u64 },
}

/// The transactions of one operation, one after another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segments {
    operation: RdmaOperation,
    /// Offset of the local buffer in the node's memory.
    local_offset: u64,
    /// Length of the whole operation, bytes.
    length: u64,
    immediate: Option<u32>,
    /// Whether every segment is signaled, instead of only the last one.
    signal_all: bool,
    wr_id: u64,
    /// Number of segments returned so far, and of bytes in them.
    made: u32,
    done: u64,
}

impl Segments {
    /// Begins to cut an operation on `length` bytes at `local_offset`.
    ///
    /// On an ordered connection the completions come in order, so only the last segment is signaled. On an
    /// unordered connection every segment is signaled.
    pub(crate) fn new(
        operation: RdmaOperation,
        (local_offset, length): (u64, u64),
        immediate: Option<u32>,
        ordered: bool,
        wr_id: u64,
    ) -> Self {
        let signal_all = !ordered;
        Self { operation, local_offset, length, immediate, signal_all, wr_id, made: 0, done: 0 }
    }

    /// Returns whether all segments were returned.
    pub(crate) fn is_done(&self) -> bool {
        self.made != 0 && self.done == self.length
    }

    /// Returns whether some segments, but not all, were returned.
    pub(crate) fn is_begun(&self) -> bool {
        self.made != 0 && !self.is_done()
    }

    /// Returns whether the segments that are left may have at most `max_segment` bytes each. Only a SEND on an unordered
    /// connection is not cut.
    pub(crate) fn can_be_cut(&self, max_segment: u32) -> bool {
        let whole = self.signal_all && matches!(self.operation, RdmaOperation::Send);
        !whole || self.is_done() || self.length <= u64::from(max_segment)
    }

    /// Returns the next segment, of at most `max_segment` bytes. Another call may have another limit.
    pub(crate) fn next(&mut self, max_segment: u32) -> Option<WorkRequest> {
        if self.is_done() {
            return None;
        }
        let (done, left) = (self.done, self.length - self.done);
        let (first, last) = (self.made == 0, left <= u64::from(max_segment));
        let mut work = WorkRequest {
            length: left.min(u64::from(max_segment)) as u32,
            local_offset: self.local_offset + done,
            wr_id: self.wr_id,
            segment: self.made,
            flags: if last || self.signal_all { WorkFlags::SIGNALED } else { WorkFlags::empty() },
            ..WorkRequest::default()
        };
        match self.operation {
            RdmaOperation::Write { rkey, address } => {
                (work.opcode, work.rkey, work.remote_address) = (Verb::WRITE, rkey, address + done);
            }
            RdmaOperation::Read { rkey, address } => {
                (work.opcode, work.rkey, work.remote_address) = (Verb::READ, rkey, address + done);
            }
            RdmaOperation::Send => work.opcode = send_opcode(first, last),
            RdmaOperation::CompareSwap { rkey, address, compare, swap } => {
                (work.opcode, work.rkey, work.remote_address) = (Verb::COMPARE_SWAP, rkey, address);
                (work.compare, work.swap_or_add) = (compare, swap);
            }
            RdmaOperation::FetchAdd { rkey, address, add } => {
                (work.opcode, work.rkey, work.remote_address) = (Verb::FETCH_ADD, rkey, address);
                work.swap_or_add = add;
            }
        }
        if let (true, Some(immediate)) = (last, self.immediate) {
            work.flags |= WorkFlags::IMMEDIATE;
            work.immediate = immediate;
        }
        // The size of the pool limits the length, so the number of segments is far below 2^32.
        self.made += 1;
        self.done += u64::from(work.length);
        Some(work)
    }
}

const fn send_opcode(first: bool, last: bool) -> Verb {
    match (first, last) {
        (true, true) => Verb::SEND_ONLY,
        (true, false) => Verb::SEND_FIRST,
        (false, false) => Verb::SEND_MIDDLE,
        (false, true) => Verb::SEND_LAST,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use transport_common::ulp::rdma::{
        IMMEDIATE_LEN, RESPONSE_HEADER_LEN, SEND_HEADER_LEN, WRITE_HEADER_LEN,
    };
    use transport_common::wire::ipv4::Ipv4;
    use transport_common::wire::ipv6::Ipv6;
    use transport_common::wire::psp::Psp;
    use transport_common::wire::pull_data::PullData;
    use transport_common::wire::push_data::PushData;
    use transport_common::wire::udp::Udp;

    fn all(mut segments: Segments, max_segment: u32) -> Vec<WorkRequest> {
        std::iter::from_fn(|| segments.next(max_segment)).collect()
    }

    /// Lengths of the inner IP header: transport mode, and both versions of tunnel mode (F-7.1.2-1).
    const INNER: [u32; 3] = [0, IP[0], IP[1]];

    #[test]
    fn segments_fit_mtu_and_live_frame() {
        assert_eq!(LARGEST_SEGMENT, 3264);
        assert_eq!((max_segment(3498, false, 0), max_segment(3498, true, 0)), (3264, 3264));
        assert_eq!((max_segment(1500, false, 0), max_segment(1500, true, 0)), (1392, 1376));
        assert_eq!(INNER.map(|inner| max_segment(3498, false, inner)), [3264, 3200, 3200]);
        assert_eq!(INNER.map(|inner| max_segment(1500, false, inner)), [1392, 1376, 1352]);
        for ipv6 in [false, true] {
            assert_eq!(max_segment(smallest_mtu(ipv6), ipv6, 0), SMALLEST_SEGMENT);
            for (mtu, inner) in (smallest_mtu(ipv6)..10_000).flat_map(|mtu| INNER.map(|inner| (mtu, inner))) {
                let packet = max_segment(mtu, ipv6, inner) + overhead(ipv6) + inner;
                assert!(packet <= mtu.min(LARGEST_MTU));
                assert!(max_segment(mtu, ipv6, inner) >= 8, "a tunnel has space for a word at every MTU");
            }
        }
    }

    /// D-84, F-8.5.3.2-1: Pull Data has the smallest headers, so it can have more data than a segment that we
    /// send.
    #[test]
    fn answers_fill_the_mtu() {
        assert_eq!((max_answer(1500, false, 0), max_answer(1500, true, 0)), (1416, 1396));
        assert_eq!((max_answer(2000, false, 0), max_answer(3390, false, 0)), (1916, 3306));
        assert_eq!(INNER.map(|inner| max_answer(1500, true, inner)), [1396, 1376, 1356]);
        for ipv6 in [false, true] {
            for (mtu, inner) in (smallest_mtu(ipv6)..10_000).flat_map(|mtu| INNER.map(|inner| (mtu, inner))) {
                let answer = max_answer(mtu, ipv6, inner);
                let packet = IP[usize::from(ipv6)] + UDP + PSP + inner + 24 + 16 + answer;
                assert_eq!(packet, mtu.min(LARGEST_MTU), "{answer} at MTU {mtu}");
            }
        }
    }

    /// D-84: First, Middle, Last. Only the last segment has the immediate data.
    #[test]
    fn a_send_is_first_middle_last() {
        let work = all(Segments::new(RdmaOperation::Send, (4096, 250), Some(7), true, 1), 100);
        assert_eq!(
            work.iter().map(|w| (w.opcode, w.length, w.local_offset, w.segment)).collect::<Vec<_>>(),
            [
                (Verb::SEND_FIRST, 100, 4096, 0),
                (Verb::SEND_MIDDLE, 100, 4196, 1),
                (Verb::SEND_LAST, 50, 4296, 2)
            ]
        );
        assert_eq!(
            work.iter().map(|w| w.flags).collect::<Vec<_>>(),
            [WorkFlags::empty(), WorkFlags::empty(), WorkFlags::all()]
        );
        assert_eq!((work[1].immediate, work[2].immediate), (0, 7));
    }

    #[test]
    fn no_bytes_are_still_one_transaction() {
        let work = all(Segments::new(RdmaOperation::Send, (0, 0), None, true, 1), 100);
        assert_eq!((work.len(), work[0].opcode, work[0].length), (1, Verb::SEND_ONLY, 0));
    }

    /// D-84: an atomic has its operands in separate fields.
    #[test]
    fn an_atomic_is_one_transaction() {
        let operation = RdmaOperation::CompareSwap { rkey: 3, address: 64, compare: 1, swap: 2 };
        let work = all(Segments::new(operation, (8, 8), None, false, 9), 100);
        let [work] = work[..] else { panic!("{work:?}") };
        assert_eq!((work.opcode, work.rkey, work.remote_address), (Verb::COMPARE_SWAP, 3, 64));
        assert_eq!((work.compare, work.swap_or_add, work.wr_id, work.length), (1, 2, 9, 8));
    }

    proptest! {
        /// Every byte is sent once, to its address, and on unordered connections every segment is signaled.
        #[test]
        fn segments_tile_the_operation(length in 0u64..100_000, max in 1u32..4000, ordered: bool) {
            let operation = RdmaOperation::Write { rkey: 1, address: 1 << 40 };
            let work = all(Segments::new(operation, (4096, length), None, ordered, 5), max);
            prop_assert_eq!(work.len() as u64, length.div_ceil(max.into()).max(1));
            let mut at = 0;
            for (n, w) in work.iter().enumerate() {
                prop_assert_eq!((w.local_offset, w.remote_address), (4096 + at, (1 << 40) + at));
                prop_assert!(w.length <= max && w.segment == n as u32);
                prop_assert_eq!(w.flags.contains(WorkFlags::SIGNALED), !ordered || n + 1 == work.len());
                at += u64::from(w.length);
            }
            prop_assert_eq!(at, length);
        }

        /// The segments tile the operation also if they become shorter on the way, down to one byte.
        #[test]
        fn segments_that_become_shorter_tile_the_operation(
            length in 0u64..20_000, first in 500u32..4000, second in 1u32..500, after in 0usize..10, ordered: bool,
        ) {
            let operation = RdmaOperation::Write { rkey: 1, address: 1 << 40 };
            let mut segments = Segments::new(operation, (4096, length), Some(3), ordered, 5);
            let mut limits = std::iter::repeat_n(first, after).chain(std::iter::repeat(second));
            let (mut at, mut made) = (0, 0);
            while let Some(work) = segments.next(limits.next().expect("no end")) {
                prop_assert_eq!((work.local_offset, work.remote_address), (4096 + at, (1 << 40) + at));
                let limit = if made < after { first } else { second };
                prop_assert!(work.length <= limit);
                at += u64::from(work.length);
                prop_assert_eq!(work.flags.contains(WorkFlags::IMMEDIATE), segments.is_done());
                prop_assert_eq!(work.segment as usize, made);
                made += 1;
            }
            prop_assert!(at == length && made > 0);
        }

        /// At every MTU, for both IP versions, with and without a tunnel: byte for byte, the segments are the operation. And
        /// the packet of each segment fits the MTU, with the headers at the lengths at which they are encoded.
        #[test]
        fn operations_of_every_length_fit_every_mtu(
            (mtu, ipv6, inner) in (1280u32..=9000, any::<bool>(), 0usize..INNER.len()),
            (times, around, offset) in (0u64..6, -9i64..=9, 0u64..5000),
            (verb, immediate) in (0u8..3, any::<bool>()),
        ) {
            let inner = INNER[inner];
            let max = max_segment(mtu, ipv6, inner);
            let length = (times * u64::from(max)).saturating_add_signed(around);
            let address = 77;
            let (operation, headers) = match verb {
                0 => (RdmaOperation::Write { rkey: 1, address }, PushData::LEN + WRITE_HEADER_LEN),
                1 => (RdmaOperation::Send, PushData::LEN + SEND_HEADER_LEN),
                // Data of a READ come back in Pull Data, and the other end may send as much as this one asks for.
                _ => (RdmaOperation::Read { rkey: 1, address }, PullData::LEN + RESPONSE_HEADER_LEN),
            };
            if verb == 2 {
                prop_assert!(max <= max_answer(mtu, ipv6, inner));
            }
            let ip = if ipv6 { Ipv6::LEN } else { Ipv4::LEN };
            let immediate = (immediate && verb != 2).then_some(9);
            let mut bytes = Vec::new();
            for work in all(Segments::new(operation, (offset, length), immediate, true, 5), max) {
                let with_immediate = work.flags.contains(WorkFlags::IMMEDIATE);
                let headers = ip + Udp::LEN + Psp::LEN + inner as usize + headers
                    + if with_immediate { IMMEDIATE_LEN } else { 0 };
                prop_assert!(headers as u32 + work.length <= mtu);
                if verb != 1 {
                    prop_assert_eq!(work.remote_address - address, work.local_offset - offset);
                }
                bytes.extend(work.local_offset..work.local_offset + u64::from(work.length));
            }
            prop_assert!(bytes.into_iter().eq(offset..offset + length));
        }
    }

    /// An operation of 1 GiB: the number of segments and every offset fit their fields.
    #[test]
    fn a_gibibyte_is_cut_into_segments() {
        let length = (1 << 30) + 3;
        for max in [1, 64, 1392, LARGEST_SEGMENT] {
            let operation = RdmaOperation::Write { rkey: 1, address: 5 };
            let mut segments = Segments::new(operation, (3, length), Some(1), true, 5);
            let last = (length.div_ceil(max.into()) - 1) as u32;
            (segments.made, segments.done) = (last, u64::from(last) * u64::from(max));
            let work = segments.next(max).expect("the last segment");
            assert_eq!(work.local_offset + u64::from(work.length), 3 + length);
            assert_eq!((work.remote_address, work.segment), (work.local_offset + 2, last));
            assert!(segments.is_done() && work.flags.contains(WorkFlags::IMMEDIATE));
        }
    }
}

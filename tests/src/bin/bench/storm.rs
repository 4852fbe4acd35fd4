//! Measures what a storm of hostile packets on one connection costs another connection of the same node.
//!
//! The packets come from the address of the connection's peer, with its SPI and a new IV, so they pass all checks
//! before those of their own kind. A packet socket sends them as fast as it can, from the application's CPU. There the
//! kernel also runs the XDP program for them, so any storm takes time from the application. Therefore each storm is
//! compared with one of as many frames that concern no connection: the difference is what the connection lets
//! through to others.

use std::io;
use std::mem::size_of_val;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use falcon_conformance::{Flow, encoded};
use serde::Serialize;
use tiercel::{Connection, MemoryRegion};
use tiercel_tests::checks::block_on;
use tiercel_tests::nodes::{Setup, TwoNodes};
use tiercel_tests::{Host, veth};
use transport_common::ids::{Cid, Psn, Rsn, Spi};
use transport_common::ulp::rdma::{Bth, Opcode, Reth};
use transport_common::units::{FalconTime, Picoseconds};
use transport_common::wire::ack::{AckHeader, CongestionInfo, Eack};
use transport_common::wire::base::BaseHeader;
use transport_common::wire::psp::Psp;
use transport_common::wire::push_data::PushData;
use transport_common::wire::resync::{Resync, ResyncCode};
use transport_common::wire::udp::Udp;
use transport_common::wire::{PacketType, ProtocolType};

use crate::figures::FIGURES;
use crate::machine::{APPLICATION_CPU, pin};
use crate::series::latencies;
use crate::tiercel::Tiercel;

/// Target: the part of its rate that another connection keeps.
pub(crate) const LEAST_KEPT: f64 = 0.9;
/// The figure of the other connection.
const FIGURE: &str = "write_64_rate";
/// CIDs of the connection that suffers, at A and B, and one of no connection.
const VICTIM: [Cid; 2] = [Cid(40), Cid(41)];
const NOBODY: Cid = Cid(42);
/// Frames that the kernel takes in one call.
const BATCH: usize = 64;
/// Time between two storms, in which the queues between the hosts become empty.
const PAUSE: Duration = Duration::from_millis(20);
/// Parts of a round. The speed of a virtual machine changes within a round, so both storms of one take turns.
const SLICES: u32 = 8;
/// Frames per second of a steady storm.
const STEADY: u64 = 100_000;

/// The kinds of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// BACKs to a CID that is not open.
    Nobody,
    /// BACKs for packets that were never sent.
    Future,
    /// EACKs whose bitmaps reach beyond the next PSN.
    Bitmaps,
    /// Resyncs of packets that have arrived. Each asks for an ACK.
    Resyncs,
    /// Pushes in the window whose RSN is far ahead.
    Jumps,
    /// Pushes that have arrived before.
    Copies,
}

impl Kind {
    const HOSTILE: [Self; 5] = [Self::Future, Self::Bitmaps, Self::Resyncs, Self::Jumps, Self::Copies];

    const fn name(self) -> &'static str {
        match self {
            Self::Nobody => "BACKs to no connection",
            Self::Future => "BACKs of the future",
            Self::Bitmaps => "EACKs beyond the next PSN",
            Self::Resyncs => "Resyncs of old PSNs",
            Self::Jumps => "RSNs far ahead",
            Self::Copies => "copies of old pushes",
        }
    }
}

/// One kind of storm.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct StormFigure {
    /// What the packets are.
    pub(crate) name: &'static str,
    /// "flood", as fast as one CPU sends, or "steady".
    pub(crate) pace: &'static str,
    /// Frames per second, median over the rounds.
    pub(crate) frames_per_second: f64,
    /// Million WRITEs per second of the other connection, median over the rounds.
    pub(crate) others: f64,
    /// The same during a storm on no connection.
    pub(crate) others_without: f64,
    /// What the other connection keeps of its rate, median over the rounds.
    pub(crate) kept: f64,
    pub(crate) target: f64,
    pub(crate) meets_target: bool,
}

/// The connection that suffers, and the sender of the storm.
pub(crate) struct Storm<'a> {
    tiercel: &'a Tiercel,
    victim: [Connection; 2],
    local: MemoryRegion,
    remote: MemoryRegion,
    socket: OwnedFd,
    flow: Flow,
}

impl<'a> Storm<'a> {
    /// Opens a second connection beside that of `tiercel`, whose connections have no UDP checksums.
    pub(crate) fn new(tiercel: &'a Tiercel) -> Result<Self> {
        let nodes = tiercel.nodes();
        let tuning = Setup::CONSTANT;
        let victim =
            nodes.connect(VICTIM, Setup { checksum: false, ordered: true, tuning, ..Setup::default() })?;
        let (local, remote) =
            (nodes.a.register(64, tiercel::Access::LOCAL)?, nodes.b.register(64, tiercel::Access::ALL)?);
        let TwoNodes { pair, .. } = nodes;
        let flow = Flow {
            source_mac: pair.b.mac.0,
            destination_mac: pair.a.mac.0,
            vlan: None,
            inner: None,
            source: pair.b.ipv4.into(),
            destination: pair.a.ipv4.into(),
            source_port: 50_000,
        };
        let socket = pair.b.run(open)?;
        Ok(Self { tiercel, victim, local, remote, socket, flow })
    }

    /// Runs all storms in turn, `rounds` times, and compares each with one on no connection. Calls `done` after each.
    pub(crate) fn measure(
        &self,
        rounds: u32,
        duration: Duration,
        mut done: impl FnMut(&str),
    ) -> Result<Vec<StormFigure>> {
        let mut figures = vec![];
        for (pace, rate) in [("flood", None), ("steady", Some(STEADY))] {
            for kind in Kind::HOSTILE {
                let ran =
                    (0..rounds).map(|_| self.round(kind, rate, duration)).collect::<Result<Vec<_>>>()?;
                self.survives().with_context(|| format!("after {}", kind.name()))?;
                done(kind.name());
                let median = |n: usize| {
                    let mut values: Vec<f64> = ran.iter().map(|values: &[f64; 4]| values[n]).collect();
                    values.sort_by(f64::total_cmp);
                    values[values.len() / 2]
                };
                figures.push(StormFigure {
                    name: kind.name(),
                    pace,
                    frames_per_second: median(3),
                    others: median(0),
                    others_without: median(1),
                    kept: median(2),
                    target: LEAST_KEPT,
                    meets_target: median(2) >= LEAST_KEPT,
                });
            }
        }
        Ok(figures)
    }

    /// The number of steps of [`Self::measure`].
    pub(crate) const fn steps() -> usize {
        2 * Kind::HOSTILE.len()
    }

    /// Lets a storm and one on no connection take turns for `duration` each. Returns the rate of the other connection
    /// during both, million WRITEs per second, their ratio, and the rate of the storm, frames per second.
    fn round(&self, kind: Kind, rate: Option<u64>, duration: Duration) -> Result<[f64; 4]> {
        let (mut without, mut with) = ([0.0; 2], [0.0; 2]);
        for slice in 0..SLICES {
            // Which of both comes first changes, so that no drift of the machine's speed favours one.
            for nobody in [slice % 2 == 0, slice % 2 != 0] {
                let (kind, sum) = if nobody { (Kind::Nobody, &mut without) } else { (kind, &mut with) };
                let rates = self.run(kind, rate, duration / SLICES)?;
                (0..2).for_each(|n| sum[n] += rates[n] / f64::from(SLICES));
            }
        }
        let ([others, frames], [without, _]) = (with, without);
        Ok([others, without, others / without, frames])
    }

    /// Returns the rate of the other connection, million WRITEs per second, and that of the storm, frames per second.
    fn run(&self, kind: Kind, rate: Option<u64>, duration: Duration) -> Result<[f64; 2]> {
        let mut frames = self.frames(kind)?;
        let figure = FIGURES.iter().find(|figure| figure.name == FIGURE).context("a figure of the bench")?;
        let (over, sent) = (AtomicBool::new(false), AtomicU64::new(0));
        let rates = thread::scope(|scope| {
            let storm = scope.spawn(|| {
                pin(APPLICATION_CPU)?;
                self.send(&mut frames, rate, &over, &sent)
            });
            let (begin, before) = (Instant::now(), sent.load(Relaxed));
            let ran = self.tiercel.measure(figure, duration, &mut latencies());
            let frames = (sent.load(Relaxed) - before) as f64 / begin.elapsed().as_secs_f64();
            over.store(true, Relaxed);
            storm.join().expect("the storm does not panic")?;
            Ok([ran?.value(figure.measure), frames])
        });
        thread::sleep(PAUSE);
        rates
    }

    /// Makes the frames of a storm as the connection stands.
    fn frames(&self, kind: Kind) -> Result<Vec<Vec<u8>>> {
        let info = self.victim[0].info()?;
        let dest_cid = if kind == Kind::Nobody { NOBODY } else { VICTIM[0] };
        let future = u32::from(kind == Kind::Future) * 1000;
        let header = AckHeader {
            dest_cid,
            data_base_psn: Psn(info.data_tx.next_psn).add(future),
            request_base_psn: Psn(info.request_tx.next_psn).add(future),
            t1: FalconTime(0),
            t2: FalconTime(0),
            cc: CongestionInfo::default(),
            own_request: false,
            own_data: false,
        };
        let expected = Psn(info.data_rx.base_psn);
        let base = |packet_type, psn, rsn| BaseHeader {
            dest_cid,
            dest_function: 0,
            protocol: ProtocolType::Rdma as u8,
            packet_type,
            ack_request: true,
            data_base_psn: Psn(info.data_tx.next_psn),
            request_base_psn: Psn(info.request_tx.next_psn),
            psn,
            rsn,
        };
        let old = Rsn(expected.0).sub(1);
        let falcon = match kind {
            Kind::Nobody | Kind::Future => encoded::<{ AckHeader::LEN }>(|out| header.encode(out)).to_vec(),
            Kind::Bitmaps => {
                let eack =
                    Eack { header, data_ack: [u64::MAX; 2], data_received: [u64::MAX; 2], request: u64::MAX };
                encoded::<{ Eack::LEN }>(|out| eack.encode(out)).to_vec()
            }
            Kind::Resyncs => {
                let resync = Resync {
                    base: base(PacketType::Resync, expected.sub(1), old),
                    code: ResyncCode::RETRANSMISSION_EXHAUSTED,
                    packet_type: PacketType::PushData,
                    vendor: 0,
                };
                encoded::<{ Resync::LEN }>(|out| resync.encode(out)).to_vec()
            }
            Kind::Jumps => push(base(PacketType::PushData, expected.add(5), old.add(1 << 20))),
            Kind::Copies => push(base(PacketType::PushData, expected.sub(1), old)),
        };
        let mut frame = self.flow.frame(&Psp::plaintext(Spi(info.rx_spi), Picoseconds(0)), &falcon);
        // The checksum would cover the IV, which changes.
        let checksum = self.flow.udp_offset() + Udp::LEN - 2;
        frame[checksum..checksum + 2].fill(0);
        Ok(vec![frame; BATCH])
    }

    /// Sends the frames again and again, with new IVs.
    fn send(
        &self,
        frames: &mut [Vec<u8>],
        rate: Option<u64>,
        over: &AtomicBool,
        sent: &AtomicU64,
    ) -> Result<()> {
        /// Offset of the IV in the PSP header.
        const IV: usize = 8;
        let iv = self.flow.udp_offset() + Udp::LEN + IV;
        let begin = Instant::now();
        while !over.load(Relaxed) {
            let due = rate.map_or(u64::MAX, |rate| (begin.elapsed().as_secs_f64() * rate as f64) as u64);
            if sent.load(Relaxed) >= due {
                thread::sleep(Duration::from_micros(100));
                continue;
            }
            let now = monotonic_ps();
            for (n, frame) in frames.iter_mut().enumerate() {
                frame[iv..iv + 8].copy_from_slice(&(now + n as u64).to_be_bytes());
            }
            sent.fetch_add(send_all(&self.socket, frames)?, Relaxed);
        }
        Ok(())
    }

    /// Checks that the connection still carries data.
    fn survives(&self) -> Result<()> {
        self.local.write(0, &[7; 64])?;
        block_on(self.victim[0].write(&self.local, 0, self.remote.key(), 0, 64))?;
        let mut arrived = [0; 64];
        self.remote.read(0, &mut arrived)?;
        ensure!(arrived == [7; 64], "the connection that suffered carries other bytes");
        Ok(())
    }
}

/// Returns a Push Data with a WRITE of 8 bytes to a region that does not exist.
fn push(base: BaseHeader) -> Vec<u8> {
    let bth = encoded::<{ Bth::LEN }>(|out| Bth::new(Opcode::WRITE_ONLY, base.dest_cid.0, 0).encode(out));
    let reth = Reth { address: 0, rkey: transport_common::ids::RKey(u32::MAX), length: 8 };
    let payload = [&bth[..], &encoded::<{ Reth::LEN }>(|out| reth.encode(out))[..], &[0; 8]].concat();
    let header = PushData { base, request_length: payload.len() as u16 };
    [&encoded::<{ PushData::LEN }>(|out| header.encode(out))[..], &payload].concat()
}

/// Opens a packet socket for sending on the host's interface.
fn open() -> Result<OwnedFd> {
    let index = veth::interface_index(Host::INTERFACE)?;
    // SAFETY: takes no pointer. Protocol 0 receives nothing.
    let socket = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    ensure!(socket >= 0, "a packet socket needs root: {}", io::Error::last_os_error());
    // SAFETY: the descriptor is new and nobody else's.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    // SAFETY: all zeroes is a valid sockaddr_ll.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_ifindex = index as i32;
    let size = size_of_val(&address) as libc::socklen_t;
    // SAFETY: the kernel reads `size` bytes of `address`, which outlives the call.
    let bound = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), size) };
    ensure!(bound == 0, "cannot bind the packet socket: {}", io::Error::last_os_error());
    Ok(socket)
}

/// Sends all frames in one call. Returns how many the kernel took.
fn send_all(socket: &OwnedFd, frames: &mut [Vec<u8>]) -> Result<u64> {
    let mut vectors: Vec<libc::iovec> = frames
        .iter_mut()
        .map(|frame| libc::iovec { iov_base: frame.as_mut_ptr().cast(), iov_len: frame.len() })
        .collect();
    let message = |vector: &mut libc::iovec| {
        // SAFETY: all zeroes is a valid mmsghdr.
        let mut message: libc::mmsghdr = unsafe { std::mem::zeroed() };
        (message.msg_hdr.msg_iov, message.msg_hdr.msg_iovlen) = (vector, 1);
        message
    };
    let mut messages: Vec<libc::mmsghdr> = vectors.iter_mut().map(message).collect();
    // SAFETY: each header names one buffer with its length; all of them outlive the call.
    let sent = unsafe { libc::sendmmsg(socket.as_raw_fd(), messages.as_mut_ptr(), messages.len() as u32, 0) };
    if sent < 0 {
        let error = io::Error::last_os_error();
        // The queue of the interface is full for a moment.
        ensure!(error.raw_os_error() == Some(libc::ENOBUFS), "the storm cannot be sent: {error}");
        return Ok(0);
    }
    Ok(sent as u64)
}

/// Returns the monotonic clock, which is also the nodes' clock, in picoseconds.
fn monotonic_ps() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes the timespec, which outlives the call.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    (now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64) * 1000
}

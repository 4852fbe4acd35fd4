//! Invalid frames are dropped, each with its own counter, and the node continues to work.

use std::collections::BTreeMap;
use std::net::{IpAddr, UdpSocket};

use anyhow::{Context, Result};
use falcon_conformance::{Draft, Parts, Session, Start, encoded, ip_packet};
use tiercel::{Access, LocalCid, Mac, MemoryRegion, OpenConnection, Tunnel};
use tiercel_node::connection_manager::{Host as _, NodeHost};
use tiercel_node::{Node, NodeOptions};
use tiercel_tests::checks::{PATIENCE, counters, pattern, settle, wait_until};
use tiercel_tests::nodes::{CID_A, CID_B, Setup};
use tiercel_tests::raw_peer::raw_peer;
use tiercel_tests::{Host, Pair, need_root};
use transport_common::connection::Initial;
use transport_common::counters::Counter;
use transport_common::ids::{Psn, RKey, Rsn, Spi};
use transport_common::security::SecurityDrops;
use transport_common::ulp::UlpCode;
use transport_common::ulp::rdma::{Aeth, AtomicEth, Opcode};
use transport_common::units::{PicosecondSpan, Picoseconds};
use transport_common::wire::ack::{AckHeader, Eack};
use transport_common::wire::checksum::{checksum, sum_bytes};
use transport_common::wire::nack::{Nack, NackCode};
use transport_common::wire::psp::{NEXT_HEADER_FALCON, Psp};
use transport_common::wire::pull_request::PullRequest;
use transport_common::wire::udp::{FALCON_UDP_PORT, IP_PROTOCOL_UDP};
use transport_common::wire::{PacketType, ProtocolType};

/// Registered at the node; D-84: the first R_Key is 1.
const KEY: RKey = RKey(1);
const REGION: usize = 4096;
const ETHERNET: usize = 14;
/// A port that is not Falcon's.
const OTHER_PORT: u16 = 5000;

/// A node at host A whose peer is test code on the interface of host B.
struct Target {
    peer: Session<'static>,
    /// The region that [`KEY`] names.
    _region: MemoryRegion,
    node: Node,
    pair: Pair,
    rounds: u64,
}

impl Target {
    /// `inner` are the inner addresses of node and peer in tunnel mode (F-7.1.2-1).
    fn up(ipv6: bool, inner: Option<Tunnel>) -> Result<Self> {
        let pair = Pair::direct()?;
        let [own, other] =
            [&pair.a, &pair.b].map(|host| if ipv6 { host.ipv6.into() } else { IpAddr::from(host.ipv4) });
        let node = pair.a.run(|| Node::up(NodeOptions::new(Host::INTERFACE, own)))?;
        // D-18: close to the wrap.
        let tx = Initial { request_psn: Psn(0xffff_fffe), data_psn: Psn(0xffff_fffd), rsn: Rsn(0xffff_fffc) };
        let rx = Initial { request_psn: Psn(0xffff_fffb), data_psn: Psn(0xffff_fffa), rsn: Rsn(0xffff_fff9) };
        node.open(OpenConnection {
            local_cid: LocalCid::Given(CID_A),
            tunnel: inner,
            tx,
            rx,
            tuning: Setup::CONSTANT,
            ..OpenConnection::new(CID_B, other, Mac(pair.b.mac.0))
        })?;
        let region = node.register(REGION, Access::ALL)?;
        assert_eq!(region.key(), KEY);
        let mut peer = raw_peer(&pair, ipv6, rx, tx)?;
        peer.subject.flow.inner = inner.map(|tunnel| (tunnel.peer, tunnel.local));
        let mut target = Self { peer, _region: region, node, pair, rounds: 0 };
        target.works()?;
        Ok(target)
    }

    /// Checks that the connection works, whatever happened before.
    fn works(&mut self) -> Result<()> {
        self.rounds += 1;
        let data = pattern(100, self.rounds);
        self.peer.store(8, &data).context("WRITE")?;
        let read = self.peer.read(8, data.len() as u32);
        let answer = self.peer.ask(&read).context("READ")?;
        assert_eq!((answer.syndrome(), answer.data()), (Some(Aeth::SUCCESS), &data[..]));
        // F-7.1.2-1: every packet of the node is in the tunnel, if there is one.
        let back = self.peer.subject.flow.inner.map(|(own, node)| (node, own));
        for came in self.peer.take_log().iter().filter(|logged| !logged.sent) {
            let inner = Parts::of(&came.frame).map(|parts| parts.inner);
            assert!(inner.is_none_or(|inner| inner == back), "in another tunnel: {inner:?}");
        }
        Ok(())
    }

    /// Sends the frames and waits until `counter` has risen by one for each. No other counter of something
    /// dropped, ignored or failed may have changed.
    fn expect(&mut self, counter: Counter, what: &str, frames: &[Vec<u8>]) -> Result<()> {
        let before = counters(&self.node);
        for frame in frames {
            let sent = self.peer.send_frame(frame.clone(), None);
            sent.with_context(|| format!("{what}: a frame of {} bytes", frame.len()))?;
        }
        let foretold = before[counter.name()] + frames.len() as u64;
        wait_until(&format!("{what}: {} rises to {foretold}", counter.name()), || {
            counters(&self.node)[counter.name()] >= foretold
        });
        let mut told = told_of_trouble(&before);
        told.insert(counter.name().to_owned(), foretold);
        let all = counters(&self.node);
        let mut now = told_of_trouble(&all);
        now.insert(counter.name().to_owned(), all[counter.name()]);
        assert_eq!(now, told, "{what}");
        Ok(())
    }

    /// What the security check of the connection has refused, as the connection manager sees it.
    fn refused(&self) -> SecurityDrops {
        let all = NodeHost::new(self.node.clone()).refusals();
        let own = all.iter().find(|refusals| refusals.cid == CID_A);
        own.map_or(SecurityDrops::default(), |refusals| refusals.drops)
    }

    /// A frame that was received long ago. It is valid, but it changes nothing.
    fn duplicate(&mut self) -> Vec<u8> {
        let packet = self.duplicate_packet();
        self.peer.frame(&packet)
    }

    fn duplicate_packet(&self) -> Vec<u8> {
        self.at(self.peer.next().data_psn.sub(1), write(8, &[0; 8]))
    }

    /// Returns a packet with this PSN and the next RSN.
    fn at(&self, psn: Psn, draft: Draft) -> Vec<u8> {
        Draft { psn, rsn: self.peer.next().rsn, ..draft }.bytes(self.peer.base())
    }

    /// Returns a complete Falcon packet of each type, with its name. None is new to the node.
    fn old_packets(&self) -> Vec<(&'static str, Vec<u8>)> {
        let Start { data_psn, request_psn, .. } = self.peer.next();
        let (old, (received, _)) = (data_psn.sub(1), self.peer.bases());
        let back = self.peer.ack_of(received);
        let eack = self.peer.eack_of(received, 0, 0);
        let nack = self.peer.nack_of(received.sub(9), NackCode::INSUFFICIENT_RESOURCES);
        vec![
            ("Push Data", self.at(old, write(0, &[0; 8]))),
            ("Pull Request", self.at(request_psn.sub(1), read(KEY, 0, 8))),
            ("Pull Data", self.at(old, Draft::new(PacketType::PullData, vec![], 0))),
            ("Resync", self.at(old, write(0, &[0; 8]).replaced())),
            ("BACK", encoded::<{ AckHeader::LEN }>(|out| back.encode(out)).to_vec()),
            ("EACK", encoded::<{ Eack::LEN }>(|out| eack.encode(out)).to_vec()),
            ("NACK", encoded::<{ Nack::LEN }>(|out| nack.encode(out)).to_vec()),
        ]
    }

    /// Returns one frame per change to such a packet, with correct checksums. A change names a byte of the
    /// Falcon header, the bits that it keeps, and the bits that are set.
    fn changed<const N: usize>(&mut self, changes: [(usize, u8, u8); N]) -> [Vec<u8>; N] {
        let packet = self.duplicate_packet();
        changes.map(|(at, stay, set)| {
            let mut packet = packet.clone();
            packet[at] = (packet[at] & stay) | set;
            self.peer.frame(&packet)
        })
    }
}

fn write(address: u64, data: &[u8]) -> Draft {
    Draft::write(KEY, address, data, CID_A.0)
}

fn read(rkey: RKey, address: u64, length: u32) -> Draft {
    Draft::read(rkey, address, length, CID_A.0)
}

/// Computes the checksum of an untagged frame's IPv4 header again, with options.
fn refresh_ipv4(frame: &mut [u8]) {
    let header = ETHERNET..ETHERNET + usize::from(frame[ETHERNET] & 0xf) * 4;
    let at = header.start + 10;
    frame[at..at + 2].fill(0);
    let sum = sum_bytes(&frame[header]);
    frame[at..at + 2].copy_from_slice(&checksum(sum).to_be_bytes());
}

/// Returns all counters except those of ordinary traffic, which the machine's own packets also increment.
fn told_of_trouble(all: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let ordinary = ["pass_", "received", "sent_", "handed_to_stack", "checksum_absent", "reply_by_engine"];
    all.clone().into_iter().filter(|(name, _)| !ordinary.iter().any(|o| name.starts_with(o))).collect()
}

/// Frames cut in the middle of IP, and frames with correct lengths that end in the middle of PSP and Falcon
/// headers (F-9.2.2.1-1).
fn cut_frames(target: &mut Target, ip_counter: Counter) -> Result<()> {
    let whole = target.duplicate();
    let cuts: Vec<_> = (ETHERNET..whole.len()).map(|length| whole[..length].to_vec()).collect();
    target.expect(ip_counter, "frames cut at every length", &cuts)?;

    let flow = target.peer.subject.flow;
    let datagram = &whole[flow.udp_offset() + 8..];
    let too_short: Vec<_> = (0..Psp::LEN)
        .map(|length| flow.ip(IP_PROTOCOL_UDP, &flow.udp(FALCON_UDP_PORT, &datagram[..length])))
        .collect();
    target.expect(Counter::DropUdpLength, "datagrams without room for PSP", &too_short)?;
    for (name, packet) in target.old_packets() {
        // Without a byte of its payload, a Push Data has a wrong Request Length. The payload of the others
        // belongs to the ULP.
        let header = if name == "Pull Request" { PullRequest::LEN } else { packet.len() };
        let cuts: Vec<_> = (0..header).map(|length| target.peer.frame(&packet[..length])).collect();
        target.expect(Counter::DropFalconLength, &format!("{name} cut at every length"), &cuts)?;
        if !matches!(name, "Pull Request" | "Pull Data") {
            let longer = target.peer.frame(&[&packet[..], &[0]].concat());
            target.expect(Counter::DropFalconLength, &format!("{name} with a byte too many"), &[longer])?;
        }
    }
    target.works()
}

/// F-9.2.2.1-1, D-09, D-23 steps 1 to 4: version, types, connection, function, SPI, replay.
fn bad_fields(target: &mut Target) -> Result<()> {
    let before = target.refused();
    let versions = target.changed([0x00, 0x20, 0xf0].map(|version| (0, 0x0f, version)));
    target.expect(Counter::DropFalconVersion, "Falcon versions other than 1", &versions)?;
    let types = target.changed([1, 2, 4, 7, 11, 12, 13, 14, 15].map(|kind| (7, 0xe1, kind << 1)));
    target.expect(Counter::DropFalconType, "reserved packet types", &types)?;
    let protocols = target.changed([0, 1, 4, 5, 6, 7].map(|protocol| (7, 0x1f, protocol << 5)));
    target.expect(Counter::DropFalconType, "reserved protocol types", &protocols)?;
    // A free slot, and another incarnation of the connection's own slot (D-50).
    let cids = target.changed([(3, 0, 77), (2, 0, 1)]);
    target.expect(Counter::DropUnknownCid, "CIDs of no connection", &cids)?;
    let functions = target.changed([(6, 0, 1), (4, 0, 1)]);
    target.expect(Counter::DropFunction, "another function", &functions)?;

    let packet = target.duplicate_packet();
    let spis = [0, 2, u32::MAX].map(|spi| {
        let psp = Psp { spi: Spi(spi), ..target.peer.psp() };
        target.peer.subject.flow.frame(&psp, &packet)
    });
    target.expect(Counter::DropSpi, "SPI 0 and those of others", &spis)?;
    // Far older than the margin of 100 ms (D-56), in picoseconds. The clock starts with the machine.
    let ivs = [10_000_000_000_000, 60_000_000_000_000].map(|age: u64| {
        let psp = target.peer.psp();
        target.peer.subject.flow.frame(&Psp { iv: Picoseconds(psp.iv.0.saturating_sub(age)), ..psp }, &packet)
    });
    target.expect(Counter::DropReplay, "replayed packets", &ivs)?;
    // Ahead of the peer's clock by more than the margin and all the drift since the start of the test.
    let ivs = [1_000_000_000_000, 1 << 60].map(|ahead| {
        let psp = target.peer.psp();
        target.peer.subject.flow.frame(&Psp { iv: psp.iv.after(PicosecondSpan(ahead)), ..psp }, &packet)
    });
    target.expect(Counter::DropIvAhead, "packets from the future", &ivs)?;
    target.works()?;
    let psp = target.peer.psp();
    let sources = [0, 1, 2].map(|n| {
        let mut flow = target.peer.subject.flow;
        flow.source = match flow.source {
            IpAddr::V4(address) => IpAddr::V4((u32::from(address) ^ 1 << (8 * n)).into()),
            IpAddr::V6(address) => IpAddr::V6((u128::from(address) ^ 1 << (40 * n)).into()),
        };
        flow.frame(&psp, &packet)
    });
    target.expect(Counter::DropSource, "packets of other hosts", &sources)?;
    // F-11-12, D-59: from the connection's own counts the connection manager makes events.
    let expected = SecurityDrops {
        source: before.source + 3,
        spi: before.spi + 3,
        replay: before.replay + 2,
        iv_ahead: before.iv_ahead + 2,
        ..before
    };
    assert_eq!(target.refused(), expected);
    target.works()
}

/// The PSP header byte by byte: next header, extension length, crypt offset, flags (D-10, D-83).
fn bad_psp(target: &mut Target) -> Result<()> {
    let at = target.peer.subject.flow.udp_offset() + 8;
    let changes = [
        (0, 17),          // not Falcon
        (1, 2),           // a length without a cookie
        (2, 3),           // an offset without a cookie
        (3, 15 << 2),     // without the bit that is always 1
        (3, 1),           // AES-GCM-128, which this connection does not use
        (3, 1 << 2 | 1),  // AES-GCM-256
        (3, 7 << 2 | 1),  // no version at all
        (3, 15 << 2 | 3), // a cookie that the lengths do not include
    ];
    let flow = target.peer.subject.flow;
    let frames = changes.map(|(offset, value)| {
        let mut frame = target.duplicate();
        frame[at + offset] = value;
        flow.refresh_udp(&mut frame);
        frame
    });
    target.expect(Counter::DropPspHeader, "PSP headers", &frames)
}

/// D-91, F-9.2.2.1-1, F-9.2.2.1-2.
fn bad_udp(target: &mut Target) -> Result<()> {
    let udp = target.peer.subject.flow.udp_offset();
    let mut wrong = target.duplicate();
    wrong[udp + 6] ^= 0x40;
    let mut flipped = target.duplicate();
    *flipped.last_mut().expect("not empty") ^= 1;
    target.expect(Counter::DropUdpChecksum, "wrong UDP checksums", &[wrong, flipped])?;
    let lies = [0, 7, 8, 23, 24, 1000, 0xffff].map(|length: u16| {
        let mut frame = target.duplicate();
        frame[udp + 4..udp + 6].copy_from_slice(&length.to_be_bytes());
        frame
    });
    target.expect(Counter::DropUdpLength, "UDP lengths that lie", &lies)
}

/// Windows and acknowledgements: valid packets that cannot be used.
fn out_of_place(target: &mut Target) -> Result<()> {
    let frame = target.duplicate();
    target.expect(Counter::DropOldDuplicate, "an old duplicate", &[frame])?;
    let next = target.peer.next();
    let beyond = [
        target.at(next.data_psn.add(128), write(0, &[1; 8])), // D-17
        target.at(next.request_psn.add(64), read(KEY, 0, 8)),
        target.at(next.data_psn.add(0x7fff_fff0), write(0, &[1; 8])),
    ];
    let frames = beyond.map(|packet| target.peer.frame(&packet));
    target.expect(Counter::DropOutOfWindow, "PSNs beyond the windows", &frames)?;

    let (data_psn, request_psn) = target.peer.bases();
    let mut back = |data_psn: Psn, request_psn: Psn| {
        let header = AckHeader { request_base_psn: request_psn, ..target.peer.ack_of(data_psn) };
        let packet = encoded::<{ AckHeader::LEN }>(|out| header.encode(out));
        target.peer.frame(&packet)
    };
    let stale = [back(data_psn.sub(1), request_psn)];
    // D-19: acknowledgements of packets that were never sent.
    let invalid = [
        back(data_psn.add(1), request_psn),
        back(data_psn, request_psn.add(1)),
        back(data_psn.add(0x7fff_ffff), request_psn),
    ];
    target.expect(Counter::AckStale, "a stale acknowledgement", &stale)?;
    target.expect(Counter::AckInvalid, "acknowledgements of nothing", &invalid)?;
    let unsent = target.peer.eack_of(data_psn, 2, 2);
    let packet = encoded::<{ Eack::LEN }>(|out| unsent.encode(out));
    let frame = target.peer.frame(&packet);
    target.expect(Counter::AckInvalid, "an EACK of nothing", &[frame])?;
    let unknown = [data_psn, data_psn.sub(1)].map(|psn| {
        let nack = target.peer.nack_of(psn, NackCode::INSUFFICIENT_RESOURCES);
        let packet = encoded::<{ Nack::LEN }>(|out| nack.encode(out));
        target.peer.frame(&packet)
    });
    target.expect(Counter::NackIgnored, "NACKs of nothing", &unknown)?;
    target.works()
}

/// A Pull Data without a request is acknowledged, because otherwise its sender would repeat it forever
/// (F-8.4.3.2-1, D-23).
fn unasked_for(target: &mut Target) -> Result<()> {
    let rsn = target.peer.next().rsn;
    let answer = target.peer.number(Draft { rsn, ..Draft::new(PacketType::PullData, vec![], 0) });
    let frame = target.peer.frame(&answer.bytes(target.peer.base()));
    target.expect(Counter::DropPullDataUnknown, "Pull Data nobody asked for", &[frame])?;
    target.works()
}

/// Requests that Falcon delivers and the ULP refuses, each with its code (D-84).
fn refused_by_the_ulp(target: &mut Target) -> Result<()> {
    let error = |code: UlpCode| Aeth::ERROR_BASE + code.0;
    let length = REGION as u64;
    for (what, rkey, address, length, code) in [
        ("an unknown key", RKey(2), 0, 8, UlpCode::ACCESS),
        ("key 0", RKey(0), 0, 8, UlpCode::ACCESS),
        ("another incarnation of the key", RKey(KEY.0 + 256), 0, 8, UlpCode::ACCESS),
        ("beyond the end", KEY, length, 1, UlpCode::ACCESS),
        ("across the end", KEY, length - 4, 8, UlpCode::ACCESS),
        ("across the end of all addresses", KEY, u64::MAX - 3, 8, UlpCode::ACCESS),
    ] {
        let read = target.peer.number(read(rkey, address, length));
        let answer = target.peer.ask(&read)?;
        assert_eq!((answer.syndrome(), answer.data().len()), (Some(error(code)), 0), "{what}");
    }
    // F-11-31: a pull for a ULP that does not know the connection is reclaimed, and nobody answers it.
    let read = target.peer.read(0, 8);
    let mut packet = read.bytes(target.peer.base());
    packet[7] = packet[7] & 0x1f | (ProtocolType::Nvme as u8) << 5;
    let frame = target.peer.frame(&packet);
    target.expect(Counter::DropProtocol, "a pull of NVMe", &[frame])?;
    for (what, opcode, address) in [
        ("a misaligned fetch and add", Opcode::FETCH_ADD, 4),
        ("a misaligned compare and swap", Opcode::COMPARE_SWAP, 1),
        ("an opcode of nothing", Opcode(0x1f), 0),
        ("an opcode that pushes", Opcode::SEND_ONLY, 0),
    ] {
        let operation = AtomicEth { address, rkey: KEY, swap_or_add: 1, compare: 0 };
        let operation = encoded::<{ AtomicEth::LEN }>(|out| operation.encode(out));
        let pull = target.peer.number(Draft::pull(opcode, &operation, 8, CID_A.0));
        let answer = target.peer.ask(&pull)?;
        assert_eq!(answer.syndrome(), Some(error(UlpCode::INVALID_REQUEST)), "{what}");
    }
    target.works()
}

/// D-86: a frame with one tag is accepted and answered with that tag. A frame with two tags is not handled.
fn tagged(target: &mut Target) -> Result<()> {
    target.peer.forget()?;
    target.peer.subject.flow.vlan = Some(0x6123);
    let data = pattern(64, 99);
    target.peer.store(0, &data)?;
    let read = target.peer.read(0, data.len() as u32);
    let answer = target.peer.ask(&read)?;
    assert_eq!((answer.vlan(), answer.data()), (Some(0x6123), &data[..]));
    target.peer.subject.flow.vlan = None;
    target.works()?;
    let frame = target.duplicate();
    let mut twice = frame[..12].to_vec();
    twice.extend([0x81, 0x00, 0, 1, 0x81, 0x00, 0, 2]);
    twice.extend(&frame[12..]);
    target.expect(Counter::PassEthertype, "a frame with two tags", &[twice])
}

/// D-86: frames that are not for the node go to the kernel's stack.
fn not_ours(target: &mut Target) -> Result<()> {
    let flow = target.peer.subject.flow;
    let packet = target.duplicate_packet();
    let datagram = flow.udp(OTHER_PORT, &packet);
    target.expect(Counter::PassPort, "another port", &[flow.ip(IP_PROTOCOL_UDP, &datagram)])?;
    let psp = target.peer.psp();
    let mut elsewhere = flow;
    elsewhere.destination_mac[5] = 99;
    let before = counters(&target.node)[Counter::PassAddress.name()];
    target.peer.send_frame(elsewhere.frame(&psp, &packet), None)?;
    wait_until("a frame to another MAC address is passed on", || {
        counters(&target.node)[Counter::PassAddress.name()] > before
    });
    target.works()
}

/// Checks that a datagram to another port, in an IP packet that the function makes, reaches its socket.
fn reaches_the_stack(
    target: &mut Target,
    ipv6: bool,
    what: &str,
    frames: impl Fn(&[u8]) -> Vec<Vec<u8>>,
) -> Result<()> {
    let host = &target.pair.a;
    let address = if ipv6 { host.ipv6.into() } else { IpAddr::from(host.ipv4) };
    // A program that another test just starts has a copy of the last socket for a moment.
    let mut bound = None;
    wait_until("the port is free", || {
        bound = host.run(|| UdpSocket::bind((address, OTHER_PORT))).ok();
        bound.is_some()
    });
    let socket = bound.context("it is bound")?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let mut flow = target.peer.subject.flow;
    let other = &target.pair.b;
    (flow.source, flow.destination) = match ipv6 {
        true => (other.ipv6.into(), host.ipv6.into()),
        false => (other.ipv4.into(), host.ipv4.into()),
    };
    let text = pattern(1600, 3);
    for frame in frames(&flow.udp(OTHER_PORT, &text)) {
        target.peer.send_frame(frame, None)?;
    }
    let mut received = vec![0; 2000];
    let length = socket.recv(&mut received).with_context(|| format!("{what} never reached the socket"))?;
    assert!(received[..length] == text, "{what} was changed on its way");
    Ok(())
}

/// D-86: options, extension headers and fragments are refused if they carry Falcon, and only then.
fn options_and_fragments(target: &mut Target) -> Result<()> {
    let mut flow = target.peer.subject.flow;
    let mut flow6 = flow;
    let (a, b) = (&target.pair.a, &target.pair.b);
    [flow.source, flow.destination] = [b.ipv4.into(), a.ipv4.into()];
    [flow6.source, flow6.destination] = [b.ipv6.into(), a.ipv6.into()];
    let with_options = |datagram: &[u8]| {
        // Four No Operation options.
        let mut frame = flow.ip(IP_PROTOCOL_UDP, &[&[1; 4], datagram].concat());
        frame[ETHERNET] = 0x46;
        refresh_ipv4(&mut frame);
        frame
    };
    let fragment = |offset: u16, more: bool, part: &[u8]| {
        let mut frame = flow.ip(IP_PROTOCOL_UDP, part);
        frame[ETHERNET + 6..ETHERNET + 8]
            .copy_from_slice(&((offset / 8) | (u16::from(more) << 13)).to_be_bytes());
        refresh_ipv4(&mut frame);
        frame
    };
    reaches_the_stack(target, false, "a datagram with IPv4 options", |datagram| {
        vec![with_options(datagram)]
    })?;
    reaches_the_stack(target, false, "a fragmented IPv4 datagram", |datagram| {
        vec![fragment(0, true, &datagram[..800]), fragment(800, false, &datagram[800..])]
    })?;

    // Destination options: six bytes of padding.
    let extended =
        |datagram: &[u8]| flow6.ip(60, &[&[IP_PROTOCOL_UDP, 0, 1, 4, 0, 0, 0, 0], datagram].concat());
    let fragment6 = |offset: u16, more: bool, part: &[u8]| {
        let [high, low] = (offset | u16::from(more)).to_be_bytes();
        flow6.ip(44, &[&[IP_PROTOCOL_UDP, 0, high, low, 0, 0, 0, 9], part].concat())
    };
    reaches_the_stack(target, true, "a datagram behind an IPv6 extension header", |datagram| {
        vec![extended(datagram)]
    })?;
    reaches_the_stack(target, true, "a fragmented IPv6 datagram", |datagram| {
        vec![fragment6(0, true, &datagram[..800]), fragment6(800, false, &datagram[800..])]
    })?;

    let falcon = target.duplicate();
    let datagram = &falcon[target.peer.subject.flow.udp_offset()..];
    let (optional, first) = match target.peer.subject.flow.source.is_ipv4() {
        true => (with_options(datagram), fragment(0, true, &datagram[..64])),
        false => (extended(datagram), fragment6(0, true, &datagram[..64])),
    };
    target.expect(Counter::DropIpOptions, "Falcon behind options", &[optional])?;
    target.expect(Counter::DropFragment, "a fragment of Falcon", &[first])?;
    target.works()
}

fn every_bad_frame(ipv6: bool, inner: Option<Tunnel>) -> Result<()> {
    need_root();
    let mut target = Target::up(ipv6, inner)?;
    let ip_counter = if ipv6 { Counter::DropIpv6Header } else { Counter::DropIpv4Header };
    cut_frames(&mut target, ip_counter).context("cut frames")?;
    bad_udp(&mut target).context("UDP")?;
    bad_psp(&mut target).context("PSP")?;
    bad_fields(&mut target).context("Falcon")?;
    out_of_place(&mut target).context("windows")?;
    unasked_for(&mut target).context("Pull Data")?;
    refused_by_the_ulp(&mut target).context("ULP")?;
    tagged(&mut target).context("tags")?;
    not_ours(&mut target).context("others' frames")?;
    if !ipv6 {
        bad_ipv4(&mut target)?;
    }
    options_and_fragments(&mut target).context("options and fragments")?;
    other_tunnels(&mut target).context("other tunnels")?;
    if inner.is_some() {
        bad_inner_headers(&mut target).context("inner headers")?;
    }
    target.works()?;
    settle(&target.node);
    Ok(())
}

fn bad_ipv4(target: &mut Target) -> Result<()> {
    let mut wrong = target.duplicate();
    wrong[ETHERNET + 10] ^= 1;
    target.expect(Counter::DropIpv4Checksum, "a wrong IPv4 checksum", &[wrong])?;
    let headers = [(0, 0x55), (0, 0x44), (2, 0xff), (3, 19)].map(|(offset, value)| {
        let mut frame = target.duplicate();
        frame[ETHERNET + offset] = value;
        if offset != 0 {
            refresh_ipv4(&mut frame);
        }
        frame
    });
    target.expect(Counter::DropIpv4Header, "IPv4 versions and lengths", &headers)
}

/// F-7.1.2-1: sound packets in the other mode, of the other IP version, or with other inner addresses.
fn other_tunnels(target: &mut Target) -> Result<()> {
    let right = target.peer.subject.flow.inner;
    let address = |text: &str| -> IpAddr { text.parse().expect("an address") };
    let others = [
        None,
        Some((address("192.168.7.2"), address("192.168.7.1"))),
        Some((address("192.168.7.3"), address("192.168.7.1"))),
        Some((address("192.168.7.2"), address("192.168.7.3"))),
        Some((address("fd01::2"), address("fd01::1"))),
        Some((address("fd02::2"), address("fd01::1"))),
        Some((address("fd01::2"), address("fd01::3"))),
    ];
    let mut frames = Vec::new();
    for other in others.into_iter().filter(|other| *other != right) {
        target.peer.subject.flow.inner = other;
        frames.push(target.duplicate());
    }
    target.peer.subject.flow.inner = right;
    target.expect(Counter::DropTunnel, "other tunnels", &frames)?;
    target.works()
}

/// F-7.1.2-1: the inner header is checked as strictly as the outer one.
fn bad_inner_headers(target: &mut Target) -> Result<()> {
    let flow = target.peer.subject.flow;
    let addresses = flow.inner.expect("a tunnel");
    let packet = target.duplicate_packet();
    let inner = ip_packet(addresses, NEXT_HEADER_FALCON, &packet);
    let v4 = addresses.0.is_ipv4();
    let (header, length) = if v4 { (20, 3) } else { (40, 5) };
    let changed = |at: usize, value: u8, fits: bool| {
        let mut inner = inner.clone();
        inner[at] = value;
        if fits && v4 {
            inner[10..12].fill(0);
            let sum = checksum(sum_bytes(&inner[..20]));
            inner[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        inner
    };
    let broken = if v4 { Counter::DropIpv4Header } else { Counter::DropIpv6Header };
    let cut = |length: usize| inner[..length].to_vec();
    let mut cases = vec![
        (broken, "another version", vec![changed(0, 0x55, true), changed(0, 0x75, true)]),
        (broken, "cut headers", vec![cut(0), cut(1), cut(header - 1)]),
        (broken, "a length beyond the frame", vec![changed(length - 1, 0x40, true)]),
        (Counter::DropInnerHeader, "a short length", vec![changed(length, inner[length] - 1, true)]),
        (Counter::DropInnerHeader, "bytes after the inner packet", vec![[&inner[..], &[0; 4]].concat()]),
    ];
    let protocol = if v4 { 9 } else { 6 };
    let protocols = [17, 6, 4, 41, 251].map(|protocol_is| changed(protocol, protocol_is, true));
    cases.push((Counter::DropInnerHeader, "other protocols", protocols.to_vec()));
    if v4 {
        cases.push((Counter::DropIpv4Header, "a short header", vec![changed(0, 0x44, true)]));
        cases.push((Counter::DropIpOptions, "options", vec![changed(0, 0x46, true)]));
        let sums = [4, 8, 10, 13, 19].map(|at| changed(at, !inner[at], false));
        cases.push((Counter::DropIpv4Checksum, "checksums", sums.to_vec()));
        cases.push((Counter::DropFragment, "fragments", vec![changed(6, 0x20, true), changed(7, 1, true)]));
        cases.push((Counter::DropIpv4Header, "a length below the header", vec![changed(3, 19, true)]));
    } else {
        let extensions = [0, 43, 60].map(|next| changed(6, next, false));
        cases.push((Counter::DropIpOptions, "extension headers", extensions.to_vec()));
        cases.push((Counter::DropFragment, "a fragment", vec![changed(6, 44, false)]));
    }
    for (counter, what, inners) in cases {
        let frames: Vec<_> = inners
            .iter()
            .map(|inner| {
                let psp = target.peer.psp();
                flow.in_psp(&psp, inner)
            })
            .collect();
        target.expect(counter, what, &frames)?;
    }
    // The crypt offset belongs to the other mode, or to the other version.
    let offsets: Vec<_> = [1, if v4 { 11 } else { 6 }, 13]
        .map(|crypt_offset| {
            let psp = Psp { crypt_offset, ..target.peer.psp() };
            flow.in_psp(&psp, &inner)
        })
        .to_vec();
    target.expect(Counter::DropPspHeader, "crypt offsets", &offsets)?;
    target.works()
}

#[test]
#[ignore = "needs root: cargo xtask test"]
fn every_bad_frame_over_ipv4() -> Result<()> {
    every_bad_frame(false, None)
}

#[test]
#[ignore = "needs root: cargo xtask test"]
fn every_bad_frame_over_ipv6() -> Result<()> {
    every_bad_frame(true, None)
}

/// Inner addresses of node and peer.
fn tunnel(local: &str, peer: &str) -> Option<Tunnel> {
    Some(Tunnel { local: local.parse().expect("an address"), peer: peer.parse().expect("an address") })
}

#[test]
#[ignore = "needs root: cargo xtask test"]
fn every_bad_frame_in_a_tunnel_with_ipv4_in_ipv6() -> Result<()> {
    every_bad_frame(true, tunnel("192.168.7.1", "192.168.7.2"))
}

#[test]
#[ignore = "needs root: cargo xtask test"]
fn every_bad_frame_in_a_tunnel_with_ipv6_in_ipv4() -> Result<()> {
    every_bad_frame(false, tunnel("fd01::1", "fd01::2"))
}

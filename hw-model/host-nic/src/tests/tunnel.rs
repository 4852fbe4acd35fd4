//! Tunnel mode: frames byte by byte, and the ECN of both headers (F-7.1.2-1).

use transport_common::security::Tunnel;
use transport_common::wire::checksum::{checksum, checksum_holds, sum_bytes, sum_length};

use super::*;
use crate::testbed::mac;

const ETHERNET: &str = "020000000002 020000000001";
const UDP_PORTS: &str = "c355 03e8";
/// Push Data with a WRITE of 4 bytes at offset 50: Falcon, BTH, RETH, data.
const WRITE: &str = "10000005 0000004b fffffffc 00000069 fffffffd 00000023 0000 0020
    0a00ffff 00000005 00000000  00000000 00000032 00000001 00000004  a5a5a5a5";

/// One combination of outer and inner IP version, and its frame. IV and UDP checksum are 0 in it.
struct Combination {
    outer: u8,
    inner: u8,
    ip: &'static str,
    udp_length: &'static str,
    psp: &'static str,
    inner_ip: &'static str,
}

const OUTER_IPV6: [&str; 2] = [
    "86dd 60200000 0068 11ff fd000000000000000000000000000001 fd000000000000000000000000000002",
    "86dd 60200000 007c 11ff fd000000000000000000000000000001 fd000000000000000000000000000002",
];
const PSP: [&str; 2] = ["0401063d 00000001 0000000000000000", "29010b3d 00000001 0000000000000000"];
const INNER: [&str; 2] = [
    "4502 0050 0000 4000 fffc eb5b c0a80701 c0a80702",
    "60200000 003c fcff fd010000000000000000000000000001 fd010000000000000000000000000002",
];

const COMBINATIONS: [Combination; 4] = [
    Combination {
        outer: 4,
        inner: 4,
        ip: "0800 4502 007c 0000 4000 ff11 675e 0a070001 0a070002",
        udp_length: "0068",
        psp: PSP[0],
        inner_ip: INNER[0],
    },
    Combination {
        outer: 4,
        inner: 6,
        ip: "0800 4502 0090 0000 4000 ff11 674a 0a070001 0a070002",
        udp_length: "007c",
        psp: PSP[1],
        inner_ip: INNER[1],
    },
    Combination {
        outer: 6,
        inner: 4,
        ip: OUTER_IPV6[0],
        udp_length: "0068",
        psp: PSP[0],
        inner_ip: INNER[0],
    },
    Combination {
        outer: 6,
        inner: 6,
        ip: OUTER_IPV6[1],
        udp_length: "007c",
        psp: PSP[1],
        inner_ip: INNER[1],
    },
];

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(core::str::from_utf8(pair).expect("ASCII"), 16);
    digits.chunks(2).map(|pair| byte(pair).expect("two digits")).collect()
}

fn ipv6(network: u8, side: usize) -> [u8; 16] {
    let mut address = [0; 16];
    (address[0], address[1], address[15]) = (0xfd, network, side as u8 + 1);
    address
}

impl Combination {
    fn nic(&self, side: usize) -> HostNic {
        let ipv4 = [10, 7, 0, side as u8 + 1];
        let mut nic = HostNic::new(HostConfig::new(node_config(mac(side), ipv4, ipv6(0, side))));
        nic.open(SLOT, &self.parameters(side));
        nic
    }

    fn parameters(&self, side: usize) -> Parameters {
        let peer = 1 - side;
        let mut p = parameters(side);
        p.config.path.inner_version = self.inner;
        if self.outer == 6 {
            p.config.path.ip_version = 6;
            (p.config.path.source, p.config.path.destination) = (ipv6(0, side), ipv6(0, peer));
        }
        let inner = |side: usize| -> [u64; 2] {
            if self.inner == 4 {
                return [u32::from_ne_bytes([192, 168, 7, side as u8 + 1]).into(), 0];
            }
            transport_common::datapath::words(&ipv6(1, side))
        };
        p.config.tunnel = Tunnel { local: inner(side), peer: inner(peer) };
        p
    }

    /// Returns the first frame of a WRITE of 4 bytes.
    fn write(&self, a: &mut HostNic) -> Vec<u8> {
        a.memory_mut()[..4].fill(0xa5);
        let work = WorkRequest {
            opcode: Verb::WRITE,
            flags: WorkFlags::SIGNALED,
            length: 4,
            remote_address: 50,
            rkey: 1,
            ..WorkRequest::default()
        };
        a.post(SLOT, work).expect("the queue is empty");
        a.engine_frame().expect("the doorbell was rung").1
    }

    fn outer_len(&self) -> usize {
        if self.outer == 4 { 20 } else { 40 }
    }

    /// Returns where the PSP header begins.
    fn psp(&self) -> usize {
        14 + self.outer_len() + 8
    }

    /// Returns the sum over the UDP datagram and its pseudo header.
    fn udp_sum(&self, frame: &[u8]) -> u64 {
        let udp = self.psp() - 8;
        let addresses = if self.outer == 4 { 8 } else { 32 };
        let length = sum_length((frame.len() - udp) as u16);
        sum_bytes(&frame[udp - addresses..udp]) + length + sum_length(17) + sum_bytes(&frame[udp..])
    }

    /// Marks the outer header, or the inner one, as having experienced congestion, with correct checksums.
    fn mark(&self, frame: &mut [u8], inner: bool) {
        let (at, version) = if inner { (self.psp() + 16, self.inner) } else { (14, self.outer) };
        if version == 4 {
            frame[at + 1] |= 3;
            frame[at + 10..at + 12].fill(0);
            let sum = checksum(sum_bytes(&frame[at..at + 20]));
            frame[at + 10..at + 12].copy_from_slice(&sum.to_be_bytes());
        } else {
            frame[at + 1] |= 0x30;
        }
        let field = self.psp() - 2;
        frame[field..field + 2].fill(0);
        let sum = checksum(self.udp_sum(frame));
        frame[field..field + 2].copy_from_slice(&sum.to_be_bytes());
    }
}

/// F-7.1.2-1, D-10, D-91: the bytes of a frame for each combination of outer and inner IP version. The inner header is
/// readable before the Falcon header, the checksum covers both, and the answer comes back in the tunnel.
#[test]
fn frames_of_a_tunnel_byte_by_byte() {
    for c in &COMBINATIONS {
        let (mut a, mut b) = (c.nic(0), c.nic(1));
        b.register(Region {
            offset: 8192,
            length: 4096,
            key: 1,
            access: AccessFlags::REMOTE_WRITE,
            ..Region::default()
        });
        let frame = c.write(&mut a);
        assert!(checksum_holds(c.udp_sum(&frame)), "outer {}, inner {}", c.outer, c.inner);
        let mut constant = frame.clone();
        constant[c.psp() - 2..c.psp()].fill(0); // UDP checksum
        constant[c.psp() + 8..c.psp() + 16].fill(0); // IV
        let parts = [ETHERNET, c.ip, UDP_PORTS, c.udp_length, "0000", c.psp, c.inner_ip, WRITE];
        assert_eq!(constant, hex(&parts.concat()), "outer {}, inner {}", c.outer, c.inner);

        let (verdict, answer) = b.receive(frame);
        assert_eq!((verdict, &b.memory()[8192 + 50..8192 + 54]), (Verdict::Transmit, &[0xa5; 4][..]));
        let inner = c.psp() + 16;
        let (protocol, addresses) = if c.inner == 4 { (9, 12..20) } else { (6, 8..40) };
        assert_eq!((answer[c.psp()], answer[inner + protocol]), (if c.inner == 4 { 4 } else { 41 }, 252));
        let (sent, back) = (&hex(c.inner_ip)[addresses.clone()], &answer[inner..][addresses]);
        let (own, peer) = sent.split_at(sent.len() / 2);
        assert_eq!(back, [peer, own].concat(), "the inner addresses are exchanged");
        assert!(checksum_holds(c.udp_sum(&answer)));
        assert_eq!(a.receive(answer).0, Verdict::Drop);
        assert_eq!(a.poll_completion(SLOT).expect("acknowledged").status, 0);
    }
}

/// RFC 6040: a mark of either header counts, once.
#[test]
fn a_mark_of_either_header_counts() {
    for c in &COMBINATIONS {
        for (outer, inner, marks) in [(false, false, 0), (true, false, 1), (false, true, 1), (true, true, 1)]
        {
            let (mut a, mut b) = (c.nic(0), c.nic(1));
            b.register(Region {
                offset: 8192,
                length: 4096,
                key: 1,
                access: AccessFlags::REMOTE_WRITE,
                ..Region::default()
            });
            let mut frame = c.write(&mut a);
            if outer {
                c.mark(&mut frame, false);
            }
            if inner {
                c.mark(&mut frame, true);
            }
            assert_eq!(b.receive(frame).0, Verdict::Transmit, "outer {}, inner {}", c.outer, c.inner);
            assert_eq!(b.entry(SLOT).connection.flow.delivery.ack.report.ecn_count, marks);
        }
    }
}

/// D-23: a packet of another tunnel changes nothing, not even the newest IV.
#[test]
fn another_tunnel_changes_nothing() {
    let [v4, v6] = [&COMBINATIONS[0], &COMBINATIONS[1]];
    let (mut a, mut b) = (v4.nic(0), v6.nic(1));
    let before = *b.entry(SLOT);
    let frame = v4.write(&mut a);
    assert_eq!(b.receive(frame).0, Verdict::Drop);
    assert_eq!(b.counter(Counter::DropTunnel), 1);
    let mut after = *b.entry(SLOT);
    assert_eq!(after.tables.statistics.refused.tunnel, 1);
    after.tables.statistics = before.tables.statistics;
    assert!(after == before);
}

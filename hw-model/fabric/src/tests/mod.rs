//! Tests the fabric through its public interface.

mod buffer;
mod config;
mod decisions;
mod flow_control;
mod headers;
mod order;
mod paths;
mod properties;
mod queue;
mod switch;
mod trimming;

use super::{Delivery, Fabric, Port, Time};

const A: Port = Port(0);
const B: Port = Port(1);

/// Returns the address of the host at `port`.
fn address(port: Port) -> [u8; 6] {
    [2, 0, 0, 0, 0, port.0 as u8 + 1]
}

fn fabric(ports: u16, config: &str) -> Fabric {
    let config = config.parse().unwrap_or_else(|error| panic!("{config}: {error}"));
    let mut fabric = Fabric::new(ports, config).expect("the ports exist");
    (0..ports).map(Port).for_each(|port| fabric.learn(address(port), port));
    fabric
}

fn ethernet(from: Port, to: Port, ethertype: u16, payload: &[u8]) -> Vec<u8> {
    [&address(to)[..], &address(from), &ethertype.to_be_bytes(), payload].concat()
}

/// A slow reference: RFC 1071 over the whole header. The result is zero if the checksum is right.
fn internet_checksum(header: &[u8]) -> u16 {
    let words = header.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Returns an IPv4 frame with a correct header checksum.
fn ipv4(from: Port, to: Port, tos: u8, ttl: u8, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let [high, low] = (20 + payload.len() as u16).to_be_bytes();
    let hosts = (from.0 as u8 + 1, to.0 as u8 + 1);
    let mut header =
        vec![0x45, tos, high, low, 0, 0, 0x40, 0, ttl, protocol, 0, 0, 10, 7, 0, hosts.0, 10, 7, 0, hosts.1];
    let checksum = internet_checksum(&header);
    header[10..12].copy_from_slice(&checksum.to_be_bytes());
    ethernet(from, to, 0x0800, &[&header, payload].concat())
}

fn ipv6(from: Port, to: Port, class: u8, hop_limit: u8, next_header: u8, payload: &[u8]) -> Vec<u8> {
    let [high, low] = (payload.len() as u16).to_be_bytes();
    let mut header = vec![0x60 | class >> 4, class << 4, 0, 0, high, low, next_header, hop_limit];
    header.extend([0xfd; 16].iter().chain(&[0xfe; 16]));
    ethernet(from, to, 0x86dd, &[&header, payload].concat())
}

/// Returns a UDP frame that carries its number in its last eight bytes.
fn numbered(from: Port, to: Port, number: u64, payload: usize) -> Vec<u8> {
    let mut bytes = vec![0xa5; payload.max(16)];
    let at = bytes.len() - 8;
    bytes[at..].copy_from_slice(&number.to_be_bytes());
    ipv4(from, to, 0b10, 64, 17, &bytes)
}

fn number_of(frame: &[u8]) -> u64 {
    u64::from_be_bytes(*frame.last_chunk().expect("a numbered frame"))
}

/// Returns all frames that arrive until the fabric is empty.
fn drain(fabric: &mut Fabric) -> Vec<Delivery> {
    let mut all = Vec::new();
    while let Some(time) = fabric.next_event() {
        while let Some(delivery) = fabric.poll(time) {
            all.push(delivery);
        }
    }
    all
}

/// Sends `count` numbered frames from A to B, one every `gap` picoseconds. Returns the fabric and all deliveries.
fn run(config: &str, count: u64, gap: u64) -> (Fabric, Vec<Delivery>) {
    let mut fabric = fabric(2, config);
    let mut all = Vec::new();
    for number in 0..count {
        let now = Time(number * gap);
        all.extend(core::iter::from_fn(|| fabric.poll(now)));
        fabric.offer(now, A, numbered(A, B, number, 64));
    }
    all.extend(drain(&mut fabric));
    (fabric, all)
}

fn numbers(deliveries: &[Delivery]) -> Vec<u64> {
    deliveries.iter().map(|delivery| number_of(&delivery.frame)).collect()
}

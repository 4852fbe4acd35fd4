//! The device under test on virtual time: the card on the host, sound or with one clause broken.

mod application;

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use falcon_conformance::{Flow, Parts, Patience, Settings, Start, Subject, Wire};
use host_nic::{HostConfig, HostNic, testbed};
use transport_common::connection::{Initial, Parameters};
use transport_common::datapath::Verdict;
use transport_common::ids::{Psn, RKey, Rsn, Spi};
use transport_common::queues::{AccessFlags, Region};
use transport_common::units::{Fcwnd, Picoseconds, Ticks};
use transport_common::wire::psp::Psp;

pub(crate) use application::{Application, Desk, Reports};

/// Slot, and CID at both ends, of the ordered connection.
pub(crate) const ORDERED: u32 = 5;
/// Slot, and CID at both ends, of the unordered connection.
pub(crate) const UNORDERED: u32 = 6;
/// The destination function of the tester, and of the device (D-15).
const FUNCTIONS: [u32; 2] = [0x0001_0203, 0x0004_0506];
/// The SPIs of the tester's packets, and of the device's.
const SPIS: [Spi; 2] = [Spi(0x17), Spi(0x2a)];
/// The device's retransmission timeout.
pub(crate) const RTO: Ticks = Ticks::from_nanos(40_000_000);
/// How often the device retransmits a packet by timeout.
pub(crate) const ATTEMPTS: u32 = 4;
/// The device's windows, and the percentage of its packets with AR.
pub(crate) const FCWND: u32 = 8;
pub(crate) const NCWND: u32 = 6;
const ACK_REQUEST_PERCENT: u32 = 20;
/// How long a transaction of the device may take.
pub(crate) const TRANSACTION_TIMEOUT: Ticks = Ticks::from_nanos(2_000_000_000);
/// Time of a packet on the network, picoseconds.
const DELAY: u64 = 5_000_000;
const KEY: u32 = 1;
/// Where the region begins in the memory of the device.
pub(crate) const MEMORY: usize = 8192;

/// A Falcon packet on its way, whose bytes a broken device changes.
#[derive(Clone, Debug)]
pub(crate) struct Packet {
    pub(crate) psp: Psp,
    /// Falcon header and payload.
    pub(crate) falcon: Vec<u8>,
}

impl Packet {
    pub(crate) fn kind(&self) -> u8 {
        self.falcon[7] >> 1 & 0xf
    }

    pub(crate) fn word(&self, number: usize) -> u32 {
        u32::from_be_bytes([0, 1, 2, 3].map(|byte| self.falcon[number * 4 + byte]))
    }

    /// Replaces a word by a function of it.
    pub(crate) fn edit(mut self, number: usize, change: impl FnOnce(u32) -> u32) -> Self {
        let word = change(self.word(number)).to_be_bytes();
        self.falcon[number * 4..number * 4 + 4].copy_from_slice(&word);
        self
    }
}

type Incoming = Box<dyn FnMut(&mut HostNic, Vec<u8>) -> Vec<Vec<u8>>>;
type Outgoing = Box<dyn FnMut(Packet) -> Vec<Packet>>;

/// What a broken device does differently.
pub(crate) struct Broken {
    parameters: fn(&mut Parameters),
    /// Length and rights of its region.
    region: (u64, AccessFlags),
    incoming: Incoming,
    outgoing: Outgoing,
    reports: Reports,
}

impl Broken {
    /// A device that breaks nothing.
    pub(crate) fn sound() -> Self {
        Self {
            parameters: |_| {},
            region: (8192, AccessFlags::all()),
            incoming: Box::new(|_, frame| vec![frame]),
            outgoing: Box::new(|packet| vec![packet]),
            reports: Reports::Truth,
        }
    }

    /// A device that sends its packets changed, several times, or not at all.
    pub(crate) fn sends(outgoing: impl FnMut(Packet) -> Vec<Packet> + 'static) -> Self {
        Self { outgoing: Box::new(outgoing), ..Self::sound() }
    }

    /// A device that takes received packets as if they were others. The changed packets get the checksum that
    /// fits.
    pub(crate) fn takes(mut incoming: impl FnMut(&mut HostNic, Packet) -> Vec<Packet> + 'static) -> Self {
        Self::takes_frames(move |nic, frame| match Parts::of(&frame) {
            Some(Parts { psp, falcon, .. }) => {
                let packets = incoming(nic, Packet { psp, falcon: falcon.to_vec() });
                packets.iter().map(|packet| tester().frame(&packet.psp, &packet.falcon)).collect()
            }
            None => vec![frame],
        })
    }

    /// A device that takes received frames as if they were others.
    pub(crate) fn takes_frames(
        incoming: impl FnMut(&mut HostNic, Vec<u8>) -> Vec<Vec<u8>> + 'static,
    ) -> Self {
        Self { incoming: Box::new(incoming), ..Self::sound() }
    }

    /// A device that tells its application something wrong about the ends of operations.
    pub(crate) fn reports(reports: Reports) -> Self {
        Self { reports, ..Self::sound() }
    }

    /// A device with another region. It breaks nothing.
    pub(crate) fn with_region(length: u64, access: AccessFlags) -> Self {
        Self { region: (length, access), ..Self::sound() }
    }

    /// A device whose connections have other parameters.
    pub(crate) fn opened(parameters: fn(&mut Parameters)) -> Self {
        Self { parameters, ..Self::sound() }
    }
}

/// The device behind a network.
pub(crate) struct Device {
    nic: HostNic,
    broken: Broken,
    application: Application,
    now: Picoseconds,
    to_device: VecDeque<(Picoseconds, Vec<u8>)>,
    to_tester: VecDeque<(Picoseconds, Vec<u8>)>,
}

/// The tester is side 0 of the testbed, the device is side 1.
pub(crate) fn tester() -> Flow {
    flow(0)
}

fn flow(side: usize) -> Flow {
    let address = |side: usize| IpAddr::V4(Ipv4Addr::new(10, 7, 0, side as u8 + 1));
    Flow {
        source_mac: testbed::mac(side),
        destination_mac: testbed::mac(1 - side),
        vlan: None,
        source: address(side),
        destination: address(1 - side),
        source_port: 50_000,
        inner: None,
    }
}

fn start(side: usize) -> Start {
    // Close to the wrap.
    let near = |n: u32| 0u32.wrapping_sub(n + side as u32);
    Start { request_psn: Psn(near(20)), data_psn: Psn(near(12)), rsn: Rsn(near(30)) }
}

/// Returns the connections as the tester knows them.
pub(crate) fn subjects() -> Vec<Subject> {
    let subject = |cid: u32, ordered| Subject {
        flow: tester(),
        local_cid: transport_common::ids::Cid(cid),
        peer_cid: transport_common::ids::Cid(cid),
        local_function: FUNCTIONS[0],
        peer_function: FUNCTIONS[1],
        ordered,
        tx_spi: SPIS[0],
        rx_spi: SPIS[1],
        tx: start(0),
        rx: start(1),
        rkey: RKey(KEY),
        settings: Settings {
            fcwnd: Some(FCWND),
            ncwnd: Some(NCWND),
            attempts: Some(ATTEMPTS),
            transaction_timeout: Some(Duration::from_nanos(TRANSACTION_TIMEOUT.as_nanos())),
            ack_request_threshold: Some(2),
            ack_request_percent: Some(ACK_REQUEST_PERCENT),
        },
    };
    vec![subject(ORDERED, true), subject(UNORDERED, false)]
}

fn parameters(cid: u32) -> Parameters {
    let initial = |side: usize| {
        let Start { request_psn, data_psn, rsn } = start(side);
        Initial { request_psn, data_psn, rsn }
    };
    let mut parameters = testbed::connection(1, cid as usize);
    parameters.config.ordered = (cid == ORDERED).into();
    parameters.config.local_function = FUNCTIONS[1];
    parameters.config.peer_function = FUNCTIONS[0];
    parameters.config.max_retransmit_attempts = ATTEMPTS;
    parameters.config.transaction_timeout = TRANSACTION_TIMEOUT;
    (parameters.tx_spi, parameters.rx_spi) = (SPIS[1], SPIS[0]);
    (parameters.tx, parameters.rx) = (initial(1), initial(0));
    parameters.rto = RTO;
    parameters.fcwnd = Fcwnd::from_packets(FCWND);
    parameters.ncwnd = NCWND;
    parameters.config.ack_request_percent = ACK_REQUEST_PERCENT as u8;
    parameters
}

impl Device {
    pub(crate) fn new(broken: Broken) -> Self {
        let mut nic = HostNic::new(HostConfig::new(testbed::node(1)));
        let now = Picoseconds::from_nanos(1_000_000_000_000);
        nic.set_time(now);
        for cid in [ORDERED, UNORDERED] {
            let mut parameters = parameters(cid);
            (broken.parameters)(&mut parameters);
            nic.open(cid as usize, &parameters);
        }
        let (length, access) = broken.region;
        nic.register(Region { offset: MEMORY as u64, length, key: KEY, access, ..Region::default() });
        for (number, byte) in nic.memory_mut()[..MEMORY / 2].iter_mut().enumerate() {
            *byte = number as u8;
        }
        let application = Application::new(broken.reports);
        Self { nic, broken, application, now, to_device: VecDeque::new(), to_tester: VecDeque::new() }
    }

    /// Returns where the tester submits operations of the device.
    pub(crate) fn desk(&self) -> Desk {
        self.application.desk()
    }

    fn emit(&mut self, (verdict, frame): (Verdict, Vec<u8>)) {
        if verdict != Verdict::Transmit {
            return;
        }
        let at = Picoseconds(self.now.0 + DELAY);
        let Some(Parts { psp, falcon, .. }) = Parts::of(&frame) else {
            return self.to_tester.push_back((at, frame));
        };
        for packet in (self.broken.outgoing)(Packet { psp, falcon: falcon.to_vec() }) {
            self.to_tester.push_back((at, flow(1).frame(&packet.psp, &packet.falcon)));
        }
    }

    fn run_engine(&mut self) {
        // The engine polls the timing wheel in every eighth frame.
        for _ in 0..8 {
            while let Some(sent) = self.nic.engine_frame() {
                self.emit(sent);
            }
        }
        if self.nic.next_event().is_some_and(|next| next.0 <= self.now.0) {
            self.now.0 += 1_000_000;
        }
    }
}

impl Wire for Device {
    fn now(&mut self) -> Picoseconds {
        self.now
    }

    fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        let at = Picoseconds(self.now.0 + DELAY);
        self.to_device.push_back((at, frame.to_vec()));
        Ok(())
    }

    fn receive(&mut self, deadline: Picoseconds) -> io::Result<Option<(Picoseconds, Vec<u8>)>> {
        loop {
            self.application.submit(&mut self.nic);
            let time =
                |queue: &VecDeque<(Picoseconds, Vec<u8>)>| queue.front().map_or(u64::MAX, |(at, _)| at.0);
            let (tester, device) = (time(&self.to_tester), time(&self.to_device));
            let engine = self.nic.next_event().map_or(u64::MAX, |at| at.0);
            let next = tester.min(device).min(engine);
            if next > deadline.0 {
                self.application.collect(&mut self.nic);
                self.now.0 = self.now.0.max(deadline.0);
                return Ok(None);
            }
            self.now.0 = self.now.0.max(next);
            self.nic.set_time(self.now);
            self.application.collect(&mut self.nic);
            if tester == next {
                return Ok(self.to_tester.pop_front().map(|(_, frame)| (self.now, frame)));
            }
            if device == next {
                if let Some((_, frame)) = self.to_device.pop_front() {
                    for frame in (self.broken.incoming)(&mut self.nic, frame) {
                        let answer = self.nic.receive(frame);
                        self.emit(answer);
                    }
                }
            } else {
                self.run_engine();
            }
        }
    }
}

/// The tester waits on virtual time, so waiting costs nothing.
pub(crate) fn patience() -> Patience {
    Patience::default()
}

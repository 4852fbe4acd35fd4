//! Captures: what is written into a file, and what is read from it.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use fabric_model::Time;
use pcap_file::DataLink;
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use tiercel_cli::decode::{Capture, Decoded, Value, decode_frame};
use tiercel_tests::simulation::{Observer, Profile, Scenario, World};

/// The time of a capture's first frame.
const START: Duration = Duration::from_secs(1_700_000_000);
/// The frames of a capture without times are this far apart.
const STEP: Duration = Duration::from_micros(10);

/// A frame of a capture.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    /// Time after the first frame.
    pub(crate) after: Duration,
    /// The bytes that the capture has.
    pub(crate) bytes: Vec<u8>,
    /// Length of the frame on the wire, bytes.
    pub(crate) length: usize,
}

/// A UDP datagram in a frame, for the Wireshark API that the tests imitate.
pub(crate) struct Datagram {
    pub(crate) source: String,
    pub(crate) destination: String,
    pub(crate) payload: Vec<u8>,
}

impl Frame {
    /// Returns a whole frame.
    pub(crate) fn whole(number: usize, bytes: Vec<u8>) -> Self {
        Self { after: STEP * number as u32, length: bytes.len(), bytes }
    }

    /// Returns the datagram of a frame that has one.
    pub(crate) fn datagram(&self) -> Option<Datagram> {
        let decoded = decode_frame(&self.bytes);
        let ip = decoded.layers.iter().find(|layer| layer.name.starts_with("IP"))?;
        let udp = decoded.layers.iter().find(|layer| layer.name == "UDP")?;
        let text = |name| ip.fields.iter().find(|field| field.name == name).map(|field| field.text.clone());
        let length = udp.fields.iter().find(|field| field.name == "length")?;
        let Value::Number(length) = length.value else { return None };
        let payload = self.bytes[udp.offset + udp.length..udp.offset + length as usize].to_vec();
        Some(Datagram { source: text("source")?, destination: text("destination")?, payload })
    }

    /// Returns what the project's own decoder finds.
    pub(crate) fn decoded(&self) -> Decoded {
        decode_frame(&self.bytes)
    }
}

/// Writes a pcapng file with times in nanoseconds. The same frames give the same bytes.
pub(crate) fn write(path: &Path, frames: &[Frame]) -> Result<()> {
    let interface = InterfaceDescriptionBlock {
        linktype: DataLink::ETHERNET,
        snaplen: 0,
        options: vec![InterfaceDescriptionOption::IfTsResol(9)],
    };
    let mut writer = PcapNgWriter::new(Vec::new())?;
    writer.write_pcapng_block(interface)?;
    for frame in frames {
        writer.write_pcapng_block(EnhancedPacketBlock {
            interface_id: 0,
            timestamp: START + frame.after,
            original_len: frame.length as u32,
            data: frame.bytes.as_slice().into(),
            options: Vec::new(),
        })?;
    }
    fs::write(path, writer.into_inner()).with_context(|| format!("cannot write {}", path.display()))
}

/// Reads a capture that [`write()`] has written.
pub(crate) fn read(path: &Path) -> Result<Vec<Frame>> {
    let frames = Capture::open(path)?.map(|frame| {
        let frame = frame?;
        let after = frame.timestamp.context("a time")?.saturating_sub(START);
        Ok(Frame { after, bytes: frame.data, length: frame.original_length as usize })
    });
    frames.collect()
}

/// Captures at the port of host 0.
#[derive(Default)]
struct Tap(Vec<Frame>);

impl Observer for Tap {
    fn at_port(&mut self, now: Time, host: usize, frame: &[u8]) {
        if host == 0 {
            let (after, bytes) = (Duration::from_nanos(now.0 / 1000), frame.to_vec());
            self.0.push(Frame { after, length: bytes.len(), bytes });
        }
    }
}

/// Returns what passes the port of host 0 in a simulated run on a lossy network.
pub(crate) fn simulated(seed: u64) -> Vec<Frame> {
    let mut tap = Tap::default();
    World::new(Scenario::random(seed, Profile::Lossy)).run(&mut tap);
    tap.0
}

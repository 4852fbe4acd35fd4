//! Reads frames from pcap and pcapng files.

use pcap_file::pcap::{PcapReader, RawPcapPacket};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::{Block, PcapNgReader};
use pcap_file::{DataLink, PcapError, TsResolution};
use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// First word of a pcapng file, the same in both byte orders.
const PCAPNG_MAGIC: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
/// First words of pcap files: for microseconds and nanoseconds, in both byte orders.
const PCAP_MAGICS: [u32; 4] = [0xa1b2_c3d4, 0xd4c3_b2a1, 0xa1b2_3c4d, 0x4d3c_b2a1];
/// Default number of decimal places of a pcapng timestamp.
const DEFAULT_TSRESOL: u8 = 6;
const NANOS_PER_SECOND: u128 = 1_000_000_000;

/// A frame of a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapturedFrame {
    /// Position in the file, from 1.
    pub number: u64,
    /// Time of the capture, since 1970. `None` if the file does not have it (a Simple Packet Block).
    pub timestamp: Option<Duration>,
    /// Length of the frame on the wire, bytes. It is larger than `data` if the capture cut the frame.
    pub original_length: u32,
    /// The frame from its Ethernet header on.
    pub data: Vec<u8>,
}

/// Why a capture, or the rest of it, cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The file cannot be opened.
    #[error("cannot open {}: {source}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// Reading failed.
    #[error("cannot read the capture: {0}")]
    Read(#[from] io::Error),
    /// The file is neither pcap nor pcapng.
    #[error("not a capture file: it starts with neither the pcap nor the pcapng signature")]
    Signature,
    /// The frames are not Ethernet frames.
    #[error("the capture's link type is {0:?}; only Ethernet captures can be decoded")]
    LinkType(DataLink),
    /// The file ends within its header, a packet or a block.
    #[error("the capture ends in the middle, after {frames} whole frames")]
    Truncated {
        /// Number of frames read before.
        frames: u64,
    },
    /// The file violates its format.
    #[error("the capture is damaged after {frames} whole frames: {source}")]
    Damaged {
        /// Number of frames read before.
        frames: u64,
        /// The violation.
        source: PcapError,
    },
}

impl CaptureError {
    fn after(frames: u64, source: PcapError) -> Self {
        match source {
            PcapError::IoError(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Self::Truncated { frames }
            }
            PcapError::IoError(error) => Self::Read(error),
            source => Self::Damaged { frames, source },
        }
    }
}

type Source = Box<dyn Read + Send>;

enum Reader {
    Pcap(Box<PcapReader<Source>>),
    PcapNg(Box<PcapNgReader<Source>>),
}

/// The frames of a capture, in the order of the file. The iterator ends after the first error.
pub struct Capture {
    reader: Reader,
    frames: u64,
    failed: bool,
}

impl Capture {
    /// Opens a pcap or pcapng file. The signature determines the format, not the name.
    ///
    /// # Errors
    /// [`CaptureError`].
    pub fn open(path: &Path) -> Result<Self, CaptureError> {
        let file =
            File::open(path).map_err(|source| CaptureError::Open { path: path.to_path_buf(), source })?;
        Self::new(Box::new(file))
    }

    /// Reads a capture from its first byte.
    ///
    /// # Errors
    /// [`CaptureError`].
    pub fn new(mut source: Source) -> Result<Self, CaptureError> {
        let mut magic = [0; 4];
        source.read_exact(&mut magic).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => CaptureError::Signature,
            _ => CaptureError::Read(error),
        })?;
        let whole: Source = Box::new(Cursor::new(magic).chain(source));
        let reader = if magic == PCAPNG_MAGIC {
            let reader = PcapNgReader::new(whole).map_err(|error| CaptureError::after(0, error))?;
            Reader::PcapNg(Box::new(reader))
        } else if PCAP_MAGICS.contains(&u32::from_be_bytes(magic)) {
            let reader = PcapReader::new(whole).map_err(|error| CaptureError::after(0, error))?;
            only_ethernet(reader.header().datalink)?;
            Reader::Pcap(Box::new(reader))
        } else {
            return Err(CaptureError::Signature);
        };
        Ok(Self { reader, frames: 0, failed: false })
    }

    fn next_frame(&mut self) -> Option<Result<CapturedFrame, CaptureError>> {
        let number = self.frames + 1;
        let frame = match &mut self.reader {
            Reader::Pcap(reader) => {
                let resolution = reader.header().ts_resolution;
                // The crate's checked form refuses every frame longer than the snap length, which are the very
                // ones a capture with a snap length has; the raw form leaves that to us.
                reader.next_raw_packet()?.map(|packet| pcap_frame(number, &packet, resolution))
            }
            Reader::PcapNg(reader) => match pcapng_frame(number, reader) {
                Ok(frame) => Ok(frame?),
                Err(PcapNgError::LinkType(error)) => return Some(Err(error)),
                Err(PcapNgError::Format(error)) => Err(error),
            },
        };
        if frame.is_ok() {
            self.frames = number;
        }
        Some(frame.map_err(|error| CaptureError::after(self.frames, error)))
    }
}

impl Iterator for Capture {
    type Item = Result<CapturedFrame, CaptureError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let next = self.next_frame();
        self.failed = matches!(next, Some(Err(_)));
        next
    }
}

fn only_ethernet(link: DataLink) -> Result<(), CaptureError> {
    if link == DataLink::ETHERNET { Ok(()) } else { Err(CaptureError::LinkType(link)) }
}

fn pcap_frame(number: u64, packet: &RawPcapPacket<'_>, resolution: TsResolution) -> CapturedFrame {
    let nanos_per_unit = match resolution {
        TsResolution::MicroSecond => 1_000,
        TsResolution::NanoSecond => 1,
    };
    let fraction = Duration::from_nanos(u64::from(packet.ts_frac) * nanos_per_unit);
    CapturedFrame {
        number,
        timestamp: Some(Duration::from_secs(packet.ts_sec.into()) + fraction),
        original_length: packet.orig_len,
        data: packet.data.to_vec(),
    }
}

enum PcapNgError {
    LinkType(CaptureError),
    Format(PcapError),
}

impl From<PcapError> for PcapNgError {
    fn from(error: PcapError) -> Self {
        Self::Format(error)
    }
}

/// Reads up to the next block with a frame. Other blocks are descriptions.
fn pcapng_frame(
    number: u64,
    reader: &mut PcapNgReader<Source>,
) -> Result<Option<CapturedFrame>, PcapNgError> {
    loop {
        let Some(block) = reader.next_block() else { return Ok(None) };
        let (interface, units, original_length, data) = match block? {
            // The crate returns the raw number of units as nanoseconds, whatever the resolution of the interface
            // is.
            Block::EnhancedPacket(p) => {
                (p.interface_id, Some(p.timestamp.as_nanos()), p.original_len, p.data.to_vec())
            }
            Block::Packet(p) => {
                (u32::from(p.interface_id), Some(u128::from(p.timestamp)), p.original_len, p.data.to_vec())
            }
            Block::SimplePacket(p) => (0, None, p.original_len, p.data.to_vec()),
            _ => continue,
        };
        let description = usize::try_from(interface).ok().and_then(|i| reader.interfaces().get(i));
        let Some(description) = description else {
            return Err(PcapError::InvalidInterfaceId(interface).into());
        };
        only_ethernet(description.linktype).map_err(PcapNgError::LinkType)?;
        let mut data = data;
        if units.is_none() {
            // A Simple Packet Block does not have the length of the frame in its padded body.
            let snap = if description.snaplen == 0 { u32::MAX } else { description.snaplen };
            data.truncate(original_length.min(snap) as usize);
        }
        let timestamp = units.map(|units| since_epoch(units, resolution_of(description)));
        return Ok(Some(CapturedFrame { number, timestamp, original_length, data }));
    }
}

fn resolution_of(description: &InterfaceDescriptionBlock<'_>) -> u8 {
    let option = description.options.iter().find_map(|option| match option {
        InterfaceDescriptionOption::IfTsResol(resolution) => Some(*resolution),
        _ => None,
    });
    option.unwrap_or(DEFAULT_TSRESOL)
}

/// Converts a pcapng timestamp. By if_tsresol, a unit is 10^-n seconds, or 2^-n seconds if the upper bit is set.
fn since_epoch(units: u128, resolution: u8) -> Duration {
    let exponent = u32::from(resolution & 0x7f);
    let nanos = if resolution & 0x80 != 0 {
        (units * NANOS_PER_SECOND) >> exponent
    } else if exponent <= 9 {
        units * 10u128.pow(9 - exponent)
    } else {
        10u128.checked_pow(exponent - 9).map_or(0, |divisor| units / divisor)
    };
    let seconds = u64::try_from(nanos / NANOS_PER_SECOND).unwrap_or(u64::MAX);
    Duration::new(seconds, (nanos % NANOS_PER_SECOND) as u32)
}

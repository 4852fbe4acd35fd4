//! The format of frames on the fabric: Ethernet, IPv4 and UDP headers, then the fields of a segment or a control
//! packet. Switches need the headers to forward the frames and to mark them.
//!
//! [`write()`] writes [`Contents`] into a frame, [`read()`] reads them back, [`mark`] sets the mark for
//! congestion.

use tonic_model::{ControlPacket, FlowId, Kind, Segment};

/// The bytes of the Ethernet, IPv4 and UDP headers.
const HEADERS: usize = 14 + 20 + 8;
/// The bytes of a frame's own fields, after the headers.
const FIELDS: usize = 16;
/// The shortest frame, and the length of control packets: Ethernet's minimum.
pub const MIN_FRAME: usize = 64;

const TOS: usize = 14 + 1;
const CHECKSUM: usize = 14 + 10;
/// The ECN codepoints "ECN-capable transport", ECT(0), and "congestion experienced" (RFC 3168).
const ECT: u8 = 0b10;
const CE: u8 = 0b11;

const DATA: u8 = 0;
const HAS_SELECTIVE: u8 = 0x80;
/// A flag in the byte of the kind: 16 bytes of bitmap follow the fields.
const HAS_BITMAP: u8 = 0x40;
const BITMAP: usize = HEADERS + FIELDS;
const BITMAP_BYTES: usize = 16;

/// The message in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// A segment.
    Data {
        /// The number of the segment.
        segment: u32,
        /// The sender's clock, in the sender's own unit. The receiver echoes it.
        stamp: u32,
    },
    /// A control packet.
    Control(ControlPacket),
}

/// The contents of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contents {
    /// The host that sends the frame.
    pub source: u16,
    /// The host to which the frame goes.
    pub destination: u16,
    /// The flow. Its number is the one at the sender of the flow's segments.
    pub flow: u16,
    /// True if the frame is marked as "congestion experienced".
    pub marked: bool,
    /// The message.
    pub message: Message,
}

/// Returns the Ethernet address of a host.
#[must_use]
pub const fn address(host: u16) -> [u8; 6] {
    let [high, low] = host.to_be_bytes();
    [0x02, 0, 0, 0, high, low]
}

const KINDS: [Kind; 4] = [Kind::Ack, Kind::Nack, Kind::Pull, Kind::Cnp];

/// Computes and sets the checksum of the IPv4 header (RFC 1071).
fn set_checksum(frame: &mut [u8]) {
    frame[CHECKSUM..CHECKSUM + 2].fill(0);
    let words = frame[14..34].chunks_exact(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
    let sum: u32 = words.sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    let checksum = !((sum & 0xffff) + (sum >> 16)) as u16;
    frame[CHECKSUM..CHECKSUM + 2].copy_from_slice(&checksum.to_be_bytes());
}

/// Marks a frame of this format as "congestion experienced".
pub fn mark(frame: &mut [u8]) {
    if frame.len() >= MIN_FRAME {
        frame[TOS] |= CE;
        set_checksum(frame);
    }
}

/// Writes a frame of `length` bytes, but at least [`MIN_FRAME`], into a new or used buffer. The frame is
/// ECN-capable. It is marked if `contents` says so.
pub fn write(buffer: &mut Vec<u8>, contents: &Contents, length: usize) {
    let bitmap = match contents.message {
        Message::Control(packet) if packet.bitmap != [0; 2] => Some(packet.bitmap),
        _ => None,
    };
    let length = length.max(if bitmap.is_some() { BITMAP + BITMAP_BYTES } else { MIN_FRAME });
    buffer.resize(length, 0);
    let frame = &mut buffer[..];
    frame[..6].copy_from_slice(&address(contents.destination));
    frame[6..12].copy_from_slice(&address(contents.source));
    frame[12..14].copy_from_slice(&[0x08, 0x00]);
    let ip = &mut frame[14..34];
    ip.fill(0);
    ip[0] = 0x45;
    ip[1] = if contents.marked { CE } else { ECT };
    ip[2..4].copy_from_slice(&((length - 14) as u16).to_be_bytes());
    ip[8] = 64;
    ip[9] = 17;
    for (place, host) in [(12, contents.source), (16, contents.destination)] {
        let [high, low] = host.to_be_bytes();
        ip[place..place + 4].copy_from_slice(&[10, 0, high, low]);
    }
    set_checksum(frame);
    frame[34..36].copy_from_slice(&contents.flow.to_be_bytes());
    frame[36..38].copy_from_slice(&4791u16.to_be_bytes());
    frame[38..40].copy_from_slice(&((length - 34) as u16).to_be_bytes());
    frame[40..42].fill(0);
    let fields = match contents.message {
        Message::Data { segment, stamp } => [DATA.into(), segment, 0, stamp],
        Message::Control(packet) => {
            let code = KINDS.iter().position(|known| *known == packet.kind).unwrap_or_default() as u8 + 1;
            let flag = if packet.selective.is_some() { HAS_SELECTIVE } else { 0 };
            let flag = if bitmap.is_some() { flag | HAS_BITMAP } else { flag };
            let selective = packet.selective.unwrap_or_default().0;
            [u32::from(code | flag), packet.cumulative.0, selective, packet.data]
        }
    };
    for (place, field) in frame[HEADERS..HEADERS + FIELDS].chunks_exact_mut(4).zip(fields) {
        place.copy_from_slice(&field.to_be_bytes());
    }
    if let Some(words) = bitmap {
        for (place, word) in frame[BITMAP..BITMAP + BITMAP_BYTES].chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_be_bytes());
        }
    }
}

fn read_bitmap(frame: &[u8]) -> Option<[u64; 2]> {
    let bytes = frame.get(BITMAP..BITMAP + BITMAP_BYTES)?;
    let word = |at: usize| u64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    Some([word(0), word(8)])
}

/// Reads a frame. Returns `None` if it does not have this format.
#[must_use]
pub fn read(frame: &[u8]) -> Option<Contents> {
    let fields = frame.get(HEADERS..HEADERS + FIELDS)?;
    let field = |index: usize| {
        let bytes: [u8; 4] = fields[4 * index..4 * index + 4].try_into().expect("four bytes");
        u32::from_be_bytes(bytes)
    };
    let host = |place: usize| u16::from_be_bytes([frame[place], frame[place + 1]]);
    let flow = u16::from_be_bytes([frame[34], frame[35]]);
    let code = field(0) as u8;
    let message = if code == DATA {
        Message::Data { segment: field(1), stamp: field(3) }
    } else {
        let bitmap = if code & HAS_BITMAP == 0 { [0; 2] } else { read_bitmap(frame)? };
        Message::Control(ControlPacket {
            bitmap,
            flow: FlowId(flow),
            kind: *KINDS.get(usize::from(code & !(HAS_SELECTIVE | HAS_BITMAP)).checked_sub(1)?)?,
            cumulative: Segment(field(1)),
            selective: (code & HAS_SELECTIVE != 0).then_some(Segment(field(2))),
            data: field(3),
        })
    };
    let marked = frame[TOS] & CE == CE;
    Some(Contents { source: host(10), destination: host(4), flow, marked, message })
}

//! Writes the packets of checks as pcapng.

use std::io::{self, Write};
use std::time::{Duration, SystemTime};

use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::{DataLink, PcapError};

use crate::run::Checked;

/// Writes the frames of the checks. Each has a comment with the clause. `wall_clock` is the time of day at
/// the zero of the tester's clock.
///
/// # Errors
/// If `out` does not take the bytes.
pub fn capture(out: impl Write, checked: &[Checked], wall_clock: SystemTime) -> io::Result<()> {
    let begin = wall_clock.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let wrong = |error: PcapError| match error {
        PcapError::IoError(error) => error,
        error => io::Error::other(error),
    };
    let mut writer = PcapNgWriter::new(out).map_err(wrong)?;
    let interface = InterfaceDescriptionBlock {
        linktype: DataLink::ETHERNET,
        snaplen: 0,
        options: vec![InterfaceDescriptionOption::IfTsResol(9)],
    };
    writer.write_pcapng_block(interface).map_err(wrong)?;
    for check in checked {
        for frame in &check.frames {
            let who = if frame.sent { "tester" } else { "peer" };
            let note = frame.note.map_or(String::new(), |note| format!(" ({note})"));
            let comment = format!("{} of the {}: {who}{note}", check.clause, check.role);
            let block = EnhancedPacketBlock {
                interface_id: 0,
                timestamp: begin + Duration::from_nanos(frame.at.as_nanos()),
                original_len: frame.frame.len() as u32,
                data: frame.frame.as_slice().into(),
                options: vec![EnhancedPacketOption::Comment(comment.into())],
            };
            writer.write_pcapng_block(block).map_err(wrong)?;
        }
    }
    writer.into_inner().flush()
}

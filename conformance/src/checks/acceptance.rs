//! Packets that the peer has to discard (sections 6.5 and 9.2.2).

use transport_common::ids::Spi;
use transport_common::units::{PicosecondSpan, Picoseconds};
use transport_common::wire::psp::Psp;

use crate::check::Check;
use crate::draft::Draft;
use crate::session::Session;
use crate::verdict::{Outcome, judge};

/// An IV that is this much older is beyond any sensible margin of replay protection.
const LONG_AGO: PicosecondSpan = PicosecondSpan::from_nanos(600_000_000_000);
/// An IV that is this much older is within every sensible margin.
const JUST_NOW: PicosecondSpan = PicosecondSpan::from_nanos(50_000);

pub(super) const CHECKS: &[Check] = &[
    Check::new("F-9.2.2.1-1", "malformed packets and wrong checksums are discarded", malformed),
    Check::new("F-9.2.2.1-2", "a UDP length that disagrees with the bytes is discarded", udp_length),
    Check::new("F-9.2.2-1", "a packet for another destination function is discarded", function),
    Check::new("F-6.5-4", "a packet with a wrong SPI is discarded", wrong_spi),
    Check::new("F-9.2.2.3-2", "a packet with a wrong SPI draws neither ACK nor NACK", silence_for_wrong_spi),
    Check::new("F-9.2.2.3-8", "a packet with SPI 0 is discarded", spi_zero),
    Check::new("F-9.2.2.2-1", "a packet with an IV of long ago is discarded", old_iv),
    Check::new(
        "F-9.2.2.2-2",
        "a packet with an IV of long ago draws neither ACK nor NACK",
        silence_for_old_iv,
    ),
    Check::new("F-6.5-6", "a packet with a slightly older IV is accepted", slightly_older_iv),
    Check::new("F-11-18", "a packet for an unknown CID draws nothing", unknown_cid),
];

/// Sends a WRITE as `invalid` changes it. The peer must stay silent and take another WRITE with the same PSN
/// instead.
fn discarded(
    s: &mut Session<'_>,
    what: &str,
    invalid: impl FnOnce(&mut Session<'_>, &Draft) -> Outcome,
) -> Outcome {
    let bad = s.write(0, &[0xee; 8]);
    s.forget()?;
    invalid(s, &bad)?;
    s.silence(&format!("no answer to {what}"), |_| true)?;
    let (rkey, cid) = (s.subject.rkey, s.subject.peer_cid.0);
    let good = Draft { psn: bad.psn, rsn: bad.rsn, ..Draft::write(rkey, 0, &[0x11; 8], cid) };
    s.deliver(&good)?;
    let found = s.fetch(0, 8)?;
    judge(found == [0x11; 8], format!("a region without the data of {what}"), format!("{found:x?}"))
}

/// Changes bytes of the Falcon header.
fn changed(s: &mut Session<'_>, what: &'static str, change: fn(&mut Vec<u8>)) -> Outcome {
    discarded(s, what, |s, draft| {
        let mut falcon = draft.bytes(s.base());
        change(&mut falcon);
        s.send_falcon(&falcon, Some(what)).map(drop)
    })
}

fn malformed(s: &mut Session<'_>) -> Outcome {
    changed(s, "version 2", |falcon| falcon[0] = falcon[0] & 0xf | 2 << 4)?;
    changed(s, "the reserved packet type 7", |falcon| falcon[7] = falcon[7] & !0x1e | 7 << 1)?;
    changed(s, "a header of 20 bytes", |falcon| falcon.truncate(20))?;
    discarded(s, "a wrong UDP checksum", |s, draft| {
        let (psp, falcon) = (s.psp(), draft.bytes(s.base()));
        let flow = s.subject.flow;
        let mut frame = flow.frame(&psp, &falcon);
        let checksum = flow.udp_offset() + 6;
        // It must not become 0, which means that there is no checksum.
        frame[checksum] ^= if frame[checksum] == 0x55 { 0xaa } else { 0x55 };
        s.send_frame(frame, Some("a wrong UDP checksum"))
    })
}

fn udp_length(s: &mut Session<'_>) -> Outcome {
    for (by, what) in
        [(4u16, "a UDP length that is too large"), (4u16.wrapping_neg(), "a UDP length that is too small")]
    {
        discarded(s, what, |s, draft| {
            let (psp, falcon) = (s.psp(), draft.bytes(s.base()));
            let flow = s.subject.flow;
            let mut frame = flow.frame(&psp, &falcon);
            let at = flow.udp_offset() + 4;
            let length = u16::from_be_bytes([frame[at], frame[at + 1]]).wrapping_add(by);
            frame[at..at + 2].copy_from_slice(&length.to_be_bytes());
            s.send_frame(frame, Some(what))
        })?;
    }
    Ok(())
}

fn function(s: &mut Session<'_>) -> Outcome {
    changed(s, "another destination function", |falcon| falcon[6] ^= 0x80)
}

/// Sends the packet with this SPI.
fn with_spi(s: &mut Session<'_>, draft: &Draft, spi: Spi) -> Outcome {
    let psp = Psp { spi, ..s.psp() };
    let falcon = draft.bytes(s.base());
    s.send_psp(&psp, &falcon, Some("a wrong SPI")).map(drop)
}

/// Returns an SPI that the connection does not have.
fn other_spi(s: &Session<'_>) -> Spi {
    Spi(s.subject.tx_spi.0 ^ 0x0055_0000)
}

fn wrong_spi(s: &mut Session<'_>) -> Outcome {
    discarded(s, "a packet with a wrong SPI", |s, draft| with_spi(s, draft, other_spi(s)))
}

fn spi_zero(s: &mut Session<'_>) -> Outcome {
    discarded(s, "a packet with SPI 0", |s, draft| with_spi(s, draft, Spi(0)))
}

/// Delivers a WRITE and sends it again as `invalid` does. A valid copy would draw an ACK (F-11-13).
fn unanswered(
    s: &mut Session<'_>,
    what: &str,
    invalid: impl FnOnce(&mut Session<'_>, &Draft) -> Outcome,
) -> Outcome {
    let write = s.write(0, &[1; 8]);
    s.deliver(&write)?;
    s.settle()?;
    s.forget()?;
    invalid(s, &write)?;
    s.silence(&format!("no answer to {what}"), |_| true)
}

fn silence_for_wrong_spi(s: &mut Session<'_>) -> Outcome {
    unanswered(s, "a packet with a wrong SPI", |s, draft| with_spi(s, draft, other_spi(s)))
}

/// Sends the packet with an IV that is this much older than now.
fn with_iv(s: &mut Session<'_>, draft: &Draft, older: PicosecondSpan, note: &'static str) -> Outcome {
    let psp = s.psp();
    let psp = Psp { iv: Picoseconds(psp.iv.0.wrapping_sub(older.0)), ..psp };
    let falcon = draft.bytes(s.base());
    s.send_psp(&psp, &falcon, Some(note)).map(drop)
}

fn old_iv(s: &mut Session<'_>) -> Outcome {
    discarded(s, "a packet with an IV of ten minutes ago", |s, draft| {
        with_iv(s, draft, LONG_AGO, "an old IV")
    })
}

fn silence_for_old_iv(s: &mut Session<'_>) -> Outcome {
    unanswered(s, "a packet with an IV of ten minutes ago", |s, draft| {
        with_iv(s, draft, LONG_AGO, "an old IV")
    })
}

fn slightly_older_iv(s: &mut Session<'_>) -> Outcome {
    s.store(0, &[1; 8])?;
    let write = s.write(0, &[2; 8]);
    with_iv(s, &write, JUST_NOW, "an IV 50 us before the last one")?;
    s.acknowledged(&write).map(drop)
}

fn unknown_cid(s: &mut Session<'_>) -> Outcome {
    unanswered(s, "a packet for another CID", |s, draft| {
        let mut falcon = draft.bytes(s.base());
        falcon[3] ^= 0x40;
        s.send_falcon(&falcon, Some("an unknown CID")).map(drop)
    })
}

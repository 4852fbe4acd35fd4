//! Timeouts and acknowledgements that the peer receives (sections 9, 9.2.3 and 9.2.4).

use transport_common::ids::Spi;
use transport_common::units::PicosecondSpan;
use transport_common::wire::ack::AckHeader;
use transport_common::wire::nack::{NackCode, RNR_TIMEOUT_NANOS};
use transport_common::wire::psp::Psp;
use transport_common::wire::resync::ResyncCode;

use super::answers::{copy, is_copy, no_copies, open, psn, timeout};
use crate::check::Check;
use crate::flow::encoded;
use crate::session::Session;
use crate::verdict::{Outcome, Stop, judge};

pub(super) const CHECKS: &[Check] = &[
    Check::new("F-9-7", "a packet that is not acknowledged is sent again and again", copies),
    Check::new("F-9-6", "a copy has the payload of the original", same_payload),
    Check::new("F-11-4", "a copy has CID, type, PSN and RSN of the original", same_header),
    Check::new("F-9.2.3-2", "an acknowledged packet is not sent again", acknowledged),
    Check::new("F-9.2.3-6", "a packet that an EACK acknowledges is not sent again", selective),
    Check::new("F-9.1.1-1", "the base passes packets that an EACK acknowledged before", base_passes),
    Check::new("D-19", "an ACK of packets that were never sent is ignored", unsent),
    Check::new("F-9.2.2.3-1", "an ACK with a wrong SPI is ignored", ack_with_wrong_spi),
    Check::new("F-11-12", "the piggyback of a packet with a wrong SPI is ignored", piggyback_with_wrong_spi),
    Check::new("F-7.7.2-6", "an ACK whose reserved bits are set counts", reserved_bits),
    Check::new("F-9.2.4-1", "a NACK with an old base is discarded", stale_nack),
    Check::new("F-9.2.4-2", "the bases of a NACK acknowledge", nack_acknowledges),
    Check::new("F-9.2.4-3", "a packet with NACK code 1 is sent again by timeout", resource_nack),
    Check::new("F-11-8", "a packet with NACK code 2 waits for the RNR timeout", rnr_nack),
    Check::new("F-9.2.4-5", "a packet with NACK code 4 becomes a Resync with code 5", xlr_nack),
];

fn copies(s: &mut Session<'_>) -> Outcome {
    let psn = psn(&open(s, 1)?[0]);
    copy(s, psn)?;
    copy(s, psn)?;
    s.acknowledge()
}

fn same_payload(s: &mut Session<'_>) -> Outcome {
    let answers = open(s, 1)?;
    let again = copy(s, psn(&answers[0]))?;
    let (found, expected) = (again.payload(), answers[0].payload());
    judge(found == expected, format!("{expected:x?}"), format!("{found:x?}"))?;
    s.acknowledge()
}

fn same_header(s: &mut Session<'_>) -> Outcome {
    let answers = open(s, 1)?;
    let again = copy(s, psn(&answers[0]))?;
    // Without AR and the piggyback, which may differ (F-9-6).
    let [expected, found] = [&answers[0], &again]
        .map(|packet| [packet.word(0), packet.word(1) & !1, packet.word(4), packet.word(5)]);
    judge(found == expected, format!("words 0, 1, 4, 5: {expected:x?}"), format!("{found:x?}"))?;
    s.acknowledge()
}

fn acknowledged(s: &mut Session<'_>) -> Outcome {
    let timeout = timeout(s)?;
    let answers = open(s, 2)?;
    s.acknowledge()?;
    no_copies(s, timeout, &[psn(&answers[0]), psn(&answers[1])])
}

fn selective(s: &mut Session<'_>) -> Outcome {
    let timeout = timeout(s)?;
    let answers = open(s, 3)?;
    let eack = s.eack_of(psn(&answers[0]), 0b110, 0b110);
    s.send_eack(&eack, None)?;
    copy(s, psn(&answers[0]))?;
    no_copies(s, timeout, &[psn(&answers[1]), psn(&answers[2])])?;
    s.acknowledge()
}

fn base_passes(s: &mut Session<'_>) -> Outcome {
    let timeout = timeout(s)?;
    let answers = open(s, 4)?;
    let psns: Vec<_> = answers.iter().map(psn).collect();
    let eack = s.eack_of(psns[0], 0b110, 0b110);
    s.send_eack(&eack, None)?;
    let back = s.ack_of(psns[1]);
    s.send_back(&back, Some("only the first is acknowledged by the base"))?;
    copy(s, psns[3])?;
    no_copies(s, timeout, &psns[..3])?;
    s.acknowledge()
}

fn unsent(s: &mut Session<'_>) -> Outcome {
    let psn = psn(&open(s, 1)?[0]);
    let back = s.ack_of(psn.add(5));
    s.send_back(&back, Some("acknowledges packets that were never sent"))?;
    copy(s, psn)?;
    s.acknowledge()?;
    let next = s.seen_data();
    let read = s.read(0, 8).quiet();
    s.send(&read)?;
    let found = s.answer(&read)?.data_psn();
    judge(found == Some(next), format!("PSN {} in the next Pull Data", next.0), format!("{found:?}"))
}

/// Returns a PSP header with an SPI that the connection does not have.
fn wrong_spi(s: &mut Session<'_>) -> Psp {
    let psp = s.psp();
    Psp { spi: Spi(psp.spi.0 ^ 0x0055_0000), ..psp }
}

fn ack_with_wrong_spi(s: &mut Session<'_>) -> Outcome {
    let psn = psn(&open(s, 1)?[0]);
    let psp = wrong_spi(s);
    let back = s.ack_of(psn.add(1));
    let back = encoded::<{ AckHeader::LEN }>(|out| back.encode(out));
    s.send_psp(&psp, &back, Some("a wrong SPI"))?;
    copy(s, psn)?;
    s.acknowledge()
}

fn piggyback_with_wrong_spi(s: &mut Session<'_>) -> Outcome {
    let write = s.write(0, &[1; 8]);
    s.deliver(&write)?;
    let psn = psn(&open(s, 1)?[0]);
    let psp = wrong_spi(s);
    let base = transport_common::wire::base::BaseHeader { data_base_psn: psn.add(1), ..s.base() };
    s.send_psp(&psp, &write.bytes(base), Some("a wrong SPI"))?;
    copy(s, psn)?;
    s.acknowledge()
}

fn reserved_bits(s: &mut Session<'_>) -> Outcome {
    let timeout = timeout(s)?;
    let psn = psn(&open(s, 1)?[0]);
    let back = s.back();
    let mut bytes = encoded::<{ AckHeader::LEN }>(|out| back.encode(out));
    for (at, bits) in
        [(0, 0x0f), (4, 0xff), (5, 0xff), (6, 0xff), (7, 0xe1), (26, 0x01), (27, 0xff), (28, 0xff)]
    {
        bytes[at] |= bits;
    }
    s.send_falcon(&bytes, Some("all reserved bits are set"))?;
    no_copies(s, timeout, &[psn])
}

fn stale_nack(s: &mut Session<'_>) -> Outcome {
    let timeout = timeout(s)?;
    let answers = open(s, 2)?;
    let psns: Vec<_> = answers.iter().map(psn).collect();
    let mut nack = s.nack_of(psns[1], NackCode::XLR_DROP);
    let back = s.ack_of(psns[1]);
    s.send_back(&back, None)?;
    nack.data_base_psn = psns[0];
    s.send_nack(&nack, Some("its base is old"))?;
    s.silence_for(PicosecondSpan(timeout.0 / 2), "no Resync", |received| received.resync().is_some())?;
    s.acknowledge()
}

fn nack_acknowledges(s: &mut Session<'_>) -> Outcome {
    let timeout = timeout(s)?;
    let answers = open(s, 2)?;
    let psns: Vec<_> = answers.iter().map(psn).collect();
    let mut nack = s.nack_of(psns[1], NackCode::INSUFFICIENT_RESOURCES);
    nack.data_base_psn = psns[1];
    s.send_nack(&nack, None)?;
    copy(s, psns[1])?;
    no_copies(s, timeout, &psns[..1])?;
    s.acknowledge()
}

fn resource_nack(s: &mut Session<'_>) -> Outcome {
    let psn = psn(&open(s, 1)?[0]);
    let nack = s.nack_of(psn, NackCode::INSUFFICIENT_RESOURCES);
    s.send_nack(&nack, None)?;
    let again = s.expect("a packet with the refused PSN", |received| is_copy(received, psn))?;
    judge(again.pull_data().is_some(), "the Pull Data and no Resync", again.text())?;
    s.acknowledge()
}

fn rnr_nack(s: &mut Session<'_>) -> Outcome {
    let timeout = timeout(s)?;
    let answers = open(s, 1)?;
    let psn = psn(&answers[0]);
    let delay = |code: usize| PicosecondSpan::from_nanos(RNR_TIMEOUT_NANOS[code]);
    let Some(code) = (1..RNR_TIMEOUT_NANOS.len()).find(|code| delay(*code).0 > timeout.0 * 3 / 2) else {
        s.acknowledge()?;
        return Err(Stop::Skip(
            "the peer's retransmission timeout is longer than every RNR timeout".to_owned(),
        ));
    };
    let nack =
        transport_common::wire::nack::Nack { rnr_timeout_code: code as u8, ..s.nack_of(psn, NackCode::RNR) };
    let from = s.now();
    s.send_nack(&nack, None)?;
    let again = copy(s, psn)?;
    let (waited, least) = (again.at.since(from).as_nanos() / 1000, delay(code).as_nanos() / 1000);
    // Timers of the peer may be one tick and 0.1 % short.
    let slack = 1 + least / 1000;
    judge(waited + slack >= least, format!("a copy after {least} us"), format!("a copy after {waited} us"))?;
    s.acknowledge()
}

fn xlr_nack(s: &mut Session<'_>) -> Outcome {
    let psn = psn(&open(s, 1)?[0]);
    let nack = s.nack_of(psn, NackCode::XLR_DROP);
    s.send_nack(&nack, None)?;
    let again = s.expect("a packet with the refused PSN", |received| is_copy(received, psn))?;
    let code = again.resync().map(|resync| resync.code);
    judge(code == Some(ResyncCode::REMOTE_XLR), "a Resync with code 5", again.text())?;
    s.acknowledge()
}

//! What the peer does with acknowledgements of its requests (sections 7.7, 9.1.1 and 9.2.3).

use transport_common::ids::Spi;
use transport_common::wire::ack::AckHeader;
use transport_common::wire::base::BaseHeader;
use transport_common::wire::psp::Psp;

use super::requests::{Read, Write, copy, no_copies, open, request, timeout, true_copy};
use crate::check::Check;
use crate::flow::encoded;
use crate::session::Session;
use crate::verdict::{Outcome, judge};

pub(super) const CHECKS: &[Check] = &[
    Check::new("F-9.2.3-2", "acknowledged requests are not sent again", acknowledged),
    Check::new("F-9.2.3-6", "a push that an EACK acknowledges is not sent again", push_by_eack),
    Check::new("F-9.2.3-5", "a Pull Request that an EACK acknowledges is not sent again", pull_by_eack),
    Check::new("F-9.1.1-1", "the base passes pushes that an EACK acknowledged before", base_passes),
    Check::new("D-19", "an ACK of pushes that were never sent is ignored", unsent),
    Check::new("D-34", "an EACK that says only received does not acknowledge a push", only_received),
    Check::new("F-9.2.3-1", "an ACK with an old base of one window is discarded for both", stale),
    Check::new("D-35", "of a WRITE with an old base only the acknowledgement is ignored", stale_piggyback),
    Check::new("F-9.2.2.3-1", "an ACK with a wrong SPI is ignored", wrong_spi),
    Check::new("F-11-12", "the bases of a WRITE with a wrong SPI are ignored", piggyback_with_wrong_spi),
    Check::new("F-7.7.2-6", "an ACK whose reserved bits are set counts", reserved_bits),
];

fn acknowledged(s: &mut Session<'_>) -> Outcome {
    let timeout = timeout(s)?;
    let requests = open(s, &[Write, Read, Write])?;
    s.acknowledge()?;
    no_copies(s, timeout, &requests.iter().collect::<Vec<_>>())
}

fn push_by_eack(s: &mut Session<'_>) -> Outcome {
    let timeout = timeout(s)?;
    let pushes = open(s, &[Write; 3])?;
    let eack = s.eack_of(pushes[0].psn(), 0b110, 0b110);
    s.send_eack(&eack, None)?;
    copy(s, &pushes[0])?;
    no_copies(s, timeout, &[&pushes[1], &pushes[2]])
}

fn pull_by_eack(s: &mut Session<'_>) -> Outcome {
    let timeout = timeout(s)?;
    let pulls = open(s, &[Read; 3])?;
    let (data, _) = s.bases();
    let mut eack = s.eack_of(data, 0, 0);
    eack.request = 0b110;
    s.send_eack(&eack, None)?;
    copy(s, &pulls[0])?;
    no_copies(s, timeout, &[&pulls[1], &pulls[2]])
}

fn base_passes(s: &mut Session<'_>) -> Outcome {
    let timeout = timeout(s)?;
    let pushes = open(s, &[Write; 4])?;
    let eack = s.eack_of(pushes[0].psn(), 0b110, 0b110);
    s.send_eack(&eack, None)?;
    let back = s.ack_of(pushes[1].psn());
    s.send_back(&back, Some("only the first is acknowledged by the base"))?;
    copy(s, &pushes[3])?;
    no_copies(s, timeout, &[&pushes[0], &pushes[1], &pushes[2]])
}

fn unsent(s: &mut Session<'_>) -> Outcome {
    let push = request(s, Write)?;
    let back = s.ack_of(push.psn().add(5));
    s.send_back(&back, Some("acknowledges packets that were never sent"))?;
    copy(s, &push)?;
    s.acknowledge()?;
    let (found, expected) = (request(s, Write)?.psn(), push.psn().add(1));
    judge(found == expected, format!("PSN {} in the next push", expected.0), found.0)
}

fn only_received(s: &mut Session<'_>) -> Outcome {
    let pushes = open(s, &[Write; 2])?;
    let eack = s.eack_of(pushes[0].psn(), 0, 0b10);
    s.send_eack(&eack, Some("the second is received, and not acknowledged"))?;
    true_copy(s, &pushes[1]).map(drop)
}

/// Leaves a Pull Request open after an acknowledged push. Returns a BACK that acknowledges it, with a base of
/// the data window from before the push.
fn stale_back(s: &mut Session<'_>) -> Outcome<(AckHeader, super::requests::Request)> {
    let push = request(s, Write)?;
    s.acknowledge()?;
    let pull = request(s, Read)?;
    let back = AckHeader { request_base_psn: pull.psn().add(1), ..s.ack_of(push.psn()) };
    Ok((back, pull))
}

fn stale(s: &mut Session<'_>) -> Outcome {
    let (back, pull) = stale_back(s)?;
    s.send_back(&back, Some("its base of the data window is old"))?;
    copy(s, &pull).map(drop)
}

fn stale_piggyback(s: &mut Session<'_>) -> Outcome {
    let (back, pull) = stale_back(s)?;
    let write = s.write(0, &[1; 8]);
    let base =
        BaseHeader { data_base_psn: back.data_base_psn, request_base_psn: back.request_base_psn, ..s.base() };
    s.send_falcon(&write.bytes(base), Some("its base of the data window is old"))?;
    s.acknowledged(&write)?;
    copy(s, &pull).map(drop)
}

/// Returns a PSP header with an SPI that the connection does not have.
fn foreign(s: &mut Session<'_>) -> Psp {
    let psp = s.psp();
    Psp { spi: Spi(psp.spi.0 ^ 0x0055_0000), ..psp }
}

fn wrong_spi(s: &mut Session<'_>) -> Outcome {
    let push = request(s, Write)?;
    let psp = foreign(s);
    let back = s.ack_of(push.psn().add(1));
    let back = encoded::<{ AckHeader::LEN }>(|out| back.encode(out));
    s.send_psp(&psp, &back, Some("a wrong SPI"))?;
    copy(s, &push).map(drop)
}

fn piggyback_with_wrong_spi(s: &mut Session<'_>) -> Outcome {
    let write = s.write(0, &[1; 8]);
    s.deliver(&write)?;
    let push = request(s, Write)?;
    let psp = foreign(s);
    let base = BaseHeader { data_base_psn: push.psn().add(1), ..s.base() };
    s.send_psp(&psp, &write.bytes(base), Some("a wrong SPI"))?;
    copy(s, &push).map(drop)
}

fn reserved_bits(s: &mut Session<'_>) -> Outcome {
    let timeout = timeout(s)?;
    let requests = open(s, &[Write, Read])?;
    let back = s.back();
    let mut bytes = encoded::<{ AckHeader::LEN }>(|out| back.encode(out));
    for (at, bits) in
        [(0, 0x0f), (4, 0xff), (5, 0xff), (6, 0xff), (7, 0xe1), (26, 0x01), (27, 0xff), (28, 0xff)]
    {
        bytes[at] |= bits;
    }
    s.send_falcon(&bytes, Some("all reserved bits are set"))?;
    no_copies(s, timeout, &[&requests[0], &requests[1]])
}

//! Finds out why a driver refuses an XDP program, in the kernel's words.
//!
//! An XDP link returns only an error number. A netlink request to attach the same program also returns a text
//! (`extack`).

use std::os::fd::{AsRawFd, BorrowedFd};

use netlink_packet_core::{NLM_F_ACK, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{LinkAttribute, LinkMessage, LinkXdp};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};

// From linux/netlink.h and linux/if_link.h.
const NLMSG_ERROR: u16 = 2;
const NLM_F_CAPPED: u16 = 0x100;
const NLM_F_ACK_TLVS: u16 = 0x200;
const NLMSGERR_ATTR_MSG: u16 = 1;
const XDP_FLAGS_UPDATE_IF_NOEXIST: u32 = 1;
/// Bytes of `struct nlmsghdr`.
const HEADER: usize = 16;
/// Bytes of the error number, which follows the header.
const CODE: usize = 4;

/// Asks the kernel again to attach `program` to the interface with `index`, in the calling thread's network
/// namespace. Returns the reason if it refuses. If it accepts this time, the program is detached again.
pub(crate) fn xdp_refusal(index: u32, program: BorrowedFd<'_>, mode: u32) -> Option<String> {
    let flags = mode | XDP_FLAGS_UPDATE_IF_NOEXIST;
    let answer = ask(index, vec![LinkXdp::Fd(program.as_raw_fd()), LinkXdp::Flags(flags)])?;
    if code(&answer) == Some(0) {
        ask(index, vec![LinkXdp::Fd(-1), LinkXdp::Flags(mode)]);
        return None;
    }
    words(&answer)
}

fn ask(index: u32, xdp: Vec<LinkXdp>) -> Option<Vec<u8>> {
    let mut socket = Socket::new(NETLINK_ROUTE).ok()?;
    socket.bind_auto().ok()?;
    socket.connect(&SocketAddr::new(0, 0)).ok()?;
    socket.set_ext_ack(true).ok()?;
    let mut message = LinkMessage::default();
    message.header.index = index;
    message.attributes.push(LinkAttribute::Xdp(xdp));
    let payload = NetlinkPayload::InnerMessage(RouteNetlinkMessage::SetLink(message));
    let mut packet = NetlinkMessage::new(NetlinkHeader::default(), payload);
    packet.header.flags = NLM_F_REQUEST | NLM_F_ACK;
    packet.finalize();
    let mut bytes = vec![0; packet.buffer_len()];
    packet.serialize(&mut bytes);
    socket.send(&bytes, 0).ok()?;
    socket.recv_from_full().ok().map(|(answer, _)| answer)
}

fn short(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Returns the error number in an answer. It is negative; 0 means no error.
fn code(answer: &[u8]) -> Option<i32> {
    (short(answer, 4)? == NLMSG_ERROR).then(|| word(answer, HEADER).map(u32::cast_signed)).flatten()
}

/// Returns the text of an answer that is an error.
pub(crate) fn words(answer: &[u8]) -> Option<String> {
    let flags = short(answer, 6)?;
    if code(answer)? == 0 || flags & NLM_F_ACK_TLVS == 0 {
        return None;
    }
    // The answer repeats the whole request, or its header only.
    let request = HEADER + CODE;
    let repeated = if flags & NLM_F_CAPPED != 0 { HEADER } else { word(answer, request)? as usize };
    let mut rest = answer.get(request + repeated.next_multiple_of(4)..)?;
    loop {
        let (length, kind) = (usize::from(short(rest, 0)?), short(rest, 2)?);
        let value = rest.get(4..length)?;
        if kind == NLMSGERR_ATTR_MSG {
            let text = value.split(|byte| *byte == 0).next()?;
            return Some(String::from_utf8_lossy(text).trim_end_matches('.').to_owned());
        }
        rest = rest.get(length.next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(flags: u16, code: i32, repeated: u32, attributes: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; HEADER];
        bytes[4..6].copy_from_slice(&NLMSG_ERROR.to_ne_bytes());
        bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
        bytes.extend(code.to_ne_bytes());
        bytes.extend(repeated.to_ne_bytes());
        bytes.resize(bytes.len() + repeated.max(HEADER as u32) as usize - 4, 0);
        bytes.extend(attributes);
        bytes
    }

    /// Returns an attribute of another kind, followed by the text.
    fn attributes() -> Vec<u8> {
        let mut bytes = vec![8, 0, 2, 0, 1, 2, 3, 4];
        bytes.extend([4 + 4, 0, 1, 0]);
        bytes.extend(b"no.\0");
        bytes
    }

    #[test]
    fn the_text_stands_behind_the_request() {
        let whole = answer(NLM_F_ACK_TLVS, -95, 40, &attributes());
        assert_eq!(words(&whole).as_deref(), Some("no"));
        let capped = answer(NLM_F_ACK_TLVS | NLM_F_CAPPED, -95, 40, &[]);
        let mut capped = capped[..HEADER + CODE + HEADER].to_vec();
        capped.extend(attributes());
        assert_eq!(words(&capped).as_deref(), Some("no"));
    }

    #[test]
    fn an_answer_without_a_text_says_nothing() {
        assert_eq!(words(&answer(0, -95, 40, &[])), None);
        assert_eq!(words(&answer(NLM_F_ACK_TLVS, 0, 40, &attributes())), None);
        assert_eq!(words(&[0; 7]), None);
        for cut in 0..60 {
            let whole = answer(NLM_F_ACK_TLVS, -95, 40, &attributes());
            words(&whole[..cut]);
        }
    }
}

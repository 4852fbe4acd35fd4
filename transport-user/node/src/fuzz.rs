//! Passes arbitrary bytes through every parser of the node and of the library, for the fuzz targets in `fuzz/` and the replay of their
//! inputs in `tests/tests/fuzz_corpus.rs`. A broken property panics. Each function returns
//! how many things it read, so that the replay can tell whether an input reaches beyond the refusals. Not part of the
//! crate's interface.

use futures_util::FutureExt;
use netlink_packet_route::RouteNetlinkMessage;
use tiercel::control::{Envelope, Reply, VERSION, read_line};
use tiercel::{Mac, quantity};

use crate::config::NodeFile;
use crate::connection_manager::message;
use crate::control::server;
use crate::node::interface::netlink::{requests, xdp_refusal};

/// A node file. A file with a mistake has complaints, each with a text.
pub fn node_file(bytes: &[u8]) -> usize {
    let Ok(text) = std::str::from_utf8(bytes) else { return 0 };
    match NodeFile::parse(text) {
        Ok(file) => 1 + file.connections.len() + file.profiles.len(),
        Err(complaints) => {
            assert!(!complaints.is_empty(), "a refused file has a complaint");
            complaints.iter().for_each(|complaint| assert!(!complaint.to_string().is_empty()));
            0
        }
    }
}

/// What a client and a node send each other on the control socket, line by line. A request that was read is read again
/// from what it is written as.
pub fn control(bytes: &[u8]) -> usize {
    let (mut stream, mut count) = (bytes, 0);
    while let Some(Ok(Some(line))) = read_line(&mut stream).now_or_never() {
        assert!(!line.contains(&b'\n'));
        if let Ok(request) = server::parse(&line) {
            count += 1;
            let again = serde_json::to_vec(&Envelope { version: VERSION, request: request.clone() });
            let again = server::parse(&again.expect("a request can be written"));
            assert_eq!(again.expect("a written request can be read"), request);
        }
        if let Ok(reply) = serde_json::from_slice::<Reply>(&line) {
            count += 1;
            let again = serde_json::to_vec(&reply).expect("a reply can be written");
            assert_eq!(serde_json::from_slice::<Reply>(&again).expect("a written reply can be read"), reply);
        }
    }
    count
}

/// What the connection managers of two nodes send each other.
pub fn connection_manager(bytes: &[u8]) -> usize {
    let (mut stream, mut count) = (bytes, 0);
    while let Some(Ok(frame)) = message::read_frame(&mut stream).now_or_never() {
        count += manager_message(&frame);
    }
    // Most inputs have no length that fits.
    count + manager_message(bytes)
}

fn manager_message(bytes: &[u8]) -> usize {
    match message::decode(bytes) {
        Ok(read) => {
            let Ok(frame) = message::encode(&read) else { return 1 };
            assert_eq!(message::decode(&frame[4..]).expect("a written message can be read"), read);
            1
        }
        Err(error) => {
            let text = error.to_string();
            assert!(!text.chars().any(char::is_control), "a peer's bytes reach a terminal: {text:?}");
            0
        }
    }
}

/// What the kernel sends on a netlink socket.
pub fn netlink(bytes: &[u8]) -> usize {
    let read = |sequence| requests::read_datagram::<RouteNetlinkMessage>(bytes, sequence);
    let messages: usize = [0, 1].map(read).into_iter().flatten().map(|messages| messages.len()).sum();
    messages + usize::from(xdp_refusal::words(bytes).is_some())
}

/// Numbers with units, and MAC addresses. A duration and a MAC address that were read are read again from their text.
pub fn quantities(bytes: &[u8]) -> usize {
    let Ok(text) = std::str::from_utf8(bytes) else { return 0 };
    let mut count = 0;
    for text in text.lines() {
        if let Ok(duration) = quantity::parse_duration(text) {
            count += 1;
            let again = quantity::parse_duration(&quantity::format_duration(duration));
            assert_eq!(again, Ok(duration));
        }
        if let Ok(size) = quantity::parse_size(text) {
            count += 1;
            assert_eq!(quantity::parse_size(&size.to_string()), Ok(size));
        }
        if let Ok(number) = quantity::parse_u32(text) {
            count += 1;
            assert_eq!(quantity::parse_u32(&format!("0x{number:x}")), Ok(number));
        }
        if let Ok(number) = quantity::parse_number(text) {
            count += 1;
            assert!(number >= 0.0 && number.is_finite());
        }
        if let Ok(mac) = text.parse::<Mac>() {
            count += 1;
            assert_eq!(mac.to_string().parse().ok(), Some(mac));
        }
    }
    count
}

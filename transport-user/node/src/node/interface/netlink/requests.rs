//! Requests to the kernel over a netlink socket, and their answers.
//!
//! This is synchronous, because a node can come up without a runtime. The kernel answers within the system call
//! that sends the request. The crates that match answers to requests (netlink-proto, rtnetlink) need a task on a
//! runtime.

use std::fmt::Debug;
use std::io;
use std::sync::Mutex;

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NetlinkBuffer, NetlinkDeserializable,
    NetlinkHeader, NetlinkMessage, NetlinkPayload, NetlinkSerializable,
};
use netlink_sys::{Socket, SocketAddr};

/// Size of `struct nlmsghdr`, bytes.
const HEADER_BYTES: usize = 16;
/// Size of the buffer for messages that are discarded, bytes. A longer message is cut off.
const UNREAD_BYTES: usize = 4096;
/// Number of times that a dump is repeated if its table changed during the dump.
const INTERRUPTED_DUMPS: u32 = 4;

/// A netlink socket that sends one request at a time. It stays in the network namespace in which it was opened.
#[derive(Debug)]
pub(crate) struct Requests(Mutex<Asker>);

#[derive(Debug)]
struct Asker {
    socket: Socket,
    /// Sequence number of the last request. The kernel repeats it in every answer.
    sequence: u32,
}

/// The answers to a request.
struct Answers<T> {
    messages: Vec<T>,
    /// Whether the table changed during the dump. Then parts may be missing.
    interrupted: bool,
}

impl Requests {
    /// Opens a socket of `protocol` in the calling thread's network namespace.
    pub(crate) fn open(protocol: isize) -> io::Result<Self> {
        let mut socket = Socket::new(protocol)?;
        socket.bind_auto()?;
        // From here on, only the kernel can send to the socket.
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Self(Mutex::new(Asker { socket, sequence: 0 })))
    }

    /// Sends a message and returns the answers. There may be none if the kernel only reports success.
    pub(crate) fn ask<T>(&self, message: T) -> io::Result<Vec<T>>
    where
        T: NetlinkSerializable + NetlinkDeserializable + Debug,
    {
        // The acknowledgement marks the end of the answers.
        self.exchange(message, NLM_F_ACK).map(|answers| answers.messages)
    }

    /// Returns all entries of a table.
    pub(crate) fn dump<T>(&self, message: T) -> io::Result<Vec<T>>
    where
        T: NetlinkSerializable + NetlinkDeserializable + Debug + Clone,
    {
        let mut answers = self.exchange(message.clone(), NLM_F_DUMP)?;
        for _ in 0..INTERRUPTED_DUMPS {
            if !answers.interrupted {
                break;
            }
            answers = self.exchange(message.clone(), NLM_F_DUMP)?;
        }
        Ok(answers.messages)
    }

    fn exchange<T>(&self, message: T, flags: u16) -> io::Result<Answers<T>>
    where
        T: NetlinkSerializable + NetlinkDeserializable + Debug,
    {
        let mut asker = self.0.lock().expect("no panic under the lock");
        asker.drain();
        asker.send(message, flags)?;
        asker.receive()
    }
}

impl Asker {
    /// Discards unread answers of an earlier request that failed. The kernel begins no new dump while another one
    /// is unread.
    fn drain(&self) {
        let mut unread = Vec::with_capacity(UNREAD_BYTES);
        // When a part is read, the kernel writes the next one, until the dump is complete.
        while self.socket.recv(&mut unread, libc::MSG_DONTWAIT).is_ok() {
            unread.clear();
        }
    }

    fn send<T>(&mut self, message: T, flags: u16) -> io::Result<()>
    where
        T: NetlinkSerializable + Debug,
    {
        let mut packet = NetlinkMessage::new(NetlinkHeader::default(), NetlinkPayload::InnerMessage(message));
        self.sequence = self.sequence.wrapping_add(1);
        packet.header.sequence_number = self.sequence;
        packet.header.flags = NLM_F_REQUEST | flags;
        packet.finalize();
        let mut bytes = vec![0; packet.buffer_len()];
        packet.serialize(&mut bytes);
        self.socket.send(&bytes, 0).map(drop)
    }

    /// Receives the answers to the last request. Skips messages with another sequence number.
    fn receive<T>(&self) -> io::Result<Answers<T>>
    where
        T: NetlinkDeserializable + Debug,
    {
        let mut answers = Answers { messages: Vec::new(), interrupted: false };
        loop {
            let (datagram, _) = self.socket.recv_from_full()?;
            if answers.take_all(&datagram, self.sequence)? {
                return Ok(answers);
            }
        }
    }
}

impl<T: NetlinkDeserializable + Debug> Answers<T> {
    /// Adds the messages of a datagram that have this sequence number. Returns true if the last one is among them.
    fn take_all(&mut self, datagram: &[u8], sequence: u32) -> io::Result<bool> {
        let mut rest = datagram;
        while rest.len() >= HEADER_BYTES {
            let message = NetlinkBuffer::new_checked(rest).map_err(io::Error::other)?;
            let (length, answers) = (message.length() as usize, message.sequence_number());
            let this = &rest[..length];
            // Messages are padded to 4 bytes. The last one may have no padding.
            rest = &rest[length.next_multiple_of(4).min(rest.len())..];
            if answers == sequence && self.take(this)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Adds one message. Returns true if it is the last one.
    fn take(&mut self, bytes: &[u8]) -> io::Result<bool> {
        let answer = NetlinkMessage::<T>::deserialize(bytes).map_err(io::Error::other)?;
        self.interrupted |= answer.header.flags & NLM_F_DUMP_INTR != 0;
        match answer.payload {
            NetlinkPayload::InnerMessage(message) => self.messages.push(message),
            NetlinkPayload::Done(_) => return Ok(true),
            NetlinkPayload::Error(error) => match error.code {
                // `error.to_io()` panics at the number that has no positive counterpart.
                Some(code) => return Err(io::Error::from_raw_os_error(code.get().saturating_neg())),
                None => return Ok(true),
            },
            _ => {}
        }
        Ok(false)
    }
}

/// Reads a datagram like an answer to the request with this sequence number. For fuzzing.
pub(crate) fn read_datagram<T: NetlinkDeserializable + Debug>(
    datagram: &[u8],
    sequence: u32,
) -> io::Result<Vec<T>> {
    let mut answers = Answers { messages: Vec::new(), interrupted: false };
    answers.take_all(datagram, sequence).map(|_| answers.messages)
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use netlink_packet_route::RouteNetlinkMessage;
    use netlink_packet_route::address::{AddressAttribute, AddressMessage};
    use netlink_packet_route::link::LinkMessage;
    use netlink_sys::protocols::NETLINK_ROUTE;

    use super::*;

    fn addresses(requests: &Requests) -> Vec<IpAddr> {
        let answers = requests.dump(RouteNetlinkMessage::GetAddress(AddressMessage::default()));
        let attributes = answers.expect("a dump needs no privilege").into_iter().flat_map(|m| match m {
            RouteNetlinkMessage::NewAddress(message) => message.attributes,
            other => panic!("not asked for: {other:?}"),
        });
        let addresses = attributes.filter_map(|attribute| match attribute {
            AddressAttribute::Address(address) => Some(address),
            _ => None,
        });
        addresses.collect()
    }

    #[test]
    fn what_an_earlier_request_left_behind_is_no_answer() {
        let requests = Requests::open(NETLINK_ROUTE).expect("netlink needs no privilege");
        let undisturbed = addresses(&requests);
        assert!(undisturbed.contains(&"127.0.0.1".parse().expect("an address")));
        // This sends a request without receiving its answers, as when receiving has failed.
        let link = RouteNetlinkMessage::GetLink(LinkMessage::default());
        requests.0.lock().expect("no panic").send(link, NLM_F_DUMP).expect("sent");
        assert_eq!(addresses(&requests), undisturbed);
        assert_eq!(addresses(&requests), undisturbed, "and nothing is left for the next");
    }

    /// An answer that comes after the socket was emptied has another sequence number.
    #[test]
    fn a_late_answer_to_an_earlier_request_is_skipped() {
        let requests = Requests::open(NETLINK_ROUTE).expect("netlink needs no privilege");
        let mut asker = requests.0.lock().expect("no panic");
        let mut loopback = LinkMessage::default();
        loopback.header.index = 1;
        // Two answers each: the message, and the acknowledgement that would end the answers to the next request.
        for _ in 0..2 {
            asker.send(RouteNetlinkMessage::GetLink(loopback.clone()), NLM_F_ACK).expect("sent");
        }
        asker.send(RouteNetlinkMessage::GetAddress(AddressMessage::default()), NLM_F_DUMP).expect("sent");
        let answers = asker.receive::<RouteNetlinkMessage>().expect("answered").messages;
        assert!(!answers.is_empty());
        let is_asked_for =
            |answer: &RouteNetlinkMessage| matches!(answer, RouteNetlinkMessage::NewAddress(_));
        assert!(answers.iter().all(is_asked_for), "{answers:?}");
    }

    #[test]
    fn what_the_kernel_refuses_is_an_error_with_its_code() {
        let requests = Requests::open(NETLINK_ROUTE).expect("netlink needs no privilege");
        let mut message = LinkMessage::default();
        message.header.index = i32::MAX as u32;
        let error = requests.ask(RouteNetlinkMessage::GetLink(message)).expect_err("no such interface");
        assert_eq!(error.raw_os_error(), Some(libc::ENODEV));
        assert!(!addresses(&requests).is_empty());
    }
}

//! What the kernel knows of the path to the peer from a TCP connection: the round trip time, and that nothing is acknowledged.

use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// Returns the smoothed round trip time of a TCP connection, or `None` if the kernel has not measured it.
///
/// An application that opens a static connection and has a TCP connection to the peer passes it to
/// [`Tuning::for_round_trip`](tiercel::Tuning::for_round_trip).
pub fn round_trip_of(stream: &impl AsFd) -> Option<Duration> {
    let micros = info_of(stream)?.tcpi_rtt;
    (micros != 0).then(|| Duration::from_micros(micros.into()))
}

/// Returns whether the oldest bytes of a TCP connection were sent again after a timeout, and are not acknowledged yet.
pub(super) fn sends_again(stream: &impl AsFd) -> bool {
    info_of(stream).is_some_and(|info| info.tcpi_retransmits != 0)
}

/// Returns `None` for a socket that is not one of TCP.
fn info_of(stream: &impl AsFd) -> Option<libc::tcp_info> {
    // SAFETY: all zero bytes are a valid value of this plain struct.
    let mut info: libc::tcp_info = unsafe { zeroed() };
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    let fd = stream.as_fd().as_raw_fd();
    // SAFETY: the kernel writes at most `length` bytes into `info`. `info` has that size and outlives the call.
    let done = unsafe {
        libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, (&raw mut info).cast(), &raw mut length)
    };
    (done == 0).then_some(info)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream, UdpSocket};

    use super::*;

    #[test]
    fn a_connection_has_one_and_a_datagram_socket_has_none() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let stream = TcpStream::connect(listener.local_addr().expect("bound")).expect("connected");
        let round_trip = round_trip_of(&stream).expect("the handshake measures it");
        assert!(round_trip < Duration::from_secs(1), "{round_trip:?} on the loopback");
        assert!(!sends_again(&stream));
        let datagrams = UdpSocket::bind("127.0.0.1:0").expect("a port");
        assert_eq!((round_trip_of(&datagrams), sends_again(&datagrams)), (None, false));
    }
}

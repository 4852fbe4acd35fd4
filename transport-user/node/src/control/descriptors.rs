//! Open files that cross the control socket with a request (`SCM_RIGHTS`). The client opens a file, so its path means what
//! it means to the client, and the client needs the right to open it.

use std::io::{self, IoSliceMut};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use nix::cmsg_space;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg};
use tokio::io::{AsyncRead, Interest, ReadBuf};
use tokio::net::unix::OwnedReadHalf;

/// Most descriptors of a request.
const MOST: usize = 2;

/// The receiving half of a stream. Keeps the descriptors that come with the bytes.
#[derive(Debug)]
pub(super) struct Receiver {
    stream: OwnedReadHalf,
    arrived: Vec<OwnedFd>,
}

impl Receiver {
    pub(super) fn new(stream: OwnedReadHalf) -> Self {
        Self { stream, arrived: Vec::new() }
    }

    /// Returns the descriptors that have come since the last call.
    pub(super) fn take(&mut self) -> Vec<OwnedFd> {
        std::mem::take(&mut self.arrived)
    }

    fn receive(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let (stream, arrived) = (&self.stream, &mut self.arrived);
        stream.as_ref().try_io(Interest::READABLE, || {
            let mut space = cmsg_space!([RawFd; MOST]);
            let mut slices = [IoSliceMut::new(bytes)];
            let raw = stream.as_ref().as_raw_fd();
            let message = recvmsg::<()>(raw, &mut slices, Some(&mut space), MsgFlags::MSG_CMSG_CLOEXEC)?;
            for control in message.cmsgs()? {
                let ControlMessageOwned::ScmRights(files) = control else { continue };
                // SAFETY: the kernel has just made these descriptors for this process, and nobody else knows them.
                let files = files.into_iter().map(|file| unsafe { OwnedFd::from_raw_fd(file) });
                // Too many are closed here.
                files.for_each(|file| {
                    if arrived.len() < MOST {
                        arrived.push(file)
                    }
                });
            }
            Ok(message.bytes)
        })
    }
}

impl AsyncRead for Receiver {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            ready!(this.stream.as_ref().poll_read_ready(cx))?;
            match this.receive(buffer.initialize_unfilled()) {
                Ok(bytes) => {
                    buffer.advance(bytes);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

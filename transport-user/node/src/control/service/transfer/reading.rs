//! Reads the file of a source, on a lane.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;

use super::super::disk::{FileSystem, Pulse};
use super::super::inbox::Inbox;
use super::Chunks;
use super::file_kind::kind;
use super::layout::{Layout, Walk};
use super::trouble::Trouble;
use super::verbs::Buffer;
use crate::connection_manager::FileMessage;

/// A file of at most this length is read whole before it is offered, bytes. Files of /proc and /sys do not tell their
/// length, or tell another one.
pub(in super::super) const READ_FIRST: u64 = 64 << 10;
/// Most bytes of a file that tells no length.
const NO_LENGTH: u64 = 16 << 20;
/// Size of the pieces in which such a file is read, bytes.
const PIECE: usize = 64 << 10;

/// Where the file of a source is.
#[derive(Debug)]
pub(in super::super) enum Origin {
    /// A client opened it.
    Opened(File),
    /// It has this name in the receive directory.
    Inbox(Arc<Inbox>, PathBuf),
    /// It is the list of the directory with this name in the receive directory.
    List(Arc<Inbox>, PathBuf),
}

/// The open file of a source.
pub(super) struct Reading {
    files: Arc<dyn FileSystem>,
    content: Content,
    walk: Walk,
    bytes: Vec<u8>,
    /// Kind and permission bits.
    pub(super) mode: u32,
}

enum Content {
    File(File),
    /// It was read already.
    Memory(Vec<u8>),
    Directory,
}

impl Reading {
    /// Opens a file and finds out what there is to send.
    pub(super) fn open(files: Arc<dyn FileSystem>, origin: Origin, pulse: &Pulse) -> Result<Self, Trouble> {
        let (file, by_client) = match origin {
            Origin::Opened(file) => (file, true),
            Origin::Inbox(inbox, name) => (inbox.open(&name)?, false),
            Origin::List(inbox, name) => {
                let list = inbox.list(&name, pulse)?;
                let walk = Walk::new(Layout::dense(list.len() as u64));
                let (content, mode) = (Content::Memory(list), FileMessage::DEFAULT_MODE);
                return Ok(Self { files, content, walk, bytes: Vec::new(), mode });
            }
        };
        let metadata = files.metadata(&file).map_err(unreadable)?;
        let mode = metadata.permissions().mode();
        let (content, layout) = match kind(&metadata) {
            None if metadata.len() <= READ_FIRST => {
                let bytes = read_whole(files.as_ref(), &file, pulse)?;
                let layout = Layout::dense(bytes.len() as u64);
                (Content::Memory(bytes), layout)
            }
            None => {
                let layout = layout(files.as_ref(), &file, metadata.len(), pulse)?;
                (Content::File(file), layout)
            }
            // A client names the files in it next.
            Some("a directory") if by_client => (Content::Directory, Layout::dense(0)),
            Some(other) => return Err(Trouble::NotAFile(other)),
        };
        Ok(Self { files, content, walk: Walk::new(layout), bytes: Vec::new(), mode })
    }

    pub(super) fn layout(&self) -> &Layout {
        self.walk.layout()
    }

    /// Reads chunks into their slots.
    pub(super) fn fill(
        &mut self,
        buffer: &impl Buffer,
        chunks: Chunks,
        range: Range<u64>,
        pulse: &Pulse,
    ) -> Result<(), Trouble> {
        let mut bytes = std::mem::take(&mut self.bytes);
        for index in range {
            bytes.resize(chunks.size(index) as usize, 0);
            let mut done = 0;
            while done < bytes.len() {
                if !pulse.goes_on() {
                    return Err(Trouble::Cancelled);
                }
                let (at, size) = self.walk.next(bytes.len() - done).ok_or(Trouble::OutOfStep)?;
                let piece = &mut bytes[done..][..size];
                self.read_exact(piece, at)?;
                self.walk.pass(piece, pulse)?;
                done += size;
            }
            buffer.fill(chunks.span(index).offset, &bytes)?;
        }
        self.bytes = bytes;
        Ok(())
    }

    /// Returns the SHA-256 of the file.
    pub(super) fn digest(&mut self, pulse: &Pulse) -> Result<String, Trouble> {
        self.walk.digest(pulse)
    }

    fn read_exact(&self, mut bytes: &mut [u8], mut at: u64) -> Result<(), Trouble> {
        while !bytes.is_empty() {
            let read = match &self.content {
                Content::File(file) => self.files.read_at(file, bytes, at).map_err(unreadable)?,
                Content::Memory(content) => {
                    let rest = content.get(at as usize..).unwrap_or_default();
                    let size = rest.len().min(bytes.len());
                    bytes[..size].copy_from_slice(&rest[..size]);
                    size
                }
                Content::Directory => 0,
            };
            if read == 0 {
                return Err(Trouble::Shorter(self.layout().length(), at));
            }
            (bytes, at) = (&mut bytes[read..], at + read as u64);
        }
        Ok(())
    }
}

fn unreadable(error: std::io::Error) -> Trouble {
    Trouble::File("read", error)
}

/// Reads a file to its end, whatever length it tells.
pub(in super::super) fn read_whole(
    files: &dyn FileSystem,
    file: &File,
    pulse: &Pulse,
) -> Result<Vec<u8>, Trouble> {
    let mut bytes = Vec::new();
    loop {
        if !pulse.goes_on() {
            return Err(Trouble::Cancelled);
        }
        let done = bytes.len();
        bytes.resize(done + PIECE, 0);
        let read = files.read_at(file, &mut bytes[done..], done as u64).map_err(unreadable)?;
        bytes.truncate(done + read);
        if read == 0 {
            return Ok(bytes);
        }
        if bytes.len() as u64 > NO_LENGTH {
            return Err(Trouble::NoLength(NO_LENGTH));
        }
    }
}

/// Finds the holes of a file.
fn layout(files: &dyn FileSystem, file: &File, length: u64, pulse: &Pulse) -> Result<Layout, Trouble> {
    let (mut data, mut at) = (Vec::new(), 0);
    while at < length {
        if !pulse.goes_on() {
            return Err(Trouble::Cancelled);
        }
        match files.next_data(file, at) {
            Ok(Some((begin, end))) if end > at => {
                data.push((begin, end));
                at = end;
            }
            Ok(_) => break,
            // The file system does not tell holes.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => return Ok(Layout::dense(length)),
            Err(error) => return Err(unreadable(error)),
        }
    }
    Ok(Layout::sparse(length, data))
}

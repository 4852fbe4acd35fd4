//! Moves bytes between clients, files and registered memory. Files, and many bytes, are moved by other threads than the
//! workers of the runtime.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tiercel::MemoryRegion;
use tiercel::control::answer::Content;
use tiercel::control::request::{Data, Place};
use tiercel::control::{Failure, FailureKind, Hex, INLINE_LIMIT};

use super::disk::{FileSystem, Pulse, Who};
use super::transfer::{READ_FIRST, Trouble, kind, read_whole};
use super::{NodeService, absolute};

/// Size of the pieces in which files are copied, bytes.
const PIECE: usize = 1 << 20;

/// Bytes in registered memory.
pub(super) struct Loaded {
    pub(super) region: MemoryRegion,
    pub(super) offset: u64,
    pub(super) length: u64,
}

impl NodeService {
    /// Copies data into registered memory, unless it already is in a region.
    pub(super) async fn load(&self, data: &Data) -> Result<Loaded, Failure> {
        match data {
            Data::Hex(Hex(bytes)) => {
                if bytes.len() as u64 > INLINE_LIMIT {
                    let text = format!("the data has more than {INLINE_LIMIT} bytes: send it as a file");
                    return Err(Failure::invalid(text));
                }
                let region = self.staging(bytes.len() as u64)?;
                region.write(0, bytes)?;
                Ok(Loaded { region, offset: 0, length: bytes.len() as u64 })
            }
            Data::File(path) => {
                let (service, path) = (self.clone(), absolute(path)?.to_owned());
                self.with_file(path, move |path, pulse| service.load_file(path, pulse)).await
            }
            Data::Region { rkey, offset, length } => {
                let region = self.inner.regions.get(*rkey)?;
                region.local_offset(*offset, *length)?;
                Ok(Loaded { region, offset: *offset, length: *length })
            }
        }
    }

    /// Does work with a file on a thread for such work.
    async fn with_file<T: Send + 'static>(
        &self,
        path: PathBuf,
        work: impl FnOnce(&Path, &Pulse) -> Result<T, Trouble> + Send + 'static,
    ) -> Result<T, Failure> {
        let shown = path.clone();
        let worked = async {
            let lane = self.inner.lanes.take(Who::Local(None)).await?;
            lane.run(move |pulse| work(&path, pulse)).await?
        };
        worked.await.map_err(|trouble: Trouble| trouble.for_client(shown.display()))
    }

    fn load_file(&self, path: &Path, pulse: &Pulse) -> Result<Loaded, Trouble> {
        let failed = |error| Trouble::File("read", error);
        let files = self.inner.files.as_ref();
        let file = files.open_path(path).map_err(failed)?;
        let metadata = files.metadata(&file).map_err(failed)?;
        if let Some(what) = kind(&metadata) {
            return Err(Trouble::NotAFile(what));
        }
        let length = metadata.len();
        if length <= READ_FIRST {
            let bytes = read_whole(files, &file, pulse)?;
            let region = self.staging(bytes.len() as u64)?;
            region.write(0, &bytes).map_err(Failure::from)?;
            return Ok(Loaded { region, offset: 0, length: bytes.len() as u64 });
        }
        let region = self.staging(length)?;
        let mut piece = vec![0; PIECE.min(length as usize)];
        let mut offset = 0;
        while offset < length {
            if !pulse.goes_on() {
                return Err(Trouble::Cancelled);
            }
            let size = PIECE.min((length - offset) as usize);
            let read = files.read_at(&file, &mut piece[..size], offset).map_err(failed)?;
            if read == 0 {
                return Err(Trouble::Shorter(length, offset));
            }
            region.write(offset, &piece[..read]).map_err(Failure::from)?;
            offset += read as u64;
        }
        Ok(Loaded { region, offset: 0, length })
    }

    /// Allocates memory for the bytes of one operation, at least one byte. Peers cannot access it.
    pub(super) fn staging(&self, length: u64) -> Result<MemoryRegion, Failure> {
        let length =
            usize::try_from(length.max(1)).map_err(|_| Failure::invalid("too many bytes: use less"))?;
        Ok(self.node().allocate(length)?)
    }

    /// Returns the memory into which an operation writes `length` bytes: the region that the client named, or
    /// staging memory.
    pub(super) async fn target(&self, length: u64, to: &Place) -> Result<Loaded, Failure> {
        match to {
            Place::Region { rkey, offset } => {
                let region = self.inner.regions.get(*rkey)?;
                region.local_offset(*offset, length)?;
                Ok(Loaded { region, offset: *offset, length })
            }
            Place::Reply if length > INLINE_LIMIT => Err(too_long_for_reply(length)),
            Place::Reply => Ok(Loaded { region: self.staging(length)?, offset: 0, length }),
            Place::File(path) => {
                // The check comes before any byte crosses the network.
                let path = absolute(path)?;
                if self.with_file(path.to_owned(), |path, _| Ok(path.exists())).await? {
                    let text = format!("{} already exists: name a new file", path.display());
                    return Err(Failure::new(FailureKind::File, text));
                }
                Ok(Loaded { region: self.staging(length)?, offset: 0, length })
            }
        }
    }

    /// Copies bytes of a region to the destination that the client named.
    pub(super) async fn deliver(
        &self,
        region: &MemoryRegion,
        offset: u64,
        length: u64,
        to: &Place,
    ) -> Result<Content, Failure> {
        region.local_offset(offset, length)?;
        let mut content = Content { bytes: length, hex: None };
        match to {
            Place::Reply if length > INLINE_LIMIT => return Err(too_long_for_reply(length)),
            Place::Reply => {
                let mut bytes = vec![0; length as usize];
                region.read(offset, &mut bytes)?;
                content.hex = Some(Hex(bytes));
            }
            Place::File(path) => {
                let (region, path) = (region.clone(), absolute(path)?.to_owned());
                let files = Arc::clone(&self.inner.files);
                let work = move |path: &Path, pulse: &Pulse| {
                    store(files.as_ref(), path, length, pulse, |at, piece| {
                        Ok(region.read(offset + at, piece)?)
                    })
                };
                self.with_file(path, work).await?;
            }
            Place::Region { rkey, offset: target } => {
                let destination = self.inner.regions.get(*rkey)?;
                copy((region.clone(), offset), (destination, *target), length).await?;
            }
        }
        Ok(content)
    }
}

/// Copies bytes from one region to another.
pub(super) async fn copy(
    (from, offset): (MemoryRegion, u64),
    (to, target): (MemoryRegion, u64),
    length: u64,
) -> Result<(), Failure> {
    to.local_offset(target, length)?;
    let copied = tokio::task::spawn_blocking(move || {
        let mut piece = vec![0; PIECE.min(length as usize)];
        let mut done = 0;
        while done < length {
            let size = PIECE.min((length - done) as usize);
            from.read(offset + done, &mut piece[..size])?;
            to.write(target + done, &piece[..size])?;
            done += size as u64;
        }
        Ok(())
    });
    copied.await.unwrap_or_else(|error| Err(Failure::new(FailureKind::Node, error.to_string())))
}

/// Writes a new file of `length` bytes. `read` fills a piece with the bytes from an offset on.
fn store(
    files: &dyn FileSystem,
    path: &Path,
    length: u64,
    pulse: &Pulse,
    read: impl Fn(u64, &mut [u8]) -> Result<(), Failure>,
) -> Result<(), Trouble> {
    let failed = |error| Trouble::File("write", error);
    let file = files.create_path(path).map_err(failed)?;
    let written = || -> Result<(), Trouble> {
        let mut piece = vec![0; PIECE.min(length as usize)];
        let mut done = 0;
        while done < length {
            if !pulse.goes_on() {
                return Err(Trouble::Cancelled);
            }
            let size = PIECE.min((length - done) as usize);
            read(done, &mut piece[..size])?;
            files.write_at(&file, &piece[..size], done).map_err(failed)?;
            done += size as u64;
        }
        Ok(())
    };
    // Half a file would look like a whole one, and would be in the way of the next attempt.
    written().inspect_err(|_| drop(files.remove_path(path)))
}

fn too_long_for_reply(length: u64) -> Failure {
    Failure::invalid(format!(
        "{length} bytes do not fit into a reply (at most {INLINE_LIMIT}): write them to a file with --out"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::faulty::{Fault, Faulty};

    /// The disk of `--out` is full at each call in turn. The failure says what to do, and no half file is in the way of the
    /// next attempt.
    #[test]
    fn a_full_disk_keeps_no_half_file() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("out");
        let bytes: Vec<u8> = (0..2 * PIECE + 5).map(|index| (index / 1000) as u8).collect();
        let mut calls = 0;
        loop {
            let faulty = Faulty::after(calls, Fault::Fails(libc::ENOSPC));
            let read = |at: u64, piece: &mut [u8]| {
                piece.copy_from_slice(&bytes[at as usize..][..piece.len()]);
                Ok(())
            };
            let stored = store(faulty.as_ref(), &path, bytes.len() as u64, &Pulse::default(), read);
            let Some(hit) = faulty.hit() else {
                assert!(stored.is_ok(), "no call failed: {stored:?}");
                break;
            };
            let text = stored.expect_err(hit).for_client(path.display()).text;
            assert!(text.contains("the file system is full: free some space"), "{hit}: {text}");
            assert!(!path.exists(), "{hit} (call {calls})");
            calls += 1;
        }
        assert_eq!(calls, 4, "the file is created, and has three pieces");
        assert!(std::fs::read(&path).expect("the file") == bytes);
    }
}

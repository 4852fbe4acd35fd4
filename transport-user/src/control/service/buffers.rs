//! Moves bytes between clients, files and registered memory.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;

use super::super::protocol::answer::Content;
use super::super::protocol::request::{Data, Place};
use super::super::protocol::{Failure, FailureKind, Hex, INLINE_LIMIT};
use super::{NodeService, absolute};
use crate::MemoryRegion;

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
    pub(super) fn load(&self, data: &Data) -> Result<Loaded, Failure> {
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
            Data::File(path) => self.load_file(absolute(path)?),
            Data::Region { rkey, offset, length } => {
                let region = self.inner.regions.get(*rkey)?;
                region.local_offset(*offset, *length)?;
                Ok(Loaded { region, offset: *offset, length: *length })
            }
        }
    }

    fn load_file(&self, path: &Path) -> Result<Loaded, Failure> {
        let failed =
            |error| Failure::new(FailureKind::File, format!("cannot read {}: {error}", path.display()));
        // The check comes before the open: opening a pipe would wait for a writer.
        let metadata = fs::metadata(path).map_err(failed)?;
        if !metadata.is_file() {
            return Err(Failure::new(FailureKind::File, format!("{} is not a file", path.display())));
        }
        let mut file = File::open(path).map_err(failed)?;
        let length = metadata.len();
        let region = self.staging(length)?;
        let mut piece = vec![0; PIECE];
        let mut offset = 0;
        while offset < length {
            let size = PIECE.min((length - offset) as usize);
            file.read_exact(&mut piece[..size]).map_err(failed)?;
            region.write(offset, &piece[..size])?;
            offset += size as u64;
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
    pub(super) fn target(&self, length: u64, to: &Place) -> Result<Loaded, Failure> {
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
                if absolute(path)?.exists() {
                    let text = format!("{} already exists: name a new file", path.display());
                    return Err(Failure::new(FailureKind::File, text));
                }
                Ok(Loaded { region: self.staging(length)?, offset: 0, length })
            }
        }
    }

    /// Copies bytes of a region to the destination that the client named.
    pub(super) fn deliver(
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
            Place::File(path) => store(region, offset, length, absolute(path)?)?,
            Place::Region { rkey, offset: target } => {
                let destination = self.inner.regions.get(*rkey)?;
                let mut bytes = vec![0; length as usize];
                region.read(offset, &mut bytes)?;
                destination.write(*target, &bytes)?;
            }
        }
        Ok(content)
    }
}

fn store(region: &MemoryRegion, offset: u64, length: u64, path: &Path) -> Result<(), Failure> {
    let failed = |error| Failure::new(FailureKind::File, format!("cannot write {}: {error}", path.display()));
    let mut file = OpenOptions::new().write(true).create_new(true).open(path).map_err(failed)?;
    let mut piece = vec![0; PIECE];
    let mut done = 0;
    while done < length {
        let size = PIECE.min((length - done) as usize);
        region.read(offset + done, &mut piece[..size])?;
        file.write_all(&piece[..size]).map_err(failed)?;
        done += size as u64;
    }
    Ok(())
}

fn too_long_for_reply(length: u64) -> Failure {
    Failure::invalid(format!(
        "{length} bytes do not fit into a reply (at most {INLINE_LIMIT}): write them to a file with --out"
    ))
}

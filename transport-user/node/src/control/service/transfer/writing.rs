//! Writes the file of a sink, on a lane.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::disk::{FileSystem, Pulse};
use super::super::inbox::{Inbox, Reservation};
use super::layout::{Layout, Walk};
use super::part::{self, Part, Place};
use super::trouble::Trouble;
use super::verbs::Buffer;

/// The bits of `st_mode` that say what it is, and their value for a directory.
const KIND: u32 = 0o170_000;
const DIRECTORY: u32 = 0o040_000;

/// Where the file of a sink goes.
#[derive(Clone, Debug)]
pub(in super::super) enum Target {
    /// To a place that a client of this node named.
    Local(Place),
    /// To the receive directory, under this name.
    Inbox(Arc<Inbox>, PathBuf),
}

/// What is stored, and how.
#[derive(Clone, Debug)]
pub(in super::super) struct Wanted {
    pub(in super::super) target: Target,
    pub(in super::super) layout: Layout,
    /// Kind and permission bits.
    pub(in super::super) mode: u32,
    /// Whether a file may be replaced.
    pub(in super::super) overwrite: bool,
}

impl Wanted {
    /// Returns whether it is a directory.
    pub(super) fn is_directory(&self) -> bool {
        self.mode & KIND == DIRECTORY
    }
}

/// The file of a sink before it has its name. Dropping it removes it.
#[derive(Debug)]
pub(super) struct Writing {
    files: Arc<dyn FileSystem>,
    store: Store,
    place: Place,
    walk: Walk,
    mode: u32,
    overwrite: bool,
    reservation: Option<Reservation>,
    bytes: Vec<u8>,
    /// What killed copies left here.
    pub(super) removed: Vec<PathBuf>,
}

#[derive(Debug)]
enum Store {
    File(Part),
    Directory,
}

impl Writing {
    /// Checks that there is a place for the file, and creates it under a hidden name.
    pub(super) fn begin(
        files: Arc<dyn FileSystem>,
        wanted: Wanted,
        transfer: u64,
        pulse: &Pulse,
    ) -> Result<Self, Trouble> {
        let Wanted { target, layout, mode, mut overwrite } = wanted;
        let crossing = layout.crossing();
        let (place, reservation) = match target {
            Target::Local(place) => {
                let free =
                    files.free_space(place.directory()).map_err(|error| Trouble::File("write", error))?;
                if crossing > free {
                    return Err(Trouble::NoSpace(crossing, free));
                }
                (place, None)
            }
            Target::Inbox(inbox, name) => {
                let place = inbox.place(&name)?;
                if !inbox.replaces() && overwrite {
                    overwrite = false;
                    check(files.as_ref(), &place, mode, false).map_err(|trouble| match trouble {
                        Trouble::Exists => Trouble::Kept,
                        other => other,
                    })?;
                }
                let reservation = inbox.reserve(place.directory(), crossing, layout.length(), pulse)?;
                (place, Some(reservation))
            }
        };
        check(files.as_ref(), &place, mode, overwrite)?;
        let (store, removed) = if mode & KIND == DIRECTORY {
            if layout.length() > 0 {
                return Err(Trouble::Absurd);
            }
            (Store::Directory, Vec::new())
        } else {
            let removed = part::remove_leftovers(files.as_ref(), &place);
            (Store::File(Part::create(&files, &place, transfer)?), removed)
        };
        let walk = Walk::new(layout);
        Ok(Self { files, store, place, walk, mode, overwrite, reservation, bytes: Vec::new(), removed })
    }

    /// Stores chunks that arrived, each with its place in the buffer and its size.
    pub(super) fn store(
        &mut self,
        buffer: &impl Buffer,
        chunks: &[(u64, u64)],
        pulse: &Pulse,
    ) -> Result<(), Trouble> {
        let mut bytes = std::mem::take(&mut self.bytes);
        for &(offset, size) in chunks {
            bytes.resize(size as usize, 0);
            buffer.fetch(offset, &mut bytes)?;
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                if !pulse.goes_on() {
                    return Err(Trouble::Cancelled);
                }
                let (at, size) = self.walk.next(rest.len()).ok_or(Trouble::OutOfStep)?;
                let piece = &rest[..size];
                let Store::File(part) = &mut self.store else { return Err(Trouble::Absurd) };
                part.write(piece, at)?;
                self.walk.pass(piece, pulse)?;
                if let Some(reservation) = &mut self.reservation {
                    reservation.used(size as u64);
                }
                rest = &rest[size..];
            }
        }
        self.bytes = bytes;
        Ok(())
    }

    /// Returns the SHA-256 of the file.
    pub(super) fn digest(&mut self, pulse: &Pulse) -> Result<String, Trouble> {
        self.walk.digest(pulse)
    }

    /// Gives the file its name.
    pub(super) fn keep(mut self) -> Result<(), Trouble> {
        match self.store {
            Store::File(part) => part.keep(self.walk.layout().length(), self.mode, self.overwrite)?,
            Store::Directory => create_directory(self.files.as_ref(), &self.place, self.mode)?,
        }
        if let Some(reservation) = &mut self.reservation {
            reservation.kept();
        }
        Ok(())
    }
}

/// Checks what has the name: nothing; without `overwrite` no file; and no directory where a file comes.
pub(super) fn check(
    files: &dyn FileSystem,
    place: &Place,
    mode: u32,
    overwrite: bool,
) -> Result<(), Trouble> {
    let is_directory = mode & KIND == DIRECTORY;
    match files.look_up(place.directory(), &place.name) {
        Ok(named) if named.is_directory && is_directory => Ok(()),
        Ok(named) if named.is_directory => Err(Trouble::IsDirectory),
        Ok(_) if is_directory || !overwrite => Err(Trouble::Exists),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Trouble::File("create", error)),
    }
}

/// Creates a directory, unless it is there.
fn create_directory(files: &dyn FileSystem, place: &Place, mode: u32) -> Result<(), Trouble> {
    let failed = |error| Trouble::File("create", error);
    match files.create_directory(place.directory(), &place.name) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            return check(files, place, DIRECTORY, false);
        }
        Err(error) => return Err(failed(error)),
    }
    let name: &OsStr = &place.name;
    let made = files.open_directory(place.directory(), Path::new(name)).map_err(failed)?;
    part::set_mode(files, made.as_fd(), mode).map_err(failed)
}

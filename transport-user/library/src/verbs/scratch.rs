//! Places of 8 bytes in the node's memory, for the original values that atomics return.

use std::sync::{Arc, Mutex};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::common::error::Error;
use crate::verbs::maps::Maps;
use crate::verbs::memory::{Allocation, PAGE, Pool};

/// Size of a place, bytes.
pub(crate) const WORD: usize = 8;
const PLACES: usize = PAGE / WORD;

/// The places of one connection: two per entry of its send queue.
#[derive(Debug)]
pub(crate) struct Scratch {
    memory: Allocation,
    free: Mutex<Vec<usize>>,
    available: Arc<Semaphore>,
}

impl Scratch {
    pub(crate) fn new(maps: &Arc<Maps>, pool: &Arc<Pool>) -> Result<Arc<Self>, Error> {
        Ok(Arc::new(Self {
            memory: Allocation::new(maps, pool, PAGE)?,
            free: Mutex::new((0..PLACES).rev().collect()),
            available: Arc::new(Semaphore::new(PLACES)),
        }))
    }

    /// Takes a place. Waits until one is free.
    pub(crate) async fn take(self: &Arc<Self>) -> Place {
        let permit =
            Arc::clone(&self.available).acquire_owned().await.expect("the semaphore is never closed");
        let index = self.free.lock().expect("no panic under the lock").pop().expect("as many as permits");
        Place { scratch: Arc::clone(self), index, _permit: permit }
    }
}

/// A place. Dropping it frees the place.
#[derive(Debug)]
pub(crate) struct Place {
    scratch: Arc<Scratch>,
    index: usize,
    _permit: OwnedSemaphorePermit,
}

impl Place {
    /// Returns its offset in the node's memory.
    pub(crate) fn offset(&self) -> u64 {
        self.scratch.memory.offset() + (self.index * WORD) as u64
    }

    /// Returns its value. The datapath writes it in host byte order (D-84).
    pub(crate) fn value(&self) -> u64 {
        let mut bytes = [0; WORD];
        let inside = self.scratch.memory.read((self.index * WORD) as u64, &mut bytes);
        debug_assert!(inside, "places lie within the page");
        u64::from_ne_bytes(bytes)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.scratch.free.lock().expect("no panic under the lock").push(self.index);
    }
}

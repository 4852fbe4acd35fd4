//! Semaphores by key, which exist as long as they are used.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, Weak};

use tokio::sync::Semaphore;

use crate::common::mutex::lock;

/// Semaphores by key. One that nobody holds is forgotten.
#[derive(Debug)]
pub(super) struct Semaphores<K>(Mutex<HashMap<K, Weak<Semaphore>>>);

impl<K> Default for Semaphores<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash> Semaphores<K> {
    /// Returns the semaphore of a key. A new one has so many permits.
    pub(super) fn of(&self, key: K, permits: usize) -> Arc<Semaphore> {
        let mut all = lock(&self.0);
        all.retain(|_, semaphore| semaphore.strong_count() > 0);
        let known = all.get(&key).and_then(Weak::upgrade);
        known.unwrap_or_else(|| {
            let new = Arc::new(Semaphore::new(permits));
            all.insert(key, Arc::downgrade(&new));
            new
        })
    }
}

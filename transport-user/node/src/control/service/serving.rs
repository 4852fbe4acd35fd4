//! Limits the tasks that serve what peers begin.
//!
//! Every `Offer` and `Fetch` of a peer begins a task. How many transfers are served, and which wait, is decided in it.
//! Here is the limit for what costs memory before that decision.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use crate::common::mutex::lock;
use crate::connection_manager::PeerSource;

/// Tasks for one peer, and for all of them.
const TASKS_EACH: usize = 16;
const TASKS: usize = 128;

/// The tasks under way, by peer.
#[derive(Debug, Default)]
pub(super) struct Serving(Arc<Mutex<HashMap<PeerSource, usize>>>);

/// The place of one task. Dropping it frees the place.
#[derive(Debug)]
pub(super) struct Place {
    tasks: Arc<Mutex<HashMap<PeerSource, usize>>>,
    peer: PeerSource,
}

impl Serving {
    /// Returns a place for another task of this peer, if there is one.
    pub(super) fn begin(&self, peer: IpAddr) -> Option<Place> {
        let peer = PeerSource::of(peer);
        let mut tasks = lock(&self.0);
        let all: usize = tasks.values().sum();
        let of_peer = tasks.entry(peer).or_default();
        if *of_peer >= TASKS_EACH || all >= TASKS {
            if *of_peer == 0 {
                tasks.remove(&peer);
            }
            return None;
        }
        *of_peer += 1;
        Some(Place { tasks: Arc::clone(&self.0), peer })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut tasks = lock(&self.tasks);
        if let Some(of_peer) = tasks.get_mut(&self.peer) {
            *of_peer -= 1;
            if *of_peer == 0 {
                tasks.remove(&self.peer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_peer_has_more_than_its_share() {
        let serving = Serving::default();
        let peer = |number: u8| IpAddr::from([10, 0, 0, number]);
        let mut places: Vec<Place> = (0..TASKS_EACH).map(|_| serving.begin(peer(1)).expect("free")).collect();
        assert!(serving.begin(peer(1)).is_none());
        for number in 2.. {
            match serving.begin(peer(number)) {
                Some(place) => places.push(place),
                None => break,
            }
        }
        assert_eq!(places.len(), TASKS);
        drop(places.pop());
        drop(serving.begin(peer(200)).expect("there is a place again"));
        drop(places);
        assert!(serving.0.lock().unwrap().is_empty(), "nothing is left");
    }
}

//! A small world, walked entirely: every order in which its events can happen.
//!
//! Two hosts have one connection with windows of a few packets, and a few operations. In each state the walk takes every
//! step that is possible: an engine serves a connection; a frame arrives, any of those on their way; a frame is lost; a
//! copy of it arrives; time passes to the next timer, also while there is other work; the target gets ready for a request;
//! an end closes the connection. How often the network and the timers may interfere is limited. Whatever cannot be undone is
//! checked after each step, the results at the end of each path. States are compared by a hash, so none is walked twice. A
//! state that follows itself is a livelock.
//!
//! A step changes one end, so the core makes it once for each state of that end, not once for each state of the world
//! ([`local`]). The clock stops between timers.

mod canonical;
mod card;
mod local;
mod operations;
mod results;
mod small_world;
mod walk;
mod worlds;

pub use small_world::{SmallOp, SmallWorld, Walk};
use walk::Walker;

impl SmallWorld {
    /// Walks the world, depth first. Stops after `most` states.
    ///
    /// # Panics
    /// If a check fails; `on_failure` gets the path before.
    pub fn walk(&self, most: u64, progress: &mut dyn FnMut(&Walk), on_failure: &mut dyn FnMut(&str)) -> Walk {
        let (mut walker, mut walk) = Walker::new(self, on_failure);
        walker.walk(&mut walk, most, progress);
        walk
    }
}

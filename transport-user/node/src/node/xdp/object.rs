//! The maps of a loaded object.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Mutex;

use aya::Ebpf;
use aya::maps::{Map, MapData, RingBuf};
use tiercel::backend::{Descriptors, Maps, Notices};
use transport_common::queues::CONNECTIONS;

use crate::node::error::NodeError;
use crate::node::instruments::Instruments;

/// The ring by which the wire program wakes the engine.
pub(crate) type WakeRing = RingBuf<MapData>;

/// The ring by which the programs tell of completions in armed queues.
pub(crate) struct NoticeRing(pub(super) RingBuf<MapData>);

impl AsFd for NoticeRing {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Notices for NoticeRing {
    fn clear(&mut self) {
        // As many as the ring holds: an application that is told of each step at once does not keep the poller here. If there
        // are more, the ring stays readable.
        for _ in 0..CONNECTIONS {
            if self.0.next().is_none() {
                break;
            }
        }
    }
}

/// The rings by which the programs wake threads of the node.
pub(crate) struct Rings {
    /// Wakes the engine.
    pub(crate) wake: WakeRing,
    /// Wakes the poller.
    pub(crate) notices: NoticeRing,
}

/// Maps the node's maps of a loaded object. `exchange` is the program that copies connections into and out of their
/// slots. The memory has `banks` banks.
pub(super) fn make_maps(object: &mut Ebpf, exchange: OwnedFd, banks: usize) -> Result<Maps, NodeError> {
    let given = Descriptors {
        exchange,
        exchange_page: descriptor(object, "EXCHANGE")?,
        queue_pairs: descriptor(object, "QUEUE_PAIRS")?,
        memory: descriptor(object, "MEMORY")?,
        regions: descriptor(object, "REGIONS")?,
        node: descriptor(object, "NODE")?,
        congestion: descriptor(object, "CONGESTION")?,
        clock: descriptor(object, "CLOCK")?,
    };
    Ok(Maps::new(given, banks)?)
}

/// Takes the maps that only the node reads out of a loaded object.
pub(super) fn take_instruments(object: &mut Ebpf) -> Result<Instruments, NodeError> {
    Ok(Instruments {
        counters: typed(object, "COUNTERS")?,
        delays: typed(object, "DELAYS")?,
        trace: Mutex::new(Some(typed(object, "TRACE")?)),
        trace_lost: typed(object, "TRACE_LOST")?,
    })
}

/// Returns the descriptor of a map of any type.
fn descriptor(object: &mut Ebpf, name: &'static str) -> Result<OwnedFd, NodeError> {
    let (Map::Array(data) | Map::Unsupported(data)) = object.map(name).ok_or(NodeError::Object(name))? else {
        return Err(NodeError::Object(name));
    };
    let fd = data.fd().as_fd().try_clone_to_owned();
    fd.map_err(|source| NodeError::system("duplicate a map's descriptor", source))
}

/// Returns a map of a type that aya supports. It stays in its object.
pub(super) fn borrowed<'a, T: TryFrom<&'a mut Map>>(
    object: &'a mut Ebpf,
    name: &'static str,
) -> Result<T, NodeError> {
    let map = object.map_mut(name).ok_or(NodeError::Object(name))?;
    T::try_from(map).map_err(|_| NodeError::Object(name))
}

/// Takes a map of a type that aya supports out of its object.
pub(super) fn typed<T: TryFrom<Map>>(object: &mut Ebpf, name: &'static str) -> Result<T, NodeError> {
    let map = object.take_map(name).ok_or(NodeError::Object(name))?;
    T::try_from(map).map_err(|_| NodeError::Object(name))
}

//! A node: the datapath on one interface, with its connections and regions.

use std::net::IpAddr;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};

use tiercel::backend::{
    Cids, Connections, Core, Datapath, KeyChoice, Quiescence, Regions, Shared, UserPlacement,
};
use tiercel::congestion::{Algorithm, AlgorithmChoice, Algorithms};
use tiercel::status::NodeStats;
use tiercel::{
    Access, CidReservation, Connection, ConnectionInfo, DelayHistograms, Device, Error, LocalCid, Mac,
    MemoryRegion, OpenConnection, RegionInfo,
};
use tokio::sync;
use transport_common::counters::Counter;
use transport_common::ids::{Cid, RKey};

use crate::node::engine::{Engine, EngineStatus};
use crate::node::error::{NextHopError, NodeError};
use crate::node::interface::gro::GroOn;
use crate::node::interface::link::Link;
use crate::node::interface::netlink::solicitation::Own;
use crate::node::interface::netlink::{Interface, Netlink};
use crate::node::rate_update::{RateUpdate, RateUpdateStatus};
use crate::node::receive_timestamps::{Plan, ReceiveTimestamps};
use crate::node::trace::{TraceOptions, Tracing};
use crate::node::watch::{Lost, Watch};
use crate::node::xdp::attach_mode::AttachMode;
use crate::node::xdp::loader::{self, Loaded};
use crate::node::xdp::object::NoticeRing;
use crate::node::xdp::transmit::Transmit;

pub(crate) mod engine;
pub(crate) mod error;
pub(crate) mod grace;
#[cfg(test)]
mod grace_order_tests;
mod inner;
mod inspection;
mod instruments;
pub(crate) mod interface;
mod interrupt;
pub(crate) mod options;
pub mod rate_update;
pub(crate) mod receive_timestamps;
pub(crate) mod trace;
pub(crate) mod watch;
pub(crate) mod xdp;

use grace::GracePeriods;
use inner::{Inner, Running};
use inspection::{inspect, node_config};
use options::NodeOptions;

/// A running node. Clones refer to the same node. It goes down when the last clone is dropped, or by
/// [`Node::down`]. The kernel detaches the programs when the process dies.
///
/// A node uses the following of its process, in addition to memory and descriptors:
/// - Threads: the engine, the poller, a thread for grace periods, and a thread that watches the interface. A busy engine
///   with an adapted batch and a rate update engine in user space have one more each.
/// - One real-time signal, for the engine threads of all nodes of the process: only a signal makes the kernel end a live
///   run early. It is the highest one without a handler, or that of
///   [`EngineOptions::signal`](crate::EngineOptions::signal). It is given back when the last node is down. The node does
///   not change any other signal, and engine threads block all others.
/// - `RLIMIT_MEMLOCK` is raised, for kernels that count BPF maps against it.
#[derive(Clone, Debug)]
pub struct Node {
    inner: Arc<Inner>,
}

impl Node {
    /// Loads the programs, attaches them and starts the engine.
    ///
    /// # Errors
    /// See [`NodeError`]. In that case, everything is cleaned up.
    pub fn up(options: NodeOptions) -> Result<Self, NodeError> {
        Self::up_after(options, |_| Ok(())).map(|(node, ())| node)
    }

    /// Brings a node up like [`Self::up`], with `prepare` as an additional step that may fail. The step runs
    /// before any program is replaced, so that its failure does not harm the node that would have been replaced.
    pub(crate) fn up_after<T, E: From<NodeError>>(
        options: NodeOptions,
        prepare: impl FnOnce(&Device) -> Result<T, E>,
    ) -> Result<(Self, T), E> {
        options.engine.check()?;
        options.engine.check_cpu()?;
        options.rate_update.admission().map_err(|error| NodeError::from(Error::from(error)))?;
        let netlink = Netlink::open().map_err(|e| NodeError::system("open a netlink socket", e))?;
        let (interface, device) = inspect(&netlink, &options)?;
        if !options.force {
            loader::clear(&netlink, &interface, false)?;
        }
        let prepared = prepare(&device)?;
        let node = Self::attach(options, netlink, &interface, device)?;
        Ok((node, prepared))
    }

    fn attach(
        options: NodeOptions,
        netlink: Netlink,
        interface: &Interface,
        device: Device,
    ) -> Result<Self, NodeError> {
        let mut plan = Plan::new(options.hardware_timestamps, options.attach, interface)?;
        let mut loaded = match Loaded::load(node_config(&device), plan.asks_driver(), options.bpf_log) {
            Err(NodeError::Bind(reason)) if options.hardware_timestamps.is_none() => {
                plan.give_up(reason);
                Loaded::load(node_config(&device), false, options.bpf_log)?
            }
            loaded => loaded?,
        };
        let wire = loaded.wire()?;
        // This comes late, so that a failure until here has not detached another program.
        loader::clear(&netlink, interface, options.force)?;
        let veth = interface.kind.as_deref() == Some("veth");
        let link = Link::new(device, options.mtu, veth && options.attach == AttachMode::Generic)?;
        let gro =
            if veth && options.attach == AttachMode::Generic { GroOn::new(&interface.name)? } else { None };
        let (attachment, (maps, instruments), rings) =
            loaded.attach(interface, options.attach, options.transmit)?;
        // One frame shows whether the kernel supports live frames.
        bpf_call::run_live(wire.as_fd(), 1, 1, bpf_call::LIVE_FRAME_BYTES)
            .map_err(NodeError::NoLiveFrames)?;
        if maps.node().frames.load(SeqCst) == 0 {
            return Err(NodeError::Object("engine program: the wire program does not reach it"));
        }
        let grace = GracePeriods::new()?;
        let datapath = Datapath::new(maps)?;
        let rate_update = RateUpdate::new(options.rate_update, options.algorithms, Arc::clone(&datapath))?;
        let shared = Shared::new(
            Arc::clone(&datapath),
            Arc::clone(&grace) as Arc<dyn Quiescence>,
            Arc::clone(&rate_update) as Arc<dyn UserPlacement>,
        );
        let connections = Arc::new(Connections::default());
        let engine = Engine::start(options.engine, wire, rings.wake, datapath, Arc::clone(&shared.poller))?;
        poll(&shared, &connections, rings.notices)?;
        let stamping = plan.start(&shared.maps);
        let node = Self {
            inner: Arc::new(Inner {
                link,
                attach: options.attach,
                shared,
                instruments: Arc::new(instruments),
                grace,
                rate_update,
                netlink,
                cids: Cids::new(),
                connections,
                regions: Regions::new(),
                running: Mutex::new(Some(Running {
                    engine,
                    transmit: attachment.transmit(),
                    attachment: Arc::new(Mutex::new(attachment)),
                    stamping,
                    _gro: gro,
                })),
                watch: Watch::default(),
                lost: sync::watch::Sender::new(None),
            }),
        };
        let poller = Arc::clone(&node.inner.shared.poller);
        node.inner.grace.start(move || poller.kick())?;
        node.inner.watch.start(Arc::downgrade(&node.inner))?;
        Ok(node)
    }

    /// Detaches the programs, stops the engine and ends all connections. Handles of connections and regions stay
    /// valid and report that they are closed. A second call does nothing.
    pub fn down(&self) {
        self.inner.down();
    }

    /// Returns the reason when the node goes down by itself: its program was detached from the interface (for
    /// example by another node with `force`), the interface no longer exists or has another MAC address, or the engine failed. If
    /// [`Self::down`] brings the node down, this does not return.
    pub async fn lost(&self) -> Lost {
        let mut lost = self.inner.lost.subscribe();
        match lost.wait_for(Option::is_some).await.map(|lost| lost.clone()) {
            Ok(Some(lost)) => lost,
            // This does not happen: the sender lives as long as `self`, and the value is present.
            _ => std::future::pending().await,
        }
    }

    /// Returns the interface on which the node runs, as it is now. The node follows its name, its MTU and its addresses.
    pub fn device(&self) -> Arc<Device> {
        self.inner.link.device()
    }

    /// Returns what has changed of the interface since the last call, as sentences.
    pub(crate) fn take_news(&self) -> Vec<String> {
        self.inner.link.take_news()
    }

    /// Reserves a CID. A peer can be told the CID before the connection is opened.
    ///
    /// # Errors
    /// [`Error::NoFreeCid`].
    pub fn reserve_cid(&self) -> Result<CidReservation, Error> {
        self.inner.cids.reserve()
    }

    /// Opens a connection with parameters on which both ends agreed.
    ///
    /// # Errors
    /// [`Error::CidInUse`], [`Error::NoFreeCid`], [`Error::BadCid`], [`Error::Parameter`],
    /// [`Error::AddressFamily`], [`Error::Tunnel`], [`Error::OutOfMemory`], [`Error::NodeDown`], [`Error::System`];
    /// [`Error::CongestionParameter`], [`Error::AlgorithmPlacement`], [`Error::UnknownAlgorithm`].
    pub fn open(&self, mut open: OpenConnection) -> Result<Connection, Error> {
        let inner = &self.inner;
        if inner.shared.is_down() {
            return Err(Error::NodeDown);
        }
        let reservation = match std::mem::replace(&mut open.local_cid, LocalCid::Any) {
            LocalCid::Any => inner.cids.reserve()?,
            LocalCid::Given(cid) => inner.cids.reserve_given(cid)?,
            LocalCid::Reserved(reservation) if reservation.is_from(&inner.cids) => reservation,
            LocalCid::Reserved(reservation) => return Err(Error::UnknownCid(reservation.cid().0)),
        };
        // The peer may have come up since the last check, and then a veth takes frames from XDP.
        if self.transmit()? == Transmit::Stack {
            inner.watch.look_now();
        }
        let core = Core::open(&inner.shared, reservation, &open, &inner.link.device())?;
        inner.connections.insert(&core);
        Ok(Connection::new(core))
    }

    /// Resets a static connection to its initial state, after its peer was restarted. A restarted peer starts its
    /// PSNs, RSNs and IVs again, so this end takes its packets for old ones and drops them. Outstanding operations
    /// complete with kCmplDeadConn. The connection is opened again under the same CID, with the parameters with
    /// which it was opened. It accepts the IV of the first packet (D-87).
    ///
    /// The caller must know that the peer was restarted. In plaintext mode (D-83) no packet proves it: replayed
    /// old packets look the same. Both ends must be in their initial state. If this end had outstanding
    /// operations, it also sent them to the restarted peer. In this case reset this end first, and then the peer.
    /// Do not reset a connection of the connection manager, which uses new sequence numbers each time: close it
    /// and connect again.
    ///
    /// The slot of the connection stays reserved meanwhile, so no other connection can take the CID. If the returned
    /// future is dropped, the connection ends and is not opened again.
    ///
    /// # Errors
    /// [`Error::UnknownCid`] if there is no such connection; [`Error::ResetAlready`] if another call resets it. The
    /// errors of [`Self::open`]: in this case the connection is closed.
    pub async fn reset(&self, cid: Cid) -> Result<Connection, Error> {
        let connection = self.connection(cid).ok_or(Error::UnknownCid(cid.0))?;
        let open = connection.core().anew();
        let inherited = connection.core().close_and_inherit()?;
        // The reservation comes when the poller has released the connection, also when the node goes down.
        let mut reservation = inherited.await.map_err(|_| Error::UnknownCid(cid.0))?;
        reservation.renew();
        self.open(open.in_slot(reservation))
    }

    /// Registers a custom algorithm. Returns the value by which connections select it, with placement user.
    ///
    /// # Errors
    /// [`Error::AlgorithmName`].
    pub fn register_algorithm(
        &self,
        algorithm: impl Algorithm + Send + Sync + 'static,
    ) -> Result<AlgorithmChoice, Error> {
        self.inner.rate_update.register(Arc::new(algorithm))
    }

    /// Returns the algorithms that connections may select by name now.
    pub fn algorithms(&self) -> Algorithms {
        self.inner.rate_update.algorithms()
    }

    /// Returns the connection with this local CID.
    pub fn connection(&self, cid: Cid) -> Option<Connection> {
        self.inner.connections.get(cid).map(Connection::new)
    }

    /// Returns all connections, by ascending CID.
    pub fn connections(&self) -> Vec<ConnectionInfo> {
        // A connection that is closed in the meantime is left out.
        self.inner.connections.all().iter().filter_map(|core| core.info().ok()).collect()
    }

    /// Registers `length` bytes of zeroed memory under the next free R_Key. The first R_Key is 1 (D-84).
    ///
    /// # Errors
    /// [`Error::EmptyRegion`], [`Error::OutOfMemory`], [`Error::NoFreeRegion`], [`Error::NodeDown`].
    pub fn register(&self, length: usize, access: Access) -> Result<MemoryRegion, Error> {
        self.register_as(KeyChoice::Next, length, access)
    }

    /// Allocates `length` bytes of zeroed memory for local use, as buffers of this node's own operations. The
    /// memory has no R_Key, so peers cannot access it, and it uses no entry of the region table.
    ///
    /// # Errors
    /// [`Error::EmptyRegion`], [`Error::OutOfMemory`], [`Error::NodeDown`].
    pub fn allocate(&self, length: usize) -> Result<MemoryRegion, Error> {
        let shared = &self.inner.shared;
        if shared.is_down() {
            return Err(Error::NodeDown);
        }
        Regions::allocate(shared, length)
    }

    /// Registers memory like [`Self::register`], for a temporary region whose R_Key is sent to one peer. The key
    /// is not one of the low keys.
    pub(crate) fn register_temporary(&self, length: usize, access: Access) -> Result<MemoryRegion, Error> {
        self.register_as(KeyChoice::Temporary, length, access)
    }

    /// Registers memory like [`Self::register`], under the given key.
    ///
    /// # Errors
    /// As for [`Self::register`], and [`Error::BadRKey`], [`Error::RKeyInUse`].
    pub fn register_with_key(&self, key: RKey, length: usize, access: Access) -> Result<MemoryRegion, Error> {
        self.register_as(KeyChoice::Given(key), length, access)
    }

    fn register_as(&self, key: KeyChoice, length: usize, access: Access) -> Result<MemoryRegion, Error> {
        let inner = &self.inner;
        if inner.shared.is_down() {
            return Err(Error::NodeDown);
        }
        inner.regions.register(&inner.shared, length, access, key)
    }

    /// Returns all regions.
    pub fn regions(&self) -> Vec<RegionInfo> {
        self.inner.regions.all()
    }

    /// Returns the MAC address of the next hop towards `peer`. Blocks up to a second until the kernel has resolved
    /// it. In async code use [`Self::next_hop`].
    ///
    /// # Errors
    /// [`NodeError::NoNeighbour`].
    pub fn resolve(&self, peer: IpAddr) -> Result<Mac, NodeError> {
        let mac = self.inner.netlink.resolve(self.device().index, peer);
        mac.map(Mac).map_err(|source| self.no_neighbour(peer, source))
    }

    /// Returns the MAC address of the next hop towards `peer`. Waits up to a second until the kernel has resolved
    /// it, without blocking the thread. Needs a runtime with timers.
    ///
    /// # Errors
    /// [`NodeError::NoNeighbour`].
    pub async fn next_hop(&self, peer: IpAddr) -> Result<Mac, NodeError> {
        let mac = self.inner.netlink.resolve_async(self.device().index, peer).await;
        mac.map(Mac).map_err(|source| self.no_neighbour(peer, source))
    }

    /// Returns the MAC address of the next hop towards `peer`, if the kernel knows it. Does not wait. With `ask`, the address is
    /// resolved again for a later call, whether the kernel knows one or not.
    pub(crate) fn known_next_hop(&self, peer: IpAddr, ask: bool) -> Result<Option<Mac>, NodeError> {
        let device = self.device();
        let own = Own { mac: device.mac.0, address: device.address };
        let mac = self.inner.netlink.known(device.index, peer, ask.then_some(own));
        mac.map(|mac| mac.map(Mac)).map_err(|source| self.no_neighbour(peer, source))
    }

    /// Returns whether next hops may have changed since the last call.
    pub(crate) fn next_hops_changed(&self) -> bool {
        self.inner.link.next_hops_changed()
    }

    fn no_neighbour(&self, address: IpAddr, source: NextHopError) -> NodeError {
        NodeError::NoNeighbour { address, interface: self.device().interface.clone(), source }
    }

    /// Returns the status of the engine.
    ///
    /// # Errors
    /// [`Error::NodeDown`].
    pub fn engine(&self) -> Result<EngineStatus, Error> {
        let running = self.inner.running.lock().expect("no panic under the lock");
        Ok(running.as_ref().ok_or(Error::NodeDown)?.engine.status())
    }

    /// How frames of the engine leave at present.
    ///
    /// # Errors
    /// [`Error::NodeDown`].
    pub fn transmit(&self) -> Result<Transmit, Error> {
        let running = self.inner.running.lock().expect("no panic under the lock");
        Ok(running.as_ref().ok_or(Error::NodeDown)?.transmit.get())
    }

    /// Returns the source of receive timestamps.
    ///
    /// # Errors
    /// [`Error::NodeDown`], [`Error::System`].
    pub fn receive_timestamps(&self) -> Result<ReceiveTimestamps, Error> {
        let running = self.inner.running.lock().expect("no panic under the lock");
        running.as_ref().ok_or(Error::NodeDown)?.stamping.status(&self.inner.instruments)
    }

    /// Returns the status of the rate update engine in user space.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn rate_update(&self) -> Result<RateUpdateStatus, Error> {
        Ok(self.inner.rate_update.status(&self.inner.counters()?))
    }

    /// Records a trace of every run of the datapath. The trace ends when it reaches a limit of the options, or
    /// when the returned [`Tracing`] is stopped or dropped. The first trace of a node takes a second or two to
    /// begin. Every packet takes longer while a trace is recorded.
    ///
    /// # Errors
    /// [`NodeError::TraceRunning`], [`NodeError::TraceFile`], [`NodeError::Load`], [`Error::NodeDown`].
    pub fn trace(&self, options: TraceOptions) -> Result<Tracing, NodeError> {
        let attachment = {
            let running = self.inner.running.lock().expect("no panic under the lock");
            Arc::downgrade(&running.as_ref().ok_or(Error::NodeDown)?.attachment)
        };
        Tracing::start(options, &self.inner.shared, &self.inner.instruments, attachment)
    }

    /// Returns one counter of the datapath.
    pub(crate) fn counter(&self, counter: Counter) -> Result<u64, Error> {
        self.inner.instruments.counter(counter)
    }

    /// Returns the counters, the use of the pools, and sums over all connections.
    ///
    /// # Errors
    /// [`Error::NodeDown`], [`Error::System`].
    pub fn stats(&self) -> Result<NodeStats, Error> {
        let inner = &self.inner;
        let counters = inner.counters()?;
        let mut pools = inner.pools();
        for core in inner.connections.all() {
            let occupancy = core.occupancy();
            pools.connections += 1;
            pools.send_entries += u64::from(occupancy.send);
            pools.receive_entries += u64::from(occupancy.receive);
            pools.completions += u64::from(occupancy.completions);
        }
        let connections = inner.connections.all();
        let synchronised = |core: &Arc<Core>| core.congestion().parameters.synchronised_clocks;
        let synchronised = !connections.is_empty() && connections.iter().all(synchronised);
        Ok(NodeStats {
            attach: inner.attach,
            transmit: self.transmit()?,
            engine: self.engine()?,
            rate_update: inner.rate_update.status(&counters),
            delays: DelayHistograms::new(inner.instruments.delays()?.iter(), synchronised),
            counters,
            pools,
            connections: inner.connections.statistics(&inner.shared)?,
        })
    }
}

/// Starts the thread that polls the connections. The node stops it before it drops the last reference to `shared`.
fn poll(shared: &Arc<Shared>, connections: &Arc<Connections>, notices: NoticeRing) -> Result<(), Error> {
    let (weak, watched) = (Arc::downgrade(shared), Arc::clone(connections));
    let look = move |arm| {
        let _shared = weak.upgrade()?;
        Some(watched.look(arm))
    };
    shared.poller.start(look, notices)
}

/// Checks that handles can be sent to any thread.
const _: () = {
    const fn handle<T: Send + Sync + Clone>() {}
    handle::<Node>();
    handle::<Connection>();
    handle::<MemoryRegion>();
    handle::<tiercel::CompletionQueue>();
};

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(change: impl FnOnce(&mut NodeOptions)) -> NodeError {
        let mut options = NodeOptions::new("lo", "10.7.0.1".parse().expect("an address"));
        change(&mut options);
        Node::up(options).expect_err("refused before anything is loaded")
    }

    #[test]
    fn interfaces_that_cannot_be_used_are_refused() {
        assert!(matches!(refused(|_| ()), NodeError::Loopback { .. }));
        let unknown = refused(|o| o.interface = "no-such-one".into());
        assert!(
            matches!(&unknown, NodeError::UnknownInterface { available, .. } if available.contains(&"lo".into()))
        );
        let batch = refused(|o| o.engine.batch = Some(0));
        assert!(matches!(batch, NodeError::EngineOption { option: "batch", .. }));
    }
}

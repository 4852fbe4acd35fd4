//! The parts of a running node, and its end.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};

use tiercel::Error;
use tiercel::backend::{Cids, Connections, Quiescence, Regions, Shared};
use tiercel::status::Pools;
use tokio::sync;
use transport_common::counters::Counter;
use transport_common::queues::{CELLS, CONNECTIONS, REGIONS};

use crate::node::engine::{Engine, EngineState};
use crate::node::grace::GracePeriods;
use crate::node::instruments::Instruments;
use crate::node::interface::gro::GroOn;
use crate::node::interface::link::Link;
use crate::node::interface::netlink::Netlink;
use crate::node::rate_update::RateUpdate;
use crate::node::receive_timestamps::Stamping;
use crate::node::watch::{Lost, Watch, Watched};
use crate::node::xdp::attach_mode::AttachMode;
use crate::node::xdp::loader::Attachment;
use crate::node::xdp::transmit::CurrentWay;

/// What all clones of a node share.
#[derive(Debug)]
pub(super) struct Inner {
    pub(super) link: Link,
    pub(super) attach: AttachMode,
    pub(super) shared: Arc<Shared>,
    pub(super) instruments: Arc<Instruments>,
    pub(super) grace: Arc<GracePeriods>,
    pub(super) rate_update: Arc<RateUpdate>,
    pub(super) netlink: Netlink,
    pub(super) cids: Arc<Cids>,
    pub(super) connections: Arc<Connections>,
    pub(super) regions: Arc<Regions>,
    /// `None` if the node is down.
    pub(super) running: Mutex<Option<Running>>,
    pub(super) watch: Watch,
    /// Why the node went down by itself, if it did.
    pub(super) lost: sync::watch::Sender<Option<Lost>>,
}

/// The running parts of the datapath. The fields are dropped in this order.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) engine: Engine,
    pub(super) attachment: Arc<Mutex<Attachment>>,
    pub(super) transmit: CurrentWay,
    pub(super) stamping: Stamping,
    /// GRO, switched on for a veth in generic mode.
    pub(super) _gro: Option<GroOn>,
}

impl Inner {
    pub(super) fn counters(&self) -> Result<BTreeMap<String, u64>, Error> {
        let value = |counter: &Counter| Ok((counter.name().to_owned(), self.instruments.counter(*counter)?));
        Counter::ALL.iter().map(value).collect()
    }

    pub(super) fn pools(&self) -> Pools {
        let memory = self.link.device().memory;
        Pools {
            cells_in_use: self.shared.maps.node().cells_in_use.load(SeqCst),
            cells: CELLS as u64,
            connection_slots: CONNECTIONS,
            regions: self.regions.all().len(),
            region_slots: REGIONS,
            memory_used: memory - self.shared.pool.free_bytes() as u64,
            memory,
            ..Pools::default()
        }
    }

    pub(super) fn down(&self) {
        let Some(running) = self.running.lock().expect("no panic under the lock").take() else { return };
        self.shared.datapath.set_down();
        drop(running);
        self.watch.stop();
        self.shared.poller.stop();
        self.rate_update.stop();
        // The wire program is detached. It may still run for a packet that arrived before.
        self.grace.stop();
        self.grace.wait();
        self.connections.release_all();
    }

    /// Returns why the node cannot go on, if so.
    fn what_is_lost(&self) -> Option<Lost> {
        let running = self.running.lock().expect("no panic under the lock");
        let running = running.as_ref()?;
        if let EngineState::Failed(reason) = running.engine.status().state {
            return Some(Lost::Engine { reason });
        }
        if let Some(lost) = self.link.follow(&self.netlink) {
            return Some(lost);
        }
        // If the lock is taken, another thread replaces the programs at this moment.
        let mut attachment = running.attachment.try_lock().ok()?;
        attachment.pass_on_log();
        follow_driver(&mut attachment);
        self.follow_queues(&mut attachment);
        match attachment.is_in_place() {
            Ok(true) => return None,
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(%error, "cannot check whether the node's program is attached");
                return None;
            }
        }
        let device = self.link.device();
        let interface = device.interface.clone();
        match self.netlink.interface(device.index).unwrap_or_default() {
            Some(there) => Some(Lost::Detached { interface, by: there.xdp.map(|xdp| xdp.id) }),
            None => Some(Lost::InterfaceGone { interface }),
        }
    }
}

impl Inner {
    fn follow_queues(&self, attachment: &mut Attachment) {
        let name = &self.link.device().interface;
        match attachment.follow_queues(name) {
            Ok(None) => {}
            Ok(Some((before, now))) => {
                let change = match before == now {
                    true => format!("its {now} receive queues were set again"),
                    false => format!("it has {now} receive queues now, it had {before}"),
                };
                let text = format!("interface {name}: {change}: the node's program is on all of them");
                self.link.tell(vec![text]);
            }
            Err(error) => {
                tracing::warn!(%error, "packets of the interface's new queues do not reach the node")
            }
        }
    }
}

impl Watched for Inner {
    fn look(&self) -> bool {
        let Some(lost) = self.what_is_lost() else { return !self.shared.is_down() };
        tracing::error!("{lost}");
        self.down();
        self.lost.send_replace(Some(lost));
        false
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.down();
    }
}

/// Has frames leave in another way where the driver has another.
fn follow_driver(attachment: &mut Attachment) {
    match attachment.choose_transmit() {
        Ok(true) => tracing::info!("frames leave by {} now", attachment.transmit().get()),
        Ok(false) => {}
        Err(error) => tracing::warn!(%error, "frames do not leave in the way that the driver has now"),
    }
}

//! The service of a running node: answers the control socket, keeps the regions and receives of local programs,
//! and serves file transfers.

use std::collections::{BTreeMap, HashMap};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use serde_json::Value;
use tiercel::congestion::{CongestionChange, CongestionControl, CongestionParameters, PROFILES};
use tiercel::control::answer::{self, ListedConnection, ManagerInfo, NodeStatus, ShownConnection};
use tiercel::control::{Call, Failure, FailureKind, Request, VERSION, request};
use tiercel::{Connection, Device, ScopedAddress};
use tokio::sync::Notify;
use tracing::warn;
use transport_common::ids::Cid;

use super::server::{Handler, ProgressSender};
use crate::Node;
use crate::common::mutex::lock;
use crate::config::ReceiveOptions;
use crate::connection_manager::{
    ConnectError, ConnectionManager, FileMessage, ListeningPlace, ManagerOptions, NodeHost, Notice, Notices,
    StartError, Terms,
};

mod buffers;
mod copies;
mod disk;
mod inbox;
mod link;
mod operations;
mod receive_requests;
mod receives;
mod region_table;
mod regions;
mod semaphores;
mod served;
mod serving;
mod trace;
mod traces;
mod transfer;

use disk::{FileSystem, HostFiles, Lanes};
use inbox::Inbox;
use receives::Receives;
use region_table::RegionTable;
pub use served::{ServeError, ServedNode};
use serving::Serving;
use traces::Traces;
use transfer::{Transfers, Turns};

/// Longest time that `close` and `reset` wait for the datapath to end a connection, and `cc` and `xlr` for it to take a
/// change.
const CLOSING: Duration = Duration::from_secs(5);
/// Time between two looks whether the datapath has taken `xlr`.
const LOOKING: Duration = Duration::from_millis(1);

/// Options with which the service of a node is started.
#[derive(Clone, Debug)]
pub struct ServiceOptions {
    /// Name of the node.
    pub name: String,
    /// Options of the connection manager.
    pub manager: ManagerOptions,
    /// Where peers may store and fetch files, if anywhere.
    pub receive: Option<ReceiveOptions>,
    /// Profiles: parameters of congestion control by name.
    pub profiles: BTreeMap<String, CongestionParameters>,
}

/// The service of a node. Clones refer to the same service.
#[derive(Clone)]
pub struct NodeService {
    inner: Arc<Inner>,
}

struct Inner {
    name: String,
    started: Instant,
    host: NodeHost,
    manager: ConnectionManager<NodeHost>,
    regions: RegionTable,
    receives: Receives,
    transfers: Transfers,
    serving: Serving,
    turns: Turns,
    traces: Traces,
    files: Arc<dyn FileSystem>,
    lanes: Lanes,
    inbox: Option<Arc<Inbox>>,
    profiles: BTreeMap<String, CongestionParameters>,
    /// Default of connections.
    congestion: CongestionControl,
    /// The congestion control that was set for connections that are set up again when they are lost.
    changed: Mutex<HashMap<Cid, CongestionControl>>,
    down: Notify,
}

impl NodeService {
    /// Starts the connection manager and serves its peers.
    ///
    /// # Errors
    /// The connection manager cannot listen.
    #[expect(clippy::unused_async, reason = "it needs a runtime")]
    pub async fn start(node: Node, options: ServiceOptions) -> Result<Self, StartError> {
        let device = node.device();
        let place = ListeningPlace::take(device.address, options.manager.port, device.index)?;
        Ok(Self::start_at(place, node, options))
    }

    /// Starts like [`Self::start`], with a listening socket that is already bound.
    fn start_at(place: ListeningPlace, node: Node, options: ServiceOptions) -> Self {
        let host = NodeHost::new(node);
        let congestion = options.manager.tuning.congestion;
        let files: Arc<dyn FileSystem> = Arc::new(HostFiles);
        let inbox = options.receive.map(|receive| Arc::new(Inbox::new(receive, Arc::clone(&files))));
        let (manager, notices) = ConnectionManager::start_at(place, host.clone(), options.manager);
        let inner = Arc::new(Inner {
            name: options.name,
            started: Instant::now(),
            host,
            manager,
            regions: RegionTable::default(),
            receives: Receives::default(),
            transfers: Transfers::default(),
            serving: Serving::default(),
            turns: Turns::default(),
            traces: Traces::default(),
            files,
            lanes: Lanes::default(),
            inbox,
            profiles: options.profiles,
            congestion,
            changed: Mutex::default(),
            down: Notify::new(),
        });
        tokio::spawn(take_notices(Arc::downgrade(&inner), notices));
        Self { inner }
    }

    /// Returns when a client asks the node to go down.
    pub async fn down_requested(&self) {
        self.inner.down.notified().await;
    }

    /// Ends the sessions with all peers and brings the node down.
    pub async fn shut_down(&self) {
        self.inner.manager.shut_down().await;
        self.node().down();
    }

    /// Returns the connection manager.
    pub fn manager(&self) -> &ConnectionManager<NodeHost> {
        &self.inner.manager
    }

    fn node(&self) -> &Node {
        self.inner.host.node()
    }

    fn connection(&self, cid: u32) -> Result<Connection, Failure> {
        self.node().connection(Cid(cid)).ok_or_else(|| {
            Failure::invalid(match self.inner.manager.successor(Cid(cid)) {
                Some(Cid(by)) => {
                    format!("connection {cid} was lost, and connection {by} took its place: use {by}")
                }
                None => format!("no connection has CID {cid}: see `tiercel conn list`"),
            })
        })
    }

    fn status(&self) -> Result<NodeStatus, Failure> {
        let stats = self.node().stats()?;
        let manager = &self.inner.manager;
        Ok(NodeStatus {
            name: self.inner.name.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            control_version: VERSION,
            pid: std::process::id(),
            uptime_s: self.inner.started.elapsed().as_secs(),
            device: Device::clone(&self.node().device()),
            attach: stats.attach,
            transmit: stats.transmit,
            engine: stats.engine,
            connection_manager: ManagerInfo {
                address: manager.address(),
                sessions: manager.sessions().len(),
                reconnecting: manager.reconnecting(),
            },
            receive_timestamps: self.node().receive_timestamps()?,
            receive_directory: self.inner.inbox.as_ref().map(|inbox| inbox.options().directory.clone()),
            receive_limits: self.inner.inbox.as_ref().map(|inbox| inbox.limits()),
            trace: self.inner.traces.status(),
            algorithms: self.node().algorithms().names().into_iter().map(str::to_owned).collect(),
            profiles: self.profiles(),
            pools: stats.pools,
            rate_update: stats.rate_update,
            events: manager.events(),
        })
    }

    fn stats(&self) -> Result<answer::Stats, Failure> {
        let connection_manager = self.inner.manager.statistics();
        Ok(answer::Stats { node: self.node().stats()?, connection_manager })
    }

    fn connections(&self) -> Vec<ListedConnection> {
        let sessions = self.inner.manager.sessions();
        let managed = |cid: u32| sessions.iter().any(|session| session.local_cid == cid);
        let all = self.node().connections().into_iter();
        all.map(|info| ListedConnection { managed: managed(info.local_cid.0), info }).collect()
    }

    fn show(&self, cid: u32) -> Result<ShownConnection, Failure> {
        let session = self.inner.manager.sessions().into_iter().find(|session| session.local_cid == cid);
        let (info, transactions) = self.connection(cid)?.info_and_transactions()?;
        Ok(ShownConnection {
            info,
            transactions,
            receive_timestamps: self.node().receive_timestamps()?,
            managed: session.is_some(),
            session,
        })
    }

    /// The names of all profiles: those that every node has, and those of the node file.
    fn profiles(&self) -> Vec<String> {
        PROFILES.into_iter().map(str::to_owned).chain(self.inner.profiles.keys().cloned()).collect()
    }

    /// `base` with a change by names.
    fn changed(
        &self,
        base: &CongestionControl,
        change: &CongestionChange,
    ) -> Result<CongestionControl, Failure> {
        let profiles = &self.inner.profiles;
        let profile = |name: &str| {
            let own = profiles.get(name).copied();
            own.or_else(|| CongestionParameters::built_in(name)).ok_or_else(|| {
                let known = self.profiles().join(", ");
                format!("there is no profile \"{name}\": choose from {known}, or add [profile.{name}] to the node file")
            })
        };
        change.apply(base, profile, &self.node().algorithms()).map_err(Failure::invalid)
    }

    async fn connect(&self, what: &request::Connect) -> Result<ShownConnection, Failure> {
        // Wrong settings are refused before the connection is opened.
        let congestion = self.changed(&self.inner.congestion, &what.congestion)?;
        if let Some(tunnel) = what.tunnel {
            tunnel.check().map_err(|error| Failure::invalid(error.to_string()))?;
        }
        let peer = ScopedAddress { address: what.address, scope: what.scope.clone() };
        let peer = peer.on(&self.node().device().interface).map_err(Failure::invalid)?;
        let request::Connect { ordered, rack_tlp, ulp, tunnel, reconnect, .. } = *what;
        let patience = what.patience_ms.map(Duration::from_millis);
        let terms = Terms { ordered, rack_tlp, ulp, tunnel, patience, reconnect };
        let cid = self.inner.manager.connect(peer, what.port, terms).await?;
        if !what.congestion.is_empty() {
            if reconnect {
                lock(&self.inner.changed).insert(cid, congestion);
            }
            self.connection(cid.0)?.set_congestion(congestion).await?;
        }
        self.show(cid.0)
    }

    async fn set_congestion(&self, what: &request::SetCongestion) -> Result<ShownConnection, Failure> {
        let request::SetCongestion { cid, congestion: change } = what;
        let connection = self.connection(*cid)?;
        if !change.is_empty() {
            let congestion = self.changed(&connection.congestion(), change)?;
            if self.inner.manager.reconnects(Cid(*cid)) {
                lock(&self.inner.changed).insert(Cid(*cid), congestion);
            }
            let set = tokio::time::timeout(CLOSING, connection.set_congestion(congestion)).await;
            set.map_err(|_| {
                let text = format!(
                    "connection {cid} did not take its new congestion control: check with `tiercel status` that the engine runs"
                );
                Failure::new(FailureKind::Node, text)
            })??;
        }
        self.show(*cid)
    }

    async fn reset(&self, cid: u32) -> Result<ShownConnection, Failure> {
        self.connection(cid)?;
        if self.inner.manager.peer(Cid(cid)).is_some() {
            return Err(Failure::invalid(format!(
                "only a static connection can be reset, and connection {cid} belongs to the connection manager: close it with \
                 `tiercel conn close {cid}`, then connect again"
            )));
        }
        // The reset goes on if it takes longer than this call waits: given up, it would leave the connection closed.
        let node = self.node().clone();
        let reset = tokio::spawn(async move { node.reset(Cid(cid)).await.map(drop) });
        let reset = tokio::time::timeout(CLOSING, reset).await.map_err(|_| {
            let text = format!(
                "connection {cid} does not end: check with `tiercel status` that the engine runs; the reset goes on when it does"
            );
            Failure::new(FailureKind::Node, text)
        })?;
        reset.map_err(|error| Failure::new(FailureKind::Node, format!("the reset failed: {error}")))??;
        self.show(cid)
    }

    async fn drop_requests(&self, cid: u32, dropped: bool) -> Result<ShownConnection, Failure> {
        let connection = self.connection(cid)?;
        connection.drop_requests(dropped);
        let done = async {
            loop {
                let shown = self.show(cid)?;
                if shown.info.drops_requests == dropped {
                    return Ok(shown);
                }
                tokio::time::sleep(LOOKING).await;
            }
        };
        tokio::time::timeout(CLOSING, done).await.unwrap_or_else(|_| {
            let text = format!(
                "connection {cid} did not take the command: check with `tiercel status` that the engine runs"
            );
            Err(Failure::new(FailureKind::Node, text))
        })
    }

    async fn close(&self, cid: u32) -> Result<answer::Closed, Failure> {
        let closed = self.inner.manager.close(Cid(cid)).await;
        let connection = match self.connection(cid) {
            Ok(connection) => connection,
            // It was lost, and was being set up again.
            Err(_) if closed => return Ok(answer::Closed { closed: cid }),
            Err(failure) => return Err(failure),
        };
        if !closed {
            connection.close();
        }
        if tokio::time::timeout(CLOSING, connection.closed()).await.is_err() {
            let text =
                format!("connection {cid} does not end: check with `tiercel status` that the engine runs");
            return Err(Failure::new(FailureKind::Node, text));
        }
        Ok(answer::Closed { closed: cid })
    }

    fn go_down(&self) -> answer::WentDown {
        self.inner.down.notify_one();
        answer::WentDown { down: self.inner.name.clone() }
    }

    /// Gives the connection that takes the place of a lost one the congestion control that was set for that one.
    fn take_over(self, lost: Cid, by: Cid) {
        let congestion = {
            let mut changed = lock(&self.inner.changed);
            let Some(congestion) = changed.remove(&lost) else { return };
            changed.insert(by, congestion);
            congestion
        };
        tokio::spawn(async move {
            let Some(connection) = self.node().connection(by) else { return };
            if let Err(error) = connection.set_congestion(congestion).await {
                warn!("connection {} has not the congestion control of connection {}: {error}", by.0, lost.0);
            }
        });
    }
}

impl Handler for NodeService {
    async fn handle(
        &self,
        request: Request,
        files: Vec<OwnedFd>,
        progress: ProgressSender,
    ) -> Result<Value, Failure> {
        match request {
            Request::Status(call) => result(&call, self.status()),
            Request::Stats(call) => result(&call, self.stats()),
            Request::Down(call) => result(&call, Ok(self.go_down())),
            Request::Connections(call) => result(&call, Ok(self.connections())),
            Request::Connection(call) => result(&call, self.show(call.cid)),
            Request::Connect(call) => result(&call, self.connect(&call).await),
            Request::SetCongestion(call) => result(&call, self.set_congestion(&call).await),
            Request::Reset(call) => result(&call, self.reset(call.cid).await),
            Request::DropRequests(call) => result(&call, self.drop_requests(call.cid, call.dropped).await),
            Request::Close(call) => result(&call, self.close(call.cid).await),
            Request::Regions(call) => result(&call, Ok(self.list_regions())),
            Request::RegisterRegion(call) => result(&call, self.register_region(call.clone())),
            Request::DeregisterRegion(call) => result(&call, self.deregister_region(call.rkey)),
            Request::ReadRegion(call) => result(&call, self.read_region(&call).await),
            Request::WriteRegion(call) => result(&call, self.write_region(&call).await),
            Request::Write(call) => result(&call, self.write(&call).await),
            Request::Read(call) => result(&call, self.read(&call).await),
            Request::Send(call) => result(&call, self.send(&call).await),
            Request::PostReceive(call) => result(&call, self.post_receives(call).await),
            Request::Receives(call) => result(&call, self.list_receives(call.cid)),
            Request::Message(call) => result(&call, self.read_message(call)),
            Request::Atomic(call) => result(&call, self.atomic(call).await),
            Request::Trace(call) => result(&call, self.trace(call.clone(), &progress).await),
            Request::StopTrace(call) => result(&call, self.stop_trace()),
            Request::Copy(call) => result(&call, self.copy(call.clone(), files, &progress).await),
        }
    }
}

/// Returns the answer to a call as JSON. The signature makes sure that the answer has the type of the call.
fn result<C: Call>(_: &C, outcome: Result<C::Answer, Failure>) -> Result<Value, Failure> {
    serde_json::to_value(outcome?).map_err(|error| Failure::new(FailureKind::Node, error.to_string()))
}

/// Handles the notices of the connection manager, until the service is dropped.
async fn take_notices(service: Weak<Inner>, mut notices: Notices) {
    while let Some(notice) = notices.recv().await {
        let Some(inner) = service.upgrade() else { return };
        match notice {
            Notice::File(cid, step) => {
                // All other messages are late steps of transfers that have ended.
                if let Some(step @ (FileMessage::Offer { .. } | FileMessage::Fetch { .. })) =
                    inner.transfers.deliver(cid, step)
                {
                    NodeService { inner }.begin_to_serve(cid, step);
                }
            }
            Notice::Ended(cid) => {
                inner.transfers.connection_ended(cid);
                inner.receives.connection_ended(cid);
                if !inner.manager.reconnecting().iter().any(|lost| lost.cid == cid.0) {
                    lock(&inner.changed).remove(&cid);
                }
            }
            Notice::Replaced { lost, by } => NodeService { inner }.take_over(lost, by),
        }
    }
}

/// Checks that a path is absolute. The client does not know the working directory of the node.
fn absolute(path: &Path) -> Result<&Path, Failure> {
    if path.is_absolute() {
        return Ok(path);
    }
    Err(Failure::invalid(format!("{} is not absolute: name files by absolute path", path.display())))
}

impl From<ConnectError> for Failure {
    fn from(error: ConnectError) -> Self {
        Self::new(FailureKind::Connect, error.to_string())
    }
}

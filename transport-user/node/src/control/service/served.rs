//! A node that is configured by a node file and has a control socket. `tiercel up` runs one. A program with custom
//! algorithms can run one as well.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tiercel::control::SocketError;
use tiercel::{Device, Error, LARGEST_MTU, LocalCid};
use tracing::{info, warn};

use super::{NodeService, ServiceOptions};
use crate::config::NodeFile;
use crate::connection_manager::{ListeningPlace, ManagerOptions, StartError, Timing};
use crate::control::{Server, bind};
use crate::{Lost, Node, NodeError, NodeOptions};

/// Why a node could not be brought up and served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The control socket.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The node.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// A static connection of the node file.
    #[error("static connection {cid}: {error}")]
    Connection {
        /// Its local CID.
        cid: u32,
        /// Why.
        #[source]
        error: Error,
    },
    /// The connection manager.
    #[error(transparent)]
    Manager(#[from] StartError),
}

/// A running node with its static connections, its connection manager, and a control socket.
///
/// ```no_run
/// # async fn serve() -> anyhow::Result<()> {
/// use tiercel_node::config::NodeFile;
/// use tiercel::control::default_path;
/// use tiercel_node::control::service::ServedNode;
///
/// let file = NodeFile::load("node.toml".as_ref())?;
/// let node = ServedNode::start(&file, file.node.options(), default_path(&file.node.name)).await?;
/// node.down_requested().await;
/// node.shut_down().await;
/// # Ok(())
/// # }
/// ```
pub struct ServedNode {
    service: NodeService,
    server: Server,
}

impl ServedNode {
    /// Brings up the node of a node file, and listens on `socket`. `options` are those of
    /// [`file.node.options()`](crate::config::NodeSection::options), with changes if needed. Peers may store and
    /// fetch files in the directory of `file.node.receive`, if there is one.
    ///
    /// # Errors
    /// See [`ServeError`]. In that case, everything is cleaned up.
    pub async fn start(file: &NodeFile, options: NodeOptions, socket: PathBuf) -> Result<Self, ServeError> {
        // The socket comes first: a second node with the same name fails here, before it touches the interface.
        let listener = bind(&socket)?;
        let started = start_service(file, options);
        let service = started.inspect_err(|_| unbind(&socket))?;
        let manager = service.manager().address();
        info!("connection manager on {manager}, control socket {}", socket.display());
        warn!("plaintext mode: packets are neither encrypted nor authenticated, and any host may connect"); // D-83
        let server = Server::start(listener, socket, Arc::new(service.clone()));
        Ok(Self { service, server })
    }

    /// Returns the node.
    pub fn node(&self) -> &Node {
        self.service.node()
    }

    /// Returns when a client asks the node to go down.
    pub async fn down_requested(&self) {
        self.service.down_requested().await;
    }

    /// Returns the reason when the node goes down by itself. See [`Node::lost`].
    pub async fn lost(&self) -> Lost {
        self.node().lost().await
    }

    /// Ends the sessions with all peers and brings the node down.
    pub async fn shut_down(self) {
        self.service.shut_down().await;
        // The socket is removed last: the answer to `tiercel down` is sent by then, and no other node can take the
        // name before the interface is free.
        drop(self.server);
    }
}

fn start_service(file: &NodeFile, options: NodeOptions) -> Result<NodeService, ServeError> {
    let section = &file.node;
    // The port is taken before the interface, because `force` replaces the program of another node: a later
    // failure would leave that node without its interface.
    let take = |device: &Device| -> Result<_, ServeError> {
        Ok(ListeningPlace::take(device.address, section.control_port, device.index)?)
    };
    let (node, place) = Node::up_after(options, take)?;
    let device = node.device();
    info!(
        "{} is up on {} ({}, MTU {}, up to {} bytes per transaction)",
        section.name, device.interface, device.address, device.mtu, device.max_segment
    );
    if device.mtu == LARGEST_MTU && device.interface_mtu > LARGEST_MTU {
        info!(
            "{} carries {} bytes, and a node serves an MTU of at most {LARGEST_MTU}",
            device.interface, device.interface_mtu
        );
    }
    if let Ok(way) = node.transmit() {
        info!("frames leave by {way}");
    }
    for connection in &file.connections {
        let cid = connection.local_cid;
        let opened = node.open(connection.to_open(LocalCid::Given(cid), None));
        opened.map_err(|error| ServeError::Connection { cid: cid.0, error })?;
        info!("connection {} to {} is open (static)", cid.0, connection.peer_address);
    }
    let options = ServiceOptions {
        name: section.name.clone(),
        manager: ManagerOptions {
            port: section.control_port,
            tuning: section.tuning,
            timing: Timing { patience: section.patience, ..Timing::default() },
            limits: section.limits,
        },
        receive: section.receive.clone(),
        profiles: file.profiles.clone(),
    };
    Ok(NodeService::start_at(place, node, options))
}

/// Removes the socket of a node that does not come up.
fn unbind(socket: &Path) {
    // An error does no harm: a stale socket is replaced at the next start.
    let _ = std::fs::remove_file(socket);
}

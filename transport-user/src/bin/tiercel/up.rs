//! `up`: a node in the foreground.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use std::sync::Arc;
use tokio::signal::unix::{SignalKind, signal};
use tracing::{info, warn};
use transport_user::config::{NodeFile, NodeSection, StaticConnection, is_name};
use transport_user::connection_manager::{ManagerOptions, Timing};
use transport_user::control::service::{NodeService, ServiceOptions};
use transport_user::control::{Server, bind, default_path};
use transport_user::{AttachMode, EngineMode, EngineOptions, LocalCid, NodeOptions};

use crate::cli::Up;
use crate::exit::Exit;
use crate::talk::Node;

pub(crate) async fn up(arguments: Up, node: Node) -> Result<(), Exit> {
    let file = node_file(&arguments)?;
    let receive_directory = receive_directory(arguments.receive_dir.as_deref())?;
    let section = &file.node;
    let socket = node.named_socket().unwrap_or_else(|| default_path(&section.name));
    // Signals count from now on, so that one during the start ends it cleanly as well.
    let mut interrupt = signal(SignalKind::interrupt()).map_err(Exit::node)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(Exit::node)?;
    // The socket first: a second node of the same name ends here, before it touches the interface.
    let listener = bind(&socket)?;
    let running =
        transport_user::Node::up(node_options(&arguments, section)).inspect_err(|_| unbind(&socket));
    let running = running.map_err(Exit::node)?;
    let device = running.device();
    info!(
        "{} is up on {} ({}, MTU {}, up to {} bytes a transaction)",
        section.name, device.interface, device.address, device.mtu, device.max_segment
    );
    let opened = file.connections.iter().try_for_each(|connection| open_static(&running, connection));
    opened.inspect_err(|_| unbind(&socket))?;
    let options = ServiceOptions {
        name: section.name.clone(),
        manager: ManagerOptions {
            port: section.control_port,
            tuning: section.tuning,
            timing: Timing::default(),
        },
        receive_directory,
        profiles: file.profiles.clone(),
    };
    let service =
        NodeService::start(running, options).await.inspect_err(|_| unbind(&socket)).map_err(Exit::node)?;
    info!("connection manager on {}, control socket {}", service.manager().address(), socket.display());
    warn!("plaintext mode: packets are neither encrypted nor authenticated, and any host may connect"); // D-83
    let server = Server::start(listener, socket, Arc::new(service.clone()));
    tokio::select! {
        _ = interrupt.recv() => info!("interrupted"),
        _ = terminate.recv() => info!("asked to terminate"),
        () = service.down_requested() => info!("asked to go down"),
    }
    service.shut_down().await;
    // Last, so that the answer to `tiercel down` is on its way and nobody takes the name before the interface is free.
    drop(server);
    info!("down");
    Ok(())
}

/// The node file, or what the options say instead; options that both know win.
fn node_file(arguments: &Up) -> Result<NodeFile, Exit> {
    let mut file = match (&arguments.config, &arguments.interface, arguments.address) {
        (Some(path), _, _) => NodeFile::load(path).map_err(Exit::usage)?,
        (None, Some(interface), Some(address)) => NodeFile {
            node: NodeSection::new(interface.clone(), address),
            connections: Vec::new(),
            profiles: BTreeMap::new(),
        },
        _ => return Err(Exit::usage("name a node file with --config, or --interface and --address")),
    };
    let node = &mut file.node;
    if let Some(name) = &arguments.name {
        if !is_name(name) {
            return Err(Exit::usage(
                "--name takes letters, digits, dots, dashes and underscores, no dot first",
            ));
        }
        node.name.clone_from(name);
    }
    node.mtu = arguments.mtu.or(node.mtu);
    node.control_port = arguments.control_port.unwrap_or(node.control_port);
    Ok(file)
}

fn node_options(arguments: &Up, section: &NodeSection) -> NodeOptions {
    let default = EngineOptions::default();
    let mode = if arguments.busy { EngineMode::Busy } else { EngineMode::Sleeping };
    NodeOptions {
        mtu: section.mtu,
        attach: if arguments.generic { AttachMode::Generic } else { AttachMode::Native },
        force: arguments.force,
        engine: EngineOptions {
            mode,
            cpu: arguments.cpu,
            batch: arguments.batch,
            spin: arguments.spin.unwrap_or(default.spin),
        },
        rate_update: section.rate_update,
        ..NodeOptions::new(section.interface.clone(), section.address)
    }
}

fn open_static(node: &transport_user::Node, connection: &StaticConnection) -> Result<(), Exit> {
    let cid = connection.local_cid;
    let failed = |error| Exit::node(format!("static connection {}: {error}", cid.0));
    node.open(connection.to_open(LocalCid::Given(cid), None)).map_err(failed)?;
    info!("connection {} to {} is open (static)", cid.0, connection.peer_address);
    Ok(())
}

fn receive_directory(directory: Option<&Path>) -> Result<Option<PathBuf>, Exit> {
    let Some(directory) = directory else { return Ok(None) };
    let failed = |error| Exit::file(format!("--receive-dir {}: {error}", directory.display()));
    let directory = directory.canonicalize().map_err(failed)?;
    if !directory.is_dir() {
        return Err(Exit::file(format!("--receive-dir {} is not a directory", directory.display())));
    }
    Ok(Some(directory))
}

/// A node that does not come up leaves no socket.
fn unbind(socket: &Path) {
    let _ = std::fs::remove_file(socket); // a stale socket is replaced at the next start anyway
}

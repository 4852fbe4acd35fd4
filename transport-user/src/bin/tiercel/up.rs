//! `up`: a node in the foreground.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tokio::signal::unix::{SignalKind, signal};
use tracing::info;
use transport_user::config::{NodeFile, NodeSection, is_name};
use transport_user::control::default_path;
use transport_user::control::service::ServedNode;
use transport_user::{AttachMode, EngineMode, EngineOptions, NodeOptions};

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
    let options = node_options(&arguments, section);
    let served = ServedNode::start(&file, options, socket, receive_directory).await?;
    let ended = tokio::select! {
        lost = served.lost() => Err(Exit::node(lost)),
        _ = interrupt.recv() => Ok("interrupted"),
        _ = terminate.recv() => Ok("asked to terminate"),
        () = served.down_requested() => Ok("asked to go down"),
    };
    if let Ok(why) = ended {
        info!("{why}");
    }
    served.shut_down().await;
    info!("down");
    ended.map(drop)
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
    node.hardware_timestamps = arguments.hardware_timestamps.or(node.hardware_timestamps);
    node.control_port = arguments.control_port.unwrap_or(node.control_port);
    Ok(file)
}

fn node_options(arguments: &Up, section: &NodeSection) -> NodeOptions {
    let default = EngineOptions::default();
    let mode = if arguments.busy { EngineMode::Busy } else { EngineMode::Sleeping };
    NodeOptions {
        attach: if arguments.generic { AttachMode::Generic } else { AttachMode::Native },
        force: arguments.force,
        bpf_log: arguments.bpf_log,
        engine: EngineOptions {
            mode,
            cpu: arguments.cpu,
            batch: arguments.batch,
            spin: arguments.spin.unwrap_or(default.spin),
            signal: default.signal,
        },
        ..section.options()
    }
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

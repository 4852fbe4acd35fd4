//! `up`: runs a node in the foreground.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tiercel_node::config::{NodeFile, NodeSection, ReceiveOptions, is_name};
use tiercel_node::control::service::ServedNode;
use tiercel_node::{AttachMode, EngineMode, EngineOptions, NodeOptions};
use tokio::signal::unix::{SignalKind, signal};
use tracing::info;

use crate::exit::Exit;
use crate::service_manager::{tell_ready, tell_stopping};
use crate::talk::Node;
use crate::up_arguments::Up;

pub(crate) async fn up(arguments: Up, node: Node) -> Result<(), Exit> {
    let mut file = node_file(&arguments)?;
    if let Some(receive) = &mut file.node.receive {
        receive.directory = receive_directory(&receive.directory)?;
    }
    let section = &file.node;
    let socket = node.own_socket(arguments.name.as_deref(), &section.name);
    // Signals are handled from here on, so that a signal during the start also ends the node cleanly.
    let mut interrupt = signal(SignalKind::interrupt()).map_err(Exit::node)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(Exit::node)?;
    let options = node_options(&arguments, section);
    let served = ServedNode::start(&file, options, socket).await?;
    tell_ready(served.node());
    let ended = tokio::select! {
        lost = served.lost() => {
            tell_stopping(&lost.to_string());
            Err(Exit::node(lost))
        }
        _ = interrupt.recv() => Ok("going down: interrupted"),
        _ = terminate.recv() => Ok("going down: terminated"),
        () = served.down_requested() => Ok("going down: requested by a client"),
    };
    if let Ok(why) = ended {
        info!("{why}");
        tell_stopping(why);
    }
    served.shut_down().await;
    info!("the node is down");
    ended.map(drop)
}

/// Returns the node file with the options applied, or a node file made of the options alone. An option takes
/// precedence over the file.
fn node_file(arguments: &Up) -> Result<NodeFile, Exit> {
    let mut file = match (&arguments.config, &arguments.interface, &arguments.address) {
        (Some(path), _, _) => NodeFile::load(path).map_err(Exit::usage)?,
        (None, Some(interface), Some(address)) => NodeFile {
            node: NodeSection::new(interface.clone(), address.address),
            connections: Vec::new(),
            profiles: BTreeMap::new(),
        },
        (None, interface, address) => return Err(missing(interface.is_some(), address.is_some())),
    };
    let node = &mut file.node;
    if let Some(interface) = &arguments.interface {
        // The node has the name of the interface, unless the file gives it another one.
        if node.name == node.interface {
            node.name.clone_from(interface);
        }
        node.interface.clone_from(interface);
    }
    if let Some(name) = &arguments.name {
        if !is_name(name) {
            return Err(Exit::usage(
                "--name is not a name of a node: write 1 to 64 letters, digits, dots, dashes and underscores, no dot first",
            ));
        }
        node.name.clone_from(name);
    }
    if let Some(address) = &arguments.address {
        node.address = address.on(&node.interface).map_err(Exit::usage)?;
    }
    node.mtu = arguments.mtu.or(node.mtu);
    node.memory = arguments.memory.unwrap_or(node.memory);
    node.hardware_timestamps = arguments.hardware_timestamps.or(node.hardware_timestamps);
    node.control_port = arguments.control_port.unwrap_or(node.control_port);
    apply_receive(arguments, &mut node.receive)?;
    Ok(file)
}

/// Makes the error for missing options. It names all options that a node without a node file needs, and those that
/// are missing.
fn missing(interface: bool, address: bool) -> Exit {
    let missing: Vec<&str> = [("--interface IF", interface), ("--address IP", address)]
        .into_iter()
        .filter_map(|(option, given)| (!given).then_some(option))
        .collect();
    Exit::usage(format!(
        "a node needs --interface IF and --address IP, or a node file with --config FILE; missing: {}",
        missing.join(" and ")
    ))
}

fn node_options(arguments: &Up, section: &NodeSection) -> NodeOptions {
    let file = section.engine;
    let mode = match (arguments.busy, arguments.sleep) {
        (true, _) => EngineMode::Busy,
        (_, true) => EngineMode::Sleeping,
        _ => file.mode,
    };
    NodeOptions {
        attach: if arguments.generic { AttachMode::Generic } else { AttachMode::Native },
        force: arguments.force,
        transmit: arguments.transmit,
        bpf_log: arguments.bpf_log,
        engine: EngineOptions {
            mode,
            cpu: arguments.cpu.or(file.cpu),
            batch: arguments.batch.or(file.batch),
            spin: arguments.spin.unwrap_or(file.spin),
            signal: file.signal,
        },
        ..section.options()
    }
}

/// Applies the options about the receive directory.
fn apply_receive(arguments: &Up, receive: &mut Option<ReceiveOptions>) -> Result<(), Exit> {
    let Up { receive_dir, receive_overwrite, receive_max_file, receive_max_total, .. } = arguments;
    if let Some(directory) = receive_dir {
        let options = receive.get_or_insert_with(|| ReceiveOptions::new(directory.clone()));
        options.directory.clone_from(directory);
    }
    match receive {
        Some(options) => {
            options.overwrite |= receive_overwrite;
            options.max_file = receive_max_file.or(options.max_file);
            options.max_total = receive_max_total.or(options.max_total);
            Ok(())
        }
        None if *receive_overwrite || receive_max_file.or(*receive_max_total).is_some() => Err(Exit::usage(
            "there is no receive directory for --receive-overwrite, --receive-max-file and --receive-max-total: name one with \
             --receive-dir",
        )),
        None => Ok(()),
    }
}

/// Returns the absolute path of the receive directory.
fn receive_directory(directory: &Path) -> Result<PathBuf, Exit> {
    let failed = |error| Exit::file(format!("the receive directory {}: {error}", directory.display()));
    let found = directory.canonicalize().map_err(failed)?;
    if !found.is_dir() {
        return Err(Exit::file(format!("the receive directory {} is not a directory", directory.display())));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "[node]\ninterface = \"veth0\"\naddress = \"10.7.0.1\"\nmtu = 1500\nmemory = \"300MiB\"\ncontrol_port = 5000\n";

    #[test]
    fn options_outrank_the_node_file() {
        let directory = tempfile::tempdir().expect("a directory");
        let config = directory.path().join("node.toml");
        std::fs::write(&config, FILE).expect("a file");
        let read =
            |arguments: Up| node_file(&Up { config: Some(config.clone()), ..arguments }).expect("good").node;
        let plain = read(Up::default());
        assert_eq!((plain.name.as_str(), plain.mtu, plain.control_port), ("veth0", Some(1500), 5000));
        assert_eq!(plain.memory, 300 << 20);
        let other = read(Up {
            interface: Some("eth1".into()),
            address: "10.7.0.9".parse().ok(),
            mtu: Some(1400),
            memory: Some(1 << 30),
            control_port: Some(6000),
            ..Up::default()
        });
        assert_eq!((other.interface.as_str(), other.name.as_str()), ("eth1", "eth1"));
        assert_eq!(other.address.to_string(), "10.7.0.9");
        assert_eq!((other.mtu, other.control_port, other.memory), (Some(1400), 6000, 1 << 30));
        let named = read(Up { name: Some("left".into()), interface: Some("eth1".into()), ..Up::default() });
        assert_eq!((named.interface.as_str(), named.name.as_str()), ("eth1", "left"));
    }

    #[test]
    fn the_engine_has_the_options_of_the_node_file_unless_the_command_line_has_others() {
        let text = format!("{FILE}[node.engine]\nmode = \"busy\"\nbatch = 8\nsignal = 40\n");
        let section = NodeFile::parse(&text).expect("a good file").node;
        let engine = |arguments: Up| node_options(&arguments, &section).engine;
        let plain = engine(Up::default());
        assert_eq!((plain.mode, plain.batch, plain.signal), (EngineMode::Busy, Some(8), Some(40)));
        let other = engine(Up { sleep: true, batch: Some(4), ..Up::default() });
        assert_eq!((other.mode, other.batch), (EngineMode::Sleeping, Some(4)));
    }

    #[test]
    fn the_receive_directory_of_the_node_file_gets_the_options() {
        let text = "[node.receive]\ndirectory = \"/srv/in\"\nmax_file = \"1GiB\"\nmax_total = \"2GiB\"\n";
        let receive = NodeFile::parse(&format!("{FILE}{text}")).expect("a good file").node.receive;
        let applied = |arguments: Up, before: &Option<ReceiveOptions>| {
            let mut receive = before.clone();
            apply_receive(&arguments, &mut receive).map(|()| receive)
        };
        assert_eq!(applied(Up::default(), &receive), Ok(receive.clone()));
        let all = Up {
            receive_dir: Some("/there".into()),
            receive_overwrite: true,
            receive_max_file: Some(5),
            ..Up::default()
        };
        let expected = ReceiveOptions {
            directory: "/there".into(),
            overwrite: true,
            max_file: Some(5),
            max_total: Some(2 << 30),
        };
        assert_eq!(applied(all, &receive), Ok(Some(expected)));
        assert_eq!(applied(Up::default(), &None), Ok(None));
        let limits = || Up { receive_max_total: Some(5), ..Up::default() };
        assert!(applied(limits(), &None).is_err(), "there is no directory");
        let given = Up { receive_dir: Some("/there".into()), ..limits() };
        let plain = ReceiveOptions { max_total: Some(5), ..ReceiveOptions::new("/there".into()) };
        assert_eq!(applied(given, &None), Ok(Some(plain)));
    }

    #[test]
    fn all_that_is_missing_is_said_at_once() {
        let said = |arguments: Up| format!("{:?}", node_file(&arguments).expect_err("something is missing"));
        let nothing = said(Up::default());
        assert!(nothing.contains("missing: --interface IF and --address IP") && nothing.contains("--config"));
        let other =
            Up { address: "fe80::1%eth0".parse().ok(), interface: Some("eth1".into()), ..Up::default() };
        assert!(said(other).contains("the node's interface is"));
        let address = Up { address: "10.7.0.1".parse().ok(), ..Up::default() };
        assert!(said(address).contains("missing: --interface IF\""));
    }
}

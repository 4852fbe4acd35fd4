//! Notices to the service manager: systemd, or another program that sets `NOTIFY_SOCKET` (sd_notify(3)). A node that was
//! started by hand sends none.

use sd_notify::NotifyState;
use tiercel_node::Node;
use tracing::warn;

/// Reports that the node is ready: it serves packets, peers and the control socket.
pub(crate) fn tell_ready(node: &Node) {
    let device = node.device();
    let status = format!("serving {} on {}", device.interface, device.address);
    tell(&[NotifyState::Ready, NotifyState::Status(&status)]);
}

/// Reports that the node is about to end, and why.
pub(crate) fn tell_stopping(why: &str) {
    // The protocol is line-based.
    let why = why.replace('\n', " ");
    tell(&[NotifyState::Stopping, NotifyState::Status(&why)]);
}

/// Sends a notice. A failure is logged: it is no reason to end a node.
fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        warn!("the service manager could not be notified: {error}; see NOTIFY_SOCKET in the environment");
    }
}

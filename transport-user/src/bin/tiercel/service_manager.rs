//! What a node tells the program that started it: systemd, or whatever else sets `NOTIFY_SOCKET` (sd_notify(3)). A node
//! that was started by hand tells nobody.

use sd_notify::NotifyState;
use tracing::warn;
use transport_user::Node;

/// The node serves: packets, peers and the control socket.
pub(crate) fn tell_ready(node: &Node) {
    let device = node.device();
    let status = format!("serving {} on {}", device.interface, device.address);
    tell(&[NotifyState::Ready, NotifyState::Status(&status)]);
}

/// The node ends.
pub(crate) fn tell_stopping(why: &str) {
    // A line is the unit of the protocol.
    let why = why.replace('\n', " ");
    tell(&[NotifyState::Stopping, NotifyState::Status(&why)]);
}

/// A notice that cannot be sent does not end a node.
fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        warn!("the service manager could not be notified: {error}; see NOTIFY_SOCKET in the environment");
    }
}

//! Sets lost connections up again, for those who have asked for it.
//!
//! The connection that takes the place of a lost one is another incarnation: it has another CID and other sequence
//! numbers, and nothing that was outstanding is repeated. Whoever wants an operation repeated has its completion in error.

use std::sync::Arc;
use std::time::Duration;

use super::handshake;
use super::host::Host;
use super::reconnects::Lost;
use super::shared::Shared;

/// Pause after the first attempt that fails. Each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// Longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Begins a task for each lost connection, until it is aborted. A session that ends only says that it is lost: sessions come
/// from handshakes, so they know nothing of them.
pub(super) async fn watch<H: Host>(shared: Arc<Shared<H>>) {
    loop {
        shared.reconnects.news().await;
        shared.reconnects.begin(|lost| tokio::spawn(again(Arc::clone(&shared), lost)).abort_handle());
    }
}

async fn again<H: Host>(shared: Arc<Shared<H>>, lost: Lost) {
    let Lost { cid: lost, peer, terms } = lost;
    let mut pause = FIRST_PAUSE;
    loop {
        match handshake::connect(&shared, peer.ip(), peer.port(), terms).await {
            Ok(cid) => {
                shared.reconnects.succeeded(lost, cid);
                shared.events.note(format!(
                    "connection {} takes the place of connection {}, which was lost",
                    cid.0, lost.0
                ));
                shared.notices.replaced(lost, cid);
                return;
            }
            Err(error) => {
                let error = error.to_string();
                if shared.reconnects.failed(lost, &error) {
                    shared.events.warn(format!("connection {} cannot be set up again yet: {error}", lost.0));
                }
            }
        }
        tokio::time::sleep(pause).await;
        pause = (2 * pause).min(LONGEST_PAUSE);
    }
}

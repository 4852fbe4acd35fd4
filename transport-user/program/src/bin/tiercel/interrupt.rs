//! SIGINT, for all that a command waits for.

use std::future::pending;
use std::sync::LazyLock;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// Whether the user has interrupted. From its first use on the signal no longer ends the program, so everything that may
/// take long has to wait for this too. An interrupt between two waits ends the next one.
static INTERRUPTED: LazyLock<watch::Receiver<bool>> = LazyLock::new(|| {
    let (tell, told) = watch::channel(false);
    tokio::spawn(async move {
        // Without a handler, the signal ends the program without a word.
        if let Ok(mut interrupt) = signal(SignalKind::interrupt()) {
            interrupt.recv().await;
            tell.send_replace(true);
        }
        pending::<()>().await;
    });
    told
});

/// Returns when the user has interrupted the command.
pub(crate) async fn interrupted() {
    // The sender lives as long as the program.
    let _ = INTERRUPTED.clone().wait_for(|interrupted| *interrupted).await;
}

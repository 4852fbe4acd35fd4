//! Fetches a file of a peer.

use std::sync::Arc;

use tiercel::control::Failure;
use tiercel::control::answer::Copied;

use super::part::Place;
use super::sink::{Sink, sink};
use super::trouble::Trouble;
use super::verbs::Verbs;
use super::writing::{self, Target};
use super::{Means, Steps};
use crate::connection_manager::{FileMessage, Via};

/// Asks the peer for one of its files and stores it.
pub(in super::super) async fn fetch<V: Verbs>(
    means: &Means<'_, V>,
    steps: &mut Steps<'_>,
    wanted: (String, Via),
    place: Place,
    overwrite: bool,
) -> Result<Copied, Failure> {
    let (name, via) = wanted;
    let shown = place.shown.clone();
    let offered = async {
        // The check comes before the peer sends any data.
        let (files, there) = (Arc::clone(means.files), place.clone());
        means.lane.run(move |_| writing::check(files.as_ref(), &there, 0, overwrite)).await??;
        means.tell(FileMessage::Fetch { transfer: steps.transfer(), name: name.clone(), via }).await?;
        let offer = tokio::select! {
            offer = steps.next() => offer?,
            () = means.progress.unwanted() => return Err(Trouble::Cancelled),
        };
        Sink::of(offer, Target::Local(place), overwrite)
            .filter(|sink| sink.name == name && sink.via == via && !sink.wanted.is_directory())
            .ok_or(Trouble::OutOfStep)
    };
    match offered.await {
        Ok(what) => sink(means, steps, what).await,
        Err(trouble) => {
            let text = trouble.for_peer(&name);
            means.verbs.tell(FileMessage::Abort { transfer: steps.transfer(), text, posted: None }).await;
            Err(trouble.for_client(shown.display()))
        }
    }
}

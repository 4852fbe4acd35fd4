//! Every operation between two nodes, with a check of its effect.

use anyhow::Result;
use tiercel::{Access, MemoryRegion, OperationError};

use crate::checks::{contents, fill};
use crate::nodes::TwoNodes;

/// Bytes that the SENDs move: more than both windows together.
pub const BULK: usize = 1 << 20;

/// Memory of both ends.
pub struct Regions {
    /// Region of A: source of WRITEs and target of SENDs.
    pub local: MemoryRegion,
    /// Region of A: target of READs.
    pub back: MemoryRegion,
    /// Region of B.
    pub remote: MemoryRegion,
}

impl Regions {
    /// Registers regions of this many bytes each.
    ///
    /// # Errors
    /// If the nodes have no memory left.
    pub fn new(nodes: &TwoNodes, length: usize) -> Result<Self> {
        Ok(Self {
            local: nodes.a.register(length, Access::LOCAL)?,
            back: nodes.a.register(length, Access::LOCAL)?,
            remote: nodes.b.register(length, Access::ALL)?,
        })
    }
}

/// Moves data to B by WRITE, and back by READ.
///
/// # Errors
/// If an operation failed.
///
/// # Panics
/// If received data differ from the sent data.
pub async fn there_and_back(nodes: &TwoNodes, regions: &Regions, length: usize) -> Result<()> {
    let Regions { local, back, remote } = regions;
    let sent = fill(local, length, 1);
    nodes.at_a.write(local, 0, remote.key(), 0, length as u64).await?;
    assert!(contents(remote, length) == sent, "WRITE: the received data differ from the sent data");
    nodes.at_a.read(back, 0, remote.key(), 0, length as u64).await?;
    assert!(contents(back, length) == sent, "READ: the data read back differ from the sent data");
    Ok(())
}

/// Moves data from B to A by SEND: one large message if the connection is ordered, else many that fit a
/// transaction.
///
/// # Errors
/// If an operation failed.
///
/// # Panics
/// If received data differ from the sent data.
pub async fn sends(nodes: &TwoNodes, regions: &Regions) -> Result<()> {
    let Regions { remote: from, back: to, .. } = regions;
    let sent = fill(from, BULK, 2);
    let length = if nodes.at_b.is_ordered() { BULK as u64 } else { 1 << 11 };
    let messages = BULK as u64 / length;
    for first in (0..messages).step_by(200) {
        let batch: Vec<u64> = (first..messages.min(first + 200)).collect();
        for n in &batch {
            nodes.at_a.post_receive(to, n * length, length as u32, *n)?;
        }
        // One message per receive. On an unordered connection, message n need not arrive in receive n.
        let mut places = vec![u64::MAX; batch.len()];
        let receive = async {
            for _ in &batch {
                let received = nodes.at_a.receive().await?;
                assert_eq!(u64::from(received.length), length);
                let number = received.immediate.expect("each carries its number");
                places[(u64::from(number) - first) as usize] = received.wr_id;
            }
            Ok::<_, OperationError>(())
        };
        let send = |n: &u64| nodes.at_b.send(from, n * length, length, Some(*n as u32));
        let (sent_all, received_all) = tokio::join!(all(batch.iter().map(send)), receive);
        sent_all.into_iter().collect::<Result<Vec<()>, _>>()?;
        received_all?;
        for (n, place) in batch.iter().zip(places) {
            let mut message = vec![0; length as usize];
            to.read(place * length, &mut message)?;
            assert!(message == sent[(n * length) as usize..][..length as usize], "SEND {n} arrived damaged");
        }
    }
    Ok(())
}

/// Checks that each fetch-add adds exactly once, even if packets are lost or duplicated.
///
/// # Errors
/// If an operation failed.
///
/// # Panics
/// If received data differ from the sent data.
pub async fn atomics(nodes: &TwoNodes, regions: &Regions) -> Result<()> {
    const TIMES: u64 = 300;
    let key = regions.remote.key();
    regions.remote.write(0, &0u64.to_ne_bytes())?;
    let mut seen = Vec::new();
    for original in all((0..TIMES).map(|_| nodes.at_a.fetch_add(key, 0, 1))).await {
        seen.push(original?);
    }
    seen.sort_unstable();
    assert_eq!(seen, (0..TIMES).collect::<Vec<_>>(), "every value was seen once");
    assert_eq!(nodes.at_a.compare_swap(key, 0, TIMES, 7).await?, TIMES);
    assert_eq!(contents(&regions.remote, 8), 7u64.to_ne_bytes());
    Ok(())
}

/// Runs futures concurrently on the calling task, and returns the results in their order.
pub async fn all<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    use std::task::Poll;
    let mut pending: Vec<_> = futures.into_iter().map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|context| {
        let mut done = true;
        for (future, result) in pending.iter_mut().filter(|(_, result)| result.is_none()) {
            match future.as_mut().poll(context) {
                Poll::Ready(value) => *result = Some(value),
                Poll::Pending => done = false,
            }
        }
        if done { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    pending.into_iter().map(|(_, result)| result.expect("all are done")).collect()
}

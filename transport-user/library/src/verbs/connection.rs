//! The handle of a connection, with the RDMA verbs as its operations.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;
use transport_common::ids::{Cid, RKey, Rsn};
use transport_common::queues::{Completion, QueuePair, Verb, WorkFlags, WorkRequest};
use transport_common::ulp::block::BLOCK_BYTES;

use crate::common::error::Error;
use crate::common::mac::Mac;
use crate::congestion::CongestionControl;
use crate::parameters::segmentation::{RdmaOperation, Segments};
use crate::parameters::ulp::Ulp;
use crate::verbs::connections::Core;
use crate::verbs::info::{ConnectionInfo, ConnectionState};
use crate::verbs::operation_error::{OperationError, PostError};
use crate::verbs::queue_pair::{Keep, Operation, Outcome};
use crate::verbs::region::MemoryRegion;
use crate::verbs::scratch::WORD;
use crate::verbs::transactions::Transactions;

/// Time for which a waiting future polls for its completion itself, before it leaves that to the poller thread.
pub(crate) const SPIN: Duration = Duration::from_micros(20);

/// A receive that completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// The `wr_id` given to [`Connection::post_receive`].
    pub wr_id: u64,
    /// Number of bytes placed. A SEND places them in the posted buffer, a WRITE in the region that it names.
    pub length: u32,
    /// Immediate data of the sender.
    pub immediate: Option<u32>,
    /// Whether a WRITE with immediate data completed the receive. In this case the posted buffer is unchanged.
    pub by_write: bool,
}

/// A connection of a node. Clones refer to the same connection.
///
/// Operations are performed in the order of the calls. Dropping a future does not cancel its operation: the
/// operation goes on, and its region stays allocated until it has ended. The connection exists until
/// [`Connection::close`] or the end of its node. Dropping handles does not close it.
#[derive(Clone, Debug)]
pub struct Connection {
    core: Arc<Core>,
}

impl Connection {
    #[doc(hidden)]
    pub fn new(core: Arc<Core>) -> Self {
        Self { core }
    }

    #[doc(hidden)]
    pub fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// Returns the CID that the peer writes into packets to us.
    pub fn cid(&self) -> Cid {
        self.core.local_cid
    }

    /// Returns the CID that we write into packets to the peer.
    pub fn peer_cid(&self) -> Cid {
        self.core.peer_cid
    }

    /// Returns the largest user data of one transaction, bytes. It becomes smaller when the MTU of the path does.
    pub fn max_segment(&self) -> u32 {
        self.core.queues().max_segment()
    }

    /// Returns whether requests keep the order of their RSNs.
    pub fn is_ordered(&self) -> bool {
        self.core.ordered
    }

    /// Returns the state of the connection.
    pub fn state(&self) -> ConnectionState {
        self.core.state()
    }

    /// Returns whether operations can be started.
    pub fn is_alive(&self) -> bool {
        self.state() == ConnectionState::Open
    }

    /// Returns the current state of the connection in full.
    ///
    /// # Errors
    /// [`Error::UnknownCid`] if it is closed; [`Error::System`].
    pub fn info(&self) -> Result<ConnectionInfo, Error> {
        self.core.info()
    }

    /// Returns its transactions of both ends that have not ended, in the states of the specification.
    ///
    /// # Errors
    /// [`Error::UnknownCid`] if it is closed; [`Error::System`].
    pub fn transactions(&self) -> Result<Transactions, Error> {
        self.core.transactions()
    }

    /// Returns how many operations and receives have not completed.
    pub fn outstanding(&self) -> usize {
        let used = self.core.occupancy();
        used.send as usize + used.operations_waiting + used.receive as usize
    }

    /// Cuts operations from now on so that their packets fit a smaller MTU. Returns whether the packets of all that is
    /// outstanding fit it, too.
    #[doc(hidden)]
    pub fn narrow(&self, mtu: u32) -> bool {
        self.core.narrow(mtu)
    }

    /// Returns whether it follows its next hop.
    pub fn follows_next_hop(&self) -> bool {
        self.core.follows_next_hop()
    }

    /// Sends all packets to this next hop from now on, if it is the connection with this generation. Returns whether it is.
    #[doc(hidden)]
    pub fn set_next_hop(&self, generation: u32, mac: Mac) -> Result<bool, Error> {
        self.core.set_next_hop(generation, mac)
    }

    /// Returns [`Self::info`] and [`Self::transactions`] of the same moment.
    ///
    /// # Errors
    /// [`Error::UnknownCid`] if it is closed; [`Error::System`].
    pub fn info_and_transactions(&self) -> Result<(ConnectionInfo, Transactions), Error> {
        self.core.info_and_transactions()
    }

    /// Returns the congestion control that was last set.
    pub fn congestion(&self) -> CongestionControl {
        self.core.congestion()
    }

    /// Sets another congestion control, also while traffic flows, and waits until it is in force. The windows, the
    /// timeout and the smoothed delays keep their values, within the new limits. All other state of the algorithm
    /// is reset.
    ///
    /// # Errors
    /// [`Error::CongestionParameter`], [`Error::AlgorithmPlacement`], [`Error::UnknownAlgorithm`]: nothing has
    /// changed. [`Error::UnknownCid`] and [`Error::EndedMeanwhile`] if the connection has ended;
    /// [`Error::NodeDown`]; [`Error::System`].
    pub async fn set_congestion(&self, control: CongestionControl) -> Result<(), Error> {
        let ended = || (!self.is_alive()).then(|| Error::EndedMeanwhile(self.cid().0));
        let _awaited = self.core.change_congestion(&control)?;
        let in_force = || match self.core.congestion_is_in_force() {
            Ok(true) => Some(Ok(())),
            Ok(false) => ended().map(Err),
            Err(error) => Some(Err(ended().unwrap_or(error))),
        };
        self.until(in_force).await?;
        self.core.congestion_changed();
        Ok(())
    }

    /// Performs an RDMA WRITE of `length` bytes from the local region to `remote_address` (an offset) in the
    /// peer's region.
    ///
    /// # Errors
    /// See [`OperationError`]. If the operation fails, a part of it may have been performed.
    pub async fn write(
        &self,
        local: &MemoryRegion,
        local_offset: u64,
        rkey: RKey,
        remote_address: u64,
        length: u64,
    ) -> Result<(), OperationError> {
        check_remote(remote_address, length)?;
        let operation = RdmaOperation::Write { rkey: rkey.0, address: remote_address };
        self.run(operation, self.buffer(local, local_offset, length)?, None).await
    }

    /// Performs a WRITE like [`Self::write`]. Then a receive that the peer has posted completes with `immediate`.
    /// On an unordered connection the data must fit one transaction. Otherwise the receive could complete before
    /// all bytes have arrived.
    ///
    /// # Errors
    /// As for [`Self::write`], and [`OperationError::TooLong`].
    pub async fn write_immediate(
        &self,
        local: &MemoryRegion,
        local_offset: u64,
        rkey: RKey,
        remote_address: u64,
        length: u64,
        immediate: u32,
    ) -> Result<(), OperationError> {
        check_remote(remote_address, length)?;
        self.check_single("a WRITE with immediate data", length)?;
        let operation = RdmaOperation::Write { rkey: rkey.0, address: remote_address };
        self.run(operation, self.buffer(local, local_offset, length)?, Some(immediate)).await
    }

    /// Performs an RDMA READ of `length` bytes from `remote_address` (an offset) in the peer's region to the local
    /// region.
    ///
    /// # Errors
    /// As for [`Self::write`].
    pub async fn read(
        &self,
        local: &MemoryRegion,
        local_offset: u64,
        rkey: RKey,
        remote_address: u64,
        length: u64,
    ) -> Result<(), OperationError> {
        check_remote(remote_address, length)?;
        let operation = RdmaOperation::Read { rkey: rkey.0, address: remote_address };
        self.run(operation, self.buffer(local, local_offset, length)?, None).await
    }

    /// Performs a SEND of `length` bytes into a receive of the peer. Waits until the peer has posted one. On an
    /// unordered connection the data must fit one transaction (D-84).
    ///
    /// # Errors
    /// See [`OperationError`].
    pub async fn send(
        &self,
        local: &MemoryRegion,
        local_offset: u64,
        length: u64,
        immediate: Option<u32>,
    ) -> Result<(), OperationError> {
        self.check_single("a SEND", length)?;
        self.run(RdmaOperation::Send, self.buffer(local, local_offset, length)?, immediate).await
    }

    /// Performs a compare and swap: if the 8 bytes at `remote_address`, a multiple of 8, equal `compare`, they
    /// become `swap`. Returns the previous value.
    ///
    /// # Errors
    /// See [`OperationError`].
    pub async fn compare_swap(
        &self,
        rkey: RKey,
        remote_address: u64,
        compare: u64,
        swap: u64,
    ) -> Result<u64, OperationError> {
        self.atomic(
            RdmaOperation::CompareSwap { rkey: rkey.0, address: remote_address, compare, swap },
            remote_address,
        )
        .await
    }

    /// Performs a fetch and add: adds `add` to the 8 bytes at `remote_address`, a multiple of 8, modulo 2^64.
    /// Returns the previous value.
    ///
    /// # Errors
    /// See [`OperationError`].
    pub async fn fetch_add(&self, rkey: RKey, remote_address: u64, add: u64) -> Result<u64, OperationError> {
        self.atomic(RdmaOperation::FetchAdd { rkey: rkey.0, address: remote_address, add }, remote_address)
            .await
    }

    /// Posts a receive: a buffer of `length` bytes at `local_offset` of the local region. Receives are used in the
    /// order in which they were posted. Up to 256 may be outstanding.
    ///
    /// # Errors
    /// [`OperationError::OutOfBounds`], [`OperationError::ReceiveQueueFull`], [`OperationError::Closed`].
    pub fn post_receive(
        &self,
        local: &MemoryRegion,
        local_offset: u64,
        length: u32,
        wr_id: u64,
    ) -> Result<(), OperationError> {
        let buffer = self.buffer(local, local_offset, length.into())?;
        let place = (buffer.offset, length);
        if self.core.queues().post_receive(self.core.qp(), buffer.keep, place, wr_id)? {
            self.core.ring();
        }
        Ok(())
    }

    /// Waits for the next receive to complete.
    ///
    /// This is cancel-safe. Each completed receive goes to only one caller: of this, of [`Self::poll`] or of a
    /// completion queue, whichever takes it first.
    ///
    /// # Errors
    /// [`OperationError::Completion`] if the SEND did not fit or was damaged; [`OperationError::Closed`].
    pub async fn receive(&self) -> Result<Received, OperationError> {
        let take = || {
            self.core.progress();
            if let Some(completion) = self.core.queues().take_received() {
                return Some(received(&completion));
            }
            (!self.core.may_complete()).then_some(Err(OperationError::Closed))
        };
        self.until(take).await
    }

    /// Drops new requests while the host function behind the connection is being reset (xLR, D-50), or takes them
    /// again. From the next service of the engine on, requests of the peer are refused: there they complete with
    /// kCmplRemoteErr. Operations of this end complete with kCmplLocalXlr. What was accepted before goes on.
    pub fn drop_requests(&self, dropped: bool) {
        self.core.drop_requests(dropped);
    }

    /// Starts to close the connection and returns at once. Outstanding operations complete with kCmplDeadConn, and
    /// the CID becomes free. [`Self::closed`] waits for that.
    pub fn close(&self) {
        self.core.close();
    }

    /// Waits until the connection has failed, or until it is closed and its CID is free.
    pub async fn closed(&self) {
        let over = || matches!(self.state(), ConnectionState::Closed | ConnectionState::Fatal).then_some(());
        self.until(over).await;
    }

    /// Posts one transaction and rings the doorbell. This makes no system call while the engine is awake.
    /// [`Self::poll`] or a completion queue returns the completion. A request with [`WorkFlags::SIGNALED`] always has
    /// one, any other only if it fails.
    ///
    /// The caller must keep the local buffer registered until then (see [`MemoryRegion::local_offset`]).
    ///
    /// # Errors
    /// [`PostError`]. In that case nothing is posted.
    pub fn post(&self, work: WorkRequest) -> Result<Rsn, PostError> {
        let rsn = self.core.queues().post(self.core.qp(), work)?;
        self.core.ring();
        Ok(rsn)
    }

    /// Posts as many work requests of the list as the queues have space for, and rings the doorbell once. Returns
    /// their number.
    ///
    /// # Errors
    /// [`PostError`] if the first one cannot be posted.
    pub fn post_list(&self, list: &[WorkRequest]) -> Result<usize, PostError> {
        let mut posted = 0;
        let mut queues = self.core.queues();
        for work in list {
            match queues.post(self.core.qp(), *work) {
                Ok(_) => posted += 1,
                Err(error) if posted == 0 => return Err(error),
                Err(_) => break,
            }
        }
        drop(queues);
        if posted != 0 {
            self.core.ring();
        }
        Ok(posted)
    }

    /// Takes completions of posted work requests and receives, oldest first. Returns their number. Makes no system
    /// call to find them.
    pub fn poll(&self, completions: &mut [Completion]) -> usize {
        let (n, posted) = {
            let mut queues = self.core.queues();
            let n = queues.poll(self.core.qp(), completions);
            (n, queues.pump(self.core.qp()))
        };
        if posted {
            self.core.ring();
        }
        n
    }

    /// Returns the page that the application shares with the kernel: for tests, which write into it what an application could.
    #[doc(hidden)]
    pub fn shared_page(&self) -> &QueuePair {
        self.core.qp()
    }

    fn check_single(&self, what: &'static str, length: u64) -> Result<(), OperationError> {
        let limit = self.max_segment();
        if self.core.ordered || length <= limit.into() {
            return Ok(());
        }
        Err(OperationError::TooLong { what, length, limit })
    }

    fn buffer(&self, local: &MemoryRegion, offset: u64, length: u64) -> Result<Buffer, OperationError> {
        let memory = local.memory();
        if !memory.belongs_to(&self.core.shared.maps) {
            return Err(OperationError::ForeignRegion);
        }
        if !memory.contains(offset, length) {
            return Err(OperationError::OutOfBounds { offset, length, size: memory.len() as u64 });
        }
        Ok(Buffer { offset: memory.offset() + offset, length, keep: Arc::clone(memory) as Keep })
    }

    async fn atomic(&self, operation: RdmaOperation, remote_address: u64) -> Result<u64, OperationError> {
        if !remote_address.is_multiple_of(WORD as u64) {
            return Err(OperationError::Misaligned(remote_address));
        }
        let place = Arc::new(self.core.scratch.take().await);
        let keep = Arc::clone(&place) as Keep;
        self.run(operation, Buffer { offset: place.offset(), length: WORD as u64, keep }, None).await?;
        Ok(place.value())
    }

    /// Submits an operation and waits until it ends.
    async fn run(&self, operation: RdmaOperation, buffer: Buffer, immediate: Option<u32>) -> Outcome {
        let core = &self.core;
        if core.ulp == Ulp::Block {
            check_blocks(operation, buffer.length, immediate)?;
        }
        let (done, mut outcome) = oneshot::channel();
        let posted = {
            let mut queues = core.queues();
            if !queues.is_open(core.qp()) {
                return Err(OperationError::Closed);
            }
            let id = queues.operation_id();
            let part = (buffer.offset, buffer.length);
            let segments = Segments::new(operation, part, immediate, core.ordered, id);
            queues.submit(id, Operation::new(segments, buffer.keep, done));
            queues.pump(core.qp())
        };
        if posted {
            core.ring();
        }
        // If this future is dropped from here on, the poller completes the operation.
        let _poller = KickOnDrop(core);
        let start = Instant::now();
        while start.elapsed() < SPIN {
            core.progress();
            match outcome.try_recv() {
                Ok(outcome) => return outcome,
                Err(TryRecvError::Closed) => return Err(OperationError::Closed),
                Err(TryRecvError::Empty) => tokio::task::yield_now().await,
            }
        }
        core.shared.poller.kick();
        outcome.await.unwrap_or(Err(OperationError::Closed))
    }

    /// Waits until `ready` returns a value. Polls for a short time, and then checks whenever the poller reports a
    /// change.
    async fn until<T>(&self, ready: impl Fn() -> Option<T>) -> T {
        let start = Instant::now();
        while start.elapsed() < SPIN {
            if let Some(value) = ready() {
                return value;
            }
            tokio::task::yield_now().await;
        }
        let _interest = self.core.interest();
        loop {
            let changed = self.core.changed.notified();
            tokio::pin!(changed);
            // From here on no change is missed.
            changed.as_mut().enable();
            if let Some(value) = ready() {
                return value;
            }
            changed.await;
        }
    }
}

/// A local buffer: its position, and a reference that keeps its memory allocated.
struct Buffer {
    offset: u64,
    length: u64,
    keep: Keep,
}

/// Wakes the poller if a dropped future leaves outstanding operations.
struct KickOnDrop<'a>(&'a Core);

impl Drop for KickOnDrop<'_> {
    fn drop(&mut self) {
        if self.0.queues().has_operations() {
            self.0.shared.poller.kick();
        }
    }
}

/// Checks that the block protocol has an operation.
fn check_blocks(operation: RdmaOperation, length: u64, immediate: Option<u32>) -> Result<(), OperationError> {
    let address = match operation {
        RdmaOperation::Write { .. } if immediate.is_some() => {
            return Err(OperationError::NotOfBlocks("immediate data"));
        }
        RdmaOperation::Write { address, .. } | RdmaOperation::Read { address, .. } => address,
        RdmaOperation::Send => return Err(OperationError::NotOfBlocks("SEND")),
        RdmaOperation::CompareSwap { .. } | RdmaOperation::FetchAdd { .. } => {
            return Err(OperationError::NotOfBlocks("atomics"));
        }
    };
    let block = u64::from(BLOCK_BYTES);
    if length == 0 || !length.is_multiple_of(block) || !address.is_multiple_of(block) {
        return Err(OperationError::PartOfBlock { address, length });
    }
    Ok(())
}

fn check_remote(address: u64, length: u64) -> Result<(), OperationError> {
    match address.checked_add(length) {
        Some(_) => Ok(()),
        None => Err(OperationError::AddressOverflow { address, length }),
    }
}

fn received(completion: &Completion) -> Result<Received, OperationError> {
    if completion.status != 0 || completion.ulp_code != 0 {
        return Err(OperationError::Completion { code: completion.status, ulp_code: completion.ulp_code });
    }
    Ok(Received {
        wr_id: completion.wr_id,
        length: completion.length,
        immediate: completion.flags.contains(WorkFlags::IMMEDIATE).then_some(completion.immediate),
        by_write: completion.opcode == Verb::RECEIVE_IMMEDIATE,
    })
}

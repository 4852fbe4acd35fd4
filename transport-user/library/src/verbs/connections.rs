//! The connections of a node, and the work that each of them needs from user space.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, RwLock};
use std::time::Instant;

use tokio::sync::oneshot;
use transport_common::connection::{Snapshot, State};
use transport_common::ids::Cid;
use transport_common::queues::{Command, QueuePair};

use crate::common::error::Error;
use crate::common::mac::Mac;
use crate::congestion::{CongestionControl, Placement};
use crate::parameters::cid::{CidReservation, slot_of};
use crate::parameters::device::Device;
use crate::parameters::open::OpenConnection;
use crate::parameters::ulp::Ulp;
use crate::verbs::closing::Closing;
use crate::verbs::grace::Ticket;
use crate::verbs::info::{ConnectionInfo, ConnectionState};
use crate::verbs::maps::closed_connection;
use crate::verbs::poller::Look;
use crate::verbs::queue_pair::{Occupancy, Queues};
use crate::verbs::scratch::Scratch;
use crate::verbs::shared::Shared;
use crate::verbs::statistics::ConnectionStatistics;
use crate::verbs::transactions::Transactions;
use crate::verbs::watcher::Watcher;

/// A connection: its slot, the application's side of its queues, and its waiting tasks.
#[derive(Debug)]
pub struct Core {
    pub(crate) shared: Arc<Shared>,
    pub(crate) local_cid: Cid,
    pub(crate) peer_cid: Cid,
    pub(crate) ordered: bool,
    pub(crate) ulp: Ulp,
    /// Memory for the original values that atomics return.
    pub(crate) scratch: Arc<Scratch>,
    slot: usize,
    queues: Mutex<Queues>,
    /// Dropped when the slot is free again.
    reservation: Mutex<Option<CidReservation>>,
    /// Whether that has happened.
    released: AtomicBool,
    /// Who gets the reservation instead: the connection is being reset.
    heir: Mutex<Option<oneshot::Sender<CidReservation>>>,
    /// The options with which it was opened.
    origin: OpenConnection,
    /// MAC address of the next hop to which it sends.
    next_hop: Mutex<Mac>,
    /// Number of futures that wait for something for which the poller must look.
    interest: AtomicUsize,
    closing: Closing,
    /// The grace period after which the slot is freed. Set when programs that start no longer find the connection.
    retiring: Mutex<Option<Ticket>>,
    /// Whether the slot is cleared. From then on its entry is not this connection. Locked while the entry is cleared, and
    /// while it is read for users.
    cleared: Mutex<bool>,
    /// Whether its counters are included in [`Shared::ended`]. Set under that lock.
    counted: AtomicBool,
    /// The state of which the waiting tasks were last notified.
    told: AtomicU32,
    /// Number of futures that wait for settings to be in force.
    settings_awaited: AtomicUsize,
    /// The congestion control that was last set.
    congestion: Mutex<CongestionControl>,
    /// Who is told of changes. Completion queues add theirs.
    watchers: RwLock<Vec<Arc<Watcher>>>,
    pub(crate) changed: Arc<Watcher>,
}

impl Core {
    /// Opens a connection in the reserved slot.
    pub fn open(
        shared: &Arc<Shared>,
        reservation: CidReservation,
        open: &OpenConnection,
        device: &Device,
    ) -> Result<Arc<Self>, Error> {
        let parameters = &open.parameters(device, reservation.cid())?;
        let config = &parameters.config;
        let slot = slot_of(reservation.cid());
        let scratch = Scratch::new(&shared.maps, &shared.pool)?;
        let ordered = config.ordered != 0;
        let congestion = open.tuning.congestion;
        shared.user_placement.assign(slot, config.local_cid, &congestion)?;
        // The queues come first: packets find the connection as soon as its entry is written.
        let pair = shared.maps.queue_pairs.get(slot);
        let queues = Queues::open(
            pair,
            (config.local_cid, parameters.tx.rsn),
            (ordered, open.ulp),
            (config.max_segment, device.memory),
            Arc::clone(&shared.grace),
        );
        let mut entry = closed_connection();
        entry.open(parameters, reservation.generation());
        let written = shared.maps.set_connection(slot, &entry);
        written
            .inspect_err(|_| shared.user_placement.unassign(slot))
            .map_err(|e| Error::system("write a connection", e))?;
        let changed = Arc::<Watcher>::default();
        Ok(Arc::new(Self {
            shared: Arc::clone(shared),
            local_cid: config.local_cid,
            peer_cid: config.peer_cid,
            ordered,
            ulp: open.ulp,
            scratch,
            slot,
            queues: Mutex::new(queues),
            reservation: Mutex::new(Some(reservation)),
            released: AtomicBool::new(false),
            heir: Mutex::default(),
            origin: open.with_cid(config.local_cid),
            next_hop: Mutex::new(open.peer_mac),
            interest: AtomicUsize::new(0),
            closing: Closing::default(),
            retiring: Mutex::new(None),
            cleared: Mutex::new(false),
            counted: AtomicBool::new(false),
            told: AtomicU32::new(State::Open as u32),
            settings_awaited: AtomicUsize::new(0),
            congestion: Mutex::new(congestion),
            watchers: RwLock::new(vec![Arc::clone(&changed)]),
            changed,
        }))
    }

    /// Locks the application's side of the queues.
    pub(crate) fn queues(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().expect("no panic under the lock")
    }

    /// Returns the shared queues.
    pub fn qp(&self) -> &QueuePair {
        self.shared.maps.queue_pairs.get(self.slot)
    }

    /// Cuts operations from now on so that their packets fit a smaller MTU. Returns whether the packets of all that is
    /// outstanding fit it, too.
    pub fn narrow(&self, mtu: u32) -> bool {
        self.queues().narrow(self.qp(), self.origin.segment_at(mtu))
    }

    /// Returns whether it follows its next hop.
    pub fn follows_next_hop(&self) -> bool {
        self.origin.follow_next_hop
    }

    /// Sends all packets to this next hop from now on. Returns false if the connection with this number among those that have
    /// used the slot has ended.
    pub fn set_next_hop(&self, generation: u32, mac: Mac) -> Result<bool, Error> {
        let mut next_hop = self.next_hop.lock().expect("no panic under the lock");
        let changed = self.shared.maps.set_next_hop(self.slot, (self.local_cid, generation), mac);
        let changed = changed.map_err(|e| Error::system("change the next hop of a connection", e))?;
        if changed {
            *next_hop = mac;
        }
        Ok(changed)
    }

    /// Rings the doorbell: notifies the engine that something was posted.
    pub(crate) fn ring(&self) {
        self.shared.ring(self.slot);
    }

    /// Returns the state. It is closed when the slot has been freed.
    pub(crate) fn state(&self) -> ConnectionState {
        if self.is_released() || self.shared.is_down() {
            return ConnectionState::Closed;
        }
        match ConnectionState::from(self.qp().control.state.load(SeqCst)) {
            // The datapath has closed the connection. The poller frees the slot soon.
            ConnectionState::Closed => ConnectionState::Closing,
            state => state,
        }
    }

    /// Returns whether completions may still come: the connection is alive, or has completions that were not
    /// delivered yet.
    pub(crate) fn may_complete(&self) -> bool {
        self.state() == ConnectionState::Open || self.queues().has_untold(self.qp())
    }

    /// Returns whether the slot and the CID are free.
    fn is_released(&self) -> bool {
        self.released.load(SeqCst)
    }

    /// Collects completions, posts segments that wait for space, and notifies the waiting tasks. Returns true if
    /// it did anything.
    pub(crate) fn progress(&self) -> bool {
        let (news, posted) = {
            let mut queues = self.queues();
            (queues.collect(self.qp()), queues.pump(self.qp()))
        };
        if posted {
            self.ring();
        }
        if news {
            self.tell();
        }
        news || posted
    }

    /// Tells all who wait for something of this connection.
    fn tell(&self) {
        for watcher in self.watchers.read().expect("no panic under the lock").iter() {
            watcher.tell();
        }
    }

    /// Returns whether somebody sleeps on a descriptor until something of this connection changes.
    fn has_sleepers(&self) -> bool {
        self.watchers.read().expect("no panic under the lock").iter().any(|watcher| watcher.sleeps())
    }

    /// Has the datapath wake the poller at the next completion, and at the next change of state. The caller then looks at
    /// both. Until the poller has woken, another call replaces this one.
    pub(crate) fn arm(&self) {
        self.queues().arm(self.qp(), self.told.load(SeqCst));
    }

    /// Returns whether the application may sleep until something changes: no completion waits for it, and one may come. The
    /// connection was armed.
    pub(crate) fn may_sleep(&self) -> bool {
        self.progress();
        if !self.is_released() && self.has_other_state(self.qp().control.state.load(SeqCst)) {
            self.tell();
            return false;
        }
        !self.queues().has_kept()
    }

    /// Returns whether the state is not that of which tasks were last told, and notes that they are told of it now.
    fn has_other_state(&self, state: u32) -> bool {
        self.told.swap(state, SeqCst) != state
    }

    /// Returns whether a completion waits for the application.
    pub(crate) fn has_completions(&self) -> bool {
        self.queues().has_kept()
    }

    /// Adds a notification.
    pub(crate) fn watch(&self, watcher: &Arc<Watcher>) {
        self.watchers.write().expect("no panic under the lock").push(Arc::clone(watcher));
    }

    /// Removes a notification that [`Self::watch`] added.
    pub(crate) fn unwatch(&self, watcher: &Arc<Watcher>) {
        self.watchers.write().expect("no panic under the lock").retain(|w| !Arc::ptr_eq(w, watcher));
    }

    /// Makes the poller check this connection until the returned value is dropped.
    pub(crate) fn interest(&self) -> Interest<'_> {
        self.interest.fetch_add(1, SeqCst);
        self.shared.poller.kick();
        Interest(self)
    }

    /// Asks the engine to close the connection. The poller frees the slot when that is done.
    pub fn close(&self) {
        if self.is_released() || !self.closing.begin(Instant::now()) {
            return;
        }
        self.tell_to_close();
        self.shared.poller.kick();
    }

    fn tell_to_close(&self) {
        self.qp().control.command.store(Command::CLOSE.0, SeqCst);
        self.ring();
    }

    /// Returns whether the datapath has closed the connection, which is being closed. `hint` is what the shared page says.
    fn has_closed(&self, hint: bool) -> bool {
        if !self.closing.is_due(hint, Instant::now()) {
            return false;
        }
        let has_closed = self.entry().is_ok_and(|entry| entry.connection.state == State::Closed);
        if !has_closed {
            self.tell_to_close(); // the application may have overwritten the command
        }
        has_closed
    }

    /// Closes the connection. Its slot does not become free: who called gets it when the connection has ended.
    ///
    /// # Errors
    /// [`Error::UnknownCid`] if the connection has ended, [`Error::ResetAlready`] if somebody else gets its slot.
    pub fn close_and_inherit(&self) -> Result<oneshot::Receiver<CidReservation>, Error> {
        let (sender, receiver) = oneshot::channel();
        {
            // Under this lock the reservation is not given back before the heir is known.
            let reservation = self.reservation.lock().expect("no panic under the lock");
            if reservation.is_none() {
                return Err(Error::UnknownCid(self.local_cid.0));
            }
            let mut heir = self.heir.lock().expect("no panic under the lock");
            if heir.as_ref().is_some_and(|heir| !heir.is_closed()) {
                return Err(Error::ResetAlready(self.local_cid.0));
            }
            *heir = Some(sender);
        }
        self.close();
        Ok(receiver)
    }

    /// Asks the engine to drop new requests of both ends, or to take them again. A connection that is being closed
    /// stays so.
    pub fn drop_requests(&self, dropped: bool) {
        let (from, to) = if dropped {
            (Command::NONE, Command::DROP_REQUESTS)
        } else {
            (Command::DROP_REQUESTS, Command::NONE)
        };
        if self.qp().control.command.compare_exchange(from.0, to.0, SeqCst, SeqCst).is_ok() {
            self.ring();
        }
    }

    /// Performs one check of the poller. With `arm`, the datapath wakes the poller of what comes later, if it is needed. The
    /// second value is true if the connection has been released.
    fn look(&self, arm: bool) -> (Look, bool) {
        let is_awaited =
            || self.interest.load(SeqCst) != 0 || self.queues().has_operations() || self.has_sleepers();
        if arm && is_awaited() {
            self.arm();
        }
        let mut look = Look { progress: self.progress(), ..Look::default() };
        let closing = self.closing.has_begun();
        let number = self.qp().control.state.load(SeqCst);
        let retiring = self.retiring.lock().expect("no panic under the lock").is_some();
        if self.shared.is_down() || retiring || (closing && self.has_closed(number == State::Closed as u32)) {
            (look.needed, look.timed) = (true, true);
            return (look, self.retire());
        }
        let is_news = self.has_other_state(number);
        look.progress |= is_news;
        let settings = self.settings_awaited.load(SeqCst) != 0;
        if is_news || settings {
            self.tell();
        }
        look.needed = closing || is_awaited();
        // A dying connection's completions wait for grace periods, and new settings have no notice.
        look.timed = closing
            || look.needed && (settings || number != State::Open as u32 || self.queues().needs_looks());
        (look, false)
    }

    /// Clears the slot, and releases the connection a grace period later. Returns true when that is done. The
    /// datapath must have closed the connection, or the engine must have failed.
    fn retire(&self) -> bool {
        let mut retiring = self.retiring.lock().expect("no panic under the lock");
        let ticket = *retiring.get_or_insert_with(|| {
            self.clear();
            self.shared.grace.begin()
        });
        let passed = self.shared.grace.has_passed(ticket);
        if passed {
            self.release();
        }
        passed
    }

    /// Removes the connection from its slot. Programs that start from now on do not find it.
    fn clear(&self) {
        let mut cleared = self.cleared.lock().expect("no panic under the lock");
        *cleared = true;
        self.add_to_ended();
        // If this fails, the old entry stays visible, which does no harm: packets for a closed connection are
        // dropped silently (D-50) in any case, and a new connection overwrites the entry.
        if let Err(error) = self.shared.maps.set_connection(self.slot, &closed_connection()) {
            tracing::warn!(cid = self.local_cid.0, %error, "cannot clear a closed connection");
        }
    }

    /// Adds the counters to the sums over the connections that have ended, once. Clearing the slot deletes the
    /// counters.
    fn add_to_ended(&self) {
        // The lock makes sure that `Connections::statistics` counts the connection once: as existing or as ended.
        let mut ended = self.shared.ended.lock().expect("no panic under the lock");
        if self.counted.swap(true, SeqCst) {
            return;
        }
        match self.entry() {
            Ok(entry) => ended.add(&ConnectionStatistics::of(&entry)),
            Err(error) => tracing::warn!(cid = self.local_cid.0, %error, "its counters are lost"),
        }
    }

    /// Ends outstanding operations and frees the slot. No program may find the connection any more, and none that
    /// found it may still run.
    fn release(&self) {
        let Some(reservation) = self.reservation.lock().expect("no panic under the lock").take() else {
            return;
        };
        self.queues().release(self.qp());
        self.shared.user_placement.unassign(self.slot);
        match self.heir.lock().expect("no panic under the lock").take() {
            // If the heir has given up, the reservation is dropped here.
            Some(heir) => drop(heir.send(reservation)),
            None => drop(reservation),
        }
        self.released.store(true, SeqCst);
        self.tell();
    }

    /// Returns the congestion control that was last set.
    pub fn congestion(&self) -> CongestionControl {
        *self.congestion.lock().expect("no panic under the lock")
    }

    /// Requests another congestion control. It takes the place of an earlier request that is not in force yet. Until the
    /// returned value is dropped, the poller wakes the tasks that wait for [`Self::congestion_is_in_force`].
    pub(crate) fn change_congestion(&self, control: &CongestionControl) -> Result<Awaited<'_>, Error> {
        let settings = control.settings()?;
        let gone = || Error::UnknownCid(self.local_cid.0);
        let mut congestion = self.congestion.lock().expect("no panic under the lock");
        let generation = {
            let reservation = self.reservation.lock().expect("no panic under the lock");
            reservation.as_ref().ok_or_else(gone)?.generation()
        };
        // The thread must know the algorithm before the first event arrives.
        self.shared.user_placement.assign(self.slot, self.local_cid, control)?;
        if self.is_released() {
            self.shared.user_placement.unassign(self.slot);
        }
        let it = (self.local_cid, generation);
        let is_there = self.shared.maps.request_settings(self.slot, it, &settings);
        if !is_there.map_err(|e| Error::system("change the settings of a connection", e))? {
            return Err(gone());
        }
        *congestion = *control;
        self.settings_awaited.fetch_add(1, SeqCst);
        self.ring();
        Ok(Awaited(&self.settings_awaited))
    }

    /// Returns whether the congestion control that was last requested is in force. The datapath is asked: the shared page
    /// does not know.
    pub(crate) fn congestion_is_in_force(&self) -> Result<bool, Error> {
        Ok(!self.open_entry()?.settings.is_pending())
    }

    /// Must be called when a change is in force. If the connection is no longer placed in user space, removes it from
    /// the rate update engine in user space.
    pub(crate) fn congestion_changed(&self) {
        let congestion = self.congestion.lock().expect("no panic under the lock");
        let newest = self.congestion_is_in_force().unwrap_or(false);
        if newest && congestion.placement != Placement::User && !self.is_released() {
            self.shared.user_placement.unassign(self.slot);
        }
    }

    /// Returns the options to open the connection again from its initial state: with the sequence numbers on which
    /// both ends agreed, without a received IV, and with the congestion control and the next hop that were last set.
    pub fn anew(&self) -> OpenConnection {
        let mut open = self.origin.with_cid(self.local_cid);
        open.peer_mac = *self.next_hop.lock().expect("no panic under the lock");
        open.security.remote_time = None;
        open.tuning.congestion = self.congestion();
        open
    }

    /// Returns the use of its queues.
    pub fn occupancy(&self) -> Occupancy {
        self.queues().occupancy(self.qp())
    }

    /// Returns its current state in full.
    pub fn info(&self) -> Result<ConnectionInfo, Error> {
        Ok(self.describe(&*self.open_entry()?))
    }

    /// Returns its transactions that have not ended.
    pub(crate) fn transactions(&self) -> Result<Transactions, Error> {
        Ok(Transactions::new(&*self.open_entry()?, self.qp()))
    }

    /// Returns both, from one copy.
    pub fn info_and_transactions(&self) -> Result<(ConnectionInfo, Transactions), Error> {
        let entry = self.open_entry()?;
        Ok((self.describe(&entry), Transactions::new(&entry, self.qp())))
    }

    fn describe(&self, entry: &Snapshot) -> ConnectionInfo {
        let failure = self.shared.user_placement.failure(self.slot);
        let info = ConnectionInfo::new(entry, self.qp(), &self.occupancy(), &self.congestion(), failure);
        // The path may have become smaller since the connection was opened.
        ConnectionInfo { max_segment: self.queues().max_segment(), ..info }
    }

    /// Returns a copy of its context and tables, unless it is closed: between the clearing of the slot and the end of the
    /// grace period, the slot holds no connection.
    fn open_entry(&self) -> Result<Box<Snapshot>, Error> {
        let cleared = self.cleared.lock().expect("no panic under the lock");
        if *cleared || self.is_released() {
            return Err(Error::UnknownCid(self.local_cid.0));
        }
        self.entry().map_err(|e| Error::system("read a connection", e))
    }

    /// Returns a copy of its context and tables.
    pub(crate) fn entry(&self) -> io::Result<Box<Snapshot>> {
        self.shared.maps.connection(self.slot)
    }
}

/// See [`Core::interest`].
#[derive(Debug)]
pub(crate) struct Interest<'a>(&'a Core);

impl Drop for Interest<'_> {
    fn drop(&mut self) {
        self.0.interest.fetch_sub(1, SeqCst);
    }
}

/// See [`Core::change_congestion`].
#[derive(Debug)]
pub(crate) struct Awaited<'a>(&'a AtomicUsize);

impl Drop for Awaited<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

/// The connections of a node by CID.
#[derive(Debug, Default)]
pub struct Connections {
    table: RwLock<BTreeMap<u32, Arc<Core>>>,
}

impl Connections {
    /// Adds a connection.
    pub fn insert(&self, core: &Arc<Core>) {
        let mut table = self.table.write().expect("no panic under the lock");
        table.insert(core.local_cid.0, Arc::clone(core));
    }

    /// Returns the connection with this local CID.
    pub fn get(&self, cid: Cid) -> Option<Arc<Core>> {
        self.table.read().expect("no panic under the lock").get(&cid.0).cloned()
    }

    /// Returns all connections, by ascending CID.
    pub fn all(&self) -> Vec<Arc<Core>> {
        self.table.read().expect("no panic under the lock").values().cloned().collect()
    }

    /// Returns the sums over all connections since the node came up, including those that have ended.
    pub fn statistics(&self, shared: &Shared) -> Result<ConnectionStatistics, Error> {
        let ended = shared.ended.lock().expect("no panic under the lock");
        let mut sums = *ended;
        for core in self.all().iter().filter(|core| !core.counted.load(SeqCst)) {
            let entry = core.entry().map_err(|e| Error::system("read a connection", e))?;
            sums.add(&ConnectionStatistics::of(&entry));
        }
        Ok(sums)
    }

    /// Checks every connection, and removes those that have been released. With `arm`, the datapath tells of what comes later
    /// to those for which the poller is needed.
    pub fn look(&self, arm: bool) -> Look {
        let mut sum = Look::default();
        for core in self.all() {
            let (look, gone) = core.look(arm);
            sum.needed |= look.needed;
            sum.timed |= look.timed;
            sum.progress |= look.progress;
            if gone {
                self.remove(&core);
            }
        }
        sum
    }

    /// Frees every slot. The programs must be detached, and none may still run.
    pub fn release_all(&self) {
        for core in self.all() {
            core.clear();
            core.release();
            self.remove(&core);
        }
    }

    fn remove(&self, core: &Arc<Core>) {
        let mut table = self.table.write().expect("no panic under the lock");
        // The slot is free since `release`, so the CID may already belong to a new connection.
        if table.get(&core.local_cid.0).is_some_and(|there| Arc::ptr_eq(there, core)) {
            table.remove(&core.local_cid.0);
        }
    }
}

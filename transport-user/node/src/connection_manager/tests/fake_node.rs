//! A node without a datapath.

use super::*;

/// A fake node that records the calls of the manager. Clones refer to the same node.
#[derive(Clone)]
pub(super) struct FakeNode(pub(super) Arc<Memory>);

pub(super) struct Memory {
    pub(super) address: IpAddr,
    pub(super) mtu: Mutex<u32>,
    /// CIDs in use: reserved (`None`) or open.
    pub(super) table: Mutex<BTreeMap<u32, Option<Agreement>>>,
    pub(super) fatal: Mutex<Vec<Cid>>,
    pub(super) regions: Mutex<Vec<RegionAdvertisement>>,
    pub(super) refusals: Mutex<Vec<Refusals>>,
    /// Falcon packets that arrived, of whatever connection.
    pub(super) packets: AtomicU64,
    /// Outstanding operations of each connection.
    pub(super) outstanding: AtomicUsize,
    pub(super) news: Mutex<Vec<String>>,
    pub(super) paths: Mutex<Vec<PathState>>,
    /// The smaller MTU of connections that have one.
    pub(super) narrowed: Mutex<HashMap<Cid, u32>>,
    /// The longest packet that is on its way, bytes.
    pub(super) longest: Mutex<u32>,
    /// The longest packet that the data path from this node carries, bytes.
    pub(super) carries: Mutex<u32>,
    /// Whether packets of the peer arrive.
    pub(super) hears: Mutex<bool>,
    /// MAC address of the next hop to every peer, if the neighbour table has one.
    pub(super) next_hop: Mutex<Option<Mac>>,
    /// Whether there was a notice that it has changed.
    pub(super) next_hops_changed: Mutex<bool>,
    /// How often the neighbour table was read without a request to resolve, and with one.
    pub(super) next_hop_reads: Mutex<[u32; 2]>,
    /// Whether a read of the neighbour table waits, as for somebody who changes interfaces.
    pub(super) neighbours_wait: AtomicBool,
    /// A peer whose next hop cannot be resolved.
    pub(super) unreachable: Mutex<Option<IpAddr>>,
    pub(super) capacity: usize,
}

pub(super) struct FakeReservation(FakeNode, Option<Cid>);

impl Drop for FakeReservation {
    fn drop(&mut self) {
        if let Some(cid) = self.1 {
            lock(&self.0.0.table).remove(&cid.0);
        }
    }
}

impl FakeNode {
    pub(super) fn new(address: &str, mtu: u32) -> Self {
        Self::with_capacity(address, mtu, CONNECTIONS)
    }

    pub(super) fn with_capacity(address: &str, mtu: u32, capacity: usize) -> Self {
        let address = address.parse().unwrap();
        Self(Arc::new(Memory {
            address,
            mtu: Mutex::new(mtu),
            table: Mutex::default(),
            fatal: Mutex::default(),
            regions: Mutex::default(),
            refusals: Mutex::default(),
            packets: AtomicU64::default(),
            outstanding: AtomicUsize::default(),
            news: Mutex::default(),
            paths: Mutex::default(),
            narrowed: Mutex::default(),
            longest: Mutex::default(),
            carries: Mutex::new(u32::MAX),
            hears: Mutex::new(true),
            next_hop: Mutex::default(),
            next_hops_changed: Mutex::default(),
            next_hop_reads: Mutex::default(),
            neighbours_wait: AtomicBool::default(),
            unreachable: Mutex::default(),
            capacity,
        }))
    }

    pub(super) fn opened(&self, cid: Cid) -> Agreement {
        lock(&self.0.table)[&cid.0].clone().expect("open")
    }

    pub(super) fn in_use(&self) -> usize {
        lock(&self.0.table).len()
    }
}

impl Host for FakeNode {
    type Reservation = FakeReservation;
    type Region = ();

    fn local(&self) -> LocalEnd {
        let mtu = *lock(&self.0.mtu);
        LocalEnd {
            address: self.0.address,
            interface_index: 1,
            mac: Mac([2, 0, 0, 0, 0, 1]),
            mtu,
            max_segment: mtu - 100,
            clock_ps: 77,
        }
    }

    fn reserve_cid(&self) -> Result<FakeReservation, HostError> {
        let mut table = lock(&self.0.table);
        let free =
            (0..self.0.capacity as u32).find(|cid| !table.contains_key(cid)).ok_or(HostError::TableFull)?;
        table.insert(free, None);
        Ok(FakeReservation(self.clone(), Some(Cid(free))))
    }

    fn reserved(reservation: &FakeReservation) -> Cid {
        reservation.1.expect("reserved")
    }

    async fn next_hop(&self, peer: IpAddr) -> Option<Mac> {
        if *lock(&self.0.unreachable) == Some(peer) {
            std::future::pending::<()>().await;
        }
        *lock(&self.0.next_hop)
    }

    fn next_hops_changed(&self) -> bool {
        std::mem::take(&mut *lock(&self.0.next_hops_changed))
    }

    fn known_next_hop(&self, _: IpAddr, ask: bool) -> Option<Mac> {
        let begun = std::time::Instant::now();
        while self.0.neighbours_wait.load(Ordering::Relaxed) && begun.elapsed() < 2 * PATIENCE {
            std::thread::sleep(Duration::from_millis(1));
        }
        let known = *lock(&self.0.next_hop);
        lock(&self.0.next_hop_reads)[usize::from(ask)] += 1;
        known
    }

    fn set_next_hop(&self, cid: Cid, generation: u32, mac: Mac) -> bool {
        let mut paths = lock(&self.0.paths);
        let path = paths.iter_mut().find(|path| (path.cid, path.generation) == (cid, generation));
        path.map(|path| path.next_hop = mac).is_some()
    }

    fn open(&self, mut reservation: FakeReservation, agreement: &Agreement) -> Result<(), HostError> {
        let cid = reservation.1.take().expect("reserved");
        assert_eq!(agreement.connection.local_cid, cid);
        lock(&self.0.table).insert(cid.0, Some(agreement.clone()));
        Ok(())
    }

    fn proof_region(&self, _: u32) -> Option<((), RKey)> {
        Some(((), RKey(7)))
    }

    async fn prove(&self, cid: Cid, region: RKey, _: Duration) -> Proof {
        assert_eq!(region, RKey(7));
        let mtu = self.opened(cid).mtu;
        let carries = *lock(&self.0.carries);
        let heard = *lock(&self.0.hears);
        Proof { short: carries > 0, full: carries >= mtu, heard }
    }

    fn health(&self, cid: Cid) -> Health {
        if lock(&self.0.fatal).contains(&cid) {
            return Health::Fatal;
        }
        if lock(&self.0.table).contains_key(&cid.0) { Health::Open } else { Health::Closed }
    }

    fn refusals(&self) -> Vec<Refusals> {
        lock(&self.0.refusals).clone()
    }

    fn packets_received(&self, _: Cid) -> u64 {
        self.0.packets.load(Ordering::Relaxed)
    }

    fn outstanding(&self, _: Cid) -> usize {
        self.0.outstanding.load(Ordering::Relaxed)
    }

    fn news(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.0.news))
    }

    fn narrow(&self, cid: Cid, mtu: u32) -> bool {
        lock(&self.0.narrowed).insert(cid, mtu);
        *lock(&self.0.longest) <= mtu
    }

    fn paths(&self) -> Vec<PathState> {
        lock(&self.0.paths).clone()
    }

    fn close(&self, cid: Cid) {
        lock(&self.0.table).remove(&cid.0);
    }

    fn regions(&self) -> Vec<RegionAdvertisement> {
        lock(&self.0.regions).clone()
    }
}

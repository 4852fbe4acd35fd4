//! What an application gives back is given back in three steps: programs that start no longer find it, a grace
//! period passes, and then it is free. These tests have the maps of the kernel, and grace periods of their own.

use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use aya::Ebpf;
use tiercel::backend::{Cids, Connections, Core, Datapath, KeyChoice, Quiescence, Regions, Shared, Ticket};
use tiercel::congestion::Algorithms;
use tiercel::{Access, Device, Error, Mac, OpenConnection};
use transport_common::connection::State;
use transport_common::ids::{Cid, RKey};
use transport_common::queues::NodeConfig;

use crate::node::rate_update::{RateUpdate, RateUpdateOptions};
use crate::node::xdp::loader::Loaded;

/// Index of the loopback interface, which every network namespace has. Nothing is attached to it.
const LOOPBACK: u32 = 1;

type Look = Box<dyn FnMut() + Send>;

/// Grace periods that the test ends. The test looks at the node whenever one is requested or waited for.
#[derive(Default)]
struct Watched {
    requested: AtomicU64,
    passed: AtomicU64,
    waits: AtomicU32,
    look: Mutex<Option<Look>>,
}

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watched")
    }
}

impl Watched {
    fn on_request(&self, look: impl FnMut() + Send + 'static) {
        *self.look.lock().expect("no panic") = Some(Box::new(look));
    }

    fn look(&self) {
        self.waits.fetch_add(1, SeqCst);
        if let Some(look) = &mut *self.look.lock().expect("no panic") {
            look();
        }
    }

    fn count(&self) -> u32 {
        self.waits.load(SeqCst)
    }
}

impl Quiescence for Watched {
    fn wait(&self) {
        self.look();
    }

    fn begin(&self) -> Ticket {
        self.look();
        Ticket(self.requested.fetch_add(1, SeqCst) + 1)
    }

    fn has_passed(&self, ticket: Ticket) -> bool {
        self.passed.load(SeqCst) >= ticket.0
    }
}

/// The state of a node whose programs are in the kernel, but not attached.
fn node() -> (Arc<Shared>, Arc<Watched>, Ebpf) {
    let config = NodeConfig {
        mac_word: 2,
        ipv6: [0; 2],
        ipv4: 1,
        interface_index: LOOPBACK,
        memory: tiercel::backend::memory::DEFAULT,
    };
    let (object, maps) = Loaded::load(config, false, false).expect("root may load programs").unattached();
    let grace = Arc::new(Watched::default());
    let datapath = Datapath::new(maps).expect("a node");
    let rate_update = RateUpdate::new(RateUpdateOptions::default(), Algorithms::new(), Arc::clone(&datapath))
        .expect("the defaults");
    let shared = Shared::new(datapath, Arc::clone(&grace) as Arc<dyn Quiescence>, rate_update);
    (shared, grace, object)
}

#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_region_is_free_after_a_grace_period() {
    const KEY: RKey = RKey(5);
    let (shared, grace, _object) = node();
    let regions = Regions::new();
    let register = || regions.register(&shared, 8192, Access::LOCAL, KeyChoice::Given(KEY));
    let free = shared.pool.free_bytes();
    let region = register().expect("the table is empty");
    let memory = shared.pool.free_bytes();
    assert!(memory < free);

    let entry = |shared: &Shared| shared.maps.regions.get(KEY.0 as usize).load();
    assert_eq!(entry(&shared).key, KEY.0);
    let (node, table) = (Arc::downgrade(&shared), Arc::clone(&regions));
    grace.on_request(move || {
        let shared = node.upgrade().expect("the test holds it");
        assert_eq!(entry(&shared).key, 0, "no program finds it any more");
        assert_eq!(shared.pool.free_bytes(), memory, "its memory is not free yet");
        assert!(!table.is_free(KEY), "nor is its key");
    });
    let clone = region.clone();
    region.deregister();
    assert_eq!(grace.count(), 1, "who deregisters may use the memory for something else at once");
    drop(clone);
    assert_eq!(grace.count(), 2);
    assert_eq!(shared.pool.free_bytes(), free);
    assert!(regions.is_free(KEY));
}

#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_connection_slot_is_free_after_a_grace_period() {
    let (shared, grace, _object) = node();
    let (cids, connections) = (Cids::new(), Connections::default());
    let mac = Mac([2, 0, 0, 0, 0, 1]);
    let address = [10, 0, 0, 1].into();
    let device = Device { address, ..Device::for_tests() };
    let open = OpenConnection::new(Cid(9), [10, 0, 0, 2].into(), mac);
    let reservation = cids.reserve_given(Cid(7)).expect("free");
    let core = Core::open(&shared, reservation, &open, &device).expect("opened");
    connections.insert(&core);
    let state = |shared: &Shared| shared.maps.connection(7).expect("read").connection.state;
    assert_eq!(state(&shared), State::Open);

    let node = Arc::downgrade(&shared);
    grace.on_request(move || {
        let shared = node.upgrade().expect("the test holds it");
        assert_eq!(state(&shared), State::Closed, "no program finds it any more");
    });
    core.close();
    connections.look(false);
    assert_eq!(grace.count(), 0, "the datapath has not closed it yet");
    core.qp().control.state.store(State::Closed as u32, SeqCst);
    connections.look(false);
    assert_eq!(grace.count(), 0, "what its page says is only a hint");
    let mut entry = shared.maps.connection(7).expect("read");
    entry.connection.state = State::Closed;
    shared.maps.set_connection(7, &entry).expect("written");
    let begun = Instant::now();
    while grace.count() == 0 {
        connections.look(false);
        assert!(begun.elapsed() < Duration::from_secs(60), "the datapath is asked again");
    }
    let is_in_use = || matches!(cids.reserve_given(Cid(7)), Err(Error::CidInUse { .. }));
    for _ in 0..3 {
        connections.look(false);
        assert_eq!(grace.count(), 1, "one period is enough");
        assert!(is_in_use() && connections.get(Cid(7)).is_some(), "a program may still use the slot");
    }
    grace.passed.store(grace.requested.load(SeqCst), SeqCst);
    connections.look(false);
    assert!(!is_in_use() && connections.get(Cid(7)).is_none());
}

//! The state that all tasks of a connection manager share.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use tiercel::Tuning;
use transport_common::ids::Cid;

use super::admission::{Admission, Limits};
use super::counters::Counters;
use super::dialing::Dialing;
use super::events::EventLog;
use super::host::Host;
use super::incoming::Incoming;
use super::notices::{NoticeQueue, Notices};
use super::options::{ManagerOptions, Timing};
use super::reconnects::Reconnects;
use super::session::Session;

/// The state that all tasks of the manager share.
pub(super) struct Shared<H> {
    pub(super) host: H,
    pub(super) tuning: Tuning,
    pub(super) timing: Timing,
    pub(super) sessions: Mutex<HashMap<Cid, Arc<Session>>>,
    pub(super) limits: Limits,
    pub(super) admission: Arc<Admission>,
    pub(super) dialing: Dialing,
    /// Connections whose data path is being proven.
    pub(super) proving: Mutex<HashSet<Cid>>,
    pub(super) counters: Counters,
    pub(super) events: EventLog,
    pub(super) notices: NoticeQueue,
    pub(super) reconnects: Reconnects,
    pub(super) incoming: Incoming,
}

impl<H: Host> Shared<H> {
    /// Makes the state of a manager that has no session yet. The second value gets the notices for the node.
    pub(super) fn new(host: H, options: ManagerOptions) -> (Arc<Self>, Notices) {
        let (notices, receiver) = NoticeQueue::new();
        let shared = Self {
            host,
            tuning: options.tuning,
            timing: options.timing,
            sessions: Mutex::default(),
            limits: options.limits,
            admission: Admission::new(options.limits),
            dialing: Dialing::default(),
            proving: Mutex::default(),
            counters: Counters::default(),
            events: EventLog::default(),
            notices,
            reconnects: Reconnects::default(),
            incoming: Incoming::default(),
        };
        (Arc::new(shared), receiver)
    }
}

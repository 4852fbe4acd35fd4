//! Reads or writes a whole connection, or changes its next hop or its settings of congestion control: the request of the
//! node to the datapath.

use crate::congestion::settings::{CurrentSettings, Settings};
use crate::connection::{Connection, Endpoint, Snapshot};
use crate::shared::{AtomicU32, Slot};

/// What an exchange does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Direction {
    /// Copies the connection from the slot.
    Read = 0,
    /// Copies the connection into the slot.
    Write = 1,
    /// Gives the connection in the slot another next hop: [`set_next_hop`], with the endpoint and the generation of the
    /// request's connection.
    NextHop = 2,
    /// Requests other settings of congestion control for the connection in the slot: [`request_settings`], with the
    /// endpoint, the generation and the requested settings of the request's connection.
    Settings = 3,
}

/// Return value of the program that carries the request out. It is also a verdict on the frame of the call, which has
/// no effect: nobody sends that frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Answer {
    /// There is no such slot, or its lock could not be taken: `XDP_ABORTED`.
    Failed = 0,
    /// The slot has another connection than that of the request, or none: `XDP_DROP`.
    Gone = 1,
    /// The request is carried out: `XDP_PASS`.
    Done = 2,
}

/// A request of the node, which the datapath carries out under the connection's lock.
#[repr(C)]
pub struct Exchange {
    /// Connection slot.
    pub slot: AtomicU32,
    /// A [`Direction`]. Any other value counts as [`Direction::Read`], which changes no connection.
    pub direction: AtomicU32,
    /// The connection.
    pub connection: Slot<Snapshot>,
}

/// Sends all packets of a connection to the next hop of `request` from now on, if it is the connection with that CID and this
/// generation. Nothing else of it changes, and a frame is built with the address of its moment, so packets on their way are
/// sent again to the new next hop. Returns false if it is another connection.
#[inline(always)]
pub fn set_next_hop(connection: &mut Connection, request: &Endpoint, generation: u32) -> bool {
    let is_it = is_same(connection, request, generation);
    if is_it {
        connection.flow.endpoint.path.destination_mac = request.path.destination_mac;
    }
    is_it
}

/// Requests other settings of a connection, if it is the one with the CID and the generation of `request`. They are in force
/// from its next service. Returns false if it is another connection.
#[inline(always)]
pub fn request_settings(
    connection: &Connection,
    current: &mut CurrentSettings,
    request: &Connection,
    settings: &Settings,
) -> bool {
    let is_it = is_same(connection, &request.flow.endpoint, request.generation);
    if is_it {
        current.request(settings);
    }
    is_it
}

#[inline(always)]
fn is_same(connection: &Connection, request: &Endpoint, generation: u32) -> bool {
    connection.flow.endpoint.local_cid == request.local_cid && connection.generation == generation
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::connection::{Flow, Path, State};
    use crate::ids::Cid;

    const OLD: [u8; 6] = [2, 0, 0, 0, 0, 1];
    const NEW: [u8; 6] = [6, 5, 4, 3, 2, 1];

    fn connection() -> Connection {
        let path = Path { destination_mac: OLD, source_mac: [2; 6], source_port: 50_000, ..Path::default() };
        let endpoint = Endpoint { path, local_cid: Cid(261), peer_cid: Cid(7), ..Endpoint::default() };
        let flow = Flow { endpoint, ..Flow::default() };
        Connection { state: State::Open, generation: 3, flow, ..Connection::default() }
    }

    fn request(cid: u32) -> Endpoint {
        let path = Path { destination_mac: NEW, ..Path::default() };
        Endpoint { path, local_cid: Cid(cid), ..Endpoint::default() }
    }

    #[test]
    fn only_the_address_of_the_next_hop_changes() {
        let mut changed = connection();
        assert!(set_next_hop(&mut changed, &request(261), 3));
        let mut expected = connection();
        expected.flow.endpoint.path.destination_mac = NEW;
        assert_eq!(changed, expected);
    }

    /// The slot was given to another connection, or the CID to a later one, or to none.
    #[test]
    fn another_connection_keeps_its_next_hop() {
        for (cid, generation) in [(5, 3), (517, 3), (261, 2), (261, 4), (7, 3), (0, 0)] {
            let mut other = connection();
            assert!(!set_next_hop(&mut other, &request(cid), generation), "{cid}, {generation}");
            assert_eq!(other, connection());
        }
        let mut closed = Connection::default();
        assert!(!set_next_hop(&mut closed, &request(261), 3));
        assert_eq!(closed, Connection::default());
    }

    /// As for the next hop: only the connection that is meant gets the request.
    #[test]
    fn only_the_connection_that_is_meant_gets_other_settings() {
        for (cid, generation, is_it) in [(261, 3, true), (5, 3, false), (261, 2, false), (0, 0, false)] {
            let flow = Flow { endpoint: request(cid), ..Flow::default() };
            let request = Connection { flow, generation, ..Connection::default() };
            let before = CurrentSettings::new(Settings::CONSTANT);
            let mut current = before;
            assert_eq!(
                request_settings(&connection(), &mut current, &request, &Settings::SWIFT),
                is_it,
                "{cid}, {generation}"
            );
            let mut expected = before;
            if is_it {
                expected.request(&Settings::SWIFT);
            }
            assert_eq!(current, expected);
        }
    }
}

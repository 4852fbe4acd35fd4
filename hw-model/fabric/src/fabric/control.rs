//! Flow control: the fabric pauses and resumes hosts.

use crate::flow_control::{self, FlowControl, IngressMemory};
use crate::time::Time;
use crate::topology::Egress;

use super::{Fabric, Flight, Port, Subject};

impl Fabric {
    /// Enables flow control: from now on switches pause hosts. The fabric delivers the control frames like other
    /// frames (see [`pauses`](crate::pauses)). The hosts have to obey them. There is no flow control between
    /// switches or on links that trim.
    pub fn set_flow_control(&mut self, config: FlowControl) {
        let memory = |_| IngressMemory::new(config, self.topology.hosts());
        self.ingress = (0..self.topology.switches()).map(memory).collect();
    }

    /// Counts a frame in the memory of its host's switch until the frame's departure.
    pub(super) fn store(&mut self, egress: Egress, now: Time, ingress: Port, departure: Time, bytes: u64) {
        let switch = self.topology.switch_of(ingress);
        if self.topology.start_of(egress) != switch {
            return;
        }
        let Some(memory) = self.ingress.get_mut(usize::from(switch)) else { return };
        let pauses = memory.store(ingress.index(), bytes);
        self.schedule(departure, Subject::Release(ingress, bytes));
        if pauses {
            self.control(now, ingress, true);
        }
    }

    pub(super) fn release(&mut self, now: Time, port: Port, bytes: u64) {
        let switch = usize::from(self.topology.switch_of(port));
        for resumed in self.ingress[switch].release(port.index(), bytes) {
            self.control(now, Port(resumed as u16), false);
        }
    }

    /// Sends a frame that tells a host to pause or to resume. It goes before all frames that wait. The model
    /// ignores the wire time that it takes from other frames.
    fn control(&mut self, now: Time, port: Port, pauses: bool) {
        let (frame, link) = (flow_control::frame(pauses), &mut self.links[port.index()]);
        let due = link.control(now, frame.len() as u64);
        let event = self.next_number;
        let egress = Egress::Host(port);
        let flight = Flight { event, due, ingress: port, destination: port, egress, ordinal: None, frame };
        let slot = self.flights.insert(flight);
        self.schedule(due, Subject::Arrival(slot));
    }
}

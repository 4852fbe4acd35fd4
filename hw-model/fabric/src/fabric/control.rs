//! Flow control: hosts that are paused and let go on.

use crate::flow_control::{self, FlowControl, IngressMemory};
use crate::time::Time;
use crate::topology::Egress;

use super::{Fabric, Flight, Port, Subject};

impl Fabric {
    /// From now on switches pause hosts. The frames that do so are delivered as others are, see
    /// [`pauses`](crate::pauses): to obey them is the hosts' part. Between switches there is no flow control, nor on
    /// links that trim.
    pub fn set_flow_control(&mut self, config: FlowControl) {
        let memory = |_| IngressMemory::new(config, self.topology.hosts());
        self.ingress = (0..self.topology.switches()).map(memory).collect();
    }

    /// Flow control: a frame is in the memory of the switch at its host until its departure.
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

    /// Tells a host to pause or to go on. The frame goes before all that wait; what it takes of the wire's time is left
    /// out.
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

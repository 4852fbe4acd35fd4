//! The Swift congestion control with PLB as a P4 program, and its comparison with the Swift of `transport-common`.
//!
//! # Source
//!
//! Swift and PLB are those of the Falcon specification, rev 0.9, section 10 (clauses F-…), with the project's
//! decisions (D-…). The program is `swift.p4`, in the P4-16 subset of [`p4_subset`]. It does a fixed amount of
//! work on an event and a connection record.
//!
//! # Where to start
//!
//! - [`SOURCE`] is the text of the program. [`SwiftProgram`] runs it on the events of connections.
//! - [`differential`] compares every bit of every result with the datapath's own Swift. [`RandomEvents`] makes the
//!   events.
//! - [`generate`] makes the tables of the program from the datapath's constants.
//! - [`experiments`] measure the equality and the hardware cost.
//!
//! # Units
//!
//! One event is one run of the program. Numbers have the formats of `transport-common`: windows in 2^-10 packets,
//! durations in ticks of 131.072 ns. The program has no cycles. Its cost in pipeline stages is in
//! [`p4_subset::Report`].
//!
//! # Experiments
//!
//! `tiercel model experiment p4-swift p4-cost` runs the experiments. `docs/model/swift-p4.md` describes the
//! results.
//!
//! # Example
//!
//! ```
//! let found = swift_p4::differential::compare(500, 1, &mut |_| {})?;
//! assert_eq!((found.events, found.differences), (500, 0));
//! # Ok::<(), swift_p4::SwiftError>(())
//! ```

pub mod differential;
mod events;
pub mod experiments;
pub mod generate;
#[cfg(test)]
mod tests;

use p4_subset::{ChangeError, Error, FieldId, Machine, Match, Program};
use transport_common::congestion::event::{Direction, Event};
use transport_common::congestion::nic_time::{DelayCode, NicTime};
use transport_common::congestion::parameters::Prepared;
use transport_common::congestion::plb::PlbState;
use transport_common::congestion::result::Outcome;
use transport_common::units::{Fcwnd, InterPacketGap, Ticks};

pub use events::RandomEvents;

/// The text of the program.
pub const SOURCE: &str = include_str!("../swift.p4");

/// Number of connections in the program's registers.
pub const CONNECTIONS: u32 = 4096;

/// The profile whose parameters [`SwiftProgram::set_parameters`] sets.
const PROFILE: u128 = 1;

/// The reason why a program cannot be used as Swift.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SwiftError {
    /// The program does not compile.
    #[error(transparent)]
    Program(#[from] Error),
    /// The entry control of the program lacks a field.
    #[error("the program's entry control has no `{0}`: take the parameters from swift.p4")]
    Port(&'static str),
    /// The program lacks a table or register.
    #[error(transparent)]
    Change(#[from] ChangeError),
}

/// The program's fields for an event.
#[derive(Clone, Copy, Debug)]
struct EventFields {
    connection_id: FieldId,
    event_type: FieldId,
    times: [FieldId; 4],
    retransmit_count: FieldId,
    nack_code: FieldId,
    forward_hops: FieldId,
    rx_buffer_level: FieldId,
    cc_metadata: FieldId,
    num_packets_acked: FieldId,
    eack_drop: FieldId,
}

/// The program's fields for the connection's record.
#[derive(Clone, Copy, Debug)]
struct RecordFields {
    fcwnd: FieldId,
    ncwnd: FieldId,
    inter_packet_gap: FieldId,
    retransmit_timeout: FieldId,
    fabric_window_time_marker: FieldId,
    nic_window_time_marker: FieldId,
    ncwnd_direction: FieldId,
    base_delay_target: FieldId,
    delay_state: FieldId,
    rtt_state: FieldId,
    delay_select: FieldId,
    profile: FieldId,
}

/// A P4 program that takes events and returns results as the rate update engine does.
#[derive(Clone, Debug)]
pub struct SwiftProgram {
    machine: Machine,
    event: EventFields,
    record: RecordFields,
    cc_metadata: FieldId,
    randomize_path: FieldId,
}

impl SwiftProgram {
    /// Creates a machine with the program of [`SOURCE`] and the parameters of D-78.
    ///
    /// # Errors
    /// Returns a [`SwiftError`] if `swift.p4` was changed so that it is not a valid Swift program.
    pub fn new() -> Result<Self, SwiftError> {
        Self::with_source(SOURCE)
    }

    /// Creates a machine with another program. It must have the same entry control, tables and registers.
    ///
    /// # Errors
    /// Returns a [`SwiftError`] if the program does not compile or lacks a field.
    pub fn with_source(source: &str) -> Result<Self, SwiftError> {
        let program = Program::compile(source)?;
        let port = |name| program.field(name).ok_or(SwiftError::Port(name));
        let event = EventFields {
            connection_id: port("event.connection_id")?,
            event_type: port("event.event_type")?,
            times: [port("event.t1")?, port("event.t2")?, port("event.t3")?, port("event.t4")?],
            retransmit_count: port("event.retransmit_count")?,
            nack_code: port("event.nack_code")?,
            forward_hops: port("event.forward_hops")?,
            rx_buffer_level: port("event.rx_buffer_level")?,
            cc_metadata: port("event.cc_metadata")?,
            num_packets_acked: port("event.num_packets_acked")?,
            eack_drop: port("event.eack_drop")?,
        };
        let record = RecordFields {
            fcwnd: port("connection.fcwnd")?,
            ncwnd: port("connection.ncwnd")?,
            inter_packet_gap: port("connection.inter_packet_gap")?,
            retransmit_timeout: port("connection.retransmit_timeout")?,
            fabric_window_time_marker: port("connection.fabric_window_time_marker")?,
            nic_window_time_marker: port("connection.nic_window_time_marker")?,
            ncwnd_direction: port("connection.ncwnd_direction")?,
            base_delay_target: port("connection.base_delay_target")?,
            delay_state: port("connection.delay_state")?,
            rtt_state: port("connection.rtt_state")?,
            delay_select: port("connection.delay_select")?,
            profile: port("connection.profile")?,
        };
        let (cc_metadata, randomize_path) = (port("result.cc_metadata")?, port("result.randomize_path")?);
        Ok(Self { machine: Machine::new(program), event, record, cc_metadata, randomize_path })
    }

    /// Returns the program.
    pub const fn program(&self) -> &Program {
        self.machine.program()
    }

    /// Puts parameters into the table of profiles. They replace the earlier ones, which are those of D-78 at first.
    ///
    /// # Errors
    /// Returns [`SwiftError::Change`] if the program has no such table.
    pub fn set_parameters(&mut self, parameters: &Prepared) -> Result<(), SwiftError> {
        let arguments = generate::profile(parameters);
        self.machine.clear("profile")?;
        Ok(self.machine.insert("profile", &[Match::Value(PROFILE)], "set_parameters", &arguments)?)
    }

    /// Returns the program's PLB counters of a connection.
    ///
    /// # Errors
    /// Returns [`SwiftError::Change`] if the program has no such register.
    pub fn plb(&self, connection_id: u32) -> Result<PlbState, SwiftError> {
        let cell = self.machine.cell("plb", (connection_id % CONNECTIONS) as usize)?;
        Ok(PlbState {
            packets_acknowledged: (cell >> 14) as u16,
            packets_congestion_acknowledged: (cell >> 4 & 0x3ff) as u16,
            reroute_attempted: (cell & 0xf) as u8,
            ..PlbState::default()
        })
    }

    /// Resets the PLB counters of a connection, for a new connection.
    ///
    /// # Errors
    /// Returns [`SwiftError::Change`] if the program has no such register.
    pub fn open(&mut self, connection_id: u32) -> Result<(), SwiftError> {
        Ok(self.machine.set_cell("plb", (connection_id % CONNECTIONS) as usize, 0)?)
    }

    /// Handles an event as an algorithm of the rate update engine does. The event must be stamped
    /// ([`Event::stamp`]).
    pub fn update(&mut self, event: &Event, outcome: &mut Outcome) {
        let machine = &mut self.machine;
        let (to, record) = (&self.event, &self.record);
        machine.set(to.connection_id, event.connection_id.into());
        machine.set(to.event_type, event.event_type.0.into());
        for (field, time) in to.times.into_iter().zip([event.t1, event.t2, event.t3, event.t4]) {
            machine.set(field, time.0.into());
        }
        machine.set(to.retransmit_count, event.retransmit_count.into());
        machine.set(to.nack_code, event.nack_code.0.into());
        machine.set(to.forward_hops, event.forward_hops.into());
        machine.set(to.rx_buffer_level, event.rx_buffer_level.into());
        machine.set(to.cc_metadata, event.cc_metadata.into());
        machine.set(to.num_packets_acked, event.num_packets_acked.into());
        machine.set(to.eack_drop, event.eack_drop.into());
        machine.set(record.fcwnd, event.fcwnd.0.into());
        machine.set(record.ncwnd, event.ncwnd.into());
        machine.set(record.inter_packet_gap, event.inter_packet_gap.0.into());
        machine.set(record.retransmit_timeout, event.retransmit_timeout.0.into());
        machine.set(record.fabric_window_time_marker, event.fabric_window_time_marker.0.into());
        machine.set(record.nic_window_time_marker, event.nic_window_time_marker.0.into());
        machine.set(record.ncwnd_direction, event.ncwnd_direction.0.into());
        machine.set(record.base_delay_target, event.base_delay_target.0.into());
        machine.set(record.delay_state, event.delay_state.0.into());
        machine.set(record.rtt_state, event.rtt_state.0.into());
        machine.set(record.delay_select, event.delay_select.0.into());
        machine.set(record.profile, PROFILE);
        machine.run();
        let get = |field| machine.get(field) as u32;
        *outcome = Outcome {
            connection_id: event.connection_id,
            cc_metadata: get(self.cc_metadata),
            fcwnd: Fcwnd(get(record.fcwnd)),
            inter_packet_gap: InterPacketGap(get(record.inter_packet_gap)),
            retransmit_timeout: Ticks(get(record.retransmit_timeout)),
            fabric_window_time_marker: NicTime(get(record.fabric_window_time_marker)),
            nic_window_time_marker: NicTime(get(record.nic_window_time_marker)),
            base_delay_target: Ticks(get(record.base_delay_target)),
            delay_state: Ticks(get(record.delay_state)),
            rtt_state: Ticks(get(record.rtt_state)),
            ncwnd: get(record.ncwnd) as u16,
            randomize_path: get(self.randomize_path) as u8,
            event_queue_select: event.event_queue_select,
            delay_select: DelayCode(get(record.delay_select) as u8),
            ncwnd_direction: Direction(get(record.ncwnd_direction) as u8),
            cc_opaque: event.cc_opaque,
            reserved: 0,
        };
    }
}

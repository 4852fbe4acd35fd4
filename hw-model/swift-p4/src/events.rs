//! Makes random parameters and random events of a connection.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use transport_common::congestion::event::{Direction, Event, EventType, RetransmitReason};
use transport_common::congestion::fixed_point::Fraction;
use transport_common::congestion::nic_time::{DelayCode, NicTime};
use transport_common::congestion::parameters::{Parameters, Prepared};
use transport_common::congestion::result::Outcome;
use transport_common::congestion::swift::delay_target;
use transport_common::units::{Fcwnd, InterPacketGap, Ticks};
use transport_common::wire::nack::NackCode;

/// Random inputs of Swift. Every value of every field can occur. Values near the decisions of Swift are more
/// frequent than in a uniform distribution.
#[derive(Clone, Debug)]
pub struct RandomEvents {
    random: StdRng,
}

impl RandomEvents {
    /// Creates a source of random inputs. The same seed gives the same inputs.
    pub fn new(seed: u64) -> Self {
        Self { random: StdRng::seed_from_u64(seed) }
    }

    /// Returns a number of at most `most`. All magnitudes are equally likely.
    fn magnitude(&mut self, most: u32) -> u32 {
        let bits = self.random.random_range(0..=32 - most.leading_zeros());
        self.random.random_range(0..1u64 << bits).min(most.into()) as u32
    }

    fn up_to(&mut self, most: u32) -> u32 {
        self.random.random_range(0..=most)
    }

    fn bits<T: TryFrom<u32> + Default>(&mut self, bits: u32) -> T {
        T::try_from(self.up_to((1 << bits) - 1)).unwrap_or_default()
    }

    /// Returns a number within 255 of a value.
    fn near(&mut self, value: u32, most: u32) -> u32 {
        let (up, down) = (self.magnitude(255), self.magnitude(255));
        (value + up).saturating_sub(down).min(most)
    }

    fn time(&mut self) -> NicTime {
        NicTime(self.bits(NicTime::BITS))
    }

    fn fraction(&mut self, most: u32) -> Fraction {
        Fraction(match self.up_to(3) {
            0 => 0,
            1 => most,
            _ => self.up_to(most),
        })
    }

    /// Returns random parameters within their ranges, or the defaults every third time on average.
    pub fn parameters(&mut self) -> Prepared {
        if self.up_to(2) == 0 {
            return Prepared::DEFAULT;
        }
        let one = Fraction::ONE.0;
        let min_fcwnd = self.magnitude(Fcwnd::MAX.0).max(1);
        let max_fcwnd = self.random.random_range(min_fcwnd..=Fcwnd::MAX.0);
        let min_ncwnd = self.magnitude(2047).max(1);
        let min_scaling = self.magnitude(Fcwnd::MAX.0 / 2).max(1);
        let parameters = Parameters {
            min_fcwnd: Fcwnd(min_fcwnd),
            max_fcwnd: Fcwnd(max_fcwnd),
            fixed_window: Fcwnd(max_fcwnd),
            fabric_additive_increment: Fcwnd(self.magnitude(Fcwnd::MAX.0).max(1)),
            fabric_multiplicative_decrease_factor: self.fraction(one),
            max_fabric_multiplicative_decrease_factor: self.fraction(one),
            min_ncwnd,
            max_ncwnd: self.random.random_range(min_ncwnd..=2047),
            nic_additive_increment: self.magnitude(2047).max(1),
            nic_multiplicative_decrease_factor: self.fraction(one),
            max_nic_multiplicative_decrease_factor: self.fraction(one),
            target_rx_buffer_level: self.up_to(31),
            plb_target_delay_multiplier: self.fraction(16 * one),
            plb_congestion_threshold: self.fraction(one),
            plb_attempt_threshold: self.up_to(14) + 1,
            rtt_smoothing_alpha: self.fraction(one),
            delay_smoothing_alpha: self.fraction(one),
            topology_scaling_per_hop: Ticks(self.magnitude(NicTime::MASK)),
            retransmit_timeout_scalar: Fraction(self.random.random_range(one..=256 * one)),
            retransmit_limit: self.up_to(6) + 1,
            min_rto: Ticks(self.magnitude(NicTime::MASK).max(1)),
            min_flow_scaling_window: Fcwnd(min_scaling),
            max_flow_scaling_window: Fcwnd(self.random.random_range(2 * min_scaling..=Fcwnd::MAX.0)),
            max_flow_scaling: Ticks(self.magnitude(NicTime::MASK)),
            max_decrease_on_eack_drop: self.up_to(1),
            ..Parameters::DEFAULT
        };
        parameters.prepare().unwrap_or(Prepared::DEFAULT)
    }

    fn window(&mut self, p: &Parameters) -> u32 {
        match self.up_to(7) {
            0 => p.min_fcwnd.0,
            1 => p.max_fcwnd.0,
            2 => self.near(1024, Fcwnd::MAX.0),
            3 => self.magnitude(Fcwnd::MAX.0),
            4 => self.magnitude(2047),
            5 => self.up_to(Fcwnd::MAX.0),
            _ => self.random.random_range(p.min_fcwnd.0..=p.max_fcwnd.0),
        }
    }

    fn age(&mut self, rtt: u32) -> Ticks {
        Ticks(match self.up_to(3) {
            0 => rtt,
            1 => self.near(rtt, NicTime::MASK),
            2 => self.magnitude(NicTime::MASK),
            _ => self.up_to(NicTime::MASK),
        })
    }

    /// Returns an event of a connection. Half of the events have the state of the connection's last result.
    pub fn event(&mut self, connection_id: u32, parameters: &Prepared, last: Option<&Outcome>) -> Event {
        let p = parameters.parameters();
        let now = self.time();
        let rtt = self.magnitude(NicTime::MASK);
        let largest_target = if self.up_to(1) == 0 { 4096 } else { NicTime::MASK };
        let (t2, held) = (self.time(), self.magnitude(rtt));
        let (fabric_age, nic_age) = (self.age(rtt), self.age(rtt));
        let ncwnd = match self.up_to(3) {
            0 => p.min_ncwnd,
            1 => p.max_ncwnd,
            2 => self.up_to(2047),
            _ => self.random.random_range(p.min_ncwnd..=p.max_ncwnd),
        };
        let mut event = Event {
            connection_id,
            event_type: EventType([0, 0, 0, 0, 1, 1, 2, 2, 3][self.up_to(8) as usize]),
            t1: now.before(Ticks(rtt)),
            t2,
            t3: NicTime(t2.0.wrapping_add(held) & NicTime::MASK),
            t4: now,
            cc_metadata: self.bits(24),
            fcwnd: Fcwnd(self.window(p)),
            inter_packet_gap: InterPacketGap(self.bits(20)),
            retransmit_timeout: Ticks(self.bits(24)),
            fabric_window_time_marker: now.before(fabric_age),
            nic_window_time_marker: now.before(nic_age),
            base_delay_target: Ticks(self.magnitude(largest_target)),
            delay_state: Ticks(self.magnitude(NicTime::MASK)),
            rtt_state: Ticks(self.magnitude(NicTime::MASK)),
            ncwnd: ncwnd as u16,
            num_packets_acked: self.magnitude(1023) as u16,
            ecn_accumulated: self.bits(14),
            retransmit_count: self.bits(3),
            retransmit_reason: RetransmitReason(self.bits(1)),
            nack_code: NackCode(self.up_to(9) as u8),
            forward_hops: self.bits(4),
            rx_buffer_level: self.bits(5),
            eack_drop: self.bits(1),
            eack: self.bits(1),
            event_queue_select: self.bits(2),
            delay_select: DelayCode([1, 1, 1, 0, 2, 3][self.up_to(5) as usize]),
            ncwnd_direction: Direction(self.bits(1)),
            cc_opaque: self.bits(2),
            ..Event::default()
        };
        if let Some(last) = last
            && self.up_to(1) == 0
        {
            event.fcwnd = last.fcwnd;
            event.ncwnd = last.ncwnd;
            event.ncwnd_direction = last.ncwnd_direction;
            event.fabric_window_time_marker = last.fabric_window_time_marker;
            event.nic_window_time_marker = last.nic_window_time_marker;
            event.delay_state = last.delay_state;
            event.rtt_state = last.rtt_state;
        }
        self.aim(&mut event, parameters);
        event
    }

    /// Moves the fabric delay close to its target, which separates growth from decrease.
    fn aim(&mut self, event: &mut Event, parameters: &Prepared) {
        if event.event_type > EventType::NACK || event.delay_select != DelayCode(1) || self.up_to(1) == 0 {
            return;
        }
        let target = delay_target(event, parameters).round().0;
        let distance = self.magnitude(target.max(1));
        let wanted = match self.up_to(3) {
            0 => target,
            1 => self.near(target, NicTime::MASK),
            2 => target + distance,
            _ => target.saturating_sub(distance),
        };
        let rtt = event.t4.since(event.t1).0;
        event.t3 = NicTime(event.t2.0.wrapping_add(rtt).wrapping_sub(wanted) & NicTime::MASK);
    }
}

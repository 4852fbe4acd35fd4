//! Mutates contexts and frames within what may occur: values that a configuration may have, states that a race
//! may leave, packets that a peer, a fault or an attacker may send.

use core::sync::atomic::Ordering::Relaxed;
use transport_common::wire::falcon::header_len;
use transport_common::wire::resync::ResyncCode;

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IteratorRandom;
use transport_common::bitmap::Bitmap128;
use transport_common::connection::{Service, Snapshot, State};
use transport_common::ids::Psn;
use transport_common::packet_delivery::{Latest, PacketFlags, Probe, Rack};
use transport_common::queues::{
    AccessFlags, COMPLETION_QUEUE_DEPTH, Command, LKey, RECEIVE_QUEUE_DEPTH, ReceiveRequest,
    SEND_QUEUE_DEPTH, WorkRequest,
};
use transport_common::units::{Deadline, FalconTime, Fcwnd, PicosecondSpan, Picoseconds, Ticks};
use transport_common::wire::{PacketType, ProtocolType};

use super::frame::{Places, fit_checksums, fit_lengths, put_word, word};
use super::{Case, Stimulus};

impl Case {
    /// Changes the context in `strokes` places.
    pub fn bend_context(&mut self, rng: &mut StdRng, strokes: u32) {
        for _ in 0..strokes {
            match rng.random_range(0..9) {
                0 => self.bend_configuration(rng),
                1 => self.bend_security(rng),
                2 => self.bend_windows(rng),
                3 => self.bend_packets(rng),
                4 => self.bend_timers(rng),
                5 => self.bend_rack(rng),
                6 => self.bend_acknowledging(),
                7 => self.bend_memory(rng),
                _ => self.bend_queues(rng),
            }
        }
    }

    fn bend_configuration(&mut self, rng: &mut StdRng) {
        let c = &mut self.entry.connection;
        match rng.random_range(0..10) {
            0 => c.flow.endpoint.checksum ^= 1,
            8 => c.flow.endpoint.protocol.0 ^= 1,
            1 => c.target.first_rnr_code = rng.random_range(0..32),
            2 => c.flow.delivery.tuning.ack_request_percent = rng.random_range(0..=100),
            3 => c.flow.delivery.tuning.ack_request_threshold = rng.random_range(0..300),
            4 => c.flow.delivery.tuning.ooo_threshold = rng.random_range(0..140),
            5 => c.flow.delivery.tuning.max_retransmit_attempts = rng.random_range(0..4),
            6 => c.flow.endpoint.max_segment = rng.random_range(8..3300),
            7 => c.flow.delivery.tuning.ack_coalescing = Ticks(rng.random_range(0..10_000)),
            _ => {
                // All owners got the same value.
                c.initiator.ordered ^= 1;
                c.target.ordered ^= 1;
                c.responder.ordered ^= 1;
                c.flow.delivery.tuning.ordered ^= 1;
            }
        }
    }

    fn bend_security(&mut self, rng: &mut StdRng) {
        let Snapshot { connection: c, cold, .. } = &mut *self.entry;
        let (security, clock) = (&mut c.flow.security, &mut cold.clock);
        match rng.random_range(0..15) {
            12 => security.inner_version = [0, 4, 6][rng.random_range(0..3)],
            13 => {
                let tunnel = &mut cold.tunnel;
                let address = if rng.random() { &mut tunnel.local } else { &mut tunnel.peer };
                address[rng.random_range(0..2)] ^= 1 << rng.random_range(0..64);
            }
            0 => c.state = [State::Closed, State::Open, State::Fatal, State::Closing][rng.random_range(0..4)],
            1 => security.rx_spi.0 ^= rng.random_range(0..2),
            2 => security.remote_time_known ^= 1,
            3 => {
                let step = PicosecondSpan(rng.random_range(0..1 << 40));
                security.remote_time = security.remote_time.after(step);
            }
            4 => c.flow.endpoint.local_function ^= 1,
            5 => c.flow.endpoint.local_cid.0 ^= 1 << rng.random_range(8..24),
            6 => security.peer[rng.random_range(0..2)] ^= 1 << rng.random_range(0..64),
            // By less than the margin, by about the margin, or by any amount.
            7 | 8 => {
                let lead = PicosecondSpan(up_to_a_power(rng, 20..64));
                let known = clock.lead;
                clock.lead = if rng.random() { known.plus(lead) } else { known.minus(lead) };
            }
            9 => clock.seen = Picoseconds(0),
            // A pause, or a round that has just ended.
            10 if clock.seen.0 != 0 => {
                let ago =
                    PicosecondSpan(up_to_a_power(rng, 20..45) >> Ticks::PICOS_SHIFT << Ticks::PICOS_SHIFT);
                clock.round = clock.round.before(ago);
                if rng.random() {
                    clock.seen = clock.round;
                }
            }
            11 => clock.step = rng.random::<i64>() >> rng.random_range(0..64),
            // The next IV is the one after it, whatever the clock shows (D-12).
            _ => security.last_iv = security.last_iv.after(PicosecondSpan(1 << 50)),
        }
    }

    fn bend_windows(&mut self, rng: &mut StdRng) {
        let c = &mut self.entry.connection;
        match rng.random_range(0..7_usize) {
            0 => c.flow.congestion.fcwnd = Fcwnd(rng.random_range(1..300 << 10)),
            1 => c.flow.congestion.ncwnd = rng.random_range(1..300),
            2 => c.flow.congestion.rto = Ticks(rng.random_range(1..1 << 24)),
            window @ 3..5 => {
                let tx = &mut c.flow.delivery.lanes[window - 3].tx;
                tx.size = rng.random_range(1..=[128, 64][window - 3]).max(tx.in_flight());
            }
            window => c.flow.delivery.lanes[window - 5].rx.own ^= 1,
        }
    }

    /// Queues packets, raises their attempts, or sets RNR, and adapts bitmaps and counts.
    fn bend_packets(&mut self, rng: &mut StdRng) {
        let Self { entry, .. } = self;
        let (c, tables) = (&mut entry.connection, &mut entry.tables);
        let request = rng.random_bool(0.3);
        let window = usize::from(request);
        let (window, packets) = (&mut c.flow.delivery.lanes[window].tx, &mut tables.delivery.packets[window]);
        let mask = Bitmap128::from_words([rng.random(), rng.random()]);
        let mut chosen = window.timed().and(mask);
        let stroke = rng.random_range(0..5);
        while let Some(offset) = chosen.take_lowest() {
            let packet = &mut packets[window.base.add(offset).0 as usize % 128];
            match stroke {
                0 => window.queue_retransmission(offset, packet),
                1 => packet.attempts = rng.random_range(0..6),
                2 => packet.flags |= PacketFlags::RESENT,
                3 => {
                    packet.flags |= PacketFlags::RNR;
                    packet.rnr_code = rng.random_range(0..32);
                }
                _ => {
                    packet.flags |= PacketFlags::RESYNC;
                    packet.resync_code = ResyncCode(rng.random_range(1..8));
                }
            }
        }
    }

    /// Turns RACK-TLP on in the middle of a connection, with any state that it may have.
    fn bend_rack(&mut self, rng: &mut StdRng) {
        let Self { entry, .. } = self;
        let (c, tables) = (&mut entry.connection, &mut entry.tables);
        c.flow.delivery.tuning.rack_tlp = 1;
        let last = c.flow.delivery.ack.report.t2;
        let in_flight = [0, 1].map(|window| c.flow.delivery.lanes[window].tx.in_flight());
        let [data, request] = [0, 1].map(|window| c.flow.delivery.lanes[window].tx.base);
        let known = Bitmap128::from_words([rng.random(), rng.random()]);
        let latest = [Latest::None, Latest::Data, Latest::Request][rng.random_range(0..3)];
        let probe =
            [Probe::None, Probe::QueuedData, Probe::QueuedRequest, Probe::Sent][rng.random_range(0..4)];
        let probed = usize::from(probe == Probe::QueuedRequest);
        tables.delivery.rack = Rack {
            received: known.and(Bitmap128::low_mask(in_flight[0])),
            received_base: Psn(data.0.wrapping_sub(rng.random_range(0..3))),
            sent: FalconTime(last.0.wrapping_sub(up_to_a_power(rng, 0..20) as u32)),
            psn: if latest == Latest::Request { request } else { data.add(rng.random_range(0..4)) },
            rtt: Ticks(up_to_a_power(rng, 0..20) as u32),
            probe_at: if rng.random() { Deadline::at(last) } else { Deadline::NONE },
            probe_psn: [data, request][probed].add(in_flight[probed].saturating_sub(rng.random_range(0..3))),
            latest,
            probe,
            reordered: rng.random_range(0..2),
            news: 0,
        };
        if rng.random() {
            c.flow.delivery.retransmit = Deadline::at(last);
        }
    }

    /// Lets the last ACK and the last resource NACK be recent, for so long that the case ends before.
    fn bend_acknowledging(&mut self) {
        let Self { entry, .. } = self;
        let delivery = &mut entry.connection.flow.delivery;
        delivery.tuning.ack_coalescing = Ticks(1 << 20);
        delivery.ack.sent = delivery.ack.report.t2;
        entry.tables.delivery.nack.resource = delivery.ack.report.t2;
    }

    fn bend_timers(&mut self, rng: &mut StdRng) {
        let taken = self.taken;
        let c = &mut self.entry.connection;
        let past = Deadline::at(c.flow.delivery.ack.report.t2);
        let pending = &mut c.flow.delivery.ack.pending;
        let deadlines = [
            &mut c.flow.delivery.retransmit,
            &mut c.flow.delivery.ack.coalescing,
            &mut c.target.rnr_timer,
            &mut c.initiator.timer,
            &mut c.service.filed,
        ];
        let flipped = rng.random_range(0..5);
        match rng.random_range(0..7) {
            4 => *pending ^= 1,
            // No service has seen to the timers for 5 to 28 minutes.
            6 => {
                let ago = PicosecondSpan(rng.random_range(2..13_u64) << 47);
                c.service.since = Service::coarse(taken.before(ago));
            }
            5 => deadlines.into_iter().take(4).filter(|d| !d.is_armed()).for_each(|d| *d = past),
            n => {
                *deadlines[n] = past;
                let other = if deadlines[flipped].is_armed() { Deadline::NONE } else { past };
                *deadlines[flipped] = other;
            }
        }
    }

    /// Changes the domain of the connection, a region, or how the next requests and receives name their buffers.
    fn bend_memory(&mut self, rng: &mut StdRng) {
        let (c, queues) = (&mut self.entry.connection, &self.queues);
        let registered = self.regions.iter_mut().filter(|region| region.key != 0).choose(rng);
        match (rng.random_range(0..6), registered) {
            (0, _) => c.responder.domain.id.0 ^= 1,
            (1, _) => c.responder.domain.pages = rng.random_range(0..1 << 16),
            (2, Some(region)) => region.domain.0 ^= 1,
            (3, Some(region)) => region.access.toggle(AccessFlags::LOCAL_WRITE),
            (_, Some(region)) => {
                let lkey = LKey(if rng.random_bool(0.8) { region.key } else { rng.random() });
                let inside = |offset: u64| {
                    let at = offset.wrapping_sub(region.offset);
                    if at < region.length { at } else { offset % region.length.max(1) }
                };
                for n in 0..4 {
                    let slot = &queues.send[c.initiator.next.add(n).0 as usize % SEND_QUEUE_DEPTH];
                    let work = slot.load();
                    slot.store(WorkRequest { lkey, local_offset: inside(work.local_offset), ..work });
                    let number = c.responder.receive_next.wrapping_add(n);
                    let slot = &queues.receive[number as usize % RECEIVE_QUEUE_DEPTH];
                    let receive = slot.load();
                    slot.store(ReceiveRequest {
                        lkey,
                        local_offset: inside(receive.local_offset),
                        ..receive
                    });
                }
            }
            _ => {}
        }
    }

    fn bend_queues(&mut self, rng: &mut StdRng) {
        let (c, queues) = (&mut self.entry.connection, &self.queues);
        match rng.random_range(0..9) {
            0 => queues.receive_producer.store(c.responder.receive_next, Relaxed),
            1 => queues
                .receive_producer
                .store(c.responder.receive_next.wrapping_add(rng.random_range(0..400)), Relaxed),
            2 => {
                let full =
                    queues.completion_producer.load(Relaxed).wrapping_sub(COMPLETION_QUEUE_DEPTH as u32);
                queues.completion_consumer.store(full.wrapping_add(rng.random_range(0..3)), Relaxed);
            }
            3 => queues.control.command.store(Command::CLOSE.0, Relaxed),
            4 => {
                queues.send_producer.store(c.initiator.next.0.wrapping_add(rng.random_range(0..300)), Relaxed)
            }
            5 => queues.send_producer.store(rng.random(), Relaxed),
            6 => c.responder.in_message ^= 1,
            7 => c.service.target_next ^= 1,
            _ => c.initiator.completions_blocked ^= 1,
        }
    }

    /// Changes the frame, if there is one.
    pub fn bend_frame(&mut self, rng: &mut StdRng) {
        let Stimulus::Frame(frame) = &mut self.stimulus else { return };
        let Some(places) = Places::of(frame) else { return };
        match rng.random_range(0..14) {
            12 | 13 if places.inner != places.falcon => bend_inner(rng, frame, &places),
            0..=4 => bend_field(rng, frame, &places),
            5 => bend_type(rng, frame, &places),
            6 => flip(rng, frame, places.psp),
            7 => {
                frame.truncate(rng.random_range(14..frame.len()));
                if rng.random_bool(0.7) {
                    fit_lengths(frame);
                }
            }
            8 => frame.extend(core::iter::repeat_n(0, rng.random_range(1..60))),
            9 => {
                let extra = rng.random_range(1..40);
                frame.extend((0..extra).map(|_| rng.random::<u8>()));
                fit_lengths(frame);
            }
            10 => bend_network(rng, frame, &places),
            _ => {
                // Without a correction of the checksums.
                flip(rng, frame, 12);
                return;
            }
        }
        if rng.random_bool(0.95) {
            fit_checksums(frame);
        }
    }
}

/// Returns a number below 2^n, with n from `bits`.
fn up_to_a_power(rng: &mut StdRng, bits: core::ops::Range<u32>) -> u64 {
    let bits = rng.random_range(bits);
    rng.random_range(0..1 << bits)
}

fn flip(rng: &mut StdRng, frame: &mut [u8], from: usize) {
    let at = rng.random_range(from.min(frame.len() - 1)..frame.len());
    frame[at] ^= 1 << rng.random_range(0..8);
}

/// Changes a 32-bit field of the Falcon or ULP header by a small amount, or to any value.
fn bend_field(rng: &mut StdRng, frame: &mut [u8], places: &Places) {
    let at = places.falcon + 4 * rng.random_range(2..20);
    let Some(value) = word(frame, at) else { return };
    let bent = match rng.random_range(0..4) {
        0 => rng.random(),
        1 => value ^ 1 << rng.random_range(0..32),
        _ => value.wrapping_add_signed(rng.random_range(-140..140)),
    };
    put_word(frame, at, bent);
}

/// Sets another packet type, of the same protocol or of any. A type without payload mostly gets its required
/// length, Push Data a correct Request Length, and a Resync a code and the type of a packet that it can replace, so that
/// such frames pass the parser as well.
fn bend_type(rng: &mut StdRng, frame: &mut Vec<u8>, places: &Places) {
    const KINDS: [PacketType; 7] = [
        PacketType::PullRequest,
        PacketType::PullData,
        PacketType::PushData,
        PacketType::Resync,
        PacketType::Nack,
        PacketType::Back,
        PacketType::Eack,
    ];
    let at = places.falcon + 7;
    let protocol = match rng.random_range(0..10) {
        0 => rng.random_range(0..8),
        1 => ProtocolType::Nvme as u8,
        _ => ProtocolType::Rdma as u8,
    };
    let kind = KINDS[rng.random_range(0..KINDS.len())];
    let bits = if rng.random_bool(0.1) { rng.random_range(0..16) } else { kind as u8 };
    frame[at] = protocol << 5 | bits << 1 | rng.random_range(0..2);
    if rng.random_bool(0.2) {
        return;
    }
    let header = places.falcon + header_len(kind);
    if matches!(kind, PacketType::PullRequest | PacketType::PullData | PacketType::PushData) {
        let payload = frame.len().saturating_sub(header);
        frame.resize(header + payload, 0);
    } else {
        frame.resize(header, rng.random());
    }
    fit_lengths(frame);
    if kind == PacketType::Resync {
        // Code 0 and those from 8 on are reserved.
        let replaced = [PacketType::PullRequest, PacketType::PullData, PacketType::PushData];
        frame[places.falcon + 24] = rng.random_range(0..10);
        frame[places.falcon + 25] = (replaced[rng.random_range(0..3)] as u8) << 4;
    }
    if kind == PacketType::PushData {
        let payload = (frame.len() - header) as u16;
        let length = places.falcon + 26;
        frame[length..length + 2].copy_from_slice(&payload.to_be_bytes());
    }
}

/// Changes tag, hop limit, ECN, port, protocol, fragments or options.
fn bend_network(rng: &mut StdRng, frame: &mut Vec<u8>, places: &Places) {
    let ip = places.ip;
    match (rng.random_range(0..6), places.v6) {
        (0, _) if ip == 14 => {
            frame.splice(12..12, [0x81, 0, rng.random(), rng.random()]);
        }
        (1, true) => frame[ip + 7] = rng.random(),
        (1, false) => frame[ip + 8] = rng.random(),
        (2, true) => frame[ip + 1] |= 0x30,
        (2, false) => frame[ip + 1] |= 3,
        (3, _) => frame[places.udp + 3] ^= 1,
        (4, true) => frame[ip + 6] = [0, 6, 43, 44, 58, 60][rng.random_range(0..6)],
        (4, false) => frame[ip] = 0x40 | rng.random_range(0..16),
        (_, true) => frame[ip + 30] ^= 1,
        (_, false) => frame[ip + 6] = rng.random_range(0..64),
    }
}

/// Changes the inner header of a tunnel: any bit, its length, its protocol, or PSP's description of it (F-7.1.2-1).
fn bend_inner(rng: &mut StdRng, frame: &mut [u8], places: &Places) {
    let inner = places.inner;
    let v4 = frame[inner] >> 4 == 4;
    match rng.random_range(0..6) {
        0 => frame[places.psp] = [4, 41, 252, 17][rng.random_range(0..4)],
        1 => frame[places.psp + 2] ^= 1 << rng.random_range(0..6),
        2 => frame[inner + if v4 { 3 } else { 5 }] ^= 1 << rng.random_range(0..8),
        3 => frame[inner + if v4 { 9 } else { 6 }] = [17, 252, 44, 43, 4][rng.random_range(0..5)],
        4 => frame[inner + 1] |= if v4 { 3 } else { 0x30 },
        _ => frame[rng.random_range(inner..places.falcon)] ^= 1 << rng.random_range(0..8),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rand::SeedableRng;
    use transport_common::wire::{FalconHeader, SliceCursor};

    use super::*;

    /// Checks that nearly half of the frames with a changed type are valid, for every type and for both protocols.
    #[test]
    fn changed_types_get_past_the_decoder() {
        const ROUNDS: u32 = 10_000;
        let mut rng = StdRng::seed_from_u64(1);
        let mut whole = vec![0; 200];
        whole[12..14].copy_from_slice(&[0x08, 0x00]);
        whole[14] = 0x45;
        let places = Places::of(&whole).expect("long enough");
        // The bytes of another packet, where a Resync has its type and code.
        whole[places.falcon..].fill(0xa5);
        whole[places.falcon] = 0x10;
        let mut decoded = BTreeMap::<(u8, u8), u32>::new();
        for _ in 0..ROUNDS {
            let mut frame = whole.clone();
            bend_type(&mut rng, &mut frame, &places);
            let length = frame.len() - places.falcon;
            let mut cursor = SliceCursor::new(&frame[places.falcon..]);
            if let Ok(header) = FalconHeader::decode(&mut cursor, length) {
                *decoded.entry((header.packet_type() as u8, frame[places.falcon + 7] >> 5)).or_default() += 1;
            }
        }
        for kind in [0, 3, 5, 6, 8, 9, 10] {
            for (protocol, least) in [(ProtocolType::Rdma as u8, 500), (ProtocolType::Nvme as u8, 50)] {
                let times = decoded.get(&(kind, protocol)).copied().unwrap_or(0);
                assert!(times >= least, "type {kind} of protocol {protocol}: {times} of {ROUNDS}");
            }
        }
    }
}

//! Opens a connection: each part of the parameters goes to its owner.

use super::{Cold, DATA_WINDOW, Endpoint, Parameters, REQUEST_WINDOW, Service, Snapshot, State};
use crate::congestion::control::{Congestion, Start};
use crate::congestion::settings::CurrentSettings;
use crate::packet_delivery::{Lane, PacketDelivery, ReceiveWindow, TransmitWindow, Tuning};
use crate::resources::Occupancy;
use crate::security::{PeerClock, Security};
use crate::transaction::{Initiator, Target};
use crate::ulp::Responder;

impl Snapshot {
    /// Opens the connection in a snapshot of zeros. Works in place, because a snapshot is large.
    pub fn open(&mut self, p: &Parameters, generation: u32) {
        let (c, config) = (&mut self.connection, &p.config);
        let ordered = config.ordered != 0;
        c.state = State::Open;
        c.generation = generation;
        let flow = &mut c.flow;
        flow.endpoint = Endpoint {
            path: config.path,
            local_cid: config.local_cid,
            peer_cid: config.peer_cid,
            local_function: config.local_function,
            peer_function: config.peer_function,
            max_segment: config.max_segment,
            checksum: config.checksum.into(),
            protocol: config.protocol,
            reserved: 0,
        };
        flow.security = Security {
            replay_margin: config.replay_margin,
            peer: config.path.peer(),
            inner_version: config.path.inner_version,
            tx_spi: p.tx_spi,
            rx_spi: p.rx_spi,
            version: p.psp_version,
            ..Security::default()
        };
        self.cold = Cold {
            tunnel: config.tunnel,
            clock: PeerClock::default(),
            occupancy: Occupancy::new(
                config.occupancy_weight,
                config.full_packet_pool,
                config.full_buffer_pool,
            ),
        };
        if let Some(time) = p.remote_time {
            flow.security.know_clock(&mut self.cold.clock, time);
        }
        flow.delivery = PacketDelivery {
            lanes: [
                Lane {
                    tx: TransmitWindow::new(p.tx.data_psn, p.data_window),
                    rx: ReceiveWindow::new(p.rx.data_psn, DATA_WINDOW),
                },
                Lane {
                    tx: TransmitWindow::new(p.tx.request_psn, p.request_window),
                    rx: ReceiveWindow::new(p.rx.request_psn, REQUEST_WINDOW),
                },
            ],
            tuning: Tuning {
                ack_coalescing: config.ack_coalescing,
                ack_request_threshold: config.ack_request_threshold,
                ack_request_percent: config.ack_request_percent.into(),
                ooo_threshold: config.ooo_threshold,
                max_retransmit_attempts: config.max_retransmit_attempts,
                ordered: ordered.into(),
                rack_tlp: config.rack_tlp.into(),
            },
            ..PacketDelivery::default()
        };
        self.settings = CurrentSettings::new(p.settings);
        flow.congestion = Congestion::new(Start { fcwnd: p.fcwnd, ncwnd: p.ncwnd, rto: p.rto }, &p.settings);
        c.initiator = Initiator::new(p.tx.rsn, ordered, config.transaction_timeout);
        c.target = Target::new(p.rx.rsn, ordered, config.rnr_timeout_code);
        let max_answer = if config.max_answer == 0 { config.max_segment } else { config.max_answer };
        c.responder = Responder::new(max_answer, ordered, config.domain);
        c.service = Service::default();
    }
}

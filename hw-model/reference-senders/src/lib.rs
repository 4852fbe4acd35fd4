//! Reference senders and receivers of TCP NewReno, DCQCN and go-back-N, written from the RFCs and papers.
//!
//! The model of Tonic (`tonic_model`) is compared with them. It computes the same protocols cycle by cycle, in
//! segments and integers of fixed width. This crate shares no code with it. Here TCP counts bytes, as the RFCs do.
//! DCQCN's rates and its alpha are floating-point numbers, as in the paper.
//!
//! Each type is a state machine without input or output. The caller reports events with their time
//! ([`fabric_model::Time`], in whole picoseconds). The state machine answers what to send. Its `timer` function
//! returns when the caller must call `on_timer`.
//!
//! | state machine | source |
//! |---|---|
//! | [`NewRenoSender`] | RFC 6582 on RFC 5681, RFC 3042 and RFC 6298 |
//! | [`TcpReceiver`] | RFC 5681, 4.2 (delayed acknowledgments); RFC 7323, 4.3 (which timestamp is echoed) |
//! | [`ReactionPoint`], [`NotificationPoint`], [`CongestionPoint`] | Zhu et al., "Congestion control for large-scale RDMA deployments", SIGCOMM 2015, section 3 |
//! | [`GoBackNSender`], [`GoBackNReceiver`] | InfiniBand specification, volume 1, 9.7: the retransmission of RoCEv2 |
//! | [`RetransmissionTimer`] | RFC 6298 |
//!
//! # Example
//!
//! ```
//! use fabric_model::{Span, Time};
//! use reference_senders::{GoBackNAnswer, GoBackNReceiver, GoBackNSender};
//!
//! let mut sender = GoBackNSender::new(4, Span::from_micros(100));
//! let mut receiver = GoBackNReceiver::default();
//! let (segment, retransmission) = sender.transmit(Time::ZERO).expect("the window is open");
//! assert_eq!((segment, retransmission), (0, false));
//! if let Some(GoBackNAnswer::Ack(next)) = receiver.on_segment(segment) {
//!     sender.on_ack(Time::ZERO + Span::from_micros(10), next);
//! }
//! assert_eq!(sender.timer(), None, "everything is acknowledged");
//! ```
//!
//! # Experiments
//!
//! The crate `tonic_network` runs these senders and the model of Tonic on the same network. Start the comparisons
//! with `tiercel model experiment tonic-new-reno tonic-dcqcn`. `docs/model/tonic-network.md` describes the
//! results.

mod congestion_point;
mod dcqcn;
mod go_back_n;
mod new_reno;
mod notification_point;
mod retransmission_timer;
mod tcp_receiver;
#[cfg(test)]
mod tests;

pub use congestion_point::{CongestionPoint, Red};
pub use dcqcn::{Dcqcn, ReactionPoint};
pub use go_back_n::{GoBackNAnswer, GoBackNReceiver, GoBackNSender};
pub use new_reno::{LossEvent, NewRenoConfig, NewRenoSender, Transmission};
pub use notification_point::NotificationPoint;
pub use retransmission_timer::{RetransmissionTimer, TimeoutBounds};
pub use tcp_receiver::{TcpAck, TcpReceiver};

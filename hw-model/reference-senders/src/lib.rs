//! Senders and receivers written from the RFCs and papers, driven by events, with instants in whole picoseconds.
//!
//! They exist to be compared with: the model of Tonic (`tonic_model`) computes the same protocols cycle by cycle in
//! segments and integers of fixed width. Nothing here shares code with it. TCP counts bytes, as the RFCs do;
//! DCQCN's rates and its alpha are floating-point numbers, as in the paper.
//!
//! Each is a state machine without input or output: told what happened and when, it says what to send and when it
//! wants to be woken.
//!
//! | state machine | after |
//! |---|---|
//! | [`NewRenoSender`] | RFC 6582 on RFC 5681, RFC 3042 and RFC 6298 |
//! | [`TcpReceiver`] | RFC 5681, 4.2 (delayed acknowledgments); RFC 7323, 4.3 (which timestamp is echoed) |
//! | [`ReactionPoint`], [`NotificationPoint`], [`CongestionPoint`] | Zhu et al., "Congestion control for large-scale RDMA deployments", SIGCOMM 2015, section 3 |
//! | [`GoBackNSender`], [`GoBackNReceiver`] | InfiniBand specification, volume 1, 9.7: what RoCEv2 retransmits by |

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

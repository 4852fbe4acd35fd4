//! A node with a custom congestion control algorithm. While the fabric delay is below a target, the window grows
//! additively. Above the target, the window shrinks by a quarter, at most once per RTT. The algorithm runs in the
//! rate update engine in user space. It is selected by its name like any other: in the node file (`algorithm =
//! "delay-aimd"`), or while the node runs.
//!
//! ```text
//! delay_aimd node.toml /run/tiercel/a.sock
//! tiercel --socket /run/tiercel/a.sock conn connect 10.7.0.2 --cc delay-aimd
//! ```

use std::env;

use anyhow::{Context, Result, bail};
use tiercel::congestion::{Algorithm, Algorithms, EngineState, Event, Outcome, Prepared, window};
use tiercel_node::NodeOptions;
use tiercel_node::config::NodeFile;
use tiercel_node::control::service::ServedNode;
use tokio::signal::unix::{SignalKind, signal};

struct DelayAimd;

impl Algorithm for DelayAimd {
    fn name(&self) -> &'static str {
        "delay-aimd"
    }

    fn update(&self, event: &Event, _: &mut EngineState, prepared: &Prepared, outcome: &mut Outcome) {
        let parameters = prepared.parameters();
        // First the steps that most algorithms share: keep all values, then smooth the delays and update the NIC
        // window.
        outcome.carry_over(event);
        window::smooth(event, parameters, outcome);
        window::update_ncwnd(event, parameters, outcome);
        let (old, now) = (u64::from(event.fcwnd.0), event.now());
        let may_cut = now.has_elapsed(event.fabric_window_time_marker, event.rtt());
        let congested = !event.is_acknowledgement() || event.delay() > parameters.base_delay_target;
        let new = match (congested, may_cut) {
            (true, true) => {
                outcome.fabric_window_time_marker = now;
                old - old / 4
            }
            (true, false) => old,
            // One increment per RTT: each acknowledged packet adds its share.
            (false, _) => {
                let increment = u64::from(parameters.fabric_additive_increment.0);
                old + increment * u64::from(event.num_packets_acked) * window::ONE_PACKET
                    / old.max(window::ONE_PACKET)
            }
        };
        outcome.fcwnd = window::clamp_fcwnd(new, parameters);
        window::pace(event, parameters, outcome);
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [file, socket] = &arguments[..] else { bail!("usage: delay_aimd NODE-FILE CONTROL-SOCKET") };
    let algorithms = Algorithms::new().with(DelayAimd)?;
    let file = NodeFile::load_with(file.as_ref(), &algorithms)?;
    let options = NodeOptions { algorithms, ..file.node.options() };
    let mut terminate = signal(SignalKind::terminate())?;
    let node = ServedNode::start(&file, options, socket.into()).await.context("the node")?;
    let lost = tokio::select! {
        lost = node.lost() => Err(lost.into()),
        _ = tokio::signal::ctrl_c() => Ok(()),
        _ = terminate.recv() => Ok(()),
        () = node.down_requested() => Ok(()),
    };
    node.shut_down().await;
    lost
}

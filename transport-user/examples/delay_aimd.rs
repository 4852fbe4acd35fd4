//! An algorithm of one's own: additive increase while the fabric delay is below a target, a cut by a quarter above it,
//! at most one an RTT. It runs in the rate update engine in user space.
//!
//! ```text
//! ip netns exec b delay_aimd veth1 10.7.0.2 10.7.0.1 MAC-OF-VETH0 own
//! ip netns exec a delay_aimd veth0 10.7.0.1 10.7.0.2 MAC-OF-VETH1 write
//! ```

use std::env;

use anyhow::{Context, Result, bail, ensure};
use transport_common::ids::{Cid, RKey};
use transport_user::congestion::{Algorithm, EngineState, Event, Outcome, Placement, Prepared, window};
use transport_user::{Access, CongestionControl, LocalCid, Node, NodeOptions, OpenConnection};

/// The first region a node registers has this key (D-84).
const KEY: RKey = RKey(1);
const CID: Cid = Cid(5);
const BYTES: usize = 1 << 20;
const ROUNDS: u32 = 16;

struct DelayAimd;

impl Algorithm for DelayAimd {
    fn name(&self) -> &'static str {
        "delay-aimd"
    }

    fn update(&self, event: &Event, _: &mut EngineState, prepared: &Prepared, outcome: &mut Outcome) {
        let parameters = prepared.parameters();
        // What changes nothing, and what most algorithms share: smoothed delays, the NIC window.
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
            // One increment an RTT: each acknowledged packet brings its share of it.
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
    let [interface, address, peer, peer_mac, role] = &arguments[..] else {
        bail!("usage: delay_aimd INTERFACE ADDRESS PEER-ADDRESS PEER-MAC own|write");
    };
    let node = Node::up(NodeOptions::new(interface.as_str(), address.parse().context("ADDRESS")?))?;
    let mut open = OpenConnection::new(CID, peer.parse().context("PEER-ADDRESS")?, peer_mac.parse()?);
    open.local_cid = LocalCid::Given(CID);
    let algorithm = node.register_algorithm(DelayAimd)?;
    open.tuning.congestion =
        CongestionControl { algorithm, placement: Placement::User, ..CongestionControl::SWIFT };
    let memory = node.register_with_key(KEY, BYTES, Access::ALL)?;
    let connection = node.open(open)?;
    match role.as_str() {
        "own" => {
            connection.post_receive(&memory, 0, 0, 0)?;
            println!("ready");
            connection.receive().await?;
            println!("the peer has written");
        }
        "write" => {
            for _ in 0..ROUNDS {
                connection.write(&memory, 0, KEY, 0, BYTES as u64).await?;
            }
            connection.write_immediate(&memory, 0, KEY, 0, 0, ROUNDS).await?;
            let (info, engine) = (connection.info()?, node.rate_update()?);
            println!(
                "{} decided {} times: fcwnd {:.2}, RTT {} us, {} panics",
                info.congestion.algorithm,
                engine.results,
                info.fcwnd,
                info.rtt_ns / 1000,
                engine.panics
            );
            ensure!(engine.results > 0, "no event came");
        }
        other => bail!("\"{other}\" is neither own nor write"),
    }
    Ok(())
}

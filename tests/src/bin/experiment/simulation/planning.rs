//! From a description to the plan of the data centre of `hw-model`.

use core::iter;

use anyhow::{Result, bail, ensure};
use datacentre::{DataCentre, FlowPlan, HostModel, Plan, Tuning, entropy_ports};
use fabric_model::Egress;
use tiercel::congestion::AlgorithmChoice;
use transport_common::congestion::settings::Settings;
use transport_common::units::{Fcwnd, Ticks};

use crate::setup::SEGMENT;
use crate::world::{Description, Flow, Sender};

/// Returns the plan of the data centre that is described.
pub(super) fn plan(described: &Description) -> Result<Plan> {
    ensure!(described.sender == Sender::Falcon, "only live hosts have the kernel's TCP");
    let mut plan = Plan::new(described.topology.clone(), described.fabric.clone());
    plan.host = described.card();
    if let Some((port, slow_ulp)) = described.slow_ulp {
        plan.hosts.insert(port, HostModel { slow_ulp: Some(slow_ulp), ..plan.host });
    }
    plan.sample_every = described.sample_every;
    plan.watch.clone_from(&described.watch);
    plan.flows = described.flows.iter().map(flow).collect::<Result<_>>()?;
    if described.flows.iter().any(|flow| flow.begins_on.is_some()) {
        plan.flows = placed(described, &plan)?;
    }
    Ok(plan)
}

/// Returns the plan of a flow.
pub(super) fn flow(flow: &Flow) -> Result<FlowPlan> {
    Ok(FlowPlan {
        entropy: flow.entropy,
        tuning: tuning(&flow.tuning)?,
        ..FlowPlan::new(flow.source, flow.destination, flow.messages.clone())
    })
}

/// Converts to the parameters of a simulated connection.
pub(super) fn tuning(tuning: &tiercel::Tuning) -> Result<Tuning> {
    let congestion = &tuning.congestion;
    let AlgorithmChoice::BuiltIn(algorithm) = congestion.algorithm else {
        bail!("simulated hosts have built-in algorithms only");
    };
    Ok(Tuning {
        fcwnd: Fcwnd((tuning.fcwnd * f64::from(1u32 << Fcwnd::FRACTION_BITS)).round() as u32),
        ncwnd: tuning.ncwnd,
        rto: Ticks::from_nanos(tuning.rto.as_nanos() as u64),
        ack_request_percent: tuning.ack_request_percent,
        rack_tlp: tuning.rack_tlp,
        max_retransmit_attempts: tuning.max_retransmit_attempts,
        segment: SEGMENT as u32,
        settings: Settings {
            placement: congestion.placement as u32,
            algorithm: algorithm as u32,
            prepared: congestion.parameters.prepare()?,
            ..Settings::SWIFT
        },
        ..Tuning::default()
    })
}

/// Draws ports, and takes for each flow the first that leads over its trunk.
fn placed(described: &Description, plan: &Plan) -> Result<Vec<FlowPlan>> {
    let mut ports = entropy_ports(plan.fabric.seed);
    let flows = plan.flows.iter().flat_map(|flow| iter::repeat_n(flow, described.draws));
    let drawn = flows.zip(&mut ports).map(|(flow, entropy)| FlowPlan { entropy, ..flow.clone() });
    let drawn: Vec<FlowPlan> = drawn.collect();
    let trying = DataCentre::new(Plan { flows: drawn.clone(), ..plan.clone() })?;
    let found = described.flows.iter().enumerate().filter_map(|(number, flow)| {
        let mut of_flow = number * described.draws..(number + 1) * described.draws;
        let leads_there =
            |n: &usize| flow.begins_on.is_none_or(|trunk| trying.route(*n)[0] == Egress::Trunk(trunk));
        of_flow.find(leads_there).map(|n| drawn[n].clone())
    });
    let found: Vec<FlowPlan> = found.collect();
    ensure!(
        found.len() == plan.flows.len(),
        "no draw of {} led to the path on which a flow begins",
        described.draws
    );
    Ok(found)
}

//! Parameters of congestion control by the specification's names, as `--set NAME=VALUE` takes them.

use anyhow::{Context, Result, bail};
use hw_model::network::Span;
use transport_common::congestion::fixed_point::Fraction;
use transport_common::congestion::nic_time::DelaySelect;
use transport_common::congestion::parameters::Parameters;
use transport_common::units::{Fcwnd, Ticks};

/// A parameter, by the unit it is written in.
enum Field<'a> {
    /// Packets, with a fraction.
    Window(&'a mut Fcwnd),
    /// A factor.
    Factor(&'a mut Fraction),
    /// A time with its unit.
    Time(&'a mut Ticks),
    /// A whole number.
    Count(&'a mut u32),
    /// `true` or `false`.
    Flag(&'a mut u32),
    /// `full`, `fabric`, `forward` or `reverse`.
    Delay(&'a mut u32),
}

fn field<'a>(p: &'a mut Parameters, name: &str) -> Option<Field<'a>> {
    Some(match name {
        "max_fcwnd" => Field::Window(&mut p.max_fcwnd),
        "min_fcwnd" => Field::Window(&mut p.min_fcwnd),
        "fabric_additive_increment" => Field::Window(&mut p.fabric_additive_increment),
        "fabric_multiplicative_decrease_factor" => {
            Field::Factor(&mut p.fabric_multiplicative_decrease_factor)
        }
        "max_fabric_multiplicative_decrease_factor" => {
            Field::Factor(&mut p.max_fabric_multiplicative_decrease_factor)
        }
        "base_delay_target" => Field::Time(&mut p.base_delay_target),
        "delay_select" => Field::Delay(&mut p.delay_select),
        "synchronised_clocks" => Field::Flag(&mut p.synchronised_clocks),
        "max_ncwnd" => Field::Count(&mut p.max_ncwnd),
        "min_ncwnd" => Field::Count(&mut p.min_ncwnd),
        "nic_additive_increment" => Field::Count(&mut p.nic_additive_increment),
        "nic_multiplicative_decrease_factor" => Field::Factor(&mut p.nic_multiplicative_decrease_factor),
        "max_nic_multiplicative_decrease_factor" => {
            Field::Factor(&mut p.max_nic_multiplicative_decrease_factor)
        }
        "target_rx_buffer_level" => Field::Count(&mut p.target_rx_buffer_level),
        "plb_target_delay_multiplier" => Field::Factor(&mut p.plb_target_delay_multiplier),
        "plb_congestion_threshold" => Field::Factor(&mut p.plb_congestion_threshold),
        "plb_attempt_threshold" => Field::Count(&mut p.plb_attempt_threshold),
        "rtt_smoothing_alpha" => Field::Factor(&mut p.rtt_smoothing_alpha),
        "delay_smoothing_alpha" => Field::Factor(&mut p.delay_smoothing_alpha),
        "topology_scaling_per_hop" => Field::Time(&mut p.topology_scaling_per_hop),
        "retransmit_timeout_scalar" => Field::Factor(&mut p.retransmit_timeout_scalar),
        "retransmit_limit" => Field::Count(&mut p.retransmit_limit),
        "min_retransmission_timeout" => Field::Time(&mut p.min_retransmission_timeout),
        "min_flow_scaling_window" => Field::Window(&mut p.min_flow_scaling_window),
        "max_flow_scaling_window" => Field::Window(&mut p.max_flow_scaling_window),
        "max_flow_scaling" => Field::Time(&mut p.max_flow_scaling),
        "max_decrease_on_eack_drop" => Field::Flag(&mut p.max_decrease_on_eack_drop),
        "fixed_window" => Field::Window(&mut p.fixed_window),
        _ => return None,
    })
}

/// Applies `NAME=VALUE`.
///
/// # Errors
/// An unknown name, or a value that cannot be read; ranges are checked when all is set.
pub(crate) fn set(parameters: &mut Parameters, assignment: &str) -> Result<()> {
    let (name, value) = assignment.split_once('=').context("--set takes NAME=VALUE")?;
    let Some(field) = field(parameters, name) else {
        bail!("there is no parameter {name:?} of congestion control");
    };
    let unreadable = || format!("{name}: {value:?} cannot be read");
    let fixed = |bits: u32| -> Result<u32> {
        let number: f64 = value.parse().with_context(unreadable)?;
        Ok((number * f64::from(1u32 << bits)).round() as u32)
    };
    match field {
        Field::Window(window) => *window = Fcwnd(fixed(Fcwnd::FRACTION_BITS)?),
        Field::Factor(factor) => *factor = Fraction(fixed(Fraction::BITS)?),
        Field::Time(ticks) => {
            *ticks = Ticks::from_nanos(value.parse::<Span>().with_context(unreadable)?.0 / 1000);
        }
        Field::Count(count) => *count = value.parse().with_context(unreadable)?,
        Field::Flag(flag) => *flag = value.parse::<bool>().with_context(unreadable)?.into(),
        Field::Delay(delay) => *delay = DelaySelect::from_name(value).with_context(unreadable)? as u32,
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_read_in_its_unit() {
        let mut p = Parameters::DEFAULT;
        for assignment in [
            "max_fcwnd=100.5",
            "plb_target_delay_multiplier=1.25",
            "base_delay_target=10us",
            "retransmit_limit=5",
            "max_decrease_on_eack_drop=true",
            "delay_select=full",
        ] {
            set(&mut p, assignment).expect("legal");
        }
        assert_eq!((p.max_fcwnd, p.retransmit_limit), (Fcwnd(102_912), 5));
        assert_eq!(p.plb_target_delay_multiplier, Fraction::ratio(5, 4));
        assert_eq!(p.base_delay_target, Ticks::from_nanos(10_000));
        assert_eq!((p.max_decrease_on_eack_drop, p.delay_select), (1, DelaySelect::Full as u32));
    }

    #[test]
    fn nonsense_is_refused_with_its_name() {
        let mut parameters = Parameters::DEFAULT;
        for assignment in ["max_fcwnd", "no_such=1", "max_fcwnd=x", "base_delay_target=10", "delay_select=no"]
        {
            let error = set(&mut parameters, assignment).expect_err(assignment);
            assert!(!format!("{error:#}").is_empty());
        }
        let error = set(&mut parameters, "min_ncwnd=many").expect_err("no number");
        assert!(format!("{error:#}").contains("min_ncwnd"));
    }
}

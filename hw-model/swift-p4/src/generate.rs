//! Generates the parts of the program that depend on the constants of `transport-common`.
//!
//! [`regenerate`] replaces all these parts in a source, and [`PARTS`] lists their names. `cargo run -p swift-p4
//! --example swift-p4-tables` writes the result to `swift.p4`. A test checks that the file is up to date.

use transport_common::congestion::fixed_point::{RECIPROCAL_SQRT_START, divide};
use transport_common::congestion::parameters::Prepared;
use transport_common::units::Fcwnd;

/// Bits of a window, and of a delay in 2^-16 ticks.
const WINDOW_BITS: u32 = 21;
const DELAY_BITS: u32 = 40;
/// Fraction bits of the reciprocals.
const START_BITS: u32 = 10;
const GAP_BITS: u32 = 54;
const LEVEL_BITS: u32 = 21;

/// The names of the generated parts. In the source each is between `made: name` and `end`.
pub const PARTS: [&str; 7] = ["start", "profile", "scale", "normalise", "reciprocal", "gap", "level"];

/// Returns the parameters as arguments of the program's action `set_parameters`.
pub fn profile(prepared: &Prepared) -> Vec<u128> {
    let (p, scaling) = (prepared.parameters(), prepared.flow_scaling());
    let ((y_low, y_high), (slope, slope_bits)) = (scaling.range(), scaling.slope());
    [
        p.max_fcwnd.0,
        p.min_fcwnd.0,
        p.fabric_additive_increment.0,
        p.fabric_multiplicative_decrease_factor.0,
        p.max_fabric_multiplicative_decrease_factor.0,
        p.max_ncwnd,
        p.min_ncwnd,
        p.nic_additive_increment,
        p.nic_multiplicative_decrease_factor.0,
        p.max_nic_multiplicative_decrease_factor.0,
        p.target_rx_buffer_level,
        p.plb_target_delay_multiplier.0,
        p.plb_congestion_threshold.0,
        p.plb_attempt_threshold,
        p.rtt_smoothing_alpha.0,
        p.delay_smoothing_alpha.0,
        p.topology_scaling_per_hop.0,
        p.retransmit_timeout_scalar.0,
        p.retransmit_limit,
        p.min_rto.0,
        p.max_decrease_on_eack_drop,
    ]
    .into_iter()
    .map(u128::from)
    .chain([y_low, y_high, slope, scaling.max().0].map(u128::from))
    .chain([scaling.way_shift(), slope_bits].map(u128::from))
    .collect()
}

/// Returns the lines of a table's default action and entries, with `to_a_line` entries per line.
fn table(default: &str, entries: impl Iterator<Item = String>, to_a_line: usize) -> Vec<String> {
    let entries: Vec<String> = entries.collect();
    let mut lines =
        vec![format!("        const default_action = {default};"), "        const entries = {".to_owned()];
    lines.extend(entries.chunks(to_a_line).map(|chunk| format!("            {}", chunk.join(" "))));
    lines.push("        }".to_owned());
    lines
}

/// Returns the reciprocal of a divisor, rounded up so that a product with it is never too small.
const fn reciprocal(bits: u32, divisor: u64) -> u64 {
    (1u64 << bits).div_ceil(divisor)
}

/// Returns the lines of a part. A name that is not in [`PARTS`] has no lines.
fn part(name: &str) -> Vec<String> {
    match name {
        "start" => {
            let mut lines = vec![
                "// 1 / sqrt(m) for m in [1, 4): START_0 - START_1 m + START_2 m^2, 31 bits behind the point."
                    .to_owned(),
            ];
            let start = RECIPROCAL_SQRT_START.iter().enumerate();
            lines.extend(start.map(|(n, value)| format!("const bit<32> START_{n} = {value};")));
            lines
        }
        "profile" => {
            let arguments: Vec<String> =
                profile(&Prepared::DEFAULT).iter().map(ToString::to_string).collect();
            let rows: Vec<String> =
                arguments.chunks(9).map(|row| format!("            {}", row.join(", "))).collect();
            let call = format!("        default_action = set_parameters(\n{});", rows.join(",\n"));
            call.lines().map(str::to_owned).collect()
        }
        "scale" => {
            let entries = (0..WINDOW_BITS).rev().map(|bit| {
                let (value, power) = (1u32 << bit, (WINDOW_BITS - bit) / 2);
                format!("0x{value:06x} &&& 0x{value:06x} : set_power({power});")
            });
            table("set_power(10)", entries, 2)
        }
        "normalise" => {
            let entries = (0..DELAY_BITS).rev().map(|bit| {
                let (value, zeros) = (1u64 << bit, DELAY_BITS - 1 - bit);
                format!("0x{value:010x} &&& 0x{value:010x} : set_leading({zeros});")
            });
            table("set_leading(0)", entries, 2)
        }
        "reciprocal" => {
            // The numbers that begin with 1 and these 8 bits have the middle (2 (256 + index) + 1) / 1024.
            let entries = (0..256u64).map(|index| {
                let start = divide(1 << (START_BITS + 10), 2 * (256 + index) + 1);
                format!("0x{index:02x} : set_start({start});")
            });
            table("set_start(0)", entries, 4)
        }
        "gap" => {
            let entries = (1..1u64 << Fcwnd::FRACTION_BITS).map(|fcwnd| {
                let (half, reciprocal) = (125 * fcwnd / 2, reciprocal(GAP_BITS, 125 * fcwnd));
                format!("0x{fcwnd:03x} : set_gap({half}, {reciprocal});")
            });
            table("set_gap(0, 0)", entries, 3)
        }
        "level" => {
            let entries =
                (1..32).map(|level| format!("{level} : set_level({});", reciprocal(LEVEL_BITS, level)));
            table("set_level(0)", entries, 4)
        }
        _ => Vec::new(),
    }
}

/// Returns the source with all generated parts replaced by new ones.
pub fn regenerate(source: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut inside = false;
    for line in source.lines() {
        let text = line.trim();
        inside &= text != "// end";
        if !inside {
            lines.push(line.to_owned());
        }
        if let Some(name) = text.strip_prefix("// made: ") {
            lines.extend(part(name));
            inside = true;
        }
    }
    lines.push(String::new());
    lines.join("\n")
}

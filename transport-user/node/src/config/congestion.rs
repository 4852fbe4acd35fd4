//! Congestion control in the node file: `[profile.NAME]`, `congestion` of node and connection,
//! `[node.rate_update]`.

use std::collections::HashMap;
use std::time::Duration;

use tiercel::Error;
use tiercel::congestion::{Algorithms, CongestionControl, CongestionParameters, DcqcnParameters, PROFILES};
use transport_common::congestion::queues::EVENT_QUEUE_CAPACITY;
use transport_common::congestion::settings::Placement;
use transport_common::limits;

use super::reader::{Reader, is_name};
use crate::node::rate_update::RateUpdateOptions;

/// Profiles of a file by name.
type Profiles = HashMap<String, CongestionParameters>;

/// The names that a `congestion` table of the file can refer to.
pub(super) struct Names<'a> {
    /// Profiles of the file.
    pub(super) profiles: Profiles,
    /// Algorithms of the node.
    pub(super) algorithms: &'a Algorithms,
}

/// Reads all tables `[profile.NAME]`.
pub(super) fn read_profiles(file: &mut Reader<'_, '_>) -> Profiles {
    let read = |table: &mut Reader<'_, '_>, name: &str| {
        let mut parameters = CongestionParameters::AUTO;
        if PROFILES.contains(&name) {
            table.complain("", "every node has a profile of this name: choose another");
        }
        if !is_name(name) {
            table.complain(
                "",
                "is not a name of a profile: use letters, digits, dots, dashes and underscores",
            );
        }
        let mut wrong =
            read_parameters(table, CongestionParameters::NAMES, |name, text| parameters.choose(name, text));
        table.table("dcqcn", |table| {
            let dcqcn = &mut parameters.dcqcn;
            wrong |= read_parameters(table, DcqcnParameters::NAMES, |name, text| dcqcn.set_own(name, text));
            Some(())
        });
        // Some ranges depend on other values, so they are checked after all values are read.
        if let Err(error) = parameters.prepare()
            && !wrong
        {
            table.complain(error.name, format!("must be {}", error.range));
        }
        Some(parameters)
    };
    file.named("profile", read).into_iter().collect()
}

/// Reads the parameters that a table names. Returns true if a value has the wrong form.
fn read_parameters(
    table: &mut Reader<'_, '_>,
    names: &'static [&'static str],
    mut set: impl FnMut(&str, &str) -> Option<Result<(), String>>,
) -> bool {
    let mut wrong = false;
    for name in names {
        let Some(text) = table.written(name) else { continue };
        if let Some(Err(error)) = set(name, &text) {
            table.complain(name, error);
            wrong = true;
        }
    }
    wrong
}

/// Reads the table `congestion` of a node or a connection. Fields that are absent come from `base`.
pub(super) fn read(
    table: &mut Reader<'_, '_>,
    base: &CongestionControl,
    names: &Names<'_>,
) -> CongestionControl {
    let mut control = *base;
    if let Some(name) = table.string("algorithm") {
        match names.algorithms.find(&name) {
            Some(algorithm) => control.choose(algorithm),
            None => table.complain("algorithm", unknown(&name, &names.algorithms.names())),
        }
    }
    if let Some(name) = table.string("placement") {
        match Placement::from_name(&name) {
            Some(placement) => control.placement = placement,
            None => table.complain("placement", unknown(&name, &Placement::ALL.map(Placement::name))),
        }
    }
    if let Some(name) = table.string("profile") {
        let own = names.profiles.get(&name).copied();
        match own.or_else(|| CongestionParameters::built_in(&name)) {
            Some(parameters) => control.parameters = parameters,
            None => table.complain("profile", format!("there is no [profile.{name}] in this file: add it")),
        }
    }
    let queue = table.integer("event_queue", 0, limits::EVENT_QUEUE.most);
    control.event_queue = queue.map_or(control.event_queue, |queue| queue as u32);
    if let Err(error @ Error::AlgorithmPlacement { .. }) = control.settings() {
        table.complain("placement", error.to_string());
    }
    control
}

fn unknown(name: &str, allowed: &[&str]) -> String {
    format!("\"{name}\" is unknown; allowed: {}", allowed.join(", "))
}

/// Reads the table `[node.rate_update]`.
pub(super) fn read_rate_update(table: &mut Reader<'_, '_>) -> Option<RateUpdateOptions> {
    let base = RateUpdateOptions::default();
    let capacity = u64::from(EVENT_QUEUE_CAPACITY);
    let thresholds = table.integers("thresholds", 0, capacity).map(|all| all.map(|t| t as u32));
    let (zero, longest) = (Duration::ZERO, Duration::from_millis(10));
    let options = RateUpdateOptions {
        thresholds: thresholds.unwrap_or(base.thresholds),
        elapsed: table.duration("elapsed", zero, Duration::from_secs(2)).unwrap_or(base.elapsed),
        packets: table.integer("packets", 0, u32::MAX.into()).map_or(base.packets, |packets| packets as u32),
        spin: table.duration("spin", zero, longest).unwrap_or(base.spin),
        pause: table.duration("pause", zero, longest).unwrap_or(base.pause),
    };
    if let Err(error) = options.admission() {
        table.complain(error.name, format!("must be {}", error.range));
    }
    Some(options)
}

#[cfg(test)]
mod tests {
    use transport_common::congestion::algorithm::AlgorithmId;

    use super::super::NodeFile;
    use super::*;
    use tiercel::congestion::{Algorithm, AlgorithmChoice, EngineState, Event, Outcome, Prepared};

    const NODE: &str = "[node]\ninterface = \"veth0\"\naddress = \"10.7.0.1\"\n";
    const CONNECTION: &str = r#"
[[connection]]
local_cid = 5
peer_cid  = 10
peer_address = "10.7.0.2"
peer_mac     = "02:00:00:00:00:02"
ordered   = true
security  = { mode = "plaintext", tx_spi = 1, rx_spi = 2 }
tx = { request_psn = 100, data_psn = 300, rsn = 1 }
rx = { request_psn = 500, data_psn = 700, rsn = 1 }
"#;

    /// An algorithm that keeps everything as it is.
    struct Mine;

    impl Algorithm for Mine {
        fn name(&self) -> &'static str {
            "mine"
        }
        fn update(&self, event: &Event, _: &mut EngineState, _: &Prepared, outcome: &mut Outcome) {
            outcome.carry_over(event);
        }
    }

    fn parse(rest: &str) -> NodeFile {
        NodeFile::parse(&format!("{NODE}{rest}")).unwrap_or_else(|wrong| panic!("{wrong:?}"))
    }

    fn complaints(rest: &str) -> Vec<String> {
        let wrong = NodeFile::parse(&format!("{NODE}{rest}")).expect_err("the file is wrong");
        wrong.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_connection_has_the_nodes_congestion_control_unless_it_says_otherwise() {
        let file = parse(&format!(
            "[node.congestion]\nalgorithm = \"dcqcn\"\nprofile = \"rack\"\n\
             [profile.rack]\nbase_delay_target = \"80us\"\nmax_fcwnd = 100\nsynchronised_clocks = true\n\
             delay_select = \"forward\"\n[profile.rack.dcqcn]\ngain = 0.125\n{CONNECTION}\
             [connection.congestion]\nplacement = \"user\"\nevent_queue = 3\n\
             [connection.tuning]\nmax_fcwnd = 50\n"
        ));
        let (node, own) = (file.node.tuning.congestion, file.connections[0].tuning.congestion);
        assert_eq!(node.algorithm, AlgorithmChoice::BuiltIn(AlgorithmId::Dcqcn));
        assert_eq!((node.placement, node.parameters), (Placement::Kernel, file.profiles["rack"]));
        assert_eq!(node.parameters.base_delay_target, Duration::from_micros(80));
        assert_eq!((node.parameters.max_fcwnd, node.parameters.dcqcn.gain), (100.0, 0.125));
        assert_eq!((own.algorithm, own.placement, own.event_queue), (node.algorithm, Placement::User, 3));
        // Limits of the tuning take precedence over the profile.
        assert_eq!((own.parameters.max_fcwnd, own.parameters.dcqcn.gain), (50.0, 0.125));
    }

    #[test]
    fn an_algorithm_of_ones_own_is_known_by_its_name() {
        let algorithms = Algorithms::new().with(Mine).expect("a new name");
        let parse = |rest: &str| NodeFile::parse_with(&format!("{NODE}{rest}"), &algorithms);
        let file = parse(&format!(
            "[node.congestion]\nalgorithm = \"mine\"\n{CONNECTION}[connection.congestion]\nalgorithm = \"newreno\"\n\
             placement = \"kernel\"\n"
        ));
        let file = file.unwrap_or_else(|wrong| panic!("{wrong:?}"));
        let (node, own) = (file.node.tuning.congestion, file.connections[0].tuning.congestion);
        assert_eq!((node.algorithm, node.placement), (AlgorithmChoice::Custom("mine"), Placement::User));
        assert_eq!(own.algorithm, AlgorithmChoice::BuiltIn(AlgorithmId::NewReno));
        let refused = |rest: &str| parse(rest).expect_err("the file is wrong")[0].to_string();
        assert_eq!(
            refused("[node.congestion]\nalgorithm = \"bbr\"\n"),
            "line 5: node.congestion.algorithm: \"bbr\" is unknown; allowed: swift, dcqcn, newreno, fixed, mine"
        );
        assert_eq!(
            refused("[node.congestion]\nalgorithm = \"mine\"\nplacement = \"kernel\"\n"),
            "line 6: node.congestion.placement: algorithm \"mine\" is not built in: it runs with placement user only"
        );
    }

    #[test]
    fn the_rate_update_engine_has_its_options() {
        let file =
            parse("[node.rate_update]\nthresholds = [1, 2, 3]\nelapsed = \"1ms\"\npause = \"100us\"\n");
        let options = file.node.rate_update;
        assert_eq!((options.thresholds, options.elapsed), ([1, 2, 3], Duration::from_millis(1)));
        assert_eq!((options.pause, options.packets), (Duration::from_micros(100), 512));
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        let wrong = complaints(
            "[profile.a]\nmax_fcwnd = 4000\n[profile.b]\ndelay_select = \"forward\"\n\
             [profile.c]\nbase_delay_target = 25\nwindow = 3\n[profile.d.dcqcn]\nfast_recovery_steps = 0\n\
             [node.congestion]\nalgorithm = \"bbr\"\nplacement = \"moon\"\nprofile = \"z\"\nevent_queue = 4\n\
             [node.rate_update]\nthresholds = [3, 2, 1]\npause = \"1s\"\n",
        );
        let begins = [
            "line 5: profile.a.max_fcwnd: must be min_fcwnd to 2047.999 packets",
            "line 7: profile.b.delay_select: must be full or fabric unless synchronised_clocks is true",
            "line 9: profile.c.base_delay_target: \"25\" is not a duration",
            "line 10: profile.c.window: unknown field; allowed here: max_fcwnd",
            "line 11: profile.d.dcqcn.fast_recovery_steps: must be 1 to 255",
            "line 14: node.congestion.algorithm: \"bbr\" is unknown; allowed: swift, dcqcn, newreno, fixed",
            "line 15: node.congestion.placement: \"moon\" is unknown; allowed: constant, kernel, user",
            "line 16: node.congestion.profile: there is no [profile.z] in this file",
            "line 17: node.congestion.event_queue: 4 is out of range",
            "line 19: node.rate_update.thresholds: must be three ascending occupancies",
            "line 20: node.rate_update.pause: \"1s\" is out of range",
        ];
        assert_eq!(wrong.len(), begins.len(), "{wrong:#?}");
        for (text, begin) in wrong.iter().zip(begins) {
            assert!(text.starts_with(begin), "{text}\nis not\n{begin}");
        }
    }

    #[test]
    fn limits_of_the_tuning_must_fit_the_profile() {
        let wrong = complaints(&format!(
            "[profile.a]\nmin_fcwnd = 4\n{CONNECTION}[connection.congestion]\nprofile = \"a\"\n\
             [connection.tuning]\ninitial_fcwnd = 4\nmax_fcwnd = 2\n"
        ));
        let expected = "line 20: connection[1].tuning.max_fcwnd: must be min_fcwnd to 2047.999 packets";
        assert!(wrong.iter().any(|text| text == expected), "{wrong:?}");
    }
}

//! A change of congestion control by names, for example from a command line.

use serde::{Deserialize, Serialize};
use transport_common::congestion::settings::Placement;

use super::placement::optional;
use super::{Algorithms, CongestionControl, CongestionParameters};

/// A change of congestion control. Settings that are not named stay as they are, with one exception: a custom
/// algorithm is placed in user space, because it runs there only. The profile is applied first, then the single
/// parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CongestionChange {
    /// Name of the algorithm.
    pub algorithm: Option<String>,
    /// Where the algorithm runs.
    #[serde(with = "optional")]
    pub placement: Option<Placement>,
    /// Event queue, 0 to 3.
    pub event_queue: Option<u32>,
    /// Name of a profile of the node file. It sets all parameters.
    pub profile: Option<String>,
    /// Single parameters by name, with values as in the node file.
    pub set: Vec<(String, String)>,
}

impl CongestionChange {
    /// Returns whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns `base` with the change applied. `profile` finds profiles.
    ///
    /// # Errors
    /// A text: an unknown name, or a value of the wrong form or out of its range.
    pub fn apply(
        &self,
        base: &CongestionControl,
        profile: impl Fn(&str) -> Result<CongestionParameters, String>,
        algorithms: &Algorithms,
    ) -> Result<CongestionControl, String> {
        let mut control = *base;
        if let Some(name) = &self.algorithm {
            control.choose(algorithms.find(name).ok_or_else(|| {
                let names = algorithms.names().join(", ");
                format!("\"{name}\" is not an algorithm of this node: there are {names}")
            })?);
        }
        control.placement = self.placement.unwrap_or(control.placement);
        control.event_queue = self.event_queue.unwrap_or(control.event_queue);
        if let Some(name) = &self.profile {
            control.parameters = profile(name)?;
        }
        for (name, value) in &self.set {
            control.parameters.set(name, value).map_err(|error| format!("{name}: {error}"))?;
        }
        control.settings().map_err(|error| error.to_string())?;
        Ok(control)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::algorithms::tests::Named;
    use crate::congestion::{AlgorithmChoice, AlgorithmId};

    fn apply(change: CongestionChange) -> Result<CongestionControl, String> {
        let profile = |name: &str| match name {
            "wan" => Ok(CongestionParameters { max_fcwnd: 1024.0, ..CongestionParameters::DEFAULT }),
            _ => Err(format!("no profile {name}")),
        };
        let algorithms = Algorithms::new().with(Named("mine")).expect("a new name");
        change.apply(&CongestionControl::CONSTANT, profile, &algorithms)
    }

    fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
        list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn what_is_not_named_stays() {
        assert_eq!(apply(CongestionChange::default()), Ok(CongestionControl::CONSTANT));
        assert!(CongestionChange::default().is_empty());
    }

    #[test]
    fn single_parameters_come_after_the_profile() {
        let change = CongestionChange {
            algorithm: Some("newreno".into()),
            placement: Some(Placement::Kernel),
            event_queue: Some(2),
            profile: Some("wan".into()),
            set: pairs(&[("min_fcwnd", "2")]),
        };
        assert!(!change.is_empty());
        let control = apply(change).expect("legal");
        assert_eq!(control.algorithm, AlgorithmChoice::BuiltIn(AlgorithmId::NewReno));
        assert_eq!((control.placement, control.event_queue), (Placement::Kernel, 2));
        assert_eq!((control.parameters.max_fcwnd, control.parameters.min_fcwnd), (1024.0, 2.0));
    }

    #[test]
    fn what_cannot_be_is_refused_with_a_reason() {
        let refused = |change| apply(change).expect_err("refused");
        let named =
            |algorithm: &str| CongestionChange { algorithm: Some(algorithm.into()), ..Default::default() };
        assert!(refused(named("bbr")).ends_with("there are swift, dcqcn, newreno, fixed, mine"));
        // A custom algorithm runs in user space only.
        let kernel = CongestionChange { placement: Some(Placement::Kernel), ..named("mine") };
        assert!(refused(kernel).contains("user"));
        let own = apply(named("mine")).expect("legal");
        assert_eq!((own.algorithm, own.placement), (AlgorithmChoice::Custom("mine"), Placement::User));
        let set = |name, value| CongestionChange { set: pairs(&[(name, value)]), ..Default::default() };
        assert!(refused(set("min_fcwnd", "300")).contains("max_fcwnd must be min_fcwnd to"));
        assert!(refused(set("delay_select", "forward")).contains("synchronised_clocks"));
        assert!(
            refused(set("base_delay_target", "25")).contains("base_delay_target: \"25\" is not a duration")
        );
        let profile = CongestionChange { profile: Some("lan".into()), ..Default::default() };
        assert_eq!(refused(profile), "no profile lan");
    }

    #[test]
    fn placements_have_their_names_in_json() {
        for placement in Placement::ALL.map(Some).into_iter().chain([None]) {
            let change = CongestionChange { placement, ..Default::default() };
            let json = serde_json::to_value(&change).expect("plain data");
            assert_eq!(json["placement"].as_str(), placement.map(Placement::name));
            assert_eq!(serde_json::from_value::<CongestionChange>(json).expect("the same"), change);
        }
        let unknown = serde_json::from_str::<CongestionChange>(r#"{"placement":"moon"}"#);
        let text = unknown.expect_err("no such place").to_string();
        assert!(text.contains("\"moon\" is not a placement: write constant, kernel or user"), "{text}");
    }
}

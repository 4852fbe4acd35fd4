//! Parameters of the algorithms, in the units of the node file.

use std::time::Duration;

use serde_json::Value;
use transport_common::congestion::dcqcn;
use transport_common::congestion::nic_time::DelaySelect;
use transport_common::congestion::parameters::{OutOfRange, Parameters, Prepared};

use super::quantity::{Count, Delay, Factor, Packets, Quantity, Rate, Switch, Time};

/// Defines a struct of parameters whose fields have a kind, a default and a name in the core.
macro_rules! parameters {
    (
        $(#[$doc:meta])*
        $name:ident for $core:ty, prefix $prefix:literal {
            $($(#[$field_doc:meta])* $field:ident: $type:ty as $kind:ident = $default:expr,)+
        }
        $($(#[$nested_doc:meta])* nested $nested:ident: $nested_type:ident,)?
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $type,)+
            $($(#[$nested_doc])* pub $nested: $nested_type,)?
        }

        impl $name {
            /// The defaults (D-78).
            pub const DEFAULT: Self = Self {
                $($field: $default,)+
                $($nested: $nested_type::DEFAULT,)?
            };
            /// Names of the parameters.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($field)),+];

            fn to_core(self, core: &mut $core) {
                $(core.$field = $kind::to_core(self.$field);)+
                $(self.$nested.to_core(&mut core.$nested);)?
            }

            /// Checks that every value is a quantity of its kind, for example not negative.
            fn check(&self) -> Result<(), OutOfRange> {
                $(if !$kind::is_sensible(self.$field) {
                    let name = concat!($prefix, stringify!($field));
                    return Err(OutOfRange { name, range: "a number that is not negative" });
                })+
                $(self.$nested.check()?;)?
                Ok(())
            }

            /// Sets one of its own parameters. Returns `None` if there is no parameter with this name.
            pub fn set_own(&mut self, name: &str, text: &str) -> Option<Result<(), String>> {
                $(if name == stringify!($field) {
                    return Some($kind::parse(text).map(|value| self.$field = value));
                })+
                None
            }

            /// Returns its own parameters by full name.
            fn own_values(&self) -> impl Iterator<Item = (String, Value)> + use<> {
                [$((concat!($prefix, stringify!($field)).to_owned(), $kind::value(self.$field))),+].into_iter()
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::DEFAULT
            }
        }
    };
}

const fn micros(n: u64) -> Duration {
    Duration::from_micros(n)
}

parameters! {
    /// Parameters of congestion control, with the names of the specification (section 10.5). The ranges are those
    /// of [`Parameters`].
    CongestionParameters for Parameters, prefix "" {
        /// Largest fabric window, packets: `min_fcwnd` to 2047.999.
        max_fcwnd: f64 as Packets = 256.0,
        /// Smallest fabric window, packets: from 1/1024 (D-79).
        min_fcwnd: f64 as Packets = 0.01,
        /// Growth of the fabric window, packets per RTT: from 1/1024.
        fabric_additive_increment: f64 as Packets = 1.0,
        /// Weight of the excess delay in the decrease of the fabric window, 0 to 1.
        fabric_multiplicative_decrease_factor: f64 as Factor = 0.8,
        /// Largest part of the fabric window by which one decrease reduces it, 0 to 1.
        max_fabric_multiplicative_decrease_factor: f64 as Factor = 0.5,
        /// Target delay before scaling, up to 2.199 s (D-77).
        base_delay_target: Duration as Time = micros(25),
        /// Delay that is compared with the target; forward and reverse need `synchronised_clocks` (F-10.1-4).
        delay_select: DelaySelect as Delay = DelaySelect::Fabric,
        /// Whether the clocks of both ends show the same time.
        synchronised_clocks: bool as Switch = false,
        /// Largest NIC window, packets: `min_ncwnd` to 2047.
        max_ncwnd: u32 as Count = 256,
        /// Smallest NIC window, packets: from 1 (D-65).
        min_ncwnd: u32 as Count = 1,
        /// Growth of the NIC window, packets per RTT: 1 to 2047.
        nic_additive_increment: u32 as Count = 1,
        /// Weight of the excess buffer level in the decrease of the NIC window, 0 to 1 (D-65).
        nic_multiplicative_decrease_factor: f64 as Factor = 1.0,
        /// Largest part of the NIC window by which one decrease reduces it, 0 to 1.
        max_nic_multiplicative_decrease_factor: f64 as Factor = 0.5,
        /// Target level of the peer's receive buffers, 0 to 31.
        target_rx_buffer_level: u32 as Count = 15,
        /// An acknowledgement is congested above this multiple of the target delay, 0 to 16 (F-10.4-1).
        plb_target_delay_multiplier: f64 as Factor = 1.01,
        /// A round is congested if at least this part of its packets is congested, 0 to 1 (F-10.4-3).
        plb_congestion_threshold: f64 as Factor = 0.5,
        /// Consecutive congested rounds until another path is tried, 1 to 15 (F-10.4-3, D-72).
        plb_attempt_threshold: u32 as Count = 5,
        /// Timeouts of a packet from which on another path is tried, 1 to 7; the path of acknowledgements changes when
        /// more copies than this were received in a row. 0: neither does, as in section 10.4.
        plb_timeout_threshold: u32 as Count = 0,
        /// Packets after which a round closes whose delay is far above the target, 1 to 1023. It counts for several rounds,
        /// the more the larger the delay. 0: rounds close as in section 10.4 only.
        plb_quick_round: u32 as Count = 0,
        /// A delay is far above the target above this multiple of it, 1 to 16.
        plb_quick_multiplier: f64 as Factor = 1.5,
        /// Weight of the history in the smoothed RTT, 0 to 1 (D-61).
        rtt_smoothing_alpha: f64 as Factor = 0.75,
        /// Weight of the history in the smoothed delay, 0 to 1 (D-61).
        delay_smoothing_alpha: f64 as Factor = 0.0,
        /// Addition to the target delay for each hop of the forward path, up to 2.199 s.
        topology_scaling_per_hop: Duration as Time = micros(1),
        /// Retransmission timeout as a multiple of the smoothed RTT, 1 to 256 (F-10.3.2-3).
        retransmit_timeout_scalar: f64 as Factor = 2.0,
        /// Retransmissions of a packet from which on the fabric window is set to its minimum, 1 to 7 (F-10.3.2-2).
        retransmit_limit: u32 as Count = 3,
        /// Smallest retransmission timeout, up to 2.199 s.
        min_rto: Duration as Time = micros(1000),
        /// Window up to which flow scaling adds all of `max_flow_scaling`, packets: from 1/1024.
        min_flow_scaling_window: f64 as Packets = 0.1,
        /// Window from which flow scaling adds nothing, packets: at least twice `min_flow_scaling_window`.
        max_flow_scaling_window: f64 as Packets = 256.0,
        /// Largest addition to the target delay by flow scaling, up to 2.199 s.
        max_flow_scaling: Duration as Time = micros(100),
        /// Whether an EACK that shows loss reduces the fabric window by the largest decrease, at most once per RTT
        /// (D-68).
        max_decrease_on_eack_drop: bool as Switch = false,
        /// The target delay and the smallest window follow the path that the connection measures; `base_delay_target` and
        /// `min_fcwnd` are what they are at least.
        adaptive_target: bool as Switch = false,
        /// The smallest retransmission timeout follows the path; `min_rto` is what it is at least.
        adaptive_timeout: bool as Switch = false,
        /// Window of the algorithm "fixed", packets: `min_fcwnd` to `max_fcwnd`; the default gives way to them.
        fixed_window: f64 as Packets = 32.0,
    }
    /// Parameters of DCQCN.
    nested dcqcn: DcqcnParameters,
}

parameters! {
    /// Parameters of the algorithm "dcqcn" (SIGCOMM 2015). The defaults are those of the paper, for packets of
    /// 4096 bytes.
    DcqcnParameters for dcqcn::Parameters, prefix "dcqcn." {
        /// Highest rate, packets per second: at least `min_rate`.
        max_rate: f64 as Rate = 7_629_394.531_25,
        /// Lowest rate, packets per second: from 0.46.
        min_rate: f64 as Rate = 24.414_062_5,
        /// Weight of a new observation in the estimate of congestion, 0 to 1 (the paper's g).
        gain: f64 as Factor = 1.0 / 256.0,
        /// Shortest time between two notifications, up to 2.199 s (the paper's N).
        cnp_interval: Duration as Time = micros(50),
        /// Time without a notification after which the estimate decays, up to 2.199 s (the paper's K).
        alpha_interval: Duration as Time = micros(55),
        /// Time between two steps of the increase timer, up to 2.199 s (the paper's T).
        increase_interval: Duration as Time = micros(55),
        /// Packets between two steps of the byte counter, from 1 (the paper's B).
        increase_packets: u32 as Count = 2441,
        /// Steps of fast recovery, 1 to 255 (the paper's F).
        fast_recovery_steps: u32 as Count = 5,
        /// Additive increase of the target rate, packets per second (the paper's R_AI).
        additive_increment: f64 as Rate = 1_220.703_125,
        /// Hyper increase of the target rate, packets per second (the paper's R_HAI).
        hyper_increment: f64 as Rate = 12_207.031_25,
    }
}

/// Names of the profiles that every node has.
pub const PROFILES: [&str; 2] = ["auto", "datacenter"];

impl CongestionParameters {
    /// The profile `auto`: the target delay, the smallest window and the smallest retransmission timeout follow the path,
    /// a timeout tries another path, and a path that has become slow is left early. All else is [`Self::DEFAULT`].
    pub const AUTO: Self = Self {
        adaptive_target: true,
        adaptive_timeout: true,
        plb_timeout_threshold: 1,
        plb_quick_round: 8,
        ..Self::DEFAULT
    };

    /// The profile of this name that every node has: `auto`, or `datacenter`, which is [`Self::DEFAULT`].
    pub fn built_in(profile: &str) -> Option<Self> {
        match profile {
            "auto" => Some(Self::AUTO),
            "datacenter" => Some(Self::DEFAULT),
            _ => None,
        }
    }

    /// Sets one of its own parameters like `set_own`. A target or a smallest timeout that somebody chooses no longer
    /// follows the path.
    pub fn choose(&mut self, name: &str, text: &str) -> Option<Result<(), String>> {
        match name {
            "base_delay_target" => self.adaptive_target = false,
            "min_rto" => self.adaptive_timeout = false,
            _ => {}
        }
        self.set_own(name, text)
    }

    /// Checks every value and gives what algorithms take.
    ///
    /// # Errors
    /// The first value out of its range.
    pub fn prepare(&self) -> Result<Prepared, OutOfRange> {
        self.check()?;
        let mut core = Parameters::DEFAULT;
        self.to_core(&mut core);
        if self.fixed_window == Self::DEFAULT.fixed_window && core.min_fcwnd <= core.max_fcwnd {
            // The value is the default, so other limits move it instead of making it an error.
            core.fixed_window = core.fixed_window.clamp(core.min_fcwnd, core.max_fcwnd);
        }
        core.prepare()
    }

    /// Sets a parameter by name, from text as in the node file. The names of DCQCN's parameters are `dcqcn.NAME`.
    /// The ranges are checked by [`Self::prepare`], when all parameters are set.
    ///
    /// # Errors
    /// A text: an unknown name, or a value of the wrong form.
    pub fn set(&mut self, name: &str, text: &str) -> Result<(), String> {
        let set = match name.strip_prefix("dcqcn.") {
            Some(name) => self.dcqcn.set_own(name, text),
            None => self.choose(name, text),
        };
        set.unwrap_or_else(|| {
            let names: Vec<_> = self.values().map(|(name, _)| name).collect();
            Err(format!("no such parameter; there are {}", names.join(", ")))
        })
    }

    /// Returns all parameters by name, with values as in the node file.
    pub fn values(&self) -> impl Iterator<Item = (String, Value)> + use<> {
        self.own_values().chain(self.dcqcn.own_values())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_those_of_the_core() {
        assert_eq!(
            *CongestionParameters::DEFAULT.prepare().expect("legal").parameters(),
            Parameters::DEFAULT
        );
    }

    #[test]
    fn every_parameter_is_set_by_the_name_and_text_it_is_shown_with() {
        for (name, value) in CongestionParameters::DEFAULT.values() {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let mut set = CongestionParameters::DEFAULT;
            set.set(&name, &text).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(set, CongestionParameters::DEFAULT, "{name}");
        }
        let mut set = CongestionParameters::DEFAULT;
        set.set("base_delay_target", "80us").expect("legal");
        set.set("dcqcn.fast_recovery_steps", "9").expect("legal");
        assert_eq!((set.base_delay_target, set.dcqcn.fast_recovery_steps), (micros(80), 9));
    }

    #[test]
    fn what_is_chosen_does_not_follow_the_path() {
        let mut set = CongestionParameters::AUTO;
        set.set("max_fcwnd", "64").expect("legal");
        assert!(set.adaptive_target && set.adaptive_timeout);
        set.set("base_delay_target", "80us").expect("legal");
        assert!(!set.adaptive_target && set.adaptive_timeout);
        set.set("min_rto", "2ms").expect("legal");
        assert!(!set.adaptive_timeout);
        // Said after it, the value is the least that the path can make of it.
        set.set("adaptive_target", "true").expect("legal");
        assert!(set.adaptive_target && set.base_delay_target == micros(80));
        for name in PROFILES {
            assert!(CongestionParameters::built_in(name).expect("a profile").prepare().is_ok(), "{name}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let mut p = CongestionParameters::DEFAULT;
        assert!(p.set("no_such", "1").unwrap_err().contains("base_delay_target"));
        let name = |change: fn(&mut CongestionParameters)| {
            let mut p = CongestionParameters::DEFAULT;
            change(&mut p);
            p.prepare().expect_err("out of range").to_string()
        };
        assert_eq!(name(|p| p.max_fcwnd = 4000.0), "max_fcwnd must be min_fcwnd to 2047.999 packets");
        assert_eq!(name(|p| p.dcqcn.max_rate = -1.0), "dcqcn.max_rate must be a number that is not negative");
        assert!(
            name(|p| p.base_delay_target = Duration::from_secs(3)).starts_with("base_delay_target must be")
        );
        // F-10.1-4
        assert!(
            name(|p| p.delay_select = DelaySelect::Forward).contains("one-way delays compare the clocks")
        );
        assert!(name(|p| p.fixed_window = 300.0).starts_with("fixed_window must be"));
        assert!(CongestionParameters { max_fcwnd: 16.0, ..p }.prepare().is_ok());
        p.delay_select = DelaySelect::Forward;
        p.synchronised_clocks = true;
        assert!(p.prepare().is_ok());
    }
}

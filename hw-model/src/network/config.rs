//! What a fabric does to frames, as one line of text: `loss=1%,delay=50us,rate=1Gbps`.

use core::fmt;
use core::num::{NonZeroU8, NonZeroU32};
use core::str::FromStr;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::quantity::{ByteCount, Probability, Rate};
use super::time::{Span, Time};

/// Why a configuration could not be read. Each message names the item at fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// Not `key=value`.
    #[error("`{0}` is not of the form key=value")]
    NotAPair(String),
    /// No such key.
    #[error("unknown key `{key}`; known are {known}")]
    UnknownKey {
        /// The key as given.
        key: String,
        /// All keys, separated by commas.
        known: String,
    },
    /// The same key twice in one section.
    #[error("`{0}` is given twice")]
    Repeated(String),
    /// A value that does not fit its key.
    #[error("{key}: `{value}` {reason}")]
    Value {
        /// The key.
        key: String,
        /// The value as given.
        value: String,
        /// What is wrong with it, as the end of a sentence.
        reason: String,
    },
    /// A section that begins neither with a port nor with `trunks`, or a second one for the same.
    #[error(
        "section `{0}` must begin with a port number of its own and a colon, as in `1:loss=5%`, or with `trunks:`"
    )]
    Section(String),
    /// A section for a port the fabric does not have.
    #[error("section {port}: the fabric has ports 0 to {last}")]
    NoSuchPort {
        /// The port named.
        port: u16,
        /// The last port there is.
        last: u16,
    },
}

/// Loss in bursts after Gilbert and Elliott: a good and a bad state, one step a frame.
/// In the good state only [`Impairments::loss`] applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// Probability of going from good to bad at a frame.
    pub enter: Probability,
    /// Probability of going from bad to good at a frame; the mean burst is its inverse, in frames.
    pub leave: Probability,
    /// Probability of loss in the bad state.
    pub loss: Probability,
}

/// When the link drops all that is offered. Frames already accepted arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    /// Down from this instant,
    pub from: Time,
    /// up again at this one.
    pub until: Time,
}

/// Which frames a full queue may mark congestion experienced (CE).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EcnMark {
    /// Those that say they are ECN-capable (RFC 3168).
    #[default]
    Ect,
    /// All IP frames.
    Always,
}

/// Which frames are impaired and take an ordinal. Housekeeping never is (see the module).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// All IP frames.
    #[default]
    Ip,
    /// UDP alone. A connection manager's TCP then neither suffers nor shifts the ordinals, and every
    /// corruption and duplicate is one that a transport over UDP must account for.
    Udp,
}

/// What the link towards one host does to frames. The default does nothing and costs no time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Impairments {
    /// Independent loss. `loss=1%`
    pub loss: Probability,
    /// Loss in bursts. `burst=ENTER/LEAVE/LOSS`, as in `burst=0.1%/25%/100%`
    pub burst: Option<Burst>,
    /// Probability that a frame is held back. `reorder=1%`
    pub reorder: Probability,
    /// A held frame is released behind a number of later frames, uniform from 1 to this. `reorder_distance=8`
    pub reorder_distance: NonZeroU32,
    /// A held frame waits no longer than this past its time. `reorder_hold=200us`
    pub reorder_hold: Span,
    /// Probability that a frame is sent twice. `duplicate=0.1%`
    pub duplicate: Probability,
    /// Probability that bits are flipped, never in the 14 bytes of the Ethernet header: a frame damaged on a
    /// wire fails its check sequence and is lost; what reaches hosts was damaged inside a switch, which then
    /// wrote a new Ethernet header and check sequence. `corrupt=0.1%`
    pub corrupt: Probability,
    /// Distinct bits flipped in a corrupted frame. A ones' complement checksum finds every single flip, but
    /// not all pairs. `corrupt_bits=1`
    pub corrupt_bits: NonZeroU8,
    /// Propagation delay. `delay=50us`
    pub delay: Span,
    /// Added to the delay, uniform from zero to this, without changing the order. `jitter=10us`
    pub jitter: Span,
    /// Rate of the link; without it the queue is always empty. `rate=1Gbps`
    pub rate: Option<Rate>,
    /// Bytes the queue holds, the frame on its way out included; the rest is dropped. `queue=256KiB`
    pub queue: ByteCount,
    /// Mark CE when the queue, this frame included, is above so many bytes. `ecn=64KiB`
    pub ecn: Option<ByteCount>,
    /// What may be marked. `ecn_mark=ect` or `always`
    pub ecn_mark: EcnMark,
    /// Routers on the way: the hop limit is lowered by this, the frame dropped if it would reach zero. `hops=1`
    pub hops: u8,
    /// Times at which the link is down. `down=10ms-20ms`, several joined by `+`
    pub down: Vec<Outage>,
    /// What is impaired. `scope=ip` or `udp`
    pub scope: Scope,
}

impl Default for Impairments {
    fn default() -> Self {
        Self {
            loss: Probability::NEVER,
            burst: None,
            reorder: Probability::NEVER,
            reorder_distance: NonZeroU32::new(8).expect("not zero"),
            reorder_hold: Span::from_micros(200),
            duplicate: Probability::NEVER,
            corrupt: Probability::NEVER,
            corrupt_bits: NonZeroU8::MIN,
            delay: Span::ZERO,
            jitter: Span::ZERO,
            rate: None,
            queue: ByteCount(256 << 10),
            ecn: None,
            ecn_mark: EcnMark::Ect,
            hops: 0,
            down: Vec::new(),
            scope: Scope::Ip,
        }
    }
}

/// One key of the text form: how its value is read and written.
struct Key {
    name: &'static str,
    read: fn(&mut Impairments, &str) -> Result<(), String>,
    /// `None`: not set.
    write: fn(&Impairments) -> Option<String>,
}

/// A key whose value is one field with a text form of its own.
macro_rules! field {
    ($field:ident) => {
        Key {
            name: stringify!($field),
            read: |to, text| store(&mut to.$field, value(text)),
            write: |from| Some(from.$field.to_string()),
        }
    };
    (optional $field:ident) => {
        Key {
            name: stringify!($field),
            read: |to, text| store(&mut to.$field, value(text).map(Some)),
            write: |from| from.$field.map(|field| field.to_string()),
        }
    };
}

const KEYS: &[Key] = &[
    field!(loss),
    field!(optional burst),
    field!(reorder),
    field!(reorder_distance),
    field!(reorder_hold),
    field!(duplicate),
    field!(corrupt),
    field!(corrupt_bits),
    field!(delay),
    field!(jitter),
    field!(optional rate),
    field!(queue),
    field!(optional ecn),
    field!(ecn_mark),
    field!(hops),
    Key {
        name: "down",
        read: |to, text| store(&mut to.down, text.split('+').map(value).collect()),
        write: |from| {
            let all: Vec<_> = from.down.iter().map(Outage::to_string).collect();
            (!all.is_empty()).then(|| all.join("+"))
        },
    },
    field!(scope),
];

fn value<T: FromStr<Err: fmt::Display>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: T::Err| error.to_string())
}

fn store<T>(field: &mut T, value: Result<T, String>) -> Result<(), String> {
    *field = value?;
    Ok(())
}

fn pair(item: &str) -> Result<(&str, &str), ConfigError> {
    let (key, value) = item.split_once('=').ok_or_else(|| ConfigError::NotAPair(item.to_owned()))?;
    Ok((key.trim(), value.trim()))
}

fn bad_value(key: &str, value: &str, reason: impl fmt::Display) -> ConfigError {
    ConfigError::Value { key: key.to_owned(), value: value.to_owned(), reason: reason.to_string() }
}

fn unknown_key(key: &str, more: &[&str]) -> ConfigError {
    let known: Vec<_> = more.iter().copied().chain(KEYS.iter().map(|key| key.name)).collect();
    ConfigError::UnknownKey { key: key.to_owned(), known: known.join(", ") }
}

/// The items of a comma-separated list; none if it is blank.
fn items(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(move |_| !text.trim().is_empty())
}

impl Impairments {
    fn set(&mut self, name: &str, text: &str) -> Result<(), ConfigError> {
        let key = KEYS.iter().find(|key| key.name == name).ok_or_else(|| unknown_key(name, &[]))?;
        (key.read)(self, text).map_err(|reason| bad_value(name, text, reason))
    }
}

impl FromStr for Impairments {
    type Err = ConfigError;
    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let mut impairments = Self::default();
        let mut seen = Vec::new();
        for item in items(text) {
            let (key, value) = pair(item)?;
            if seen.contains(&key) {
                return Err(ConfigError::Repeated(key.to_owned()));
            }
            seen.push(key);
            impairments.set(key, value)?;
        }
        Ok(impairments)
    }
}

impl fmt::Display for Impairments {
    /// The keys that differ from the default, in a form that reads back to the same value.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let default = Self::default();
        let mut separator = "";
        for key in KEYS {
            let text = (key.write)(self);
            if let Some(text) = text.filter(|text| (key.write)(&default).as_ref() != Some(text)) {
                write!(f, "{separator}{}={text}", key.name)?;
                separator = ",";
            }
        }
        Ok(())
    }
}

impl FromStr for Burst {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<_> = text.split('/').collect();
        let [enter, leave, loss] = parts[..] else {
            return Err("must be three probabilities, as in 0.1%/25%/100%".to_owned());
        };
        Ok(Self { enter: value(enter)?, leave: value(leave)?, loss: value(loss)? })
    }
}

impl fmt::Display for Burst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.enter, self.leave, self.loss)
    }
}

impl FromStr for Outage {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (from, until) = text.split_once('-').ok_or("must be two times, as in 10ms-20ms")?;
        let (from, until): (Span, Span) = (value(from)?, value(until)?);
        if from >= until {
            return Err("ends before it begins".to_owned());
        }
        Ok(Self { from: Time::ZERO + from, until: Time::ZERO + until })
    }
}

impl fmt::Display for Outage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.from.since(Time::ZERO), self.until.since(Time::ZERO))
    }
}

/// The text form of a plain choice.
macro_rules! choice {
    ($type:ident { $($name:literal => $variant:ident),+ }) => {
        impl FromStr for $type {
            type Err = &'static str;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                match text {
                    $($name => Ok(Self::$variant),)+
                    _ => Err(concat!("must be one of", $(" ", $name),+)),
                }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Self::$variant => $name),+ })
            }
        }
    };
}
choice!(EcnMark { "ect" => Ect, "always" => Always });
choice!(Scope { "ip" => Ip, "udp" => Udp });

/// A fabric: the seed, what every link does, and the links that differ.
///
/// As text, sections are separated by semicolons: first the seed and what holds for all links towards hosts, then
/// for each differing port the whole of what the link towards it does, and what the links between switches do.
/// `seed=7,loss=1%;1:loss=5%,rate=1Gbps;trunks:rate=10Gbps`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct FabricConfig {
    /// Decides all that is random.
    pub seed: u64,
    /// What the link towards a host does, unless `towards` says otherwise.
    pub common: Impairments,
    /// Links that differ, by the port they lead to.
    pub towards: BTreeMap<u16, Impairments>,
    /// What every link between switches does.
    pub trunks: Impairments,
}

/// Begins the section of the links between switches.
const TRUNKS: &str = "trunks";

impl FabricConfig {
    /// What the link towards `port` does.
    pub fn impairments(&self, port: u16) -> &Impairments {
        self.towards.get(&port).unwrap_or(&self.common)
    }
}

impl FromStr for FabricConfig {
    type Err = ConfigError;
    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let mut sections = text.split(';');
        let mut seed = None;
        let mut common = Vec::new();
        for item in items(sections.next().unwrap_or_default()) {
            match pair(item)? {
                ("seed", _) if seed.is_some() => return Err(ConfigError::Repeated("seed".to_owned())),
                ("seed", text) => {
                    seed = Some(text.parse().map_err(|_| bad_value("seed", text, "is not a 64-bit number"))?);
                }
                _ => common.push(item),
            }
        }
        let common = common.join(",").parse().map_err(|error| match error {
            ConfigError::UnknownKey { key, .. } => unknown_key(&key, &["seed"]),
            other => other,
        })?;
        let mut towards = BTreeMap::new();
        let mut trunks = None;
        for section in sections {
            let bad_section = || ConfigError::Section(section.to_owned());
            let (place, impairments) = section.split_once(':').ok_or_else(bad_section)?;
            let place = place.trim();
            let former = if place == TRUNKS {
                trunks.replace(impairments.parse()?)
            } else {
                towards.insert(place.parse().map_err(|_| bad_section())?, impairments.parse()?)
            };
            if former.is_some() {
                return Err(bad_section());
            }
        }
        Ok(Self { seed: seed.unwrap_or(0), common, towards, trunks: trunks.unwrap_or_default() })
    }
}

impl fmt::Display for FabricConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed={}", self.seed)?;
        if self.common != Impairments::default() {
            write!(f, ",{}", self.common)?;
        }
        self.towards.iter().try_for_each(|(port, impairments)| write!(f, ";{port}:{impairments}"))?;
        if self.trunks != Impairments::default() {
            write!(f, ";{TRUNKS}:{}", self.trunks)?;
        }
        Ok(())
    }
}

impl From<FabricConfig> for String {
    fn from(config: FabricConfig) -> Self {
        config.to_string()
    }
}

impl TryFrom<String> for FabricConfig {
    type Error = ConfigError;
    fn try_from(text: String) -> Result<Self, ConfigError> {
        text.parse()
    }
}

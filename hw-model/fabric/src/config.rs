//! What a fabric does to frames, as one line of text: `loss=1%,delay=50us,rate=1Gbps`.

use core::fmt;
use core::iter;
use core::str::FromStr;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::buffer::SharedBuffer;
use super::impairments::{Impairments, known_keys};

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
    /// A section that begins neither with a port nor with `trunks` or `switches`, or a second one for the same.
    #[error(
        "section `{0}` must begin with a port number of its own and a colon, as in `1:loss=5%`, or with `trunks:` or \
         `switches:`"
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

pub(super) fn value<T: FromStr<Err: fmt::Display>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: T::Err| error.to_string())
}

pub(super) fn store<T>(field: &mut T, value: Result<T, String>) -> Result<(), String> {
    *field = value?;
    Ok(())
}

pub(super) fn pair(item: &str) -> Result<(&str, &str), ConfigError> {
    let (key, value) = item.split_once('=').ok_or_else(|| ConfigError::NotAPair(item.to_owned()))?;
    Ok((key.trim(), value.trim()))
}

pub(super) fn bad_value(key: &str, value: &str, reason: impl fmt::Display) -> ConfigError {
    ConfigError::Value { key: key.to_owned(), value: value.to_owned(), reason: reason.to_string() }
}

pub(super) fn unknown_key<'a>(key: &str, known: impl IntoIterator<Item = &'a str>) -> ConfigError {
    let known: Vec<_> = known.into_iter().collect();
    ConfigError::UnknownKey { key: key.to_owned(), known: known.join(", ") }
}

/// The items of a comma-separated list; none if it is blank.
pub(super) fn items(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(move |_| !text.trim().is_empty())
}

/// A fabric: the seed, what every link does, and the links that differ.
///
/// As text, sections are separated by semicolons: first the seed and what holds for all links towards hosts, then
/// for each differing port the whole of what the link towards it does, what the links between switches do, and the memory
/// of the switches. `seed=7,loss=1%;1:loss=5%,rate=1Gbps;trunks:rate=10Gbps;switches:buffer=12MiB,alpha=1/2`
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
    /// The memory that the queues of each switch share; without it each queue has its own.
    pub switches: Option<SharedBuffer>,
}

/// Begins the section of the links between switches.
const TRUNKS: &str = "trunks";
/// Begins the section of the switches' memory.
const SWITCHES: &str = "switches";

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
            ConfigError::UnknownKey { key, .. } => unknown_key(&key, iter::once("seed").chain(known_keys())),
            other => other,
        })?;
        let mut towards = BTreeMap::new();
        let mut trunks = None;
        let mut switches = None;
        for section in sections {
            let bad_section = || ConfigError::Section(section.to_owned());
            let (place, text) = section.split_once(':').ok_or_else(bad_section)?;
            let is_second = match place.trim() {
                TRUNKS => trunks.replace(text.parse()?).is_some(),
                SWITCHES => switches.replace(text.parse()?).is_some(),
                port => towards.insert(port.parse().map_err(|_| bad_section())?, text.parse()?).is_some(),
            };
            if is_second {
                return Err(bad_section());
            }
        }
        Ok(Self { seed: seed.unwrap_or(0), common, towards, trunks: trunks.unwrap_or_default(), switches })
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
        self.switches.iter().try_for_each(|memory| write!(f, ";{SWITCHES}:{memory}"))
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

//! What a fabric does to frames, as one line of text: `loss=1%,delay=50us,rate=1Gbps`.

use core::fmt;
use core::iter;
use core::str::FromStr;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::buffer::SharedBuffer;
use super::impairments::{Impairments, known_keys};
use super::text::{ConfigError, bad_value, items, pair, unknown_key};

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

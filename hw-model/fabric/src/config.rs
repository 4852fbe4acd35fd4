//! The configuration of a fabric, and its text form: `seed=7,loss=1%,delay=50us,rate=1Gbps`.

use core::fmt;
use core::iter;
use core::str::FromStr;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::buffer::SharedBuffer;
use super::impairments::{Impairments, known_keys};
use super::text::{ConfigError, bad_value, items, pair, unknown_key};

/// The configuration of a fabric: the seed, the impairments of all links, and the links that differ.
///
/// In the text form, semicolons separate the sections. The first section has the seed and the impairments of all
/// links towards hosts. A section with a port number replaces all impairments of the link towards that port. The
/// section `trunks` is for the links between switches. A section such as `trunk3` replaces all impairments of one of
/// them. The section `switches` is for the shared memory of the switches.
///
/// Example: `seed=7,loss=1%;1:loss=5%,rate=1Gbps;trunks:rate=10Gbps;trunk3:loss=2%;switches:buffer=12MiB,alpha=1/2`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct FabricConfig {
    /// The seed of everything random.
    pub seed: u64,
    /// The impairments of every link towards a host that is not in `towards`.
    pub common: Impairments,
    /// The impairments of links that differ, by the port of the host.
    pub towards: BTreeMap<u16, Impairments>,
    /// The impairments of every link between switches that is not in `over`.
    pub trunks: Impairments,
    /// The impairments of links between switches that differ, by the number of the [`Trunk`](super::Trunk).
    pub over: BTreeMap<u16, Impairments>,
    /// The memory that the queues of each switch share. With `None` each queue has its own memory.
    pub switches: Option<SharedBuffer>,
}

/// Name of the section for the links between switches.
const TRUNKS: &str = "trunks";
/// Start of the name of the section for one link between switches. The number of the trunk follows.
const TRUNK: &str = "trunk";
/// Name of the section for the memory of the switches.
const SWITCHES: &str = "switches";

impl FabricConfig {
    /// Returns the impairments of the link towards `port`.
    pub fn impairments(&self, port: u16) -> &Impairments {
        self.towards.get(&port).unwrap_or(&self.common)
    }

    /// Returns the impairments of the trunk with this number.
    pub fn trunk_impairments(&self, trunk: u16) -> &Impairments {
        self.over.get(&trunk).unwrap_or(&self.trunks)
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
        let mut over = BTreeMap::new();
        let mut switches = None;
        for section in sections {
            let bad_section = || ConfigError::Section(section.to_owned());
            let (place, text) = section.split_once(':').ok_or_else(bad_section)?;
            let is_second = match place.trim() {
                TRUNKS => trunks.replace(text.parse()?).is_some(),
                SWITCHES => switches.replace(text.parse()?).is_some(),
                link => {
                    let (links, number) = match link.strip_prefix(TRUNK) {
                        Some(number) => (&mut over, number),
                        None => (&mut towards, link),
                    };
                    links.insert(number.parse().map_err(|_| bad_section())?, text.parse()?).is_some()
                }
            };
            if is_second {
                return Err(bad_section());
            }
        }
        let (seed, trunks) = (seed.unwrap_or(0), trunks.unwrap_or_default());
        Ok(Self { seed, common, towards, trunks, over, switches })
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
        self.over.iter().try_for_each(|(trunk, impairments)| write!(f, ";{TRUNK}{trunk}:{impairments}"))?;
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

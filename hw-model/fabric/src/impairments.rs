//! The impairments of a link, and their text form: `loss=1%,delay=50us,rate=1Gbps`.

use core::fmt;
use core::num::{NonZeroU8, NonZeroU32};
use core::str::FromStr;

use super::header::{EcnMark, LEAST_TRIMMED};
use super::quantity::{ByteCount, Probability, Rate};
use super::text::{ConfigError, bad_value, items, pair, store, unknown_key, value};
use super::time::{Span, Time};

/// Loss in bursts, after Gilbert and Elliott: a good and a bad state, with one step per frame. In the good state
/// only [`Impairments::loss`] applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// Probability that a frame changes the state from good to bad.
    pub enter: Probability,
    /// Probability that a frame changes the state from bad to good. The mean length of a burst in frames is the
    /// inverse.
    pub leave: Probability,
    /// Probability of loss in the bad state.
    pub loss: Probability,
}

/// A period in which the link drops all offered frames. Frames that were accepted before still arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    /// The link goes down at this time.
    pub from: Time,
    /// The link is up again at this time.
    pub until: Time,
}

/// The frames that are impaired and take an ordinal. Housekeeping frames never are (see the crate's page).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// All IP frames.
    #[default]
    Ip,
    /// UDP frames only. So a connection manager's TCP is not impaired and does not shift the ordinals. Every
    /// corruption and every duplicate then affects a frame of the transport over UDP.
    Udp,
}

/// What one link out of a switch does to frames. The default does nothing and takes no time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Impairments {
    /// Independent loss. `loss=1%`
    pub loss: Probability,
    /// Loss in bursts. `burst=ENTER/LEAVE/LOSS`, as in `burst=0.1%/25%/100%`
    pub burst: Option<Burst>,
    /// Probability that a frame is held back. `reorder=1%`
    pub reorder: Probability,
    /// A held frame is released after a number of later frames, uniform from 1 to this. `reorder_distance=8`
    pub reorder_distance: NonZeroU32,
    /// Maximum time for which a frame is held back, in addition to delay and jitter. `reorder_hold=200us`
    pub reorder_hold: Span,
    /// Probability that a frame is sent twice. `duplicate=0.1%`
    pub duplicate: Probability,
    /// Probability that bits are flipped. The 14 bytes of the Ethernet header are never flipped. The reason: a
    /// frame damaged on a wire fails its check sequence and is lost. A damaged frame that reaches a host was
    /// damaged inside a switch, which then wrote a new Ethernet header and check sequence. `corrupt=0.1%`
    pub corrupt: Probability,
    /// Number of distinct bits flipped in a corrupted frame. A ones' complement checksum finds every single flip,
    /// but not all pairs. `corrupt_bits=1`
    pub corrupt_bits: NonZeroU8,
    /// Propagation delay. `delay=50us`
    pub delay: Span,
    /// Maximum addition to the delay, uniform from zero. It does not change the order. `jitter=10us`
    pub jitter: Span,
    /// Rate of the link. Without a rate the queue is always empty. `rate=1Gbps`
    pub rate: Option<Rate>,
    /// Bytes that the queue holds, including the frame on the wire. Further frames are dropped. `queue=256KiB`
    pub queue: ByteCount,
    /// A frame is marked CE when the queue, including this frame, is above this many bytes. `ecn=64KiB`
    pub ecn: Option<ByteCount>,
    /// The frames that may be marked. `ecn_mark=ect` or `always`
    pub ecn_mark: EcnMark,
    /// Length to which frames are trimmed. If the queue has no space for an IP frame, the first bytes of a frame
    /// go on, up to this length, ahead of all data. IP frames that are not longer than this also go ahead of all
    /// data. See [`is_trimmed`](super::is_trimmed). At least 54, the Ethernet and IPv6 headers. `trim=64B`
    pub trim: Option<ByteCount>,
    /// Bytes of headers that can wait on a link that trims. Further headers are dropped. `header_queue=64KiB`
    pub header_queue: ByteCount,
    /// Number of routers on the link. The hop limit is lowered by this. The frame is dropped if the hop limit
    /// would reach zero. `hops=1`
    pub hops: u8,
    /// Periods in which the link is down. `down=10ms-20ms`, several joined by `+`
    pub down: Vec<Outage>,
    /// The frames that are impaired. `scope=ip` or `udp`
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
            trim: None,
            header_queue: ByteCount(64 << 10),
            hops: 0,
            down: Vec::new(),
            scope: Scope::Ip,
        }
    }
}

/// One key of the text form, with the functions that read and write its value.
struct Key {
    name: &'static str,
    read: fn(&mut Impairments, &str) -> Result<(), String>,
    /// Returns `None` if the field is not set.
    write: fn(&Impairments) -> Option<String>,
}

/// Makes a key for a field that has its own text form.
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
    Key {
        name: "trim",
        read: |to, text| store(&mut to.trim, value(text).and_then(trimmed_length).map(Some)),
        write: |from| from.trim.map(|length| length.to_string()),
    },
    field!(header_queue),
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

/// Returns `length` if frames can be trimmed to it.
fn trimmed_length(length: ByteCount) -> Result<ByteCount, String> {
    let least = LEAST_TRIMMED as u64;
    if length.0 < least {
        Err(format!("must be at least {least}B, the Ethernet and IPv6 headers"))
    } else {
        Ok(length)
    }
}

/// Returns the names of all keys.
pub(super) fn known_keys() -> impl Iterator<Item = &'static str> {
    KEYS.iter().map(|key| key.name)
}

impl Impairments {
    fn set(&mut self, name: &str, text: &str) -> Result<(), ConfigError> {
        let key = KEYS.iter().find(|key| key.name == name).ok_or_else(|| unknown_key(name, known_keys()))?;
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
    /// Writes the keys that differ from the default. The text reads back to the same value.
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

/// Implements the text form of an enum without data.
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

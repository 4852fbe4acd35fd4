//! The source of T2 and T4. If the driver gives receive timestamps to XDP programs, and the card's clock can be
//! compared with the monotonic clock, the card's timestamps are used. Otherwise the program reads the clock.

use std::io;
use std::sync::Arc;

use tiercel::Error;
use tiercel::backend::Maps;
pub use tiercel::status::{CardClock, ReceiveTimestamps, StampedPackets, TimestampSource};
use transport_common::counters::Counter;

use crate::node::error::NodeError;
use crate::node::instruments::Instruments;
use crate::node::interface::ethtool;
use crate::node::interface::netdev::Netdev;
use crate::node::interface::netlink::Interface;
use crate::node::xdp::attach_mode::AttachMode;

mod card;
mod clock;
mod tracker;

use card::{StampingOn, TimestampingInfo};
use clock::{Clock, Keeper};

/// The features of driver and card.
struct Offer<C> {
    /// Whether the driver gives timestamps to XDP programs, or why that is not known.
    metadata: Result<bool, String>,
    /// The card's clock, or why there is none that can be compared.
    clock: Result<C, String>,
}

/// The selected source.
#[derive(Debug)]
enum Choice<C> {
    /// The monotonic clock, for this reason.
    Software(String),
    /// The program reads timestamps from the driver. They are used if there is a clock.
    Ask(Result<C, String>),
}

/// Selects the source by the options. The error is the reason why hardware timestamps, which the options require,
/// are not possible.
fn choose<C>(
    wanted: Option<bool>,
    attach: AttachMode,
    offer: impl FnOnce() -> Offer<C>,
) -> Result<Choice<C>, String> {
    if wanted == Some(false) {
        return Ok(Choice::Software("they are switched off: hardware_timestamps = false".to_owned()));
    }
    let demanded = wanted == Some(true);
    let software = |reason: String| if demanded { Err(reason) } else { Ok(Choice::Software(reason)) };
    if attach == AttachMode::Generic {
        return software("in generic mode, XDP programs cannot read them from the driver".to_owned());
    }
    let Offer { metadata, clock } = offer();
    match (metadata, clock) {
        (Err(reason), _) => software(reason),
        (Ok(false), _) => software("the driver gives no receive timestamps to XDP programs".to_owned()),
        (Ok(true), Err(reason)) if !demanded => software(reason),
        (Ok(true), clock) => Ok(Choice::Ask(clock)),
    }
}

/// The source from which a node will read its receive timestamps. The card's settings are not changed yet.
#[derive(Debug)]
pub(crate) struct Plan(Choice<Card>);

/// A card with a clock.
#[derive(Debug)]
struct Card {
    interface: ethtool::Interface,
    info: TimestampingInfo,
    clock: Clock,
}

impl Plan {
    /// Makes the plan for a node on `interface`, which is in the calling thread's network namespace.
    ///
    /// # Errors
    /// [`NodeError::NoHardwareTimestamps`].
    pub(crate) fn new(
        wanted: Option<bool>,
        attach: AttachMode,
        interface: &Interface,
    ) -> Result<Self, NodeError> {
        let offer = || Offer {
            metadata: Netdev::open().and_then(|netdev| netdev.offers_timestamps(interface.index)).map_err(
                |error| format!("cannot read from the kernel what the driver gives to XDP programs: {error}"),
            ),
            clock: Card::of(&interface.name),
        };
        choose(wanted, attach, offer)
            .map(Self)
            .map_err(|reason| NodeError::NoHardwareTimestamps { interface: interface.name.clone(), reason })
    }

    /// Returns whether the program must be bound to the device.
    pub(crate) fn asks_driver(&self) -> bool {
        matches!(self.0, Choice::Ask(_))
    }

    /// Changes the plan to software timestamps.
    pub(crate) fn give_up(&mut self, reason: String) {
        self.0 = Choice::Software(reason);
    }

    /// Starts to compare the card's clock with the monotonic clock.
    pub(crate) fn start(self, maps: &Arc<Maps>) -> Stamping {
        let asks_driver = self.asks_driver();
        let card = match self.0 {
            Choice::Software(reason) | Choice::Ask(Err(reason)) => Err(reason),
            Choice::Ask(Ok(card)) => {
                card.start(maps).map_err(|error| format!("the card cannot be set up: {error}"))
            }
        };
        Stamping { asks_driver, card }
    }
}

impl Card {
    /// Finds the card of the interface with this name.
    fn of(name: &str) -> Result<Self, String> {
        let failed =
            |error: io::Error| format!("cannot read from the driver which clock the card has: {error}");
        let interface = ethtool::Interface::new(name).map_err(failed)?;
        let info = TimestampingInfo::of(&interface).map_err(failed)?;
        let number = info.clock().ok_or("the card has no clock (PTP) to compare with the machine's clock")?;
        let clock = Clock::open(number);
        let clock =
            clock.map_err(|error| format!("the card's clock /dev/ptp{number} cannot be opened: {error}"))?;
        Ok(Self { interface, info, clock })
    }

    fn start(self, maps: &Arc<Maps>) -> io::Result<(Keeper, Option<StampingOn>)> {
        let on = StampingOn::new(self.interface, &self.info)?;
        Ok((Keeper::start(self.clock, Arc::clone(maps))?, on))
    }
}

/// The source of a running node's receive timestamps. Dropping it restores the card's settings.
#[derive(Debug)]
pub(crate) struct Stamping {
    asks_driver: bool,
    card: Result<(Keeper, Option<StampingOn>), String>,
}

impl Stamping {
    /// For people.
    ///
    /// # Errors
    /// [`Error::System`].
    pub(crate) fn status(&self, instruments: &Instruments) -> Result<ReceiveTimestamps, Error> {
        let clock = self.card.as_ref().map_err(String::clone).and_then(|(keeper, _)| keeper.latest());
        let packets = || -> Result<_, Error> {
            Ok(StampedPackets {
                hardware: instruments.counter(Counter::StampHardware)?,
                absent: instruments.counter(Counter::StampAbsent)?,
                clock_unknown: instruments.counter(Counter::StampClockUnknown)?,
                in_future: instruments.counter(Counter::StampInFuture)?,
                too_old: instruments.counter(Counter::StampTooOld)?,
            })
        };
        Ok(ReceiveTimestamps {
            source: if clock.is_ok() { TimestampSource::Hardware } else { TimestampSource::Software },
            packets: if self.asks_driver { Some(packets()?) } else { None },
            reason: clock.as_ref().err().cloned(),
            clock: clock.ok(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAMPS: Result<bool, String> = Ok(true);

    fn offered(
        wanted: Option<bool>,
        metadata: Result<bool, String>,
        clock: Result<u32, &str>,
    ) -> Result<Choice<u32>, String> {
        choose(wanted, AttachMode::Native, || Offer { metadata, clock: clock.map_err(str::to_owned) })
    }

    #[test]
    fn a_card_that_has_everything_is_asked_unless_that_is_switched_off() {
        for wanted in [None, Some(true)] {
            assert!(matches!(offered(wanted, STAMPS, Ok(3)), Ok(Choice::Ask(Ok(3)))));
        }
        let off = offered(Some(false), STAMPS, Ok(3));
        assert!(
            matches!(off, Ok(Choice::Software(reason)) if reason.contains("hardware_timestamps = false"))
        );
    }

    #[test]
    fn without_a_clock_the_driver_is_asked_only_on_demand() {
        let refused = || Err("no clock");
        assert!(
            matches!(offered(None, STAMPS, refused()), Ok(Choice::Software(reason)) if reason == "no clock")
        );
        assert!(
            matches!(offered(Some(true), STAMPS, refused()), Ok(Choice::Ask(Err(reason))) if reason == "no clock")
        );
    }

    #[test]
    fn a_driver_that_hands_out_none_is_refused_on_demand() {
        let unknown = || Err("not said".to_owned());
        for metadata in [Ok(false), unknown()] {
            assert!(matches!(offered(None, metadata.clone(), Ok(3)), Ok(Choice::Software(_))));
            assert!(offered(Some(true), metadata, Ok(3)).is_err());
        }
    }

    #[test]
    fn generic_mode_does_not_ask() {
        let never = || -> Offer<u32> { panic!("not asked") };
        assert!(matches!(choose(None, AttachMode::Generic, never), Ok(Choice::Software(_))));
        let refused = choose(Some(true), AttachMode::Generic, never).expect_err("cannot be");
        assert!(refused.contains("generic"), "{refused}");
    }

    #[test]
    fn an_interface_without_a_card_says_why() {
        let reason = Card::of("lo").expect_err("no card");
        assert!(reason.contains("has no clock"), "{reason}");
    }
}

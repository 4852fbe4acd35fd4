//! The XDP programs in the object: their names, and the maps they use.

use aya::maps::{Map, MapData};

/// Attached to the interface; the frames of the engine enter here as well.
pub const WIRE: &str = "wire";
/// Attached in place of [`WIRE`] where the driver hands out receive timestamps.
pub const WIRE_STAMPED: &str = "wire_stamped";
/// The transmit pipeline.
pub const ENGINE: &str = "engine";
/// The delivery of a packet that was held.
pub const REDELIVER: &str = "redeliver";
/// Moves a connection into or out of its slot.
pub const EXCHANGE: &str = "exchange";
/// At the loopback device's entry to the stack: passes the engine's frames on to a card that takes none from XDP.
pub const TO_CARD: &str = "to_card";
/// At the tracepoint of frames that could not be redirected.
pub const NOT_REDIRECTED: &str = "not_redirected";
/// [`WIRE`], [`ENGINE`] and [`REDELIVER`].
pub const PLAIN: [&str; 3] = [WIRE, ENGINE, REDELIVER];
/// As [`PLAIN`], and they record what they do.
pub const RECORDING: [&str; 3] = ["wire_recorded", "engine_recorded", "redeliver_recorded"];
/// Those that may be attached to an interface.
pub const ATTACHED: [&str; 3] = [WIRE, WIRE_STAMPED, RECORDING[0]];

/// A map's data, if it is of a type that the programs use.
#[doc(hidden)]
pub fn map_data(map: &Map) -> Option<&MapData> {
    match map {
        Map::Array(data)
        | Map::PerCpuArray(data)
        | Map::ProgramArray(data)
        | Map::DevMap(data)
        | Map::Stack(data)
        | Map::RingBuf(data)
        | Map::Unsupported(data) => Some(data),
        _ => None,
    }
}

//! The names of the XDP programs in the object, and the types of their maps.

use aya::maps::{Map, MapData};

/// The program that is attached to the interface. The frames of the engine also enter here.
pub const WIRE: &str = "wire";
/// The program that is attached instead of [`WIRE`] to read receive timestamps from the driver.
pub const WIRE_STAMPED: &str = "wire_stamped";
/// The transmit pipeline.
pub const ENGINE: &str = "engine";
/// The program that delivers a packet that was held.
pub const REDELIVER: &str = "redeliver";
/// The program that copies a connection into or out of its slot.
pub const EXCHANGE: &str = "exchange";
/// At the loopback device's entry to the stack: passes the engine's frames on to a card that takes none from XDP.
pub const TO_CARD: &str = "to_card";
/// At the tracepoint of frames that could not be redirected.
pub const NOT_REDIRECTED: &str = "not_redirected";
/// At the tracepoint of bulks of frames that were redirected.
pub const NOT_TRANSMITTED: &str = "not_transmitted";
/// [`WIRE`], [`ENGINE`] and [`REDELIVER`].
pub const PLAIN: [&str; 3] = [WIRE, ENGINE, REDELIVER];
/// The same programs as [`PLAIN`], which also record every run.
pub const RECORDING: [&str; 3] = ["wire_recorded", "engine_recorded", "redeliver_recorded"];
/// The programs that can be attached to an interface.
pub const ATTACHED: [&str; 3] = [WIRE, WIRE_STAMPED, RECORDING[0]];

/// Returns the data of a map, if its type is one that the programs use.
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

//! The last events of a run, for people who look for the cause of a failure.

use std::collections::VecDeque;
use std::fmt;

use fabric_model::Time;
use tiercel_cli::decode::decode_frame;

/// Number of events that are kept.
const KEPT: usize = 60;

/// The last events of a run.
#[derive(Debug, Default)]
pub struct Trace {
    events: VecDeque<(Time, String)>,
}

impl Trace {
    pub(super) fn note(&mut self, now: Time, event: String) {
        if self.events.len() == KEPT {
            self.events.pop_front();
        }
        self.events.push_back((now, event));
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (time, event) in &self.events {
            writeln!(f, "{:>14.3} us  {event}", time.0 as f64 / 1e6)?;
        }
        Ok(())
    }
}

/// Returns a line about a frame: the layers from Falcon on, with their main fields.
pub(super) fn summary(frame: &[u8]) -> String {
    const TOLD: [&str; 12] = [
        "Packet type",
        "Destination CID",
        "PSN",
        "RSN",
        "AR",
        "Data base PSN",
        "Request base PSN",
        "NACK code",
        "Resync code",
        "Opcode",
        "Request length",
        "RNR timeout",
    ];
    let decoded = decode_frame(frame);
    let falcon = decoded.layers.iter().skip_while(|layer| layer.name != "PSP").skip(1);
    let mut text = format!("{} bytes", frame.len());
    for layer in falcon {
        text += &format!(", {}", layer.name);
        for field in
            layer.fields.iter().filter(|field| TOLD.iter().any(|told| told.eq_ignore_ascii_case(field.name)))
        {
            text += &format!(" {}={}", field.name, field.text);
        }
    }
    if let Some(error) = decoded.error {
        text += &format!(", {error}");
    }
    text
}

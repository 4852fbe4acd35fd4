//! `decode`: prints the fields of packets.

use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Serialize;
use tiercel_cli::decode::{Capture, Decoded, decode_falcon, decode_frame, parse_hex};

use crate::exit::Exit;
use crate::output::{print, print_json};

/// The note for a capture without Falcon packets.
const NO_FALCON: &str = "\
note: this file has no Falcon packets. A capture on a node's own interface has none: the node receives and sends them in
XDP, and tcpdump does not see packets there. Capture between the nodes, at a switch or a mirror port.";

/// A frame of a capture.
#[derive(Serialize)]
struct CapturedFrame {
    /// Number of the frame in the file, from 1.
    number: u64,
    /// Time of the capture, seconds since 1970.
    timestamp: Option<f64>,
    /// Bytes on the wire.
    original_length: u32,
    #[serde(flatten)]
    decoded: Decoded,
}

pub(crate) fn decode(
    file: Option<PathBuf>,
    hex: Option<String>,
    falcon: bool,
    json: bool,
) -> Result<(), Exit> {
    match (file, hex) {
        (Some(file), _) => decode_capture(&file, json),
        (None, Some(hex)) => decode_hex(hex, falcon, json),
        (None, None) => Err(Exit::usage("name a capture file, or give bytes with --hex")),
    }
}

fn decode_hex(hex: String, falcon: bool, json: bool) -> Result<(), Exit> {
    let text = match hex.as_str() {
        "-" => {
            let mut text = String::new();
            let read = std::io::stdin().lock().read_to_string(&mut text);
            read.map_err(|error| Exit::file(format!("cannot read stdin: {error}")))?;
            text
        }
        _ => hex,
    };
    let bytes = parse_hex(&text).map_err(Exit::usage)?;
    let decoded = if falcon { decode_falcon(&bytes) } else { decode_frame(&bytes) };
    match json {
        true => print_json(&decoded),
        // The error is printed on stderr only.
        false => print(Decoded { error: None, ..decoded.clone() }.to_string().trim_end()),
    }
    match decoded.error {
        None => Ok(()),
        Some(error) => Err(Exit::file(error)),
    }
}

/// Prints the frames of a capture. A malformed frame is shown with its error, and decoding goes on. An error of
/// the capture file itself ends it.
fn decode_capture(file: &Path, json: bool) -> Result<(), Exit> {
    let in_file = |error| Exit::file(format!("{}: {error}", file.display()));
    let mut all = Vec::new();
    let mut outcome = Ok(());
    let mut has_falcon = false;
    for frame in Capture::open(file).map_err(Exit::file)? {
        let frame = match frame {
            Ok(frame) => frame,
            Err(error) => {
                outcome = Err(in_file(error));
                break;
            }
        };
        let decoded = decode_frame(&frame.data);
        has_falcon |= decoded.is_falcon();
        if json {
            all.push(CapturedFrame {
                number: frame.number,
                timestamp: frame.timestamp.map(|timestamp| timestamp.as_secs_f64()),
                original_length: frame.original_length,
                decoded,
            });
        } else {
            let time = frame.timestamp.map_or_else(|| "-".to_owned(), |t| format!("{:.9}", t.as_secs_f64()));
            print(format!("Frame {} at {time} s, {} bytes", frame.number, frame.original_length));
            print(decoded.to_string());
        }
    }
    if json {
        print_json(&all);
    }
    if !has_falcon {
        eprintln!("{NO_FALCON}");
    }
    outcome
}

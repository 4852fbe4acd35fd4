//! Values of the command line that consist of several parts.

use std::path::PathBuf;

use clap::ValueEnum;
use quantity::{QuantityError, integer};
use tiercel::control::request::{Right, Via};
use tiercel::quantity::{parse_size, parse_u32};
use tiercel::{ScopedAddress, Ulp};
use tiercel_node::config::DEFAULT_CONTROL_PORT;

/// Part of a region of this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RegionSpan {
    pub(crate) rkey: u32,
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

/// An address and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PeerAddress {
    pub(crate) address: ScopedAddress,
    pub(crate) port: u16,
}

/// One end of `cp`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CopyPlace {
    /// A path on this machine.
    Local(PathBuf),
    /// A name at the peer of a connection. If it is empty, the file keeps its name.
    Peer { cid: u32, name: String },
}

/// `--ulp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum UlpArgument {
    /// RDMA: READ, WRITE, SEND and atomics.
    Rdma,
    /// The block protocol: READ and WRITE of whole blocks of 512 bytes.
    Block,
}

impl From<UlpArgument> for Ulp {
    fn from(ulp: UlpArgument) -> Self {
        match ulp {
            UlpArgument::Rdma => Self::Rdma,
            UlpArgument::Block => Self::Block,
        }
    }
}

/// The argument of `conn xlr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ResetStep {
    /// New requests are dropped.
    Begin,
    /// New requests are taken again.
    End,
}

/// `--via`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ViaArgument {
    /// SEND: the receiving node posts receives.
    Send,
    /// WRITE: the node that has the file writes it into the peer's memory.
    Write,
    /// READ: the node that gets the file reads it from the peer's memory.
    Read,
}

impl From<ViaArgument> for Via {
    fn from(via: ViaArgument) -> Self {
        match via {
            ViaArgument::Send => Self::Send,
            ViaArgument::Write => Self::Write,
            ViaArgument::Read => Self::Read,
        }
    }
}

/// Parses `RKEY:OFFSET:LENGTH`.
pub(crate) fn parse_region_span(text: &str) -> Result<RegionSpan, String> {
    let wrong =
        || format!("\"{text}\" is not a part of a region: write RKEY:OFFSET:LENGTH, such as 2:0:4096");
    let (place, length) = text.rsplit_once(':').ok_or_else(wrong)?;
    let (rkey, offset) = parse_region_place(place).map_err(|_| wrong())?;
    Ok(RegionSpan { rkey, offset, length: parse_size(length)? })
}

/// Parses `RKEY:OFFSET`.
pub(crate) fn parse_region_place(text: &str) -> Result<(u32, u64), String> {
    let wrong = || format!("\"{text}\" is not a place in a region: write RKEY:OFFSET, such as 2:4096");
    let (rkey, offset) = text.split_once(':').ok_or_else(wrong)?;
    Ok((parse_u32(rkey)?, parse_size(offset)?))
}

/// Parses `ADDRESS` or `ADDRESS:PORT`. An IPv6 address with a port stands in brackets.
pub(crate) fn parse_peer(text: &str) -> Result<PeerAddress, String> {
    if let Some((address, port)) = ScopedAddress::parse_with_port(text) {
        return Ok(PeerAddress { address, port });
    }
    let wrong = |reason: String| match reason {
        reason if text.contains('%') => reason,
        _ => format!(
            "\"{text}\" is not the address of a peer: write an address such as 10.7.0.2, 10.7.0.2:{DEFAULT_CONTROL_PORT}, \
             [fd00::2]:{DEFAULT_CONTROL_PORT} or fe80::2%eth0"
        ),
    };
    text.parse().map(|address| PeerAddress { address, port: DEFAULT_CONTROL_PORT }).map_err(wrong)
}

/// Parses `read`, `write` or `atomic` into a right, and `none` into no right.
pub(crate) fn parse_right(text: &str) -> Result<Option<Right>, String> {
    if text == "none" {
        return Ok(None);
    }
    let wrong =
        || format!("\"{text}\" is not a right: write read, write, atomic (several with commas), or none");
    text.parse().map(Some).map_err(|_| wrong())
}

/// Parses `CID:[NAME]`, or a path. A path that looks like `CID:[NAME]` needs a `./` in front.
pub(crate) fn parse_copy_place(text: &str) -> Result<CopyPlace, String> {
    if let Some((cid, name)) = text.split_once(':')
        && integer(cid) != Err(QuantityError::Malformed)
    {
        let cid = parse_u32(cid)
            .map_err(|_| format!("\"{cid}\" is not a CID: write a CID that `tiercel conn list` shows"))?;
        return Ok(CopyPlace::Peer { cid, name: name.to_owned() });
    }
    if text.is_empty() {
        return Err("a path, or CID:[NAME], must not be empty".into());
    }
    Ok(CopyPlace::Local(text.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_have_a_default_port() {
        let peer = |text| parse_peer(text).map(|peer| (peer.address.to_string(), peer.port));
        assert_eq!(peer("10.7.0.2"), Ok(("10.7.0.2".into(), 4792)));
        assert_eq!(peer("10.7.0.2:5000"), Ok(("10.7.0.2".into(), 5000)));
        assert_eq!(peer("fd00::2"), Ok(("fd00::2".into(), 4792)));
        assert_eq!(peer("[fd00::2]:1"), Ok(("fd00::2".into(), 1)));
        assert_eq!(peer("fe80::2%eth0"), Ok(("fe80::2%eth0".into(), 4792)));
        assert_eq!(peer("[fe80::2%eth0]:1"), Ok(("fe80::2%eth0".into(), 1)));
        for wrong in ["", "host", "fd00::2%eth0", "10.7.0.2:", "10.7.0.2:0", "[fd00::2]", "10.7.0.2:70000"] {
            assert!(parse_peer(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn copy_places_are_told_from_paths() {
        let peer = |cid, name: &str| Ok(CopyPlace::Peer { cid, name: name.into() });
        assert_eq!(parse_copy_place("5:"), peer(5, ""));
        assert_eq!(parse_copy_place("5:a:b"), peer(5, "a:b"));
        assert_eq!(parse_copy_place("0x10:a"), peer(16, "a"));
        for path in ["file", "./5:x", "a:b", ":x", "/x/5:"] {
            assert_eq!(parse_copy_place(path), Ok(CopyPlace::Local(path.into())), "{path}");
        }
        assert!(parse_copy_place("").is_err() && parse_copy_place("99999999999:x").is_err());
    }

    #[test]
    fn spans_of_regions_are_three_numbers() {
        assert_eq!(parse_region_span("2:0x10:4KiB"), Ok(RegionSpan { rkey: 2, offset: 16, length: 4096 }));
        assert_eq!(parse_region_place("1:1MiB"), Ok((1, 1 << 20)));
        for wrong in ["", "1", "1:2", "1:2:x", "x:0:1", "1:-1:1"] {
            assert!(parse_region_span(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn rights_are_words() {
        assert_eq!(parse_right("atomic"), Ok(Some(Right::RemoteAtomic)));
        assert_eq!(parse_right("none"), Ok(None));
        assert!(parse_right("execute").is_err());
    }
}

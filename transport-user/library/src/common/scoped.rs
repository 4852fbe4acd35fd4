//! Addresses as people write them: with a scope, if they are link-local.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use nix::net::if_::if_nametoindex;

/// An IP address, and the interface on whose link it is, if it is written with one: `fe80::1%eth0` (RFC 4007, 11).
///
/// A node has one interface, so the scope says nothing new. It is accepted because other programs print such addresses, and
/// checked, because all hosts of another link have link-local addresses as well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScopedAddress {
    /// The address.
    pub address: IpAddr,
    /// Name or index of the interface.
    pub scope: Option<String>,
}

impl ScopedAddress {
    /// Parses an address with a port. An IPv6 address stands in brackets, with its scope.
    pub fn parse_with_port(text: &str) -> Option<(Self, u16)> {
        let inside = text.strip_prefix('[').and_then(|rest| rest.split_once("]:"));
        let (address, port) = match inside {
            Some((address, port)) => (address.parse().ok()?, port.parse().ok()?),
            None => {
                let socket: SocketAddr = text.parse().ok()?;
                (Self::from(socket.ip()), socket.port())
            }
        };
        (port != 0).then_some((address, port))
    }

    /// Returns the address if its scope is this interface, or if it has none.
    ///
    /// # Errors
    /// A text that says which interface it names.
    pub fn on(&self, interface: &str) -> Result<IpAddr, String> {
        let Some(scope) = &self.scope else { return Ok(self.address) };
        let index = || if_nametoindex(interface).ok();
        if scope == interface || scope.parse().is_ok_and(|scope: u32| index() == Some(scope)) {
            return Ok(self.address);
        }
        Err(format!("{self} is an address on \"{scope}\", and the node's interface is \"{interface}\""))
    }
}

impl From<IpAddr> for ScopedAddress {
    fn from(address: IpAddr) -> Self {
        Self { address, scope: None }
    }
}

impl FromStr for ScopedAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!("\"{text}\" is not an IP address: write one such as 10.7.0.1, fd00::1 or fe80::1%eth0")
        };
        let Some((address, scope)) = text.split_once('%') else {
            return text.parse().map(|address| Self { address, scope: None }).map_err(|_| wrong());
        };
        match address.parse() {
            Ok(IpAddr::V6(v6)) if v6.is_unicast_link_local() && !scope.is_empty() => {
                Ok(Self { address: v6.into(), scope: Some(scope.to_owned()) })
            }
            Ok(address) if !scope.is_empty() => Err(format!(
                "{address} has no scope: only link-local IPv6 addresses have one; leave out %{scope}"
            )),
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for ScopedAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.scope {
            Some(scope) => write!(f, "{}%{scope}", self.address),
            None => self.address.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_is_that_of_the_nodes_interface() {
        let scoped = |text: &str| text.parse::<ScopedAddress>();
        let address = scoped("fe80::1%eth0").expect("an address with a scope");
        assert_eq!((address.to_string().as_str(), address.on("eth0")), ("fe80::1%eth0", Ok(address.address)));
        let error = address.on("eth1").expect_err("another interface");
        assert!(error.contains("on \"eth0\", and the node's interface is \"eth1\""), "{error}");
        for plain in ["10.7.0.1", "fd00::1", "fe80::1"] {
            assert!(scoped(plain).expect("an address").on("eth1").is_ok(), "{plain}");
        }
        let index = if_nametoindex("lo").expect("there is always a lo");
        assert!(scoped(&format!("fe80::1%{index}")).expect("an address").on("lo").is_ok());
        assert!(scoped(&format!("fe80::1%{}", index + 1)).expect("an address").on("lo").is_err());
    }

    #[test]
    fn only_link_local_addresses_have_a_scope() {
        for (text, expected) in [
            ("fd00::1%eth0", "leave out %eth0"),
            ("10.7.0.1%eth0", "leave out %eth0"),
            ("fe80::1%", "is not an IP address"),
            ("%eth0", "is not an IP address"),
            ("host", "is not an IP address"),
        ] {
            let error = text.parse::<ScopedAddress>().expect_err(text);
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn a_port_stands_behind_the_brackets() {
        let parsed =
            |text| ScopedAddress::parse_with_port(text).map(|(address, port)| (address.to_string(), port));
        assert_eq!(parsed("[fe80::2%eth0]:4792"), Some(("fe80::2%eth0".into(), 4792)));
        assert_eq!(parsed("[fd00::2]:1"), Some(("fd00::2".into(), 1)));
        assert_eq!(parsed("10.7.0.2:5000"), Some(("10.7.0.2".into(), 5000)));
        for wrong in [
            "[fe80::2%eth0]",
            "[fe80::2%eth0]:0",
            "fe80::2%eth0:1",
            "[fe80::2%]:1",
            "10.7.0.2",
            "[10.7.0.2]:",
        ] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }
}

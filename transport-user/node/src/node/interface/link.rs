//! Follows the properties of the interface while a node runs on it.
//!
//! | what changes | what the node does |
//! |---|---|
//! | the interface is removed, or moved to another network namespace | it goes down: no packet reaches it any more |
//! | the MAC address | it goes down: the XDP programs and all connections have the old one |
//! | the MTU | new connections use it, up to the MTU of the options and the largest of a node; older ones send shorter packets, or end if longer ones are outstanding ([`crate::connection_manager`]) |
//! | the name, the addresses | it knows the new ones |
//! | its neighbours, routes | connections take over the next hop that they have now ([`crate::connection_manager`]) |
//! | up, down, the carrier | it goes on: connections end by themselves if they wait too long |
//! | the number of queues, offloads | it goes on: the programs do not depend on them (exceptions: [`super::receive_queues`], [`super::gro`]) |

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, RwLock};

use tiercel::backend::{max_segment, node_mtu};
use tiercel::{Device, Error, Mac};

use crate::node::interface::gro;
use crate::node::interface::netlink::events::{self, Events};
use crate::node::interface::netlink::{AddressState, Interface, Netlink, OwnAddress};
use crate::node::watch::Lost;

/// Most pieces of news that wait for somebody who takes them. The oldest are dropped: they were logged.
const NEWS: usize = 64;

/// The interface of a node, as it is now.
#[derive(Debug)]
pub(crate) struct Link {
    events: Events,
    /// The notices about neighbours and routes.
    next_hops: Events,
    device: RwLock<Arc<Device>>,
    /// MTU of the options, bytes.
    mtu: Option<u32>,
    /// Whether a veth polls only because of GRO.
    needs_gro: bool,
    news: Mutex<VecDeque<String>>,
}

impl Link {
    /// Begins to follow an interface of the calling thread's network namespace.
    pub(crate) fn new(device: Device, mtu: Option<u32>, needs_gro: bool) -> Result<Self, Error> {
        let open = |groups| Events::open(groups).map_err(|e| Error::system("open a netlink socket", e));
        Ok(Self {
            events: open(&events::INTERFACES)?,
            next_hops: open(&events::NEXT_HOPS)?,
            device: RwLock::new(Arc::new(device)),
            mtu,
            needs_gro,
            news: Mutex::default(),
        })
    }

    /// Returns the device as it is now.
    pub(crate) fn device(&self) -> Arc<Device> {
        Arc::clone(&self.device.read().expect("no panic under the lock"))
    }

    /// Returns what has changed since the last call, as sentences.
    pub(crate) fn take_news(&self) -> Vec<String> {
        self.news.lock().expect("no panic under the lock").drain(..).collect()
    }

    /// Returns whether neighbours or routes may have changed since the last call, of whatever interface.
    pub(crate) fn next_hops_changed(&self) -> bool {
        self.next_hops.changed()
    }

    /// Looks at the interface if something has changed. Returns why the node cannot go on, if so.
    pub(crate) fn follow(&self, netlink: &Netlink) -> Option<Lost> {
        if !self.events.changed() {
            return None;
        }
        let before = self.device();
        let look = || -> io::Result<_> {
            let interface = netlink.interface(before.index)?;
            Ok((interface, netlink.addresses(before.index)?))
        };
        let (interface, addresses) = match look() {
            Ok((Some(interface), addresses)) => (interface, addresses),
            Ok((None, _)) => return Some(Lost::InterfaceGone { interface: before.interface.clone() }),
            Err(error) => {
                tracing::warn!(%error, "cannot look at the interface");
                return None;
            }
        };
        let after = match changed(&before, &interface, &addresses, self.mtu) {
            Ok(after) => after,
            Err(lost) => return Some(lost),
        };
        let mut texts = differences(&before, &after);
        if self.needs_gro && gro::keep_on(&after.interface) {
            texts.push(format!("interface {}: its GRO was switched off, and is on again", after.interface));
        }
        // Whoever is told finds the new device.
        *self.device.write().expect("no panic under the lock") = Arc::new(after);
        self.tell(texts);
        None
    }

    /// Adds news.
    pub(crate) fn tell(&self, texts: Vec<String>) {
        let mut news = self.news.lock().expect("no panic under the lock");
        for text in texts {
            tracing::warn!("{text}");
            if news.len() == NEWS {
                news.pop_front();
            }
            news.push_back(text);
        }
    }
}

/// Returns the device after a change of its interface, or why a node cannot follow the change.
fn changed(
    before: &Device,
    interface: &Interface,
    addresses: &[OwnAddress],
    chosen_mtu: Option<u32>,
) -> Result<Device, Lost> {
    let name = || before.interface.clone();
    match interface.mac.map(Mac) {
        Some(mac) if mac == before.mac => {}
        mac => return Err(Lost::MacChanged { interface: name(), from: before.mac, to: mac }),
    }
    let mtu = node_mtu(interface.mtu, chosen_mtu);
    let usable = addresses.iter().filter(|own| own.state == AddressState::Usable);
    Ok(Device {
        interface: interface.name.clone(),
        mtu,
        interface_mtu: interface.mtu,
        max_segment: max_segment(mtu, before.address.is_ipv6(), 0),
        carrier: interface.up && interface.carrier,
        addresses: usable.map(|own| own.address).collect(),
        ..before.clone()
    })
}

/// Returns what is different, as sentences for people.
fn differences(before: &Device, after: &Device) -> Vec<String> {
    let name = format!("interface {}", before.interface);
    let has_own = |device: &Device| device.addresses.contains(&device.address);
    let mut texts = Vec::new();
    if before.interface != after.interface {
        texts.push(format!("{name} has the name {} now", after.interface));
    }
    if before.mtu != after.mtu {
        let (was, is) = (before.mtu, after.mtu);
        let static_ones = if is < was {
            "; static connections send shorter packets from now on, and longer ones of their peers are lost: raise the MTU \
             again, or set `mtu` at the peers"
        } else {
            ""
        };
        texts.push(format!("{name}: the node's MTU is now {is} bytes, it was {was}{static_ones}"));
    }
    match (before.carrier, after.carrier) {
        (true, false) => texts.push(format!("{name} is down or has no carrier: no packet leaves or arrives")),
        (false, true) => texts.push(format!("{name} is up again")),
        _ => {}
    }
    match (has_own(before), has_own(after)) {
        (true, false) => texts.push(format!(
            "{name} does not have the node's address {} any more: the kernel does not answer for it; add it again with `ip \
             address add`",
            after.address
        )),
        (false, true) => texts.push(format!("{name} has the node's address {} again", after.address)),
        _ => {}
    }
    texts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::interface::netlink::tests::interface;
    use tiercel::LARGEST_MTU;

    fn own() -> Vec<OwnAddress> {
        vec![OwnAddress { address: Device::for_tests().address, state: AddressState::Usable }]
    }

    fn after(change: impl FnOnce(&mut Interface)) -> (Device, Vec<String>) {
        let mut interface = interface();
        change(&mut interface);
        let after = changed(&Device::for_tests(), &interface, &own(), None).expect("it goes on");
        let texts = differences(&Device::for_tests(), &after);
        (after, texts)
    }

    #[test]
    fn what_can_be_followed_is_followed_and_told() {
        let (same, texts) = after(|_| ());
        assert_eq!((same, texts.len()), (Device::for_tests(), 0));
        let (narrow, texts) = after(|interface| interface.mtu = 1400);
        assert_eq!((narrow.mtu, narrow.max_segment), (1400, max_segment(1400, false, 0)));
        assert!(texts.len() == 1 && texts[0].contains("is now 1400 bytes, it was 3390; static"), "{texts:?}");
        let (named, texts) = after(|interface| interface.name = "eth7".into());
        assert_eq!((named.interface.as_str(), texts.len()), ("eth7", 1));
        for change in [|i: &mut Interface| i.up = false, |i: &mut Interface| i.carrier = false] {
            let (down, texts) = after(change);
            assert!(!down.carrier && texts[0].contains("down or has no carrier"), "{texts:?}");
            assert_eq!(differences(&down, &Device::for_tests()), ["interface veth0 is up again"]);
        }
    }

    /// The node uses at most the MTU of the options and what the engine's frames carry, whatever the interface carries.
    #[test]
    fn the_mtu_of_the_options_and_of_the_frames_bound_that_of_the_interface() {
        for (chosen, carried, used) in [
            (Some(1500), 3000, 1500),
            (Some(1500), 1400, 1400),
            (None, 3000, 3000),
            (None, LARGEST_MTU + 1, LARGEST_MTU),
            (None, 9000, LARGEST_MTU),
            (Some(1500), 9000, 1500),
        ] {
            let interface = Interface { mtu: carried, ..interface() };
            let after = changed(&Device::for_tests(), &interface, &own(), chosen).expect("it goes on");
            assert_eq!((after.mtu, after.interface_mtu), (used, carried));
        }
    }

    #[test]
    fn an_address_that_is_gone_or_a_duplicate_is_told() {
        let duplicate = OwnAddress { state: AddressState::Duplicate, ..own()[0] };
        for addresses in [vec![], vec![duplicate]] {
            let after = changed(&Device::for_tests(), &interface(), &addresses, None).expect("it goes on");
            let texts = differences(&Device::for_tests(), &after);
            assert!(
                texts.len() == 1 && texts[0].contains("the node's address 10.7.0.1 any more"),
                "{texts:?}"
            );
            assert_eq!(differences(&after, &Device::for_tests()).len(), 1);
        }
    }

    #[test]
    fn another_mac_address_ends_the_node() {
        for mac in [Some([2, 0, 0, 0, 0, 9]), None] {
            let lost = changed(&Device::for_tests(), &Interface { mac, ..interface() }, &own(), None);
            let text = lost.expect_err("it cannot go on").to_string();
            assert!(text.contains("MAC address of \"veth0\" has changed from 02:00:00:00:00:01"), "{text}");
        }
    }
}

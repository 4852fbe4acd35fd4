//! Requests to the families of generic netlink.

use std::fmt::Debug;
use std::io;

use netlink_packet_core::{Emitable, NetlinkDeserializable, NetlinkSerializable, ParseableParametrized};
use netlink_packet_generic::ctrl::nlas::{GenlCtrlAttrs, McastGrpAttrs};
use netlink_packet_generic::ctrl::{GenlCtrl, GenlCtrlCmd};
use netlink_packet_generic::{GenlFamily, GenlHeader, GenlMessage};

use super::Requests;

/// The numbers that the kernel gave a family and its multicast groups.
#[derive(Debug)]
pub(crate) struct Family {
    pub(crate) id: u16,
    groups: Vec<(String, u32)>,
}

impl Family {
    /// Asks for the family with this name.
    pub(crate) fn find(requests: &Requests, name: &str) -> io::Result<Self> {
        let nlas = vec![GenlCtrlAttrs::FamilyName(name.to_owned())];
        let question = GenlMessage::from_payload(GenlCtrl { cmd: GenlCtrlCmd::GetFamily, nlas });
        let answer: GenlCtrl = ask(requests, question)?;
        let (mut id, mut groups) = (None, Vec::new());
        for attribute in answer.nlas {
            match attribute {
                GenlCtrlAttrs::FamilyId(number) => id = Some(number),
                GenlCtrlAttrs::McastGroups(list) => groups.extend(list.iter().filter_map(|one| group(one))),
                _ => {}
            }
        }
        let id = id.ok_or(io::ErrorKind::NotFound)?;
        Ok(Self { id, groups })
    }

    /// Returns the number of a multicast group.
    pub(crate) fn group(&self, name: &str) -> Option<u32> {
        self.groups.iter().find(|(own, _)| own == name).map(|(_, number)| *number)
    }
}

/// Returns the name and the number of a multicast group.
fn group(attributes: &[McastGrpAttrs]) -> Option<(String, u32)> {
    let (mut name, mut number) = (None, None);
    for attribute in attributes {
        match attribute {
            McastGrpAttrs::Name(text) => name = Some(text.clone()),
            McastGrpAttrs::Id(id) => number = Some(*id),
        }
    }
    name.zip(number)
}

/// Sends one request and returns the answer.
pub(crate) fn ask<F>(requests: &Requests, question: GenlMessage<F>) -> io::Result<F>
where
    F: GenlFamily + Emitable + ParseableParametrized<[u8], GenlHeader> + Debug,
    GenlMessage<F>: NetlinkSerializable + NetlinkDeserializable,
{
    let answer = requests.ask(question)?.into_iter().next();
    answer.map(|answer| answer.payload).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

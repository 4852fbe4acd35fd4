//! Keys, rights, domains and bounds, against an oracle that looks at every byte.

extern crate std;

use std::vec::Vec;

use super::*;
use proptest::prelude::*;

/// Bytes of the node's memory in the properties: few, so that the oracle can try each.
const MEMORY: u64 = 4 * PAGE_BYTES;

const REGION: Region = Region {
    offset: 4096,
    length: 100,
    key: 7,
    access: AccessFlags::REMOTE_READ.union(AccessFlags::REMOTE_WRITE),
    domain: ProtectionDomain(1),
    reserved: 0,
};

const DOMAIN: Domain = Domain { first_page: 1, pages: 2, id: ProtectionDomain(1) };

fn read(key: u32, at: u64, length: u32) -> Result<u64, Denied> {
    DOMAIN.resolve(RKey(key), &REGION, at, length, RemoteRight::Read).map(Resolved::offset)
}

/// The key counts first, then the domain, the right, and the bounds.
#[test]
fn a_region_is_reached_only_with_its_key_its_domain_a_right_and_inside_it() {
    assert_eq!(read(7, 0, 100), Ok(4096));
    assert_eq!(read(7, 100, 0), Ok(4196));
    assert_eq!(read(7, 1, 100), Err(Denied::Bounds));
    assert_eq!(read(7, u64::MAX, 2), Err(Denied::Bounds));
    assert_eq!(read(8, 1, 100), Err(Denied::Key));
    assert_eq!(read(0, 0, 0), Err(Denied::Key));
    let atomic = |domain: Domain| domain.resolve(RKey(7), &REGION, 1, 100, RemoteRight::Atomic);
    assert_eq!(atomic(DOMAIN), Err(Denied::Right));
    assert_eq!(atomic(Domain { id: ProtectionDomain(2), ..DOMAIN }), Err(Denied::Domain));
    let free = DOMAIN.resolve(RKey(0), &Region::default(), 0, 0, RemoteRight::Read);
    assert_eq!(free, Err(Denied::Key), "0 marks a free entry");
}

/// An application may read what is registered in its domain. To write there, the region must say so: what a peer may do is
/// another question.
#[test]
fn a_local_key_has_rights_of_its_own() {
    let ask = |access, right| {
        DOMAIN.resolve(LKey(7), &Region { access, ..REGION }, 0, 8, right).map(Resolved::offset)
    };
    for access in [AccessFlags::empty(), AccessFlags::REMOTE_WRITE] {
        assert_eq!(ask(access, LocalRight::Read), Ok(4096));
        assert_eq!(ask(access, LocalRight::Write), Err(Denied::Right));
    }
    assert_eq!(ask(AccessFlags::LOCAL_WRITE, LocalRight::Write), Ok(4096));
}

#[test]
fn a_domain_has_whole_pages() {
    let place = |offset, bytes| {
        let domain = Domain::new(ProtectionDomain(3), offset, bytes);
        (domain.first_page, domain.pages)
    };
    assert_eq!(place(4096, 8192), (1, 2));
    assert_eq!(place(1, 8192), (1, 1));
    assert_eq!(place(4095, 4096), (1, 0));
    assert_eq!(place(8192, 0), (2, 0));
    assert_eq!(Domain::of_node(MEMORY), Domain { first_page: 0, pages: 4, id: ProtectionDomain::NODE });
    assert!(!Domain::default().holds(0, 1) && !Domain::default().holds(u64::MAX, 1));
}

#[test]
fn a_region_beyond_the_memory_is_no_region() {
    assert_eq!(REGION.within(4196), REGION);
    assert_eq!(REGION.within(4195), Region::default());
    for (offset, length) in [(u64::MAX, 1), (1, u64::MAX), (u64::MAX - 10, u64::MAX), (8192, 1)] {
        let region = Region { offset, length, ..REGION };
        assert_eq!(region.within(8192), Region::default(), "{offset} {length}");
    }
}

/// Returns the bytes of the node's memory that a key gives, each with the address that it has under this key.
fn bytes_of(domain: &Domain, key: u32, own: bool, region: &Region, right: AccessFlags) -> Vec<(u64, u64)> {
    if own && key == 0 {
        let begin = u64::from(domain.first_page) * PAGE_BYTES;
        let end = begin + u64::from(domain.pages) * PAGE_BYTES;
        return (begin..end).map(|at| (at, at)).collect();
    }
    let lacks =
        (0..32).map(|bit| 1 << bit).any(|bit| right.bits() & bit != 0 && region.access.bits() & bit == 0);
    if key == 0 || key != region.key || lacks || region.domain != domain.id {
        return Vec::new();
    }
    (0..region.length).map(|at| (at, region.offset + at)).collect()
}

fn addresses() -> impl Strategy<Value = u64> {
    let near = |at: u64| at.saturating_sub(3)..at + 3;
    prop_oneof![
        0..MEMORY + PAGE_BYTES,
        near(0),
        near(PAGE_BYTES),
        near(MEMORY),
        u64::MAX - 5..=u64::MAX,
        any::<u64>()
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Every byte of a place that was found may be used, and is the byte that was asked for. A place that was denied has a
    /// byte that may not be used.
    #[test]
    fn what_is_found_is_what_may_be_used(
        (first_page, pages, id) in (0u32..5, 0u32..3, 1u32..3),
        (offset, length) in (0u64..MEMORY, 0u64..200),
        (key, asked, access, owner) in (1u32..3, 0u32..3, 0u32..16, 1u32..3),
        (at, bytes) in (prop_oneof![addresses(), 0u64..220], prop_oneof![0u32..220, 0u32..9000, any::<u32>()]),
        right in 0usize..5,
    ) {
        let domain = Domain { first_page, pages, id: ProtectionDomain(id) };
        let length = length.min(MEMORY - offset);
        let access = AccessFlags::from_bits_retain(access);
        let region = Region { offset, length, key, access, domain: ProtectionDomain(owner), reserved: 0 };
        prop_assert_eq!(region.within(MEMORY), region);
        let local = [LocalRight::Read, LocalRight::Write];
        let remote = [RemoteRight::Read, RemoteRight::Write, RemoteRight::Atomic];
        let (own, flags, found): (bool, AccessFlags, _) = match local.get(right) {
            Some(&right) => (true, right.into(), domain.resolve(LKey(asked), &region, at, bytes, right)),
            None => {
                let right = remote[right - 2];
                (false, right.into(), domain.resolve(RKey(asked), &region, at, bytes, right))
            }
        };
        let usable = bytes_of(&domain, asked, own, &region, flags);
        let byte = |at: u64| usable.binary_search_by_key(&at, |(address, _)| *address).ok().map(|n| usable[n].1);
        match found {
            Ok(place) => {
                for n in 0..u64::from(bytes) {
                    prop_assert_eq!(byte(at + n), Some(place.offset() + n));
                }
            }
            // An empty place at the end of something that may be used is no error.
            Err(_) if bytes == 0 => prop_assert!(byte(at).is_none()),
            Err(_) => {
                let first_missing = (0..u64::from(bytes)).take(MEMORY as usize + 9).find(|n| {
                    at.checked_add(*n).and_then(byte).is_none()
                });
                prop_assert!(first_missing.is_some());
            }
        }
    }
}

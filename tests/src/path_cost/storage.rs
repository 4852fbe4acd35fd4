//! The maps of the programs in this process's memory, as the interpreter sees them.

use std::collections::{BTreeMap, HashMap, HashSet};

use anyhow::{Context, Result, ensure};
use aya_obj::Object;
use aya_obj::generated::{bpf_insn, bpf_map_type};
use bytemuck::Zeroable;
use transport_common::queues::NodeConfig;

/// A handle of map `n` is this plus `n`: no pointer of a process on x86-64.
pub(super) const HANDLE: u64 = 0x4d41_5000_0000_0000;

/// A page: the largest alignment that a value of a map has.
#[repr(C, align(4096))]
#[derive(Clone, Copy, Zeroable)]
struct Page([u64; 512]);

/// One map.
pub(super) struct Storage {
    pages: Vec<Page>,
    /// Distance of two values, bytes.
    stride: usize,
    values: u32,
    /// What was pushed, if it is a stack.
    pub(super) pushed: Vec<u32>,
}

impl Storage {
    /// Returns the address of a value, or 0 if it is not there.
    pub(super) fn value(&mut self, index: u32) -> u64 {
        if index >= self.values {
            return 0;
        }
        self.pages.as_mut_ptr() as u64 + u64::from(index) * self.stride as u64
    }
}

/// The programs, with handles of their maps in place, and the maps.
pub(super) struct Loaded {
    pub(super) maps: Vec<Storage>,
    /// Number of each map.
    pub(super) numbers: BTreeMap<String, usize>,
    pub(super) programs: Vec<Vec<bpf_insn>>,
}

/// Loads programs of an object for a node with `config`.
pub(super) fn load(object: &[u8], config: &NodeConfig, programs: &[&str]) -> Result<Loaded> {
    let mut object = Object::parse(object)?;
    object.patch_map_data(HashMap::from([("NODE_CONFIG", (bytemuck::bytes_of(config), true))]))?;
    let definitions = std::mem::take(&mut object.maps);
    let mut maps = Vec::new();
    let mut numbers = BTreeMap::new();
    for (name, map) in &definitions {
        let single = [bpf_map_type::BPF_MAP_TYPE_RINGBUF, bpf_map_type::BPF_MAP_TYPE_PROG_ARRAY]
            .iter()
            .any(|kind| map.map_type() == *kind as u32);
        let values = if single { 1 } else { map.max_entries() };
        let stride = (map.value_size() as usize).next_multiple_of(8);
        let bytes = (stride * values as usize).max(map.data().len());
        let mut pages: Vec<Page> = bytemuck::zeroed_vec(bytes.div_ceil(size_of::<Page>()).max(1));
        // SAFETY: the pages are at least as long as the data, and nothing else refers to them.
        unsafe { pages.as_mut_ptr().cast::<u8>().copy_from(map.data().as_ptr(), map.data().len()) };
        numbers.insert(name.clone(), maps.len());
        maps.push(Storage { pages, stride, values, pushed: Vec::new() });
    }
    let sections: HashSet<usize> = object.functions.keys().map(|(section, _)| *section).collect();
    let places: Vec<_> =
        definitions.iter().map(|(name, map)| (name.as_str(), numbers[name] as i32, map)).collect();
    object.relocate_maps(places.into_iter(), &sections)?;
    object.relocate_calls(&sections)?;
    let programs = programs.iter().map(|name| {
        let key = object.programs.get(*name).with_context(|| format!("no program {name}"))?.function_key();
        let function = object.functions.get(&key).with_context(|| format!("{name} has no instructions"))?;
        ensure!(!function.instructions.is_empty(), "{name} is empty");
        Ok(function.instructions.clone())
    });
    Ok(Loaded { programs: programs.collect::<Result<_>>()?, maps, numbers })
}

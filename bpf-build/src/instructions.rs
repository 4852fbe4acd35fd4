//! Determines which kernel the instructions of an object need.

use std::collections::BTreeSet;

use object::{Object, ObjectSection, SectionKind};

/// The oldest kernel that loads the programs, as major and minor version. It is the first with `may_goto`, which
/// bounds every loop of the programs.
pub const OLDEST_KERNEL: (u8, u8) = (6, 9);

/// Bytes of an instruction. The instruction that loads 64 bits takes two of them.
const BYTES: usize = 8;
const LOAD_64: u8 = 0x18;

/// An instruction of the object that [`OLDEST_KERNEL`] does not know.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TooNew {
    /// The section of the program that contains it.
    pub section: String,
    /// What the instruction does, with the first kernel that knows it.
    pub what: &'static str,
}

/// Returns all instructions of `file` that are newer than [`OLDEST_KERNEL`], each once per section.
pub(crate) fn too_new(file: &object::File<'_>) -> Result<Vec<TooNew>, object::Error> {
    let mut found = BTreeSet::new();
    for section in file.sections().filter(|section| section.kind() == SectionKind::Text) {
        let data = section.data()?;
        let mut rest = data;
        while let Some((instruction, behind)) = rest.split_first_chunk::<BYTES>() {
            let wide = instruction[0] == LOAD_64;
            rest = if wide { behind.get(BYTES..).unwrap_or_default() } else { behind };
            if let Some((what, since)) = since(*instruction)
                && since > OLDEST_KERNEL
            {
                found.insert(TooNew { section: section.name()?.to_owned(), what });
            }
        }
    }
    Ok(found.into_iter().collect())
}

/// Returns what an instruction does and the first kernel that knows it, if it is newer than Linux 5.12.
fn since([code, _, off0, off1, immediate @ ..]: [u8; BYTES]) -> Option<(&'static str, (u8, u8))> {
    /// Class STX with mode ATOMIC, without the size bits.
    const ATOMIC: u8 = 0xc3;
    const SIZE: u8 = 0x18;
    /// Class LDX with mode MEMSX, without the size bits.
    const LOAD_SIGNED: u8 = 0x81;
    let offset = i16::from_le_bytes([off0, off1]);
    let immediate = u32::from_le_bytes(immediate);
    match code {
        _ if code & !SIZE == ATOMIC => match immediate {
            0x00 | 0x40 | 0x50 | 0xa0 | 0x01 | 0x41 | 0x51 | 0xa1 | 0xe1 | 0xf1 => None,
            0x100 => Some(("load_acquire, of Linux 6.15", (6, 15))),
            0x110 => Some(("store_release, of Linux 6.15", (6, 15))),
            _ => Some(("an atomic operation that no kernel known to this check has", (u8::MAX, 0))),
        },
        _ if code & !SIZE == LOAD_SIGNED => Some(("a load with sign extension, of Linux 6.6", (6, 6))),
        0xe5 => Some(("may_goto, of Linux 6.9", (6, 9))),
        0x06 => Some(("a jump of 32 bits, of Linux 6.6", (6, 6))),
        0x0d => Some(("an indirect jump, of Linux 6.19", (6, 19))),
        0xd7 => Some(("an unconditional byte swap, of Linux 6.6", (6, 6))),
        // DIV and MOD by immediate and by register.
        0x37 | 0x3f | 0x34 | 0x3c | 0x97 | 0x9f | 0x94 | 0x9c if offset != 0 => {
            Some(("a signed division, of Linux 6.6", (6, 6)))
        }
        0xbf if offset == 1 => Some(("addr_space_cast, of Linux 6.9", (6, 9))),
        0xbf | 0xbc if offset != 0 => Some(("a move with sign extension, of Linux 6.6", (6, 6))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use object::{Architecture, BinaryFormat, Endianness, write};

    use super::*;

    /// Returns an object with these instructions in the section `xdp`.
    fn object(instructions: &[[u8; BYTES]]) -> Vec<u8> {
        let mut object = write::Object::new(BinaryFormat::Elf, Architecture::Bpf, Endianness::Little);
        let text = object.add_section(vec![], b"xdp".to_vec(), SectionKind::Text);
        object.append_section_data(text, instructions.as_flattened(), 8);
        object.write().expect("an object")
    }

    fn found(instructions: &[[u8; BYTES]]) -> Vec<&'static str> {
        let object = object(instructions);
        let file = object::File::parse(&*object).expect("an object");
        too_new(&file).expect("readable").into_iter().map(|one| one.what).collect()
    }

    /// r0 = *(u64 *)(r1 + 0), as an acquire load.
    const LOAD_ACQUIRE: [u8; BYTES] = [0xdb, 0x10, 0, 0, 0x00, 1, 0, 0];
    const STORE_RELEASE: [u8; BYTES] = [0xdb, 0x10, 0, 0, 0x10, 1, 0, 0];
    /// lock *(u64 *)(r1 + 0) += r0
    const ADD: [u8; BYTES] = [0xdb, 0x01, 0, 0, 0, 0, 0, 0];
    const MAY_GOTO: [u8; BYTES] = [0xe5, 0, 1, 0, 0, 0, 0, 0];
    const EXIT: [u8; BYTES] = [0x95, 0, 0, 0, 0, 0, 0, 0];

    #[test]
    fn what_the_oldest_kernel_has_passes() {
        let signed_load = [0x91, 0x10, 0, 0, 0, 0, 0, 0];
        assert_eq!(found(&[ADD, MAY_GOTO, signed_load, EXIT]), [""; 0]);
    }

    #[test]
    fn what_it_does_not_have_is_named_once() {
        assert_eq!(
            found(&[LOAD_ACQUIRE, STORE_RELEASE, LOAD_ACQUIRE, EXIT]),
            ["load_acquire, of Linux 6.15", "store_release, of Linux 6.15"]
        );
        assert_eq!(found(&[[0x0d, 0, 0, 0, 0, 0, 0, 0]]), ["an indirect jump, of Linux 6.19"]);
        let unknown = [0xdb, 0x10, 0, 0, 0x20, 1, 0, 0];
        assert_eq!(found(&[unknown]).len(), 1);
    }

    /// The second half of a 64-bit load is data, not an instruction.
    #[test]
    fn the_second_half_of_a_wide_load_is_no_instruction() {
        let wide = [LOAD_64, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(found(&[wide, LOAD_ACQUIRE, EXIT]), [""; 0]);
        assert_eq!(found(&[wide]), [""; 0]);
    }
}

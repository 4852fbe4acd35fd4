//! Removing what no loader reads from an object.

use object::build::elf::{Builder, SectionData};
use object::elf::SHT_STRTAB;

use crate::BuildError;

/// Returns the object without DWARF. DWARF is three quarters of the object's bytes, and it names directories of the build
/// machine. BTF stays, because the kernel reads it.
///
/// # Errors
/// If the object is not an ELF file.
pub(crate) fn without_dwarf(object: &[u8]) -> Result<Vec<u8>, BuildError> {
    let mut builder = Builder::read(object)?;
    for section in builder.sections.iter_mut() {
        let name = section.name.as_slice();
        let name = name.strip_prefix(b".rel").unwrap_or(name);
        section.delete = name.starts_with(b".debug_");
    }
    builder.delete_orphans();
    // LLVM keeps section names in the string table of the symbols. The writer needs a table of their own.
    if !builder.sections.iter().any(|section| matches!(section.data, SectionData::SectionString)) {
        let names = builder.sections.add();
        names.name = ".shstrtab".into();
        names.sh_type = SHT_STRTAB;
        names.data = SectionData::SectionString;
    }
    let mut stripped = vec![];
    builder.write(&mut stripped)?;
    Ok(stripped)
}

#[cfg(test)]
mod tests {
    use object::{
        Architecture, BinaryFormat, Endianness, Object, ObjectSection, ObjectSymbol, RelocationFlags,
        SectionKind, SymbolFlags, SymbolKind, SymbolScope, elf, write,
    };

    use super::*;

    /// Returns an object with a function, and with DWARF and BTF about it.
    fn object() -> Vec<u8> {
        let mut object = write::Object::new(BinaryFormat::Elf, Architecture::Bpf, Endianness::Little);
        let text = object.add_section(vec![], b"xdp".to_vec(), SectionKind::Text);
        object.append_section_data(text, &[7; 16], 8);
        let function = object.add_symbol(write::Symbol {
            name: b"wire".to_vec(),
            value: 0,
            size: 16,
            kind: SymbolKind::Text,
            scope: SymbolScope::Linkage,
            weak: false,
            section: write::SymbolSection::Section(text),
            flags: SymbolFlags::None,
        });
        for name in [".debug_info", ".BTF.ext"] {
            let section = object.add_section(vec![], name.as_bytes().to_vec(), SectionKind::Other);
            object.append_section_data(section, name.as_bytes(), 1);
            let flags = RelocationFlags::Elf { r_type: elf::R_BPF_64_32 };
            let relocation = write::Relocation { offset: 0, symbol: function, addend: 0, flags };
            object.add_relocation(section, relocation).unwrap();
        }
        object.write().unwrap()
    }

    #[test]
    fn dwarf_goes_and_the_rest_stays() {
        let before = object();
        let has = |object: &[u8], name: &str| {
            object::File::parse(object).unwrap().sections().any(|section| section.name() == Ok(name))
        };
        assert!(has(&before, ".debug_info") && has(&before, ".rel.debug_info"));
        let after = without_dwarf(&before).unwrap();
        assert!(!has(&after, ".debug_info") && !has(&after, ".rel.debug_info"));
        assert!(has(&after, ".BTF.ext") && has(&after, ".rel.BTF.ext"));
        let file = object::File::parse(after.as_slice()).unwrap();
        assert_eq!(file.section_by_name("xdp").unwrap().data().unwrap(), [7; 16]);
        let function = file.symbols().find(|symbol| symbol.name() == Ok("wire")).unwrap();
        assert_eq!((function.address(), function.size()), (0, 16));
    }

    #[test]
    fn refuses_what_is_no_object() {
        assert!(matches!(without_dwarf(b"not an object"), Err(BuildError::Strip(_))));
    }
}

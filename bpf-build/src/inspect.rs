//! Checks an object right after the build for mistakes that the verifier or the loader would refuse.

use object::{Object, ObjectSymbol};

use crate::{BuildError, instructions};

/// Sections without which the programs do not load: BTF maps and spin locks need both kinds of BTF.
const SECTIONS: [&str; 3] = [".BTF", ".BTF.ext", "license"];

/// Parts of symbol names that only panicking code has: the functions of `core::panicking`, and the panic handler
/// itself if those were inlined.
const PANIC_MARKS: [&str; 2] = ["panicking", "rust_begin_unwind"];

/// Checks that the object has BTF and a licence, and that it has no panicking code.
///
/// # Errors
/// The mistake in the object.
pub(crate) fn check(object: &[u8]) -> Result<(), BuildError> {
    let file = object::File::parse(object)?;
    for section in SECTIONS {
        if file.section_by_name(section).is_none() {
            return Err(BuildError::MissingSection(section));
        }
    }
    let panics: Vec<String> = file
        .symbols()
        .filter_map(|symbol| symbol.name().ok())
        .filter(|name| PANIC_MARKS.iter().any(|mark| name.contains(mark)))
        .map(str::to_owned)
        .collect();
    if !panics.is_empty() {
        return Err(BuildError::Panics(panics));
    }
    let too_new = instructions::too_new(&file)?;
    if too_new.is_empty() { Ok(()) } else { Err(BuildError::TooNew(too_new)) }
}

#[cfg(test)]
mod tests {
    use object::{
        Architecture, BinaryFormat, Endianness, SectionKind, SymbolFlags, SymbolKind, SymbolScope, write,
    };

    use super::*;

    fn object(sections: &[&str], function: &str) -> Vec<u8> {
        let mut object = write::Object::new(BinaryFormat::Elf, Architecture::Bpf, Endianness::Little);
        for section in sections {
            object.add_section(vec![], section.as_bytes().to_vec(), SectionKind::Data);
        }
        let text = object.add_section(vec![], b"xdp".to_vec(), SectionKind::Text);
        object.add_symbol(write::Symbol {
            name: function.as_bytes().to_vec(),
            value: 0,
            size: 0,
            kind: SymbolKind::Text,
            scope: SymbolScope::Compilation,
            weak: false,
            section: write::SymbolSection::Section(text),
            flags: SymbolFlags::None,
        });
        object.write().unwrap()
    }

    #[test]
    fn accepts_an_object_without_panics() {
        check(&object(&SECTIONS, "wire")).unwrap();
    }

    #[test]
    fn names_the_panicking_function() {
        let name = "_ZN4core9panicking18panic_bounds_check17hE";
        let error = check(&object(&SECTIONS, name)).unwrap_err();
        assert!(matches!(&error, BuildError::Panics(names) if names == &[name]), "{error}");
        let inlined = check(&object(&SECTIONS, "_RNvCs1_7___rustc17rust_begin_unwind")).unwrap_err();
        assert!(matches!(inlined, BuildError::Panics(_)), "{inlined}");
    }

    #[test]
    fn names_the_missing_section() {
        let error = check(&object(&[".BTF", "license"], "wire")).unwrap_err();
        assert!(matches!(error, BuildError::MissingSection(".BTF.ext")), "{error}");
    }

    #[test]
    fn refuses_what_is_no_object() {
        assert!(matches!(check(b"not an object"), Err(BuildError::Object(_))));
    }
}

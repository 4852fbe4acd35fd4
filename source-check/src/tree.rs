//! Reads the modules of a crate and their items from its files.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use syn::{Attribute, Expr, Item, ItemMod, Lit, Meta, Token, punctuated::Punctuated};

/// Why a crate's sources could not be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file of the crate cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A file is not Rust.
    #[error("{}:{}: {source}", path.display(), source.span().start().line)]
    Syntax {
        /// The file.
        path: PathBuf,
        /// The error of the parser.
        source: syn::Error,
    },
    /// A module has no file.
    #[error("{} declares module {name}, but neither {name}.rs nor {name}/mod.rs is in {}", declared_in.display(), directory.display())]
    NoFile {
        /// The module.
        name: String,
        /// The file with the `mod`.
        declared_in: PathBuf,
        /// The directory in which its file should be.
        directory: PathBuf,
    },
}

/// One module, in its own file or inside the file of another module.
pub(crate) struct Module {
    /// Name, such as `a::b`. The root is `crate`.
    pub(crate) name: String,
    pub(crate) parent: Option<usize>,
    pub(crate) children: BTreeMap<String, usize>,
    pub(crate) file: PathBuf,
    /// The items, without those that are compiled for tests only.
    pub(crate) items: Vec<Item>,
}

/// All modules of a crate. The root is the first one.
pub(crate) struct Tree {
    pub(crate) modules: Vec<Module>,
}

impl Tree {
    pub(crate) fn read(root: &Path) -> Result<Self, Error> {
        let mut tree = Self { modules: Vec::new() };
        let directory = root.parent().unwrap_or(Path::new(""));
        tree.file("crate".into(), None, root, directory)?;
        Ok(tree)
    }

    /// Reads the file of a module. `directory` contains the files of its children.
    fn file(
        &mut self,
        name: String,
        parent: Option<usize>,
        path: &Path,
        directory: &Path,
    ) -> Result<usize, Error> {
        let text = fs::read_to_string(path).map_err(|source| Error::File { path: path.into(), source })?;
        let parsed = syn::parse_file(&text).map_err(|source| Error::Syntax { path: path.into(), source })?;
        self.module(name, parent, path, directory, parsed.items)
    }

    fn module(
        &mut self,
        name: String,
        parent: Option<usize>,
        file: &Path,
        directory: &Path,
        items: Vec<Item>,
    ) -> Result<usize, Error> {
        let index = self.modules.len();
        self.modules.push(Module {
            name,
            parent,
            children: BTreeMap::new(),
            file: file.into(),
            items: Vec::new(),
        });
        let (declared, items): (Vec<_>, Vec<_>) = items
            .into_iter()
            .filter(|item| !for_tests(attributes(item)))
            .partition(|item| matches!(item, Item::Mod(_)));
        for item in declared {
            if let Item::Mod(declared) = item {
                let child = self.child(index, file, directory, declared)?;
                self.modules[index].children.insert(child.0, child.1);
            }
        }
        self.modules[index].items = items;
        Ok(index)
    }

    fn child(
        &mut self,
        parent: usize,
        file: &Path,
        directory: &Path,
        declared: ItemMod,
    ) -> Result<(String, usize), Error> {
        let name = plain(&declared.ident);
        let full = match self.modules[parent].name.as_str() {
            "crate" => name.clone(),
            above => format!("{above}::{name}"),
        };
        let own = directory.join(&name);
        let index = match (declared.content, path_attribute(&declared.attrs)) {
            (Some((_, items)), _) => self.module(full, Some(parent), file, &own, items)?,
            (None, Some(given)) => {
                let path = file.parent().unwrap_or(Path::new("")).join(given);
                let beside = path.parent().unwrap_or(Path::new("")).to_path_buf();
                self.file(full, Some(parent), &path, &beside)?
            }
            (None, None) => {
                let candidates = [directory.join(format!("{name}.rs")), own.join("mod.rs")];
                let Some(path) = candidates.iter().find(|path| path.exists()) else {
                    return Err(Error::NoFile {
                        name,
                        declared_in: file.into(),
                        directory: directory.into(),
                    });
                };
                self.file(full, Some(parent), path, &own)?
            }
        };
        Ok((name, index))
    }
}

/// Returns a name without the prefix `r#`.
pub(crate) fn plain(ident: &proc_macro2::Ident) -> String {
    let name = ident.to_string();
    name.strip_prefix("r#").map_or(name.clone(), str::to_owned)
}

/// Returns whether code with these attributes is compiled for tests only.
pub(crate) fn for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("test")
            || (attribute.path().is_ident("cfg")
                && attribute.parse_args::<Meta>().is_ok_and(|condition| needs_test(&condition)))
    })
}

fn needs_test(condition: &Meta) -> bool {
    match condition {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) if list.path.is_ident("all") => list
            .parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated)
            .is_ok_and(|conditions| conditions.iter().any(needs_test)),
        _ => false,
    }
}

fn path_attribute(attributes: &[Attribute]) -> Option<String> {
    attributes.iter().find_map(|attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
            Expr::Lit(literal) => match &literal.lit {
                Lit::Str(text) => Some(text.value()),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    })
}

pub(crate) fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::TraitAlias(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

//! Resolves names in a module: to a child module, to an item of the module, or to an import.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
};

use syn::{Item, UseTree};

use crate::tree::{Tree, plain};

/// One name that a `use` imports.
pub(crate) struct Used {
    /// The whole path, as segments.
    pub(crate) path: Vec<String>,
    /// Its name in this module. `None` for a glob.
    pub(crate) name: Option<String>,
    pub(crate) line: usize,
}

/// The target of a path.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    /// The module with this index.
    Module(usize),
    /// An item of the module with this index.
    Item(usize),
}

enum Name {
    Module(usize),
    Item(usize),
    Use(Vec<String>),
}

#[derive(Default)]
struct Scope {
    /// The meanings of each name. A name can mean a type and a function at the same time.
    names: BTreeMap<String, Vec<Name>>,
    globs: Vec<Vec<String>>,
}

/// The names of every module of a crate.
pub(crate) struct Names {
    scopes: Vec<Scope>,
    parents: Vec<Option<usize>>,
    /// Current searches, because imports can form circles.
    searching: RefCell<BTreeSet<(usize, String)>>,
}

impl Names {
    pub(crate) fn of(tree: &Tree) -> Self {
        let mut scopes: Vec<Scope> = tree.modules.iter().map(|_| Scope::default()).collect();
        for (index, module) in tree.modules.iter().enumerate() {
            for (name, child) in &module.children {
                scopes[index].add(name.clone(), Name::Module(*child));
            }
            for item in &module.items {
                if let Item::Use(declaration) = item {
                    for used in leaves(&declaration.tree) {
                        match used.name {
                            Some(name) => scopes[index].add(name, Name::Use(used.path)),
                            None => scopes[index].globs.push(used.path),
                        }
                    }
                } else if let Some((name, exported)) = defined(item) {
                    // The path of an exported macro is in the root of the crate.
                    scopes[if exported { 0 } else { index }].add(name, Name::Item(index));
                }
            }
        }
        let parents = tree.modules.iter().map(|module| module.parent).collect();
        Self { scopes, parents, searching: RefCell::default() }
    }

    /// Returns the target of `path` in `module`. Returns `None` for items of other crates and for local names.
    pub(crate) fn resolve(&self, module: usize, path: &[String]) -> Option<Target> {
        let (first, mut rest) = path.split_first()?;
        let mut reached = match first.as_str() {
            "crate" => Target::Module(0),
            "self" => Target::Module(module),
            "super" => Target::Module(self.parents[module]?),
            name => self.look_up(module, name)?,
        };
        while let Target::Module(inside) = reached {
            let Some((next, beyond)) = rest.split_first() else { break };
            reached = match next.as_str() {
                "super" => Target::Module(self.parents[inside]?),
                "self" => reached,
                // A name that a macro made counts as an item of the module.
                name => self.look_up(inside, name).unwrap_or(Target::Item(inside)),
            };
            rest = beyond;
        }
        Some(reached)
    }

    fn look_up(&self, module: usize, name: &str) -> Option<Target> {
        let key = (module, name.to_owned());
        if !self.searching.borrow_mut().insert(key.clone()) {
            return None;
        }
        let found = self.search(module, name);
        self.searching.borrow_mut().remove(&key);
        found
    }

    fn search(&self, module: usize, name: &str) -> Option<Target> {
        let scope = &self.scopes[module];
        let direct = scope.names.get(name).into_iter().flatten().filter_map(|meaning| match meaning {
            Name::Module(child) => Some(Target::Module(*child)),
            Name::Item(definer) => Some(Target::Item(*definer)),
            Name::Use(path) => self.resolve(module, path),
        });
        // A module and a function may have the same name. The module comes first, because a path can go on in it.
        direct.min_by_key(|target| matches!(target, Target::Item(_))).or_else(|| {
            scope.globs.iter().find_map(|path| match self.resolve(module, path)? {
                Target::Module(inside) => self.look_up(inside, name),
                // These are the variants of an enum. Any name could be one, and the import itself is counted.
                Target::Item(_) => None,
            })
        })
    }
}

impl Scope {
    fn add(&mut self, name: String, meaning: Name) {
        self.names.entry(name).or_default().push(meaning);
    }
}

/// Returns the name that an item defines, and whether it is an exported macro.
fn defined(item: &Item) -> Option<(String, bool)> {
    let ident = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::TraitAlias(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        Item::Macro(item) => {
            let exported = item.attrs.iter().any(|attribute| attribute.path().is_ident("macro_export"));
            return item.ident.as_ref().map(|ident| (plain(ident), exported));
        }
        _ => return None,
    };
    Some((plain(ident), false))
}

/// Returns all names that a `use` imports.
pub(crate) fn leaves(tree: &UseTree) -> Vec<Used> {
    let mut found = Vec::new();
    collect(tree, &mut Vec::new(), &mut found);
    found
}

fn collect(tree: &UseTree, above: &mut Vec<String>, found: &mut Vec<Used>) {
    match tree {
        UseTree::Path(path) => {
            above.push(plain(&path.ident));
            collect(&path.tree, above, found);
            above.pop();
        }
        UseTree::Group(group) => group.items.iter().for_each(|tree| collect(tree, above, found)),
        UseTree::Glob(glob) => {
            let line = glob.star_token.spans[0].start().line;
            found.push(Used { path: above.clone(), name: None, line });
        }
        UseTree::Name(name) => {
            let own = plain(&name.ident);
            let called = if own == "self" { above.last().cloned() } else { Some(own.clone()) };
            found.push(leaf(above, own, called, &name.ident));
        }
        UseTree::Rename(rename) => {
            found.push(leaf(above, plain(&rename.ident), Some(plain(&rename.rename)), &rename.ident));
        }
    }
}

fn leaf(above: &[String], own: String, called: Option<String>, at: &proc_macro2::Ident) -> Used {
    let mut path = above.to_vec();
    // `use a::{self}` imports `a`. A single `self` stays.
    if own != "self" || path.is_empty() {
        path.push(own);
    }
    // `use super::Trait as _` has no name, but it is not a glob either. The empty name matches nothing.
    Used { path, name: Some(called.unwrap_or_default()), line: at.span().start().line }
}

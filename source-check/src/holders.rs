//! Which functions can reach a value of some types.

use std::collections::BTreeSet;

use proc_macro2::{TokenStream, TokenTree};
use syn::{
    FnArg, ImplItem, Item, Path, Signature, Type, TypeReference,
    visit::{self, Visit},
};

use crate::tree::{Module, Tree, attributes, for_tests, plain};

/// Returns the functions of `module` and of its children that take a value of one of `types` or a struct that borrows
/// one, or are methods of these. Each is `module::function`, or `module::Type::function`.
pub(crate) fn read(tree: &Tree, module: &str, types: &[&str]) -> Vec<String> {
    let inside = format!("{module}::");
    let modules: Vec<_> =
        tree.modules.iter().filter(|one| one.name == module || one.name.starts_with(&inside)).collect();
    let mut held: BTreeSet<String> = types.iter().map(|&name| name.to_owned()).collect();
    while add_borrowers(&modules, types, &mut held) {}
    modules.iter().flat_map(|module| functions(module, &held)).collect()
}

/// Adds the structs that borrow a value of one of `types`, or have a field that does. Returns whether there was one more.
fn add_borrowers(modules: &[&Module], types: &[&str], held: &mut BTreeSet<String>) -> bool {
    let before = held.len();
    for item in modules.iter().flat_map(|module| &module.items) {
        let Item::Struct(one) = item else { continue };
        // A value that contains one by value is larger than it, such as a table of all: not what a function holds.
        let reaches = |of: &Type| {
            borrows(of, held)
                || names(of).iter().any(|name| held.contains(name) && !types.contains(&name.as_str()))
        };
        if one.fields.iter().any(|field| reaches(&field.ty)) {
            held.insert(plain(&one.ident));
        }
    }
    held.len() > before
}

fn functions(module: &Module, held: &BTreeSet<String>) -> Vec<String> {
    let mut found = Vec::new();
    for item in &module.items {
        match item {
            Item::Fn(function) if takes(&function.sig, held) => {
                found.push(format!("{}::{}", module.name, function.sig.ident));
            }
            Item::Impl(block) => {
                let of = names(&block.self_ty);
                let own = of.iter().any(|name| held.contains(name));
                for item in &block.items {
                    if let ImplItem::Fn(function) = item
                        && !for_tests(&function.attrs)
                        && (takes(&function.sig, held) || own && function.sig.receiver().is_some())
                    {
                        let of = of.first().map_or("", String::as_str);
                        found.push(format!("{}::{of}::{}", module.name, function.sig.ident));
                    }
                }
            }
            Item::Macro(call) if !for_tests(attributes(item)) => {
                let words = words(call.mac.tokens.clone());
                let name = words.iter().skip_while(|word| *word != "fn").nth(1);
                if let Some(name) = name
                    && words.iter().any(|word| held.contains(word))
                {
                    found.push(format!("{}::{name}", module.name));
                }
            }
            _ => {}
        }
    }
    found
}

/// Returns whether an argument names one of `held`.
fn takes(signature: &Signature, held: &BTreeSet<String>) -> bool {
    signature.inputs.iter().any(|input| match input {
        FnArg::Typed(input) => names(&input.ty).iter().any(|name| held.contains(name)),
        FnArg::Receiver(_) => false,
    })
}

/// Returns the last word of each path in a type.
fn names(of: &Type) -> Vec<String> {
    struct Names(Vec<String>);
    impl<'ast> Visit<'ast> for Names {
        fn visit_path(&mut self, path: &'ast Path) {
            self.0.extend(path.segments.last().map(|last| plain(&last.ident)));
            visit::visit_path(self, path);
        }
    }
    let mut names = Names(Vec::new());
    names.visit_type(of);
    names.0
}

/// Returns whether a type has a reference to one of `held` in it.
fn borrows(of: &Type, held: &BTreeSet<String>) -> bool {
    struct Borrows<'a>(&'a BTreeSet<String>, bool);
    impl<'ast> Visit<'ast> for Borrows<'_> {
        fn visit_type_reference(&mut self, reference: &'ast TypeReference) {
            self.1 |= names(&reference.elem).iter().any(|name| self.0.contains(name));
        }
    }
    let mut borrows = Borrows(held, false);
    borrows.visit_type(of);
    borrows.1
}

/// Returns the words in the tokens of a macro.
fn words(tokens: TokenStream) -> Vec<String> {
    tokens
        .into_iter()
        .flat_map(|token| match token {
            TokenTree::Ident(ident) => vec![plain(&ident)],
            TokenTree::Group(group) => words(group.stream()),
            _ => Vec::new(),
        })
        .collect()
}

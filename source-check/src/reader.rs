//! Reads the code of every module and records the module to which each path leads.

use std::collections::BTreeSet;

use proc_macro2::{TokenStream, TokenTree};
use syn::{
    ImplItem, Item, ItemImpl, ItemUse, Macro, Path, Stmt, Type, Visibility,
    visit::{self, Visit},
};

use crate::{
    graph::{Graph, Import, ScatteredImpl},
    names::{Names, Target, leaves},
    tree::{Module, Tree, attributes, for_tests, plain},
};

/// Returns the imports of every module of `tree`.
pub(crate) fn read(tree: &Tree, names: &Names) -> Graph {
    let mut imports = BTreeSet::new();
    let mut scattered = Vec::new();
    for (index, module) in tree.modules.iter().enumerate() {
        let mut reader =
            Reader { tree, names, index, module, imports: &mut imports, scattered: &mut scattered };
        for item in &module.items {
            reader.visit_item(item);
        }
    }
    let modules = tree.modules.iter().map(|module| module.name.clone()).collect();
    Graph::new(modules, imports.into_iter().collect(), scattered)
}

struct Reader<'a> {
    tree: &'a Tree,
    names: &'a Names,
    index: usize,
    module: &'a Module,
    imports: &'a mut BTreeSet<Import>,
    scattered: &'a mut Vec<ScatteredImpl>,
}

impl Reader<'_> {
    fn note(&mut self, path: &[String], line: usize, target: Target) {
        let (Target::Module(to) | Target::Item(to)) = target;
        if to != self.index {
            self.imports.insert(Import {
                from: self.module.name.clone(),
                to: self.tree.modules[to].name.clone(),
                path: path.join("::"),
                file: self.module.file.clone(),
                line,
            });
        }
    }

    fn path(&mut self, path: &[String], line: usize) {
        let target = self.names.resolve(self.index, path);
        // A single word that is also a module's name is a variable, a field or a label.
        if let Some(target) = target
            && !(path.len() == 1 && matches!(target, Target::Module(_)))
        {
            self.note(path, line, target);
        }
    }

    /// Returns whether `module` is below this one.
    fn is_descendant(&self, mut module: usize) -> bool {
        while let Some(above) = self.tree.modules[module].parent {
            if above == self.index {
                return true;
            }
            module = above;
        }
        false
    }

    /// Reads the paths in the tokens of a macro: words joined by `::`.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut words: Vec<String> = Vec::new();
        let (mut line, mut colons, mut after_dot) = (0, 0, false);
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.words(&mut words, line);
                    }
                    if words.is_empty() {
                        line = ident.span().start().line;
                    }
                    // A word after a dot is a field or a method.
                    if !after_dot {
                        words.push(plain(&ident));
                    }
                    (colons, after_dot) = (0, false);
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                TokenTree::Punct(punct) => {
                    self.words(&mut words, line);
                    (colons, after_dot) = (0, punct.as_char() == '.');
                }
                TokenTree::Group(group) => {
                    self.words(&mut words, line);
                    (colons, after_dot) = (0, false);
                    self.tokens(group.stream());
                }
                TokenTree::Literal(_) => {
                    self.words(&mut words, line);
                    (colons, after_dot) = (0, false);
                }
            }
        }
        self.words(&mut words, line);
    }

    fn words(&mut self, words: &mut Vec<String>, line: usize) {
        match &words[..] {
            [] => {}
            // `self.x` and `pub(crate)` lead to no module.
            [one] if is_root(one) => {}
            _ => self.path(words, line),
        }
        words.clear();
    }
}

fn is_root(word: &str) -> bool {
    matches!(word, "crate" | "self" | "super" | "Self")
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if !for_tests(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item(&mut self, item: &'ast ImplItem) {
        let attributes: &[_] = match item {
            ImplItem::Const(item) => &item.attrs,
            ImplItem::Fn(item) => &item.attrs,
            ImplItem::Type(item) => &item.attrs,
            _ => &[],
        };
        if !for_tests(attributes) {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_stmt(&mut self, statement: &'ast Stmt) {
        if !matches!(statement, Stmt::Local(local) if for_tests(&local.attrs)) {
            visit::visit_stmt(self, statement);
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        let passed_on = !matches!(item.vis, Visibility::Inherited);
        for used in leaves(&item.tree) {
            let Some(target) = self.names.resolve(self.index, &used.path) else { continue };
            let (Target::Module(to) | Target::Item(to)) = target;
            if !(passed_on && self.is_descendant(to)) {
                self.note(&used.path, used.line, target);
            }
        }
    }

    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        if item.trait_.is_none()
            && let Type::Path(own) = &*item.self_ty
            && let Some(Target::Item(home)) = self.names.resolve(self.index, &segments(&own.path))
            && home != self.index
        {
            self.scattered.push(ScatteredImpl {
                of: segments(&own.path).pop().unwrap_or_default(),
                home: self.tree.modules[home].name.clone(),
                module: self.module.name.clone(),
                file: self.module.file.clone(),
                line: item.impl_token.span.start().line,
            });
        }
        visit::visit_item_impl(self, item);
    }

    fn visit_path(&mut self, path: &'ast Path) {
        let words = segments(path);
        // `::name` belongs to another crate. A single `self` is a value.
        if path.leading_colon.is_none() && !(words.len() == 1 && is_root(&words[0])) {
            let line = path.segments.first().map_or(0, |first| first.ident.span().start().line);
            self.path(&words, line);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        self.visit_path(&call.path);
        self.tokens(call.tokens.clone());
    }

    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}

    fn visit_visibility(&mut self, _: &'ast Visibility) {}
}

fn segments(path: &Path) -> Vec<String> {
    path.segments.iter().map(|segment| plain(&segment.ident)).collect()
}

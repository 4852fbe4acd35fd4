//! The graph of imports, and the checks for tests.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::PathBuf,
};

/// One place at which a module names an item of another module.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Import {
    /// The importing module, such as `a::b`. The root of the crate is `crate`.
    pub from: String,
    /// The module that defines the item.
    pub to: String,
    /// The path in the code.
    pub path: String,
    /// The file of the import.
    pub file: PathBuf,
    /// The line of the import, from 1.
    pub line: usize,
}

impl fmt::Display for Import {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to, path, file, line } = self;
        write!(f, "{from} -> {to}   {}:{line}: {path}", file.display())
    }
}

/// A set of modules in which every module imports every other, directly or through others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Circle {
    /// The names of the modules, sorted.
    pub modules: Vec<String>,
    /// The imports among them, sorted. Removing some of them breaks the circle.
    pub imports: Vec<Import>,
}

impl fmt::Display for Circle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "circle of {}:", self.modules.join(", "))?;
        let arrow = |a: &Import, b: &Import| a.from == b.from && a.to == b.to;
        self.imports.chunk_by(arrow).try_for_each(|same| {
            write!(f, "\n  {}", same[0])?;
            if same.len() > 1 { write!(f, " (and {} more)", same.len() - 1) } else { Ok(()) }
        })
    }
}

/// A violation of an order of the modules of a crate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Disorder {
    /// A module imports a module that comes later in the order.
    Upward(Import),
    /// A module is not in the order.
    Unlisted(String),
    /// The order names a module that the crate does not have.
    Absent(String),
}

impl fmt::Display for Disorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Upward(import) => write!(f, "against the order: {import}"),
            Self::Unlisted(module) => write!(f, "module {module} is not in the order"),
            Self::Absent(module) => write!(f, "the order names {module}, which is not a module of the crate"),
        }
    }
}

/// An inherent `impl` in another module than its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScatteredImpl {
    /// The type.
    pub of: String,
    /// The module that defines the type.
    pub home: String,
    /// The module with the `impl`.
    pub module: String,
    /// The file of the `impl`.
    pub file: PathBuf,
    /// The line of the `impl`, from 1.
    pub line: usize,
}

impl fmt::Display for ScatteredImpl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { of, home, module, file, line } = self;
        write!(f, "impl {home}::{of} is in {module}   {}:{line}", file.display())
    }
}

/// The modules of a crate, and the imports among them.
#[derive(Clone, Debug)]
pub struct Graph {
    modules: BTreeSet<String>,
    imports: Vec<Import>,
    scattered: Vec<ScatteredImpl>,
}

impl Graph {
    pub(crate) fn new(
        modules: BTreeSet<String>,
        imports: Vec<Import>,
        scattered: Vec<ScatteredImpl>,
    ) -> Self {
        Self { modules, imports, scattered }
    }

    /// Returns the names of the modules, such as `a::b`. The root of the crate is `crate`.
    pub fn modules(&self) -> impl Iterator<Item = &str> {
        self.modules.iter().map(String::as_str)
    }

    /// Returns all imports, sorted by module.
    pub fn imports(&self) -> &[Import] {
        &self.imports
    }

    /// Returns all inherent `impl`s outside of the module of their type. Calls of their methods are dependencies
    /// that no import shows.
    pub fn scattered_impls(&self) -> &[ScatteredImpl] {
        &self.scattered
    }

    /// Returns the graph in which every module deeper than `depth` counts as its ancestor at that depth. With 1,
    /// `a::b::c` counts as `a`. The root stays `crate`.
    pub fn to_depth(&self, depth: usize) -> Self {
        let cut = |name: &str| name.split("::").take(depth.max(1)).collect::<Vec<_>>().join("::");
        let imports = self.imports.iter().map(|import| Import {
            from: cut(&import.from),
            to: cut(&import.to),
            ..import.clone()
        });
        let scattered = self.scattered.iter().map(|one| ScatteredImpl {
            home: cut(&one.home),
            module: cut(&one.module),
            ..one.clone()
        });
        let imports: BTreeSet<Import> = imports.filter(|import| import.from != import.to).collect();
        Self {
            modules: self.modules.iter().map(|name| cut(name)).collect(),
            imports: imports.into_iter().collect(),
            scattered: scattered.filter(|one| one.home != one.module).collect(),
        }
    }

    /// Returns the largest sets of modules that import one another in circles. No two sets share a module.
    pub fn circles(&self) -> Vec<Circle> {
        let reach: BTreeMap<&str, BTreeSet<&str>> =
            self.modules().map(|module| (module, self.reachable(module))).collect();
        let mut placed: BTreeSet<&str> = BTreeSet::new();
        let mut circles = Vec::new();
        for (module, reached) in &reach {
            if !reached.contains(module) || placed.contains(module) {
                continue;
            }
            let members: BTreeSet<&str> =
                reached.iter().copied().filter(|other| reach[other].contains(module)).collect();
            placed.extend(members.iter().copied());
            circles.push(Circle {
                modules: members.iter().map(|&name| name.to_owned()).collect(),
                imports: self.among(&members),
            });
        }
        circles
    }

    fn among(&self, members: &BTreeSet<&str>) -> Vec<Import> {
        let inside =
            |import: &&Import| members.contains(import.from.as_str()) && members.contains(import.to.as_str());
        self.imports.iter().filter(inside).cloned().collect()
    }

    /// Returns all modules that `module` imports, directly or not. It contains `module` itself only if that is
    /// part of a circle.
    fn reachable<'a>(&'a self, module: &'a str) -> BTreeSet<&'a str> {
        let mut reached = BTreeSet::new();
        let mut open = vec![module];
        while let Some(from) = open.pop() {
            let next = self.imports.iter().filter(|import| import.from == from).map(|import| &*import.to);
            open.extend(next.filter(|to| reached.insert(*to)));
        }
        reached
    }

    /// Returns the violations of `order`, in which each module may import only modules before it. An entry stands
    /// for a module and for all modules below it that have no entry of their own. The root of the crate is
    /// `crate`.
    pub fn out_of_order(&self, order: &[&str]) -> Vec<Disorder> {
        let absent = order.iter().filter(|entry| !self.modules.contains(**entry));
        let mut found: Vec<Disorder> = absent.map(|entry| Disorder::Absent((*entry).into())).collect();
        let unlisted = self.modules.iter().filter(|module| place(order, module).is_none());
        found.extend(unlisted.cloned().map(Disorder::Unlisted));
        let upward = self.imports.iter().filter(|import| {
            matches!((place(order, &import.from), place(order, &import.to)), (Some(from), Some(to)) if from < to)
        });
        found.extend(upward.cloned().map(Disorder::Upward));
        found
    }
}

/// Returns the index of `module` in the order: that of the entry that matches the longest part of its name.
fn place(order: &[&str], module: &str) -> Option<usize> {
    let covers = |entry: &str| {
        module.strip_prefix(entry).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
    };
    let matching = order.iter().enumerate().filter(|(_, entry)| covers(entry));
    matching.max_by_key(|(_, entry)| entry.len()).map(|(index, _)| index)
}

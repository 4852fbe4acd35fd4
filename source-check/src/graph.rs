//! What was read, and the questions a test asks of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::PathBuf,
};

/// One place where a module names something that another defines.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Import {
    /// The module that imports: `a::b`; the root of the crate is `crate`.
    pub from: String,
    /// The module that defines what is imported.
    pub to: String,
    /// The path as the code has it.
    pub path: String,
    /// Where it stands.
    pub file: PathBuf,
    /// Its line, from 1.
    pub line: usize,
}

impl fmt::Display for Import {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to, path, file, line } = self;
        write!(f, "{from} -> {to}   {}:{line}: {path}", file.display())
    }
}

/// Modules each of which imports, directly or through the others, every other of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Circle {
    /// Their names, sorted.
    pub modules: Vec<String>,
    /// The imports among them, sorted: taking away the right ones opens the circle.
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

/// How a crate departs from an order of its modules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Disorder {
    /// A module uses one that the order puts after it.
    Upward(Import),
    /// A module is in none of the places of the order.
    Unlisted(String),
    /// The order names a module that the crate does not have.
    Absent(String),
}

impl fmt::Display for Disorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Upward(import) => write!(f, "against the order: {import}"),
            Self::Unlisted(module) => write!(f, "module {module} has no place in the order"),
            Self::Absent(module) => write!(f, "the order names {module}, which is no module of the crate"),
        }
    }
}

/// An inherent `impl` that stands in another module than its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScatteredImpl {
    /// The type.
    pub of: String,
    /// The module that defines the type.
    pub home: String,
    /// The module with the `impl`.
    pub module: String,
    /// Where it stands.
    pub file: PathBuf,
    /// Its line, from 1.
    pub line: usize,
}

impl fmt::Display for ScatteredImpl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { of, home, module, file, line } = self;
        write!(f, "impl {home}::{of} stands in {module}   {}:{line}", file.display())
    }
}

/// The modules of a crate and their imports of one another.
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

    /// The names of the modules: `a::b`; the root of the crate is `crate`.
    pub fn modules(&self) -> impl Iterator<Item = &str> {
        self.modules.iter().map(String::as_str)
    }

    /// Every import, sorted by module.
    pub fn imports(&self) -> &[Import] {
        &self.imports
    }

    /// Every inherent `impl` outside of its type's module. Methods called through such an `impl` are dependencies that
    /// no import shows.
    pub fn scattered_impls(&self) -> &[ScatteredImpl] {
        &self.scattered
    }

    /// The same with every module deeper than `depth` counted as the ancestor at that depth: with 1, `a::b::c` is `a`.
    /// The root stays `crate`.
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

    /// The largest sets of modules that import one another in circles. None share a module.
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

    /// What `module` imports, directly or not. It is in there itself only if it is part of a circle.
    fn reachable<'a>(&'a self, module: &'a str) -> BTreeSet<&'a str> {
        let mut reached = BTreeSet::new();
        let mut open = vec![module];
        while let Some(from) = open.pop() {
            let next = self.imports.iter().filter(|import| import.from == from).map(|import| &*import.to);
            open.extend(next.filter(|to| reached.insert(*to)));
        }
        reached
    }

    /// How the crate departs from `order`, in which each module may use only those before it. An entry stands for the
    /// module and all below it that have no entry of their own; the root of the crate is `crate`.
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

/// Where the order has `module`: the entry that matches the most of its name.
fn place(order: &[&str], module: &str) -> Option<usize> {
    let covers = |entry: &str| {
        module.strip_prefix(entry).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
    };
    let matching = order.iter().enumerate().filter(|(_, entry)| covers(entry));
    matching.max_by_key(|(_, entry)| entry.len()).map(|(index, _)| index)
}

//! Where code and tests cite each id.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use super::{
    citation::{self, Citation},
    inventory::{Id, Inventory},
    items::{self, Item},
    sources::{Kind, Source},
};

/// Where an id is cited.
#[derive(Default)]
pub(super) struct Places {
    pub(super) code: BTreeSet<Place>,
    pub(super) tests: BTreeSet<Place>,
}

/// A file and the item in it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) path: PathBuf,
    pub(super) item: String,
}

impl Places {
    fn add(&mut self, source: &Source, item: &Item) {
        let place = Place { path: source.path.clone(), item: item.name.clone() };
        let is_test = source.kind == Kind::Test || item.is_test;
        if is_test {
            self.tests.insert(place)
        } else {
            self.code.insert(place)
        };
    }
}

/// Every citation in code and tests.
#[derive(Default)]
pub(super) struct Citations<'a> {
    pub(super) ids: BTreeMap<&'a Id, Places>,
    /// Citations of whole sections, by the number of the section, such as `9.1.2`.
    pub(super) sections: BTreeMap<Vec<u32>, Places>,
}

impl<'a> Citations<'a> {
    /// Collects the citations in code and tests; those in documents do not count.
    pub(super) fn collect(inventory: &'a Inventory, sources: &[Source]) -> Self {
        let mut citations = Self::default();
        for source in sources.iter().filter(|source| source.kind != Kind::Document) {
            let is_rust = source.path.extension().is_some_and(|it| it == "rs");
            let items = if is_rust { items::of_lines(&source.text) } else { vec![] };
            for (line, citation) in citation::in_text(&source.text) {
                let item = items.get(line - 1).cloned().unwrap_or_default();
                citations.add(inventory, &citation, source, &item);
            }
        }
        citations
    }

    fn add(&mut self, inventory: &'a Inventory, citation: &Citation, source: &Source, item: &Item) {
        if let Citation::Section(section) = citation {
            let section = section.split('.').filter_map(|part| part.parse().ok()).collect();
            self.sections.entry(section).or_default().add(source, item);
            return;
        }
        for id in inventory.resolve(citation).unwrap_or_default() {
            self.ids.entry(id).or_default().add(source, item);
        }
    }

    /// Returns whether code cites the id.
    pub(super) fn in_code(&self, id: &Id) -> bool {
        self.ids.get(id).is_some_and(|places| !places.code.is_empty())
    }

    /// Returns whether a test cites the id.
    pub(super) fn in_tests(&self, id: &Id) -> bool {
        self.ids.get(id).is_some_and(|places| !places.tests.is_empty())
    }

    /// Returns the ids among `ids` that neither code nor tests cite.
    pub(super) fn uncited<'b>(&self, ids: &[&'b Id]) -> Vec<&'b Id> {
        ids.iter().copied().filter(|id| !self.in_code(id) && !self.in_tests(id)).collect()
    }
}

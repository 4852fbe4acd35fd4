//! The definitions: which ids exist, and on which page.

use std::{
    collections::{BTreeMap, HashMap},
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use serde::Serialize;

use super::citation::{self, Citation};

/// The generated page, beside those with the definitions.
pub(super) const COVERAGE: &str = "coverage.md";

/// The text that marks the definition of an id on a page.
const ANCHOR: &str = "<a id=\"";

/// One id. Ids have the order of the specification.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Id {
    /// A requirement: its section, and its number there.
    Requirement(Vec<u32>, u32),
    /// A decision.
    Decision(u32),
}

impl Id {
    /// Returns the id as the sources write it.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Requirement(section, number) => {
                let section: Vec<String> = section.iter().map(u32::to_string).collect();
                format!("F-{}-{number}", section.join("."))
            }
            Self::Decision(number) => format!("D-{number:02}"),
        }
    }

    fn of(citation: &Citation) -> Option<Self> {
        match citation {
            Citation::Requirements { section, first, last } if first == last => {
                Some(Self::Requirement(numbers(section)?, *first))
            }
            Citation::Decisions { first, last } if first == last => Some(Self::Decision(*first)),
            _ => None,
        }
    }
}

fn numbers(section: &str) -> Option<Vec<u32>> {
    section.split('.').map(|part| part.parse().ok()).collect()
}

/// How a requirement binds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Level {
    Must,
    Should,
    May,
    /// A definition, which demands nothing.
    Fact,
}

impl Level {
    /// Returns the level that the second column of a requirement's row names.
    fn of_row(line: &str) -> Option<Self> {
        match line.split('|').nth(2)?.trim() {
            "must" => Some(Self::Must),
            "should" => Some(Self::Should),
            "may" => Some(Self::May),
            "fact" => Some(Self::Fact),
            _ => None,
        }
    }
}

/// The place where an id is defined.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Definition {
    /// Name of the page, in the directory of the pages.
    pub(super) page: String,
    /// The heading of its section on that page.
    pub(super) heading: String,
    /// How a requirement binds; `None` for a decision.
    pub(super) level: Option<Level>,
}

/// All ids that exist.
#[derive(Debug, Default)]
pub(super) struct Inventory(BTreeMap<Id, Definition>);

impl Inventory {
    /// Reads the pages in `directory`.
    ///
    /// # Errors
    /// If there are none, or if two pages define the same id.
    pub(super) fn read(directory: &Path) -> Result<Self> {
        let mut pages: Vec<PathBuf> = fs::read_dir(directory)
            .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect())
            .with_context(|| format!("cannot read {}", directory.display()))?;
        pages.retain(|page| page.extension().is_some_and(|it| it == "md") && !page.ends_with(COVERAGE));
        pages.sort();
        let mut inventory = Self::default();
        for page in pages {
            let text =
                fs::read_to_string(&page).with_context(|| format!("cannot read {}", page.display()))?;
            let name = page.file_name().unwrap_or_default().to_string_lossy();
            inventory.add(&name, &text)?;
        }
        if inventory.0.is_empty() {
            bail!("no page in {} defines an id by {ANCHOR}…\">", directory.display());
        }
        Ok(inventory)
    }

    /// Adds the ids that a page defines.
    pub(super) fn add(&mut self, page: &str, text: &str) -> Result<()> {
        let mut heading = String::new();
        for line in text.lines() {
            if let Some(title) = line.strip_prefix("## ") {
                title.clone_into(&mut heading);
            }
            let Some((id, _)) = line
                .strip_prefix("| ")
                .unwrap_or(line)
                .strip_prefix(ANCHOR)
                .and_then(|rest| rest.split_once('"'))
            else {
                continue;
            };
            let defined = match citation::in_line(id).as_slice() {
                [citation] if citation.to_string() == id => Id::of(citation),
                _ => None,
            };
            let Some(defined) = defined else {
                bail!("{page}: `{id}` is not an id: write F-<section>-<n> or D-<nn>");
            };
            let level = Level::of_row(line);
            if level.is_none() && matches!(defined, Id::Requirement(..)) {
                bail!(
                    "{page}: the row of {id} has no level: write must, should, may or fact in its second column"
                );
            }
            let definition = Definition { page: page.to_owned(), heading: heading.clone(), level };
            if let Some(other) = self.0.insert(defined, definition) {
                bail!("{page} and {} both define {id}: remove one of the definitions", other.page);
            }
        }
        Ok(())
    }

    /// Returns the id that is written so, and its definition, if it exists.
    pub(super) fn find(&self, text: &str) -> Option<(&Id, &Definition)> {
        match citation::in_line(text).as_slice() {
            [citation] if citation.to_string() == text => self.0.get_key_value(&Id::of(citation)?),
            _ => None,
        }
    }

    /// Returns every id with its definition, in the order of the specification.
    pub(super) fn all(&self) -> impl Iterator<Item = (&Id, &Definition)> {
        self.0.iter()
    }

    /// Returns the ids that a citation means, or the reason why it is wrong.
    pub(super) fn resolve(&self, citation: &Citation) -> Result<Vec<&Id>, String> {
        match citation {
            Citation::Requirements { section, first, last } => {
                let section = numbers(section).ok_or("the section is no number")?;
                let range = (*first..=*last).map(|number| Id::Requirement(section.clone(), number));
                self.each(range).map_err(|_| self.what_has(&section))
            }
            Citation::Decisions { first, last } => self
                .each((*first..=*last).map(Id::Decision))
                .map_err(|missing| format!("there is no decision {}", missing.text())),
            Citation::Section(section) => {
                let section = numbers(section).ok_or("the section is no number")?;
                let found: Vec<&Id> = self.0.keys().filter(|id| id.is_in(&section)).collect();
                if found.is_empty() { Err("this section has no requirements".to_owned()) } else { Ok(found) }
            }
            Citation::Malformed(_) => {
                Err("write F-<section>-<n>, F-<section>-<n>..<m>, D-<nn> or D-<nn>..D-<mm>".to_owned())
            }
        }
    }

    fn each(&self, ids: impl Iterator<Item = Id>) -> Result<Vec<&Id>, Id> {
        ids.map(|id| self.0.get_key_value(&id).map(|(known, _)| known).ok_or(id)).collect()
    }

    /// Returns, for a message, the numbers that a section has.
    fn what_has(&self, section: &[u32]) -> String {
        let last = self.0.keys().filter_map(|id| match id {
            Id::Requirement(of, number) if of == section => Some(*number),
            _ => None,
        });
        match last.max() {
            Some(last) => format!("that section ends with number {last}"),
            None => "that section has no requirements".to_owned(),
        }
    }

    /// Returns the ids for each table: those under one heading, or on one page of decisions.
    pub(super) fn sections(&self) -> Vec<(&Definition, Vec<&Id>)> {
        let mut sections: Vec<(&Definition, Vec<&Id>)> = vec![];
        let mut place: HashMap<(&str, &str), usize> = HashMap::new();
        for (id, definition) in &self.0 {
            let heading = if matches!(id, Id::Decision(_)) { "" } else { definition.heading.as_str() };
            let index = *place.entry((&definition.page, heading)).or_insert_with(|| {
                sections.push((definition, vec![]));
                sections.len() - 1
            });
            sections[index].1.push(id);
        }
        sections
    }
}

impl Id {
    /// Returns whether the id belongs to a section or to a section below it.
    pub(super) fn is_in(&self, section: &[u32]) -> bool {
        matches!(self, Self::Requirement(of, _) if of.starts_with(section))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inventory() -> Inventory {
        let mut inventory = Inventory::default();
        let rows = ["F-9-1", "F-9.1.2-1", "F-9.1.2-2", "F-9.1.10-1"]
            .map(|id| format!("| <a id=\"{id}\"></a>{id} | must |\n"));
        inventory.add("nine.md", &format!("## 9 Delivery\n{}", rows.concat())).unwrap();
        inventory.add("decisions.md", "<a id=\"D-08\"></a>\n\n### D-08\n\n<a id=\"D-09\"></a>\n").unwrap();
        inventory
    }

    fn resolved(text: &str) -> Result<Vec<String>, String> {
        let [citation] = <[Citation; 1]>::try_from(citation::in_line(text)).unwrap();
        inventory().resolve(&citation).map(|ids| ids.into_iter().map(Id::text).collect())
    }

    #[test]
    fn a_range_means_each_id_in_it_and_a_section_all_below_it() {
        assert_eq!(resolved("F-9.1.2-1..2").unwrap(), ["F-9.1.2-1", "F-9.1.2-2"]);
        assert_eq!(resolved("F-9.1").unwrap(), ["F-9.1.2-1", "F-9.1.2-2", "F-9.1.10-1"]);
        assert_eq!(resolved("D-08..D-09").unwrap(), ["D-08", "D-09"]);
    }

    #[test]
    fn an_id_beyond_the_last_of_its_section_is_told_where_that_ends() {
        assert_eq!(resolved("F-9.1.2-1..3").unwrap_err(), "that section ends with number 2");
        assert_eq!(resolved("F-9.7-1").unwrap_err(), "that section has no requirements");
        assert_eq!(resolved("F-9.1.1").unwrap_err(), "this section has no requirements");
        assert_eq!(resolved("D-10").unwrap_err(), "there is no decision D-10");
    }

    #[test]
    fn ids_stand_in_the_order_of_the_specification() {
        let texts: Vec<String> = inventory().all().map(|(id, _)| id.text()).collect();
        assert_eq!(texts, ["F-9-1", "F-9.1.2-1", "F-9.1.2-2", "F-9.1.10-1", "D-08", "D-09"]);
    }

    #[test]
    fn an_id_defined_twice_or_in_bad_form_is_refused() {
        let mut inventory = inventory();
        let twice = inventory.add("other.md", "<a id=\"D-08\"></a>").unwrap_err().to_string();
        assert!(twice.contains("decisions.md"), "{twice}");
        assert!(inventory.add("other.md", "<a id=\"F-9.1.2\"></a>").is_err());
        assert!(inventory.add("other.md", "<a id=\"gate\"></a>").is_err());
        let wish = inventory.add("other.md", "| <a id=\"F-9-2\"></a>F-9-2 | wish | Speed. |").unwrap_err();
        assert!(wish.to_string().contains("must, should, may or fact"), "{wish}");
    }
}

//! The generated page: clause, code, test. It names files and items but no line numbers, so that it stays
//! correct when lines move.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    path::Path,
};

use super::{
    citations::{Citations, Place},
    inventory::{Definition, Id, Inventory},
    sources::Source,
};

const INTRODUCTION: &str = "\
# Clause, code, test

<!-- Written by `cargo xtask clauses`. Do not edit. -->

Which code and which test cites each requirement and decision of rev 0.9. `cargo xtask clauses` writes this page from
the citations in the sources; `cargo xtask lint` fails when it is out of date. A citation shows where to look. It proves
nothing by itself, and a clause without one may still be obeyed: code cites a clause where a reader would ask for it.

A place is a file and the item in it. A citation of a whole section stands in the row of the section and is not
counted for its clauses.
";

/// Returns the text of the page.
pub(super) fn page(inventory: &Inventory, sources: &[Source]) -> String {
    let citations = Citations::collect(inventory, sources);
    let sections = inventory.sections();
    let mut page = INTRODUCTION.to_owned();
    // Writing into a String cannot fail.
    let _ = summary(&mut page, &sections, &citations);
    let _ = uncited(&mut page, &sections, inventory, &citations);
    for (definition, ids) in &sections {
        let _ = table(&mut page, definition, ids, inventory, &citations);
    }
    let _ = whole_sections(&mut page, &citations);
    page
}

fn summary(
    page: &mut String,
    sections: &[(&Definition, Vec<&Id>)],
    citations: &Citations<'_>,
) -> std::fmt::Result {
    writeln!(page, "\n## How many\n\n| section | clauses | cited by code | cited by tests | by neither |")?;
    writeln!(page, "| --- | ---: | ---: | ---: | ---: |")?;
    let mut total = [0; 4];
    for (definition, ids) in sections {
        let counts = [
            ids.len(),
            ids.iter().filter(|id| citations.in_code(id)).count(),
            ids.iter().filter(|id| citations.in_tests(id)).count(),
            citations.uncited(ids).len(),
        ];
        for (sum, count) in total.iter_mut().zip(counts) {
            *sum += count;
        }
        let [all, code, tests, neither] = counts;
        writeln!(page, "| {} | {all} | {code} | {tests} | {neither} |", title(definition))?;
    }
    let [all, code, tests, neither] = total;
    writeln!(page, "| **all** | **{all}** | **{code}** | **{tests}** | **{neither}** |")
}

fn uncited(
    page: &mut String,
    sections: &[(&Definition, Vec<&Id>)],
    inventory: &Inventory,
    citations: &Citations<'_>,
) -> std::fmt::Result {
    writeln!(page, "\n## Cited by neither code nor tests\n")?;
    for (definition, ids) in sections {
        let links: Vec<String> =
            citations.uncited(ids).into_iter().map(|id| link_to(id, inventory)).collect();
        if !links.is_empty() {
            writeln!(page, "- {}: {}", title(definition), links.join(", "))?;
        }
    }
    Ok(())
}

fn table(
    page: &mut String,
    definition: &Definition,
    ids: &[&Id],
    inventory: &Inventory,
    citations: &Citations<'_>,
) -> std::fmt::Result {
    writeln!(page, "\n## {}\n\n| clause | code | test |\n| --- | --- | --- |", title(definition))?;
    for id in ids {
        let places = citations.ids.get(id);
        let code = places.map_or_else(String::new, |it| list(&it.code));
        let tests = places.map_or_else(String::new, |it| list(&it.tests));
        writeln!(page, "| {} | {code} | {tests} |", link_to(id, inventory))?;
    }
    Ok(())
}

fn whole_sections(page: &mut String, citations: &Citations<'_>) -> std::fmt::Result {
    writeln!(page, "\n## Whole sections\n\n| section | code | test |\n| --- | --- | --- |")?;
    for (section, places) in &citations.sections {
        let section: Vec<String> = section.iter().map(u32::to_string).collect();
        writeln!(page, "| F-{} | {} | {} |", section.join("."), list(&places.code), list(&places.tests))?;
    }
    Ok(())
}

/// Returns the title of a section of the specification, or of a page of decisions.
fn title(definition: &Definition) -> String {
    let page = &definition.page;
    match page.strip_prefix("decisions-").and_then(|rest| rest.strip_suffix(".md")) {
        Some(subject) => format!("[Decisions: {}]({page})", subject.replace('-', " ")),
        None => format!("[{}]({page})", definition.heading),
    }
}

fn link_to(id: &Id, inventory: &Inventory) -> String {
    let text = id.text();
    let page = inventory.all().find(|(known, _)| *known == id).map_or("", |(_, it)| it.page.as_str());
    format!("[{text}]({page}#{text})")
}

/// Returns a list of the places, grouped by file.
fn list(places: &BTreeSet<Place>) -> String {
    let mut files: BTreeMap<&Path, Vec<&str>> = BTreeMap::new();
    for place in places {
        files.entry(&place.path).or_default().push(&place.item);
    }
    let of_file = |(path, items): (&Path, Vec<&str>)| {
        let items: Vec<String> =
            items.into_iter().filter(|item| !item.is_empty()).map(|item| format!("`{item}`")).collect();
        let link = format!("[{}](../../{})", shown(path), path.display());
        if items.is_empty() { link } else { format!("{link} {}", items.join(", ")) }
    };
    files.into_iter().map(of_file).collect::<Vec<_>>().join("<br>")
}

/// Returns a short form of a path: without `src`, and without the extension of a Rust file.
fn shown(path: &Path) -> String {
    let parts: Vec<String> =
        path.iter().map(|part| part.to_string_lossy().into_owned()).filter(|part| part != "src").collect();
    let text = parts.join("/");
    text.strip_suffix("/mod.rs").or_else(|| text.strip_suffix(".rs")).unwrap_or(&text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page_of(sources: &[(&str, &str)]) -> String {
        let mut inventory = Inventory::default();
        let rows =
            ["F-9.1.2-1", "F-9.1.2-2", "F-9.1.2-3"].map(|id| format!("| <a id=\"{id}\"></a>{id} | must |\n"));
        inventory.add("chapter-9.md", &format!("## 9.1 Transmitter\n{}", rows.concat())).unwrap();
        inventory.add("decisions-windows.md", "<a id=\"D-26\"></a>\n").unwrap();
        let sources: Vec<Source> =
            sources.iter().map(|(path, text)| Source::new(path.into(), (*text).to_owned())).collect();
        page(&inventory, &sources)
    }

    #[test]
    fn names_code_and_test_of_each_clause() {
        let page = page_of(&[
            ("core/src/window.rs", "/// The gate (F-9.1.2-1..2, D-26).\nfn gate() {}\n"),
            ("core/tests/window.rs", "//! Windows.\n\n/// F-9.1.2-1.\n#[test]\nfn shut() {}\n"),
            ("docs/architecture.md", "The gate (F-9.1.2-3)."),
        ]);
        let row = "| [F-9.1.2-1](chapter-9.md#F-9.1.2-1) | [core/window](../../core/src/window.rs) `gate` | \
                   [core/tests/window](../../core/tests/window.rs) `shut` |";
        assert!(page.contains(row), "{page}");
        assert!(page.contains("| [9.1 Transmitter](chapter-9.md) | 3 | 2 | 1 | 1 |"), "{page}");
        assert!(page.contains("| [Decisions: windows](decisions-windows.md) | 1 | 1 | 0 | 0 |"), "{page}");
        assert!(
            page.contains("- [9.1 Transmitter](chapter-9.md): [F-9.1.2-3](chapter-9.md#F-9.1.2-3)\n"),
            "{page}"
        );
    }

    #[test]
    fn a_citation_of_a_section_counts_for_no_clause() {
        let page = page_of(&[("core/src/window.rs", "//! One side of a window (F-9.1).\n")]);
        assert!(page.contains("| [9.1 Transmitter](chapter-9.md) | 3 | 0 | 0 | 3 |"), "{page}");
        assert!(page.contains("| F-9.1 | [core/window](../../core/src/window.rs) |  |"), "{page}");
    }

    #[test]
    fn moved_lines_change_nothing() {
        let text = "/// The gate (F-9.1.2-1).\nfn gate() {}\n";
        let moved = format!("use core::fmt;\n\nconst N: u32 = 1;\n\n{text}");
        assert_eq!(page_of(&[("core/src/window.rs", text)]), page_of(&[("core/src/window.rs", &moved)]));
    }
}

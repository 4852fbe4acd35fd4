//! Checks the links between the pages of the repository: each target file, heading and anchor must exist.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Component, Path, PathBuf},
};

use anyhow::{Result, bail};

use crate::clauses::sources;

/// Fails if the target of a link does not exist. The error names each such link.
///
/// # Errors
/// Also if a file cannot be read.
pub(crate) fn check(root: &Path) -> Result<()> {
    let pages: BTreeMap<PathBuf, String> = sources::read(root)?
        .into_iter()
        .filter(|source| source.path.extension().is_some_and(|it| it == "md"))
        .map(|source| (source.path, source.text))
        .collect();
    let broken: Vec<String> =
        pages.iter().flat_map(|(page, text)| broken(root, &pages, page, text)).collect();
    if !broken.is_empty() {
        bail!("{} links between pages are broken; correct them:\n  {}", broken.len(), broken.join("\n  "));
    }
    let missing: Vec<String> = pages.iter().flat_map(|(page, text)| not_listed(page, text)).collect();
    if !missing.is_empty() {
        bail!("the list at the top of a page lacks headings of it; add them:\n  {}", missing.join("\n  "));
    }
    Ok(())
}

/// The number of links to its own headings from which on the text before a page's first heading is a list of them.
const LIST: usize = 3;

/// Returns the headings of the second level that the list at the top of a page lacks, if it has such a list.
fn not_listed(page: &Path, text: &str) -> Vec<String> {
    let headings: Vec<&str> = prose(text).filter_map(|(_, line)| line.strip_prefix("## ")).collect();
    let top = text.split("\n## ").next().unwrap_or_default();
    let linked: BTreeSet<String> =
        links(top).into_iter().filter_map(|(_, target)| Some(target.strip_prefix('#')?.to_owned())).collect();
    if linked.len() < LIST {
        return vec![];
    }
    let lacks = headings.into_iter().filter(|heading| !linked.contains(&slug(heading)));
    lacks.map(|heading| format!("{}: {heading}", page.display())).collect()
}

/// Returns a message for each broken link of a page.
fn broken(root: &Path, pages: &BTreeMap<PathBuf, String>, page: &Path, text: &str) -> Vec<String> {
    let mut complaints = vec![];
    for (line, target) in links(text) {
        let (file, anchor) = target.split_once('#').unwrap_or((&target, ""));
        let path =
            if file.is_empty() { page.to_owned() } else { resolved(page.parent().unwrap_or(page), file) };
        let reason = if !pages.contains_key(&path) && !root.join(&path).exists() {
            "there is no such file"
        } else if !anchor.is_empty() && pages.get(&path).is_some_and(|text| !anchors(text).contains(anchor)) {
            "that page has no such heading or anchor"
        } else {
            continue;
        };
        complaints.push(format!("{}:{line}: {target}: {reason}", page.display()));
    }
    complaints
}

/// Joins `directory` and `link`, and resolves `.` and `..`.
fn resolved(directory: &Path, link: &str) -> PathBuf {
    let mut path = PathBuf::new();
    for part in directory.join(link).components() {
        match part {
            Component::ParentDir => drop(path.pop()),
            Component::CurDir => {}
            other => path.push(other),
        }
    }
    path
}

/// Returns the lines of a page that are not code, with their numbers from 1.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_code = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let fence = line.trim_start().starts_with("```");
        in_code ^= fence;
        (!in_code && !fence).then_some((index + 1, line))
    })
}

/// Returns the links to files of the repository, with their line numbers. Only the text of a link may contain a
/// line break, not its target.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = vec![];
    for (number, line) in prose(text) {
        for rest in line.split("](").skip(1) {
            let Some((target, _)) = rest.split_once(')') else { continue };
            let elsewhere = target.contains("://") || target.starts_with("mailto:");
            if !elsewhere && !target.is_empty() {
                found.push((number, target.to_owned()));
            }
        }
    }
    found
}

/// Returns the possible targets of links into a page: its anchors, and the anchors that GitHub gives its headings.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    for (_, line) in prose(text) {
        for rest in line.split("<a id=\"").skip(1) {
            anchors.extend(rest.split_once('"').map(|(id, _)| id.to_owned()));
        }
        let title = line.trim_start_matches('#');
        if title.len() < line.len() && title.starts_with(' ') {
            anchors.insert(slug(title));
        }
    }
    anchors
}

/// Returns the anchor that GitHub gives a heading.
pub(crate) fn slug(heading: &str) -> String {
    heading
        .trim()
        .to_lowercase()
        .chars()
        .filter(|c| c.is_alphanumeric() || " -_".contains(*c))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_at_the_top_is_complete_or_there_is_none() {
        let headings = "\n## One\n\n## Two\n\n## Three `3`\n\n```\n## no heading\n```\n\n## Four\n";
        let top = "# Page\n\n[1](#one) [2](#two)";
        assert!(
            not_listed(Path::new("p.md"), &format!("{top}\n{headings}")).is_empty(),
            "two links are no list"
        );
        let lacking = not_listed(Path::new("p.md"), &format!("{top} [3](#three-3)\n{headings}"));
        assert_eq!(lacking, ["p.md: Four"]);
        let complete = format!("{top} [3](#three-3) [4](#four)\n{headings}");
        assert!(not_listed(Path::new("p.md"), &complete).is_empty());
    }

    const PAGE: &str = "# The lock of `wire`\n\n<a id=\"D-26\"></a>\n\nSee [itself](#the-lock-of-wire), [the \
                        rule](#D-26), [elsewhere](https://example.org/x).\n";

    fn complaints(page: &str) -> Vec<String> {
        let path = PathBuf::from("docs/page.md");
        let pages = BTreeMap::from([(path.clone(), page.to_owned())]);
        broken(crate::shell::workspace(), &pages, &path, page)
    }

    #[test]
    fn headings_and_anchors_are_found() {
        assert_eq!(complaints(PAGE), Vec::<String>::new());
    }

    #[test]
    fn a_planted_link_that_leads_nowhere_is_named_with_its_place() {
        let page =
            format!("{PAGE}\n[a](#the-door)\n[b](nothing.md)\n[c](../README.md), [d](spec/README.md)\n");
        assert_eq!(
            complaints(&page),
            [
                "docs/page.md:7: #the-door: that page has no such heading or anchor",
                "docs/page.md:8: nothing.md: there is no such file",
            ]
        );
    }

    #[test]
    fn code_holds_no_links() {
        assert_eq!(links("```\nx[0](y)\n```\nand [one](two.md)\n"), [(4, "two.md".to_owned())]);
    }
}

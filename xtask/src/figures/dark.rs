//! Pictures follow the dark mode of their reader. Those that a program draws do; those that are drawn by hand need a style of
//! their own, which is easily forgotten.

use std::path::Path;

use anyhow::{Result, ensure};

use super::{files, read};

/// The pages and their pictures.
const PAGES: &str = "docs";

/// Checks the pictures of all pages in `root`.
///
/// # Errors
/// Names each picture without colours for a dark background.
pub(crate) fn check(root: &Path) -> Result<()> {
    let mut bright = vec![];
    for path in files(&root.join(PAGES))? {
        if path.extension().is_some_and(|extension| extension == "svg") && !is_for_dark(&read(&path)?) {
            bright.push(path.strip_prefix(root).unwrap_or(&path).display().to_string());
        }
    }
    ensure!(
        bright.is_empty(),
        "{} has no colours for a dark background: add a style with @media (prefers-color-scheme: dark)",
        bright.join(", ")
    );
    Ok(())
}

fn is_for_dark(picture: &[u8]) -> bool {
    let text: String = String::from_utf8_lossy(picture).split_whitespace().collect();
    text.contains("@media(prefers-color-scheme:dark)")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_picture_for_a_bright_page_only_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let pages = directory.path().join("docs/model");
        fs::create_dir_all(&pages).unwrap();
        let dark = "<svg><style>\n@media (prefers-color-scheme: dark) { text { fill: #ddd } }</style></svg>";
        fs::write(pages.join("both.svg"), dark).unwrap();
        fs::write(pages.join("page.md"), "no picture").unwrap();
        check(directory.path()).unwrap();
        fs::write(pages.join("bright.svg"), "<svg/>").unwrap();
        let error = check(directory.path()).unwrap_err().to_string();
        assert!(error.starts_with("docs/model/bright.svg has no colours"), "{error}");
    }
}

//! `man` and `completions`: manual pages and shell completions, generated from the definition of the command line.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Arg, Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;
use serde::Serialize;

use crate::cli::Cli;
use crate::exit::Exit;
use crate::output::{print, print_json, print_raw};

/// The JSON output of `completions`.
#[derive(Serialize)]
struct Completions {
    shell: String,
    script: String,
}

/// The JSON output of `man`.
#[derive(Serialize)]
struct Pages {
    pages: Vec<PathBuf>,
}

/// Prints the completion script of a shell.
pub(crate) fn completions(shell: Shell, json: bool) -> Result<(), Exit> {
    let mut script = vec![];
    clap_complete::generate(shell, &mut Cli::command(), "tiercel", &mut script);
    match json {
        true => print_json(&Completions {
            shell: shell.to_string(),
            script: String::from_utf8_lossy(&script).into_owned(),
        }),
        false => print_raw(&script),
    }
    Ok(())
}

/// Writes a manual page for each command into a directory.
pub(crate) fn manual(directory: &Path, json: bool) -> Result<(), Exit> {
    let failed = |path: &Path| {
        let path = path.display().to_string();
        move |error| Exit::file(format!("cannot write {path}: {error}"))
    };
    fs::create_dir_all(directory).map_err(failed(directory))?;
    let mut pages = vec![];
    for (name, text) in all_pages() {
        let path = directory.join(format!("{name}.1"));
        fs::write(&path, text).map_err(failed(&path))?;
        pages.push(path);
    }
    match json {
        true => print_json(&Pages { pages }),
        false => print(format!("{} manual pages are in {}", pages.len(), directory.display())),
    }
    Ok(())
}

/// Returns the name and the text of every page.
fn all_pages() -> Vec<(String, Vec<u8>)> {
    let mut program = without_help(Cli::command());
    program.build();
    let program = with_global_options_last(program);
    let mut pages = vec![];
    add_pages(&program, None, &mut pages);
    pages
}

/// Removes the `help` subcommands: a page about them would say nothing.
fn without_help(command: Command) -> Command {
    command.disable_help_subcommand(true).mut_subcommands(without_help)
}

/// Moves the options that every command has behind the command's own options.
fn with_global_options_last(command: Command) -> Command {
    let last = |option: Arg| if option.is_global_set() { option.display_order(100) } else { option };
    command.mut_args(last).mut_subcommands(with_global_options_last)
}

fn add_pages(command: &Command, above: Option<&str>, pages: &mut Vec<(String, Vec<u8>)>) {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    pages.push((name.to_owned(), page(command, name, above)));
    for sub in command.get_subcommands() {
        add_pages(sub, Some(name), pages);
    }
}

/// Returns the page of a command. `above` names the page of its parent command.
fn page(command: &Command, name: &str, above: Option<&str>) -> Vec<u8> {
    let man = Man::new(command.clone());
    // Written by hand: the generator drops an empty date, and the next field takes its place.
    let version = env!("CARGO_PKG_VERSION");
    let mut text =
        format!(".TH \"{}\" 1 \"\" \"tiercel {version}\" Tiercel\n", name.to_uppercase()).into_bytes();
    let written = (|| {
        man.render_name_section(&mut text)?;
        man.render_synopsis_section(&mut text)?;
        man.render_description_section(&mut text)?;
        man.render_options_section(&mut text)?;
        if command.has_subcommands() {
            man.render_subcommands_section(&mut text)?;
        }
        Ok::<(), std::io::Error>(())
    })();
    written.expect("writing to memory does not fail");
    let rest = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    text.extend(sections(&rest).bytes());
    if let Some(above) = above {
        text.extend(format!(".SH \"SEE ALSO\"\n{}(1)\n", escaped(above)).bytes());
    }
    text
}

/// Converts the text that `--help` shows after the options. Each heading begins a section. Lines stay lines.
fn sections(after_help: &str) -> String {
    let mut roff = String::new();
    let mut open = false;
    for line in after_help.lines() {
        let heading = line.strip_suffix(':').filter(|line| !line.is_empty() && !line.starts_with(' '));
        if let Some(heading) = heading {
            roff += if open { ".fi\n" } else { "" };
            roff += &format!(".SH \"{}\"\n.nf\n", heading.to_uppercase());
            open = true;
        } else if !line.is_empty() {
            roff += &escaped(line.strip_prefix("  ").unwrap_or(line));
            roff.push('\n');
        }
    }
    roff + if open { ".fi\n" } else { "" }
}

/// Escapes a line so that roff prints it unchanged.
fn escaped(line: &str) -> String {
    let line = line.replace('\\', "\\e").replace('-', "\\-");
    // At the start of a line, roff reads these characters as a request.
    if line.starts_with(['.', '\'']) { format!("\\&{line}") } else { line }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page_with_its_examples() {
        let pages = all_pages();
        let names: Vec<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
        for name in ["tiercel", "tiercel-up", "tiercel-conn-connect", "tiercel-atomic-fetch-add"] {
            assert!(names.contains(&name), "{name} is not among {names:?}");
        }
        for (name, text) in &pages {
            let text = String::from_utf8(text.clone()).unwrap();
            assert!(text.contains(".SH NAME") && text.contains(".SH \"E"), "{name}: {text}");
            assert!(!name.contains("help"), "{name}");
        }
    }

    #[test]
    fn lines_of_examples_stay_lines() {
        let text = "Examples:\n  tiercel up --config a\\b\n\nExit codes:\n  0 done\n  .x";
        let expected = ".SH \"EXAMPLES\"\n.nf\ntiercel up \\-\\-config a\\eb\n.fi\n\
                        .SH \"EXIT CODES\"\n.nf\n0 done\n\\&.x\n.fi\n";
        assert_eq!(sections(text), expected);
        assert_eq!(sections(""), "");
    }

    #[test]
    fn a_page_names_the_page_above() {
        for (name, text) in all_pages() {
            let text = String::from_utf8(text).unwrap();
            let above = match name.as_str() {
                "tiercel" => continue,
                "tiercel-atomic-fetch-add" => "tiercel\\-atomic(1)",
                _ => "tiercel",
            };
            let (_, see_also) = text.split_once("SEE ALSO").unwrap();
            assert!(see_also.contains(above), "{name}: {see_also}");
        }
    }

    #[test]
    fn completions_name_the_commands() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let mut script = vec![];
            clap_complete::generate(shell, &mut Cli::command(), "tiercel", &mut script);
            let script = String::from_utf8(script).unwrap();
            assert!(script.contains("fetch-add") && script.contains("receive-dir"), "{shell}: {script}");
        }
    }
}

//! Tests of the command line and of the examples in its help.

use clap::{CommandFactory, Parser};

use crate::cli::{Cli, Command};
use crate::connection_arguments::Conn;
use crate::verb_arguments::Mr;

fn parse(line: &str) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(line.split_whitespace())
}

#[test]
fn the_command_line_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn every_subcommand_has_examples() {
    fn check(command: &clap::Command, path: &str) {
        for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
            let path = format!("{path} {}", sub.get_name());
            if sub.has_subcommands() {
                check(sub, &path);
            }
            let examples = sub.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(examples.contains(&path), "`{path} --help` has no example");
        }
    }
    check(&Cli::command(), "tiercel");
}

#[test]
fn examples_parse() {
    // The examples of `--help` must work. Of a shell pipeline, only the part for this program is checked.
    fn check(command: &clap::Command) {
        for sub in command.get_subcommands() {
            check(sub);
        }
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        for line in
            help.lines().filter_map(|line| line.strip_prefix("  ")).filter(|l| l.starts_with("tiercel "))
        {
            let line = line.split(" > ").next().unwrap_or_default();
            let line =
                line.split(" | ").next().unwrap_or_default().replace("'02 00 00 00 00 02 ...'", "0200");
            parse(&line.replace('\'', "")).unwrap_or_else(|error| panic!("{line}: {error}"));
        }
    }
    check(&Cli::command());
}

#[test]
fn contradictions_are_refused() {
    for line in [
        "tiercel up --interface veth0 --address 10.7.0.1 --busy --sleep",
        "tiercel write 5 --rkey 1",
        "tiercel write 5 --rkey 1 --data a --hex 00",
        "tiercel read 5 --rkey 1 --length 8 --raw --out f",
        "tiercel read 5 --rkey 4294967296 --length 8",
        "tiercel decode",
        "tiercel decode f --hex 00",
        "tiercel recv post 5 --count 0",
        "tiercel --socket s --node n status",
        "tiercel mr register 0x",
        "tiercel conn connect 10.7.0.2 --rack-tlp=maybe",
    ] {
        assert!(parse(line).is_err(), "{line}");
    }
}

#[test]
fn a_region_without_rights_is_asked_for_by_name() {
    let Command::Mr(Mr::Register { access, .. }) =
        parse("tiercel mr register 1K --access none").unwrap().command
    else {
        panic!()
    };
    assert_eq!(access, [None]);
}

#[test]
fn an_option_that_may_be_absent_takes_no_address_for_its_value() {
    for (options, wanted) in [
        ("10.7.0.2", None),
        ("--rack-tlp 10.7.0.2", Some(true)),
        ("10.7.0.2 --rack-tlp=true", Some(true)),
        ("--rack-tlp=false 10.7.0.2", Some(false)),
    ] {
        let Command::Conn(Conn::Connect { rack_tlp, .. }) =
            parse(&format!("tiercel conn connect {options}")).unwrap().command
        else {
            panic!()
        };
        assert_eq!(rack_tlp, wanted, "{options}");
    }
}

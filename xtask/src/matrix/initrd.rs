//! Builds the guests' file system: busybox, programs with their libraries, modules, and a first process that runs
//! the commands that the host sends over a serial port.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::{BufWriter, Cursor, Write},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};
use cpio::NewcBuilder;

use super::kernel::Kernel;

/// The first process. A command is a line with a number, a limit in seconds and a script in hexadecimal. The
/// answer is a line with the number, the exit code and a length, followed by that many bytes of output.
const INIT: &str = r#"#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/usr/bin:/bin HOME=/root
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t tmpfs tmpfs /tmp
mount -t tmpfs tmpfs /run
mount -t bpf bpf /sys/fs/bpf
mount -t tracefs tracefs /sys/kernel/tracing
for module in /modules/*.ko; do insmod $module; done
ip link set lo up
mkdir -p /tmp/inbox
until [ -e /dev/vport0p1 ]; do sleep 0.1; done
exec 3<>/dev/vport0p1
echo ready >&3
while read -r number limit script <&3; do
    echo "$script" | xxd -r -p >/tmp/.script
    timeout -s KILL "$limit" sh /tmp/.script </dev/null >/tmp/.output 2>&1 3>&-
    code=$?
    cp /tmp/.output /tmp/.answer
    echo "$number $code $(stat -c %s /tmp/.answer)" >&3
    cat /tmp/.answer >&3
done
echo "the host has closed the port"
sync
poweroff -f
"#;

/// Directories. Each comes after the directory that contains it.
const FOLDERS: [&str; 12] =
    ["bin", "dev", "etc", "lib64", "modules", "proc", "root", "run", "sys", "tmp", "usr", "usr/bin"];

/// File modes and file types.
const FOLDER: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const CONSOLE: u32 = 0o020_600;

/// Packs an initrd with these programs in `/usr/bin`.
///
/// # Errors
/// If a file cannot be read or written.
pub(crate) fn pack(kernel: &Kernel, programs: &[PathBuf], to: &Path) -> Result<()> {
    let mut files: Vec<(String, PathBuf)> = vec![("bin/busybox".into(), "/bin/busybox".into())];
    files.extend(programs.iter().map(|path| (format!("usr/bin/{}", file_name(path)), path.clone())));
    for library in libraries(programs)? {
        let inside = library.strip_prefix("/").unwrap_or(&library).to_string_lossy().into_owned();
        files.push((inside, library));
    }
    files.extend(kernel.modules.iter().map(|path| (format!("modules/{}", file_name(path)), path.clone())));

    let mut folders: BTreeSet<String> = FOLDERS.iter().map(|folder| (*folder).to_owned()).collect();
    for (inside, _) in &files {
        folders.extend(ancestors(inside));
    }
    let mut entries = vec![];
    entries.extend(folders.iter().map(|folder| (NewcBuilder::new(folder).mode(FOLDER), vec![])));
    // Without a console device the first process has no output.
    let console = NewcBuilder::new("dev/console").mode(CONSOLE).rdev_major(5).rdev_minor(1);
    entries.push((console, vec![]));
    entries.push((NewcBuilder::new("init").mode(PROGRAM), INIT.into()));
    for (inside, path) in &files {
        let content = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        entries.push((NewcBuilder::new(inside).mode(PROGRAM), content));
    }
    let file = File::create(to).with_context(|| format!("cannot create {}", to.display()))?;
    let inputs = entries.into_iter().map(|(entry, content)| (entry, Cursor::new(content)));
    cpio::write_cpio(inputs, BufWriter::new(file))?.flush()?;
    Ok(())
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Returns the directories above a file, the outermost first.
fn ancestors(inside: &str) -> Vec<String> {
    let mut folders: Vec<String> = Path::new(inside)
        .ancestors()
        .skip(1)
        .map(|folder| folder.to_string_lossy().into_owned())
        .filter(|folder| !folder.is_empty())
        .collect();
    folders.reverse();
    folders
}

/// Returns the shared libraries of programs, including the loader.
fn libraries(programs: &[PathBuf]) -> Result<BTreeSet<PathBuf>> {
    let mut all = BTreeSet::new();
    for program in programs {
        let output = Command::new("ldd").arg(program).output().context("cannot start ldd")?;
        all.extend(parse_libraries(&String::from_utf8_lossy(&output.stdout)));
    }
    Ok(all)
}

/// Parses the output of `ldd`. A program that is linked statically has no libraries.
fn parse_libraries(said: &str) -> Vec<PathBuf> {
    let path = |line: &str| line.split_whitespace().find(|word| word.starts_with('/')).map(PathBuf::from);
    said.lines().filter_map(path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_where_ldd_found_them() {
        let said = "\tlinux-vdso.so.1 (0x00007ffc)\n\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        let expected = ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"].map(PathBuf::from);
        assert_eq!(parse_libraries(said), expected);
        assert!(parse_libraries("\tstatically linked\n").is_empty());
    }

    #[test]
    fn folders_come_from_the_outside_in() {
        assert_eq!(ancestors("lib/x86/libc.so.6"), ["lib", "lib/x86"]);
        assert!(ancestors("init").is_empty());
    }
}

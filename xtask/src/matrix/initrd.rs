//! Builds the guests' file system: busybox, programs with their libraries, modules, and a first process that runs
//! the commands that the host sends over a serial port.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::{self, BufWriter, Cursor, Read, Seek, SeekFrom, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};
use cpio::NewcBuilder;

use super::kernel::Kernel;

/// Mounts what every guest needs, and loads its modules. `/bin` has busybox.
const SET_UP: &str = r#"#!/bin/busybox sh
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sysfs /sys
/bin/busybox mount -t devtmpfs devtmpfs /dev
for module in /modules/*.ko; do /bin/busybox insmod $module; done
"#;

/// The first process of a guest without a distribution. [`AGENT`] follows.
const INIT: &str = r#"
/bin/busybox --install -s /bin
export PATH=/usr/bin:/bin HOME=/root
mount -t tmpfs tmpfs /tmp
mount -t tmpfs tmpfs /run
mount -t bpf bpf /sys/fs/bpf
mount -t tracefs tracefs /sys/kernel/tracing
ip link set lo up
mkdir -p /tmp/inbox
"#;

/// Runs the commands of the host. A command is a line with a number, a limit in seconds and a script in hexadecimal.
/// The answer is a line with the number, the exit code and a length, followed by that many bytes of output.
const AGENT: &str = r#"
until [ -e /dev/vport0p1 ]; do sleep 0.1; done
exec 3<>/dev/vport0p1
echo ready >&3
while read -r number limit script <&3; do
    echo "$script" | busybox xxd -r -p >/tmp/.script
    busybox timeout -s KILL "$limit" sh /tmp/.script </dev/null >/tmp/.output 2>&1 3>&-
    code=$?
    cp /tmp/.output /tmp/.answer
    echo "$number $code $(stat -c %s /tmp/.answer)" >&3
    cat /tmp/.answer >&3
done
echo "the host has closed the port"
sync
"#;

/// The end of the first process.
const POWER_OFF: &str = "poweroff -f\n";

/// The service that is the agent in a guest with a distribution, its file, and the folder and link that start it.
const SERVICE: &str = "[Service]\nExecStart=/bin/busybox sh /agent\nEnvironment=HOME=/root\n";
const SERVICE_FILE: &str = "etc/systemd/system/agent.service";
const WANTS: &str = "etc/systemd/system/multi-user.target.wants";

/// Directories. Each comes after the directory that contains it.
const FOLDERS: [&str; 12] =
    ["bin", "dev", "etc", "lib64", "modules", "proc", "root", "run", "sys", "tmp", "usr", "usr/bin"];

/// File modes and file types.
const FOLDER: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const FILE: u32 = 0o100_644;
const LINK: u32 = 0o120_777;
const CONSOLE: u32 = 0o020_600;

/// Packs an initrd with these programs in `/usr/bin`: their names there, and their files.
///
/// # Errors
/// If a file cannot be read or written.
pub(crate) fn pack(kernel: &Kernel, programs: &[(&str, PathBuf)], to: &Path) -> Result<()> {
    let mut files: Vec<(String, PathBuf)> = vec![("bin/busybox".into(), "/bin/busybox".into())];
    files.extend(programs.iter().map(|(name, path)| (format!("usr/bin/{name}"), path.clone())));
    for library in libraries(programs.iter().map(|(_, path)| path))? {
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
    let init = [SET_UP, INIT, AGENT, POWER_OFF].concat();
    entries.push((NewcBuilder::new("init").mode(PROGRAM), init.into_bytes()));
    for (inside, path) in &files {
        let content = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        entries.push((NewcBuilder::new(inside).mode(PROGRAM), content));
    }
    let file = File::create(to).with_context(|| format!("cannot create {}", to.display()))?;
    let inputs = entries.into_iter().map(|(entry, content)| (entry, Cursor::new(content)));
    cpio::write_cpio(inputs, BufWriter::new(file))?.flush()?;
    Ok(())
}

/// Packs an initrd with the tree of a distribution that has systemd and busybox, and further files: their paths
/// without the leading slash, and their contents.
///
/// # Errors
/// If a file cannot be read or written.
pub(crate) fn pack_tree(kernel: &Kernel, tree: &Path, more: &[(&str, Vec<u8>)], to: &Path) -> Result<()> {
    let mut entries: Vec<(NewcBuilder, Source)> = vec![];
    walk(tree, tree, &mut entries)?;
    let mut add = |name: &str, mode, content: Vec<u8>| {
        entries.push((NewcBuilder::new(name).mode(mode), Source::Bytes(Cursor::new(content))));
    };
    add("modules", FOLDER, vec![]);
    for module in &kernel.modules {
        add(&format!("modules/{}", file_name(module)), PROGRAM, fs::read(module)?);
    }
    add("init", PROGRAM, [SET_UP, "exec /lib/systemd/systemd\n"].concat().into_bytes());
    add("agent", PROGRAM, AGENT.into());
    add(SERVICE_FILE, FILE, SERVICE.into());
    add(WANTS, FOLDER, vec![]);
    add(&format!("{WANTS}/agent.service"), LINK, format!("/{SERVICE_FILE}").into_bytes());
    for (name, content) in more {
        add(name, PROGRAM, content.clone());
    }
    let console = NewcBuilder::new("dev/console").mode(CONSOLE).rdev_major(5).rdev_minor(1);
    entries.push((console, Source::Bytes(Cursor::default())));
    let file = File::create(to).with_context(|| format!("cannot create {}", to.display()))?;
    cpio::write_cpio(entries.into_iter(), BufWriter::new(file))?.flush()?;
    Ok(())
}

/// The content of an entry. A file is opened when it is read, because a tree has thousands.
enum Source {
    Bytes(Cursor<Vec<u8>>),
    File { path: PathBuf, length: u64, open: Option<File> },
}

impl Source {
    fn file(&mut self) -> io::Result<Option<&mut File>> {
        let Self::File { path, open, .. } = self else { return Ok(None) };
        if open.is_none() {
            *open = Some(File::open(path)?);
        }
        Ok(open.as_mut())
    }
}

impl Read for Source {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Self::Bytes(bytes) = self {
            return bytes.read(buffer);
        }
        let Some(file) = self.file()? else { return Ok(0) };
        let count = file.read(buffer)?;
        if count == 0 {
            // Only this many files are open at a time: one.
            if let Self::File { open, .. } = self {
                *open = None;
            }
        }
        Ok(count)
    }
}

impl Seek for Source {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match self {
            Self::Bytes(bytes) => bytes.seek(to),
            // Only the length is asked for before the content is read.
            Self::File { length, .. } => match to {
                SeekFrom::End(0) => Ok(*length),
                SeekFrom::Start(0) => Ok(0),
                _ => Err(io::ErrorKind::Unsupported.into()),
            },
        }
    }
}

/// Adds everything below a folder. Sockets and pipes are left out.
fn walk(root: &Path, folder: &Path, entries: &mut Vec<(NewcBuilder, Source)>) -> Result<()> {
    let read = |path: &Path| format!("cannot read {}", path.display());
    for entry in fs::read_dir(folder).with_context(|| read(folder))? {
        let path = entry?.path();
        let metadata = fs::symlink_metadata(&path).with_context(|| read(&path))?;
        let inside = path.strip_prefix(root)?.to_string_lossy().into_owned();
        let builder = NewcBuilder::new(&inside).mode(metadata.mode()).uid(metadata.uid()).gid(metadata.gid());
        let kind = metadata.file_type();
        if kind.is_symlink() {
            let target = fs::read_link(&path)?.into_os_string().into_encoded_bytes();
            entries.push((builder, Source::Bytes(Cursor::new(target))));
        } else if kind.is_dir() {
            entries.push((builder, Source::Bytes(Cursor::default())));
            walk(root, &path, entries)?;
        } else if kind.is_file() {
            let length = metadata.len();
            entries.push((builder, Source::File { path, length, open: None }));
        }
    }
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
fn libraries<'a>(programs: impl Iterator<Item = &'a PathBuf>) -> Result<BTreeSet<PathBuf>> {
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

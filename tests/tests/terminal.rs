//! `tiercel` on a terminal: it draws a progress bar, and leaves the terminal to whoever had it before.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;
use tiercel_tests::cli::{NodeProcess, program};
use tiercel_tests::{Pair, need_root};

/// A terminal, like a serial console: the end that a program has, and the other one.
struct Terminal {
    line: File,
    program: File,
}

impl Terminal {
    fn open() -> Result<Self> {
        let (mut line, mut program) = (0, 0);
        let none = std::ptr::null_mut();
        // SAFETY: the kernel writes two descriptors; name, settings and size are optional.
        let opened =
            unsafe { libc::openpty(&raw mut line, &raw mut program, none, none.cast(), none.cast()) };
        ensure!(opened == 0, "cannot open a terminal: {}", std::io::Error::last_os_error());
        // SAFETY: both descriptors are new and nobody else's.
        unsafe { Ok(Self { line: File::from_raw_fd(line), program: File::from_raw_fd(program) }) }
    }

    /// Returns the settings of the terminal, and the flags of the open file that all programs on it share.
    fn state(&self) -> Result<(Vec<u32>, Vec<u8>, i32)> {
        let fd = self.program.as_raw_fd();
        // SAFETY: all zero bytes are a valid value of this plain struct.
        let mut settings: libc::termios = unsafe { std::mem::zeroed() };
        // SAFETY: the kernel writes the struct, which outlives the call.
        let read = unsafe { libc::tcgetattr(fd, &raw mut settings) };
        // SAFETY: takes no pointer.
        let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
        ensure!(read == 0 && flags >= 0, "{}", std::io::Error::last_os_error());
        let modes = vec![settings.c_iflag, settings.c_oflag, settings.c_cflag, settings.c_lflag];
        Ok((modes, settings.c_cc.to_vec(), flags))
    }
}

/// The program draws on its terminal, reads nothing from it, changes no setting and no flag of it, and does not end it for
/// the shell that waits there.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_copy_leaves_the_terminal_as_it_was() -> Result<()> {
    const BYTES: usize = 40_000_000;
    const TYPED: &str = "typed while the copy runs\n";
    need_root();
    let (pair, directory) = (Pair::direct()?, TempDir::new()?);
    let inbox = directory.path().join("inbox");
    std::fs::create_dir(&inbox)?;
    let receive = ["--receive-dir", &inbox.display().to_string()];
    let up = |host, name| NodeProcess::on(host, directory.path(), name, &receive);
    let (a, _b) = (up(&pair.a, "a")?, up(&pair.b, "b")?);
    let cid = a.json(&["conn", "connect", &pair.b.ipv4.to_string()])?["local_cid"].to_string();
    let file = directory.path().join("file");
    std::fs::write(&file, vec![7; BYTES])?;

    let mut terminal = Terminal::open()?;
    let before = terminal.state()?;
    let end = || terminal.program.try_clone().map(Stdio::from);
    let mut copy = Command::new(program());
    copy.arg("--socket").arg(a.socket()).arg("cp").arg(&file).arg(format!("{cid}:"));
    let mut copy = copy.stdin(end()?).stdout(end()?).stderr(end()?).env("TERM", "vt100").spawn()?;
    terminal.line.write_all(TYPED.as_bytes())?;
    let mut line = terminal.line.try_clone()?;
    let drawn = std::thread::spawn(move || {
        // What is drawn has to be read, or the program would wait for room. The last line says what was copied.
        let (mut drawn, mut bytes) = (String::new(), [0; 4096]);
        while !drawn.contains("SHA-256") && !drawn.contains("error") {
            let read = line.read(&mut bytes)?;
            drawn += &String::from_utf8_lossy(&bytes[..read]);
        }
        Ok::<_, std::io::Error>(drawn)
    });
    let ended = copy.wait()?;
    let drawn = drawn.join().expect("reading does not panic")?;
    assert!(ended.success(), "{drawn}");
    assert!(drawn.contains("\u{1b}[") && drawn.contains("MiB"), "a bar was drawn: {drawn}");
    assert_eq!(terminal.state()?, before);
    let mut typed = [0; TYPED.len()];
    terminal.program.read_exact(&mut typed).context("the shell reads what was typed")?;
    assert_eq!(typed, TYPED.as_bytes());
    Ok(())
}

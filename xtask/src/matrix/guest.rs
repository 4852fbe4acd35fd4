//! A guest: QEMU, the channel over which the guest receives commands, and QEMU's own control socket.

use std::{
    fs,
    io::{ErrorKind, Read, Write},
    os::unix::{net::UnixStream, process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

use super::{kernel::Kernel, nic::Nic, patience::Patience};

/// The emulator.
pub(crate) const QEMU: &str = "qemu-system-x86_64";
/// Memory of a guest with little more than the program: 256 MiB of registered memory for its node, and the initrd.
pub(crate) const SMALL_MIB: u32 = 1024;
/// Limit for booting. With software emulation and both CPUs in use by other processes, a guest boots in 10 s.
pub(crate) const BOOT_LIMIT: Duration = Duration::from_secs(120);
/// Interval at which a waiting read checks whether the guest is still alive.
const LOOK: Duration = Duration::from_millis(100);
/// Extra time for an answer after the time limit of its command.
const ANSWER_GRACE: Duration = Duration::from_secs(15);

/// How the guest's CPU is provided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Accelerator {
    Kvm,
    /// Software emulation.
    Tcg,
}

impl Accelerator {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Kvm => "KVM",
            Self::Tcg => "emulated by TCG",
        }
    }

    fn arguments(self) -> &'static str {
        match self {
            Self::Kvm => "-accel kvm -cpu host",
            Self::Tcg => "-accel tcg,thread=multi -cpu max",
        }
    }
}

/// The parts of a guest.
pub(crate) struct Machine<'a> {
    pub(crate) accelerator: Accelerator,
    pub(crate) kernel: &'a Kernel,
    pub(crate) initrd: &'a Path,
    pub(crate) memory_mib: u32,
    /// Its network card and the tap behind it; `None` for a trial boot.
    pub(crate) card: Option<Card<'a>>,
    /// The directory for sockets and logs. Its path is short.
    pub(crate) folder: &'a Path,
    /// `a` or `b`.
    pub(crate) name: char,
}

/// A network card.
#[derive(Clone, Copy)]
pub(crate) struct Card<'a> {
    pub(crate) nic: Nic,
    pub(crate) tap: &'a str,
}

impl Machine<'_> {
    fn path(&self, ending: &str) -> PathBuf {
        self.folder.join(format!("{}.{ending}", self.name))
    }

    /// Returns QEMU's arguments.
    fn arguments(&self) -> Vec<String> {
        let smp = self.card.map_or(1, |card| card.nic.cpus());
        let mut all: Vec<String> = self.accelerator.arguments().split(' ').map(str::to_owned).collect();
        let mut add = |option: &str, value: String| all.extend([option.to_owned(), value]);
        add("-display", "none".into());
        add("-m", self.memory_mib.to_string());
        add("-smp", smp.to_string());
        add("-kernel", self.kernel.image.display().to_string());
        add("-initrd", self.initrd.display().to_string());
        add("-append", "console=ttyS0 loglevel=5 panic=-1 net.ifnames=0".into());
        add("-serial", format!("file:{}", self.path("console").display()));
        add("-qmp", format!("unix:{},server=on,wait=off", self.path("qmp").display()));
        add("-chardev", format!("socket,id=agent,path={},server=on,wait=off", self.path("agent").display()));
        add("-device", "virtio-serial-pci".into());
        add("-device", "virtserialport,chardev=agent,name=agent".into());
        if let Some(card) = self.card {
            let queues = card.nic.queues();
            let many = if queues > 1 { format!(",queues={queues}") } else { String::new() };
            add(
                "-netdev",
                format!("tap,id=wire,ifname={},script=no,downscript=no,vhost=off{many}", card.tap),
            );
            let mac = format!("mac=52:54:00:00:00:0{}", self.name);
            add("-device", format!("{},netdev=wire,id=nic,romfile=,{mac}", card.nic.device()));
        }
        all.extend(["-nodefaults", "-no-user-config", "-no-reboot"].map(str::to_owned));
        all
    }
}

/// The result of a command in a guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Output {
    pub(crate) code: i32,
    pub(crate) text: String,
}

impl Output {
    pub(crate) fn is_ok(&self) -> bool {
        self.code == 0
    }
}

/// A running guest. Dropping it ends the guest.
pub(crate) struct Guest {
    process: Child,
    agent: UnixStream,
    /// Bytes that have arrived and have not been read.
    unread: Vec<u8>,
    qmp: UnixStream,
    commands: u32,
    console: PathBuf,
    log: PathBuf,
    patience: Patience,
}

impl Guest {
    /// Starts QEMU. The guest boots in the background. The caller must be in the network namespace of the tap.
    ///
    /// # Errors
    /// If QEMU does not start.
    pub(crate) fn start(machine: &Machine<'_>, patience: &Patience) -> Result<Self> {
        let log = machine.path("log");
        let output = fs::File::create(&log).with_context(|| format!("cannot create {}", log.display()))?;
        let mut command = Command::new(QEMU);
        command.args(machine.arguments()).stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        // Ctrl-C on the terminal must reach only this program.
        command.process_group(0);
        // SAFETY: prctl takes no pointers here, and it may be called between fork and exec.
        unsafe { command.pre_exec(end_with_parent) };
        let mut process = command.spawn().with_context(|| format!("cannot start {QEMU}"))?;
        let sockets = ["agent", "qmp"].map(|socket| machine.path(socket));
        let connected = patience.until("QEMU's sockets", Duration::from_secs(20), || {
            if process.try_wait()?.is_some() {
                bail!("QEMU does not start: {}", last_of(&log));
            }
            let [agent, qmp] = sockets.each_ref().map(UnixStream::connect);
            Ok(agent.ok().zip(qmp.ok()))
        });
        let (agent, qmp) = match connected {
            Ok(connected) => connected,
            Err(error) => {
                let _ = process.kill();
                let _ = process.wait();
                return Err(error);
            }
        };
        let console = machine.path("console");
        let patience = patience.clone();
        let guest = Self { process, agent, unread: vec![], qmp, commands: 0, console, log, patience };
        guest.agent.set_read_timeout(Some(LOOK))?;
        guest.qmp.set_read_timeout(Some(Duration::from_secs(10)))?;
        Ok(guest)
    }

    /// Waits until the guest has booted.
    ///
    /// # Errors
    /// If it has not booted within `limit`; with the last line that it printed.
    pub(crate) fn ready(&mut self, limit: Duration) -> Result<()> {
        let line = self.line(Instant::now() + limit).context("the guest does not boot")?;
        if line != "ready" {
            bail!("the guest says `{line}` where it should be ready");
        }
        self.control("qmp_capabilities", "{}")
    }

    /// Runs a shell script in the guest. The script is killed after `limit`.
    ///
    /// # Errors
    /// If the guest does not answer. A script that fails is not an error.
    pub(crate) fn run(&mut self, script: &str, limit: Duration) -> Result<Output> {
        self.commands += 1;
        let line = format!("{} {} {}\n", self.commands, limit.as_secs().max(1), hex::encode(script));
        self.agent.write_all(line.as_bytes()).context("the guest takes no commands")?;
        let end = Instant::now() + limit + ANSWER_GRACE;
        let answer = self.line(end)?;
        let (code, length) = parse_answer(&answer, self.commands)
            .with_context(|| format!("the guest answers `{answer}` to command {}", self.commands))?;
        while self.unread.len() < length {
            self.receive(end)?;
        }
        let output: Vec<u8> = self.unread.drain(..length).collect();
        Ok(Output { code, text: String::from_utf8_lossy(&output).trim().to_owned() })
    }

    /// Takes the card's carrier away or restores it.
    ///
    /// # Errors
    /// If QEMU refuses.
    pub(crate) fn set_carrier(&mut self, up: bool) -> Result<()> {
        self.control("set_link", &format!("{{\"name\":\"nic\",\"up\":{up}}}"))
    }

    /// Executes a command of QEMU's control protocol. Skips events and the greeting.
    fn control(&mut self, command: &str, arguments: &str) -> Result<()> {
        let request = format!("{{\"execute\":\"{command}\",\"arguments\":{arguments}}}\n");
        self.qmp.write_all(request.as_bytes()).context("QEMU takes no commands")?;
        let mut said = vec![];
        loop {
            let mut byte = [0];
            self.qmp.read_exact(&mut byte).with_context(|| format!("QEMU does not answer {command}"))?;
            said.extend(byte);
            if byte != *b"\n" {
                continue;
            }
            let line: serde_json::Value = serde_json::from_slice(&said).context("QEMU says no JSON")?;
            if line.get("return").is_some() {
                return Ok(());
            }
            if let Some(error) = line.get("error") {
                bail!("QEMU refuses {command}: {error}");
            }
            said.clear();
        }
    }

    /// Returns the next line from the guest.
    fn line(&mut self, end: Instant) -> Result<String> {
        loop {
            if let Some(at) = self.unread.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.unread.drain(..=at).collect();
                return Ok(String::from_utf8_lossy(&line).trim().to_owned());
            }
            self.receive(end)?;
        }
    }

    fn receive(&mut self, end: Instant) -> Result<()> {
        self.patience.check()?;
        let mut buffer = [0; 16384];
        match self.agent.read(&mut buffer) {
            Ok(0) => bail!("the guest has died: {}", self.last_words()),
            Ok(count) => self.unread.extend(&buffer[..count]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                if self.process.try_wait()?.is_some() || self.is_stopped() {
                    bail!("the guest has died: {}", self.last_words());
                }
                if Instant::now() > end {
                    bail!("the guest does not answer: {}", self.last_words());
                }
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error).context("cannot hear the guest"),
        }
        Ok(())
    }

    /// Returns whether KVM met an instruction that it cannot execute. QEMU reports it and keeps running.
    fn is_stopped(&self) -> bool {
        fs::read_to_string(&self.log).is_ok_and(|log| log.contains("KVM internal error"))
    }

    /// Returns the last of QEMU's messages. Without one, it returns the last of the console's.
    fn last_words(&self) -> String {
        let own = last_of(&self.log);
        if own.is_empty() { last_of(&self.console) } else { own }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Makes the kernel kill this process when its parent's thread ends.
fn end_with_parent() -> std::io::Result<()> {
    // SAFETY: prctl takes no pointers here.
    match unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// Returns the last lines of a file as one line.
fn last_of(file: &Path) -> String {
    let text = fs::read(file).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    if let Some(line) = text.lines().find(|line| line.contains("KVM internal error")) {
        return line.to_owned(); // The registers follow.
    }
    let mut lines: Vec<&str> =
        text.lines().map(str::trim).filter(|line| !line.is_empty()).rev().take(3).collect();
    lines.reverse();
    lines.join(" / ")
}

/// Parses the exit code and the length from the answer to a command.
fn parse_answer(line: &str, command: u32) -> Option<(i32, usize)> {
    let mut words = line.split(' ');
    (words.next()?.parse() == Ok(command)).then_some(())?;
    Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel() -> Kernel {
        Kernel::of_release("6.12.1-amd64")
    }

    fn arguments(nic: Option<Nic>) -> String {
        let machine = Machine {
            accelerator: Accelerator::Tcg,
            kernel: &kernel(),
            initrd: Path::new("initrd"),
            memory_mib: SMALL_MIB,
            card: nic.map(|nic| Card { nic, tap: "ta" }),
            folder: Path::new("/x"),
            name: 'a',
        };
        machine.arguments().join(" ")
    }

    #[test]
    fn a_card_has_its_tap_and_its_queues() {
        let one = arguments(Some(Nic::VirtioNet));
        assert!(one.contains("ifname=ta,script=no,downscript=no,vhost=off -device virtio-net-pci,"), "{one}");
        assert!(one.contains("mac=52:54:00:00:00:0a"));
        let many = arguments(Some(Nic::VirtioNetQueues));
        assert!(many.contains("vhost=off,queues=4") && many.contains("mq=on,vectors=10"), "{many}");
        assert!(!arguments(None).contains("netdev"));
    }

    #[test]
    fn an_answer_belongs_to_its_command() {
        assert_eq!(parse_answer("3 0 17", 3), Some((0, 17)));
        assert_eq!(parse_answer("2 0 17", 3), None);
        assert_eq!(parse_answer("3 0", 3), None);
    }
}

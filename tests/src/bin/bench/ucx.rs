//! UCX over TCP on the same cable, by its own program `ucx_perftest`: what a program that wants RDMA's operations uses
//! without an RDMA NIC. Client and server have the CPUs of application and engine, as TCP's, and poll.
//!
//! It is measured by active messages. The program's one-sided tests measure its pauses instead: UCX does a get or put
//! over TCP by messages that the target has to take, and the target of such a test waits in steps of a millisecond.

use std::io::Read;
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tiercel_tests::{Host, Pair};

use crate::figures::{Baseline, MESSAGE, Measure, SMALL};
use crate::machine::{APPLICATION_CPU, ENGINE_CPU};

const PROGRAM: &str = "ucx_perftest";
/// How long a program may take to listen, or to end after its measurement.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(5);

/// All figures of UCX.
pub(crate) const UCX: [Baseline; 3] = [
    Baseline {
        name: "ucx_message_64_rate",
        title: "64 B active messages",
        measure: Measure::Rate,
        instead_of: "write_64_rate",
    },
    Baseline {
        name: "ucx_message_1mib_throughput",
        title: "1 MiB active messages",
        measure: Measure::Throughput,
        instead_of: "write_1mib_throughput",
    },
    Baseline {
        name: "ucx_request_64_latency",
        title: "64 B active message, 64 B answer",
        measure: Measure::Latency,
        instead_of: "read_64_latency",
    },
];

/// UCX, as it is installed.
#[derive(Debug)]
pub(crate) struct Ucx {
    pub(crate) version: String,
}

impl Ucx {
    /// Returns none if UCX's programs are not installed.
    pub(crate) fn find() -> Option<Self> {
        Command::new(PROGRAM).arg("-h").output().ok()?;
        let output = Command::new("ucx_info").arg("-v").output().ok()?;
        Some(Self { version: version(&String::from_utf8_lossy(&output.stdout))?.to_owned() })
    }

    /// Measures one figure between a new server at B and a new client at A. Returns the value in the figure's unit.
    pub(crate) fn measure(&self, pair: &Pair, figure: &Baseline, duration: Duration) -> Result<f64> {
        let (test, bytes, per_second) = match figure.measure {
            Measure::Rate => ("ucp_am_bw", SMALL, 500_000.0),
            Measure::Throughput => ("ucp_am_bw", MESSAGE, 1_000.0),
            Measure::Latency => ("ucp_am_lat", SMALL, 50_000.0),
        };
        // The program counts operations and not time, so the time is met only roughly.
        let count = (duration.as_secs_f64() * per_second).max(10.0) as u64;
        for host in [&pair.a, &pair.b] {
            comes_up(host)?;
        }
        let port = free_port(&pair.b)?;
        let mut server = Running::start(&pair.b, ENGINE_CPU, port, &[])?;
        server.listens(&pair.b, port)?;
        let [address, bytes, all, first] =
            [pair.b.ipv4.to_string(), bytes.to_string(), count.to_string(), (count / 10).to_string()];
        let arguments = [address.as_str(), "-t", test, "-s", &bytes, "-n", &all, "-w", &first, "-f", "-v"];
        let client = Running::start(&pair.a, APPLICATION_CPU, port, &arguments)?;
        let output = match client.finish() {
            Ok(output) => output,
            // A client whose server has ended says nothing.
            Err(error) => return Err(error.context(format!("the server: {}", server.end()?))),
        };
        server.finish()?;
        value(&output, figure.measure).with_context(|| format!("{PROGRAM} printed no result: {output}"))
    }
}

/// Reads the version from the first line of `ucx_info -v`: `# Version 1.13.1`, later `# Library version: 1.15.0`.
fn version(text: &str) -> Option<&str> {
    let line = text.lines().find(|line| line.contains("ersion"))?;
    line.split_whitespace().next_back()
}

/// Reads the columns that the program prints for `-v`. Times of an operation are in microseconds, and a latency is half
/// of the time there and back.
fn value(text: &str, measure: Measure) -> Option<f64> {
    let mut lines = text.lines().map(str::trim).skip_while(|line| !line.starts_with("iterations,"));
    let header = lines.next()?;
    let row = lines.find(|line| line.starts_with(|first: char| first.is_ascii_digit()))?;
    let column = |name: &str| {
        let position = header.split(',').position(|column| column == name)?;
        row.split(',').nth(position)?.trim().parse().ok().filter(|time: &f64| *time > 0.0)
    };
    match measure {
        Measure::Rate => Some(1.0 / column("overall_lat")?),
        Measure::Throughput => Some(f64::from(MESSAGE) * 8.0 / column("overall_lat")? / 1e3),
        Measure::Latency => Some(2.0 * column("50.0_percentile_lat")?),
    }
}

/// Waits until the interface is up for the kernel, which is later than its carrier. UCX does not use it before.
fn comes_up(host: &Host) -> Result<()> {
    let begin = Instant::now();
    while !host.command("ip", ["-o", "link", "show", Host::INTERFACE])?.contains("state UP") {
        ensure!(begin.elapsed() < PATIENCE, "{} does not come up", Host::INTERFACE);
        thread::sleep(PAUSE);
    }
    Ok(())
}

fn free_port(host: &Host) -> Result<u16> {
    let listener = host.run(|| TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)))?;
    Ok(listener.local_addr()?.port())
}

/// Returns whether a table of the kernel's TCP sockets has one that listens on a port. To connect would use up the
/// server, which takes one client.
fn has_listener(table: &str, port: u16) -> bool {
    const LISTEN: &str = "0A";
    let end = format!(":{port:04X}");
    table.lines().any(|line| {
        let columns: Vec<_> = line.split_whitespace().take(4).collect();
        matches!(columns[..], [_, local, _, LISTEN] if local.ends_with(&end))
    })
}

/// A run of the program, killed when it is dropped.
struct Running(Child);

impl Running {
    fn start(host: &Host, cpu: usize, port: u16, arguments: &[&str]) -> Result<Self> {
        let mut command = Command::new(PROGRAM);
        command.args(arguments).args(["-c", &cpu.to_string(), "-p", &port.to_string()]);
        command.env("UCX_TLS", "tcp").env("UCX_NET_DEVICES", Host::INTERFACE);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(Self(host.spawn(command).with_context(|| format!("cannot start {PROGRAM}"))?))
    }

    /// Waits until the server listens.
    fn listens(&mut self, host: &Host, port: u16) -> Result<()> {
        let begin = Instant::now();
        while !has_listener(&host.run(|| std::fs::read_to_string("/proc/thread-self/net/tcp"))?, port) {
            ensure!(self.0.try_wait()?.is_none(), "{PROGRAM} ended before it listened: {}", self.printed()?);
            ensure!(begin.elapsed() < PATIENCE, "{PROGRAM} does not listen");
            thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Waits for the end and returns what was printed, which is little and fits the pipe.
    fn finish(mut self) -> Result<String> {
        let begin = Instant::now();
        let status = loop {
            match self.0.try_wait()? {
                Some(status) => break status,
                None => ensure!(begin.elapsed() < PATIENCE, "{PROGRAM} does not end"),
            }
            thread::sleep(PAUSE);
        };
        let printed = self.printed()?;
        ensure!(status.success(), "{PROGRAM}: {status}: {printed}");
        Ok(printed)
    }

    /// Ends the program, if it has not ended, and returns what it printed.
    fn end(mut self) -> Result<String> {
        // If it has ended already, there is nothing to do.
        let _ = self.0.kill();
        self.printed()
    }

    fn printed(&mut self) -> Result<String> {
        let mut text = String::new();
        if let Some(mut stdout) = self.0.stdout.take() {
            stdout.read_to_string(&mut text)?;
        }
        if let Some(mut stderr) = self.0.stderr.take() {
            stderr.read_to_string(&mut text)?;
        }
        Ok(text)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // If it has ended already, there is nothing to do.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::FIGURES;
    use crate::tcp::TCP;
    use std::collections::HashSet;

    /// What version 1.13.1 prints.
    const PRINTED: &str = "iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,overall_mr\n \
                           2000,4.000,18.218,2.000,3.35,3.35,54890,54890\n";

    #[test]
    fn each_baseline_has_a_name_of_its_own_and_stands_beside_a_figure_in_its_unit() {
        let names: HashSet<_> = TCP.iter().chain(&UCX).map(|baseline| baseline.name).collect();
        assert_eq!(names.len(), TCP.len() + UCX.len());
        for baseline in TCP.iter().chain(&UCX) {
            let other = FIGURES.iter().find(|other| other.name == baseline.instead_of);
            let other = other.expect("a figure of Tiercel");
            assert_eq!(other.measure, baseline.measure, "{}", baseline.name);
        }
    }

    #[test]
    fn columns_are_found_by_their_names() {
        assert_eq!(value(PRINTED, Measure::Rate), Some(0.5));
        assert_eq!(value(PRINTED, Measure::Latency), Some(8.0));
        assert_eq!(value(&PRINTED.replace("2.000,", "1048.576,"), Measure::Throughput), Some(8.0));
        assert_eq!(value(&PRINTED.replace("overall_lat", "other"), Measure::Rate), None);
        assert_eq!(value("iterations,overall_lat\n", Measure::Rate), None);
        assert_eq!(value(&PRINTED.replace("2.000,", "0.000,"), Measure::Rate), None);
    }

    #[test]
    fn versions_old_and_new_are_read() {
        assert_eq!(version("# Version 1.13.1\n# Git branch ''"), Some("1.13.1"));
        assert_eq!(version("# Library version: 1.15.0\n# Library path: /usr/lib"), Some("1.15.0"));
        assert_eq!(version(""), None);
    }

    #[test]
    fn a_listener_is_found_and_a_connection_is_not() {
        let table = "  sl  local_address rem_address   st tx_queue\n   \
                     0: 00000000:3419 00000000:0000 0A 00000000:00000000\n   \
                     1: 0102070A:341A 0202070A:9C40 01 00000000:00000000\n";
        assert!(has_listener(table, 0x3419));
        assert!(!has_listener(table, 0x341A) && !has_listener(table, 0x9C40));
    }
}

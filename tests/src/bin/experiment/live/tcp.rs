//! Flows of the kernel's TCP between two hosts, over IPv6: there the kernel takes another flow label after a timeout, so a
//! connection can leave its path.

use std::ffi::CStr;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use datacentre::{FlowSample, Record};
use fabric_model::{Span, Time, Trunk};
use lab_report::World as Kind;
use tiercel_tests::{Host, LiveFabric, Network};
use transport_common::units::{Fcwnd, Ticks};

use super::nodes::{change, lost_by_the_kernel, mark, network};
use crate::run::Run;
use crate::setup::user_rate;
use crate::world::{Description, End};

/// Bytes of one call.
const CALL: usize = 256 << 10;
/// Bytes of one write at a steady rate.
const PIECE: usize = 13_056;
/// How long a call waits before it checks whether the run is over.
const PATIENCE: Duration = Duration::from_millis(5);
/// Bytes of a flow by which its path is found.
const PROBE: u64 = 128 << 10;

/// A TCP connection between two hosts.
struct Tcp {
    near: TcpStream,
    far: TcpStream,
}

impl Tcp {
    /// Connects one host to another with this congestion control.
    fn connect(from: &Host, to: &Host, congestion_control: &CStr) -> Result<Self> {
        let address = IpAddr::from(to.ipv6);
        let listener = to.run(|| TcpListener::bind((address, 0))).context("cannot listen")?;
        let address = (address, listener.local_addr()?.port());
        // A socket stays in the namespace in which it was made.
        let near = from.run(|| TcpStream::connect(address)).context("cannot connect")?;
        let (far, _) = listener.accept()?;
        near.set_nodelay(true)?;
        let name = congestion_control.to_bytes();
        // SAFETY: the kernel reads `name`, which outlives the call.
        let done = unsafe {
            libc::setsockopt(
                near.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_CONGESTION,
                name.as_ptr().cast(),
                name.len() as libc::socklen_t,
            )
        };
        if done != 0 {
            let error = std::io::Error::last_os_error();
            return Err(error).with_context(|| format!("the kernel has no TCP {congestion_control:?}"));
        }
        Ok(Self { near, far })
    }

    /// Sends so many bytes, and waits until they have arrived.
    fn probe(&mut self, bytes: u64) -> Result<()> {
        let Self { near, far } = self;
        let (mut sent, mut received, mut buffer) = (0, 0, [0; 16 << 10]);
        while received < bytes {
            // A window of a new connection holds this much.
            while sent < bytes && sent - received < buffer.len() as u64 {
                sent += near.write(&buffer[..buffer.len().min((bytes - sent) as usize)])? as u64;
            }
            received += far.read(&mut buffer)? as u64;
        }
        Ok(())
    }
}

/// Runs what is described over connections of TCP.
pub(super) fn run(described: &Description, algorithm: &CStr) -> Result<Run> {
    let End::At(end) = described.end else { bail!("a run of TCP has an end") };
    let endless =
        described.flows.iter().all(|flow| flow.messages.iter().all(|message| message.bytes == u64::MAX));
    ensure!(endless, "a flow of TCP has data without end");
    let network = network(described)?;
    let flows = connect(described, &network, algorithm)?;
    let rate = described.demand.map(|rate| user_rate(rate) as u64);
    let received: Vec<AtomicU64> = flows.iter().map(|_| AtomicU64::new(0)).collect();
    let over = AtomicBool::new(false);
    let began = Instant::now();
    thread::scope(|scope| {
        let over = &over;
        let mut threads = vec![];
        for (Tcp { mut near, mut far }, received) in flows.into_iter().zip(&received) {
            threads.push(scope.spawn(move || send(&mut near, rate, began, over)));
            threads.push(scope.spawn(move || receive(&mut far, received, over)));
        }
        let run = watch(described, &network.fabric, &received, began, end);
        over.store(true, Ordering::Relaxed);
        for thread in threads {
            thread.join().expect("a flow does not panic")?;
        }
        Ok(run)
    })
}

/// Connects the flows, each over the trunk on which it begins. The kernel chooses the path of each connection, so
/// connections are made until all trunks have one.
fn connect(described: &Description, network: &Network, algorithm: &CStr) -> Result<Vec<Tcp>> {
    let mut flows: Vec<Option<Tcp>> = described.flows.iter().map(|_| None).collect();
    for _ in 0..described.draws * flows.len() {
        let Some(next) = flows.iter().position(Option::is_none) else { break };
        let ends = [described.flows[next].source, described.flows[next].destination];
        let [from, to] = ends.map(|host| &network.hosts[usize::from(host)]);
        let mut flow = Tcp::connect(from, to, algorithm)?;
        let before = carried(&network.fabric);
        flow.probe(PROBE)?;
        let after = carried(&network.fabric);
        let busiest = (0..after.len()).max_by_key(|trunk| after[*trunk] - before[*trunk]);
        let busiest = busiest.map(|trunk| Trunk(trunk as u16));
        let is_there = |(number, open): (usize, &Option<Tcp>)| {
            let begins_on = described.flows[number].begins_on;
            open.is_none() && (begins_on.is_none() || begins_on == busiest)
        };
        if let Some(number) = flows.iter().enumerate().position(is_there) {
            flows[number] = Some(flow);
        }
    }
    let draws = described.draws;
    flows
        .into_iter()
        .collect::<Option<_>>()
        .with_context(|| format!("{draws} connections for each flow did not take all paths"))
}

/// Returns the bytes that each trunk has delivered.
fn carried(fabric: &LiveFabric) -> Vec<u64> {
    fabric.stats().fabric.trunks.iter().map(|link| link.delivered_bytes).collect()
}

/// Lets happen what is described, and takes samples and marks until the end.
fn watch(
    described: &Description,
    fabric: &LiveFabric,
    received: &[AtomicU64],
    began: Instant,
    end: Time,
) -> Run {
    let now = || Time::ZERO + Span::from(began.elapsed());
    let mut run = Run {
        kind: Kind::Live,
        record: Record {
            flows: vec![vec![]; received.len()],
            queues: vec![vec![]; described.watch.len()],
            ..Record::default()
        },
        marks: vec![mark(fabric, now())],
        observations: vec![],
        completions: vec![vec![]; received.len()],
        watch: described.watch.clone(),
        lost_by_the_kernel: 0,
    };
    let mut changes = described.changes.iter().peekable();
    let mut marks = described.marks.iter().peekable();
    while now() < end {
        while let Some(happens) = changes.next_if(|happens| happens.at <= now()) {
            change(fabric, happens);
        }
        while marks.next_if(|mark| **mark <= now()).is_some() {
            run.marks.push(mark(fabric, now()));
        }
        run.record.times.push(now());
        for (samples, received) in run.record.flows.iter_mut().zip(received) {
            samples.push(sample(received.load(Ordering::Relaxed)));
        }
        for (samples, egress) in run.record.queues.iter_mut().zip(&described.watch) {
            samples.push(fabric.queued_bytes(*egress));
        }
        thread::sleep(described.sample_every.into());
    }
    run.marks.push(mark(fabric, now()));
    run.lost_by_the_kernel = lost_by_the_kernel(fabric);
    run
}

/// Returns a sample of which only the received bytes are known.
fn sample(received: u64) -> FlowSample {
    FlowSample {
        fcwnd: Fcwnd(0),
        ncwnd: 0,
        rtt: Ticks(0),
        mean_delay: None,
        greatest_delay: None,
        received,
        retransmissions: 0,
        retransmitted_early: 0,
        retransmitted_timeout: 0,
        tail_probes: 0,
        entropy: 0,
        alive: true,
    }
}

/// Sends without end, or at a steady rate in bits per second. What the connection cannot take is not made up for later
/// than a few pieces.
fn send(near: &mut TcpStream, rate: Option<u64>, began: Instant, over: &AtomicBool) -> Result<()> {
    const CATCH_UP: u64 = 16;
    let (data, mut sent) = (vec![0x5a; CALL], 0u64);
    near.set_write_timeout(Some(PATIENCE))?;
    while !over.load(Ordering::Relaxed) {
        let Some(rate) = rate else {
            unless_late(near.write(&data))?;
            continue;
        };
        let due = (began.elapsed().as_secs_f64() * rate as f64 / 8.0) as u64;
        sent = sent.max(due.saturating_sub(CATCH_UP * PIECE as u64));
        if sent < due {
            sent += unless_late(near.write(&data[..PIECE]))? as u64;
        } else {
            thread::sleep(Duration::from_secs_f64(PIECE as f64 * 8.0 / rate as f64));
        }
    }
    // What still waits must not delay the next flows.
    Ok(near.shutdown(Shutdown::Both)?)
}

fn receive(far: &mut TcpStream, received: &AtomicU64, over: &AtomicBool) -> Result<()> {
    let mut buffer = vec![0; CALL];
    far.set_read_timeout(Some(PATIENCE))?;
    while !over.load(Ordering::Relaxed) {
        received.fetch_add(unless_late(far.read(&mut buffer))? as u64, Ordering::Relaxed);
    }
    Ok(())
}

/// A call that took no bytes in its time is none.
fn unless_late(result: std::io::Result<usize>) -> std::io::Result<usize> {
    match result {
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Ok(0),
        other => other,
    }
}

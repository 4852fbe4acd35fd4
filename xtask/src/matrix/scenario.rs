//! The scenarios that run on each pair of guests.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    lab::{ASK_LIMIT, Lab, PLAIN_MTU, Side},
    refusals,
    said::sentence,
    verifier,
};

/// A scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub(crate) enum Scenario {
    /// `tiercel up` and `status`; on a kernel that is too old, the refusal
    Start,
    /// `tiercel conn connect`
    Connect,
    /// `tiercel cp` by SEND, WRITE and READ
    Cp,
    /// The same over connections whose congestion control is the default
    Defaults,
    /// The same while the wire loses 1 % of the packets in each direction
    Loss,
    /// `tiercel trace` while packets flow: the programs that record
    Trace,
    /// MTUs from 1500 to 9000
    Mtu,
    /// The link goes down and up, from outside and by `ip link`
    Link,
    /// The driver lets go of the card and takes it again
    Reset,
    /// Wrong requests end with a sentence, and the node goes on
    Refusals,
    /// A node that ends, in whatever way, leaves nothing behind
    CleanUp,
}

impl Scenario {
    pub(crate) const ALL: [Self; 11] = [
        Self::Start,
        Self::Connect,
        Self::Cp,
        Self::Defaults,
        Self::Loss,
        Self::Trace,
        Self::Mtu,
        Self::Link,
        Self::Reset,
        Self::Refusals,
        Self::CleanUp,
    ];

    /// Returns the name that the table shows.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Connect => "connect",
            Self::Cp => "cp",
            Self::Defaults => "cp, default congestion control",
            Self::Loss => "cp, 1 % loss",
            Self::Trace => "trace",
            Self::Mtu => "MTU",
            Self::Link => "link",
            Self::Reset => "driver reset",
            Self::Refusals => "refusals",
            Self::CleanUp => "clean-up",
        }
    }

    /// Runs the scenario and returns a note for the report.
    ///
    /// # Errors
    /// With what went wrong.
    pub(crate) fn perform(self, lab: &mut Lab) -> Result<String> {
        match self {
            Self::Start => start(lab),
            Self::Connect => connect(lab),
            Self::Cp => copies(lab, COPY_BYTES),
            Self::Defaults => defaults(lab),
            Self::Loss => loss(lab),
            Self::Trace => verifier::trace(lab),
            Self::Mtu => mtus(lab),
            Self::Link => link(lab),
            Self::Reset => reset(lab),
            Self::Refusals => refusals::refusals(lab),
            Self::CleanUp => clean_up(lab),
        }
    }
}

/// How the content of a file is transferred.
/// Connections that are opened and closed in generic mode before the one that stays.
const CONNECTS: u32 = 20;
const WAYS: [&str; 3] = ["send", "write", "read"];
const COPY_BYTES: u64 = 4 << 20;
/// Size of copies through loss, and where a copy only has to show that packets flow.
const SMALL_COPY_BYTES: u64 = 1 << 20;
/// Dropped packets of a thousand in each direction.
const LOSS_PER_MILLE: u32 = 10;

fn start(lab: &mut Lab) -> Result<String> {
    lab.up()?;
    let status: Value = serde_json::from_str(&lab.tiercel("status --json", ASK_LIMIT)?)?;
    let attach = status["attach"].as_str().unwrap_or_default().to_owned();
    let generic = lab.nic.up_options().contains("--generic");
    ensure!(generic == attach.contains("generic"), "it is attached as `{attach}`");
    Ok(attach)
}

fn connect(lab: &mut Lab) -> Result<String> {
    // In generic mode the handshake's TCP takes another way through the kernel, and must not fail now and then.
    let before = if lab.nic.has_native_xdp() { 0 } else { CONNECTS };
    for n in 1..=before {
        let cid = lab.connect_with("").with_context(|| format!("connection {n} of {before}"))?;
        lab.tiercel(&format!("conn close {cid}"), ASK_LIMIT)?;
    }
    let cid = lab.connect()?;
    let shown: Value = serde_json::from_str(&lab.tiercel(&format!("conn show {cid} --json"), ASK_LIMIT)?)?;
    let segment = shown["max_segment"].as_u64().context("conn show says nothing of max_segment")?;
    let times = if before == 0 { String::new() } else { format!("{} times, ", before + 1) };
    Ok(format!("{times}{segment} B a transaction"))
}

/// Copies a file in each way.
fn copies(lab: &mut Lab, bytes: u64) -> Result<String> {
    let mut failures: Vec<(String, String)> = vec![]; // ways and why
    for via in WAYS {
        if let Err(error) = lab.copy(via, bytes) {
            lab.patience.check()?;
            lab.forget_connection(); // What is outstanding may block it.
            let (way, why) = (via.to_uppercase(), format!("{error:#}"));
            match failures.iter_mut().find(|(_, other)| *other == why) {
                Some((ways, _)) => *ways += &format!(", {way}"),
                None => failures.push((way, why)),
            }
        }
    }
    if failures.is_empty() {
        return Ok(format!("{} MiB by SEND, WRITE and READ", bytes >> 20));
    }
    let failures: Vec<String> = failures.into_iter().map(|(ways, why)| format!("{ways}: {why}")).collect();
    bail!("{}", failures.join("; "))
}

/// Copies a file in each way over connections with default settings, up to the first failure.
fn defaults(lab: &mut Lab) -> Result<String> {
    for via in WAYS {
        let cid = lab.connect_with("")?;
        lab.copy_over(cid, via, SMALL_COPY_BYTES).with_context(|| via.to_uppercase())?;
    }
    Ok(format!("{} MiB by SEND, WRITE and READ", SMALL_COPY_BYTES >> 20))
}

fn loss(lab: &mut Lab) -> Result<String> {
    let cid = lab.connect()?;
    let before = resent(lab, cid)?;
    lab.network.lose(LOSS_PER_MILLE)?;
    let copied = copies(lab, SMALL_COPY_BYTES);
    lab.network.lose_nothing();
    let note = copied?;
    let resent = resent(lab, cid)? - before;
    ensure!(resent > 0, "nothing was sent again: no packet was lost");
    Ok(format!("{note}, {resent} packets sent again"))
}

/// Returns the number of packets that A retransmitted.
fn resent(lab: &mut Lab, cid: u64) -> Result<u64> {
    let shown: Value = serde_json::from_str(&lab.tiercel(&format!("conn show {cid} --json"), ASK_LIMIT)?)?;
    let count = |name: &str| shown["statistics"][name].as_u64().with_context(|| format!("no counter {name}"));
    let names = ["retransmitted_early", "retransmitted_timeout", "retransmitted_rnr", "tail_probes"];
    names.into_iter().map(count).sum()
}

/// MTUs to try, and whether a node may refuse them.
const MTUS: [(u32, bool); 3] = [(1500, false), (3498, false), (9000, true)];

fn mtus(lab: &mut Lab) -> Result<String> {
    let mut notes = vec![];
    for (mtu, may_refuse) in MTUS {
        lab.clear()?;
        for side in Side::BOTH {
            lab.set_up_card(side, mtu).with_context(|| format!("MTU {mtu}"))?;
        }
        match lab.up() {
            Err(refusal) if may_refuse && refusal.to_string().contains("MTU") => {
                notes.push(format!("{mtu} refused: {}", refusal.to_string().trim_end_matches('.')));
                continue;
            }
            other => other.with_context(|| format!("MTU {mtu}"))?,
        }
        lab.copy("write", SMALL_COPY_BYTES).with_context(|| format!("MTU {mtu}"))?;
        notes.push(format!("{mtu} works"));
    }
    lab.clear()?;
    for side in Side::BOTH {
        lab.set_up_card(side, PLAIN_MTU)?;
    }
    Ok(notes.join("; "))
}

fn link(lab: &mut Lab) -> Result<String> {
    lab.copy("write", SMALL_COPY_BYTES).context("before the link goes down")?;
    let outside = match lose_carrier(lab) {
        Ok(()) => copy_again(lab).context("after the carrier was lost")?,
        Err(error) => {
            // The control: the same card without a node.
            lab.down()?;
            if lose_carrier(lab).is_ok() {
                return Err(error);
            }
            "the emulated card does not tell of its loss, nor without a node"
        }
    };
    lab.connect()?;
    lab.must(Side::A, "ip link set eth0 down")?;
    lab.must(Side::A, "ip link set eth0 up")?;
    lab.wait_for(Side::A, "the carrier", "[ $(cat /sys/class/net/eth0/carrier) = 1 ]")?;
    let inside = copy_again(lab).context("after `ip link set down` and `up`")?;
    Ok(format!("carrier: {outside}; ip link: {inside}"))
}

/// Takes the carrier of A's card away and gives it back.
fn lose_carrier(lab: &mut Lab) -> Result<()> {
    lab.set_carrier(Side::A, false)?;
    let lost = lab.wait_for(Side::A, "the carrier's loss", "[ $(cat /sys/class/net/eth0/carrier) = 0 ]");
    lab.set_carrier(Side::A, true)?;
    lab.wait_for(Side::A, "the carrier", "[ $(cat /sys/class/net/eth0/carrier) = 1 ]")?;
    lost
}

/// Copies over the existing connection, or over a new one if that fails.
fn copy_again(lab: &mut Lab) -> Result<&'static str> {
    if lab.copy("write", SMALL_COPY_BYTES).is_ok() {
        return Ok("the connection lived on");
    }
    lab.forget_connection();
    lab.copy("write", SMALL_COPY_BYTES)?;
    Ok("needed a new connection")
}

fn reset(lab: &mut Lab) -> Result<String> {
    const UNBIND: &str = "d=$(readlink -f /sys/class/net/eth0/device); r=$(readlink -f $d/driver); \
                          echo $r ${d##*/} >/tmp/reset; echo ${d##*/} >$r/unbind";
    const BIND: &str = "read r d </tmp/reset; echo $d >$r/bind";
    lab.copy("write", SMALL_COPY_BYTES).context("before the reset")?;
    lab.must(Side::A, UNBIND)?;
    lab.wait_for(Side::A, "the card's end", "[ ! -e /sys/class/net/eth0 ]")?;
    lab.must(Side::A, BIND)?;
    lab.set_up_card(Side::A, PLAIN_MTU)?;
    let said = said_of_the_loss(lab)?;
    lab.run(Side::A, "tiercel down", ASK_LIMIT)?;
    lab.wait_for(Side::A, "the end of the node that lost its card", "! pidof tiercel")?;
    lab.clear()?;
    lab.copy("write", SMALL_COPY_BYTES).context("with new nodes after the reset")?;
    Ok(said)
}

/// Describes what the node does when its card disappears: it ends, it logs the loss, or it reports nothing.
fn said_of_the_loss(lab: &mut Lab) -> Result<String> {
    let patience = lab.patience.clone();
    let ended = patience.until("the end of the node", Duration::from_secs(10), || {
        Ok(lab.run(Side::A, "[ -e /tmp/up.code ]", ASK_LIMIT)?.is_ok().then_some(()))
    });
    lab.patience.check()?;
    let log = lab.must(Side::A, "cat /tmp/up.log")?;
    let warned = log.lines().rev().find(|line| line.contains("WARN") || line.contains("ERROR"));
    Ok(match (ended, warned) {
        (Ok(()), _) => format!("the node ends: {}", sentence(&log)),
        (Err(_), Some(line)) => format!("the node goes on and says: {}", line.trim()),
        (Err(_), None) => "the node goes on and says nothing".to_owned(),
    })
}

fn clean_up(lab: &mut Lab) -> Result<String> {
    lab.copy("write", SMALL_COPY_BYTES)?;
    lab.down()?;
    nothing_is_left(lab, "after `tiercel down`")?;
    lab.copy("write", SMALL_COPY_BYTES).context("when nodes came up again")?;
    for side in Side::BOTH {
        lab.must(side, "killall -9 tiercel")?;
    }
    nothing_is_left(lab, "after kill -9")?;
    lab.clear()?;
    lab.copy("write", SMALL_COPY_BYTES).context("when nodes came up after kill -9")?;
    lab.down()?;
    for side in Side::BOTH {
        let complaint = "dmesg | grep -E 'BUG:|WARNING:|Oops|Call Trace|general protection' | head -1";
        let complaint = lab.must(side, complaint)?;
        ensure!(complaint.is_empty(), "the guest's kernel complains: {complaint}");
    }
    Ok("no program, map, link or process is left by `down` or kill -9".to_owned())
}

/// Waits until nothing of the nodes is left. The kernel frees objects after a grace period.
fn nothing_is_left(lab: &mut Lab, when: &str) -> Result<()> {
    let patience = lab.patience.clone();
    for side in Side::BOTH {
        let mut left = None;
        let waited = patience.until("clean", Duration::from_secs(20), || {
            left = lab.left_behind(side)?;
            Ok(left.is_none().then_some(()))
        });
        if let (Err(_), Some(left)) = (&waited, &left) {
            lab.patience.check()?;
            bail!("{when} there are left: {left}");
        }
        waited?;
    }
    Ok(())
}

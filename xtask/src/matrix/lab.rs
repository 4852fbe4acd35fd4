//! Two guests on a network, and a node of Tiercel on each.

use std::{collections::BTreeMap, path::Path, time::Duration};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::{
    guest::{Accelerator, BOOT_LIMIT, Card, Guest, Machine, Output, SMALL_MIB},
    inside::Inventory,
    kernel::Kernel,
    network::{Network, TAPS},
    nic::Nic,
    patience::Patience,
    said::{last_line, sentence},
};

/// Limit for loading the programs with software emulation on a busy machine. On an idle machine, the verifier
/// takes 42 s for a million instructions.
const LOAD_LIMIT: Duration = Duration::from_secs(240);
/// Limit for a command that only queries.
pub(crate) const ASK_LIMIT: Duration = Duration::from_secs(20);
/// Limit for a copy of some megabytes, or for its failure.
const COPY_LIMIT: Duration = Duration::from_secs(120);
/// IP MTU of the cards, unless a scenario needs another.
pub(crate) const PLAIN_MTU: u32 = 1500;
/// Congestion control at both ends of a connection between emulated guests. A packet takes milliseconds there, and
/// the target delay of the default is that of a data centre.
const CONGESTION: &str = "--set base_delay_target=20ms --set max_fcwnd=64";

/// One of the two guests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    A,
    B,
}

impl Side {
    pub(crate) const BOTH: [Self; 2] = [Self::A, Self::B];

    pub(crate) fn address(self) -> &'static str {
        match self {
            Self::A => "10.7.0.1",
            Self::B => "10.7.0.2",
        }
    }

    pub(crate) fn name(self) -> char {
        match self {
            Self::A => 'a',
            Self::B => 'b',
        }
    }
}

/// Two guests on a network. Dropping it ends the guests.
pub(crate) struct Lab {
    pub(crate) nic: Nic,
    guests: [Guest; 2],
    pub(crate) network: Network,
    pub(crate) patience: Patience,
    /// BPF objects of each guest before any node was started.
    before: [Inventory; 2],
    /// Instructions that the verifier walked for each program seen so far.
    pub(crate) verified: BTreeMap<String, u32>,
    /// Why a node did not start in the plain way. Then no further start is tried.
    broken: Option<String>,
    up: bool,
    /// CID at A of the connection from A to B.
    connection: Option<u64>,
}

impl Lab {
    /// Creates the network and boots the guests. Call it on a thread of its own, because it moves the thread into
    /// another network namespace.
    ///
    /// # Errors
    /// If a guest does not boot.
    pub(crate) fn boot(
        kernel: &Kernel,
        nic: Nic,
        accelerator: Accelerator,
        folder: &Path,
        patience: &Patience,
    ) -> Result<Self> {
        let network = Network::new(nic.queues())?;
        let initrd = &folder.join("initrd");
        let start = |side: Side| {
            let tap = TAPS[side as usize];
            let card = Some(Card { nic, tap });
            {
                let (memory_mib, name) = (SMALL_MIB, side.name());
                let machine = Machine { accelerator, kernel, initrd, memory_mib, card, folder, name };
                Guest::start(&machine, patience)
            }
        };
        let guests = [start(Side::A)?, start(Side::B)?];
        let before = [Inventory::default(), Inventory::default()];
        let patience = patience.clone();
        let verified = BTreeMap::new();
        let mut lab = Self {
            nic,
            guests,
            network,
            patience,
            before,
            verified,
            broken: None,
            up: false,
            connection: None,
        };
        for side in Side::BOTH {
            lab.guests[side as usize].ready(BOOT_LIMIT)?;
            lab.set_up_card(side, PLAIN_MTU)?;
            lab.before[side as usize] = lab.inventory(side)?;
        }
        Ok(lab)
    }

    /// Runs a script in a guest.
    ///
    /// # Errors
    /// If the guest does not answer.
    pub(crate) fn run(&mut self, side: Side, script: &str, limit: Duration) -> Result<Output> {
        self.guests[side as usize].run(script, limit)
    }

    /// Runs a script that must succeed, and returns its output.
    ///
    /// # Errors
    /// With the last line of the script's output.
    pub(crate) fn must(&mut self, side: Side, script: &str) -> Result<String> {
        let output = self.run(side, script, ASK_LIMIT)?;
        ensure!(output.is_ok(), "`{script}` in the guest: {}", last_line(output.text.as_bytes()));
        Ok(output.text)
    }

    /// Takes the carrier of a card away or restores it.
    ///
    /// # Errors
    /// If QEMU refuses.
    pub(crate) fn set_carrier(&mut self, side: Side, up: bool) -> Result<()> {
        self.guests[side as usize].set_carrier(up)
    }

    /// Waits until a script succeeds in a guest.
    ///
    /// # Errors
    /// If it does not succeed within 30 s.
    pub(crate) fn wait_for(&mut self, side: Side, what: &str, script: &str) -> Result<()> {
        let patience = self.patience.clone();
        patience.until(what, Duration::from_secs(30), || {
            Ok(self.run(side, script, ASK_LIMIT)?.is_ok().then_some(()))
        })
    }

    /// Sets the MTU and the address of a card.
    ///
    /// # Errors
    /// If there is no card, or its driver refuses.
    pub(crate) fn set_up_card(&mut self, side: Side, mtu: u32) -> Result<()> {
        let address = side.address();
        self.wait_for(side, "the network card", "[ -e /sys/class/net/eth0 ]")?;
        self.must(side, &format!("ip link set eth0 mtu {mtu}"))?;
        self.must(
            side,
            &format!("ip addr flush dev eth0; ip addr add {address}/24 dev eth0; ip link set eth0 up"),
        )?;
        self.wait_for(side, "the card's carrier", "[ $(cat /sys/class/net/eth0/carrier) = 1 ]")
    }

    /// Returns the BPF objects of a guest.
    ///
    /// # Errors
    /// If they cannot be listed.
    pub(crate) fn inventory(&mut self, side: Side) -> Result<Inventory> {
        let text = self.must(side, "xtask bpf-inventory")?;
        serde_json::from_str(&text).with_context(|| format!("no inventory: {text}"))
    }

    /// Records how many instructions the verifier walked for the programs that are loaded now.
    ///
    /// # Errors
    /// If they cannot be listed.
    pub(crate) fn note_programs(&mut self) -> Result<()> {
        self.inventory(Side::A)?.note(&mut self.verified);
        Ok(())
    }

    /// Describes what the nodes left behind in a guest.
    ///
    /// # Errors
    /// If the guest does not answer.
    pub(crate) fn left_behind(&mut self, side: Side) -> Result<Option<String>> {
        let mut left = vec![];
        left.extend(self.inventory(side)?.more_than(&self.before[side as usize]));
        if self.run(side, "pidof tiercel", ASK_LIMIT)?.is_ok() {
            left.push("a process".to_owned());
        }
        Ok((!left.is_empty()).then(|| left.join(", ")))
    }

    /// Starts a node without waiting for it.
    ///
    /// # Errors
    /// If the guest does not answer.
    pub(crate) fn begin_node(&mut self, side: Side) -> Result<()> {
        let (address, options) = (side.address(), self.nic.up_options());
        self.must(
            side,
            &format!(
                "rm -f /tmp/up.*; setsid sh -c 'tiercel up --interface eth0 --address {address} --receive-dir \
                 /tmp/inbox {options} >/tmp/up.log 2>&1 </dev/null; echo $? >/tmp/up.code' >/dev/null 2>&1 &"
            ),
        )
        .map(drop)
    }

    /// Waits until a starting node answers, and returns its status. The inner error is the output of a node that
    /// has ended.
    ///
    /// # Errors
    /// If it neither answers nor ends.
    pub(crate) fn await_node(&mut self, side: Side) -> Result<Result<Value, String>> {
        const LOOK: &str =
            "if [ -e /tmp/up.code ]; then cat /tmp/up.log; exit 100; fi; timeout 5 tiercel status --json";
        let patience = self.patience.clone();
        patience.until("an answer of the node", LOAD_LIMIT, || {
            let output = self.run(side, LOOK, ASK_LIMIT)?;
            Ok(match output.code {
                0 => serde_json::from_str(&output.text).ok().map(Ok),
                100 => Some(Err(output.text)),
                _ => None,
            })
        })
    }

    /// Starts both nodes, unless they are up.
    ///
    /// # Errors
    /// With the sentence of a node that refuses to start.
    pub(crate) fn up(&mut self) -> Result<()> {
        if let Some(reason) = &self.broken {
            bail!("{reason}");
        }
        if self.up {
            return Ok(());
        }
        self.connection = None;
        for side in Side::BOTH {
            self.begin_node(side)?;
        }
        for side in Side::BOTH {
            self.await_node(side)?.map_err(|log| anyhow::anyhow!(sentence(&log)))?;
        }
        self.up = true;
        if self.verified.is_empty() {
            self.note_programs()?;
        }
        Ok(())
    }

    /// Records that nodes do not start here. No scenario that needs nodes is run after that.
    pub(crate) fn give_up(&mut self, reason: &str) {
        self.broken = Some(reason.to_owned());
    }

    pub(crate) fn has_given_up(&self) -> bool {
        self.broken.is_some()
    }

    /// Stops both nodes with `tiercel down`, and waits until their processes have ended.
    ///
    /// # Errors
    /// If a node refuses or does not end.
    pub(crate) fn down(&mut self) -> Result<()> {
        (self.up, self.connection) = (false, None);
        for side in Side::BOTH {
            let output = self.run(side, "tiercel down", ASK_LIMIT)?;
            ensure!(output.is_ok(), "tiercel down: {}", last_line(output.text.as_bytes()));
            self.wait_for(side, "the end of the node", "! pidof tiercel")?;
        }
        Ok(())
    }

    /// Kills both nodes in whatever state they are, and restores the network and the cards.
    ///
    /// # Errors
    /// If a guest does not answer.
    pub(crate) fn clear(&mut self) -> Result<()> {
        (self.up, self.connection) = (false, None);
        self.network.lose_nothing();
        for side in Side::BOTH {
            self.set_carrier(side, true)?;
            self.run(side, "killall -9 tiercel; rm -f /tmp/inbox/*", ASK_LIMIT)?;
            self.wait_for(side, "the end of the node", "! pidof tiercel")?;
            self.set_up_card(side, PLAIN_MTU)?;
        }
        Ok(())
    }

    /// Connects A to B, unless they are connected.
    ///
    /// # Errors
    /// With the error of `tiercel conn connect`.
    pub(crate) fn connect(&mut self) -> Result<u64> {
        self.up()?;
        if let Some(cid) = self.connection {
            return Ok(cid);
        }
        let cid = self.connect_with(CONGESTION)?;
        self.connection = Some(cid);
        Ok(cid)
    }

    /// Connects A to B with options of `tiercel conn cc` at both ends, and returns A's CID.
    ///
    /// # Errors
    /// With the error of `tiercel`.
    pub(crate) fn connect_with(&mut self, options: &str) -> Result<u64> {
        self.up()?;
        let peer = Side::B.address();
        let text = self.tiercel(&format!("conn connect {peer} {options} --json"), ASK_LIMIT)?;
        let value: Value = serde_json::from_str(&text).context("conn connect says no JSON")?;
        let cid = |name: &str| value[name].as_u64().with_context(|| format!("no {name} in {text}"));
        self.must(Side::B, &format!("tiercel conn cc {} {options}", cid("peer_cid")?))?;
        cid("local_cid")
    }

    /// Stops using the connection.
    pub(crate) fn forget_connection(&mut self) {
        self.connection = None;
    }

    /// Runs `tiercel` in guest A and returns its output.
    ///
    /// # Errors
    /// With the last line of its output.
    pub(crate) fn tiercel(&mut self, arguments: &str, limit: Duration) -> Result<String> {
        let output = self.run(Side::A, &format!("tiercel {arguments}"), limit)?;
        if !output.is_ok() {
            let command = arguments.split(" --").next().unwrap_or_default().trim();
            bail!("`tiercel {command}` ended with code {}: {}", output.code, sentence(&output.text));
        }
        Ok(output.text)
    }

    /// Copies a file of this many bytes from A to B, or with READ from B to A, and compares both ends.
    ///
    /// # Errors
    /// If the copy fails or differs.
    pub(crate) fn copy(&mut self, via: &str, bytes: u64) -> Result<()> {
        let cid = self.connect()?;
        self.copy_over(cid, via, bytes)
    }

    /// Like [`Self::copy`], over a given connection.
    ///
    /// # Errors
    /// Those of [`Self::copy`].
    pub(crate) fn copy_over(&mut self, cid: u64, via: &str, bytes: u64) -> Result<()> {
        let make = format!("head -c {bytes} /dev/urandom >/tmp/file && sha256sum </tmp/file");
        let from = if via == "read" { Side::B } else { Side::A };
        let sum = self.must(from, &make)?;
        let copy = match via {
            "read" => {
                self.must(from, "mv /tmp/file /tmp/inbox/file")?;
                format!("cp --via read --overwrite {cid}:file /tmp/file")
            }
            _ => {
                // A node lets its peers replace nothing, unless it is told to.
                self.must(Side::B, "rm -f /tmp/inbox/file")?;
                format!("cp --via {via} /tmp/file {cid}:")
            }
        };
        self.tiercel(&copy, COPY_LIMIT)?;
        let arrived = match via {
            "read" => self.must(Side::A, "sha256sum </tmp/file")?,
            _ => self.must(Side::B, "sha256sum </tmp/inbox/file")?,
        };
        ensure!(sum == arrived, "the file that came by {via} is another one");
        Ok(())
    }
}

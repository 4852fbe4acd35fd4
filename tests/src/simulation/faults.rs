//! What goes wrong in a scenario in addition to the impairments of its fabric.

use core::fmt;

use fabric_model::{FabricConfig, Impairments, Span, Time};
use transport_common::packet_delivery::Window;

use super::hostile::Forgery;

/// One fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// When it happens.
    pub at: Time,
    /// What happens.
    pub kind: FaultKind,
}

/// The kind of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The CPU of a host stops for so long. Frames wait for it.
    Pause {
        /// The host.
        host: usize,
        /// How long.
        length: Span,
    },
    /// The node of a host is stopped for so long: neither its engine nor its application runs. The applications of its peers
    /// do nothing meanwhile.
    Stop {
        /// The host.
        host: usize,
        /// How long.
        length: Span,
        /// Whether its card goes on to receive, as for a node whose process is stopped. Otherwise the whole machine is
        /// stopped, and frames are lost.
        receives: bool,
    },
    /// The application of a host neither posts nor polls for so long.
    Silence {
        /// The host.
        host: usize,
        /// How long.
        length: Span,
    },
    /// A thread of the application of a host pauses for so long. The others go on.
    Stall {
        /// The host.
        host: usize,
        /// The thread.
        thread: Thread,
        /// How long.
        length: Span,
    },
    /// The application of a host takes no completion until a queue of them has been full for a time.
    Hoard {
        /// The host.
        host: usize,
        /// For how long a queue is full.
        full: Span,
        /// For how long at most, if no queue gets full.
        length: Span,
        /// Number of a link that is closed when a queue is full, and opened again as by [`Self::Reopen`].
        closes: Option<usize>,
    },
    /// Something else takes the receive cells of a host that are free, for so long.
    Shortage {
        /// The host.
        host: usize,
        /// Number of free cells that are left to it.
        left: usize,
        /// How long.
        length: Span,
    },
    /// The end of a [`Self::Shortage`].
    Relief {
        /// The host.
        host: usize,
    },
    /// Every frame between two hosts is lost for so long.
    Partition {
        /// The hosts.
        hosts: [usize; 2],
        /// How long.
        length: Span,
    },
    /// A host acknowledges late for so long. It goes on to answer requests, which is legal (D-54).
    Late {
        /// The host.
        host: usize,
        /// What it does not acknowledge.
        lateness: Lateness,
        /// How long.
        length: Span,
    },
    /// The clock of a host jumps forward.
    ClockStep {
        /// The host.
        host: usize,
        /// By how much.
        by: Span,
    },
    /// Somebody else sends frames to a host.
    Hostile {
        /// The host.
        host: usize,
        /// How many.
        frames: u32,
        /// What they are.
        forgery: Forgery,
    },
    /// Both ends of a link close it, and open it again as soon as it is closed: with the same slots and CIDs, while frames
    /// of the old connection are still on their way and runs still have them in hand.
    Reopen {
        /// Number of the link. If it was opened again before, its successor.
        link: usize,
        /// Wait until a run at one of its hosts has made its step and not yet sent its packet. Such runs go on when
        /// the link is open again.
        amid_run: bool,
    },
    /// A host loses power and starts again. Its peers notice nothing but silence. Then its connections are opened
    /// again, with the same CIDs.
    Restart {
        /// The host.
        host: usize,
    },
}

/// A thread of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thread {
    /// It takes the completions.
    Completions,
    /// It posts receives.
    Receives,
}

/// What a host does not acknowledge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lateness {
    /// No packet of this window.
    Window(Window),
    /// The oldest packet of each window. What is behind it, it acknowledges.
    Oldest,
}

impl Lateness {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Window(Window::Data), Self::Window(Window::Request), Self::Oldest];

    /// Returns what a host with it has acknowledged late, as [`Reached`](super::Reached) counts it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Window(Window::Data) => "late_data",
            Self::Window(Window::Request) => "late_requests",
            Self::Oldest => "late_oldest",
        }
    }
}

impl FaultKind {
    /// Whether hosts get packets that are not of their present connections.
    #[must_use]
    pub const fn brings_strange_packets(self) -> bool {
        matches!(
            self,
            Self::Hostile { .. }
                | Self::Restart { .. }
                | Self::Reopen { .. }
                | Self::Hoard { closes: Some(_), .. }
        )
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            FaultKind::Pause { host, length } => write!(f, "host {host} pauses for {length:?}"),
            FaultKind::Stop { host, length, receives } => {
                let what = if receives { "node" } else { "machine" };
                write!(f, "the {what} of host {host} is stopped for {length:?}")
            }
            FaultKind::Partition { hosts: [a, b], length } => {
                write!(f, "no frame passes between hosts {a} and {b} for {length:?}")
            }
            FaultKind::Silence { host, length } => {
                write!(f, "the application of host {host} does nothing for {length:?}")
            }
            FaultKind::Stall { host, thread, length } => {
                let what = match thread {
                    Thread::Completions => "takes no completion",
                    Thread::Receives => "posts no receive",
                };
                write!(f, "the application of host {host} {what} for {length:?}")
            }
            FaultKind::Hoard { host, full, length, closes } => {
                write!(
                    f,
                    "the application of host {host} takes no completion until a queue of them has been full"
                )?;
                write!(f, " for {full:?}, or for {length:?}")?;
                closes.map_or(Ok(()), |link| write!(f, "; link {link} is closed then, and opened again"))
            }
            FaultKind::Late { host, lateness, length } => {
                let what = match lateness {
                    Lateness::Window(Window::Data) => "no packet of the data window",
                    Lateness::Window(Window::Request) => "no request",
                    Lateness::Oldest => "all but the oldest packet of each window",
                };
                write!(f, "host {host} acknowledges {what} for {length:?}")
            }
            FaultKind::Shortage { host, left, length } => {
                write!(f, "host {host} has {left} free receive cells for {length:?}")
            }
            FaultKind::Relief { host } => write!(f, "host {host} has its receive cells again"),
            FaultKind::ClockStep { host, by } => write!(f, "the clock of host {host} jumps by {by:?}"),
            FaultKind::Hostile { host, frames, forgery } => {
                write!(f, "{frames} hostile frames ({forgery:?}) to host {host}")
            }
            FaultKind::Reopen { link, amid_run: false } => {
                write!(f, "link {link} is closed and opened again")
            }
            FaultKind::Reopen { link, amid_run: true } => {
                write!(f, "link {link} is closed and opened again in the middle of a run")
            }
            FaultKind::Restart { host } => write!(f, "host {host} restarts"),
        }
    }
}

/// What the network does to frames, by kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weather {
    /// Loss, also in bursts.
    Loss,
    /// Reordering.
    Reorder,
    /// Duplication.
    Duplicate,
    /// Corruption.
    Corrupt,
    /// A rate, and with it a queue that overflows and marks.
    Rate,
}

impl Weather {
    /// All kinds.
    pub const ALL: [Self; 5] = [Self::Loss, Self::Reorder, Self::Duplicate, Self::Corrupt, Self::Rate];

    /// Returns the name of the kind.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Loss => "loss",
            Self::Reorder => "reorder",
            Self::Duplicate => "duplicate",
            Self::Corrupt => "corrupt",
            Self::Rate => "rate",
        }
    }

    /// Ends it in a fabric. Returns false if the fabric had none of it.
    pub fn end(self, fabric: &mut FabricConfig) -> bool {
        let (before, link) = (fabric.clone(), &mut fabric.common);
        let calm = Impairments::default();
        match self {
            Self::Loss => (link.loss, link.burst) = (calm.loss, calm.burst),
            Self::Reorder => link.reorder = calm.reorder,
            Self::Duplicate => link.duplicate = calm.duplicate,
            Self::Corrupt => link.corrupt = calm.corrupt,
            Self::Rate => (link.rate, link.ecn) = (calm.rate, calm.ecn),
        }
        *fabric != before
    }
}

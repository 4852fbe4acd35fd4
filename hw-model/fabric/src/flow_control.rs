//! Priority flow control (IEEE 802.1Q, clause 36): a switch whose memory fills tells hosts to pause.

use super::buffer::Alpha;
use super::header::Address;
use super::quantity::ByteCount;

/// Destination address of MAC control frames. Bridges do not forward it.
const CONTROL_ADDRESS: Address = [0x01, 0x80, 0xc2, 0, 0, 1];
/// The Ethertype of MAC control, and the opcode of priority flow control.
const MAC_CONTROL: [u8; 4] = [0x88, 0x08, 0x01, 0x01];
/// Length of the shortest Ethernet frame without its check sequence.
const LENGTH: usize = 60;
/// The only priority in this model. By convention RoCE uses 3.
const PRIORITY: usize = 3;
const ENABLED: usize = 14 + 2 + 1;
const TIMES: usize = 14 + 4;

/// The number of bytes that a host may have in a switch's memory before it is paused. The destination of the
/// frames does not matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PauseThreshold {
    /// A threshold that depends on the free memory: `alpha` times the memory that is neither used nor headroom
    /// (section 4 of Zhu et al., "Congestion control for large-scale RDMA deployments", SIGCOMM 2015).
    Dynamic {
        /// Memory of each switch.
        buffer: ByteCount,
        /// The part of the memory that is reserved for frames that come before a pause takes effect, for all ports
        /// together.
        headroom: ByteCount,
        /// Factor between the free memory and the threshold.
        alpha: Alpha,
    },
    /// A fixed threshold.
    Static(ByteCount),
}

/// The conditions under which a switch pauses the hosts at its ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowControl {
    /// A host with more bytes than this is paused.
    pub threshold: PauseThreshold,
    /// A paused host resumes when its bytes are this far below the threshold. It is two frames in the paper.
    pub hysteresis: ByteCount,
}

/// The memory of one switch, counted by the port that the frames came from.
#[derive(Debug)]
pub(super) struct IngressMemory {
    config: FlowControl,
    used: u64,
    /// The bytes of each port, and true if its host is paused.
    ports: Vec<(u64, bool)>,
}

impl IngressMemory {
    pub(super) fn new(config: FlowControl, ports: u16) -> Self {
        Self { config, used: 0, ports: vec![(0, false); ports.into()] }
    }

    fn threshold(&self) -> u64 {
        let (buffer, headroom, alpha) = match self.config.threshold {
            PauseThreshold::Dynamic { buffer, headroom, alpha } => (buffer, headroom, alpha),
            PauseThreshold::Static(bytes) => return bytes.0,
        };
        let free = buffer.0.saturating_sub(headroom.0 + self.used);
        let scaled = u128::from(free) * u128::from(alpha.numerator) / u128::from(alpha.denominator.get());
        u64::try_from(scaled).unwrap_or(u64::MAX)
    }

    /// Counts a stored frame from a port. Returns true if the port has to be paused.
    pub(super) fn store(&mut self, port: usize, bytes: u64) -> bool {
        self.used += bytes;
        let threshold = self.threshold();
        let (held, paused) = &mut self.ports[port];
        *held += bytes;
        let pauses = !*paused && *held > threshold;
        *paused |= pauses;
        pauses
    }

    /// Releases a frame from a port that has left. Returns the ports that may resume.
    pub(super) fn release(&mut self, port: usize, bytes: u64) -> Vec<usize> {
        self.used -= bytes;
        self.ports[port].0 -= bytes;
        let limit = self.threshold().saturating_sub(self.config.hysteresis.0);
        let mut resumed = vec![];
        for (number, (held, paused)) in self.ports.iter_mut().enumerate() {
            // A host without stored frames always resumes, because no later release would resume it.
            if *paused && (*held <= limit || *held == 0) {
                *paused = false;
                resumed.push(number);
            }
        }
        resumed
    }
}

/// Returns the frame that pauses or resumes a host.
///
/// A pause has the longest possible time, 65,535 times 512 bits. A real switch renews it before it ends. The model
/// does not: its pause lasts until the frame that ends it.
pub(super) fn frame(pauses: bool) -> Vec<u8> {
    let mut frame = vec![0; LENGTH];
    frame[..6].copy_from_slice(&CONTROL_ADDRESS);
    frame[12..16].copy_from_slice(&MAC_CONTROL);
    frame[ENABLED] = 1 << PRIORITY;
    let time = if pauses { u16::MAX } else { 0 };
    frame[TIMES + 2 * PRIORITY..TIMES + 2 * PRIORITY + 2].copy_from_slice(&time.to_be_bytes());
    frame
}

/// Reads a frame of priority flow control. Returns true for a pause, false for a resumption, and `None` for any
/// other frame.
#[must_use]
pub fn pauses(frame: &[u8]) -> Option<bool> {
    let time = frame.get(TIMES + 2 * PRIORITY..TIMES + 2 * PRIORITY + 2)?;
    let is_ours = frame[12..16] == MAC_CONTROL && frame[ENABLED] & 1 << PRIORITY != 0;
    is_ours.then_some(time != [0, 0])
}

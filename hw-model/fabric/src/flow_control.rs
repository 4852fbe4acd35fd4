//! Priority flow control (IEEE 802.1Q, clause 36): a switch whose memory fills tells the hosts to pause.

use super::buffer::Alpha;
use super::header::Address;
use super::quantity::ByteCount;

/// Address of MAC control frames, which no bridge forwards.
const CONTROL_ADDRESS: Address = [0x01, 0x80, 0xc2, 0, 0, 1];
/// Ethertype of MAC control, and the opcode of priority flow control.
const MAC_CONTROL: [u8; 4] = [0x88, 0x08, 0x01, 0x01];
/// Ethernet's shortest frame without its check sequence.
const LENGTH: usize = 60;
/// The only priority in use here: 3, which RoCE has by custom.
const PRIORITY: usize = 3;
const ENABLED: usize = 14 + 2 + 1;
const TIMES: usize = 14 + 4;

/// How much a host may have in a switch's memory, to wherever its frames go, before it is paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PauseThreshold {
    /// Section 4 of Zhu et al., "Congestion control for large-scale RDMA deployments", SIGCOMM 2015: what is free sets
    /// it, `alpha` times the memory that is neither used nor headroom.
    Dynamic {
        /// Memory of each switch.
        buffer: ByteCount,
        /// Of it, what is kept for frames that come before a pause takes effect, all ports together.
        headroom: ByteCount,
        /// Share of the free memory.
        alpha: Alpha,
    },
    /// So much, whatever is free.
    Static(ByteCount),
}

/// When a switch pauses the hosts at its ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowControl {
    /// Above it a host is paused.
    pub threshold: PauseThreshold,
    /// How far below the threshold a paused host goes on: two frames in the paper.
    pub hysteresis: ByteCount,
}

/// The memory of one switch, by the port its frames came from.
#[derive(Debug)]
pub(super) struct IngressMemory {
    config: FlowControl,
    used: u64,
    /// Bytes, and whether the host is paused.
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

    /// A frame from a port is stored. True: pause the port.
    pub(super) fn store(&mut self, port: usize, bytes: u64) -> bool {
        self.used += bytes;
        let threshold = self.threshold();
        let (held, paused) = &mut self.ports[port];
        *held += bytes;
        let pauses = !*paused && *held > threshold;
        *paused |= pauses;
        pauses
    }

    /// A frame from a port has left. The ports that may go on.
    pub(super) fn release(&mut self, port: usize, bytes: u64) -> Vec<usize> {
        self.used -= bytes;
        self.ports[port].0 -= bytes;
        let limit = self.threshold().saturating_sub(self.config.hysteresis.0);
        let mut resumed = vec![];
        for (number, (held, paused)) in self.ports.iter_mut().enumerate() {
            // With nothing stored there is nothing to wait for.
            if *paused && (*held <= limit || *held == 0) {
                *paused = false;
                resumed.push(number);
            }
        }
        resumed
    }
}

/// The frame that pauses a host, or lets it go on.
///
/// A pause has the longest time there is, 65,535 times 512 bits; a switch renews it before it is over, which is left out
/// here: the pause lasts until the frame that ends it.
pub(super) fn frame(pauses: bool) -> Vec<u8> {
    let mut frame = vec![0; LENGTH];
    frame[..6].copy_from_slice(&CONTROL_ADDRESS);
    frame[12..16].copy_from_slice(&MAC_CONTROL);
    frame[ENABLED] = 1 << PRIORITY;
    let time = if pauses { u16::MAX } else { 0 };
    frame[TIMES + 2 * PRIORITY..TIMES + 2 * PRIORITY + 2].copy_from_slice(&time.to_be_bytes());
    frame
}

/// What a frame of priority flow control says: true to pause, false to go on; `None` if it is another frame.
#[must_use]
pub fn pauses(frame: &[u8]) -> Option<bool> {
    let time = frame.get(TIMES + 2 * PRIORITY..TIMES + 2 * PRIORITY + 2)?;
    let is_ours = frame[12..16] == MAC_CONTROL && frame[ENABLED] & 1 << PRIORITY != 0;
    is_ours.then_some(time != [0, 0])
}

//! The maps that only the node reads: counters, delays, and the ring with the recorded runs.

use std::io;
use std::sync::Mutex;

use aya::maps::{MapData, PerCpuArray, PerCpuValues, RingBuf};
use tiercel::Error;
use transport_common::congestion::histogram::DelayHistogram;
use transport_common::counters::Counter;

/// The ring with the recorded runs.
pub(crate) type TraceRing = RingBuf<MapData>;

/// What a node counts and measures.
pub(crate) struct Instruments {
    pub(crate) counters: PerCpuArray<MapData, u64>,
    pub(crate) delays: PerCpuArray<MapData, DelayHistogram>,
    /// The ring with the recorded runs. `None` while a trace has it, from its begin to its end.
    pub(crate) trace: Mutex<Option<TraceRing>>,
    pub(crate) trace_lost: PerCpuArray<MapData, u64>,
}

impl std::fmt::Debug for Instruments {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Instruments").finish_non_exhaustive()
    }
}

impl Instruments {
    /// Returns the value of a counter, summed over all CPUs.
    pub(crate) fn counter(&self, counter: Counter) -> Result<u64, Error> {
        let values = self.counters.get(&(counter as u32), 0);
        let values = values.map_err(|e| Error::system("read the counters", io::Error::other(e)))?;
        // One CPU takes back what another has counted: see `transport-ebpf/src/transmit.rs`.
        Ok(values.iter().fold(0, |sum, value| sum.wrapping_add(*value)))
    }

    /// Returns the number of runs, since the node came up, that were not recorded because the ring was full.
    pub(crate) fn trace_lost(&self) -> Result<u64, Error> {
        let values = self.trace_lost.get(&0, 0);
        let values = values.map_err(|e| Error::system("read the count of lost runs", io::Error::other(e)))?;
        Ok(values.iter().sum())
    }

    /// Returns the histograms of the delays of all acknowledgements, by CPU.
    pub(crate) fn delays(&self) -> Result<PerCpuValues<DelayHistogram>, Error> {
        self.delays.get(&0, 0).map_err(|e| Error::system("read the delays", io::Error::other(e)))
    }
}

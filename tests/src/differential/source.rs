//! The source of cases: snapshots of simulations.

use std::collections::HashSet;

use anyhow::Result;
use host_nic::HostNic;
use rand::Rng;
use rand::rngs::StdRng;
use transport_common::ids::{Cid, Slot};

use super::frame::{Places, fit_checksums, fit_lengths, packet_type, word};
use super::{Case, Harness, Stimulus};
use crate::simulation::Observer;

/// The host that the kernel replaces.
const HOST: usize = 0;
/// One in this number of steps of that host is used.
const FRAMES_SKIPPED: u32 = 4;
const TURNS_SKIPPED: u32 = 6;
/// Number of mutated copies of each case.
const COPIES: u32 = 5;

/// Takes snapshots of a simulation's host 0 and plays them, unchanged and mutated.
pub struct Source<'a> {
    harness: &'a mut Harness,
    rng: &'a mut StdRng,
    /// The largest number of frames and services to play.
    wanted: [u64; 2],
    /// Packet types, by IP version and tag, whose frames were cut to every length.
    cut: &'a mut HashSet<(u8, usize)>,
    /// The error, if there was one.
    pub error: Option<anyhow::Error>,
}

impl<'a> Source<'a> {
    /// Creates a source for one simulation. `cut` is kept from one simulation to the next.
    pub fn new(
        harness: &'a mut Harness,
        rng: &'a mut StdRng,
        wanted: [u64; 2],
        cut: &'a mut HashSet<(u8, usize)>,
    ) -> Self {
        Self { harness, rng, wanted, cut, error: None }
    }

    fn is_wanted(&mut self, kind: usize, skipped: u32) -> bool {
        let wanted = self.error.is_none() && self.harness.played[kind] < self.wanted[kind];
        wanted && self.rng.random_range(0..skipped) == 0
    }

    fn play(&mut self, case: &Case) -> Result<()> {
        self.harness.play(case.duplicate(), self.rng)?;
        for _ in 0..COPIES {
            let mut copy = case.duplicate();
            if self.rng.random_bool(0.7) {
                copy.bend_frame(self.rng);
            }
            let strokes = self.rng.random_range(0..4);
            copy.bend_context(self.rng, strokes);
            self.harness.play(copy, self.rng)?;
        }
        Ok(())
    }

    fn frame(&mut self, nic: &HostNic, slots: &[usize], frame: &[u8]) -> Result<()> {
        let Some(places) = Places::of(frame) else { return Ok(()) };
        let slot = Slot::of(Cid(word(frame, places.falcon).unwrap_or(0))).index();
        if !slots.contains(&slot) {
            return Ok(());
        }
        let case = Case::snapshot(nic, slot, Stimulus::Frame(frame.to_vec()));
        let kind = (packet_type(frame, &places), places.falcon);
        if frame.len() < 400 && self.cut.insert(kind) {
            for cut in truncations(&case) {
                self.harness.play(cut, self.rng)?;
            }
        }
        self.play(&case)
    }

    fn turn(&mut self, nic: &HostNic, slots: &[usize]) -> Result<()> {
        let slot = slots[self.rng.random_range(0..slots.len())];
        let fired = self.rng.random_bool(0.5);
        let looks = fired || self.rng.random_bool(0.2);
        self.play(&Case::snapshot(nic, slot, Stimulus::Turn { fired, looks }))
    }
}

/// Plays a case with its frame cut to every length, with unchanged lengths and checksums and with corrected ones.
pub fn truncations(case: &Case) -> impl Iterator<Item = Case> {
    let Stimulus::Frame(frame) = &case.stimulus else { panic!("only frames can be cut") };
    let lengths = (14..frame.len()).flat_map(|length| [(length, false), (length, true)]);
    lengths.map(move |(length, right)| {
        let mut cut = frame[..length].to_vec();
        if right {
            fit_lengths(&mut cut);
            fit_checksums(&mut cut);
        }
        Case { stimulus: Stimulus::Frame(cut), ..case.duplicate() }
    })
}

impl Observer for Source<'_> {
    fn before_receive(&mut self, host: usize, nic: &HostNic, slots: &[usize], frame: &[u8]) {
        if host == HOST && self.is_wanted(0, FRAMES_SKIPPED) {
            self.error = self.frame(nic, slots, frame).err();
        }
    }

    fn before_engine(&mut self, host: usize, nic: &HostNic, slots: &[usize]) {
        if host == HOST && !slots.is_empty() && self.is_wanted(1, TURNS_SKIPPED) {
            self.error = self.turn(nic, slots).err();
        }
    }
}

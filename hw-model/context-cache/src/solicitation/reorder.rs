//! A reorder buffer: values come in any order and leave in the order of their numbers.

use std::collections::VecDeque;

use super::message::SolicitationError;

/// How many numbers from the base on the buffer accepts.
pub(super) const WINDOW: u32 = 1024;

/// Keeps values that come early. Numbers wrap at 2^32.
#[derive(Clone, Debug)]
pub(super) struct Reorder<T> {
    base: u32,
    kept: VecDeque<Option<T>>,
}

impl<T> Reorder<T> {
    pub(super) const fn new(base: u32) -> Self {
        Self { base, kept: VecDeque::new() }
    }

    /// Returns the first number that has not left.
    pub(super) const fn base(&self) -> u32 {
        self.base
    }

    pub(super) fn insert(&mut self, number: u32, value: T) -> Result<(), SolicitationError> {
        let ahead = number.wrapping_sub(self.base);
        let error = SolicitationError::OutOfWindow { number, base: self.base, window: WINDOW };
        if ahead >= WINDOW {
            return Err(error);
        }
        while self.kept.len() <= ahead as usize {
            self.kept.push_back(None);
        }
        let place = &mut self.kept[ahead as usize];
        if place.is_some() {
            return Err(error);
        }
        *place = Some(value);
        Ok(())
    }

    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.kept.get_mut(number.wrapping_sub(self.base) as usize)?.as_mut()
    }

    /// Returns the next value, if it has come.
    pub(super) fn first(&self) -> Option<&T> {
        self.kept.front()?.as_ref()
    }

    /// Takes the next value, if it has come and `may` allows it to leave.
    pub(super) fn take_if(&mut self, may: impl FnOnce(&T) -> bool) -> Option<T> {
        if !self.first().is_some_and(may) {
            return None;
        }
        self.base = self.base.wrapping_add(1);
        self.kept.pop_front().flatten()
    }
}

//! A shard in one piece, for hosts: one thread has all of it.

use super::{NodePage, Parts, Scheduler, Wheel};
use crate::ids::CellId;
use crate::resources::CELLS;
use bytemuck::Zeroable;
use core::sync::atomic::Ordering::Relaxed;

/// Numbers of free receive cells. The last one is taken next.
struct FreeCells {
    numbers: [CellId; CELLS],
    free: usize,
    /// Number of cells, free or in use.
    cells: usize,
}

/// A shard in one piece. Its engine never sleeps.
pub struct Shard {
    /// Doorbells, and the state of the engine.
    pub page: NodePage,
    /// The deadlines of the connections.
    pub wheel: Wheel,
    /// Where the engine is in its round.
    pub scheduler: Scheduler,
    cells: FreeCells,
}

impl Shard {
    /// Creates a shard in which nothing asks for a service, and the cells from 1 to `cells` are free.
    ///
    /// # Panics
    /// Panics if there are more than [`CELLS`].
    #[must_use]
    pub fn new(cells: usize) -> Self {
        assert!(cells <= CELLS, "{cells} cells are too many: the maximum is {CELLS}");
        Self {
            page: NodePage::zeroed(),
            wheel: Wheel::new(),
            scheduler: Scheduler::default(),
            cells: FreeCells { numbers: core::array::from_fn(|n| CellId::at(n as u32)), free: cells, cells },
        }
    }

    /// Returns the free receive cells. The last one is taken next.
    pub fn free_cells(&self) -> &[CellId] {
        &self.cells.numbers[..self.cells.free]
    }

    /// Replaces the free receive cells. The last one is taken next. All others count as in use.
    ///
    /// # Panics
    /// Panics if there are more than the shard has.
    pub fn set_free_cells(&mut self, cells: &[CellId]) {
        let all = self.cells.cells;
        assert!(cells.len() <= all, "{} free cells are too many: there are {all}", cells.len());
        self.cells.numbers[..cells.len()].copy_from_slice(cells);
        self.cells.free = cells.len();
        self.page.cells_in_use.store((all - cells.len()) as u64, Relaxed);
    }
}

impl Parts for Shard {
    fn page(&self) -> Option<&NodePage> {
        Some(&self.page)
    }

    fn round(&mut self) -> Option<(&NodePage, &mut Scheduler)> {
        Some((&self.page, &mut self.scheduler))
    }

    fn wheel<'a>(&'a mut self) -> Option<(&'a mut Wheel, impl FnOnce() -> Option<&'a NodePage>)> {
        let Self { page, wheel, .. } = self;
        Some((wheel, || Some(&*page)))
    }

    fn take_cell(&mut self) -> Option<CellId> {
        let free = self.cells.free.checked_sub(1)?;
        self.cells.free = free;
        Some(self.cells.numbers[free])
    }

    fn put_cell(&mut self, cell: CellId) -> bool {
        let fits = self.cells.free < self.cells.cells;
        if fits {
            self.cells.numbers[self.cells.free] = cell;
            self.cells.free += 1;
        }
        fits
    }

    fn wake_thread(&self, _: u32) {}
}

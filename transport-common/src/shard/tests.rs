//! Tests of a shard in one piece, and of a platform that counts how often the engine's thread is woken.

use super::*;
use crate::resources::CELLS;
use core::cell::Cell;

/// A shard whose engine has a thread.
struct Threaded {
    shard: Shard,
    woken: Cell<u32>,
}

impl Parts for Threaded {
    fn page(&self) -> Option<&NodePage> {
        self.shard.page()
    }

    fn round(&mut self) -> Option<(&NodePage, &mut Scheduler)> {
        self.shard.round()
    }

    fn wheel<'a>(&'a mut self) -> Option<(&'a mut Wheel, impl FnOnce() -> Option<&'a NodePage>)> {
        self.shard.wheel()
    }

    fn take_cell(&mut self) -> Option<CellId> {
        self.shard.take_cell()
    }

    fn put_cell(&mut self, cell: CellId) -> bool {
        self.shard.put_cell(cell)
    }

    fn wake_thread(&self, _: u32) {
        self.woken.set(self.woken.get() + 1);
    }
}

#[test]
fn sleeping_engine_is_woken_once_and_only_for_what_it_would_miss() {
    let threaded = Threaded { shard: Shard::new(1), woken: Cell::new(0) };
    let page = &threaded.shard.page;
    threaded.wake(3);
    assert_eq!((page.wakeups.load(Relaxed), threaded.woken.get()), (0, 0), "it is awake");
    assert!(!page.begin_sleep(Picoseconds(0)), "the doorbell rang before");
    page.end_sleep();
    threaded.answer(3);
    let planned = Picoseconds(1_000_000);
    assert!(page.begin_sleep(planned.after(SLEEPERS_SLACK)));
    threaded.wake_by(3, planned);
    assert_eq!((page.wakeups.load(Relaxed), threaded.woken.get()), (0, 0), "it wakes up in time");
    threaded.wake_by(4, Picoseconds(0));
    threaded.wake(5);
    assert_eq!((page.wakeups.load(Relaxed), threaded.woken.get()), (1, 1));
    assert_eq!(page.ready.bits()[0], 1 << 3 | 1 << 4 | 1 << 5);
}

#[test]
fn engine_serves_round_robin_until_it_answers() {
    let mut shard = Shard::new(1);
    shard.scheduler.next = 70;
    [3, 70].iter().for_each(|slot| shard.wake(*slot));
    assert_eq!([(); 3].map(|()| shard.next_ready()), [Some(70), Some(3), Some(70)]);
    assert_eq!(shard.scheduler.next, 71);
    shard.answer(70);
    shard.answer(3);
    assert_eq!((shard.next_ready(), shard.scheduler.next), (None, 71));
}

#[test]
fn next_deadline_is_published_whenever_the_wheel_moves() {
    let mut shard = Shard::new(1);
    let now = Picoseconds(1 << 40);
    let next = |shard: &Shard| shard.page.next_deadline.load(Relaxed);
    shard.file(7, now, Ticks(1000));
    let due = WheelTick::deadline(now, Ticks(1000)).start();
    assert_eq!(next(&shard), due.0);
    assert_eq!(shard.expired(now), None);
    assert_eq!((0..64).find_map(|_| shard.expired(due)), Some(7));
    assert_eq!(next(&shard), 0, "nothing is filed");
    // The first tick of the clock is not the sign for none.
    let mut shard = Shard::new(1);
    shard.file(7, Picoseconds(0), Ticks(0));
    assert_eq!(next(&shard), 1);
}

#[test]
fn cells_are_counted_and_no_more_come_back_than_were_taken() {
    let mut shard = Shard::new(3);
    assert_eq!([(); 4].map(|()| shard.allocate_cell()), [3, 2, 1, 0].map(CellId));
    assert_eq!(shard.cells_in_use(), 3);
    [2, 1, 3, 3].iter().for_each(|cell| shard.free_cell(CellId(*cell)));
    assert_eq!((shard.free_cells(), shard.cells_in_use()), (&[2, 1, 3].map(CellId)[..], 0));
    shard.set_free_cells(&[CellId(1)]);
    assert_eq!(
        (shard.cells_in_use(), shard.allocate_cell(), shard.allocate_cell()),
        (2, CellId(1), CellId::NONE)
    );
    assert_eq!(Shard::new(CELLS).free_cells().len(), CELLS);
}

#[test]
#[should_panic(expected = "4 free cells are too many: there are 3")]
fn more_free_cells_than_there_are_is_refused() {
    Shard::new(3).set_free_cells(&[1, 2, 3, 4].map(CellId));
}

#[test]
fn engine_looks_at_the_wheel_in_each_eighth_frame() {
    let page = &Shard::new(1).page;
    let looks = (1..=16).filter(|_| page.begin_frame()).count();
    assert_eq!((looks, page.frames.load(Relaxed)), (2, 16));
    page.frames.store(u64::MAX, Relaxed);
    assert!(page.begin_frame(), "the number wraps");
    [true, true, false, true].iter().for_each(|idle| page.end_frame(*idle));
    assert_eq!((page.idle_frames.load(Relaxed), page.useful_frames.load(Relaxed)), (1, 1));
}

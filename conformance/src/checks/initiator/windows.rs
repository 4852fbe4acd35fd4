//! How many requests the peer leaves open (sections 6.1.2, 8.2, 8.3 and 9.1). The tester has to know the peer's
//! windows.

use super::requests::{Burst, PULL_REQUEST, Read, Write, burst};
use crate::check::Check;
use crate::session::Session;
use crate::trigger::Operation;
use crate::verdict::{Outcome, Stop, judge};

/// With larger windows the peer would have to submit very many operations at once.
const LARGEST: u32 = 32;
/// Operations beyond the window.
const MORE: usize = 3;

pub(super) const CHECKS: &[Check] = &[
    Check::new("F-9.1.2-3", "as many pushes are open as the smaller of fcwnd and ncwnd", pushes),
    Check::new("F-9.1.2-1", "as many pulls are open as the smaller of fcwnd and ncwnd", pulls),
    Check::new("F-9.2.3-3", "an acknowledged push makes room for one more", room_for_one),
    Check::new("F-6.1.2-6", "no push leaves beyond the oldest open PSN plus fcwnd", edge),
    Check::new("F-9.1.1-6", "a Pull Request that an EACK acknowledges makes room for one more", room_by_eack),
    Check::new(
        "D-30",
        "a Pull Request that is acknowledged twice makes room for one more only",
        counted_once,
    ),
    Check::new("F-9.1.1-7", "Pull Data leaves although ncwnd pushes are open", answers_beside_pushes),
    Check::new("F-9.1.2-2", "as many Pull Data are open as fcwnd", answers),
    Check::new("F-8.3-4", "Pull Data leaves although pulls wait for the window", answers_beside_pulls),
    Check::new(
        "F-8.2.1.2-2",
        "a WRITE is acknowledged although pushes wait for the window",
        acks_beside_pushes,
    ),
    Check::unordered(
        "F-6.1.2-1",
        "a Pull Request leaves although pushes wait for the window",
        pull_beside_pushes,
    ),
];

/// The peer's windows.
#[derive(Clone, Copy)]
struct Windows {
    fcwnd: usize,
    ncwnd: usize,
}

impl Windows {
    fn of(s: &Session<'_>) -> Outcome<Self> {
        let settings = s.subject.settings;
        let (Some(fcwnd), Some(ncwnd)) = (settings.fcwnd, settings.ncwnd) else {
            return Err(Stop::Skip("give --fcwnd and --ncwnd of the peer".to_owned()));
        };
        if fcwnd.min(ncwnd) > LARGEST {
            return Err(Stop::Skip(format!(
                "the smaller of the peer's windows is larger than {LARGEST} packets"
            )));
        }
        Ok(Self { fcwnd: fcwnd as usize, ncwnd: ncwnd as usize })
    }

    /// As [`of`](Self::of), for checks in which ncwnd has to be what limits the peer.
    fn with_small_ncwnd(s: &Session<'_>) -> Outcome<Self> {
        let windows = Self::of(s)?;
        if windows.ncwnd >= windows.fcwnd || windows.ncwnd < 2 {
            return Err(Stop::Skip("needs an ncwnd from 2 to fcwnd - 1".to_owned()));
        }
        Ok(windows)
    }

    fn smaller(self) -> usize {
        self.fcwnd.min(self.ncwnd)
    }
}

/// Makes the peer submit more operations than `window`, and waits until it sends no more packets.
fn fill(s: &mut Session<'_>, operation: Operation, window: usize) -> Outcome<Burst> {
    let mut burst = burst(s, &vec![operation; window + MORE])?;
    burst.rest(s)?;
    Ok(burst)
}

/// Makes the peer leave `window` requests open, with others behind them.
fn full(s: &mut Session<'_>, operation: Operation, window: usize) -> Outcome<Burst> {
    let burst = fill(s, operation, window)?;
    let found = burst.packets.len();
    judge(found == window, format!("{window} open requests"), found)?;
    Ok(burst)
}

fn pushes(s: &mut Session<'_>) -> Outcome {
    let window = Windows::of(s)?.smaller();
    let found = fill(s, Write, window)?.packets.len();
    // A transmitter may keep room for Pull Data, which has the same window.
    judge((1..=window).contains(&found), format!("1 to {window} open pushes"), found)
}

fn pulls(s: &mut Session<'_>) -> Outcome {
    let window = Windows::of(s)?.smaller();
    full(s, Read, window).map(drop)
}

fn room_for_one(s: &mut Session<'_>) -> Outcome {
    let window = Windows::of(s)?.smaller();
    let mut burst = fill(s, Write, window)?;
    let (data, requests) = s.bases();
    s.acknowledge_below(data.add(1), requests)?;
    burst.mark(s);
    burst.expect_only(s, 1)
}

fn edge(s: &mut Session<'_>) -> Outcome {
    let Windows { fcwnd, ncwnd } = Windows::with_small_ncwnd(s)?;
    // All but the first are acknowledged, so ncwnd allows this many more.
    if fcwnd - ncwnd > ncwnd - 1 {
        return Err(Stop::Skip("needs an fcwnd below twice ncwnd".to_owned()));
    }
    let mut burst = burst(s, &vec![Write; fcwnd + MORE])?;
    burst.expect(s, ncwnd)?;
    let bits = (1 << ncwnd) - 2;
    let eack = s.eack_of(s.bases().0, bits, bits);
    s.send_eack(&eack, None)?;
    burst.mark(s);
    let (found, most) = (burst.rest(s)?, fcwnd - ncwnd);
    // As above, fewer are allowed. None would mean that the acknowledged ones count against ncwnd.
    judge((1..=most).contains(&found), format!("1 to {most} more pushes"), found)
}

/// Acknowledges the second of the open Pull Requests by an EACK.
fn acknowledge_second(s: &mut Session<'_>) -> Outcome {
    let (data, _) = s.bases();
    let mut eack = s.eack_of(data, 0, 0);
    eack.request = 0b10;
    s.send_eack(&eack, None)
}

fn room_by_eack(s: &mut Session<'_>) -> Outcome {
    let window = Windows::with_small_ncwnd(s)?.ncwnd;
    let mut burst = full(s, Read, window)?;
    acknowledge_second(s)?;
    burst.mark(s);
    burst.expect_only(s, 1)
}

fn counted_once(s: &mut Session<'_>) -> Outcome {
    let window = Windows::with_small_ncwnd(s)?.ncwnd;
    let mut burst = burst(s, &vec![Read; window + MORE])?;
    burst.expect(s, window)?;
    acknowledge_second(s)?;
    burst.expect(s, 1)?;
    let (data, requests) = s.bases();
    // The base passes both: one is acknowledged for the first time.
    s.acknowledge_below(data, requests.add(2))?;
    burst.mark(s);
    burst.expect_only(s, 1)
}

fn answers_beside_pushes(s: &mut Session<'_>) -> Outcome {
    let Windows { ncwnd, .. } = Windows::with_small_ncwnd(s)?;
    full(s, Write, ncwnd)?;
    let read = s.read(0, 8);
    s.send(&read)?;
    s.answer(&read).map(drop)
}

fn answers(s: &mut Session<'_>) -> Outcome {
    let Windows { fcwnd, .. } = Windows::of(s)?;
    if fcwnd > LARGEST as usize {
        return Err(Stop::Skip(format!("fcwnd is larger than {LARGEST} packets")));
    }
    let first = s.seen_data();
    for _ in 0..fcwnd + MORE {
        let read = s.read(0, 8).quiet();
        s.send(&read)?;
    }
    let last = first.add(fcwnd as u32 - 1);
    s.expect(&format!("Pull Data up to PSN {}", last.0), |received| received.data_psn() == Some(last))?;
    s.silence("no Pull Data beyond fcwnd", |received| {
        received.data_psn().is_some_and(|psn| last.is_before(psn))
    })?;
    // The other answers come as soon as these are acknowledged.
    let end = first.add((fcwnd + MORE) as u32 - 1);
    s.acknowledge()?;
    s.expect(&format!("Pull Data up to PSN {}", end.0), |received| received.data_psn() == Some(end))?;
    s.acknowledge()
}

fn answers_beside_pulls(s: &mut Session<'_>) -> Outcome {
    let window = Windows::of(s)?.smaller();
    full(s, Read, window)?;
    let read = s.read(0, 8);
    s.send(&read)?;
    s.answer(&read).map(drop)
}

fn acks_beside_pushes(s: &mut Session<'_>) -> Outcome {
    let window = Windows::of(s)?.smaller();
    fill(s, Write, window)?;
    s.forget()?;
    s.store(0, &[1; 8]).map(drop)
}

fn pull_beside_pushes(s: &mut Session<'_>) -> Outcome {
    let window = Windows::of(s)?.smaller();
    fill(s, Write, window)?;
    let mut burst = burst(s, &[Read])?;
    burst.expect(s, 1)?;
    let found = &burst.packets[0];
    judge(found.raw_type() == PULL_REQUEST, "a Pull Request", found.text())
}

//! Limits how many lines of the log, and events, an origin may cause.
//!
//! Each origin has a budget: it may have a burst, and after that a line whenever a part of its budget has come back.
//! All strangers together have one as well, and so have all peers, because an attacker may have many addresses. What is
//! left out is counted, so that the next line can tell the number.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::origin::Origin;

/// Most strangers, and most peers, that are told apart. Further ones share a budget.
const ORIGINS: usize = 512;

/// How many lines there may be.
#[derive(Clone, Copy, Debug)]
struct Budget {
    /// Lines that may come at once.
    burst: u32,
    /// Time after which there may be one more.
    pause: Duration,
}

/// Of one stranger. A scanner of ports or a node of another release is seen in full, a flood is not.
const STRANGER: Budget = Budget { burst: 16, pause: Duration::from_secs(1) };
/// Of all strangers.
const STRANGERS: Budget = Budget { burst: 64, pause: Duration::from_millis(250) };
/// Of one peer. It may open as many connections as the table has, and each has a line at its begin and at its end.
const PEER: Budget = Budget { burst: 256, pause: Duration::from_millis(500) };
/// Of all peers.
const PEERS: Budget = Budget { burst: 1024, pause: Duration::from_millis(50) };

/// What is left of a budget.
#[derive(Clone, Copy, Debug)]
struct Purse {
    budget: Budget,
    left: u32,
    /// When the last part came back.
    counted: Instant,
}

impl Purse {
    fn full(budget: Budget, now: Instant) -> Self {
        Self { budget, left: budget.burst, counted: now }
    }

    /// Adds what has come back until `now`, and returns what is left.
    fn left(&mut self, now: Instant) -> u32 {
        let parts = now.saturating_duration_since(self.counted).as_nanos() / self.budget.pause.as_nanos();
        let parts = u32::try_from(parts).unwrap_or(u32::MAX);
        if parts >= self.budget.burst - self.left {
            *self = Self::full(self.budget, now);
        } else {
            self.left += parts;
            self.counted += self.budget.pause * parts;
        }
        self.left
    }
}

/// An origin that had lines of late.
#[derive(Debug)]
struct Account {
    purse: Purse,
    /// Lines left out since the last one.
    suppressed: u64,
}

/// The budgets of all origins.
#[derive(Debug, Default)]
pub(super) struct LogLimit {
    strangers: Option<Group>,
    peers: Option<Group>,
}

/// Origins of one kind, which also share a budget.
#[derive(Debug)]
struct Group {
    accounts: HashMap<Origin, Account>,
    each: Budget,
    all: Purse,
    /// Who pays for those that have no account of their own.
    others: Origin,
}

impl LogLimit {
    /// Returns how many lines of this origin were left out since its last one, if there may be another now.
    pub(super) fn admit(&mut self, origin: Origin, now: Instant) -> Option<u64> {
        let group = match origin {
            Origin::Node => return Some(0),
            Origin::Peer(_) | Origin::Peers => {
                self.peers.get_or_insert_with(|| Group::new((PEER, PEERS), Origin::Peers, now))
            }
            Origin::Stranger(_) | Origin::Strangers => self
                .strangers
                .get_or_insert_with(|| Group::new((STRANGER, STRANGERS), Origin::Strangers, now)),
        };
        group.admit(origin, now)
    }

    /// Returns the origins that have left out lines and may have one again, with the number. Each has paid for a line
    /// that tells it.
    pub(super) fn calmed(&mut self, now: Instant) -> Vec<(Origin, u64)> {
        [&mut self.peers, &mut self.strangers]
            .into_iter()
            .flatten()
            .flat_map(|group| group.calmed(now))
            .collect()
    }
}

impl Group {
    fn new((each, all): (Budget, Budget), others: Origin, now: Instant) -> Self {
        Self { accounts: HashMap::new(), each, all: Purse::full(all, now), others }
    }

    fn admit(&mut self, origin: Origin, now: Instant) -> Option<u64> {
        let origin = self.payer(origin, now);
        let paid = self.pay(origin, now);
        let account = self.account(origin, now);
        if paid {
            return Some(std::mem::take(&mut account.suppressed));
        }
        account.suppressed += 1;
        None
    }

    fn calmed(&mut self, now: Instant) -> Vec<(Origin, u64)> {
        let waiting =
            self.accounts.iter().filter(|(_, account)| account.suppressed > 0).map(|(origin, _)| *origin);
        let waiting: Vec<_> = waiting.collect();
        let mut told = Vec::new();
        for origin in waiting {
            if self.pay(origin, now) {
                told.push((origin, std::mem::take(&mut self.account(origin, now).suppressed)));
            }
        }
        told
    }

    /// Takes a line from both budgets, if both have one.
    fn pay(&mut self, origin: Origin, now: Instant) -> bool {
        if self.account(origin, now).purse.left(now) == 0 || self.all.left(now) == 0 {
            return false;
        }
        self.account(origin, now).purse.left -= 1;
        self.all.left -= 1;
        true
    }

    fn account(&mut self, origin: Origin, now: Instant) -> &mut Account {
        let each = self.each;
        self.accounts
            .entry(origin)
            .or_insert_with(|| Account { purse: Purse::full(each, now), suppressed: 0 })
    }

    /// Returns the origin whose account pays: the one itself, if it has an account or there is space for one.
    fn payer(&mut self, origin: Origin, now: Instant) -> Origin {
        if self.accounts.contains_key(&origin) || self.accounts.len() < ORIGINS {
            return origin;
        }
        // An account that is as good as new is not missed.
        let burst = self.each.burst;
        self.accounts.retain(|_, account| account.suppressed > 0 || account.purse.left(now) < burst);
        if self.accounts.len() < ORIGINS { origin } else { self.others }
    }
}

#[cfg(test)]
mod tests {
    use super::super::admission::Source;
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn stranger(number: u32) -> Origin {
        Origin::Stranger(Source::of(std::net::Ipv4Addr::from_bits(0x0a00_0000 + number).into()))
    }

    /// Lines of an origin that has one every millisecond for `seconds`, and how many it left out.
    fn flood(limit: &mut LogLimit, origin: Origin, start: Instant, seconds: u32) -> (u32, u64) {
        let (mut lines, mut told) = (0, 0);
        for step in 0..seconds * 1000 {
            if let Some(suppressed) = limit.admit(origin, start + SECOND / 1000 * step) {
                lines += 1;
                told += suppressed;
            }
        }
        (lines, told)
    }

    #[test]
    fn a_flood_has_a_burst_and_then_a_line_each_second() {
        let (mut limit, start) = (LogLimit::default(), Instant::now());
        let (lines, told) = flood(&mut limit, stranger(1), start, 9);
        assert_eq!(lines, STRANGER.burst + 8);
        // What the last line left out is told when it is calm.
        let after = start + 9 * SECOND + SECOND;
        let [(origin, rest)] = limit.calmed(after)[..] else { panic!("one has something to tell") };
        assert_eq!((origin, u64::from(lines) + told + rest), (stranger(1), 9000));
        assert!(limit.calmed(after + SECOND).is_empty());
        // After a pause it has a burst again.
        let later = after + 60 * SECOND;
        assert_eq!(flood(&mut limit, stranger(1), later, 1).0, STRANGER.burst);
    }

    #[test]
    fn many_strangers_together_have_few_lines_and_peers_lose_none() {
        let (mut limit, start) = (LogLimit::default(), Instant::now());
        let lines = (0..100_000).filter(|number| limit.admit(stranger(*number), start).is_some()).count();
        assert_eq!(lines, STRANGERS.burst as usize);
        let accounts = limit.strangers.as_ref().expect("strangers came").accounts.len();
        assert!(accounts <= ORIGINS + 1, "{accounts}");
        assert_eq!(limit.admit(Origin::Peer(Source::of([10, 0, 0, 1].into())), start), Some(0));
        assert_eq!(limit.admit(Origin::Node, start), Some(0));
        // All of it is told in the end.
        let mut told = lines as u64;
        for second in 1..10_000 {
            told +=
                limit.calmed(start + second * SECOND).iter().map(|(_, suppressed)| suppressed).sum::<u64>();
        }
        assert_eq!(told, 100_000);
    }
}

//! Requests that the pool has not answered yet, and what their answers are held against.

use crate::oracle::{Made, Place};
use forebay_block::DiskId;
use forebay_volume::Engine;
use std::collections::BTreeMap;

/// What a request is about, so that its answer can be judged.
pub(super) enum Flight {
    Change {
        made: Made,
        fua: bool,
    },
    Flush {
        event: u64,
    },
    Read {
        disk: u16,
        sector: u64,
        sectors: u64,
        since: BTreeMap<u64, usize>,
    },
    Survey {
        place: Place,
    },
    /// Where blocks lie.
    Status {
        disk: u16,
        sector: u64,
        sectors: u64,
        since: BTreeMap<u64, usize>,
    },
    /// Nothing that is read says how it went.
    Aside,
    /// The server's own, of which a job learns.
    Own,
    /// The connection that asked is gone: nobody hears how it went.
    Orphan(Made),
}

/// A request in flight, and what was so when it was submitted.
pub(super) struct InFlight {
    pub flight: Flight,
    pub since_ns: u64,
    /// Misreads before it was submitted.
    pub misread: u64,
    /// The disk that it concerns, and reads of that disk's base that had failed before.
    pub disk: u16,
    pub failed_of_base: u64,
    /// To a disk that was not durably there, or not so large.
    pub is_early: bool,
    /// What goes past the fast tier was durable when answered, from then on until now.
    pub is_through: bool,
}

/// All requests in flight, by their tokens.
pub(super) struct Flights {
    by_token: BTreeMap<u64, InFlight>,
    next_token: u64,
    /// Connections that requests come over, one after the other.
    pub connections: u64,
    /// How the engine numbers them, for each disk.
    sessions: BTreeMap<(u64, DiskId), u64>,
}

impl Flights {
    pub fn new() -> Self {
        Self { by_token: BTreeMap::new(), next_token: 1, connections: 1, sessions: BTreeMap::new() }
    }

    /// A token for the next request.
    pub fn token(&mut self) -> u64 {
        self.next_token += 1;
        self.next_token - 1
    }

    /// The connection that the request with this token comes over, as the engine numbers them.
    pub fn session(&mut self, token: u64, disk: DiskId, engine: &mut Engine) -> u64 {
        let key = (token % self.connections.max(1), disk);
        *self.sessions.entry(key).or_insert_with(|| engine.begin_session(Some(disk)))
    }

    pub fn begin(&mut self, token: u64, entry: InFlight) {
        self.by_token.insert(token, entry);
    }

    /// A request was answered: what was known of it. `None` where it was answered before.
    pub fn end(&mut self, token: u64) -> Option<InFlight> {
        self.by_token.remove(&token)
    }

    /// What goes past the fast tier is durable no more when it is answered.
    pub fn through_no_more(&mut self) {
        self.by_token.values_mut().for_each(|entry| entry.is_through = false);
    }

    pub fn len(&self) -> usize {
        self.by_token.len()
    }

    /// The request that was submitted before all others, and when.
    pub fn oldest(&self) -> Option<(u64, u64)> {
        self.by_token.first_key_value().map(|(&token, entry)| (token, entry.since_ns))
    }

    /// What requests in flight change.
    pub fn changes(&self) -> impl Iterator<Item = &Made> {
        self.by_token.values().filter_map(|entry| match &entry.flight {
            Flight::Change { made, .. } | Flight::Orphan(made) => Some(made),
            _ => None,
        })
    }

    /// A connection dies: its requests go on, and nobody hears of them. The client comes back at once.
    pub fn hang_up(&mut self, connection: u64, engine: &mut Engine) {
        let connections = self.connections.max(1);
        self.sessions.extract_if(.., |(one, _), _| *one == connection % connections).for_each(|(_, session)| {
            engine.end_session(session);
        });
        let is_over_it = |token: u64| token % connections == connection % connections;
        for (_, entry) in self.by_token.iter_mut().filter(|(token, _)| is_over_it(**token)) {
            entry.flight = match std::mem::replace(&mut entry.flight, Flight::Aside) {
                Flight::Change { made, .. } | Flight::Orphan(made) => Flight::Orphan(made),
                _ => Flight::Orphan(Made::new()),
            };
        }
    }
}

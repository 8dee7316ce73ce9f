//! Requests that were queued and not yet issued.

use super::event::{Event, Key};
use crate::hash::Seed;
use std::collections::{HashMap, VecDeque};

/// Most requests that are remembered.
const QUEUED_MAX: usize = 1 << 16;

/// Which process made a request, and when.
#[derive(Clone, Copy)]
pub(super) struct Queued {
    pub time_ns: u64,
    pub pid: u32,
    pub process: u32,
    pub cgroup: u64,
}

impl Queued {
    pub fn of(event: &Event) -> Self {
        Self { time_ns: event.time_ns, pid: event.pid, process: event.process, cgroup: event.cgroup }
    }
}

/// Queued requests by key. If there are too many, the oldest are dropped: merged requests may never be issued.
#[derive(Default)]
pub(super) struct QueuedTable {
    by_key: HashMap<Key, Queued, Seed>,
    /// Keys in order of arrival; some are no longer in the table.
    order: VecDeque<(Key, u64)>,
}

impl QueuedTable {
    pub fn insert(&mut self, key: Key, queued: Queued) {
        self.by_key.insert(key, queued);
        self.order.push_back((key, queued.time_ns));
        if self.order.len() <= QUEUED_MAX {
            return;
        }
        if let Some((key, time_ns)) = self.order.pop_front()
            && self.by_key.get(&key).is_some_and(|queued| queued.time_ns == time_ns)
        {
            self.by_key.remove(&key);
        }
    }

    pub fn has(&self, key: Key) -> bool {
        self.by_key.contains_key(&key)
    }

    pub fn take(&mut self, key: Key) -> Option<Queued> {
        self.by_key.remove(&key)
    }
}

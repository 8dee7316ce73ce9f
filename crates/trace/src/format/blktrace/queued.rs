//! Requests that have been queued and not yet been issued.

use super::event::{Event, Key};
use crate::hash::Seed;
use std::collections::{HashMap, VecDeque};

/// Most requests that are remembered.
const QUEUED_MAX: usize = 1 << 16;

/// Who asked for a request, and when.
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

/// Those requests, by their keys. The oldest are forgotten where there are too many: merged ones may never be issued.
#[derive(Default)]
pub(super) struct QueuedTable {
    by_key: HashMap<Key, Queued, Seed>,
    /// In the order in which they came; some of them are no longer in the table.
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

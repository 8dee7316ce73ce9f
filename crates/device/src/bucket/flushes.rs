//! Flushes and durable (FUA) writes in progress. Each completes when all objects that it covers are stored, and an
//! epoch check that began after that has found the epoch unchanged.

use super::job::Failure;
use forebay_block::{Completion, IoError};
use std::collections::BTreeSet;

/// A flush or a durable write, with what it waits for.
pub(crate) struct Barrier {
    pub(crate) tag: u64,
    pub(crate) operation: &'static str,
    pub(crate) offset_bytes: u64,
    /// Counters of the objects in flight that it covers.
    pub(crate) waits: BTreeSet<u64>,
}

struct Waiting {
    barrier: Barrier,
    /// The epoch check in flight will complete it.
    is_looked: bool,
    failed: Option<Failure>,
}

/// All flushes and durable writes that wait.
#[derive(Default)]
pub(crate) struct Flushes {
    waiting: Vec<Waiting>,
    is_looking: bool,
    /// Objects were stored since the last successful epoch check began.
    has_news: bool,
}

impl Flushes {
    /// Whether an epoch check is in flight.
    pub(crate) fn is_looking(&self) -> bool {
        self.is_looking
    }

    /// Adds a flush or durable write.
    pub(crate) fn begin(&mut self, barrier: Barrier, done: &mut Vec<Completion>) {
        // Nothing is in flight, and a check has covered all stored objects.
        if barrier.waits.is_empty() && !self.has_news && !self.is_looking {
            return done.push(Completion { tag: barrier.tag, result: Ok(()), bufs: None });
        }
        self.waiting.push(Waiting { barrier, is_looked: false, failed: None });
    }

    /// A put has ended.
    pub(crate) fn sent(&mut self, counter: u64, result: Result<(), Failure>) {
        self.has_news |= result.is_ok();
        for waiting in &mut self.waiting {
            if waiting.barrier.waits.remove(&counter)
                && let Err(failure) = result
            {
                waiting.failed.get_or_insert(failure);
            }
        }
    }

    /// Completes those that have failed and wait for nothing more. Returns whether the others need an epoch check.
    pub(crate) fn go_on(&mut self, done: &mut Vec<Completion>) -> bool {
        self.end(|waiting| waiting.barrier.waits.is_empty() && waiting.failed.is_some(), Ok(()), done);
        !self.is_looking && self.waiting.iter().any(|waiting| waiting.barrier.waits.is_empty())
    }

    /// An epoch check begins. It will complete everything that waits for nothing else.
    pub(crate) fn look_begins(&mut self) {
        self.is_looking = true;
        self.has_news = false;
        for waiting in self.waiting.iter_mut().filter(|waiting| waiting.barrier.waits.is_empty()) {
            waiting.is_looked = true;
        }
    }

    /// The epoch check has ended. Where another server has the device, everything that waits fails.
    pub(crate) fn look_ended(&mut self, result: Result<(), Failure>, done: &mut Vec<Completion>) {
        self.is_looking = false;
        self.has_news |= result.is_err();
        let is_fenced = result == Err(Failure::FENCED);
        self.end(|waiting| waiting.is_looked || is_fenced, result, done);
    }

    fn end(&mut self, ends: impl Fn(&Waiting) -> bool, result: Result<(), Failure>, done: &mut Vec<Completion>) {
        for Waiting { barrier, failed, .. } in self.waiting.extract_if(.., |waiting| ends(waiting)) {
            let Barrier { tag, operation, offset_bytes, .. } = barrier;
            let error = |Failure { kind, os_error }| IoError { kind, operation, offset_bytes, os_error };
            let result = result.and(failed.map_or(Ok(()), Err)).map_err(error);
            done.push(Completion { tag, result, bufs: None });
        }
    }
}

//! The circulation of chunks between recorders and the spill thread.

use super::record::Record;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender};
use std::sync::{Arc, Mutex};

/// A recorder publishes its drops to [`Spill::status`] after at most this many.
const PUBLISH_EVERY: u64 = 1_024;

/// Counters shared by workers, the spill thread and the owner.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub handed: AtomicU64,
    pub written: AtomicU64,
    pub segments: AtomicU64,
    pub bytes: AtomicU64,
    pub dropped: AtomicU64,
    pub failure: Mutex<Option<io::Error>>,
}

/// A chunk for the file, or the request to end the file.
pub(super) enum Message {
    Full(Full),
    End,
}

pub(super) struct Full {
    pub job: u32,
    pub thread: u32,
    pub dropped_before: u64,
    pub count: usize,
    pub chunk: Box<[Record]>,
    pub home: SyncSender<Box<[Record]>>,
}

impl std::fmt::Debug for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Full(_) => "Full",
            Self::End => "End",
        })
    }
}

/// A recorder's side of the circulation.
#[derive(Debug)]
pub(super) struct Outlet {
    pub job: u32,
    pub thread: u32,
    /// Number of drops before the first record of the present chunk.
    pub dropped_before: u64,
    pub handed: u64,
    pub dropped: u64,
    pub published: u64,
    pub full: SyncSender<Message>,
    pub home: SyncSender<Box<[Record]>>,
    pub empties: Receiver<Box<[Record]>>,
    pub shared: Arc<Shared>,
}

impl Outlet {
    pub(super) fn take_empty(&mut self) -> Option<Box<[Record]>> {
        let empty = self.empties.try_recv().ok();
        // Drops happen only between chunks, so that a segment can say exactly where the gap is.
        self.dropped_before = self.dropped;
        empty
    }

    /// Passes on a chunk of which `count` records are filled.
    pub(super) fn submit(&mut self, chunk: Box<[Record]>, count: usize) {
        self.publish_drops();
        // Counted before it is sent, so that the writer's count is never ahead.
        self.shared.handed.fetch_add(count as u64, Ordering::AcqRel);
        let full = Full {
            job: self.job,
            thread: self.thread,
            dropped_before: self.dropped_before,
            count,
            chunk,
            home: self.home.clone(),
        };
        if self.full.try_send(Message::Full(full)).is_ok() {
            self.handed += count as u64;
        } else {
            // The spill has ended before this recorder.
            self.shared.handed.fetch_sub(count as u64, Ordering::AcqRel);
            self.dropped += count as u64;
            self.publish_drops();
        }
    }

    pub(super) fn count_drop(&mut self) {
        self.dropped += 1;
        if self.dropped - self.published >= PUBLISH_EVERY {
            self.publish_drops();
        }
    }

    pub(super) fn publish_drops(&mut self) {
        self.shared.dropped.fetch_add(self.dropped - self.published, Ordering::Relaxed);
        self.published = self.dropped;
    }

    pub(super) const fn handed(&self) -> u64 {
        self.handed
    }

    pub(super) const fn dropped(&self) -> u64 {
        self.dropped
    }
}

/// A chunk whose pages are already mapped.
pub(super) fn chunk(records: usize) -> Box<[Record]> {
    vec![Record::FILLER; records].into_boxed_slice()
}

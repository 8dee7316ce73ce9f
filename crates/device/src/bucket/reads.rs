//! Hosts' reads that wait for parts of objects.

use super::job::Failure;
use super::scatter::scatter;
use bytes::Bytes;
use forebay_block::{Buf, Completion, IoError, Vectored};
use std::collections::BTreeMap;

/// A read in progress.
pub(crate) struct Read {
    pub(crate) tag: u64,
    pub(crate) offset_bytes: u64,
    pub(crate) bufs: Vectored<Buf>,
    /// Parts that have not arrived yet.
    pub(crate) waits: usize,
}

/// Reads in progress, by number.
#[derive(Default)]
pub(crate) struct Reads {
    waiting: BTreeMap<u64, (Read, Option<Failure>)>,
}

impl Reads {
    /// Begins a read.
    pub(crate) fn begin(&mut self, number: u64, read: Read) {
        self.waiting.insert(number, (read, None));
    }

    /// Takes the part at `at`, or its failure. Returns the completion where this was the last part.
    pub(crate) fn got(&mut self, number: u64, at: usize, part: Result<Bytes, Failure>) -> Option<Completion> {
        let (read, failed) = self.waiting.get_mut(&number)?;
        match part {
            Ok(bytes) => scatter(&mut read.bufs, at, &bytes),
            Err(failure) => *failed = Some(failure),
        }
        read.waits -= 1;
        if read.waits > 0 {
            return None;
        }
        let (Read { tag, offset_bytes, bufs, .. }, failed) = self.waiting.remove(&number)?;
        let result = failed.map_or(Ok(()), |Failure { kind, os_error }| {
            Err(IoError { kind, operation: "read", offset_bytes, os_error })
        });
        Some(Completion { tag, result, bufs: Some(bufs) })
    }
}

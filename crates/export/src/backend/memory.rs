//! Disks in memory, simple enough to be obviously correct: the oracle of the end-to-end tests, and a server for
//! trying out clients. Not for data: everything is lost with the process.

use super::Backend;
use forebay_block::{Buf, ClassId, DiskId};
use forebay_volume::{Completion, Extent, ExtentState, Op, Outcome, Request, RequestError};
use std::collections::{BTreeMap, VecDeque};

/// Granularity in which the state of a disk is reported, in bytes.
const BLOCK_BYTES: u64 = 4096;

#[derive(Debug)]
struct Disk {
    bytes: Vec<u8>,
    states: Vec<ExtentState>,
}

impl Disk {
    fn new(size_bytes: u64) -> Self {
        let blocks = size_bytes.div_ceil(BLOCK_BYTES) as usize;
        Self { bytes: vec![0; size_bytes as usize], states: vec![ExtentState::Hole; blocks] }
    }

    fn execute(&mut self, request: Request) -> Result<Outcome, RequestError> {
        let Request { offset_bytes, len_bytes, op, tag, .. } = request;
        if matches!(op, Op::Flush) {
            return Ok(Outcome::Done);
        }
        let size_bytes = self.bytes.len() as u64;
        let end = offset_bytes.checked_add(len_bytes).filter(|&end| end <= size_bytes);
        let end = end.ok_or(RequestError::OutOfRange)?;
        if !(offset_bytes | len_bytes).is_multiple_of(512) {
            return Err(RequestError::OutOfRange);
        }
        let range = offset_bytes as usize..end as usize;
        match op {
            Op::Read => {
                let damaged = self.states[blocks(offset_bytes, end, true)].contains(&ExtentState::Damaged);
                if damaged {
                    return Err(RequestError::Damaged { disk: request.disk, offset_bytes });
                }
                Ok(Outcome::Data(Buf::copy_of(&self.bytes[range])))
            }
            Op::Write(data) => {
                if data.len() != range.len() {
                    return Err(RequestError::OutOfRange);
                }
                self.bytes[range].copy_from_slice(&data);
                let state = ExtentState::Data { class: tag.unwrap_or(ClassId(0)), fast: true };
                self.states[blocks(offset_bytes, end, true)].fill(state);
                Ok(Outcome::Done)
            }
            Op::Discard => {
                self.bytes[range].fill(0);
                self.states[blocks(offset_bytes, end, false)].fill(ExtentState::Hole);
                Ok(Outcome::Done)
            }
            Op::WriteZeroes { may_unmap } => {
                self.bytes[range].fill(0);
                let state = if may_unmap { ExtentState::Hole } else { ExtentState::Zero };
                self.states[blocks(offset_bytes, end, false)].fill(state);
                Ok(Outcome::Done)
            }
            Op::Status { max_extents } => {
                let mut extents: Vec<Extent> = Vec::new();
                let mut at = offset_bytes;
                while at < end {
                    let state = self.states[(at / BLOCK_BYTES) as usize];
                    let len_bytes = (BLOCK_BYTES - at % BLOCK_BYTES).min(end - at);
                    let full = extents.len() == max_extents;
                    match extents.last_mut() {
                        Some(last) if last.state == state => last.len_bytes += len_bytes,
                        _ if full => break,
                        _ => extents.push(Extent { len_bytes, state }),
                    }
                    at += len_bytes;
                }
                Ok(Outcome::Extents(extents))
            }
            Op::Cache | Op::Flush | Op::Reclass => Ok(Outcome::Done),
        }
    }
}

/// Blocks that the range touches (`touched`), or covers completely.
fn blocks(start: u64, end: u64, touched: bool) -> std::ops::Range<usize> {
    let (first, last) = if touched {
        (start / BLOCK_BYTES, end.div_ceil(BLOCK_BYTES))
    } else {
        (start.div_ceil(BLOCK_BYTES), end / BLOCK_BYTES)
    };
    first as usize..last.max(first) as usize
}

/// Disks in memory.
#[derive(Debug, Default)]
pub struct MemoryBackend {
    disks: BTreeMap<DiskId, Disk>,
    /// Accepted requests, each with the poll at which it is carried out.
    waiting: VecDeque<(u64, Request)>,
    delay_polls: u64,
    polls: u64,
    failures: VecDeque<RequestError>,
    flushes: u64,
}

impl MemoryBackend {
    /// Without disks.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an empty disk, or empties an existing one.
    pub fn add_disk(&mut self, disk: DiskId, size_bytes: u64) {
        self.disks.insert(disk, Disk::new(size_bytes));
    }

    /// Carries out requests this many polls after their submission, so that several are in flight at once.
    pub fn delay_polls(&mut self, polls: u64) {
        self.delay_polls = polls;
    }

    /// Carries out waiting and later requests within this many further polls.
    pub fn release_after(&mut self, polls: u64) {
        self.delay_polls = polls;
        let due = self.polls + polls;
        self.waiting.iter_mut().for_each(|(at, _)| *at = due.min(*at));
    }

    /// Makes the next request fail with `error`. Several calls make several requests fail.
    pub fn fail_next(&mut self, error: RequestError) {
        self.failures.push_back(error);
    }

    /// Marks the blocks that a range touches as damaged, until they are written again.
    pub fn damage(&mut self, disk: DiskId, offset_bytes: u64, len_bytes: u64) {
        if let Some(disk) = self.disks.get_mut(&disk) {
            let range = blocks(offset_bytes, offset_bytes + len_bytes, true);
            if let Some(states) = disk.states.get_mut(range) {
                states.fill(ExtentState::Damaged);
            }
        }
    }

    /// Count of flushes carried out.
    #[must_use]
    pub fn flushes(&self) -> u64 {
        self.flushes
    }
}

impl Backend for MemoryBackend {
    fn submit(&mut self, request: Request) {
        self.waiting.push_back((self.polls + self.delay_polls, request));
    }

    fn poll(&mut self, done: &mut Vec<Completion>) {
        while self.waiting.front().is_some_and(|(due, _)| *due <= self.polls) {
            let Some((_, request)) = self.waiting.pop_front() else {
                break;
            };
            let token = request.token;
            self.flushes += u64::from(matches!(request.op, Op::Flush));
            let result = match (self.failures.pop_front(), self.disks.get_mut(&request.disk)) {
                (Some(error), _) => Err(error),
                (None, None) => Err(RequestError::NoDisk),
                (None, Some(disk)) => disk.execute(request),
            };
            done.push(Completion { token, result });
        }
        self.polls += 1;
    }

    fn wake_fds(&self, _out: &mut Vec<i32>) {}

    fn tick(&mut self, _now_ns: u64) {}

    fn in_flight(&self) -> bool {
        !self.waiting.is_empty()
    }
}

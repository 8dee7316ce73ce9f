//! What disks of some lives lie over: a device that is never written, and that fails, hangs or is slow now and then.

use crate::oracle::Oracle;
use forebay_block::{Completion, Device, DiskId, Geometry, IoError, IoErrorKind, Op, Request, VirtualClock, lock};
use forebay_proof::stamp;
use forebay_volume::layout::base::Base;
use std::ops::Range;
use std::sync::{Arc, Mutex};

const BLOCK: usize = 4096;
const SECTORS: usize = 8;
/// Number of polls after which a request to a slow base ends.
const POLLS: u32 = 20;

/// What a slow read takes, and how long a base hangs, in nanoseconds.
const SLOW_NS: u64 = 700_000_000;
const HANG_NS: u64 = 90_000_000_000;

/// How a base is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Condition {
    /// Well.
    #[default]
    Well,
    /// Reads of some blocks fail: the first, and how many.
    Fails {
        /// The first.
        block: u64,
        /// How many.
        blocks: u64,
    },
    /// Reads take most of a second.
    IsSlow,
    /// It answers nothing for so long that a drive would have been reset.
    Hangs,
}

/// How it is now, and what came of that.
#[derive(Debug, Default)]
struct Now {
    condition: Condition,
    failed: u64,
    late: u64,
}

/// Its contents, which outlive rounds.
#[derive(Clone, Debug)]
pub struct BaseImage {
    bytes: Arc<Vec<u8>>,
    tags: Arc<Vec<u32>>,
    now: Arc<Mutex<Now>>,
    clock: VirtualClock,
}

impl BaseImage {
    /// A base of `blocks` blocks, stamped with new tags; each fourth block is of zeros, which take no space.
    pub fn new(blocks: u64, clock: &VirtualClock, mut new_tags: impl FnMut(usize) -> Vec<u32>) -> Self {
        let (mut bytes, mut all) = (vec![0; blocks as usize * BLOCK], vec![0; blocks as usize * SECTORS]);
        let each = bytes.chunks_exact_mut(BLOCK).zip(all.chunks_exact_mut(SECTORS)).enumerate();
        for (_, (block, given)) in each.filter(|(at, _)| at % 4 != 3) {
            let tags = new_tags(SECTORS);
            stamp::fill_all(&tags, block);
            given.copy_from_slice(&tags);
        }
        Self { bytes: Arc::new(bytes), tags: Arc::new(all), now: Arc::default(), clock: clock.clone() }
    }

    /// The oracle takes what it holds for written to a disk, durably.
    pub fn lies_under(&self, disk: DiskId, oracle: &mut Oracle) {
        for (at, tags) in self.tags.chunks_exact(SECTORS).enumerate().filter(|(at, _)| at % 4 != 3) {
            let made = oracle.change(disk.0, (at * SECTORS) as u64, tags);
            oracle.acknowledge(&made, true);
        }
    }

    /// The base as recorded in the root.
    pub fn base(&self) -> Base {
        Base { blocks: (self.bytes.len() / BLOCK) as u64, identity: 1 }
    }

    /// From now on it is like that.
    pub fn be(&self, condition: Condition) {
        lock(&self.now).condition = condition;
    }

    /// Reads that have failed, and that came late, so far.
    pub fn struck(&self) -> (u64, u64) {
        let now = lock(&self.now);
        (now.failed, now.late)
    }

    /// A device with it.
    pub fn device(&self) -> Box<dyn Device> {
        let geometry = Geometry {
            size_bytes: self.bytes.len() as u64,
            logical_block_bytes: 512,
            optimal_band_bytes: None,
            volatile_cache: false,
            durable_writes: true,
            discards: false,
        };
        Box::new(BaseDevice { image: self.clone(), geometry, done: Vec::new(), late: Vec::new(), polls: 0 })
    }
}

struct BaseDevice {
    image: BaseImage,
    geometry: Geometry,
    done: Vec<Completion>,
    /// What comes at a time, or when it is well again.
    late: Vec<(u64, Completion)>,
    /// How often it was asked since the last request came.
    polls: u32,
}

impl BaseDevice {
    /// A request comes: when it is answered, and whether it fails.
    fn fate(&self, blocks: Range<u64>) -> (u64, bool) {
        let mut now = lock(&self.image.now);
        let late_ns = match now.condition {
            Condition::Well => 0,
            Condition::IsSlow => SLOW_NS,
            Condition::Hangs => HANG_NS,
            Condition::Fails { block, blocks: count } => {
                let fails = blocks.start < block + count && block < blocks.end;
                now.failed += u64::from(fails);
                return (0, fails);
            }
        };
        now.late += u64::from(late_ns > 0);
        (late_ns, false)
    }
}

impl Device for BaseDevice {
    fn name(&self) -> &str {
        "base"
    }

    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn submit(&mut self, request: Request) {
        let Request { tag, offset_bytes, op, .. } = request;
        let failed = |kind, operation| Err(IoError { kind, operation, offset_bytes, os_error: 0 });
        let invalid = |operation| failed(IoErrorKind::Invalid, operation);
        let mut late_ns = 0;
        let (result, bufs) = match op {
            Op::Read { mut bufs, .. } => {
                let len: usize = bufs.as_slice().iter().map(|buf| buf.len()).sum();
                let mut at = offset_bytes as usize;
                let (comes_ns, fails) = self.fate((at / BLOCK) as u64..(at + len).div_ceil(BLOCK) as u64);
                late_ns = comes_ns;
                let result = bufs.as_mut_slice().iter_mut().try_for_each(|buf| {
                    let found = self.image.bytes.get(at..at + buf.len());
                    at += buf.len();
                    found.map_or_else(
                        || invalid("read"),
                        |found| {
                            buf.copy_from_slice(found);
                            Ok(())
                        },
                    )
                });
                (if fails { failed(IoErrorKind::Medium, "read") } else { result }, Some(bufs))
            }
            Op::Flush => (Ok(()), None),
            Op::Write { .. } | Op::WriteZeroes { .. } | Op::Discard { .. } => (invalid("write"), None),
        };
        let completion = Completion { tag, result, bufs };
        match late_ns {
            0 => self.done.push(completion),
            ns => self.late.push((self.image.clock.now_ns() + ns, completion)),
        }
        self.polls = 0;
    }

    fn poll(&mut self, done: &mut Vec<Completion>) {
        self.polls += 1;
        let now = self.image.clock.now_ns();
        let is_well = lock(&self.image.now).condition == Condition::Well;
        let ended = self.late.extract_if(.., |(at_ns, _)| is_well || *at_ns <= now);
        done.extend(ended.map(|(_, completion)| completion));
        if self.polls > POLLS {
            done.append(&mut self.done);
        }
    }

    fn wait(&mut self, _timeout_ns: u64) {}

    fn queue_limit(&self) -> usize {
        64
    }

    fn in_flight(&self) -> usize {
        self.done.len() + self.late.len()
    }
}

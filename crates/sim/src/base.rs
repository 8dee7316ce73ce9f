//! The base of the first disk of some lives: a device that is never written and never fails.

use crate::world::Memory;
use forebay_block::{Completion, Device, DiskId, Geometry, IoError, IoErrorKind, Op, Request};
use forebay_proof::stamp;
use forebay_volume::layout::base::Base;
use std::sync::Arc;

const BLOCK: usize = 4096;
const SECTORS: usize = 8;
/// Number of polls after which a request to a slow base ends.
const POLLS: u32 = 20;

/// Contents of the base, which survive rounds.
#[derive(Clone, Debug)]
pub struct BaseImage {
    bytes: Arc<Vec<u8>>,
}

impl BaseImage {
    /// A base of this many blocks, with contents that the oracle treats as durable writes to a disk.
    pub fn new(disk: DiskId, blocks: u64, memory: &mut Memory) -> Self {
        let mut bytes = vec![0; blocks as usize * BLOCK];
        // Every fourth block is zeros, which take no space.
        for (at, block) in bytes.chunks_exact_mut(BLOCK).enumerate().filter(|(at, _)| at % 4 != 3) {
            let tags = memory.new_tags(SECTORS);
            stamp::fill_all(&tags, block);
            let made = memory.oracle.change(disk.0, (at * SECTORS) as u64, &tags);
            memory.oracle.acknowledge(&made, true);
        }
        Self { bytes: Arc::new(bytes) }
    }

    /// The base as recorded in the root.
    pub fn base(&self) -> Base {
        Base { blocks: (self.bytes.len() / BLOCK) as u64, identity: 1 }
    }

    /// A device with the base.
    pub fn device(&self) -> Box<dyn Device> {
        let geometry = Geometry {
            size_bytes: self.bytes.len() as u64,
            logical_block_bytes: 512,
            optimal_band_bytes: None,
            volatile_cache: false,
            durable_writes: true,
            discards: false,
        };
        Box::new(BaseDevice { bytes: self.bytes.clone(), geometry, done: Vec::new(), polls: 0 })
    }
}

struct BaseDevice {
    bytes: Arc<Vec<u8>>,
    geometry: Geometry,
    done: Vec<Completion>,
    /// Number of polls since the last request.
    polls: u32,
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
        let invalid = |operation| Err(IoError { kind: IoErrorKind::Invalid, operation, offset_bytes, os_error: 0 });
        let (result, bufs) = match op {
            Op::Read { mut bufs, .. } => {
                let mut at = offset_bytes as usize;
                let result = bufs.as_mut_slice().iter_mut().try_for_each(|buf| {
                    let found = self.bytes.get(at..at + buf.len());
                    at += buf.len();
                    found.map_or_else(
                        || invalid("read"),
                        |found| {
                            buf.copy_from_slice(found);
                            Ok(())
                        },
                    )
                });
                (result, Some(bufs))
            }
            Op::Flush => (Ok(()), None),
            Op::Write { .. } | Op::WriteZeroes { .. } | Op::Discard { .. } => (invalid("write"), None),
        };
        self.done.push(Completion { tag, result, bufs });
        self.polls = 0;
    }

    fn poll(&mut self, done: &mut Vec<Completion>) {
        self.polls += 1;
        if self.polls > POLLS {
            done.append(&mut self.done);
        }
    }

    fn wait(&mut self, _timeout_ns: u64) {}

    fn queue_limit(&self) -> usize {
        64
    }

    fn in_flight(&self) -> usize {
        self.done.len()
    }
}

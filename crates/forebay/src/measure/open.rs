//! Opening the target of a measurement.

use super::pool_queue::{self, PoolTarget};
use super::safety;
use anyhow::{Context, Result};
use forebay_bench::job::model::{Calls, Job};
use forebay_bench::run::{Opened, TargetFacts};
use forebay_block::Queue;
use forebay_device::Target;
use forebay_device::queue::{self, OpenedQueues, QueueOptions, Source};
use std::sync::atomic::{AtomicBool, Ordering};

/// Longest buffer through which signatures are looked for, in bytes.
const PROBE_BYTES: usize = 128 << 10;

/// What is known of an opened target.
struct OpenedFacts {
    name: String,
    size_bytes: u64,
    logical_block_bytes: u32,
    block_device: bool,
}

/// A target as the user names it, for the length of a session.
pub struct MeasureTarget {
    kind: Kind,
    /// It was looked at before it was written to, and held nothing. What the session writes itself may look like
    /// anything later.
    may_write: AtomicBool,
}

enum Kind {
    /// One that the device room knows.
    Device(Source),
    /// A pool in process.
    Pool(PoolTarget),
}

impl MeasureTarget {
    /// Understands a name; a pool is opened.
    ///
    /// # Errors
    /// What is not understood, and what is known.
    pub fn new(text: &str) -> Result<Self> {
        let kind = match text.strip_prefix("pool:") {
            Some(config) => Kind::Pool(PoolTarget::open(config)?),
            None => Kind::Device(Source::new(text.parse::<Target>()?)),
        };
        Ok(Self { kind, may_write: AtomicBool::new(false) })
    }

    /// Opens it for a job, which writes only where that destroys nothing or was asked for.
    ///
    /// # Errors
    /// What could not be opened, or must not be written to.
    pub fn open(&self, job: &Job, destroy_data: bool) -> Result<Opened<Box<dyn Queue>>> {
        let destructive = job.mix.is_destructive();
        if destructive {
            self.may_write(destroy_data)?;
        }
        let buffer_bytes = (job.max_io_bytes() as usize).max(512);
        match &self.kind {
            Kind::Device(source) => {
                let options = QueueOptions {
                    slots: job.depth,
                    buffer_bytes,
                    read_only: !destructive,
                    calls: calls(job.access.calls),
                    buffered: job.access.buffered,
                    dsync: job.access.dsync,
                    wait: job.wait,
                };
                let opened = source.open(&options, job.threads as usize)?;
                let OpenedQueues { queues, size_bytes, logical_block_bytes, description, notes, .. } = opened;
                Ok(Opened { queues, facts: TargetFacts { size_bytes, logical_block_bytes, description, notes } })
            }
            Kind::Pool(pool) => {
                let queues = pool_queue::queues(pool, job.threads, job.depth, buffer_bytes)?;
                let facts = TargetFacts {
                    size_bytes: pool.size_bytes,
                    logical_block_bytes: 512,
                    description: pool.description.clone(),
                    notes: Vec::new(),
                };
                Ok(Opened { queues, facts })
            }
        }
    }

    /// Whether a load may write to it.
    ///
    /// # Errors
    /// Why not: a block device, or something recognised on it, without `--destroy-data`.
    pub fn may_write(&self, destroy_data: bool) -> Result<()> {
        if destroy_data || self.may_write.load(Ordering::Relaxed) {
            return Ok(());
        }
        let (queue, facts) = self.probe()?;
        let OpenedFacts { name, size_bytes, logical_block_bytes, block_device } = facts;
        safety::permit_writes(&name, queue, size_bytes, logical_block_bytes, block_device)?;
        self.may_write.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Its size in bytes.
    ///
    /// # Errors
    /// Where it cannot be opened.
    pub fn size_bytes(&self) -> Result<u64> {
        match &self.kind {
            Kind::Device(_) => Ok(self.probe()?.1.size_bytes),
            Kind::Pool(pool) => Ok(pool.size_bytes),
        }
    }

    /// A queue to look at it with.
    fn probe(&self) -> Result<(Box<dyn Queue>, OpenedFacts)> {
        let options = QueueOptions { buffer_bytes: PROBE_BYTES, read_only: true, ..QueueOptions::default() };
        let (mut queues, facts) = match &self.kind {
            Kind::Device(source) => {
                let opened = source.open(&options, 1)?;
                let facts = OpenedFacts {
                    name: source.name().to_owned(),
                    size_bytes: opened.size_bytes,
                    logical_block_bytes: opened.logical_block_bytes,
                    block_device: opened.block_device,
                };
                (opened.queues, facts)
            }
            Kind::Pool(pool) => {
                let facts = OpenedFacts {
                    name: pool.description.clone(),
                    size_bytes: pool.size_bytes,
                    logical_block_bytes: 512,
                    block_device: false,
                };
                (pool_queue::queues(pool, 1, 1, PROBE_BYTES)?, facts)
            }
        };
        let queue = queues.pop().context("the target gives no queue")?;
        Ok((queue, facts))
    }

    /// Gives it up; a pool is stopped cleanly.
    ///
    /// # Errors
    /// Where that fails.
    pub fn close(self) -> Result<()> {
        match self.kind {
            Kind::Device(_) => Ok(()),
            Kind::Pool(pool) => pool.close(),
        }
    }
}

fn calls(calls: Calls) -> queue::Calls {
    match calls {
        Calls::Ring => queue::Calls::Ring { polled: false },
        Calls::RingPolled => queue::Calls::Ring { polled: true },
        Calls::Sync { high_priority } => queue::Calls::Sync { hipri: high_priority },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_bench::job::model::Mix;
    use forebay_block::{Io, OpKind};

    fn job(kind: OpKind) -> Job {
        Job { mix: Mix::only(kind), depth: 4, ..Job::default() }
    }

    fn open(target: &MeasureTarget, kind: OpKind) -> Box<dyn Queue> {
        target.open(&job(kind), false).unwrap().queues.pop().unwrap()
    }

    fn run(queue: &mut dyn Queue, kind: OpKind, byte: u8) -> u8 {
        queue.buffer(1)[..4096].fill(byte);
        queue.submit(&Io { slot: 1, kind, len_bytes: 4096, offset_bytes: 0 });
        queue.kick();
        let mut done = Vec::new();
        while done.is_empty() {
            queue.wait(1_000_000_000);
            queue.reap(&mut done);
        }
        assert!(done[0].error.is_none(), "{done:?}");
        queue.buffer(1)[0]
    }

    #[test]
    fn jobs_of_a_session_share_a_file_and_memory_keeps_what_they_wrote() {
        let directory = tempfile::TempDir::new().unwrap();
        let path = directory.path().join("x");
        std::fs::write(&path, vec![0; 1 << 20]).unwrap();
        for text in [path.display().to_string(), "ram:?size=1MiB".to_owned()] {
            let target = MeasureTarget::new(&text).unwrap();
            assert_eq!(target.size_bytes().unwrap(), 1 << 20);
            let mut writers = [open(&target, OpKind::Write), open(&target, OpKind::Write)];
            let mut reader = open(&target, OpKind::Read);
            run(&mut writers[1], OpKind::Write, 7);
            assert_eq!(run(&mut reader, OpKind::Read, 0), 7, "{text}");
            drop((writers, reader));
            assert_eq!(run(&mut open(&target, OpKind::Read), OpKind::Read, 0), 7, "{text}");
            target.close().unwrap();
        }
    }

    #[test]
    fn what_the_session_wrote_itself_stands_in_no_ones_way_but_what_was_there_does() {
        let directory = tempfile::TempDir::new().unwrap();
        let path = directory.path().join("x");
        // The mark of a swap area (mkswap(8)): the last ten bytes of its first page.
        let mut marked = vec![0; 1 << 20];
        marked[4086..4096].copy_from_slice(b"SWAPSPACE2");
        std::fs::write(&path, vec![0; 1 << 20]).unwrap();
        let session = MeasureTarget::new(&path.display().to_string()).unwrap();
        let mut queue = open(&session, OpKind::Write);
        queue.buffer(1)[..4096].copy_from_slice(&marked[..4096]);
        queue.submit(&Io { slot: 1, kind: OpKind::Write, len_bytes: 4096, offset_bytes: 0 });
        queue.kick();
        while queue.in_flight() > 0 {
            queue.wait(1_000_000_000);
            queue.reap(&mut Vec::new());
        }
        drop(queue);
        session.may_write(false).unwrap();
        open(&session, OpKind::Write);
        drop(session);
        let next = MeasureTarget::new(&path.display().to_string()).unwrap();
        let refusal = next.open(&job(OpKind::Write), false).err().unwrap().to_string();
        assert!(refusal.contains("swap"), "{refusal}");
        assert!(next.may_write(false).is_err() && next.may_write(true).is_ok() && next.may_write(false).is_err());
        next.open(&job(OpKind::Write), true).unwrap();
    }
}

//! Opening the target of a measurement.

use super::hint_book::HintBook;
use super::pool_queue::{self, PoolTarget};
use super::{safety, scratch};
use anyhow::{Context, Result, bail};
use forebay_bench::job::check_fit;
use forebay_bench::job::model::{Access, Calls, Job};
use forebay_bench::run::{Opened, TargetFacts};
use forebay_block::{OpKind, Queue};
use forebay_device::Target;
use forebay_device::queue::{self, OpenedQueues, QueueOptions, Source};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Maximum size of the buffer for reading signatures, in bytes.
const PROBE_BYTES: usize = 128 << 10;

/// Facts about an opened target.
struct OpenedFacts {
    name: String,
    size_bytes: u64,
    logical_block_bytes: u32,
    block_device: bool,
}

/// A target by name, for the length of a session.
pub struct MeasureTarget {
    kind: Kind,
    /// The file or block device behind the target.
    path: Option<PathBuf>,
    /// Whether it is a bucket: opening a bucket for writing takes it from its present owner.
    is_bucket: bool,
    /// Set once the target was checked before writing and held nothing. Later the session's own data may look like a signature.
    may_write: AtomicBool,
    /// Set once the session has written to or trimmed the target: its present contents are the session's own.
    has_written: AtomicBool,
}

enum Kind {
    /// A target that the device crate opens.
    Device(Source),
    /// A pool in this process.
    Pool(PoolTarget),
}

impl MeasureTarget {
    /// Parses a name; a pool is opened.
    ///
    /// # Errors
    /// The name is not known; the error lists the known forms.
    pub fn new(text: &str) -> Result<Self> {
        let (kind, path, is_bucket) = match text.strip_prefix("pool:") {
            Some(config) => (Kind::Pool(PoolTarget::open(config)?), None, false),
            None => {
                let target = text.parse::<Target>()?;
                let path = target.path().map(Path::to_owned);
                let is_bucket = target.bucket().is_some();
                (Kind::Device(Source::new(target)), path, is_bucket)
            }
        };
        Ok(Self { kind, path, is_bucket, may_write: AtomicBool::new(false), has_written: AtomicBool::new(false) })
    }

    /// Opens the target for a job. It can be written only where that destroys nothing or was allowed.
    ///
    /// # Errors
    /// The target cannot be opened or must not be written to.
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
                    // A reader of a bucket would keep its old table and miss the changes of a concurrent writer, so it opens the bucket
                    // writable too.
                    read_only: !(destructive || self.is_bucket && destroy_data),
                    calls: calls(job.access.calls),
                    buffered: job.access.buffered,
                    dsync: job.access.dsync,
                    wait: job.wait,
                };
                let opened = source.open(&options, job.threads as usize).map_err(named_bucket)?;
                let OpenedQueues { queues, size_bytes, logical_block_bytes, description, mut notes, .. } = opened;
                // A note about holes concerns only jobs that read, and not where the session itself made the holes.
                let reads = job.mix.kinds().any(|kind| kind == OpKind::Read);
                let has_written = self.has_written.fetch_or(destructive, Ordering::Relaxed);
                if !reads || has_written {
                    notes.retain(|note| !note.contains(" are holes: "));
                }
                Ok(Opened {
                    queues,
                    facts: TargetFacts {
                        size_bytes,
                        logical_block_bytes,
                        description,
                        notes,
                        ..TargetFacts::default()
                    },
                })
            }
            Kind::Pool(pool) => {
                let queues = pool_queue::queues(pool, job.threads, job.depth, buffer_bytes)?;
                let facts = TargetFacts {
                    size_bytes: pool.size_bytes,
                    logical_block_bytes: 512,
                    description: pool.description.clone(),
                    ..TargetFacts::default()
                };
                Ok(Opened { queues, facts })
            }
        }
    }

    /// Checks that the jobs fit the target: sizes, offsets, region, and that the target opens with their settings.
    ///
    /// # Errors
    /// The first job that does not fit, and why.
    pub fn check<'a>(&self, jobs: impl Iterator<Item = &'a Job>) -> Result<()> {
        let mut known: Vec<((Access, bool), OpenedQueues)> = Vec::new();
        for job in jobs {
            let source = match &self.kind {
                // A null target accepts any I/O.
                Kind::Device(source) if source.name().starts_with("null:") => continue,
                Kind::Device(source) => source,
                Kind::Pool(pool) => {
                    check_fit(job, pool.size_bytes, 512, 512)?;
                    continue;
                }
            };
            let way = (job.access, !job.mix.is_destructive());
            if !known.iter().any(|(found, _)| *found == way) {
                let options = QueueOptions {
                    read_only: way.1 || self.is_bucket,
                    calls: calls(job.access.calls),
                    buffered: job.access.buffered,
                    ..QueueOptions::default()
                };
                let opened = source.open(&options, 1).map_err(named_bucket);
                let mut opened = opened.with_context(|| format!("job {:?} cannot begin", job.name))?;
                // Only the reported facts are kept; the target is closed.
                opened.queues.clear();
                known.push((way, opened));
            }
            for (_, facts) in known.iter().filter(|(found, _)| *found == way) {
                // A file through the page cache accepts any I/O size.
                let cached = facts.description.starts_with("file") && !facts.description.contains("direct");
                let granularity = if cached { 1 } else { facts.logical_block_bytes };
                check_fit(job, facts.size_bytes, facts.logical_block_bytes, granularity)?;
            }
        }
        Ok(())
    }

    /// Checks whether a load may write to the target.
    ///
    /// # Errors
    /// The target is read-only; or, without `--destroy-data`, it is a block device, a file that is not empty, or carries a known signature.
    pub fn may_write(&self, destroy_data: bool) -> Result<()> {
        if let Kind::Device(source) = &self.kind
            && is_read_only(Path::new("/sys/dev/block"), Path::new(source.name()))
        {
            bail!("{} is read-only: the device takes no writes; plan reads only, or blockdev --setrw", source.name());
        }
        if destroy_data || self.may_write.load(Ordering::Relaxed) {
            return Ok(());
        }
        if self.is_bucket
            && let Kind::Device(source) = &self.kind
        {
            bail!(
                "{}: to write to a bucket takes it from the server that has it, and what it holds is lost: if that is meant, repeat with \
                 --destroy-data",
                source.name()
            );
        }
        if !self.path.as_deref().is_some_and(scratch::is_marked) {
            let (queue, facts) = self.probe()?;
            let OpenedFacts { name, size_bytes, logical_block_bytes, block_device } = facts;
            let kind = match &self.path {
                _ if block_device => safety::Kind::BlockDevice,
                Some(path) if path.is_file() => safety::Kind::File(path),
                _ => safety::Kind::Other,
            };
            safety::permit_writes(&name, queue, size_bytes, logical_block_bytes, kind)?;
        }
        self.may_write.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Whether I/O reaches a file or block device with the job's settings, rather than something in this process or on a server.
    pub fn is_of_files(&self) -> bool {
        self.path.is_some()
    }

    /// Whether the target can be asked to make each write durable.
    pub fn takes_dsync(&self) -> bool {
        matches!(self.kind, Kind::Device(_))
    }

    /// The hint book of a pool; none for other targets.
    pub fn hint_book(&self) -> Option<&Arc<HintBook>> {
        match &self.kind {
            Kind::Device(_) => None,
            Kind::Pool(pool) => Some(&pool.hint_book),
        }
    }

    /// Size of the target in bytes.
    ///
    /// # Errors
    /// The target cannot be opened.
    pub fn size_bytes(&self) -> Result<u64> {
        match &self.kind {
            Kind::Device(_) => Ok(self.probe()?.1.size_bytes),
            Kind::Pool(pool) => Ok(pool.size_bytes),
        }
    }

    /// Size and logical block size, both in bytes.
    ///
    /// # Errors
    /// The target cannot be opened.
    pub fn shape(&self) -> Result<(u64, u32)> {
        let (_, facts) = self.probe()?;
        Ok((facts.size_bytes, facts.logical_block_bytes.max(1)))
    }

    /// Opens a queue for inspecting the target.
    fn probe(&self) -> Result<(Box<dyn Queue>, OpenedFacts)> {
        let options = QueueOptions { buffer_bytes: PROBE_BYTES, read_only: true, ..QueueOptions::default() };
        let (mut queues, facts) = match &self.kind {
            Kind::Device(source) => {
                let opened = source.open(&options, 1).map_err(named_bucket)?;
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

    /// Closes the target; a pool is stopped cleanly.
    ///
    /// # Errors
    /// A pool cannot be stopped cleanly.
    pub fn close(self) -> Result<()> {
        match self.kind {
            Kind::Device(source) => {
                let has_written = self.has_written.into_inner();
                drop(source);
                if let Some(path) = self.path.filter(|_| has_written) {
                    scratch::leave_mark(&path);
                }
                Ok(())
            }
            Kind::Pool(pool) => pool.close(),
        }
    }
}

/// Whether a path is a read-only block device (sysfs, `ro`). Opening such a device for writing succeeds, but each write fails.
fn is_read_only(sysfs: &Path, path: &Path) -> bool {
    use std::os::unix::fs::{FileTypeExt, MetadataExt};
    let Ok(metadata) = path.metadata() else { return false };
    let number = metadata.rdev();
    let file = sysfs.join(format!("{}:{}/ro", rustix::fs::major(number), rustix::fs::minor(number)));
    metadata.file_type().is_block_device() && std::fs::read_to_string(file).is_ok_and(|text| text.trim() == "1")
}

/// Says of a bucket which it is.
fn named_bucket(error: queue::OpenError) -> anyhow::Error {
    let who = match &error {
        queue::OpenError::Target(forebay_device::OpenError::Bucket { target, .. }) => Some(format!("target {target}")),
        _ => None,
    };
    let error = anyhow::Error::new(error);
    match who {
        Some(who) => error.context(who),
        None => error,
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
    use forebay_bench::job::model::{Mix, Pattern};
    use forebay_block::Io;

    fn job(kind: OpKind) -> Job {
        Job { mix: Mix::only(kind), depth: 4, ..Job::default() }
    }

    fn open(target: &MeasureTarget, kind: OpKind) -> Box<dyn Queue> {
        target.open(&job(kind), false).unwrap().queues.pop().unwrap()
    }

    fn run(queue: &mut dyn Queue, kind: OpKind, byte: u8) -> u8 {
        queue.buffer(1)[..4096].fill(byte);
        queue.submit(&Io { slot: 1, kind, len_bytes: 4096, offset_bytes: 0, hint: 0 });
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
        // The signature of a swap area (mkswap(8)): the last ten bytes of its first page.
        let mut marked = vec![0; 1 << 20];
        marked[4086..4096].copy_from_slice(b"SWAPSPACE2");
        std::fs::write(&path, vec![0; 1 << 20]).unwrap();
        let session = MeasureTarget::new(&path.display().to_string()).unwrap();
        let mut queue = open(&session, OpKind::Write);
        queue.buffer(1)[..4096].copy_from_slice(&marked[..4096]);
        queue.submit(&Io { slot: 1, kind: OpKind::Write, len_bytes: 4096, offset_bytes: 0, hint: 0 });
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

    #[test]
    fn regression_holes_are_shown_to_readers_who_did_not_make_them() {
        let directory = tempfile::TempDir::new().unwrap();
        let path = directory.path().join("x");
        std::fs::File::create(&path).unwrap().set_len(1 << 20).unwrap();
        let target = MeasureTarget::new(&path.display().to_string()).unwrap();
        let warns =
            |kind| target.open(&job(kind), false).unwrap().facts.notes.iter().any(|note| note.contains("holes"));
        assert!(warns(OpKind::Read));
        assert!(!warns(OpKind::Write), "a job that only writes");
        assert!(!warns(OpKind::Read), "what this session has made of it");
    }

    #[test]
    fn regression_what_does_not_fit_is_refused_before() {
        let directory = tempfile::TempDir::new().unwrap();
        let path = directory.path().join("x");
        std::fs::write(&path, vec![1; 1 << 20]).unwrap();
        let odd = Job { pattern: Pattern::Random { align_bytes: 100, skew_bytes: 0 }, ..Job::default() };
        let cached = Job { access: Access { buffered: true, ..Access::default() }, ..odd.clone() };
        for (text, refused) in [(path.display().to_string(), true), ("null:?size=1MiB".to_owned(), false)] {
            let target = MeasureTarget::new(&text).unwrap();
            let found = target.check([&Job::default(), &odd].into_iter()).map_err(|error| error.to_string());
            assert_eq!(
                found.as_ref().is_err_and(|error| error.contains("multiples of ")),
                refused,
                "{text}: {found:?}"
            );
            target.check([&cached].into_iter()).unwrap();
        }
    }

    #[test]
    fn regression_only_a_block_device_can_be_read_only() {
        assert!(!is_read_only(Path::new("/sys/dev/block"), Path::new("/dev/null")));
        assert!(!is_read_only(Path::new("/sys/dev/block"), Path::new("/nonexistent")));
        // The machine's block devices, whatever they are, decide the result.
        let directory = tempfile::TempDir::new().unwrap();
        let devices = std::fs::read_dir("/sys/dev/block").into_iter().flatten().flatten();
        for device in devices.take(4) {
            let number = device.file_name().into_string().unwrap();
            let node = std::fs::read_to_string(device.path().join("uevent")).unwrap_or_default();
            let Some(name) = node.lines().find_map(|line| line.strip_prefix("DEVNAME=")) else { continue };
            std::fs::create_dir(directory.path().join(&number)).unwrap();
            for (text, expected) in [("1\n", true), ("0\n", false)] {
                std::fs::write(directory.path().join(&number).join("ro"), text).unwrap();
                let node = Path::new("/dev").join(name);
                assert_eq!(is_read_only(directory.path(), &node), expected && node.exists(), "{name}");
            }
        }
    }
}

//! A pool in process as a target: its engine driven by the threads that make the load.

use super::hint_book::HintBook;
use anyhow::{Context, Result, anyhow, bail};
use forebay_block::{Buf, DiskId, Done, Io, IoError, IoErrorKind, OpKind, Queue};
use forebay_daemon::config::{self, Config};
use forebay_daemon::pool::{self, Budget, Ids, Opening, now_ns};
use forebay_device::OpenMode;
use forebay_device::queue::{QUEUES_MAX, SLOTS_MAX};
use forebay_volume::{self as volume, Completion, Engine, Outcome, Pool, Request, RequestError};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Where several threads share a pool, none keeps it asleep for longer than this, in nanoseconds.
const SHARED_SLEEP_NS: u64 = 50_000;

/// How long dropping a queue waits for what it has in flight.
const DROP_TIMEOUT: Duration = Duration::from_secs(5);

/// A pool, and what its queues have not taken yet.
struct Shared {
    pool: Pool,
    /// One for each queue that there is. Numbers are given once, so that what comes late for a queue that is gone
    /// reaches no other; after four thousand million queues they begin again.
    inboxes: BTreeMap<u32, Inbox>,
    /// Number for the next queue.
    next_number: u32,
    done: Vec<Completion>,
}

/// What has finished, at most one for each slot.
type Inbox = Vec<Ended>;

/// A request that has ended.
pub(super) struct Ended {
    slot: u32,
    /// Data of a read.
    data: Option<Buf>,
    error: Option<Box<IoError>>,
}

impl Ended {
    /// A completion, and the number of the queue that it is for.
    pub(super) fn of(Completion { token, result }: Completion) -> (u32, Self) {
        let (data, error) = match result {
            Ok(Outcome::Data(buf)) => (Some(buf), None),
            Ok(_) => (None, None),
            Err(error) => (None, Some(Box::new(as_io_error(&error)))),
        };
        ((token >> 32) as u32, Self { slot: token as u32, data, error })
    }

    /// Hands it to the thread that sent it: what was read goes into the slot's buffer.
    pub(super) fn into_done(self, buffers: &mut [Buf]) -> Done {
        if let Some(data) = self.data {
            let into = &mut buffers[self.slot as usize];
            let len = data.len().min(into.len());
            into[..len].copy_from_slice(&data[..len]);
        }
        Done { slot: self.slot, error: self.error }
    }
}

/// A pool that was opened for measurement. Closing it is [`PoolTarget::close`].
#[derive(Clone)]
pub struct PoolTarget {
    shared: Arc<Mutex<Shared>>,
    disk: DiskId,
    /// Size of the disk in bytes.
    pub size_bytes: u64,
    /// The pool's and the disk's names.
    pub description: String,
    /// What numbers of I/Os mean.
    pub hint_book: Arc<HintBook>,
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    // A thread that panicked has ended the run; what the others know is still reported.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Why a pool could not be stopped cleanly.
pub(super) fn unclean(pool: &Pool) -> anyhow::Error {
    let counters = pool.engine.status().counters;
    let reason = counters.last_checkpoint_error.or(counters.last_flush_error);
    let reason = reason.unwrap_or_else(|| "the last checkpoint did not end".to_owned());
    anyhow!("the pool was not stopped cleanly ({reason})")
}

/// File and disk of `CONFIG` or `CONFIG?disk=NAME`.
pub(super) fn split_name(text: &str) -> (&str, Option<&str>) {
    text.rsplit_once("?disk=").map_or((text, None), |(file, disk)| (file, Some(disk)))
}

/// The configuration of a name. One with a `?` that is no file has a parameter that is not known.
pub(super) fn load(file: &str) -> Result<Config> {
    if let Some((path, query)) = file.rsplit_once('?')
        && !Path::new(file).exists()
    {
        let name = query.split(['=', '&']).next().unwrap_or_default();
        bail!("\"pool:{file}\" has the parameter {name:?}; known here: disk, as in pool:{path}?disk=NAME");
    }
    config::load(Path::new(file))
}

/// Id, size in bytes and name of the disk that was asked for, or of the first.
pub(super) fn choose_disk(engine: &Engine, file: &str, disk: Option<&str>) -> Result<(DiskId, u64, String)> {
    let found = match disk {
        Some(name) => engine.disk_named(name).with_context(|| {
            let known: Vec<&str> = engine.disks().map(|disk| disk.name.as_str()).collect();
            format!("the pool of {file} has no disk {name:?}; it has {}", known.join(", "))
        })?,
        None => engine
            .disks()
            .find(|disk| !disk.is_being_removed())
            .with_context(|| format!("the pool of {file} has no disk"))?,
    };
    Ok((found.id, found.size_bytes, found.name.clone()))
}

/// A pool and its disk in words, for results.
pub(super) fn describe(config: &Config, disk: &str) -> String {
    let limit = crate::output::size(Budget::of(config.memory.limit.0).engine_bytes);
    format!("pool {:?} in process, disk {disk:?}, engine memory {limit}", config.pool.name)
}

/// An I/O as the engine takes it, with what the book knows of it; `queue` and slot come back in its completion.
pub(super) fn request(queue: u32, disk: DiskId, io: &Io, buffer: &Buf, book: &HintBook) -> Request {
    let op = match io.kind {
        OpKind::Read => volume::Op::Read,
        // The engine owns what it writes; a pool's clients copy once into such a buffer as well.
        OpKind::Write | OpKind::WriteFua => volume::Op::Write(Buf::copy_of(&buffer[..io.len_bytes as usize])),
        OpKind::Trim => volume::Op::Discard,
        OpKind::Flush | OpKind::Fsync => volume::Op::Flush,
    };
    Request {
        fua: io.kind == OpKind::WriteFua,
        hints: book.parts(io),
        ..Request::new(u64::from(queue) << 32 | u64::from(io.slot), disk, io.offset_bytes, u64::from(io.len_bytes), op)
    }
}

impl PoolTarget {
    /// Opens `CONFIG` or `CONFIG?disk=NAME`; the first disk by default. A pool of memory targets is formatted.
    ///
    /// # Errors
    /// What could not be opened, and why.
    pub fn open(text: &str) -> Result<Self> {
        let (file, disk) = split_name(text);
        let config = load(file)?;
        let mut devices = if config.targets().all(|target| !target.is_persistent()) {
            let mut devices = pool::open_devices(&config, OpenMode::ReadWrite)?;
            pool::format(&config, &mut devices, &mut Ids::Random)?;
            devices
        } else {
            pool::open_all(&config, Opening::Recover, &mut pool::Watched::default())?
        };
        let (engine, _) = pool::open(&config, &mut devices, Opening::Recover)?;
        let (id, size_bytes, name) = choose_disk(&engine, file, disk)?;
        let description = describe(&config, &name);
        let mut pool = Pool::new(engine, devices);
        pool::base::attach_all(&config, &mut pool, Opening::Recover)?;
        let shared = Shared { pool, inboxes: BTreeMap::new(), next_number: 0, done: Vec::new() };
        Ok(Self { shared: Arc::new(Mutex::new(shared)), disk: id, size_bytes, description, hint_book: Arc::default() })
    }

    /// A queue on its disk.
    pub fn queue(&self, slots: u32, buffer_bytes: usize) -> PoolQueue {
        let mut shared = lock(&self.shared);
        // Bounded: memory ends long before the numbers.
        while shared.inboxes.contains_key(&shared.next_number) {
            shared.next_number = shared.next_number.wrapping_add(1);
        }
        let number = shared.next_number;
        shared.next_number = number.wrapping_add(1);
        shared.inboxes.insert(number, Vec::with_capacity(slots as usize));
        PoolQueue {
            shared: self.shared.clone(),
            number,
            disk: self.disk,
            buffers: (0..slots).map(|_| Buf::zeroed(buffer_bytes)).collect(),
            buffer_bytes,
            hint_book: self.hint_book.clone(),
            in_flight: 0,
            alone: false,
        }
    }

    /// Stops the pool cleanly.
    ///
    /// # Errors
    /// Where its last checkpoint failed.
    pub fn close(self) -> Result<()> {
        let mut shared = lock(&self.shared);
        if shared.pool.close() {
            return Ok(());
        }
        Err(unclean(&shared.pool).context("the next start recovers it from its journal"))
    }
}

/// A queue on a pool's disk.
pub struct PoolQueue {
    shared: Arc<Mutex<Shared>>,
    number: u32,
    disk: DiskId,
    buffers: Vec<Buf>,
    buffer_bytes: usize,
    hint_book: Arc<HintBook>,
    in_flight: u32,
    /// No other queue shares the pool.
    pub alone: bool,
}

impl Shared {
    /// Moves the pool along and deals out what has finished.
    fn turn(&mut self) {
        self.pool.tick(now_ns());
        let mut done = std::mem::take(&mut self.done);
        self.pool.poll(&mut done);
        for (number, ended) in done.drain(..).map(Ended::of) {
            // What its queue did not stay for is dropped here.
            if let Some(inbox) = self.inboxes.get_mut(&number) {
                inbox.push(ended);
            }
        }
        self.done = done;
    }
}

fn as_io_error(error: &RequestError) -> IoError {
    let (kind, offset_bytes) = match error {
        RequestError::Device { source, .. } => return source.clone(),
        RequestError::OutOfRange | RequestError::NoDisk | RequestError::NoBase => (IoErrorKind::Invalid, 0),
        RequestError::Damaged { offset_bytes, .. } => (IoErrorKind::Medium, *offset_bytes),
        RequestError::NoSpace => (IoErrorKind::NoSpace, 0),
        RequestError::FlushFailed | RequestError::ReadOnly(_) | RequestError::ShuttingDown => (IoErrorKind::Gone, 0),
    };
    IoError { kind, operation: "request", offset_bytes, os_error: 0 }
}

impl Queue for PoolQueue {
    fn slots(&self) -> u32 {
        self.buffers.len() as u32
    }
    fn buffer_bytes(&self) -> usize {
        self.buffer_bytes
    }
    fn buffer(&mut self, slot: u32) -> &mut [u8] {
        &mut self.buffers[slot as usize]
    }
    fn submit(&mut self, io: &Io) {
        let request = request(self.number, self.disk, io, &self.buffers[io.slot as usize], &self.hint_book);
        self.in_flight += 1;
        let mut shared = lock(&self.shared);
        shared.pool.tick(now_ns());
        shared.pool.submit(request);
    }
    fn kick(&mut self) {
        lock(&self.shared).turn();
    }
    fn reap(&mut self, done: &mut Vec<Done>) {
        let mut shared = lock(&self.shared);
        shared.turn();
        let Some(inbox) = shared.inboxes.get_mut(&self.number) else { return };
        for ended in inbox.drain(..) {
            self.in_flight -= 1;
            done.push(ended.into_done(&mut self.buffers));
        }
    }
    fn wait(&mut self, timeout_ns: u64) {
        let mut shared = lock(&self.shared);
        if self.in_flight > 0 && shared.inboxes.get(&self.number).is_none_or(Vec::is_empty) {
            shared.pool.wait(if self.alone { timeout_ns } else { timeout_ns.min(SHARED_SLEEP_NS) });
        }
    }
    fn in_flight(&self) -> u32 {
        self.in_flight
    }
}

impl Drop for PoolQueue {
    /// Stays for what is in flight, so that it does not meet the I/O of queues to come.
    fn drop(&mut self) {
        let started = Instant::now();
        let mut forgotten = Vec::new();
        while self.in_flight > 0 && started.elapsed() < DROP_TIMEOUT {
            self.wait(SHARED_SLEEP_NS);
            self.reap(&mut forgotten);
            forgotten.clear();
        }
        lock(&self.shared).inboxes.remove(&self.number);
    }
}

/// Several threads on one pool take turns: their number says so in results.
///
/// # Errors
/// A count or a depth out of range.
pub fn queues(target: &PoolTarget, count: u32, slots: u32, buffer_bytes: usize) -> Result<Vec<Box<dyn Queue>>> {
    if count == 0 || count as usize > QUEUES_MAX {
        bail!("{count} threads: a pool takes 1 to {QUEUES_MAX}");
    }
    if slots == 0 || slots > SLOTS_MAX {
        bail!("a depth of {slots}: a pool takes 1 to {SLOTS_MAX}");
    }
    let queue = |_| {
        let mut queue = target.queue(slots, buffer_bytes);
        queue.alone = count == 1;
        Box::new(queue) as Box<dyn Queue>
    };
    Ok((0..count).map(queue).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(directory: &Path) -> PoolTarget {
        let path = directory.join("pool.toml");
        let text = "[pool]\nname = \"p\"\n[[fast]]\ntarget = \"ram:?size=64MiB\"\n[[capacity]]\n\
                    target = \"ram:?size=256MiB\"\n[[disk]]\nname = \"d\"\nsize = \"64MiB\"\n[memory]\nlimit = \"64MiB\"\n";
        std::fs::write(&path, text).unwrap();
        PoolTarget::open(path.to_str().unwrap()).unwrap()
    }

    fn run(queue: &mut PoolQueue, kind: OpKind) {
        queue.submit(&Io { slot: 0, kind, len_bytes: 4096, offset_bytes: 0, hint: 0 });
        let mut done = Vec::new();
        while done.is_empty() {
            queue.kick();
            queue.wait(1_000_000_000);
            queue.reap(&mut done);
        }
        assert!(done.len() == 1 && done[0].error.is_none(), "{done:?}");
    }

    #[test]
    fn queues_that_go_leave_nothing_and_confuse_none() {
        let directory = tempfile::TempDir::new().unwrap();
        let target = target(directory.path());
        let mut neighbour = target.queue(1, 4096);
        for round in 0..2000u32 {
            let mut queue = target.queue(32, 4096);
            for slot in 0..round % 32 {
                let kind = if slot % 3 == 0 { OpKind::Flush } else { OpKind::Read };
                let len_bytes = if kind == OpKind::Read { 4096 } else { 0 };
                queue.submit(&Io { slot, kind, len_bytes, offset_bytes: u64::from(slot) << 12, hint: 0 });
            }
            if round % 2 == 0 {
                queue.kick();
            }
            drop(queue);
            let mut later = target.queue(1, 4096);
            assert_eq!(lock(&target.shared).inboxes.len(), 2);
            later.buffer(0).fill(round as u8);
            run(&mut later, OpKind::Write);
            run(&mut neighbour, OpKind::Read);
            assert!(neighbour.buffer(0).iter().all(|&byte| byte == round as u8));
        }
        drop(neighbour);
        target.close().unwrap();
    }

    #[test]
    fn counts_out_of_range_are_refused() {
        let directory = tempfile::TempDir::new().unwrap();
        let target = target(directory.path());
        for (count, slots) in [(0, 1), (QUEUES_MAX as u32 + 1, 1), (1, 0), (1, SLOTS_MAX + 1)] {
            assert!(queues(&target, count, slots, 512).is_err());
        }
        assert_eq!(queues(&target, 2, 3, 512).unwrap().len(), 2);
    }
}

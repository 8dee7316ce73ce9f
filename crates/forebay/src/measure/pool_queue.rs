//! A pool in this process as a target: the threads of the load drive its engine.

use super::hint_book::HintBook;
use anyhow::{Context, Result, anyhow, bail};
use forebay_block::{Buf, DiskId, Done, Io, IoError, IoErrorKind, OpKind, Queue, lock};
use forebay_daemon::config::{self, Config};
use forebay_daemon::pool::{self, Budget, Ids, Opening, now_ns};
use forebay_device::OpenMode;
use forebay_device::queue::{QUEUES_MAX, SLOTS_MAX};
use forebay_volume::{self as volume, Completion, Engine, Outcome, Pool, Request, RequestError};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Where several threads share a pool, none sleeps in its engine for longer than this, in nanoseconds.
const SHARED_SLEEP_NS: u64 = 50_000;

/// How long dropping a queue waits for its requests in flight.
const DROP_TIMEOUT: Duration = Duration::from_secs(5);

/// A pool, and the completions that its queues have not taken yet.
struct Shared {
    pool: Pool,
    /// One inbox for each existing queue. Numbers are not reused (until 2^32 queues were opened), so that a late completion for a dropped
    /// queue reaches no other queue.
    inboxes: BTreeMap<u32, Inbox>,
    /// Number for the next queue.
    next_number: u32,
    done: Vec<Completion>,
}

/// Ended requests, at most one for each slot.
type Inbox = Vec<Ended>;

/// A request that has ended.
pub(super) struct Ended {
    slot: u32,
    /// Data of a read.
    data: Option<Buf>,
    error: Option<Box<IoError>>,
}

impl Ended {
    /// Converts a completion; returns it with the number of its queue.
    pub(super) fn of(Completion { token, result }: Completion) -> (u32, Self) {
        let (data, error) = match result {
            Ok(Outcome::Data(buf)) => (Some(buf), None),
            Ok(_) => (None, None),
            Err(error) => (None, Some(Box::new(as_io_error(&error)))),
        };
        ((token >> 32) as u32, Self { slot: token as u32, data, error })
    }

    /// Converts to the form for the thread that sent the request: copies read data into the slot's buffer.
    pub(super) fn into_done(self, buffers: &mut [Buf]) -> Done {
        if let Some(data) = self.data {
            let into = &mut buffers[self.slot as usize];
            let len = data.len().min(into.len());
            into[..len].copy_from_slice(&data[..len]);
        }
        Done { slot: self.slot, error: self.error }
    }
}

/// A pool opened for measurement. [`PoolTarget::close`] closes it.
#[derive(Clone)]
pub struct PoolTarget {
    shared: Arc<Mutex<Shared>>,
    disk: DiskId,
    /// Size of the disk in bytes.
    pub size_bytes: u64,
    /// Names of the pool and the disk.
    pub description: String,
    /// The hints behind the numbers of I/Os.
    pub hint_book: Arc<HintBook>,
}

/// Why a pool could not be stopped cleanly.
pub(super) fn unclean(pool: &Pool) -> anyhow::Error {
    let counters = pool.engine.status().counters;
    let reason = counters.last_checkpoint_error.or(counters.last_flush_error);
    let reason = reason.unwrap_or_else(|| "the last checkpoint did not end".to_owned());
    anyhow!("the pool was not stopped cleanly ({reason})")
}

/// Splits `CONFIG` or `CONFIG?disk=NAME` into file and disk.
pub(super) fn split_name(text: &str) -> (&str, Option<&str>) {
    text.rsplit_once("?disk=").map_or((text, None), |(file, disk)| (file, Some(disk)))
}

/// Loads the configuration. A name with `?` that is not a file has an unknown parameter.
pub(super) fn load(file: &str) -> Result<Config> {
    if let Some((path, query)) = file.rsplit_once('?')
        && !Path::new(file).exists()
    {
        let name = query.split(['=', '&']).next().unwrap_or_default();
        bail!("\"pool:{file}\" has the parameter {name:?}; known here: disk, as in pool:{path}?disk=NAME");
    }
    config::load(Path::new(file))
}

/// Id, size in bytes and name of the requested disk, or of the first one.
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

/// Description of a pool and its disk, for results.
pub(super) fn describe(config: &Config, disk: &str) -> String {
    let limit = crate::output::size(Budget::of(config.memory.limit.0).engine_bytes);
    format!("pool {:?} in process, disk {disk:?}, engine memory {limit}", config.pool.name)
}

/// Converts an I/O for the engine, with its hints from the book. `queue` and the slot come back in the completion.
pub(super) fn request(queue: u32, disk: DiskId, io: &Io, buffer: &Buf, book: &HintBook) -> Request {
    let op = match io.kind {
        OpKind::Read => volume::Op::Read,
        // The engine takes ownership of write data; for a pool's clients, too, the data is copied once into such a buffer.
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
    /// Opens `CONFIG` or `CONFIG?disk=NAME`; the first disk by default. A pool of memory targets is formatted first.
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

    /// Opens a queue on its disk.
    pub fn queue(&self, slots: u32, buffer_bytes: usize) -> PoolQueue {
        let mut shared = lock(&self.shared);
        // Ends: memory is exhausted long before the numbers are.
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
    /// The last checkpoint failed.
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
    /// Whether no other queue shares the pool.
    pub alone: bool,
}

impl Shared {
    /// Runs a step of the pool and distributes the completions.
    fn turn(&mut self) {
        self.pool.tick(now_ns());
        let mut done = std::mem::take(&mut self.done);
        self.pool.poll(&mut done);
        for (number, ended) in done.drain(..).map(Ended::of) {
            // Completions for a queue that was dropped are discarded here.
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
    /// Waits for the requests in flight, so that they do not overlap the I/O of later queues.
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

/// Opens queues for several threads, which drive the pool alternately; results show their number.
///
/// # Errors
/// A count or a depth is out of range.
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

//! A pool over modelled drives in virtual time: the engine, its devices and the load's threads share one clock.
//!
//! A thread's work costs what the host's profile says. Its requests reach the engine when the thread submits them, and it sees completions
//! as it would a drive's. A constant stands for the engine's computing time.

use super::hint_book::HintBook;
use super::pool_intervals::PoolIntervals;
use super::pool_queue::{Ended, choose_disk, describe, load, split_name, unclean};
use super::wear::{self, Role, Wear};
use anyhow::{Context, Result, bail};
use forebay_block::{Buf, DiskId, Done, Io, Queue, Random, VirtualClock, VirtualQueue, lock};
use forebay_daemon::config::Config;
use forebay_daemon::pool::{self, Ids, Opening};
use forebay_device::modelled::DEFAULT_HOST;
use forebay_device::queue::{QUEUES_MAX, SLOTS_MAX};
use forebay_device::{Drive, ModelUri, Target, VirtualDevice};
use forebay_model::host::{Profile, Thread};
use forebay_volume::{Completion, Devices, Pool, Request};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

/// Interval in which the engine runs where nothing else happens, in nanoseconds; it bounds how long idle work waits.
const TICK_NS: u64 = 1_000_000;

/// Stands for the engine's own work on a request, in nanoseconds, between submission and arrival at the engine. `bench/engine` measures 1
/// to 2.5 microseconds on a shared core. The constant does not limit the engine's rate. Without it, reads of holes would take no time on a
/// host without costs, and a run would never end.
const ENGINE_NS: u64 = 1_000;

/// The world: a pool, and the requests and completions between it and the threads.
struct World {
    pool: Pool,
    clock: VirtualClock,
    /// Submitted requests in order of time. A thread may be ahead of the pool.
    arrivals: VecDeque<(u64, Request)>,
    /// For each existing queue, the completions that it has not seen yet, in order of time.
    lines: Vec<Option<VecDeque<(u64, Ended)>>>,
    next_tick_ns: u64,
    done: Vec<Completion>,
    intervals: PoolIntervals,
}

impl World {
    fn next_event_ns(&self) -> u64 {
        let arrival_ns = self.arrivals.front().map_or(u64::MAX, |(at_ns, _)| *at_ns);
        self.pool.next_event_ns().min(arrival_ns).min(self.next_tick_ns)
    }

    fn arrive(&mut self, at_ns: u64, request: Request) {
        let place = self.arrivals.partition_point(|(earlier_ns, _)| *earlier_ns <= at_ns);
        self.arrivals.insert(place, (at_ns, request));
    }

    /// Advances to `to_ns`, or to the first time at which a thread could see a completion.
    fn advance(&mut self, to_ns: u64) {
        let mut is_seen = false;
        while !is_seen {
            let shown_ns = self.arrivals.front().map_or(u64::MAX, |(at_ns, _)| *at_ns).min(self.next_tick_ns);
            match self.pool.advance(to_ns.min(shown_ns)) {
                Some(now_ns) => is_seen = self.turn(now_ns),
                None if shown_ns <= to_ns => is_seen = self.turn(shown_ns),
                None => return,
            }
        }
    }

    /// Runs the engine at a time at which it has work; true where requests have ended.
    fn turn(&mut self, now_ns: u64) -> bool {
        if self.next_tick_ns <= now_ns {
            self.next_tick_ns = now_ns + TICK_NS;
            self.intervals.look(now_ns, &self.pool.engine);
        }
        self.clock.show(now_ns);
        self.pool.tick(now_ns);
        while let Some((_, request)) = self.arrivals.pop_front_if(|(at_ns, _)| *at_ns <= now_ns) {
            self.pool.submit(request);
        }
        self.pool.poll(&mut self.done);
        // Compression takes no virtual time.
        while self.pool.engine.computes() {
            self.pool.poll(&mut self.done);
        }
        let is_seen = !self.done.is_empty();
        for (number, ended) in self.done.drain(..).map(Ended::of) {
            // Completions for a dropped queue are discarded.
            if let Some(line) = &mut self.lines[number as usize] {
                line.push_back((now_ns, ended));
            }
        }
        is_seen
    }
}

/// A pool over models for a whole session: its state and its time continue from job to job.
pub struct VirtualPool {
    world: Arc<Mutex<World>>,
    clock: VirtualClock,
    profile: Profile,
    random: Mutex<Random>,
    drives: Vec<(Role, Drive)>,
    disk: DiskId,
    size_bytes: u64,
    description: String,
    notes: Vec<String>,
    hint_book: Arc<HintBook>,
}

/// The models of a configuration, fast one first; none where its tiers are real.
fn models(config: &Config) -> Vec<&ModelUri> {
    config.targets().filter_map(|target| if let Target::Model(uri) = target { Some(uri) } else { None }).collect()
}

/// The host profile that the tiers name, which must be the same.
fn host<'a>(models: &[&'a ModelUri]) -> Result<&'a str> {
    let mut named = models.iter().filter_map(|uri| uri.host.as_deref());
    let first = named.next();
    if let (Some(first), Some(other)) = (first, named.find(|name| Some(*name) != first)) {
        bail!(
            "the tiers name two hosts, {first:?} and {other:?}: a pool runs on one; give the same host= or give it once"
        );
    }
    Ok(first.unwrap_or(DEFAULT_HOST))
}

impl VirtualPool {
    /// Builds the drives of `CONFIG` or `CONFIG?disk=NAME` and formats a pool on them, in the time of `clock`; `None` where its tiers are
    /// not models. The same configuration and seed give the same nanoseconds. Its writes are recorded once per interval.
    ///
    /// # Errors
    /// What could not be built, and why.
    pub fn open(text: &str, seed: u64, interval_ns: u64, clock: &VirtualClock) -> Result<Option<Self>> {
        let (file, disk) = split_name(text);
        let config = load(file)?;
        let models = models(&config);
        if models.is_empty() {
            return Ok(None);
        }
        let host = host(&models)?;
        let profile = Profile::named(host)?;
        let clock = clock.clone();
        let mut random = Random::new(seed);
        let (mut list, mut drives) = (Vec::new(), Vec::new());
        for uri in models {
            let (device, drive) = VirtualDevice::new(uri, random.next_u64(), &clock)
                .with_context(|| format!("tier {uri} cannot be made"))?;
            list.push(Box::new(device) as Box<dyn forebay_block::Device>);
            drives.push((if drives.is_empty() { Role::Fast } else { Role::Capacity }, drive));
        }
        let mut devices = Devices::new(list);
        // Ids come from the seed: the pool does not outlive the session, and its bytes are the same in each run.
        pool::format(&config, &mut devices, &mut Ids::Seeded(&mut random))?;
        let (engine, _) = pool::open(&config, &mut devices, Opening::Recover)?;
        let (disk, size_bytes, disk_name) = choose_disk(&engine, file, disk)?;
        let tiers: Vec<String> = drives.iter().map(|(_, drive)| drive.name.clone()).collect();
        let description =
            format!("{} over {}; host {host}, virtual time", describe(&config, &disk_name), tiers.join(" and "));
        let notes = vec![
            "virtual time: the drives' and the host's work as modelled; for the pool's engine stands 1 us an I/O, and its \
             rate is not bounded (bench/engine measures it)"
                .to_owned(),
            "what is written to the drives is held in memory, without a limit of its own".to_owned(),
        ];
        let next_tick_ns = clock.now_ns() + TICK_NS;
        let intervals = PoolIntervals::new(interval_ns, clock.now_ns(), &engine);
        let pool = Pool::new(engine, devices);
        let world = World {
            pool,
            clock: clock.clone(),
            arrivals: VecDeque::new(),
            lines: Vec::new(),
            next_tick_ns,
            done: Vec::new(),
            intervals,
        };
        let (world, random) = (Arc::new(Mutex::new(world)), Mutex::new(random));
        Ok(Some(Self {
            world,
            clock,
            profile,
            random,
            drives,
            disk,
            size_bytes,
            description,
            notes,
            hint_book: Arc::default(),
        }))
    }

    /// The clock of the pool's world.
    pub fn clock(&self) -> &VirtualClock {
        &self.clock
    }

    /// Size of the disk in bytes.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Description for results.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Notes for the user, one sentence each.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The hint book for traces.
    pub fn hint_book(&self) -> &Arc<HintBook> {
        &self.hint_book
    }

    /// Present counters of the drives and the pool.
    pub fn wear(&self) -> Wear {
        let world = lock(&self.world);
        let pool = wear::PoolState::of(&world.pool.engine, world.intervals.rows());
        drop(world);
        let drives = self.drives.iter().map(|(role, drive)| wear::DriveState::of(*role, drive)).collect();
        Wear { drives, pool: Some(pool) }
    }

    /// Opens queues for `threads` threads, each with `slots` buffers of `buffer_bytes`.
    ///
    /// # Errors
    /// A count or a depth is out of range.
    pub fn queues(&self, threads: u32, slots: u32, buffer_bytes: usize) -> Result<Vec<VirtualPoolQueue>> {
        if threads == 0 || threads as usize > QUEUES_MAX || slots == 0 || slots > SLOTS_MAX {
            bail!("{threads} threads at a depth of {slots}: a pool takes 1 to {QUEUES_MAX} and 1 to {SLOTS_MAX}");
        }
        let queue = |_| {
            let mut world = lock(&self.world);
            world.lines.push(Some(VecDeque::with_capacity(slots as usize)));
            VirtualPoolQueue {
                world: self.world.clone(),
                clock: self.clock.clone(),
                thread: Thread::new(&self.profile, lock(&self.random).next_u64()),
                line: world.lines.len() as u32 - 1,
                disk: self.disk,
                buffers: (0..slots).map(|_| Buf::zeroed(buffer_bytes)).collect(),
                buffer_bytes,
                hint_book: self.hint_book.clone(),
                gathered: Vec::with_capacity(slots as usize),
                in_flight: 0,
            }
        };
        Ok((0..threads).map(queue).collect())
    }

    /// Stops the pool cleanly.
    ///
    /// # Errors
    /// The last checkpoint failed.
    pub fn close(&self) -> Result<()> {
        let mut world = lock(&self.world);
        if world.pool.close() { Ok(()) } else { Err(unclean(&world.pool)) }
    }
}

/// A thread's queue on the pool's disk.
pub struct VirtualPoolQueue {
    world: Arc<Mutex<World>>,
    clock: VirtualClock,
    thread: Thread,
    line: u32,
    disk: DiskId,
    buffers: Vec<Buf>,
    buffer_bytes: usize,
    hint_book: Arc<HintBook>,
    /// Requests that the thread has prepared and not yet submitted.
    gathered: Vec<Request>,
    in_flight: u32,
}

impl Drop for VirtualPoolQueue {
    fn drop(&mut self) {
        lock(&self.world).lines[self.line as usize] = None;
    }
}

impl Queue for VirtualPoolQueue {
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
        self.clock.show(self.thread.submit(self.clock.now_ns()));
        let buffer = &self.buffers[io.slot as usize];
        let request = super::pool_queue::request(self.line, self.disk, io, buffer, &self.hint_book);
        self.gathered.push(request);
        self.in_flight += 1;
    }

    /// The gathered requests reach the engine together, as in real time.
    fn kick(&mut self) {
        let mut world = lock(&self.world);
        let at_ns = self.clock.now_ns() + ENGINE_NS;
        for request in self.gathered.drain(..) {
            world.arrive(at_ns, request);
        }
    }

    /// Returns one completion at a time: the thread sees them one after the other, each at its own time.
    fn reap(&mut self, done: &mut Vec<Done>) {
        let now_ns = self.clock.now_ns();
        let ended = lock(&self.world).lines[self.line as usize]
            .as_mut()
            .and_then(|line| line.pop_front_if(|(at_ns, _)| *at_ns <= now_ns));
        let Some((at_ns, ended)) = ended else { return };
        self.clock.show(self.thread.sees(at_ns).max(now_ns));
        self.in_flight -= 1;
        done.push(ended.into_done(&mut self.buffers));
    }

    fn wait(&mut self, _timeout_ns: u64) {}

    fn in_flight(&self) -> u32 {
        self.in_flight
    }

    fn is_modelled(&self) -> bool {
        true
    }

    fn go_on(&mut self) {
        self.clock.show(self.thread.now_ns().max(self.clock.now_ns()));
    }

    fn host_work_ns(&self) -> Option<u64> {
        Some(self.thread.worked_ns())
    }
}

impl VirtualQueue for VirtualPoolQueue {
    fn next_seen_ns(&self) -> u64 {
        let world = lock(&self.world);
        world.lines[self.line as usize].as_ref().and_then(VecDeque::front).map_or(u64::MAX, |(at_ns, _)| *at_ns)
    }

    fn next_event_ns(&self) -> u64 {
        lock(&self.world).next_event_ns()
    }

    fn advance(&mut self, to_ns: u64) {
        lock(&self.world).advance(to_ns);
    }
}

//! A pool over devices that lose, tear, reorder and fail, and an oracle that knows what may be on its disk.
#![allow(dead_code, clippy::unwrap_used)]

pub mod anatomy;
pub mod history;

use forebay_block::Random;
use forebay_block::{Buf, ClassId, Completion, Device, DiskId, Geometry, Request as DeviceRequest};
use forebay_device::{FaultyDevice, Image, ReorderDevice, VolatileDevice, image::ImageDevice};
use forebay_prism::{ClassSpec, ClassTable, Place};
use forebay_volume::engine::Faults;
use forebay_volume::layout::plan::{PoolOptions, plan};
use forebay_volume::recovery::{OpenError, RecoveryReport, format, format::NewDisk, open};
use forebay_volume::{Devices, EngineOptions, Op, Outcome, Pool, Request, RequestError};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

pub type Stack = ReorderDevice<FaultyDevice<VolatileDevice<ImageDevice>>>;

/// A device that the test keeps a hand on.
#[derive(Clone)]
pub struct Shared {
    stack: Arc<Mutex<Stack>>,
    name: String,
    geometry: Geometry,
}

impl Shared {
    pub fn new(name: &str, image: Image, seed: u64) -> Self {
        let stack = ReorderDevice::seeded(FaultyDevice::new(VolatileDevice::over_image(image)), seed);
        let geometry = stack.geometry().clone();
        Self { stack: Arc::new(Mutex::new(stack)), name: name.to_owned(), geometry }
    }
    pub fn lock(&self) -> MutexGuard<'_, Stack> {
        self.stack.lock().unwrap()
    }
    pub fn steps(&self) -> u64 {
        self.lock().inner().inner().steps()
    }
    /// What is on the medium now; unflushed data is not.
    pub fn durable(&self) -> Image {
        self.lock().inner().inner().durable()
    }
    /// The device writes its cache back by itself. Nothing may be in flight.
    pub fn write_back(&self) {
        forebay_device::blocking::flush(&mut *self.lock()).unwrap();
    }
    /// Plans a fault.
    pub fn plan(&self, fault: forebay_device::faulty::Fault) {
        self.lock().inner_mut().plan(fault);
    }
    /// No more faults.
    pub fn heal(&self) {
        self.lock().inner_mut().heal();
    }
    /// Operations that failed by plan so far.
    pub fn struck(&self) -> u64 {
        self.lock().inner().struck()
    }
    /// The bytes that survive a power cut now.
    pub fn cut(&self, random: &mut Random) -> Image {
        let mut stack = self.lock();
        stack.forget();
        let volatile = stack.inner_mut().inner_mut();
        volatile.power_cut(random).unwrap();
        volatile.durable()
    }
}

impl Device for Shared {
    fn name(&self) -> &str {
        &self.name
    }
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }
    fn submit(&mut self, request: DeviceRequest) {
        self.lock().submit(request);
    }
    fn poll(&mut self, done: &mut Vec<Completion>) {
        self.lock().poll(done);
    }
    fn wait(&mut self, timeout_ns: u64) {
        self.lock().wait(timeout_ns);
    }
    fn queue_limit(&self) -> usize {
        self.lock().queue_limit()
    }
    fn in_flight(&self) -> usize {
        self.lock().in_flight()
    }
}

/// Geometry of a small pool.
#[derive(Clone, Debug)]
pub struct Shape {
    pub fast_bytes: u64,
    pub capacity_bytes: u64,
    pub band_bytes: u64,
    pub disk_bytes: u64,
    pub frames: usize,
    /// Leaves that requests go to: bounds the live data.
    pub leaves: u64,
    pub faults: Faults,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            fast_bytes: 3 << 20,
            capacity_bytes: 2 << 20,
            band_bytes: 64 << 10,
            disk_bytes: 16 << 20,
            frames: 16,
            leaves: 8,
            faults: Faults::default(),
        }
    }
}

pub fn classes() -> Vec<ClassSpec> {
    vec![ClassSpec::new("bulk", Place::Capacity)]
}

pub const BULK: ClassId = ClassId(5);

impl Shape {
    pub fn options(&self) -> EngineOptions {
        EngineOptions {
            frames: Some(self.frames),
            job_blocks: 24,
            destage_above_percent: 40,
            bypass_below_percent: 15,
            unflushed_limit_bytes: 512 << 10,
            faults: self.faults,
            ..EngineOptions::default()
        }
    }

    /// Two freshly formatted images.
    pub fn format(&self) -> Vec<Image> {
        let images = [Image::zeroed(self.fast_bytes), Image::zeroed(self.capacity_bytes)];
        let shared: Vec<Shared> =
            images.into_iter().enumerate().map(|(i, image)| Shared::new(&format!("d{i}"), image, 1)).collect();
        let mut devices = Devices::new(shared.iter().map(|s| Box::new(s.clone()) as Box<dyn Device>).collect());
        let options =
            PoolOptions { name: "test".into(), band_bytes: Some(self.band_bytes), journal_bytes: Some(128 << 10) };
        let superblock =
            plan(&options, shared[0].geometry(), &[shared[1].geometry().clone()], [7; 16], &[[1; 16], [2; 16]])
                .unwrap();
        let table = ClassTable::from_configured(&classes()).unwrap();
        let disks = [NewDisk { name: "disk".into(), size_bytes: self.disk_bytes }];
        format(&mut devices, &superblock, table, &disks, true, self.options()).unwrap();
        let mut random = Random::new(0);
        shared.iter().map(|s| s.cut(&mut random)).collect()
    }
}

/// Eight sectors of a block; each is filled with its tag, 0 is zeros.
pub type Content = [u32; 8];

pub fn sector_bytes(tag: u32, out: &mut [u8]) {
    for chunk in out.chunks_exact_mut(4) {
        chunk.copy_from_slice(&tag.to_le_bytes());
    }
}

/// The tags of a block; `None` where a sector is not uniform (torn).
pub fn tags(block: &[u8]) -> Option<Content> {
    let mut content = [0; 8];
    for (sector, tag) in block.chunks_exact(512).zip(&mut content) {
        *tag = u32::from_le_bytes(sector[..4].try_into().unwrap());
        if sector.chunks_exact(4).any(|word| word != tag.to_le_bytes()) {
            return None;
        }
    }
    Some(content)
}

/// What may be in one block.
#[derive(Clone, Debug, Default)]
struct Versions {
    /// Contents in the order in which they take effect; the first is what was there at the start.
    list: Vec<Content>,
    /// Oldest that may still be seen after a power cut.
    durable: usize,
    /// Oldest that a read may see now.
    acknowledged: usize,
}

/// Knows, for each block, every content it may have.
#[derive(Clone, Debug, Default)]
pub struct Oracle {
    blocks: BTreeMap<u64, Versions>,
}

/// Versions a request made: (block, index into its list).
pub type Made = Vec<(u64, usize)>;

impl Oracle {
    fn versions(&mut self, block: u64) -> &mut Versions {
        self.blocks.entry(block).or_insert_with(|| Versions { list: vec![[0; 8]], durable: 0, acknowledged: 0 })
    }
    /// A request changes sectors; returns the versions it makes.
    pub fn change(&mut self, sector: u64, tags: &[u32]) -> Made {
        let mut made = Made::new();
        let mut at = 0;
        while at < tags.len() {
            let block = (sector + at as u64) / 8;
            let first = ((sector + at as u64) % 8) as usize;
            let n = (8 - first).min(tags.len() - at);
            let versions = self.versions(block);
            let mut content = *versions.list.last().unwrap();
            content[first..first + n].copy_from_slice(&tags[at..at + n]);
            versions.list.push(content);
            made.push((block, versions.list.len() - 1));
            at += n;
        }
        made
    }
    pub fn acknowledge(&mut self, made: &Made) {
        for &(block, version) in made {
            let versions = self.versions(block);
            versions.acknowledged = versions.acknowledged.max(version);
        }
    }
    /// State of acknowledgement when a flush is submitted.
    pub fn snapshot(&self) -> BTreeMap<u64, usize> {
        self.blocks.iter().map(|(&block, versions)| (block, versions.acknowledged)).collect()
    }
    pub fn flushed(&mut self, snapshot: &BTreeMap<u64, usize>) {
        for (&block, &version) in snapshot {
            let versions = self.versions(block);
            versions.durable = versions.durable.max(version);
        }
    }
    pub fn durable(&mut self, made: &Made) {
        for &(block, version) in made {
            let versions = self.versions(block);
            versions.durable = versions.durable.max(version);
        }
    }
    pub fn blocks(&self) -> Vec<u64> {
        self.blocks.keys().copied().collect()
    }
    pub fn acknowledged(&self, block: u64) -> usize {
        self.blocks.get(&block).map_or(0, |versions| versions.acknowledged)
    }
    /// Whether a read that started when `since` was the acknowledged version may see this.
    pub fn may_read(&self, block: u64, content: &Content, since: usize) -> bool {
        match self.blocks.get(&block) {
            Some(versions) => versions.list[since..].contains(content),
            None => *content == [0; 8],
        }
    }
    /// After a power cut: checks a block, and from now on it has just this content.
    pub fn survive(&mut self, block: u64, content: Option<Content>) -> Result<(), String> {
        let versions = self.versions(block);
        let Some(content) = content else { return Err(format!("block {block}: torn inside a sector")) };
        if !versions.list[versions.durable..].contains(&content) {
            let older = versions.list[..versions.durable].contains(&content);
            return Err(format!(
                "block {block}: {content:x?} is {}; allowed {:x?}",
                if older { "an OLDER version than what was flushed" } else { "never written" },
                &versions.list[versions.durable..]
            ));
        }
        *versions = Versions { list: vec![content], durable: 0, acknowledged: 0 };
        Ok(())
    }
}

/// A request under way.
enum Flight {
    Change { made: Made, fua: bool },
    Flush { snapshot: BTreeMap<u64, usize> },
    Read { sector: u64, sectors: u64, since: BTreeMap<u64, usize> },
}

/// A running pool with its oracle.
pub struct World {
    pub shape: Shape,
    pub shared: Vec<Shared>,
    pub pool: Pool,
    pub report: RecoveryReport,
    pub oracle: Oracle,
    flights: BTreeMap<u64, Flight>,
    next_token: u64,
    pub next_tag: u32,
    pub now_ns: u64,
    pub errors: u64,
    /// Requests that failed, with their tokens.
    pub failures: Vec<(u64, RequestError)>,
    disk: DiskId,
}

pub fn boxed(shared: &[Shared]) -> Devices {
    Devices::new(shared.iter().map(|s| Box::new(s.clone()) as Box<dyn Device>).collect())
}

impl World {
    /// Opens images.
    pub fn open(
        shape: &Shape,
        images: Vec<Image>,
        seed: u64,
        oracle: Oracle,
        next_tag: u32,
    ) -> Result<Self, OpenError> {
        let shared: Vec<Shared> = images
            .into_iter()
            .enumerate()
            .map(|(i, image)| Shared::new(&format!("d{i}"), image, seed ^ (i as u64 + 1)))
            .collect();
        Self::open_shared(shape, shared, oracle, next_tag)
    }

    pub fn open_shared(shape: &Shape, shared: Vec<Shared>, oracle: Oracle, next_tag: u32) -> Result<Self, OpenError> {
        let mut devices = boxed(&shared);
        let (engine, report) = open(&mut devices, 1, &classes(), shape.options())?;
        let disk = engine.disk_named("disk").unwrap().id;
        let pool = Pool::new(engine, devices);
        Ok(Self {
            shape: shape.clone(),
            shared,
            pool,
            report,
            oracle,
            flights: BTreeMap::new(),
            next_token: 1,
            next_tag,
            now_ns: 0,
            errors: 0,
            failures: Vec::new(),
            disk,
        })
    }

    fn trace(&self, what: impl Fn() -> String) {
        if std::env::var("SEED").is_ok() {
            eprintln!("  {} {}", self.steps(), what());
        }
    }

    fn request(&mut self, sector: u64, sectors: u64, op: Op, fua: bool, tag: Option<ClassId>, flight: Flight) -> u64 {
        let token = self.next_token;
        self.next_token += 1;
        let what = format!("{token} {op:?} fua {fua} tag {tag:?} blocks {}+{}..", sector / 8, sector % 8);
        self.trace(|| format!("submit {what} {sectors} sectors"));
        self.flights.insert(token, flight);
        self.pool.submit(Request {
            token,
            disk: self.disk,
            offset_bytes: sector * 512,
            len_bytes: sectors * 512,
            op,
            fua,
            export: 0,
            tag,
            told: None,
        });
        token
    }

    pub fn write(&mut self, sector: u64, sectors: u64, fua: bool, tag: Option<ClassId>) -> u64 {
        let first = self.next_tag;
        self.next_tag += sectors as u32;
        let tags: Vec<u32> = (0..sectors as u32).map(|i| first + i).collect();
        let mut buf = Buf::new(sectors as usize * 512);
        for (chunk, &tag) in buf.chunks_exact_mut(512).zip(&tags) {
            sector_bytes(tag, chunk);
        }
        let made = self.oracle.change(sector, &tags);
        self.request(sector, sectors, Op::Write(buf), fua, tag, Flight::Change { made, fua })
    }

    pub fn clear(&mut self, sector: u64, sectors: u64, fua: bool, unmap: bool) -> u64 {
        let made = self.oracle.change(sector, &vec![0; sectors as usize]);
        let op = if unmap { Op::Discard } else { Op::WriteZeroes { may_unmap: false } };
        self.request(sector, sectors, op, fua, None, Flight::Change { made, fua })
    }

    pub fn flush(&mut self) -> u64 {
        let snapshot = self.oracle.snapshot();
        self.request(0, 0, Op::Flush, false, None, Flight::Flush { snapshot })
    }

    pub fn read(&mut self, sector: u64, sectors: u64) -> u64 {
        let since = (sector / 8..(sector + sectors).div_ceil(8))
            .map(|block| (block, self.oracle.acknowledged(block)))
            .collect();
        self.request(sector, sectors, Op::Read, false, None, Flight::Read { sector, sectors, since })
    }

    pub fn in_flight(&self) -> usize {
        self.flights.len()
    }

    /// One round of polling.
    pub fn poll(&mut self) -> Result<(), String> {
        let mut done = Vec::new();
        self.now_ns += 1_000_000;
        self.pool.tick(self.now_ns);
        self.pool.engine.pump();
        self.pool.poll_once(&mut done);
        for completion in done {
            let Some(flight) = self.flights.remove(&completion.token) else {
                return Err(format!("token {} answered twice", completion.token));
            };
            self.trace(|| format!("done {} {:?}", completion.token, completion.result.is_ok()));
            match (completion.result, flight) {
                (Ok(_), Flight::Change { made, fua }) => {
                    self.oracle.acknowledge(&made);
                    if fua {
                        self.oracle.durable(&made);
                    }
                }
                (Ok(_), Flight::Flush { snapshot }) => self.oracle.flushed(&snapshot),
                (Ok(Outcome::Data(data)), Flight::Read { sector, sectors, since }) => {
                    if data.len() as u64 != sectors * 512 {
                        return Err("short read".into());
                    }
                    for i in 0..sectors {
                        let at = sector + i;
                        let bytes = &data[i as usize * 512..(i as usize + 1) * 512];
                        let mut tag = [0; 4];
                        tag.copy_from_slice(&bytes[..4]);
                        let tag = u32::from_le_bytes(tag);
                        let block = at / 8;
                        let from = since[&block];
                        let allowed = match self.oracle.blocks.get(&block) {
                            Some(v) => v.list[from..].iter().any(|content| content[(at % 8) as usize] == tag),
                            None => tag == 0,
                        };
                        if !allowed || bytes.chunks_exact(4).any(|word| word != tag.to_le_bytes()) {
                            return Err(format!("read of sector {at}: {tag:x} was never there (or is gone)"));
                        }
                    }
                }
                (Ok(other), _) => return Err(format!("unexpected {other:?}")),
                (Err(error), _) => {
                    self.errors += 1;
                    self.failures.push((completion.token, error.clone()));
                    if self.shape_allows_errors() {
                        continue;
                    }
                    return Err(format!("request failed: {error}"));
                }
            }
        }
        Ok(())
    }

    fn shape_allows_errors(&self) -> bool {
        self.allow_errors()
    }

    fn allow_errors(&self) -> bool {
        self.shared.iter().any(|shared| shared.lock().inner().struck() > 0)
    }

    /// Polls until at most `left` requests are under way.
    pub fn settle(&mut self, left: usize) -> Result<(), String> {
        for _ in 0..20_000 {
            if self.flights.len() <= left {
                return Ok(());
            }
            self.poll()?;
        }
        Err(self.hang())
    }

    /// What is known of requests that never end.
    pub fn hang(&self) -> String {
        let mut status = self.pool.engine.status();
        status.counters.latency_ns = Default::default();
        format!("{} requests hang: {status:?}\n{}", self.flights.len(), self.pool.engine.describe())
    }

    pub fn steps(&self) -> u64 {
        self.shared.iter().map(Shared::steps).sum()
    }

    /// Cuts the power; gives what is on the devices afterwards and the oracle.
    pub fn cut(self, random: &mut Random) -> (Vec<Image>, Oracle, u32) {
        let images = self.shared.iter().map(|shared| shared.cut(random)).collect();
        (images, self.oracle, self.next_tag)
    }

    /// Reads every block the oracle knows and checks it against what may have survived.
    pub fn check_survivors(&mut self) -> Result<(), String> {
        for block in self.oracle.blocks() {
            let data = self.read_block(block)?;
            self.oracle.survive(block, tags(&data))?;
        }
        Ok(())
    }

    pub fn read_block(&mut self, block: u64) -> Result<Buf, String> {
        self.try_read_block(block)?.map_err(|error| format!("block {block}: {error:?}"))
    }

    /// Reads a block; the outer error is for what must never happen.
    pub fn try_read_block(&mut self, block: u64) -> Result<Result<Buf, RequestError>, String> {
        let token = self.next_token;
        self.next_token += 1;
        self.pool.submit(Request {
            token,
            disk: self.disk,
            offset_bytes: block * 4096,
            len_bytes: 4096,
            op: Op::Read,
            fua: false,
            export: 0,
            tag: None,
            told: None,
        });
        let mut done = Vec::new();
        for _ in 0..100_000 {
            self.pool.poll_once(&mut done);
            if let Some(completion) = done.pop() {
                return match completion.result {
                    Ok(Outcome::Data(data)) => Ok(Ok(data)),
                    Err(error) => Ok(Err(error)),
                    Ok(other) => Err(format!("block {block}: {other:?}")),
                };
            }
        }
        Err(format!("read of block {block} hangs"))
    }
}

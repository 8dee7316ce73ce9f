//! A pool over devices that lose, tear, reorder and fail, and the oracle, which knows what may be on its disk.

pub mod anatomy;
pub mod history;
pub mod request;

use forebay_block::{Buf, ClassId, Completion, Device, DiskId, Geometry, Random, Request as DeviceRequest};
use forebay_device::{FaultyDevice, Image, ReorderDevice, VolatileDevice, image::ImageDevice};
use forebay_prism::{ClassSpec, ClassTable, Compress, Place};
use forebay_proof::oracle::Made;
use forebay_proof::stamp::{fill_all, tag_of};
pub use forebay_proof::{oracle::Oracle, stamp::content_of};
use forebay_volume::engine::Faults;
use forebay_volume::layout::plan::{PoolOptions, plan};
use forebay_volume::recovery::{OpenError, RecoveryReport, format, format::NewDisk, open};
use forebay_volume::{Devices, EngineOptions, Op, Outcome, Pool, Request, RequestError};
pub use request::block_request;
use std::collections::BTreeMap;
use std::ops::Range;
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

/// What the capacity-side area takes of the first capacity device, rounded up.
const AREA_BYTES: u64 = 208 << 10;

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
    /// How all classes are compressed.
    pub compress: Compress,
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
            compress: Compress::Off,
        }
    }
}

pub fn classes() -> Vec<ClassSpec> {
    vec![ClassSpec::new("bulk", Place::Capacity), ClassSpec::new("tables", Place::Stage)]
}

pub const BULK: ClassId = ClassId(5);
/// Staged, as the default class is, and known by its name.
pub const TABLES: ClassId = ClassId(6);

impl Shape {
    pub fn options(&self) -> EngineOptions {
        EngineOptions {
            frames: Some(self.frames),
            job_blocks: 24,
            destage_above_percent: 40,
            bypass_below_percent: 15,
            unflushed_limit_bytes: 512 << 10,
            fill_bytes_per_s: 1 << 40,
            warm_list_interval_ns: 20_000_000,
            faults: self.faults,
            overcommit: true,
            ..EngineOptions::default()
        }
    }

    /// Two freshly formatted images.
    pub fn format(&self) -> Vec<Image> {
        let images = [Image::zeroed(self.fast_bytes), Image::zeroed(self.capacity_bytes + AREA_BYTES)];
        let shared: Vec<Shared> =
            images.into_iter().enumerate().map(|(i, image)| Shared::new(&format!("d{i}"), image, 1)).collect();
        let mut devices = Devices::new(shared.iter().map(|s| Box::new(s.clone()) as Box<dyn Device>).collect());
        let (name, band_bytes, journal_bytes) = ("test".into(), Some(self.band_bytes), Some(128 << 10));
        let options = PoolOptions { name, band_bytes, journal_bytes, is_mirrored: false, bands_offset_bytes: None };
        let capacity = [shared[1].geometry().clone()];
        let superblock = plan(&options, shared[0].geometry(), &capacity, [7; 16], &[[1; 16], [2; 16]]).unwrap();
        let disks = [NewDisk { name: "disk".into(), size_bytes: self.disk_bytes, base: None }];
        let table = ClassTable::from_configured(&classes()).unwrap();
        format(&mut devices, &superblock, table, &disks, self.options()).unwrap();
        let mut random = Random::new(0);
        shared.iter().map(|s| s.cut(&mut random)).collect()
    }
}

/// The only disk, to the oracle.
pub const DISK: u16 = 0;

/// A request in flight.
enum Flight {
    Change { made: Made, fua: bool },
    Flush { event: u64 },
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
    pub fn open(shape: &Shape, images: Vec<Image>, seed: u64, oracle: Oracle) -> Result<Self, OpenError> {
        let shared: Vec<Shared> = images
            .into_iter()
            .enumerate()
            .map(|(i, image)| Shared::new(&format!("d{i}"), image, seed ^ (i as u64 + 1)))
            .collect();
        Self::open_shared(shape, shared, oracle)
    }

    pub fn open_shared(shape: &Shape, shared: Vec<Shared>, oracle: Oracle) -> Result<Self, OpenError> {
        let mut devices = boxed(&shared);
        let (mut engine, report) = open(&mut devices, 1, &classes(), shape.options())?;
        request::compress_all(&mut engine, shape.compress);
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
        let (offset_bytes, len_bytes) = (sector * 512, sectors * 512);
        let request = block_request(token, self.disk, 0, op);
        self.pool.submit(Request { offset_bytes, len_bytes, fua, tag, ..request });
        token
    }

    pub fn write(&mut self, sector: u64, sectors: u64, fua: bool, tag: Option<ClassId>) -> u64 {
        self.write_parts(sector..sector + sectors, fua, tag, &|_| false)
    }

    /// Writes zeros where the number of a sector says so, and something else where it does not.
    pub fn write_parts(&mut self, at: Range<u64>, fua: bool, tag: Option<ClassId>, zero: request::Zeros<'_>) -> u64 {
        let (sector, sectors) = (at.start, at.end - at.start);
        let mut tags = self.oracle.new_tags(sectors as usize);
        tags.iter_mut().zip(sector..).filter(|(_, sector)| zero(*sector)).for_each(|(tag, _)| *tag = 0);
        let mut buf = Buf::new(sectors as usize * 512);
        fill_all(&tags, &mut buf);
        let made = self.oracle.change(DISK, sector, &tags);
        self.request(sector, sectors, Op::Write(buf), fua, tag, Flight::Change { made, fua })
    }

    pub fn clear(&mut self, sector: u64, sectors: u64, fua: bool, unmap: bool) -> u64 {
        let made = self.oracle.change(DISK, sector, &vec![0; sectors as usize]);
        let op = if unmap { Op::Discard } else { Op::WriteZeroes { may_unmap: false } };
        self.request(sector, sectors, op, fua, None, Flight::Change { made, fua })
    }

    pub fn flush(&mut self) -> u64 {
        let event = self.oracle.flush_begins();
        self.request(0, 0, Op::Flush, false, None, Flight::Flush { event })
    }

    pub fn read(&mut self, sector: u64, sectors: u64) -> u64 {
        let since = (sector / 8..(sector + sectors).div_ceil(8))
            .map(|block| (block, self.oracle.read_begins((DISK, block))))
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
                (Ok(_), Flight::Change { made, fua }) => self.oracle.acknowledge(&made, fua),
                (Ok(_), Flight::Flush { event }) => self.oracle.flushed(event),
                (Ok(Outcome::Data(data)), Flight::Read { sector, sectors, since }) => {
                    if data.len() as u64 != sectors * 512 {
                        return Err("short read".into());
                    }
                    for (at, bytes) in (sector..).zip(data.chunks_exact(512)) {
                        let (block, within) = (at / 8, (at % 8) as usize);
                        self.oracle.saw((DISK, block), within, tag_of(bytes), since[&block])?;
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

    /// Polls until at most `left` requests are in flight.
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
    pub fn cut(self, random: &mut Random) -> (Vec<Image>, Oracle) {
        let images = self.shared.iter().map(|shared| shared.cut(random)).collect();
        (images, self.oracle)
    }

    /// Reads every block the oracle knows and checks it against what may have survived.
    pub fn check_survivors(&mut self) -> Result<(), String> {
        for (_, block) in self.oracle.places() {
            let data = self.read_block(block)?;
            self.survived(block, &data)?;
        }
        Ok(())
    }

    /// A block was read after a power cut: that is what it holds from now on.
    pub fn survived(&mut self, block: u64, data: &[u8]) -> Result<(), String> {
        self.oracle.survived((DISK, block), content_of(data)).map(drop)
    }

    pub fn read_block(&mut self, block: u64) -> Result<Buf, String> {
        self.try_read_block(block)?.map_err(|error| format!("block {block}: {error:?}"))
    }

    /// Reads a block; the outer error is for what must never happen.
    pub fn try_read_block(&mut self, block: u64) -> Result<Result<Buf, RequestError>, String> {
        let token = self.next_token;
        self.next_token += 1;
        self.pool.submit(block_request(token, self.disk, block, Op::Read));
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

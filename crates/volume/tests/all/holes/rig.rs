//! A pool on scripted devices, and blocks whose content identifies the block and its version.

use super::device::{Fate, Kind, Region, Scripted, Seen};
use forebay_block::{Buf, ClassId, Device, DiskId, Random};
use forebay_prism::{ClassSpec, ClassTable, Place};
use forebay_volume::layout::plan::{PoolOptions, plan};
use forebay_volume::layout::superblock::Superblock;
use forebay_volume::recovery::{OpenError, format, format::NewDisk, open};
use forebay_volume::verify::verify;
use forebay_volume::{Completion, Devices, Engine, EngineOptions, Op, Outcome, Pool, Request, RequestError};
use std::collections::BTreeMap;

pub const BLOCK: usize = 4096;
pub const FAST: usize = 0;
pub const CAPACITY: usize = 1;
/// Written with this tag a block goes to the capacity tier at once.
pub const BULK: Option<ClassId> = Some(ClassId(5));
/// Number of polls (a millisecond each) after which an event counts as never coming.
const TIMEOUT: usize = 20_000;

/// Size of the capacity-side area on the first capacity device, rounded up.
const AREA_BYTES: u64 = 256 << 10;

/// Parameters of a pool.
#[derive(Clone)]
pub struct Setup {
    pub fast_bytes: u64,
    pub capacity_bytes: u64,
    pub capacity_devices: usize,
    pub band_bytes: u64,
    pub journal_bytes: u64,
    /// Least unit of the journal; the device's own where that is larger.
    pub journal_unit_bytes: u32,
    pub disk_bytes: u64,
    pub volatile_fast: bool,
    pub volatile_capacity: bool,
    pub durable_writes: bool,
    pub options: EngineOptions,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            fast_bytes: 17 << 18,
            capacity_bytes: 4 << 20,
            capacity_devices: 1,
            band_bytes: 64 << 10,
            journal_bytes: 1 << 20,
            journal_unit_bytes: 512,
            disk_bytes: 64 << 20,
            volatile_fast: false,
            volatile_capacity: true,
            durable_writes: true,
            // Nothing is moved unless a test asks for it.
            options: EngineOptions {
                frames: Some(64),
                destage_above_percent: 100,
                bypass_below_percent: 0,
                overcommit: true,
                ..EngineOptions::default()
            },
        }
    }
}

/// The incompressible contents of a version of a block.
pub fn content(block: u64, version: u32) -> Buf {
    let mut random = Random::new(block << 32 | u64::from(version));
    let mut bytes = Buf::new(BLOCK);
    for word in bytes.chunks_exact_mut(8) {
        word.copy_from_slice(&random.next_u64().to_le_bytes());
    }
    bytes[..4].copy_from_slice(b"HOLE");
    bytes[4..8].copy_from_slice(&version.to_le_bytes());
    bytes[8..16].copy_from_slice(&block.to_le_bytes());
    bytes
}

/// Identifies a block's contents: (block, version); `None` where they are not a complete block.
pub fn label(bytes: &[u8]) -> Option<(u64, u32)> {
    let bytes = bytes.get(..BLOCK).filter(|bytes| bytes.starts_with(b"HOLE"))?;
    let version = u32::from_le_bytes(bytes[4..8].try_into().ok()?);
    let block = u64::from_le_bytes(bytes[8..16].try_into().ok()?);
    (content(block, version)[..] == *bytes).then_some((block, version))
}

/// All whole blocks within some bytes: (offset, block, version).
pub fn labels(bytes: &[u8]) -> Vec<(u64, u64, u32)> {
    let found = |at: usize| label(&bytes[at..]).map(|(block, version)| (at as u64, block, version));
    (0..bytes.len()).step_by(512).filter_map(found).collect()
}

/// Whether a request carries host data.
pub fn has_data(seen: &Seen<'_>) -> bool {
    (0..seen.bytes.len()).step_by(512).any(|at| seen.bytes[at..].starts_with(b"HOLE"))
}

/// Whether a request reads a page of the map rather than data.
pub fn is_page_read(seen: &Seen<'_>) -> bool {
    seen.is(Kind::Read, Region::Slots) && !has_data(seen)
}

/// Holds requests that match a condition.
pub fn held(is_held: bool) -> Fate {
    if is_held { Fate::Held } else { Fate::Good }
}

/// Fails requests that match a condition.
pub fn failed(is_failed: bool) -> Fate {
    if is_failed { Fate::Failed } else { Fate::Good }
}

/// Result of a request; none before its end.
pub type Answer = Result<Outcome, RequestError>;

/// A request for one block, by nobody in particular.
pub fn block_request(token: u64, disk: DiskId, block: u64, op: Op) -> Request {
    let (offset_bytes, len_bytes) = (block * BLOCK as u64, BLOCK as u64);
    Request::new(token, disk, offset_bytes, len_bytes, op)
}

/// A pool being served.
pub struct Rig {
    pub setup: Setup,
    pub devices: Vec<Scripted>,
    pub pool: Pool,
    pub disk: DiskId,
    answers: BTreeMap<u64, Answer>,
    next_token: u64,
    /// The client that requests come from.
    pub session: u64,
    now_ns: u64,
}

pub fn over(devices: &[Scripted]) -> Devices {
    Devices::new(devices.iter().map(|device| Box::new(device.clone()) as Box<dyn Device>).collect())
}

/// Freshly formatted devices.
pub fn formatted(setup: &Setup) -> Vec<Scripted> {
    let mut devices = vec![Scripted::new("fast", setup.fast_bytes, setup.volatile_fast)];
    for i in 0..setup.capacity_devices {
        let area_bytes = if i == 0 { AREA_BYTES } else { 0 };
        devices.push(Scripted::new(
            &format!("capacity{i}"),
            setup.capacity_bytes + area_bytes,
            setup.volatile_capacity,
        ));
    }
    if !setup.durable_writes {
        devices = devices.into_iter().map(Scripted::without_durable_writes).collect();
    }
    let options = PoolOptions {
        name: "holes".into(),
        band_bytes: Some(setup.band_bytes),
        journal_bytes: Some(setup.journal_bytes),
        is_mirrored: false,
        bands_offset_bytes: None,
    };
    let mut geometries: Vec<_> = devices.iter().map(|device| device.geometry().clone()).collect();
    geometries[FAST].logical_block_bytes = geometries[FAST].logical_block_bytes.max(setup.journal_unit_bytes);
    let ids: Vec<_> = (1..=devices.len() as u8).map(|id| [id; 16]).collect();
    let superblock = plan(&options, &geometries[0], &geometries[1..], [99; 16], &ids).unwrap();
    let table = ClassTable::from_configured(&classes()).unwrap();
    let disks = [NewDisk { name: "disk".into(), size_bytes: setup.disk_bytes, base: None }];
    format(&mut over(&devices), &superblock, table, &disks, setup.options.clone()).unwrap();
    devices
}

pub fn classes() -> Vec<ClassSpec> {
    vec![ClassSpec::new("bulk", Place::Capacity)]
}

/// The superblock of the fast device.
pub fn superblock(devices: &[Scripted]) -> Superblock {
    devices[FAST].bytes(|bytes| Superblock::decode(&bytes[..4096])).unwrap()
}

impl Rig {
    /// A new pool.
    pub fn new(setup: &Setup) -> Self {
        Self::open(setup, formatted(setup)).unwrap()
    }

    /// Opens what is there.
    pub fn open(setup: &Setup, devices: Vec<Scripted>) -> Result<Self, OpenError> {
        let superblock = superblock(&devices);
        devices.iter().enumerate().for_each(|(index, device)| device.lay_out(&superblock, index));
        let mut opened = over(&devices);
        let (engine, _) = open(&mut opened, 1, &classes(), setup.options.clone())?;
        Ok(Self::of(setup, devices, engine, opened))
    }

    /// What was opened.
    pub fn of(setup: &Setup, devices: Vec<Scripted>, engine: Engine, opened: Devices) -> Self {
        let disk = engine.disk_named("disk").unwrap().id;
        let pool = Pool::new(engine, opened);
        Self {
            setup: setup.clone(),
            devices,
            pool,
            disk,
            answers: BTreeMap::new(),
            next_token: 1,
            session: 0,
            now_ns: 0,
        }
    }

    /// Cuts the power; of what was not durable only what `keeps` selects survives. Opens nothing.
    pub fn cut(self, mut keeps: impl FnMut(&Seen<'_>) -> bool) -> Vec<Scripted> {
        let Self { devices, pool, .. } = self;
        drop(pool);
        devices.iter().for_each(|device| device.cut(&mut keeps));
        devices
    }

    /// Cuts the power, losing all that was not durable, and opens the pool.
    pub fn crash(self) -> Self {
        let setup = self.setup.clone();
        let devices = self.cut(|_| false);
        Self::open(&setup, devices).unwrap_or_else(|error| panic!("not opened after the power cut: {error}"))
    }

    /// Stops cleanly and opens the pool with other settings: no part of the map is in memory then.
    pub fn restart(mut self, options: EngineOptions) -> Self {
        assert!(self.pool.close(), "no clean stop");
        let setup = Setup { options, ..self.setup.clone() };
        Self::open(&setup, self.cut(|_| false)).unwrap()
    }

    pub fn submit_to(
        &mut self,
        disk: DiskId,
        block: u64,
        len_bytes: u64,
        op: Op,
        fua: bool,
        tag: Option<ClassId>,
    ) -> u64 {
        let token = self.next_token;
        self.next_token += 1;
        let session = self.session;
        self.pool.submit(Request { fua, len_bytes, session, tag, ..block_request(token, disk, block, op) });
        token
    }

    /// A request that may begin within a block.
    pub fn submit_within(&mut self, disk: DiskId, block: u64, within_bytes: u64, len_bytes: u64, op: Op) -> u64 {
        let token = self.next_token;
        self.next_token += 1;
        let offset_bytes = block * BLOCK as u64 + within_bytes;
        self.pool.submit(Request { offset_bytes, len_bytes, ..block_request(token, disk, block, op) });
        token
    }

    /// Writes blocks in a version.
    pub fn write_run(&mut self, first: u64, blocks: u64, version: u32, fua: bool, tag: Option<ClassId>) -> u64 {
        let mut bytes = Buf::new(blocks as usize * BLOCK);
        for (chunk, block) in bytes.chunks_exact_mut(BLOCK).zip(first..) {
            chunk.copy_from_slice(&content(block, version));
        }
        self.submit_to(self.disk, first, blocks * BLOCK as u64, Op::Write(bytes), fua, tag)
    }

    /// Writes one block, not durably.
    pub fn write(&mut self, block: u64, version: u32, tag: Option<ClassId>) -> u64 {
        self.write_run(block, 1, version, false, tag)
    }

    pub fn flush(&mut self) {
        let token = self.submit_to(self.disk, 0, 0, Op::Flush, false, None);
        self.wait(token).unwrap();
    }

    /// One poll, a millisecond.
    pub fn poll(&mut self) {
        self.now_ns += 1_000_000;
        self.pool.tick(self.now_ns);
        let mut done = Vec::new();
        self.pool.poll_once(&mut done);
        for Completion { token, result } in done {
            assert!(self.answers.insert(token, result).is_none(), "token {token} was answered twice");
        }
    }

    pub fn polls(&mut self, rounds: usize) {
        (0..rounds).for_each(|_| self.poll());
    }

    /// Lets time pass without requests.
    pub fn pass_ms(&mut self, milliseconds: u64) {
        self.now_ns += milliseconds * 1_000_000;
        self.polls(20);
    }

    /// Polls until a condition holds; false where it never does.
    pub fn until(&mut self, mut is_so: impl FnMut(&mut Self) -> bool) -> bool {
        for _ in 0..TIMEOUT {
            if is_so(self) {
                return true;
            }
            self.poll();
        }
        false
    }

    /// Result of a request, where it has ended.
    pub fn answer(&self, token: u64) -> Option<&Answer> {
        self.answers.get(&token)
    }

    pub fn wait(&mut self, token: u64) -> Answer {
        let ended = self.until(|rig| rig.answers.contains_key(&token));
        assert!(ended, "request {token} hangs: {}", self.pool.engine.describe());
        self.answers.remove(&token).unwrap()
    }

    /// Writes one block and waits for it.
    pub fn put(&mut self, block: u64, version: u32, tag: Option<ClassId>) {
        let token = self.write(block, version, tag);
        self.wait(token).unwrap();
    }

    /// Writes blocks to the capacity tier, durably.
    pub fn put_run(&mut self, first: u64, blocks: u64, version: u32) {
        let token = self.write_run(first, blocks, version, false, BULK);
        self.wait(token).unwrap();
        self.flush();
    }

    /// Writes single blocks until there is no space; returns the first that was not written.
    pub fn fill(&mut self, mut next: u64) -> u64 {
        loop {
            let token = self.write(next, 1, None);
            match self.wait(token) {
                Ok(_) => next += 1,
                Err(RequestError::NoSpace) => return next,
                other => panic!("block {next}: {other:?}"),
            }
        }
    }

    /// Reads a block: its version (0: zeros), or the error.
    pub fn get(&mut self, block: u64) -> Result<u32, String> {
        self.get_from(self.disk, block)
    }

    pub fn get_from(&mut self, disk: DiskId, block: u64) -> Result<u32, String> {
        let token = self.submit_to(disk, block, BLOCK as u64, Op::Read, false, None);
        match self.wait(token) {
            Ok(Outcome::Data(data)) => match label(&data) {
                Some((found, version)) if found == block => Ok(version),
                Some(other) => Err(format!("block {block} reads as {other:?}")),
                None if data.iter().all(|&byte| byte == 0) => Ok(0),
                None => Err(format!("block {block} reads as something else")),
            },
            other => Err(format!("block {block}: {other:?}")),
        }
    }

    /// Asks for a checkpoint and waits until it is durable.
    pub fn checkpoint(&mut self) {
        let before = self.pool.engine.checkpoint_number();
        self.pool.engine.request_checkpoint(false);
        assert!(self.until(|rig| rig.pool.engine.checkpoint_number() > before), "no checkpoint");
    }

    /// Finds the places of a block's version on a device.
    pub fn find(&self, device: usize, block: u64, version: u32) -> Vec<u64> {
        let here = |bytes: &[u8]| {
            let found = labels(bytes).into_iter().filter(|&(_, b, v)| (b, v) == (block, version));
            found.map(|(at, ..)| at).collect()
        };
        self.devices[device].bytes(here)
    }

    /// The band of an offset on a capacity device.
    pub fn band(&self, device: usize, offset_bytes: u64) -> u64 {
        let superblock = superblock(&self.devices);
        (offset_bytes - superblock.members[device].data_offset_bytes) / superblock.band_bytes
    }
}

/// The first finding of a verification of devices that are not served.
pub fn findings(setup: &Setup, devices: &[Scripted]) -> Vec<String> {
    let mut found = Vec::new();
    let mut report = |finding: forebay_volume::verify::Finding| found.push(format!("{finding:?}"));
    match verify(&mut over(devices), 1, setup.options.clone(), &mut report) {
        Ok(_) => found.into_iter().take(3).collect(),
        Err(error) => vec![error.to_string()],
    }
}

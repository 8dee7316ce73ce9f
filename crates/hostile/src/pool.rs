//! A tiny pool in memory that has been used, for targets that plant hostile structures in it. The targets correct the
//! checksums, so that the structures reach the parsers.

use forebay_block::checksum::crc32c;
use forebay_block::{Buf, ClassId, Completion, Device, DiskId, Geometry, Op, Request, lock};
use forebay_prism::{ClassSpec, ClassTable, Place};
use forebay_volume::layout::plan::{PoolOptions, plan};
use forebay_volume::layout::root::{HEADER_BYTES, Root, RootBounds, RootHeader};
use forebay_volume::layout::root_blob;
use forebay_volume::layout::superblock::Superblock;
use forebay_volume::mirror::{Candidate, Consent, join};
use forebay_volume::recovery::format::NewDisk;
use forebay_volume::recovery::{OpenError, format, open, open_alone};
use forebay_volume::{Devices, EngineOptions, Outcome, Pool};
use std::sync::{Arc, Mutex, OnceLock};

pub(crate) const POOL: [u8; 16] = [7; 16];
/// Two groups in a band: 64 blocks and 16.
pub(crate) const BAND_BYTES: u64 = 80 * 4096;
const FAST_BYTES: usize = 1664 << 10;
const CAPACITY_BYTES: usize = 2752 << 10;
const DISK_BYTES: u64 = 8 << 20;
const BULK: ClassId = ClassId(5);
/// Most requests that a device accepts: beyond that, the engine must be in an endless loop.
const REQUESTS_MAX: u64 = 50_000;

/// The bytes of the two devices.
pub(crate) type Images = [Vec<u8>; 2];

/// A device in memory that performs every request at once.
struct Ram {
    geometry: Geometry,
    bytes: Arc<Mutex<Vec<u8>>>,
    done: Vec<Completion>,
    requests: u64,
}

impl Device for Ram {
    fn name(&self) -> &str {
        "ram"
    }

    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn submit(&mut self, request: Request) {
        self.requests += 1;
        assert!(self.requests < REQUESTS_MAX, "device requests without end");
        let mut bytes = lock(&self.bytes);
        let mut at = request.offset_bytes as usize;
        let mut back = None;
        match request.op {
            Op::Read { mut bufs, .. } => {
                for buf in bufs.as_mut_slice() {
                    let len = buf.len();
                    buf.copy_from_slice(&bytes[at..at + len]);
                    at += len;
                }
                back = Some(bufs);
            }
            Op::Write { bufs, .. } => {
                for buf in bufs.as_slice() {
                    bytes[at..at + buf.len()].copy_from_slice(buf);
                    at += buf.len();
                }
            }
            Op::WriteZeroes { len_bytes } | Op::Discard { len_bytes } => {
                bytes[at..at + len_bytes as usize].fill(0);
            }
            Op::Flush => {}
        }
        self.done.push(Completion { tag: request.tag, result: Ok(()), bufs: back });
    }

    fn poll(&mut self, done: &mut Vec<Completion>) {
        done.append(&mut self.done);
    }

    fn wait(&mut self, _timeout_ns: u64) {}

    fn queue_limit(&self) -> usize {
        64
    }

    fn in_flight(&self) -> usize {
        self.done.len()
    }
}

type Shared = Vec<Arc<Mutex<Vec<u8>>>>;

fn devices(images: Images) -> (Devices, Shared) {
    let shared: Shared = images.into_iter().map(|bytes| Arc::new(Mutex::new(bytes))).collect();
    let list = shared.iter().map(|bytes| {
        let size_bytes = lock(bytes).len() as u64;
        let geometry = Geometry {
            size_bytes,
            logical_block_bytes: 512,
            optimal_band_bytes: None,
            volatile_cache: true,
            durable_writes: true,
            discards: true,
        };
        Box::new(Ram { geometry, bytes: Arc::clone(bytes), done: Vec::new(), requests: 0 }) as Box<dyn Device>
    });
    (Devices::new(list.collect()), shared)
}

fn bytes_of(shared: &Shared) -> Images {
    let copy = |at: usize| lock(&shared[at]).clone();
    [copy(0), copy(1)]
}

fn options() -> EngineOptions {
    EngineOptions {
        memory_limit_bytes: 48 << 20,
        job_blocks: 64,
        destage_above_percent: 30,
        overcommit: true,
        ..EngineOptions::default()
    }
}

fn classes() -> Vec<ClassSpec> {
    vec![ClassSpec { read_cache: true, ..ClassSpec::new("bulk", Place::Capacity) }]
}

/// An open pool, with a clock that advances while the pool serves a request.
pub(crate) struct Served {
    pub pool: Pool,
    shared: Shared,
    now_ns: u64,
}

/// A request for blocks, given the first block and their number.
fn request(
    op: forebay_volume::Op,
    disk: DiskId,
    (block, blocks): (u64, u64),
    tag: Option<ClassId>,
) -> forebay_volume::Request {
    forebay_volume::Request { tag, ..forebay_volume::Request::new(1, disk, block * 4096, blocks * 4096, op) }
}

impl Served {
    pub(crate) fn open(images: Images) -> Result<Self, OpenError> {
        let (mut devices, shared) = devices(images);
        let (engine, _) = open(&mut devices, 1, &classes(), options())?;
        Ok(Self { pool: Pool::new(engine, devices), shared, now_ns: 0 })
    }

    /// Opens the images as a mirror of the first device and a blank one; `None` if it cannot be assembled and opened.
    pub(crate) fn joined(images: Images) -> Option<Self> {
        let blank = vec![0; images[0].len()];
        let (mut all, shared) = devices(images);
        let (others, _) = devices([blank, Vec::new()]);
        let mut capacity = Devices::new(all.list.split_off(1));
        let consent = Consent { unproven: true, ..Consent::default() };
        let candidates = all.list.into_iter().chain(others.list.into_iter().take(1));
        let candidates = candidates.map(|device| Candidate {
            name: device.name().to_owned(),
            device: Ok(device),
            contents: Vec::new(),
        });
        let joined = join(candidates.collect(), &mut capacity, Some(&mut || [8; 16]), consent).ok()?;
        let fast = Box::new(joined.mirror) as Box<dyn Device>;
        let mut devices = Devices::mirrored(std::iter::once(fast).chain(capacity.list).collect(), joined.view);
        let (engine, _) = open(&mut devices, 1, &classes(), options()).ok()?;
        Some(Self { pool: Pool::new(engine, devices), shared, now_ns: 0 })
    }

    /// Performs one request to its end; `None` if it was refused.
    pub(crate) fn ask(
        &mut self,
        op: forebay_volume::Op,
        block: u64,
        blocks: u64,
        tag: Option<ClassId>,
    ) -> Option<Outcome> {
        let request = request(op, DiskId(1), (block, blocks), tag);
        self.pool.submit(request);
        let mut done = Vec::new();
        for _ in 0..2000 {
            self.now_ns += 100_000_000;
            self.pool.tick(self.now_ns);
            self.pool.poll(&mut done);
            if let Some(completion) = done.pop() {
                return completion.result.ok();
            }
        }
        panic!("a request without end");
    }

    pub(crate) fn write(&mut self, block: u64, blocks: u64, byte: u8, bulk: bool) {
        let mut buf = Buf::zeroed((blocks * 4096) as usize);
        buf.fill(byte);
        self.ask(forebay_volume::Op::Write(buf), block, blocks, bulk.then_some(BULK));
    }

    /// Reads one block; `None` if it cannot be read.
    pub(crate) fn read(&mut self, block: u64) -> Option<Vec<u8>> {
        match self.ask(forebay_volume::Op::Read, block, 1, None)? {
            Outcome::Data(data) => Some(data.to_vec()),
            _ => None,
        }
    }

    /// Reads all blocks of the disk, in pieces; `None` for each piece that cannot be read.
    pub(crate) fn read_all(&mut self) -> Vec<Option<Vec<u8>>> {
        let pieces = (0..DISK_BYTES / 4096).step_by(16);
        let read = pieces.map(|block| match self.ask(forebay_volume::Op::Read, block, 16, None)? {
            Outcome::Data(data) => Some(data.to_vec()),
            _ => None,
        });
        read.collect()
    }

    /// Uses the pool: reads everything, and writes a part repeatedly, so that bands are collected.
    pub(crate) fn live(&mut self, rounds: u64) {
        self.read_all();
        for round in 0..rounds {
            self.write(round * 37 % 900, 1 + round % 40, round as u8 | 1, round % 3 != 0);
        }
        self.pool.close();
    }

    pub(crate) fn images(&self) -> Images {
        bytes_of(&self.shared)
    }
}

/// Opens the capacity tier alone and reads all of it, as far as possible.
pub(crate) fn read_alone(images: &Images) {
    let (mut devices, _) = devices(images.clone());
    devices.list.remove(0);
    if let Ok((engine, _)) = open_alone(&mut devices, &classes(), options(), &mut |_, _| {}) {
        let mut pool = Pool::new(engine, devices);
        let disks: Vec<DiskId> = pool.engine.disks().map(|disk| disk.id).collect();
        for (disk, block) in
            disks.into_iter().flat_map(|disk| (0..DISK_BYTES / 4096).step_by(16).map(move |at| (disk, at)))
        {
            let request = request(forebay_volume::Op::Read, disk, (block, 16), None);
            let mut done = Vec::new();
            pool.submit(request);
            pool.run_until(&mut done, |_, done| !done.is_empty());
            assert_eq!(done.len(), 1, "a request without end");
        }
        pool.close();
    }
}

/// A pool after a power cut: it has open and closed bands, pages, and a journal that extends beyond its last
/// checkpoint.
pub(crate) fn aged() -> Images {
    static AGED: OnceLock<Images> = OnceLock::new();
    AGED.get_or_init(|| {
        let (mut devices, shared) = devices([vec![0; FAST_BYTES], vec![0; CAPACITY_BYTES]]);
        let plan_options = PoolOptions {
            name: "fuzz".into(),
            band_bytes: Some(BAND_BYTES),
            journal_bytes: Some(128 << 10),
            is_mirrored: false,
            bands_offset_bytes: None,
        };
        let geometry = [devices.list[0].geometry().clone(), devices.list[1].geometry().clone()];
        let superblock = plan(&plan_options, &geometry[0], &[geometry[1].clone()], POOL, &[[1; 16], [2; 16]]).unwrap();
        let table = ClassTable::from_configured(&classes()).unwrap();
        let disks = [NewDisk { name: "disk".into(), size_bytes: DISK_BYTES, base: None }];
        format(&mut devices, &superblock, table, &disks, options()).unwrap();
        drop(devices);
        let mut served = Served::open(bytes_of(&shared)).unwrap();
        for i in 0..40 {
            served.write(i * 53 % 400, 1 + i % 9, i as u8 | 1, i % 2 == 0);
        }
        served.pool.engine.request_checkpoint(false);
        for i in 0..30 {
            served.write(i * 31 % 400, 1 + i % 7, i as u8 | 1, i % 2 == 0);
            if i % 5 == 0 {
                served.ask(forebay_volume::Op::Discard, i * 11 % 400, 3, None);
                served.ask(forebay_volume::Op::Reclass, i * 7 % 400, 3, None);
            }
        }
        served.ask(forebay_volume::Op::Flush, 0, 0, None);
        served.write(0, 5, 9, false);
        served.images()
    })
    .clone()
}

pub(crate) fn superblock(images: &Images) -> Superblock {
    Superblock::decode(&images[0][..4096]).unwrap()
}

/// The newest root header, the offset of its area, and the root.
pub(crate) fn root(images: &Images) -> (RootHeader, usize, Root) {
    let superblock = superblock(images);
    let newest = superblock.root_offsets_bytes.iter().filter_map(|&at| {
        let bytes = &images[0][at as usize..at as usize + HEADER_BYTES];
        RootHeader::decode(bytes, &POOL).filter(|header| header.superseded_by == 0).map(|header| (header, at as usize))
    });
    let (header, area) = newest.max_by_key(|(header, _)| header.checkpoint).unwrap();
    let blob = &images[0][area + 4096..area + 4096 + header.blob_len_bytes as usize];
    (header, area, root_blob::decode(blob, &RootBounds::of(&superblock)).unwrap())
}

/// Replaces the blob of the newest root.
pub(crate) fn set_blob(images: &mut Images, blob: &[u8]) {
    let (header, area, _) = root(images);
    let len = superblock(images).root_len_bytes as usize;
    if blob.len() + 2 * 4096 > len {
        return;
    }
    images[0][area + 4096..area + 4096 + blob.len()].copy_from_slice(blob);
    let header = RootHeader { blob_len_bytes: blob.len() as u64, blob_crc: crc32c(blob), ..header };
    for at in [area, area + len - 4096] {
        images[0][at..at + 4096].copy_from_slice(&header.encode(&POOL));
    }
}

/// Changes bytes as the input says: each step has two bytes for the offset, one for the length (1 to 8), then the new
/// bytes.
pub(crate) fn patch(bytes: &mut [u8], mut input: &[u8]) {
    while let [low, high, len, rest @ ..] = input {
        let len = (usize::from(*len) % 8 + 1).min(rest.len());
        let at = usize::from(u16::from_le_bytes([*low, *high]));
        let (value, after) = rest.split_at(len);
        if let Some(place) = bytes.get_mut(at..at + len) {
            place.copy_from_slice(value);
        }
        input = after;
    }
}

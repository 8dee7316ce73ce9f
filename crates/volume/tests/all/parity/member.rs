//! A member of an array in tests: a device with a cache that a power cut tears, which ends requests in any order and fails on request.

use forebay_block::{
    Buf, Completion, Device, Geometry, IoError, IoErrorKind, Op, Random, Request, SECTOR_BYTES, Vectored,
};
use forebay_volume::layout::array_label::OFFSETS_BYTES;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

/// Contents of the medium.
pub struct Medium {
    pub name: String,
    pub durable: Vec<u8>,
    /// Unflushed sectors: the version that reads see, and all versions that a power cut may leave.
    cached: BTreeMap<usize, Vec<[u8; SECTOR_BYTES]>>,
    /// Writes since the last flush in order; those past the cache are durable.
    writes: Vec<(usize, Vec<u8>, bool)>,
    /// Sectors that a failed flush has lost, but that reads show until the power fails.
    shown: BTreeMap<usize, [u8; SECTOR_BYTES]>,
    is_volatile: bool,
    random: Random,
    /// It fails everything; and says of it that it is gone; and begins with that with the flush that it fails.
    pub is_dead: bool,
    pub is_gone: bool,
    /// It never answers a read.
    pub hangs_reads: bool,
    pub dies_with_flush: bool,
    /// The number of reads that will fail, and how many succeed before.
    pub fails_reads: u32,
    pub reads_before: u32,
    /// Blocks of 4 KiB that cannot be written.
    pub unwritable: std::collections::BTreeSet<u64>,
    /// What was written so far.
    pub written_bytes: u64,
    /// Number of flushes so far.
    pub flushes: u64,
    /// Whether the next flush fails and loses all or part of the cache.
    pub fails_flush: bool,
    /// 4 KiB blocks that are unreadable until they are rewritten.
    pub dead_blocks: std::collections::BTreeSet<u64>,
    /// 4 KiB blocks whose next read returns other data, once.
    pub misread: std::collections::BTreeSet<u64>,
    /// Blocks that cannot be read can be when its label has been read so often.
    pub heals_after: Option<u32>,
    queue: Vec<Request>,
}

/// A handle of it.
#[derive(Clone)]
pub struct Member(Arc<Mutex<Medium>>);

impl Member {
    pub fn new(name: &str, bytes: usize, is_volatile: bool, seed: u64) -> Self {
        Self(Arc::new(Mutex::new(Medium {
            name: name.to_owned(),
            durable: vec![0; bytes],
            cached: BTreeMap::new(),
            writes: Vec::new(),
            shown: BTreeMap::new(),
            is_volatile,
            random: Random::new(seed),
            is_dead: false,
            is_gone: false,
            hangs_reads: false,
            dies_with_flush: false,
            fails_reads: 0,
            reads_before: 0,
            unwritable: Default::default(),
            written_bytes: 0,
            flushes: 0,
            fails_flush: false,
            dead_blocks: Default::default(),
            misread: Default::default(),
            heals_after: None,
            queue: Vec::new(),
        })))
    }

    pub fn medium(&self) -> MutexGuard<'_, Medium> {
        self.0.lock().unwrap()
    }

    pub fn boxed(&self) -> Box<dyn Device> {
        let medium = self.medium();
        let geometry = Geometry {
            size_bytes: medium.durable.len() as u64,
            logical_block_bytes: 512,
            optimal_band_bytes: None,
            volatile_cache: medium.is_volatile,
            durable_writes: medium.is_volatile,
            discards: false,
        };
        let name = medium.name.clone();
        drop(medium);
        Box::new(Handle { name, geometry, medium: self.clone(), in_flight: 0 })
    }

    /// The power fails: of what was not flushed a part is left.
    pub fn cut(&self) {
        let mut medium = self.medium();
        medium.queue.clear();
        medium.lose_cache();
        medium.shown.clear();
    }

    /// Changes bytes behind everybody's back.
    pub fn rot(&self, offset_bytes: u64) {
        let mut medium = self.medium();
        let at = offset_bytes as usize;
        medium.flush();
        medium.durable[at] ^= 0x55;
    }
}

impl Medium {
    /// Of each sector that was not flushed any version is left; or of each write all, or nothing.
    fn lose_cache(&mut self) {
        let (cached, writes) = (std::mem::take(&mut self.cached), std::mem::take(&mut self.writes));
        if self.random.below(2) == 0 {
            for (at, bytes, is_durable) in writes {
                if is_durable || self.random.below(2) == 0 {
                    self.durable[at..at + bytes.len()].copy_from_slice(&bytes);
                }
            }
            return;
        }
        for (sector, versions) in cached {
            let kept = self.random.below(versions.len() as u64 + 1) as usize;
            if let Some(version) = kept.checked_sub(1) {
                self.durable[sector * SECTOR_BYTES..][..SECTOR_BYTES].copy_from_slice(&versions[version]);
            }
        }
    }

    /// The same, and reads go on to show it, or not.
    fn give_up(&mut self) {
        let last = |(&sector, versions): (&usize, &Vec<[u8; SECTOR_BYTES]>)| Some((sector, *versions.last()?));
        let lost: Vec<(usize, [u8; SECTOR_BYTES])> = self.cached.iter().filter_map(last).collect();
        self.lose_cache();
        if self.random.below(2) == 0 {
            self.shown.extend(lost);
        }
    }

    fn flush(&mut self) {
        self.writes.clear();
        for (sector, versions) in std::mem::take(&mut self.cached) {
            if let Some(last) = versions.last() {
                self.durable[sector * SECTOR_BYTES..][..SECTOR_BYTES].copy_from_slice(last);
            }
        }
    }

    fn run(&mut self, request: Request) -> Completion {
        let Request { tag, offset_bytes, op, .. } = request;
        let error = |kind| IoError { kind, operation: op.name(), offset_bytes, os_error: 0 };
        self.flushes += u64::from(matches!(op, Op::Flush));
        let loses = matches!(op, Op::Flush) && std::mem::take(&mut self.fails_flush);
        if loses {
            self.give_up();
            self.is_dead |= self.dies_with_flush;
        }
        let is_read = matches!(op, Op::Read { .. });
        if is_read && offset_bytes == OFFSETS_BYTES[0] {
            self.heals_after = self.heals_after.map(|reads| reads.saturating_sub(1));
        }
        if self.heals_after == Some(0) {
            self.dead_blocks.clear();
        }
        let is_early = is_read && self.reads_before > 0;
        self.reads_before -= u32::from(is_early);
        let fails_read = is_read && !is_early && self.fails_reads > 0;
        self.fails_reads -= u32::from(fails_read);
        let blocks = offset_bytes / 4096..(offset_bytes + op.len_bytes()).div_ceil(4096);
        let fails_write = matches!(op, Op::Write { .. }) && self.unwritable.range(blocks).next().is_some();
        let fails = self.is_dead || loses || fails_read || fails_write;
        let is_gone = self.is_dead && self.is_gone;
        let failure = fails.then(|| error(if is_gone { IoErrorKind::Gone } else { IoErrorKind::Medium }));
        let at = offset_bytes as usize;
        match op {
            Op::Read { mut bufs, .. } => {
                let mut at = at;
                let mut result = failure.map_or(Ok(()), Err);
                for buf in bufs.as_mut_slice() {
                    for (block, part) in (at / SECTOR_BYTES..).zip(buf.chunks_mut(SECTOR_BYTES)) {
                        if self.dead_blocks.contains(&(block as u64 / 8)) {
                            let dead =
                                IoError { kind: IoErrorKind::Medium, operation: "read", offset_bytes, os_error: 5 };
                            result = Err(dead);
                        }
                        let cached = self.cached.get(&block).and_then(|versions| versions.last());
                        match cached.or_else(|| self.shown.get(&block)) {
                            Some(bytes) => part.copy_from_slice(bytes),
                            None => part.copy_from_slice(&self.durable[block * SECTOR_BYTES..][..SECTOR_BYTES]),
                        }
                        let is_misread = block % 8 == 0 && self.misread.remove(&(block as u64 / 8));
                        part[0] ^= u8::from(is_misread);
                    }
                    at += buf.len();
                }
                Completion { tag, result, bufs: Some(bufs) }
            }
            Op::Write { bufs, fua } => {
                if let Some(error) = failure {
                    return Completion { tag, result: Err(error), bufs: None };
                }
                let bytes: Vec<u8> = bufs.as_slice().iter().flat_map(|buf| buf.to_vec()).collect();
                self.written_bytes += bytes.len() as u64;
                if self.is_volatile {
                    self.writes.push((at, bytes.clone(), fua));
                }
                for (sector, bytes) in (at / SECTOR_BYTES..).zip(bytes.chunks_exact(SECTOR_BYTES)) {
                    self.dead_blocks.remove(&(sector as u64 / 8));
                    self.shown.remove(&sector);
                    if self.is_volatile && !fua {
                        self.cached.entry(sector).or_default().push(bytes.try_into().unwrap());
                    } else {
                        self.cached.remove(&sector);
                        self.durable[sector * SECTOR_BYTES..][..SECTOR_BYTES].copy_from_slice(bytes);
                    }
                }
                Completion { tag, result: Ok(()), bufs: None }
            }
            Op::Flush => {
                if let Some(error) = failure {
                    return Completion { tag, result: Err(error), bufs: None };
                }
                self.flush();
                Completion { tag, result: Ok(()), bufs: None }
            }
            Op::Discard { .. } | Op::WriteZeroes { .. } => Completion { tag, result: Ok(()), bufs: None },
        }
    }
}

/// What an array holds of it.
struct Handle {
    name: String,
    geometry: Geometry,
    medium: Member,
    in_flight: usize,
}

impl Device for Handle {
    fn name(&self) -> &str {
        &self.name
    }

    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn submit(&mut self, request: Request) {
        self.in_flight += 1;
        self.medium.medium().queue.push(request);
    }

    fn poll(&mut self, done: &mut Vec<Completion>) {
        let mut medium = self.medium.medium();
        // A flush covers what ended before it was sent, and may come before what did not.
        let mut left = medium.queue.len();
        while left > 0 && medium.random.below(3) > 0 {
            let at = medium.random.below(left as u64) as usize;
            if medium.hangs_reads && matches!(medium.queue[at].op, Op::Read { .. }) {
                left -= 1;
                continue;
            }
            let request = medium.queue.swap_remove(at);
            let completion = medium.run(request);
            done.push(completion);
            self.in_flight -= 1;
            left -= 1;
        }
    }

    fn wait(&mut self, _timeout_ns: u64) {}

    fn queue_limit(&self) -> usize {
        32
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }
}

/// Runs one request to its end.
pub fn run(device: &mut dyn Device, offset_bytes: u64, op: Op) -> Completion {
    device.submit(Request { tag: 0, offset_bytes, stream: 0, op });
    let mut done = Vec::new();
    for _ in 0..4_000_000 {
        device.poll(&mut done);
        if let Some(completion) = done.pop() {
            return completion;
        }
    }
    panic!("a request does not end");
}

/// Reads a block, of the given attempt.
pub fn read(device: &mut dyn Device, offset_bytes: u64, attempt: u8) -> Option<Vec<u8>> {
    let op = Op::Read { bufs: Vectored::One(Buf::new(4096)), attempt };
    let completion = run(device, offset_bytes, op);
    match (completion.result, completion.bufs) {
        (Ok(()), Some(Vectored::One(buf))) => Some(buf.to_vec()),
        _ => None,
    }
}

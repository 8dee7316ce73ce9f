//! A scripted device: it holds requests until they are released, misreads, fails, and loses at a power cut exactly what the test chooses.

pub use super::seen::{Fate, Kind, Region, Seen};
use forebay_block::{Completion, Device, Geometry, IoError, IoErrorKind, Op, Request};
use forebay_volume::layout::superblock::{Role, Superblock};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

type Rule = Box<dyn FnMut(&Seen<'_>) -> Fate + Send>;

struct Core {
    geometry: Geometry,
    regions: Vec<(Range<u64>, Region)>,
    /// Contents that reads see.
    now: Vec<u8>,
    /// Contents after a power cut; `None` where all writes are durable.
    stable: Option<Vec<u8>>,
    /// Writes that no flush has covered, in order: (end time, offset, bytes).
    unflushed: Vec<(u64, u64, Vec<u8>)>,
    /// Requests in flight with their arrival times.
    pending: VecDeque<(u64, Request)>,
    clock: u64,
    rule: Rule,
    changes: u64,
}

/// The device; clones are the same device.
#[derive(Clone)]
pub struct Scripted {
    core: Arc<Mutex<Core>>,
    name: String,
    geometry: Geometry,
}

impl Scripted {
    pub fn new(name: &str, size_bytes: u64, volatile_cache: bool) -> Self {
        let geometry = Geometry {
            size_bytes,
            logical_block_bytes: 512,
            optimal_band_bytes: None,
            volatile_cache,
            durable_writes: true,
            discards: true,
        };
        let core = Core {
            geometry: geometry.clone(),
            regions: Vec::new(),
            now: vec![0; size_bytes as usize],
            stable: volatile_cache.then(|| vec![0; size_bytes as usize]),
            unflushed: Vec::new(),
            pending: VecDeque::new(),
            clock: 0,
            rule: Box::new(|_| Fate::Good),
            changes: 0,
        };
        Self { core: Arc::new(Mutex::new(core)), name: name.to_owned(), geometry }
    }

    /// The system flushes the cache after durable writes from now on.
    pub fn without_durable_writes(mut self) -> Self {
        self.geometry.durable_writes = false;
        self.core().geometry.durable_writes = false;
        self
    }

    fn core(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the device recognise the regions of its requests, as member `index` of this pool.
    pub fn lay_out(&self, superblock: &Superblock, index: usize) {
        let member = &superblock.members[index];
        let data = member.data_offset_bytes;
        self.core().regions = match member.role {
            Role::Capacity => vec![(data..data + member.sectors * 512, Region::Bands)],
            Role::Fast => {
                let [a, b] = superblock.root_offsets_bytes;
                let (root, journal) = (superblock.root_len_bytes, superblock.journal_offset_bytes);
                vec![
                    (a..a + root, Region::Root),
                    (b..b + root, Region::Root),
                    (journal..journal + superblock.journal_len_bytes, Region::Journal),
                    (data..data + superblock.slots * 4096, Region::Slots),
                ]
            }
        };
    }

    /// Sets the rule that decides the fate of every request from now on.
    pub fn rule(&self, rule: impl FnMut(&Seen<'_>) -> Fate + Send + 'static) {
        self.core().rule = Box::new(rule);
    }

    /// Ends all faults; held requests continue.
    pub fn heal(&self) {
        self.rule(|_| Fate::Good);
    }

    /// Passes the contents that reads see.
    pub fn bytes<R>(&self, look: impl FnOnce(&[u8]) -> R) -> R {
        look(&self.core().now)
    }

    /// Rots or forges the bytes at an offset, durably.
    pub fn forge(&self, offset_bytes: u64, bytes: &[u8]) {
        self.core().store(offset_bytes, bytes, true);
    }

    /// These bytes were never written back and never will be: reads see them until the power is cut.
    pub fn give_up(&self, offset_bytes: u64, len_bytes: usize) {
        if let Some(stable) = &mut self.core().stable {
            stable[offset_bytes as usize..][..len_bytes].fill(0);
        }
    }

    /// Number of writes and discards carried out.
    pub fn changes(&self) -> u64 {
        self.core().changes
    }

    /// Cuts and restores the power: of unflushed writes and writes in flight, only those that `keeps` selects survive. Nothing is in
    /// progress afterwards, and all faults end.
    pub fn cut(&self, mut keeps: impl FnMut(&Seen<'_>) -> bool) {
        let core = &mut *self.core();
        let mut after = core.stable.take().unwrap_or_else(|| std::mem::take(&mut core.now));
        let ended = std::mem::take(&mut core.unflushed).into_iter().map(|(_, offset, bytes)| (offset, bytes));
        let in_flight = std::mem::take(&mut core.pending).into_iter().filter_map(|(_, request)| match request.op {
            Op::Write { bufs, .. } => Some((request.offset_bytes, joined(bufs.as_slice()))),
            _ => None,
        });
        for (offset_bytes, bytes) in ended.chain(in_flight) {
            let region = region(&core.regions, offset_bytes);
            if keeps(&Seen { kind: Kind::Write, region, offset_bytes, is_durable: false, bytes: &bytes }) {
                after[offset_bytes as usize..offset_bytes as usize + bytes.len()].copy_from_slice(&bytes);
            }
        }
        core.stable = core.geometry.volatile_cache.then(|| after.clone());
        core.now = after;
        core.rule = Box::new(|_| Fate::Good);
    }
}

fn region(regions: &[(Range<u64>, Region)], offset_bytes: u64) -> Region {
    regions.iter().find(|(range, _)| range.contains(&offset_bytes)).map_or(Region::Head, |&(_, region)| region)
}

fn joined<B: std::ops::Deref<Target = [u8]>>(bufs: &[B]) -> Vec<u8> {
    bufs.iter().flat_map(|buf| buf.iter().copied()).collect()
}

impl Core {
    fn store(&mut self, offset_bytes: u64, bytes: &[u8], durably: bool) {
        let range = offset_bytes as usize..offset_bytes as usize + bytes.len();
        self.now[range.clone()].copy_from_slice(bytes);
        match &mut self.stable {
            Some(stable) if durably => {
                // The cache's older data for this place must not overwrite it later.
                self.unflushed.retain(|(_, at, old)| *at >= range.end as u64 || at + old.len() as u64 <= offset_bytes);
                stable[range].copy_from_slice(bytes);
            }
            Some(_) => self.unflushed.push((self.clock, offset_bytes, bytes.to_vec())),
            None => {}
        }
    }

    fn end(&mut self, came: u64, request: Request, fate: Fate) -> Completion {
        let Request { tag, offset_bytes, op, .. } = request;
        let mut result = Ok(());
        if fate == Fate::Lost {
            self.unflushed.clear();
        }
        if matches!(fate, Fate::Failed | Fate::Lost | Fate::Missing) {
            let operation = if matches!(op, Op::Read { .. }) { "read" } else { "change" };
            let kind = if fate == Fate::Missing { IoErrorKind::Missing } else { IoErrorKind::Medium };
            result = Err(IoError { kind, operation, offset_bytes, os_error: 5 });
        }
        match op {
            Op::Read { bufs, .. } if result.is_err() => return Completion { tag, result, bufs: Some(bufs) },
            Op::Read { mut bufs, .. } => {
                let mut at = offset_bytes;
                for buf in bufs.as_mut_slice() {
                    let end = at as usize + buf.len();
                    buf.copy_from_slice(&self.now[at as usize..end]);
                    if let Fate::Misread(bad) = fate
                        && (at..at + buf.len() as u64).contains(&bad)
                    {
                        buf[(bad - at) as usize] ^= 0x10;
                    }
                    at += buf.len() as u64;
                }
                return Completion { tag, result, bufs: Some(bufs) };
            }
            Op::Flush => {
                let covered = self.unflushed.extract_if(.., |(ended, ..)| *ended < came).collect::<Vec<_>>();
                if let (Some(stable), true) = (&mut self.stable, result.is_ok()) {
                    for (_, offset, bytes) in covered {
                        stable[offset as usize..offset as usize + bytes.len()].copy_from_slice(&bytes);
                    }
                }
            }
            _ if result.is_err() => {}
            Op::Write { bufs, fua } => self.store(offset_bytes, &joined(bufs.as_slice()), fua),
            Op::Discard { len_bytes } => self.store(offset_bytes, &vec![0; len_bytes as usize], true),
            Op::WriteZeroes { len_bytes } => self.store(offset_bytes, &vec![0; len_bytes as usize], false),
        }
        Completion { tag, result, bufs: None }
    }

    /// Whether a request is not empty and lies within the device.
    fn is_valid(&self, request: &Request) -> bool {
        let (start, len) = (request.offset_bytes, request.op.len_bytes());
        let fits = start.checked_add(len).is_some_and(|end| end <= self.geometry.size_bytes);
        matches!(request.op, Op::Flush) || len > 0 && start.is_multiple_of(512) && fits
    }

    fn fate(&mut self, request: &Request) -> Fate {
        let offset_bytes = request.offset_bytes;
        let region = region(&self.regions, offset_bytes);
        let stored = &self.now[offset_bytes as usize..(offset_bytes + request.op.len_bytes()) as usize];
        let written;
        let (kind, bytes) = match &request.op {
            Op::Read { .. } => (Kind::Read, stored),
            Op::Flush => (Kind::Flush, stored),
            Op::Discard { .. } => (Kind::Discard, stored),
            Op::WriteZeroes { .. } => (Kind::Write, stored),
            Op::Write { bufs, .. } => {
                written = joined(bufs.as_slice());
                (Kind::Write, &written[..])
            }
        };
        let is_durable = matches!(request.op, Op::Write { fua: true, .. });
        (self.rule)(&Seen { kind, region, offset_bytes, is_durable, bytes })
    }
}

impl Device for Scripted {
    fn name(&self) -> &str {
        &self.name
    }
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }
    fn submit(&mut self, request: Request) {
        let core = &mut *self.core();
        core.clock += 1;
        core.pending.push_back((core.clock, request));
    }
    fn poll(&mut self, done: &mut Vec<Completion>) {
        let core = &mut *self.core();
        for _ in 0..core.pending.len() {
            let Some((came, request)) = core.pending.pop_front() else { return };
            let fate = if core.is_valid(&request) { core.fate(&request) } else { Fate::Failed };
            if fate == Fate::Held {
                core.pending.push_back((came, request));
                continue;
            }
            core.clock += 1;
            core.changes += u64::from(!matches!(request.op, Op::Read { .. } | Op::Flush) && fate == Fate::Good);
            done.push(core.end(came, request, fate));
        }
    }
    fn wait(&mut self, _timeout_ns: u64) {}
    fn queue_limit(&self) -> usize {
        256
    }
    fn in_flight(&self) -> usize {
        self.core().pending.len()
    }
}

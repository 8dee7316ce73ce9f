//! A simulated bucket that answers late, wrongly or never, and an oracle of what each sector may hold. It covers
//! crashes between any two requests, requests that arrive after the next opening, and servers that do not know yet
//! that they were replaced.

use super::epoch::{Standing, standing_of};
use super::job::{Answer, Failure, Job};
use super::log::{Limits, Log};
use super::name::{Content, ObjectName};
use super::roll::Roll;
use forebay_block::checksum::crc32c;
use forebay_block::{Buf, IoErrorKind, Op, Random, Request, Vectored};
use std::collections::BTreeMap;

pub(super) const SECTORS: u64 = 48;
pub(super) const LIMITS: Limits = Limits { unit_bytes: 4096, memory_bytes: 3 * 4096, objects_max: 2 };

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    Tag(u32),
    /// After a discard: any earlier content, or zeros.
    Any,
}

/// The versions that a sector may hold.
#[derive(Clone, Debug)]
struct Sector {
    versions: Vec<Version>,
    /// Indices of the newest acknowledged version, and of the oldest one that a crash may leave.
    acknowledged: usize,
    durable: usize,
}

impl Sector {
    fn allows(&self, from: usize, tag: Option<u32>) -> bool {
        let later = &self.versions[from..];
        later.contains(&Version::Any) || tag.is_some_and(|tag| later.contains(&Version::Tag(tag)))
    }
}

#[derive(Clone, Debug)]
enum Asked {
    /// A write or discard: sectors, each with the index of its version.
    Change {
        made: Vec<(usize, usize)>,
        fua: bool,
    },
    /// A flush: the newest acknowledged version of each sector when it was submitted.
    Flush(Vec<usize>),
    Read {
        at: usize,
        since: Vec<usize>,
    },
}

/// Stored objects by name.
pub(super) type Stored = BTreeMap<String, Vec<u8>>;

struct Server {
    log: Log,
    epoch: u32,
    jobs: Vec<Job>,
    asked: BTreeMap<u64, Asked>,
    is_replaced: bool,
}

pub(super) struct World {
    server: Server,
    /// Replaced servers that do not know it yet.
    replaced: Vec<Server>,
    stored: Stored,
    /// Delayed requests of servers that are gone, and earlier copies of repeated requests.
    late_puts: Vec<(String, Vec<u8>)>,
    late_deletes: Vec<String>,
    roll: Roll,
    /// Objects of epochs, each with its owner.
    epochs: BTreeMap<u32, String>,
    /// Requests for epochs that may arrive once more.
    late_epochs: Vec<(u32, String)>,
    sectors: Vec<Sector>,
    next_tag: u32,
    next_request: u64,
    random: Random,
}

fn open(stored: &Stored, roll: &mut Roll, epoch: u32) -> Server {
    let names = stored.keys().map(|name| name.parse::<ObjectName>().unwrap());
    let (good, bad): (Vec<_>, Vec<_>) = names.partition(|name| roll.counts(name.sequence));
    *roll = Roll::call(epoch, &good);
    let mut log = Log::new(LIMITS, epoch, &good, &bad);
    log.tidy();
    Server { log, epoch, jobs: Vec::new(), asked: BTreeMap::new(), is_replaced: false }
}

/// Owner of an epoch; each epoch has a server of its own.
fn owner(epoch: u32) -> String {
    format!("{epoch:032x}")
}

pub(super) fn bytes_of(tag: u32) -> Vec<u8> {
    tag.to_le_bytes().repeat(128)
}

fn tag_of(bytes: &[u8]) -> u32 {
    let tag = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    assert_eq!(bytes, bytes_of(tag), "a torn sector");
    tag
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        let (stored, mut roll) = (Stored::new(), Roll::default());
        let server = open(&stored, &mut roll, 1);
        let sector = Sector { versions: vec![Version::Tag(0)], acknowledged: 0, durable: 0 };
        Self {
            server,
            replaced: Vec::new(),
            stored,
            late_puts: Vec::new(),
            late_deletes: Vec::new(),
            roll,
            epochs: BTreeMap::from([(1, owner(1))]),
            late_epochs: vec![(1, owner(1))],
            sectors: vec![sector; SECTORS as usize],
            next_tag: 1,
            next_request: 0,
            random: Random::new(seed),
        }
    }

    fn submit(server: &mut Server, number: &mut u64, at: u64, op: Op, asked: Asked) {
        server.asked.insert(*number, asked);
        server.log.submit(Request { tag: *number, offset_bytes: at * 512, stream: 0, op });
        *number += 1;
    }

    fn change(&mut self, at: u64, len: u64, version: impl Fn(u64) -> Version) -> Vec<(usize, usize)> {
        let mut made = Vec::new();
        for sector in at..at + len {
            let versions = &mut self.sectors[sector as usize].versions;
            versions.push(version(sector));
            made.push((sector as usize, versions.len() - 1));
        }
        made
    }

    pub(super) fn write(&mut self, at: u64, len: u64, fua: bool) {
        let first = self.next_tag;
        self.next_tag += len as u32;
        let made = self.change(at, len, |sector| Version::Tag(first + (sector - at) as u32));
        let bytes: Vec<u8> = (0..len as u32).flat_map(|sector| bytes_of(first + sector)).collect();
        let mut whole = Buf::copy_of(&bytes);
        let bufs = match whole.len() {
            512 => Vectored::One(whole.freeze()),
            _ => {
                let rest = whole.split_off(512);
                Vectored::Many(vec![whole.freeze(), rest.freeze()])
            }
        };
        Self::submit(
            &mut self.server,
            &mut self.next_request,
            at,
            Op::Write { bufs, fua },
            Asked::Change { made, fua },
        );
    }

    pub(super) fn zero(&mut self, at: u64, len: u64) {
        let made = self.change(at, len, |_| Version::Tag(0));
        let op = Op::WriteZeroes { len_bytes: len * 512 };
        Self::submit(&mut self.server, &mut self.next_request, at, op, Asked::Change { made, fua: false });
    }

    pub(super) fn discard(&mut self, at: u64, len: u64) {
        let made = self.change(at, len, |_| Version::Any);
        let op = Op::Discard { len_bytes: len * 512 };
        Self::submit(&mut self.server, &mut self.next_request, at, op, Asked::Change { made, fua: false });
    }

    pub(super) fn flush(&mut self) {
        let asked = Asked::Flush(self.sectors.iter().map(|sector| sector.acknowledged).collect());
        Self::submit(&mut self.server, &mut self.next_request, 0, Op::Flush, asked);
    }

    pub(super) fn read(&mut self, at: u64, len: u64) {
        let since = self.sectors[at as usize..(at + len) as usize].iter().map(|sector| sector.acknowledged).collect();
        let mut whole = Buf::new(len as usize * 512);
        whole.fill(0xee);
        let asked = Asked::Read { at: at as usize, since };
        Self::submit(&mut self.server, &mut self.next_request, at, Op::read(Vectored::One(whole)), asked);
    }

    pub(super) fn hear(&mut self) {
        self.server.jobs.extend(self.server.log.take_jobs());
        for completion in std::mem::take(self.server.log.done()) {
            let asked = self.server.asked.remove(&completion.tag).expect("answered twice");
            let is_good = completion.result.is_ok();
            match asked {
                Asked::Change { made, fua } if is_good => {
                    for (sector, version) in made {
                        let sector = &mut self.sectors[sector];
                        sector.acknowledged = sector.acknowledged.max(version);
                        if fua {
                            sector.durable = sector.durable.max(version);
                        }
                    }
                }
                Asked::Flush(versions) if is_good => {
                    for (sector, version) in self.sectors.iter_mut().zip(versions) {
                        sector.durable = sector.durable.max(version);
                    }
                }
                Asked::Read { at, since } => {
                    let Some(Vectored::One(buf)) = completion.bufs else { panic!("no buffers") };
                    for (within, since) in since.into_iter().enumerate() {
                        let tag = is_good.then(|| tag_of(&buf[within * 512..][..512]));
                        let sector = &self.sectors[at + within];
                        let is_allowed = tag.is_none() || sector.allows(since, tag);
                        assert!(is_allowed, "sector {} reads as {tag:?}: {sector:?} since {since}", at + within);
                    }
                }
                Asked::Change { .. } | Asked::Flush(_) => {}
            }
        }
    }

    /// Carries out a request and returns its answer.
    pub(super) fn carry_out(stored: &mut Stored, job: &Job, epoch: u32, epochs: &BTreeMap<u32, String>) -> Answer {
        match job {
            Job::Put { name, payload } => {
                let bytes: Vec<u8> = payload.iter().flat_map(|part| part.to_vec()).collect();
                assert_eq!(bytes.len() as u64, name.stored_bytes());
                if let Content::Data { crc } = name.content {
                    assert_eq!(crc32c(&bytes), crc);
                }
                assert_eq!(name.start_bytes / 4096, (name.end_bytes() - 1) / 4096, "{name} crosses a border");
                let before = stored.insert(name.to_string(), bytes.clone());
                assert!(before.is_none_or(|before| before == bytes), "{name} was changed");
                Answer::Put { sequence: name.sequence, result: Ok(()), is_repeated: false }
            }
            Job::Get { number, name, range } => {
                let bytes =
                    stored.get(&name.to_string()).and_then(|bytes| bytes.get(range.start as usize..range.end as usize));
                let absent = Failure { kind: IoErrorKind::Medium, os_error: libc::ENOENT };
                Answer::Get { number: *number, result: bytes.map(|bytes| bytes.to_vec().into()).ok_or(absent) }
            }
            Job::Look => {
                let content = epochs.get(&epoch).map(String::as_bytes);
                let standing = standing_of(&epochs.keys().copied().collect(), epoch, content, &owner(epoch));
                assert_ne!(standing, Standing::Unclear, "epoch {epoch} of {epochs:?}");
                Answer::Look { result: if standing == Standing::Owned { Ok(()) } else { Err(Failure::FENCED) } }
            }
            Job::Delete { name } => {
                stored.remove(&name.to_string());
                Answer::Delete { sequence: name.sequence, is_gone: true }
            }
        }
    }

    fn refused(job: &Job) -> Answer {
        let failure = Failure { kind: IoErrorKind::Medium, os_error: libc::ETIMEDOUT };
        match job {
            Job::Put { name, .. } => Answer::Put { sequence: name.sequence, result: Err(failure), is_repeated: true },
            Job::Get { number, .. } => Answer::Get { number: *number, result: Err(failure) },
            Job::Look => Answer::Look { result: Err(failure) },
            Job::Delete { name } => Answer::Delete { sequence: name.sequence, is_gone: false },
        }
    }

    /// Keeps a request that may arrive later.
    fn float(&mut self, job: &Job) {
        match job {
            Job::Put { name, payload } => {
                self.late_puts.push((name.to_string(), payload.iter().flat_map(|part| part.to_vec()).collect()));
            }
            Job::Delete { name } => self.late_deletes.push(name.to_string()),
            Job::Get { .. } | Job::Look => {}
        }
    }

    /// Ends one request to the store in one of the possible ways.
    pub(super) fn answer(&mut self, may_fail: bool) {
        self.hear();
        if self.server.jobs.is_empty() {
            return;
        }
        let job = self.server.jobs.swap_remove(self.random.index(self.server.jobs.len()));
        let fate = if may_fail { self.random.below(10) } else { 9 };
        let epoch = self.server.epoch;
        let answer = match fate {
            // The request is lost, or carried out without an answer, or delayed.
            0 => Self::refused(&job),
            1 => {
                Self::carry_out(&mut self.stored, &job, epoch, &self.epochs);
                Self::refused(&job)
            }
            2 => {
                self.float(&job);
                Self::refused(&job)
            }
            // The request is repeated, and its first copy is delayed. A repeated deletion does nothing, whenever it
            // arrives.
            3 => {
                if matches!(job, Job::Put { .. }) {
                    self.float(&job);
                }
                match Self::carry_out(&mut self.stored, &job, epoch, &self.epochs) {
                    Answer::Put { sequence, result, .. } => Answer::Put { sequence, result, is_repeated: true },
                    answer => answer,
                }
            }
            _ => Self::carry_out(&mut self.stored, &job, epoch, &self.epochs),
        };
        let is_lost = matches!(&answer, Answer::Get { result: Err(failure), .. } if failure.os_error == libc::ENOENT);
        if is_lost && let Job::Get { name, .. } = &job {
            let range = name.start_bytes / 512..name.end_bytes() / 512;
            let mut sectors = range.map(|sector| &self.sectors[sector as usize]);
            // A delayed deletion of a crashed server may only hit objects whose range was discarded.
            assert!(sectors.any(|sector| sector.versions.contains(&Version::Any)), "{name} was deleted and is needed");
        }
        self.server.log.answer(answer);
        self.hear();
    }

    pub(super) fn late(&mut self) {
        // A request for an epoch arrives once more. It is conditional, so it changes nothing where the epoch exists.
        let (epoch, owner) = self.late_epochs[self.random.index(self.late_epochs.len())].clone();
        self.epochs.entry(epoch).or_insert(owner);
        if !self.late_puts.is_empty() {
            let (name, bytes) = self.late_puts.swap_remove(self.random.index(self.late_puts.len()));
            self.stored.insert(name, bytes);
        } else if !self.late_deletes.is_empty() {
            let name = self.late_deletes.swap_remove(self.random.index(self.late_deletes.len()));
            self.stored.remove(&name);
        }
    }

    /// The next server opens the device. The former one was killed, or runs on.
    pub(super) fn replace(&mut self, was_killed: bool) {
        self.hear();
        let epoch = self.server.epoch + 1;
        if was_killed {
            for job in std::mem::take(&mut self.server.jobs) {
                match self.random.below(3) {
                    0 => drop(Self::carry_out(&mut self.stored, &job, self.server.epoch, &self.epochs)),
                    1 => self.float(&job),
                    _ => {}
                }
            }
        }
        self.epochs = BTreeMap::from([(epoch, owner(epoch))]);
        self.late_epochs.push((epoch, owner(epoch)));
        let next = open(&self.stored, &mut self.roll, epoch);
        let mut before = std::mem::replace(&mut self.server, next);
        if !was_killed {
            before.is_replaced = true;
            self.replaced.push(before);
        }
        self.survey();
    }

    /// Reads all sectors. What a sector holds now must have been durable, and is its only version from now on.
    fn survey(&mut self) {
        for at in 0..SECTORS {
            let mut buf = Buf::new(512);
            buf.fill(0xee);
            let tag = self.next_request;
            self.next_request += 1;
            let op = Op::read(Vectored::One(buf));
            self.server.log.submit(Request { tag, offset_bytes: at * 512, stream: 0, op });
            let completion = loop {
                if let Some(completion) = self.server.log.done().pop() {
                    break completion;
                }
                let jobs = self.server.log.take_jobs();
                for job in jobs {
                    match &job {
                        Job::Get { .. } => {
                            let answer = Self::carry_out(&mut self.stored, &job, 0, &self.epochs);
                            self.server.log.answer(answer);
                        }
                        _ => self.server.jobs.push(job),
                    }
                }
            };
            let Some(Vectored::One(buf)) = completion.bufs else { panic!("no buffers") };
            let tag = completion.result.is_ok().then(|| tag_of(&buf));
            let sector = &mut self.sectors[at as usize];
            assert!(sector.allows(sector.durable, tag), "sector {at} is left as {tag:?}: {sector:?}");
            let is_any = sector.versions[sector.durable..].contains(&Version::Any);
            let version = tag.filter(|_| !is_any).map_or(Version::Any, Version::Tag);
            *sector = Sector { versions: vec![version], acknowledged: 0, durable: 0 };
        }
    }

    /// A replaced server runs on: it writes, flushes, and sends requests to the store.
    pub(super) fn go_on_replaced(&mut self) {
        let Some(at) = (!self.replaced.is_empty()).then(|| self.random.index(self.replaced.len())) else { return };
        let tag = u64::MAX - self.next_request;
        self.next_request += 1;
        let server = &mut self.replaced[at];
        match self.random.below(4) {
            0 => {
                let op = Op::Write { bufs: Vectored::One(Buf::copy_of(&bytes_of(u32::MAX)).freeze()), fua: false };
                let offset_bytes = self.random.below(SECTORS) * 512;
                server.log.submit(Request { tag: 0, offset_bytes, stream: 0, op });
            }
            1 => server.log.submit(Request { tag, offset_bytes: 0, stream: 0, op: Op::Flush }),
            _ => {}
        }
        server.jobs.extend(server.log.take_jobs());
        if !server.jobs.is_empty() {
            let job = server.jobs.swap_remove(self.random.index(server.jobs.len()));
            let answer = Self::carry_out(&mut self.stored, &job, server.epoch, &self.epochs);
            let is_fenced = matches!(answer, Answer::Look { result: Err(Failure::FENCED) });
            assert!(
                is_fenced || !matches!(job, Job::Look),
                "epoch {} passes its fence: {:?}",
                server.epoch,
                self.epochs
            );
            server.log.answer(answer);
        }
        for completion in std::mem::take(server.log.done()) {
            // A flush that covers nothing may succeed: everything before it was durable.
            let is_empty = completion.tag > u64::MAX / 2 && server.asked.is_empty();
            assert!(
                completion.tag <= u64::MAX / 2 || completion.result.is_err() || is_empty || !server.log.is_fenced()
            );
        }
    }

    /// Lets all requests end without faults. Memory and garbage must be empty then.
    pub(super) fn settle(&mut self) {
        self.replaced.clear();
        self.late_puts.clear();
        self.late_deletes.clear();
        for _ in 0..2 {
            self.flush();
            self.hear();
            while !self.server.jobs.is_empty() {
                self.answer(false);
            }
        }
        assert!(self.server.asked.is_empty(), "never answered: {:?}", self.server.asked);
        assert_eq!(self.server.log.objects().1, 0, "garbage is left");
        assert!(self.server.log.is_at_rest());
        self.read(0, SECTORS);
        self.hear();
        while !self.server.jobs.is_empty() {
            self.answer(false);
        }
        for sector in &self.sectors {
            assert!(sector.durable >= sector.acknowledged, "a flush was answered: {sector:?}");
        }
    }
}

//! Contents of a device: medium and cache, unreadable sectors, and the effects of requests.

use super::behaviour::{AfterDiscard, Behaviour};
use super::flight::Flight;
use super::wounds;
use crate::fault::FaultKind;
use crate::medium::Medium;
use crate::stamp::SECTOR_BYTES;
use forebay_block::{Buf, Geometry, IoErrorKind, Op, Random, Request, SharedBuf};
use forebay_proof::survival::Pattern;
use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;

/// Number of recent writes that a device remembers.
const LAST_WRITTEN: usize = 6;

/// What a failed read leaves in the part of a buffer that was not read.
const UNREAD: u8 = 0xa5;

/// Contents of a device and its cache.
pub(super) struct Contents {
    medium: Medium,
    geometry: Geometry,
    behaviour: Behaviour,
    /// Sectors that are unreadable until a restart.
    bad_sectors: BTreeSet<u64>,
    /// Sectors that stay unreadable after a restart.
    dead_sectors: BTreeSet<u64>,
    /// Number of misreads that were reported as good reads.
    misread: u64,
    /// Writes that will be repeated: time, place and data.
    echoes: Vec<(u64, usize, Vec<u8>)>,
    /// Offset and length of the last writes in bytes, where rot does most harm.
    last_written: VecDeque<(usize, usize)>,
}

/// Sectors of a block of 4 KiB.
fn sectors_of(block: u64) -> Range<u64> {
    block * 8..block * 8 + 8
}

impl Contents {
    pub fn new(geometry: Geometry) -> Self {
        Self {
            medium: Medium::new(geometry.size_bytes as usize),
            geometry,
            behaviour: Behaviour { after_discard: AfterDiscard::Zeros, keep: 128, gives_up: false, stays_on: false },
            bad_sectors: BTreeSet::new(),
            dead_sectors: BTreeSet::new(),
            misread: 0,
            echoes: Vec::new(),
            last_written: VecDeque::new(),
        }
    }

    /// Switches the device on.
    pub fn start(&mut self, behaviour: Behaviour) {
        self.behaviour = behaviour;
        self.bad_sectors.clear();
    }

    /// Contents of another device with the same behaviour.
    pub fn blank(&self) -> Self {
        Self { behaviour: self.behaviour, misread: self.misread, ..Self::new(self.geometry.clone()) }
    }

    /// The sector at an offset; none where it is absent.
    pub fn sector_at(&self, offset_bytes: u64) -> Option<&[u8]> {
        let is_within = offset_bytes + SECTOR_BYTES as u64 <= self.geometry.size_bytes;
        is_within.then(|| self.medium.read(offset_bytes as usize, SECTOR_BYTES))
    }

    pub fn misread(&self) -> u64 {
        self.misread
    }

    /// See [`wounds::rot`].
    pub fn rot(&mut self, seed: u64) -> (u64, Option<u32>) {
        wounds::rot(&mut self.medium, &self.last_written, seed)
    }

    /// See [`wounds::wound`].
    pub fn wound(&mut self, kind: FaultKind, count: usize, seed: u64, is_wanted: &dyn Fn(u32) -> bool) -> Vec<u32> {
        wounds::wound((&mut self.medium, &mut self.dead_sectors), kind, count, seed, is_wanted)
    }

    /// See [`wounds::sectors_of`].
    pub fn sectors_of(&self, is_wanted: &wounds::Wanted<'_>) -> Vec<u64> {
        wounds::sectors_of(&self.medium, is_wanted)
    }

    /// See [`wounds::hurt`].
    pub fn hurt(&mut self, kind: FaultKind, sector: u64, seed: u64) {
        wounds::hurt((&mut self.medium, &mut self.dead_sectors), kind, sector, seed);
    }

    /// See [`wounds::die`].
    pub fn die(&mut self, seed: u64) -> u64 {
        wounds::die((&self.medium, &mut self.dead_sectors), &self.last_written, seed)
    }

    /// See [`wounds::blocks_with`].
    pub fn blocks_with(&self, is_wanted: &dyn Fn(u32) -> bool) -> Vec<u64> {
        wounds::blocks_with(&self.medium, is_wanted)
    }

    /// See [`wounds::tags_at`].
    pub fn tags_at(&self, block: u64) -> Option<Vec<u32>> {
        let bad = |sector| self.dead_sectors.contains(&sector) || self.bad_sectors.contains(&sector);
        if sectors_of(block).any(bad) { None } else { wounds::tags_at(&self.medium, block) }
    }

    /// Makes a block unreadable.
    pub fn kill(&mut self, block: u64) {
        self.dead_sectors.extend(sectors_of(block));
    }

    /// Starts a flush; returns its number.
    pub fn flush_begins(&mut self) -> u64 {
        self.medium.flush_begins()
    }

    /// Writes the whole cache back; nothing may be in flight.
    pub fn write_back(&mut self) {
        let number = self.medium.flush_begins();
        self.medium.flush_ends(number, true);
    }

    /// Repeats the writes whose time has come.
    pub fn echo(&mut self, now_ns: u64) {
        while !self.echoes.is_empty() && self.echoes[0].0 <= now_ns {
            let (_, at, bytes) = self.echoes.remove(0);
            self.medium.write_through(at, &bytes);
        }
    }

    /// Power off: tears the requests in progress and loses part of the cache.
    pub fn power_cut(&mut self, in_flight: impl Iterator<Item = Request>, random: &mut Random) {
        in_flight.for_each(|request| self.tear(&request, random));
        self.echoes.clear();
        if self.behaviour.stays_on {
            return self.medium.flushes_forgotten();
        }
        self.medium.power_cut(Pattern::Newest { survive: self.behaviour.keep }, random);
    }

    fn tear(&mut self, request: &Request, random: &mut Random) {
        let keep = self.behaviour.keep;
        let mut at = request.offset_bytes as usize;
        match &request.op {
            Op::Write { bufs, .. } => {
                // Even an incomplete write remaps an unreadable sector.
                let sectors = at / SECTOR_BYTES..(at + request.op.len_bytes() as usize) / SECTOR_BYTES;
                self.dead_sectors.retain(|&sector| !sectors.contains(&(sector as usize)));
                let is_carried_out = random.chance(keep, 256);
                for buf in bufs.as_slice() {
                    if !self.behaviour.stays_on {
                        self.medium.tear(at, buf, keep, random);
                    } else if is_carried_out {
                        self.medium.write(at, buf, random);
                    }
                    at += buf.len();
                }
            }
            Op::WriteZeroes { len_bytes } => {
                self.medium.tear(at, &vec![0; *len_bytes as usize], keep, random);
            }
            _ => {}
        }
    }

    /// Carries out a request; the error says why it failed.
    pub fn transfer(&mut self, flight: &mut Flight, now_ns: u64, random: &mut Random) -> Option<IoErrorKind> {
        let offset_bytes = flight.request.offset_bytes;
        let len = flight.request.op.len_bytes();
        let is_valid = offset_bytes.is_multiple_of(SECTOR_BYTES as u64)
            && len.is_multiple_of(SECTOR_BYTES as u64)
            && offset_bytes.checked_add(len).is_some_and(|end| end <= self.geometry.size_bytes);
        if !is_valid {
            return Some(IoErrorKind::Invalid);
        }
        let offset = offset_bytes as usize;
        let sectors = offset_bytes / SECTOR_BYTES as u64..(offset_bytes + len) / SECTOR_BYTES as u64;
        match &mut flight.request.op {
            Op::Read { bufs, .. } => self.read(offset, bufs.as_mut_slice(), sectors, flight.fate, random),
            Op::Write { bufs, fua } => {
                self.overwrite(&sectors);
                if self.last_written.len() == LAST_WRITTEN {
                    self.last_written.pop_front();
                }
                self.last_written.push_back((offset, len as usize));
                let is_flushed_behind = *fua && self.geometry.volatile_cache && !self.geometry.durable_writes;
                let through = *fua || !self.geometry.volatile_cache;
                let failure = self.write((offset, through), bufs.as_slice(), flight.fate, now_ns, random);
                if failure.is_some() && is_flushed_behind && self.behaviour.gives_up {
                    let number = self.medium.flush_begins();
                    self.medium.flush_ends(number, false);
                    self.medium.give_up(number);
                }
                failure
            }
            Op::Flush => self.flush(flight.flush, flight.fate),
            Op::Discard { .. } if flight.fate == Some(FaultKind::TrimError) => Some(IoErrorKind::Medium),
            Op::Discard { len_bytes } => {
                self.discard(offset, *len_bytes as usize, &sectors, random);
                None
            }
            Op::WriteZeroes { len_bytes } => {
                let zeros = vec![0; *len_bytes as usize];
                self.medium.write(offset, &zeros, random);
                if !self.geometry.volatile_cache {
                    self.medium.write_through(offset, &zeros);
                }
                None
            }
        }
    }

    /// A write makes unreadable sectors readable again.
    fn overwrite(&mut self, sectors: &Range<u64>) {
        self.bad_sectors.retain(|sector| !sectors.contains(sector));
        self.dead_sectors.retain(|sector| !sectors.contains(sector));
    }

    fn read(
        &mut self,
        offset: usize,
        bufs: &mut [Buf],
        sectors: Range<u64>,
        fate: Option<FaultKind>,
        random: &mut Random,
    ) -> Option<IoErrorKind> {
        match fate {
            Some(FaultKind::ReadError) => {
                self.bad_sectors.insert(sectors.start);
            }
            Some(FaultKind::DeadSector) => {
                self.dead_sectors.insert(sectors.start);
            }
            _ => {}
        }
        let bad = [&self.bad_sectors, &self.dead_sectors];
        if let Some(&unread) = bad.iter().filter_map(|bad| bad.range(sectors.clone()).next()).min() {
            // A drive transfers what lies before the sector that it cannot read. What a buffer held before its read is gone in any case: its memory was
            // used before, and might hold the very data.
            let mut at = offset;
            let readable = unread as usize * SECTOR_BYTES;
            for buf in bufs.iter_mut() {
                let here = readable.saturating_sub(at).min(buf.len());
                buf[..here].copy_from_slice(self.medium.read(at, here));
                buf[here..].fill(UNREAD);
                at += buf.len();
            }
            return Some(IoErrorKind::Medium);
        }
        let len = bufs.iter().map(|buf| buf.len() as u64).sum();
        if fate == Some(FaultKind::Rot) {
            self.medium.flip(offset + random.below(len) as usize, random.below(8) as u32);
        }
        let mut at = offset;
        for buf in bufs.iter_mut() {
            let len = buf.len();
            buf.copy_from_slice(self.medium.read(at, len));
            at += len;
        }
        if fate == Some(FaultKind::Misread) {
            self.misread += 1;
            let wrong = random.below(len) as usize;
            wounds::misread(bufs, wrong, random.below(8) as u32);
        }
        None
    }

    fn write(
        &mut self,
        (offset, through): (usize, bool),
        bufs: &[SharedBuf],
        fate: Option<FaultKind>,
        now_ns: u64,
        random: &mut Random,
    ) -> Option<IoErrorKind> {
        let mut at = offset;
        for buf in bufs {
            let bytes: &[u8] = buf;
            match fate {
                Some(FaultKind::LostWrite) => {}
                Some(FaultKind::MisdirectedWrite) => {
                    let places = (self.medium.len_bytes() - bytes.len()) / 4096 + 1;
                    let elsewhere = random.index(places) * 4096;
                    self.medium.write(elsewhere, bytes, random);
                }
                Some(FaultKind::WriteError) => {
                    // Any part of the write, into the cache.
                    for (i, sector) in bytes.chunks_exact(SECTOR_BYTES).enumerate() {
                        if random.chance(1, 2) {
                            self.medium.write(at + i * SECTOR_BYTES, sector, random);
                        }
                    }
                }
                _ if through => self.medium.write_through(at, bytes),
                _ => self.medium.write(at, bytes, random),
            }
            if fate == Some(FaultKind::DuplicatedWrite) {
                let later = now_ns + random.below(100_000_000);
                self.echoes.push((later, at, bytes.to_vec()));
                self.echoes.sort_by_key(|echo| echo.0);
            }
            at += bytes.len();
        }
        (fate == Some(FaultKind::WriteError)).then_some(IoErrorKind::Medium)
    }

    fn flush(&mut self, number: u64, fate: Option<FaultKind>) -> Option<IoErrorKind> {
        let is_good = fate != Some(FaultKind::FlushError);
        self.medium.flush_ends(number, is_good);
        if !is_good && self.behaviour.gives_up {
            self.medium.give_up(number);
        }
        (!is_good).then_some(IoErrorKind::Medium)
    }

    fn discard(&mut self, offset: usize, len: usize, sectors: &Range<u64>, random: &mut Random) {
        let byte = match self.behaviour.after_discard {
            AfterDiscard::Old => return,
            AfterDiscard::Zeros => 0,
            AfterDiscard::Other => random.below(256) as u8,
        };
        self.dead_sectors.retain(|sector| !sectors.contains(sector));
        self.medium.write(offset, &vec![byte; len], random);
    }
}

//! The device as a log of immutable objects, free of I/O. Requests of the engine and answers of the store go in;
//! completions and jobs for the store come out.
//!
//! Written data is held in memory, up to a limit. It goes to the store as objects when a flush or a durable write
//! asks for it, when a unit is complete, and when memory runs short. An object is durable once the store has
//! answered. A server that opens the device after an epoch check found the epoch unchanged lists all objects stored
//! before that check.

use super::crowded::Crowded;
use super::flushes::{Barrier, Flushes};
use super::job::{Answer, Failure, Job};
use super::memory::{Held, Memory, Run, WEIGHT_MIN_BYTES};
use super::merge::Merge;
use super::name::{Content, ObjectName, Sequence};
use super::objects::Objects;
use super::puts::{Put, Puts};
use super::reads::{Read, Reads};
use super::scatter::{fill, gather, scatter};
use crate::request::{error, finish};
use bytes::Bytes;
use forebay_block::checksum::{crc32c, crc32c_of};
use forebay_block::{Buf, Completion, IoError, Op, Request, Vectored};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

/// Most puts in flight at which further ones are sent just to free memory.
const PUTS_MAX: usize = 8;
/// Most deletions in flight; they leave room for hosts' requests.
const DELETES_MAX: usize = 4;

/// Limits of the device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Size of a unit, in bytes. An object lies within one unit.
    pub(crate) unit_bytes: u64,
    /// Limit of written data in memory that no object holds yet, in bytes.
    pub(crate) memory_bytes: u64,
    /// Most objects visible in a unit before they are merged into one.
    pub(crate) objects_max: usize,
}

/// The reason for reading an object.
enum Purpose {
    /// A host's read, and the place of the bytes in it.
    Read { number: u64, at: usize },
    /// The merge of a unit.
    Merge,
}

struct Get {
    name: ObjectName,
    range: Range<u64>,
    purpose: Purpose,
}

/// The log, without I/O.
pub(crate) struct Log {
    limits: Limits,
    epoch: u32,
    next_counter: u64,
    next_number: u64,
    objects: Objects,
    memory: Memory,
    puts: Puts,
    reads: Reads,
    gets: BTreeMap<u64, Get>,
    /// Writes that wait for room in memory.
    waiting: VecDeque<Request>,
    /// Bytes of the first waiting request, a write of zeros, that were taken already.
    zeroed_bytes: u64,
    flushes: Flushes,
    deletes: usize,
    merge: Option<Merge>,
    crowded: Crowded,
    /// The store may hold objects that the table does not list, or delayed requests may still create them.
    is_doubtful: bool,
    is_fenced: bool,
    /// Objects whose length differs from the one in their name.
    damaged: BTreeSet<Sequence>,
    /// The device is open for reading only; another server deletes the garbage.
    is_passive: bool,
    jobs: Vec<Job>,
    done: Vec<Completion>,
}

impl Log {
    /// A log over these `objects`, which writes as `epoch`. The `invalid` objects are to be deleted.
    pub(crate) fn new(limits: Limits, epoch: u32, objects: &[ObjectName], invalid: &[ObjectName]) -> Self {
        let mut table = Objects::new(limits.unit_bytes);
        objects.iter().for_each(|name| table.add(*name));
        invalid.iter().for_each(|name| table.add_garbage(*name));
        Self {
            limits,
            epoch,
            next_counter: 1,
            next_number: 0,
            objects: table,
            memory: Memory::new(limits.unit_bytes),
            puts: Puts::default(),
            reads: Reads::default(),
            gets: BTreeMap::new(),
            waiting: VecDeque::new(),
            zeroed_bytes: 0,
            flushes: Flushes::default(),
            deletes: 0,
            merge: None,
            crowded: Crowded::new(limits.objects_max),
            // A request of an earlier server may have been lost, or may still be in flight.
            is_doubtful: !objects.is_empty(),
            is_fenced: false,
            damaged: BTreeSet::new(),
            is_passive: false,
            jobs: Vec::new(),
            done: Vec::new(),
        }
    }

    /// Marks objects as damaged: reads of them fail.
    pub(crate) fn with_damaged(self, damaged: BTreeSet<Sequence>) -> Self {
        Self { damaged, ..self }
    }

    /// Makes the log read-only: it writes and deletes nothing.
    pub(crate) fn for_reading(self) -> Self {
        Self { is_passive: true, ..self }
    }

    /// Takes the jobs for the store.
    pub(crate) fn take_jobs(&mut self) -> Vec<Job> {
        std::mem::take(&mut self.jobs)
    }

    /// Completions that have not been collected yet.
    pub(crate) fn done(&mut self) -> &mut Vec<Completion> {
        &mut self.done
    }

    /// Whether another server has taken over the device.
    #[cfg(test)]
    pub(crate) fn is_fenced(&self) -> bool {
        self.is_fenced
    }

    /// Count of all objects, and of garbage among them.
    pub(crate) fn objects(&self) -> (usize, usize) {
        self.objects.count()
    }

    /// Count of discarded ranges that are remembered.
    #[cfg(test)]
    pub(crate) fn holes(&self) -> usize {
        self.objects.holes()
    }

    /// Whether everything written is stored in objects.
    #[cfg(test)]
    pub(crate) fn is_at_rest(&self) -> bool {
        self.memory.is_empty() && self.puts.is_empty() && self.merge.is_none()
    }

    /// Submits a request whose validity was checked.
    pub(crate) fn submit(&mut self, request: Request) {
        let range = request.offset_bytes..request.offset_bytes + request.op.len_bytes();
        if self.is_fenced && !matches!(request.op, Op::Read { .. }) {
            return self.refuse(request, Failure::FENCED);
        }
        match request.op {
            Op::Read { bufs, .. } => self.read(request.tag, range, bufs),
            Op::Write { .. } | Op::WriteZeroes { .. } => self.waiting.push_back(request),
            Op::Discard { .. } => {
                self.discard(range);
                self.done.push(finish(request, Ok(())));
                self.tidy();
            }
            Op::Flush => {
                self.send(&(0..u64::MAX));
                let waits = self.puts.written(&(0..u64::MAX));
                let barrier = Barrier { tag: request.tag, operation: "flush", offset_bytes: 0, waits };
                self.flushes.begin(barrier, &mut self.done);
                // Deletions that failed while the store was down are tried again.
                self.tidy();
            }
        }
        self.go_on();
        self.make_room();
    }

    fn refuse(&mut self, request: Request, failure: Failure) {
        let error = IoError { os_error: failure.os_error, ..error(failure.kind, &request) };
        self.done.push(finish(request, Err(error)));
    }

    fn refuse_waiting(&mut self, failure: Failure) {
        self.zeroed_bytes = 0;
        for request in std::mem::take(&mut self.waiting) {
            self.refuse(request, failure);
        }
    }

    fn next_sequence(&mut self) -> Sequence {
        let counter = self.next_counter;
        self.next_counter += 1;
        Sequence { epoch: self.epoch, counter }
    }

    // --- writes ---------------------------------------------------------------------------------------------------

    /// Bytes held in memory, including those in flight.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.memory.dirty_bytes() + self.puts.bytes()
    }

    /// Takes waiting writes in order, as far as there is room. A write larger than the limit is taken when memory is
    /// empty.
    fn take_waiting(&mut self) {
        while let Some(request) = self.waiting.front() {
            let (start, len) = (request.offset_bytes, request.op.len_bytes());
            let held = self.held_bytes();
            let is_zeros = matches!(request.op, Op::WriteZeroes { .. });
            let has_room =
                if is_zeros { held < self.limits.memory_bytes } else { held + len <= self.limits.memory_bytes };
            if held > 0 && !has_room {
                return;
            }
            if is_zeros {
                let pieces = self.limits.memory_bytes.saturating_sub(held) / WEIGHT_MIN_BYTES;
                let end = self.zero(start + self.zeroed_bytes..start + len, pieces.max(1));
                self.zeroed_bytes = end - start;
                if self.zeroed_bytes < len {
                    continue;
                }
                self.zeroed_bytes = 0;
            }
            let Some(request) = self.waiting.pop_front() else { return };
            match request.op {
                Op::Write { ref bufs, fua } => {
                    self.memory.write(start, &Held::Data(gather(bufs)));
                    self.written(request, start..start + len, fua);
                }
                _ => self.done.push(finish(request, Ok(()))),
            }
        }
    }

    fn written(&mut self, request: Request, range: Range<u64>, is_durable: bool) {
        for unit in range.start / self.limits.unit_bytes..range.end.div_ceil(self.limits.unit_bytes) {
            if self.memory.is_full(unit) {
                self.send(&self.unit(unit));
            }
        }
        if is_durable {
            self.send(&range);
            // Parts of the write may have been sent with a unit that became complete.
            let waits = self.puts.written(&range);
            let barrier = Barrier { tag: request.tag, operation: "write", offset_bytes: range.start, waits };
            self.flushes.begin(barrier, &mut self.done);
        } else {
            self.done.push(finish(request, Ok(())));
        }
    }

    /// Writes zeros. A unit that no object occupies, and that no lost request could still occupy, needs none. Takes
    /// at most `units_max` other units. Returns the offset up to which zeros were taken.
    fn zero(&mut self, range: Range<u64>, units_max: u64) -> u64 {
        let (mut at, mut units) = (range.start, 0);
        while at < range.end && units < units_max {
            let unit = at / self.limits.unit_bytes;
            let occupied = if self.is_doubtful { Some(unit) } else { self.occupied_unit(unit) };
            if occupied == Some(unit) {
                let end = self.unit(unit).end.min(range.end);
                self.memory.write(at, &Held::Zeros(end - at));
                (at, units) = (end, units + 1);
            } else {
                let end = occupied.map_or(range.end, |unit| self.unit(unit).start.min(range.end));
                self.memory.remove(at..end);
                at = end;
            }
        }
        at
    }

    /// The first unit, from this one on, that holds an object or will hold one that is in flight.
    fn occupied_unit(&self, from: u64) -> Option<u64> {
        let in_flight = self.puts.names().map(|name| self.unit_of(name)).filter(|unit| *unit >= from);
        in_flight.chain(self.objects.next_unit(from)).min()
    }

    fn discard(&mut self, range: Range<u64>) {
        self.memory.remove(range.clone());
        let in_flight = !self.puts.is_empty() || self.merge.is_some();
        let since = in_flight.then(|| self.next_sequence());
        self.objects.discard(range, since);
    }

    fn unit(&self, unit: u64) -> Range<u64> {
        unit * self.limits.unit_bytes..(unit + 1) * self.limits.unit_bytes
    }

    fn unit_of(&self, name: &ObjectName) -> u64 {
        name.start_bytes / self.limits.unit_bytes
    }

    /// Sends the dirty data of a range as objects.
    fn send(&mut self, range: &Range<u64>) {
        for run in self.memory.runs(range) {
            self.send_run(run);
        }
    }

    fn send_run(&mut self, run: Run) {
        let (start, len) = (run.start, run.len());
        let payload: Vec<Bytes> = run
            .held
            .into_iter()
            .filter_map(|held| match held {
                Held::Data(bytes) => Some(bytes),
                Held::Zeros(_) => None,
            })
            .collect();
        let content = match payload.is_empty() {
            true => Content::Zeros,
            false => Content::Data { crc: crc32c_of(payload.iter().map(|bytes| &bytes[..])) },
        };
        let sequence = self.next_sequence();
        self.memory.sent(&(start..start + len), sequence.counter);
        self.put(ObjectName { sequence, start_bytes: start, len_bytes: len, content }, payload, true);
    }

    fn put(&mut self, name: ObjectName, payload: Vec<Bytes>, is_written: bool) {
        self.puts.add(Put { name, is_written });
        self.jobs.push(Job::Put { name, payload });
    }

    /// Sends dirty data while more than half of the memory is used or writes wait, fullest unit first.
    fn make_room(&mut self) {
        while !self.is_fenced
            && self.puts.len() < PUTS_MAX
            && (self.held_bytes() > self.limits.memory_bytes / 2 || !self.waiting.is_empty())
            && let Some(unit) = self.memory.fullest_unit()
        {
            self.send(&self.unit(unit));
        }
    }

    fn sent(&mut self, sequence: Sequence, result: Result<(), Failure>, is_repeated: bool) {
        let Some(Put { name, is_written }) = self.puts.remove(sequence.counter) else { return };
        let range = name.start_bytes..name.end_bytes();
        self.is_doubtful |= is_repeated || result.is_err();
        match result {
            Ok(()) => {
                self.objects.add(name);
                self.memory.arrived(&range, sequence.counter);
                let unit = self.unit_of(&name);
                if !is_written {
                    self.crowded.made_one(unit);
                }
                self.crowded.showing(unit, self.objects.showing(unit));
            }
            Err(failure) => {
                self.memory.failed(&range, sequence.counter);
                if is_written {
                    // The waiting writes needed the room of this put, and have waited as long as a request may take.
                    self.refuse_waiting(failure);
                } else {
                    let unit = self.unit_of(&name);
                    self.crowded.failed(unit, self.objects.showing(unit));
                }
            }
        }
        self.flushes.sent(sequence.counter, result);
        self.fill_holes();
    }

    fn fill_holes(&mut self) {
        self.objects.fill_holes(self.puts.oldest().into_iter().chain(self.merge.as_ref().map(Merge::sequence)).min());
    }

    // --- flushes --------------------------------------------------------------------------------------------------

    fn look(&mut self) {
        self.flushes.look_begins();
        self.objects.look_begins();
        self.jobs.push(Job::Look);
    }

    fn looked(&mut self, result: Result<(), Failure>) {
        self.objects.look_ended(result.is_ok());
        self.flushes.look_ended(result, &mut self.done);
        if result == Err(Failure::FENCED) {
            self.is_fenced = true;
            self.refuse_waiting(Failure::FENCED);
        }
    }

    // --- reads ----------------------------------------------------------------------------------------------------

    fn read(&mut self, tag: u64, range: Range<u64>, mut bufs: Vectored<Buf>) {
        let number = self.next_number;
        self.next_number += 1;
        let mut waits = 0;
        let at = |offset: u64| (offset - range.start) as usize;
        let len = |part: &Range<u64>| (part.end - part.start) as usize;
        for (part, held) in self.memory.look(range.clone()) {
            match held {
                Some(Held::Data(bytes)) => scatter(&mut bufs, at(part.start), &bytes),
                Some(Held::Zeros(_)) => fill(&mut bufs, at(part.start), len(&part)),
                None => {
                    for (part, object) in self.objects.look(part) {
                        let Some(name) = object else {
                            fill(&mut bufs, at(part.start), len(&part));
                            continue;
                        };
                        waits += 1;
                        self.get(name, part.clone(), Purpose::Read { number, at: at(part.start) });
                    }
                }
            }
        }
        if waits == 0 {
            return self.done.push(Completion { tag, result: Ok(()), bufs: Some(bufs) });
        }
        self.reads.begin(number, Read { tag, offset_bytes: range.start, bufs, waits });
    }

    fn get(&mut self, name: ObjectName, part: Range<u64>, purpose: Purpose) {
        self.objects.pin(name.sequence);
        self.ask(name, part.start - name.start_bytes..part.end - name.start_bytes, purpose);
    }

    fn ask(&mut self, name: ObjectName, range: Range<u64>, purpose: Purpose) {
        let number = self.next_number;
        self.next_number += 1;
        self.gets.insert(number, Get { name, range: range.clone(), purpose });
        self.jobs.push(Job::Get { number, name, range });
    }

    fn got(&mut self, number: u64, result: Result<Bytes, Failure>) {
        let Some(Get { name, range, purpose }) = self.gets.remove(&number) else { return };
        self.objects.unpin(name.sequence);
        let is_sound = !self.damaged.contains(&name.sequence);
        let result =
            result.and_then(|bytes| if is_sound { verified(&name, &range, bytes) } else { Err(Failure::CORRUPT) });
        match purpose {
            Purpose::Merge => {
                let Some(merge) = &mut self.merge else { return };
                match result {
                    Ok(bytes) if !self.is_fenced => merge.got(&name, &bytes),
                    _ => merge.failed(&name).iter().for_each(|name| self.objects.unpin(name.sequence)),
                }
                self.go_on_merging();
            }
            Purpose::Read { number, at } => self.done.extend(self.reads.got(number, at, result)),
        }
    }

    // --- units of many objects --------------------------------------------------------------------------------------

    /// Begins to merge the objects of a crowded unit. The merged object must be newer than the objects that it
    /// replaces, and older than everything written from now on. So no put to the unit may be in flight.
    fn begin_merge(&mut self) {
        if self.merge.is_some() || self.is_fenced {
            return;
        }
        let busy = self.puts.names().map(|name| self.unit_of(name)).collect();
        while let Some(unit) = self.crowded.take(&busy) {
            // The unit may have been overwritten since.
            let showing = self.objects.showing(unit);
            if !self.crowded.is_crowded(unit, showing) {
                continue;
            }
            let shown = self.objects.shown(self.unit(unit));
            if shown.iter().any(|(_, name)| self.damaged.contains(&name.sequence)) {
                self.crowded.failed(unit, showing);
                continue;
            }
            let merge = Merge::new(self.next_sequence(), &shown, self.limits.unit_bytes);
            // The objects must not be deleted before they are read, even where newer writes cover them.
            merge.unread().iter().for_each(|name| self.objects.pin(name.sequence));
            self.merge = Some(merge);
            return self.go_on_merging();
        }
    }

    fn go_on_merging(&mut self) {
        while let Some(name) = self.merge.as_mut().and_then(Merge::next) {
            self.ask(name, 0..name.len_bytes, Purpose::Merge);
        }
        let Some(merge) = self.merge.take_if(|merge| merge.is_complete()) else { return };
        let unit = merge.start_bytes() / self.limits.unit_bytes;
        // A unit that could not be read completely is not replaced.
        match merge.into_object().filter(|_| !self.is_fenced) {
            Some((name, payload)) => self.put(name, payload, false),
            None => {
                self.crowded.failed(unit, self.objects.showing(unit));
                self.fill_holes();
            }
        }
    }

    // --- what goes on by itself ------------------------------------------------------------------------------------

    /// Takes an answer of the store.
    pub(crate) fn answer(&mut self, answer: Answer) {
        let is_good = match answer {
            Answer::Put { sequence, result, is_repeated } => {
                self.sent(sequence, result, is_repeated);
                result.is_ok()
            }
            Answer::Get { number, result } => {
                let is_good = result.is_ok();
                self.got(number, result);
                is_good
            }
            Answer::Look { result } => {
                self.looked(result);
                result.is_ok()
            }
            Answer::Delete { sequence, is_gone } => {
                self.deletes -= 1;
                self.objects.deleted(sequence, is_gone);
                is_gone
            }
        };
        self.go_on();
        // While the store fails, only hosts' requests are tried again.
        if is_good {
            self.make_room();
            self.tidy();
        } else if self.puts.is_empty() && !self.waiting.is_empty() {
            // Part of the waiting writes was taken, and no put is in flight whose end would take the rest.
            self.make_room();
        }
    }

    fn go_on(&mut self) {
        self.take_waiting();
        if self.flushes.go_on(&mut self.done) {
            self.look();
        }
    }

    /// Deletes garbage and merges crowded units.
    pub(crate) fn tidy(&mut self) {
        if self.is_fenced || self.is_passive {
            return;
        }
        if !self.flushes.is_looking() && self.objects.wants_look() {
            self.look();
        }
        while self.deletes < DELETES_MAX
            && let Some(name) = self.objects.next_to_delete()
        {
            self.deletes += 1;
            self.jobs.push(Job::Delete { name });
        }
        self.begin_merge();
    }
}

/// Checks what was read. A whole object is checked by its checksum, a part only by its length.
fn verified(name: &ObjectName, range: &Range<u64>, bytes: Bytes) -> Result<Bytes, Failure> {
    let is_whole = *range == (0..name.len_bytes);
    let is_good = match name.content {
        Content::Data { crc } if is_whole => crc32c(&bytes) == crc,
        _ => true,
    };
    if is_good && bytes.len() as u64 == range.end - range.start { Ok(bytes) } else { Err(Failure::CORRUPT) }
}

//! The device as a log of objects that never change, free of I/O: requests and answers of the store go in, completions and jobs come
//! out.
//!
//! What is written is held in memory, for a bounded number of bytes, and goes to the store as objects when a flush or a durable write
//! asks for it, when a unit is complete, and when memory runs short. An object is durable once the store has answered; whoever opens the
//! device after a look at the epoch that has found it unchanged lists it.

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

/// Objects on their way to the store at once that were sent because memory runs short.
const PUTS_MAX: usize = 8;
/// Deletions at once: hosts come first.
const DELETES_MAX: usize = 4;

/// What bounds the device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The most an object holds; none crosses the border of such a unit.
    pub(crate) unit_bytes: u64,
    /// The most that is held in memory before it is in objects.
    pub(crate) memory_bytes: u64,
    /// Objects that may show in a unit: where there are more, they are made one.
    pub(crate) objects_max: usize,
}

/// What an object, or a part of it, is read for.
enum Purpose {
    /// A read, and where in it.
    Read { number: u64, at: usize },
    /// Making a unit one object.
    Merge,
}

struct Get {
    name: ObjectName,
    range: Range<u64>,
    purpose: Purpose,
}

/// The log.
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
    /// The first of them is zeros, of which so much was taken.
    zeroed_bytes: u64,
    flushes: Flushes,
    deletes: usize,
    merge: Option<Merge>,
    crowded: Crowded,
    /// The store may hold, or come to hold, what is not in the table.
    is_doubtful: bool,
    is_fenced: bool,
    /// Objects that are not as long as their name says.
    damaged: BTreeSet<Sequence>,
    /// It is read only: garbage is another's.
    is_passive: bool,
    jobs: Vec<Job>,
    done: Vec<Completion>,
}

impl Log {
    /// A device of these objects, as `epoch`. Those in the second list must not be there.
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
            // A request of an earlier opening may have been lost, or be on its way.
            is_doubtful: !objects.is_empty(),
            is_fenced: false,
            damaged: BTreeSet::new(),
            is_passive: false,
            jobs: Vec::new(),
            done: Vec::new(),
        }
    }

    /// The same, where these objects are damaged: reads of them fail.
    pub(crate) fn with_damaged(self, damaged: BTreeSet<Sequence>) -> Self {
        Self { damaged, ..self }
    }

    /// The same, for reading only: nothing is written or deleted.
    pub(crate) fn for_reading(self) -> Self {
        Self { is_passive: true, ..self }
    }

    /// Takes what is to be asked of the store.
    pub(crate) fn take_jobs(&mut self) -> Vec<Job> {
        std::mem::take(&mut self.jobs)
    }

    /// Requests that have ended.
    pub(crate) fn done(&mut self) -> &mut Vec<Completion> {
        &mut self.done
    }

    /// Another server has the device.
    #[cfg(test)]
    pub(crate) fn is_fenced(&self) -> bool {
        self.is_fenced
    }

    /// How many objects there are, garbage included, and how many of them are garbage.
    pub(crate) fn objects(&self) -> (usize, usize) {
        self.objects.count()
    }

    /// How many discarded ranges are remembered.
    #[cfg(test)]
    pub(crate) fn holes(&self) -> usize {
        self.objects.holes()
    }

    /// Whether all that was written is in objects.
    #[cfg(test)]
    pub(crate) fn is_at_rest(&self) -> bool {
        self.memory.is_empty() && self.puts.is_empty() && self.merge.is_none()
    }

    /// A request that was found valid.
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
                // Garbage that a failure of the store has left is tried again.
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

    /// Bytes that are held in memory, those on their way included.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.memory.dirty_bytes() + self.puts.bytes()
    }

    /// Takes what waits for room, in order, as far as there is some. One that is larger than the limit is taken alone.
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
            // Parts of it may have gone with a unit that became complete.
            let waits = self.puts.written(&range);
            let barrier = Barrier { tag: request.tag, operation: "write", offset_bytes: range.start, waits };
            self.flushes.begin(barrier, &mut self.done);
        } else {
            self.done.push(finish(request, Ok(())));
        }
    }

    /// Zeros need no object where nothing was ever, nor can come from a request that was lost. Elsewhere at most so many units are taken
    /// at once. Where it has come to.
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

    /// The first unit from this one on that an object is in, or may come to be in.
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

    /// Makes objects of what waits in a range.
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

    /// Sends what waits where half of the memory is used, fullest units first.
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
                    // They waited for what was sent, which took as long as a request may take.
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

    /// Begins to make one object of a unit's many. Its number is older than that of all that is written from now on, and newer than
    /// that of all it is made of: none of the unit's may be in flight.
    fn begin_merge(&mut self) {
        if self.merge.is_some() || self.is_fenced {
            return;
        }
        let busy = self.puts.names().map(|name| self.unit_of(name)).collect();
        while let Some(unit) = self.crowded.take(&busy) {
            // It may have been written over since.
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
            // They stay until they are read, also where something else is written over them.
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
        // What could not be read is not written over.
        match merge.into_object().filter(|_| !self.is_fenced) {
            Some((name, payload)) => self.put(name, payload, false),
            None => {
                self.crowded.failed(unit, self.objects.showing(unit));
                self.fill_holes();
            }
        }
    }

    // --- what goes on by itself ------------------------------------------------------------------------------------

    /// An answer of the store.
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
        // Where the store fails, only what hosts ask for is tried again.
        if is_good {
            self.make_room();
            self.tidy();
        } else if self.puts.is_empty() && !self.waiting.is_empty() {
            // Some of what waited has been taken, and nothing is in flight whose end would take the rest.
            self.make_room();
        }
    }

    fn go_on(&mut self) {
        self.take_waiting();
        if self.flushes.go_on(&mut self.done) {
            self.look();
        }
    }

    /// Garbage, and units of many objects.
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

/// What was read, if it is what was stored as far as can be known: of a part only its length is.
fn verified(name: &ObjectName, range: &Range<u64>, bytes: Bytes) -> Result<Bytes, Failure> {
    let is_whole = *range == (0..name.len_bytes);
    let is_good = match name.content {
        Content::Data { crc } if is_whole => crc32c(&bytes) == crc,
        _ => true,
    };
    if is_good && bytes.len() as u64 == range.end - range.start { Ok(bytes) } else { Err(Failure::CORRUPT) }
}

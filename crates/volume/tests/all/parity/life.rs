//! Lives of an array checked against a model of its contents: appends to bands as by the engine, flushes, discards, power cuts, members
//! that fail, are lost, return stale or are replaced, blocks that rot or become unreadable.

mod failing;

use super::member::{Member, read, run};
use super::written::{Flight, POOL, Written, candidate, content, put_superblocks};
use forebay_block::{Buf, Completion, Device, Op, Random, Request, Vectored};
use forebay_volume::layout::array_shape::{Redundancy, Shape};
use forebay_volume::mirror::MemberState;
use forebay_volume::parity::{Array, ArrayView, join, new_array};
use std::collections::{BTreeMap, BTreeSet};

const MEMBER_BYTES: usize = 4 << 20;

pub struct Life {
    random: Random,
    shape: Shape,
    members: Vec<Member>,
    array: Option<(Array, ArrayView)>,
    /// Written data, by block of the rows.
    model: BTreeMap<u64, Written>,
    /// Write position of each band in blocks, and the bands being written.
    fronts: Vec<u64>,
    in_flight: BTreeMap<u64, Flight>,
    next_tag: u64,
    next_id: u8,
    now_ns: u64,
    /// Members with some fault in the present period of full redundancy.
    hurt: BTreeSet<usize>,
    /// The time at which members fail a flush, and whether the failure was reported, so that undurable data must be rewritten.
    fails_flush: bool,
    has_flush_failed: bool,
    /// Of these, members with rot: until they are replaced, nothing examines all of their data.
    rotten: BTreeSet<usize>,
    /// Of these, members with silent rot: such a fault uses up two parity blocks.
    silent: BTreeSet<usize>,
}

impl Life {
    pub fn new(seed: u64, redundancy: Redundancy, is_volatile: bool) -> Self {
        let Redundancy { data, parity } = redundancy;
        let shape = Shape {
            data,
            parity,
            member_bytes: MEMBER_BYTES as u64,
            head_bytes: 1 << 20,
            band_bytes: data as u64 * 4096 * 21,
            log_slots: 64,
        };
        assert!(shape.is_possible());
        let members: Vec<Member> = (0..shape.members())
            .map(|number| Member::new(&format!("m{number}"), MEMBER_BYTES, is_volatile, seed ^ number as u64))
            .collect();
        let ids: Vec<[u8; 16]> = (0..shape.members()).map(|id| [id as u8 + 1; 16]).collect();
        let (array, view) = new_array(members.iter().map(Member::boxed).collect(), shape, POOL, &ids);
        view.members().begin();
        members.iter().for_each(|member| put_superblocks(member, 1));
        let bands = shape.rows() / shape.band_rows();
        Self {
            random: Random::new(seed),
            shape,
            members,
            array: Some((array, view)),
            model: BTreeMap::new(),
            fronts: vec![0; bands as usize],
            in_flight: BTreeMap::new(),
            next_tag: 1,
            next_id: 100,
            now_ns: 0,
            hurt: BTreeSet::new(),
            fails_flush: false,
            has_flush_failed: false,
            rotten: BTreeSet::new(),
            silent: BTreeSet::new(),
        }
    }

    fn offset(&self, block: u64) -> u64 {
        self.shape.head_bytes + block * 4096
    }

    fn band_blocks(&self) -> u64 {
        self.shape.band_bytes / 4096
    }

    fn submit(&mut self, offset_bytes: u64, op: Op, flight: Flight) {
        self.next_tag += 1;
        self.in_flight.insert(self.next_tag, flight);
        let request = Request { tag: self.next_tag, offset_bytes, stream: 0, op };
        self.array.as_mut().unwrap().0.submit(request);
    }

    /// Appends to one of the bands.
    fn append(&mut self) {
        let band = self.random.below(6.min(self.fronts.len() as u64));
        let front = self.fronts[band as usize];
        let left = self.band_blocks() - front;
        if left == 0 {
            if self.in_flight.is_empty() {
                self.discard(band);
            }
            return;
        }
        let most = if self.random.below(3) == 0 { 64 } else { 5 };
        let blocks = (1 + self.random.below(most)).min(left);
        let first = band * self.band_blocks() + front;
        let tag = self.next_tag + 1;
        let bytes: Vec<Vec<u8>> = (first..first + blocks).map(|block| content(block, tag)).collect();
        let bufs = if self.random.below(2) == 0 {
            Vectored::One(Buf::copy_of(&bytes.concat()).freeze())
        } else {
            Vectored::Many(bytes.iter().map(|block| Buf::copy_of(block).freeze()).collect())
        };
        for block in first..first + blocks {
            self.model.insert(block, Written { tag, acked: false, durable: false });
        }
        self.fronts[band as usize] += blocks;
        let offset = self.offset(first);
        let fua = self.random.below(8) == 0;
        self.submit(offset, Op::Write { bufs, fua }, Flight::Write { first, blocks, fua });
    }

    fn discard(&mut self, band: u64) {
        let blocks = self.band_blocks();
        let first = band * blocks;
        (first..first + blocks).for_each(|block| _ = self.model.remove(&block));
        self.fronts[band as usize] = 0;
        let offset = self.offset(first);
        self.submit(offset, Op::Discard { len_bytes: self.shape.band_bytes }, Flight::Discard);
    }

    fn flush(&mut self) {
        let acked = self.model.iter().filter(|(_, written)| written.acked);
        let covers = acked.map(|(&block, written)| (block, written.tag)).collect();
        self.submit(0, Op::Flush, Flight::Flush { covers });
    }

    fn poll(&mut self) {
        let mut done = Vec::new();
        self.now_ns += 1_000_000;
        let (array, view) = self.array.as_mut().unwrap();
        view.members().tick(self.now_ns);
        array.poll(&mut done);
        for Completion { tag, result, .. } in done {
            match self.in_flight.remove(&tag).unwrap() {
                Flight::Write { first, blocks, fua } => {
                    assert!(result.is_ok() || self.fails_flush, "{result:?}");
                    self.has_flush_failed |= result.is_err();
                    for block in first..first + blocks {
                        let written = self.model.get_mut(&block).unwrap();
                        (written.acked, written.durable) = (result.is_ok(), fua && result.is_ok());
                    }
                }
                Flight::Flush { .. } if result.is_err() => {
                    assert!(self.fails_flush, "{result:?}");
                    self.has_flush_failed = true;
                }
                // After a failed flush, the next one reports nothing about earlier writes.
                Flight::Flush { .. } if self.has_flush_failed => {}
                Flight::Flush { covers } => {
                    for (block, tag) in covers {
                        if let Some(written) = self.model.get_mut(&block) {
                            written.durable |= written.tag == tag;
                        }
                    }
                }
                Flight::Discard => assert!(result.is_ok()),
            }
        }
    }

    fn settle(&mut self) {
        for _ in 0..200_000 {
            if self.in_flight.is_empty() {
                return;
            }
            self.poll();
        }
        panic!("{} requests do not end", self.in_flight.len());
    }

    /// Waits until all members are complete.
    fn heal(&mut self) {
        for _ in 0..400_000 {
            self.poll();
            self.now_ns += 100_000_000;
            let status = self.array.as_ref().unwrap().1.members().status();
            assert_eq!(status.broken, None);
            if status.members.iter().all(|member| member.state == MemberState::InSync) {
                return;
            }
        }
        panic!("it is not rebuilt: {:?}", self.array.as_ref().unwrap().1.members().status());
    }

    /// Reads a block as the engine does: a wrong block is read in other ways and rewritten.
    fn check(&mut self, block: u64, written: Written) {
        let wanted = content(block, written.tag);
        let offset = self.offset(block);
        let (array, view) = self.array.as_mut().unwrap();
        let attempts = view.variants() + 2;
        for attempt in 0..attempts {
            if read(array, offset, attempt).as_ref() == Some(&wanted) {
                if attempt > 0 {
                    let bufs = Vectored::One(Buf::copy_of(&wanted).freeze());
                    assert!(run(array, offset, Op::Write { bufs, fua: false }).result.is_ok());
                }
                return;
            }
        }
        panic!("block {block} (row {}) cannot be read: {written:?}", block / self.shape.data as u64);
    }

    fn check_all(&mut self) {
        self.settle();
        let all: Vec<(u64, Written)> = self.model.iter().map(|(&block, &written)| (block, written)).collect();
        for (block, written) in all {
            if written.acked {
                self.check(block, written);
            }
        }
    }

    fn is_volatile(&self) -> bool {
        self.members[0].boxed().geometry().volatile_cache
    }

    /// Blocks of a member from the first row to its end; the start of the rows is internal, but their number is known.
    fn blocks_of_member(&self) -> u64 {
        (MEMBER_BYTES as u64 - 4096 - (2 << 20)) / 4096
    }

    fn cut_and_open(&mut self, lost: &BTreeSet<usize>) {
        self.array = None;
        self.in_flight.clear();
        self.members.iter().for_each(Member::cut);
        for &number in lost {
            let seed = self.random.next_u64();
            let is_volatile = self.members[number].boxed().geometry().volatile_cache;
            if self.random.below(2) == 0 {
                // Replaced by a blank one.
                self.members[number] = Member::new(&format!("n{number}"), MEMBER_BYTES, is_volatile, seed);
            } else {
                self.members[number].medium().is_dead = true;
            }
        }
        for number in (0..self.members.len()).filter(|number| !lost.contains(number)) {
            // A failed member returns with stale data.
            let returns = self.random.below(2) == 0;
            self.members[number].medium().is_dead &= !returns;
        }
        let next_id = &mut self.next_id;
        let mut new_id = || {
            *next_id = next_id.wrapping_add(1);
            [*next_id; 16]
        };
        let joined = join(self.members.iter().map(candidate).collect(), None, Some(&mut new_id), false).unwrap();
        joined.view.members().begin();
        joined.view.members().set_rebuild_rate(1 << 30);
        self.array = Some((joined.array, joined.view));
        // Unflushed data may be there or not; existing data may be believed by a reader, which rewrites it.
        let unsure: Vec<(u64, Written)> = self
            .model
            .iter()
            .filter(|(_, written)| !written.durable)
            .map(|(&block, &written)| (block, written))
            .collect();
        for (block, written) in unsure {
            let offset = self.offset(block);
            let wanted = content(block, written.tag);
            let (array, _) = self.array.as_mut().unwrap();
            let is_there = read(array, offset, 0).as_ref() == Some(&wanted);
            if is_there && self.random.below(2) == 0 {
                let bufs = Vectored::One(Buf::copy_of(&wanted).freeze());
                let (array, _) = self.array.as_mut().unwrap();
                let written_again = run(array, offset, Op::Write { bufs, fua: false }).result;
                assert_eq!(
                    written_again,
                    Ok(()),
                    "block {block}: {:?}",
                    self.array.as_ref().unwrap().1.members().status()
                );
                self.model.insert(block, Written { acked: true, durable: false, ..written });
            } else {
                self.model.remove(&block);
            }
        }
        let (array, _) = self.array.as_mut().unwrap();
        assert!(run(array, 0, Op::Flush).result.is_ok());
        self.model.values_mut().for_each(|written| written.durable = true);
        // Bands are written on behind the last that lives, or that somebody thinks does.
        let blocks = self.band_blocks();
        for (band, front) in self.fronts.iter_mut().enumerate() {
            let begin = band as u64 * blocks;
            let last = self.model.range(begin..begin + blocks).next_back().map_or(0, |(&block, _)| block + 1 - begin);
            *front = last.max(if self.random.below(2) == 0 { 0 } else { *front });
        }
        let fronts = self.fronts.iter().map(|&front| front as u32).collect();
        self.array.as_ref().unwrap().1.set_fronts(fronts);
    }

    /// Replaces dead members while the array is served.
    fn replace(&mut self) {
        for number in 0..self.members.len() {
            if !self.members[number].medium().is_dead {
                continue;
            }
            let seed = self.random.next_u64();
            let is_volatile = self.members[number].boxed().geometry().volatile_cache;
            self.members[number] = Member::new(&format!("r{number}"), MEMBER_BYTES, is_volatile, seed);
            self.rotten.remove(&number);
            self.silent.remove(&number);
            self.next_id = self.next_id.wrapping_add(1);
            let (_, view) = self.array.as_ref().unwrap();
            let name = format!("r{number}");
            view.members().offer(name, [self.next_id; 16], self.members[number].boxed(), None).unwrap();
        }
    }

    fn write_some(&mut self, turns: u64) {
        for _ in 0..turns {
            if self.in_flight.len() < 8 {
                match self.random.below(12) {
                    0 => self.flush(),
                    _ => self.append(),
                }
            }
            if self.random.below(2) == 0 {
                self.poll();
            }
        }
    }

    pub fn round(&mut self) {
        let turns = 20 + self.random.below(150);
        self.write_some(turns);
        if self.random.below(3) == 0 {
            self.hurt();
        }
        if self.random.below(3) == 0 && self.rotten.is_empty() && self.is_volatile() {
            self.fail_a_flush();
            let turns = self.random.below(60);
            self.write_some(turns);
        }
        if self.random.below(3) == 0 {
            // A member fails in the middle of everything.
            if let Some(&number) = self.lose().iter().next() {
                self.members[number].medium().is_dead = true;
                self.write_some(60);
                if self.random.below(2) == 0 {
                    self.check_all();
                }
            }
        }
        match self.random.below(3) {
            0 => self.check_all(),
            1 => {
                let lost = self.lose();
                self.cut_and_open(&lost);
                self.check_all();
            }
            _ => {
                self.cut_and_open(&BTreeSet::new());
                self.check_all();
            }
        }
        if self.random.below(2) == 0 {
            self.check_all();
            self.replace();
            self.heal();
            self.check_all();
            self.hurt = self.rotten.clone();
        }
    }
}

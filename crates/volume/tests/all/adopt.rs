//! A disk over a base: blocks that the map does not name are read from the base from the start. The base is copied while hosts write,
//! discard and read, over power cuts and restarts; after the detach nothing of it shows.

mod ended;

use crate::holes::device::{Fate, Kind, Region, Scripted};
use crate::holes::rig::{BLOCK, CAPACITY, FAST, Rig, Setup, failed, has_data};
use forebay_block::{Buf, DiskId, IoErrorKind, Random};
use forebay_volume::layout::base::Base;
use forebay_volume::{AdminError, EngineOptions, ExtentState, Op, Outcome, RequestError};

/// Two leaves and part of a third; the base ends within the second.
const DISK_BLOCKS: u64 = 900;
const BASE_BLOCKS: u64 = 700;
const BASE: Base = Base { blocks: BASE_BLOCKS, identity: 7 };

fn setup(adoption_bytes_per_s: u64) -> Setup {
    let options = EngineOptions {
        frames: Some(64),
        destage_above_percent: 60,
        adoption_bytes_per_s,
        overcommit: true,
        ..EngineOptions::default()
    };
    Setup { capacity_bytes: 24 << 20, volatile_capacity: false, options, ..Setup::default() }
}

fn filled(len: usize, seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    (0..len.div_ceil(8)).flat_map(|_| random.next_u64().to_le_bytes()).take(len).collect()
}

/// A pool with a disk over a base, the contents of the base, and the expected contents of the disk.
struct Adopted {
    rig: Rig,
    base: Scripted,
    disk: DiskId,
    model: Vec<u8>,
}

impl Adopted {
    fn new(setup: &Setup) -> Self {
        let mut rig = Rig::new(setup);
        let base = Scripted::new("base", BASE_BLOCKS * BLOCK as u64, false);
        let mut bytes = filled(BASE_BLOCKS as usize * BLOCK, 1);
        // Zeros take no space.
        bytes[50 * BLOCK..90 * BLOCK].fill(0);
        base.forge(0, &bytes);
        // The base is never written.
        base.rule(|seen| if seen.kind == Kind::Read { Fate::Good } else { panic!("a base was changed") });
        let disk = rig.pool.engine.add_disk("adopted", DISK_BLOCKS * BLOCK as u64).unwrap();
        rig.pool.engine.lay_over(disk, BASE).unwrap();
        rig.pool.attach_base(disk, Box::new(base.clone()));
        rig.checkpoint();
        bytes.resize(DISK_BLOCKS as usize * BLOCK, 0);
        Self { rig, base, disk, model: bytes }
    }

    fn ask(&mut self, at: usize, len: usize, op: Op) -> Result<Outcome, RequestError> {
        let (block, sectors) = ((at / BLOCK) as u64, at % BLOCK);
        let token = self.rig.submit_within(self.disk, block, sectors as u64, len as u64, op);
        self.rig.wait(token)
    }

    fn write(&mut self, at: usize, len: usize, seed: u64) {
        let bytes = filled(len, seed);
        self.ask(at, len, Op::Write(Buf::copy_of(&bytes))).unwrap();
        self.model[at..at + len].copy_from_slice(&bytes);
    }

    fn clear(&mut self, at: usize, len: usize, op: Op) {
        self.ask(at, len, op).unwrap();
        self.model[at..at + len].fill(0);
    }

    #[track_caller]
    fn check(&mut self, at: usize, len: usize) {
        let Ok(Outcome::Data(data)) = self.ask(at, len, Op::Read) else { panic!("bytes {at}+{len} cannot be read") };
        let wrong = data.iter().zip(&self.model[at..]).position(|(a, b)| a != b);
        assert_eq!(wrong.map(|wrong| (at + wrong, (at + wrong) / BLOCK)), None, "the first wrong byte, and its block");
    }

    #[track_caller]
    fn check_all(&mut self) {
        for at in (0..self.model.len()).step_by(100 * BLOCK) {
            self.check(at, (100 * BLOCK).min(self.model.len() - at));
        }
    }

    /// Opens the pool again, with the base where it is needed.
    fn again(self, open: impl FnOnce(Rig) -> Rig) -> Self {
        let Self { rig, base, disk, model } = self;
        let mut rig = open(rig);
        match rig.pool.engine.base_of(disk) {
            Some(found) => {
                assert_eq!(found, BASE);
                rig.pool.attach_base(disk, Box::new(base.clone()));
            }
            None => assert!(rig.pool.engine.adoption(disk).is_none()),
        }
        Self { rig, base, disk, model }
    }

    fn is_complete(&self) -> bool {
        self.rig.pool.engine.adoption(self.disk).is_some_and(|status| status.is_complete)
    }

    fn copy_to_the_end(&mut self) {
        for _ in 0..10_000 {
            if self.is_complete() {
                return;
            }
            self.rig.pass_ms(500);
        }
        panic!("never complete: {:?}", self.rig.pool.engine.adoption(self.disk));
    }
}

#[test]
fn a_disk_over_a_base_reads_as_it_from_the_first_moment_and_without_it_in_the_end() {
    let mut adopted = Adopted::new(&setup(64 << 20));
    adopted.check_all();
    adopted.write(5 * BLOCK, BLOCK, 2);
    // A partial write is merged with the block of the base.
    adopted.write(7 * BLOCK + 512, 1024, 3);
    adopted.clear(10 * BLOCK, 4 * BLOCK, Op::Discard);
    adopted.clear(20 * BLOCK + 512, 2 * BLOCK, Op::WriteZeroes { may_unmap: true });
    adopted.check_all();
    let before = adopted.rig.pool.engine.detach_base("adopted");
    assert!(matches!(before, Err(AdminError::BaseNeeded { .. })), "{before:?}");
    adopted.copy_to_the_end();
    adopted.rig.pool.engine.detach_base("adopted").unwrap();
    adopted.rig.checkpoint();
    adopted.rig.polls(3);
    assert!(adopted.rig.pool.engine.base_of(adopted.disk).is_none());
    adopted.base.rule(|_| panic!("the base is read although it was detached"));
    adopted.clear(30 * BLOCK, 50 * BLOCK, Op::Discard);
    adopted.check_all();
    let mut adopted = adopted.again(Rig::crash);
    adopted.check_all();
}

#[test]
fn extents_of_a_base_are_no_holes() {
    let mut adopted = Adopted::new(&setup(1));
    adopted.write(3 * BLOCK, BLOCK, 2);
    let mut extents = Vec::new();
    let mut at = 0;
    while at < adopted.model.len() {
        let len = adopted.model.len() - at;
        let Ok(Outcome::Extents(found)) = adopted.ask(at, len, Op::Status { max_extents: 100 }) else { panic!() };
        at += found.iter().map(|extent| extent.len_bytes as usize).sum::<usize>();
        extents.extend(found);
    }
    let of =
        |extent: &forebay_volume::Extent| (extent.len_bytes / BLOCK as u64, matches!(extent.state, ExtentState::Base));
    let (bases, others): (Vec<_>, Vec<_>) = extents.iter().map(of).partition(|(_, is_base)| *is_base);
    let sum = |extents: &[(u64, bool)]| extents.iter().map(|(blocks, _)| blocks).sum::<u64>();
    let holes = extents.iter().filter(|extent| extent.state == ExtentState::Hole).map(|extent| extent.len_bytes);
    assert_eq!(holes.sum::<u64>(), (DISK_BLOCKS - BASE_BLOCKS) * BLOCK as u64);
    // One step was copied.
    assert!((BASE_BLOCKS - 129..BASE_BLOCKS).contains(&sum(&bases)), "{bases:?}");
    assert_eq!(sum(&bases) + sum(&others), DISK_BLOCKS);
}

#[test]
fn a_disk_is_not_served_without_its_base_nor_made_smaller() {
    let mut adopted = Adopted::new(&setup(1));
    adopted.write(3 * BLOCK, BLOCK, 2);
    let smaller = adopted.rig.pool.engine.resize_disk("adopted", 800 * BLOCK as u64);
    assert_eq!(smaller, Err(AdminError::HasBase("adopted".into())));
    let Adopted { rig, base, disk, model } = adopted;
    let mut alone = Adopted { rig: rig.crash(), base, disk, model };
    assert_eq!(alone.ask(3 * BLOCK, BLOCK, Op::Read).err(), Some(RequestError::NoBase));
    let detached = alone.rig.pool.engine.detach_base("adopted");
    assert!(matches!(detached, Err(AdminError::BaseNeeded { .. })), "{detached:?}");
    alone.rig.pool.attach_base(disk, Box::new(alone.base.clone()));
    alone.check_all();
}

/// A read of an unreadable block of the base fails with the base's name, and the block is copied once it is readable.
#[test]
fn a_bad_block_of_a_base_is_reported_and_waited_for() {
    let mut adopted = Adopted::new(&setup(1));
    let bad = 128 * BLOCK as u64..=200 * BLOCK as u64;
    adopted.base.rule(move |seen| if bad.contains(&seen.offset_bytes) { Fate::Failed } else { Fate::Good });
    let read = adopted.ask(200 * BLOCK, BLOCK, Op::Read);
    let Err(RequestError::Device { device, source }) = read else { panic!("{read:?}") };
    assert_eq!((device.as_str(), source.kind == IoErrorKind::Gone), ("base", false));
    adopted.rig.pool.engine.set_adoption_rate(64 << 20);
    for _ in 0..400 {
        adopted.rig.pass_ms(500);
    }
    let status = adopted.rig.pool.engine.adoption(adopted.disk).unwrap();
    assert!(!status.is_complete && status.why.is_some(), "{status:?}");
    adopted.base.rule(|_| Fate::Good);
    adopted.copy_to_the_end();
    adopted.check_all();
}

/// A base was closed with reads of it in flight, which never ended; so the removal of its disk and the copying of other bases never ended
/// either.
#[test]
fn regression_reads_of_a_base_that_is_given_up_come_to_their_end() {
    let mut adopted = Adopted::new(&setup(64 << 20));
    adopted.base.rule(|_| Fate::Held);
    adopted.rig.pass_ms(500);
    let read = adopted.rig.submit_within(adopted.disk, 600, 0, BLOCK as u64, Op::Read);
    adopted.rig.polls(5);
    adopted.rig.pool.engine.abandon_base(adopted.disk);
    adopted.rig.checkpoint();
    assert!(adopted.rig.pool.engine.base_of(adopted.disk).is_none(), "the durable root has no base any more");
    let len_bytes = DISK_BLOCKS * BLOCK as u64;
    let discard = adopted.rig.submit_within(adopted.disk, 0, 0, len_bytes, Op::Discard);
    adopted.rig.polls(50);
    assert!(adopted.rig.answer(read).is_none() && adopted.rig.answer(discard).is_none(), "both wait for the base");
    adopted.base.heal();
    adopted.rig.wait(read).unwrap();
    adopted.rig.wait(discard).unwrap();
    // A removal continues until a checkpoint no longer refers to the last page of the disk's map.
    assert!(adopted.rig.until(|rig| {
        let engine = &mut rig.pool.engine;
        if engine.checkpoint_pending() {
            return false;
        }
        let removed = engine.remove_disk("adopted");
        engine.request_checkpoint(false);
        removed.is_ok()
    }));
    assert!(adopted.rig.until(|rig| !rig.pool.engine.is_busy()), "{}", adopted.rig.pool.engine.describe());
}

/// Discards beyond the end of the base became zeros that the map stores.
#[test]
fn regression_what_is_discarded_beyond_a_base_is_nothing() {
    let mut adopted = Adopted::new(&setup(1));
    adopted.write(800 * BLOCK, 8 * BLOCK, 2);
    adopted.clear(800 * BLOCK, 8 * BLOCK, Op::Discard);
    let answer = adopted.ask(800 * BLOCK, 8 * BLOCK, Op::Status { max_extents: 9 }).unwrap();
    let Outcome::Extents(extents) = answer else { panic!("{answer:?}") };
    assert_eq!(extents.iter().map(|extent| extent.state).collect::<Vec<_>>(), [ExtentState::Hole]);
}

#[test]
fn lives_of_adopted_disks() {
    let (mut steps, mut detached) = (0, 0);
    for seed in 0..24 {
        let mut random = Random::new(seed);
        let mut adopted = Adopted::new(&setup([1 << 16, 4 << 20, 64 << 20][seed as usize % 3]));
        for step in 0..120 {
            let len = random.index(60 * 8) * 512 + 512;
            let at = random.index((adopted.model.len() - len) / 512) * 512;
            match random.index(16) {
                0..6 => adopted.write(at, len, seed << 32 | step),
                6 => adopted.clear(at, len, Op::Discard),
                7 => adopted.clear(at, len, Op::WriteZeroes { may_unmap: step % 2 == 0 }),
                8..11 => adopted.check(at, len),
                11 => adopted.rig.pass_ms(random.index(400) as u64),
                12 => adopted.rig.polls(random.index(40)),
                13 => adopted = adopted.again(Rig::crash),
                14 => {
                    let options = adopted.rig.setup.options.clone();
                    adopted = adopted.again(|rig| rig.restart(options));
                }
                _ if adopted.is_complete() => {
                    adopted.rig.pool.engine.detach_base("adopted").unwrap();
                    detached += 1;
                }
                _ => adopted.rig.checkpoint(),
            }
            steps += 1;
        }
        adopted.check_all();
        if adopted.rig.pool.engine.base_of(adopted.disk).is_some() {
            adopted.copy_to_the_end();
            adopted.rig.pool.engine.detach_base("adopted").unwrap();
            adopted.rig.checkpoint();
            adopted.check_all();
        }
        let mut adopted = adopted.again(Rig::crash);
        adopted.check_all();
        assert_eq!(adopted.rig.pool.engine.audit(), Ok(()));
    }
    assert!(steps == 24 * 120 && detached > 3, "{steps} {detached}");
}

#[test]
fn regression_nothing_is_copied_before_a_durable_root_knows_the_disk() {
    let mut rig = Rig::new(&setup(64 << 20));
    let base = Scripted::new("base", BASE_BLOCKS * BLOCK as u64, false);
    base.forge(0, &filled(BASE_BLOCKS as usize * BLOCK, 1));
    base.rule(|_| panic!("a base is read though its disk may be gone after a crash"));
    let disk = rig.pool.engine.add_disk("adopted", DISK_BLOCKS * BLOCK as u64).unwrap();
    rig.pool.engine.lay_over(disk, BASE).unwrap();
    rig.pool.attach_base(disk, Box::new(base.clone()));
    rig.devices[0].rule(|seen| if seen.kind == Kind::Write { Fate::Held } else { Fate::Good });
    rig.pass_ms(500);
    rig.pass_ms(500);
    base.rule(|_| Fate::Good);
    rig.devices[0].heal();
    rig.checkpoint();
    rig.pass_ms(500);
    rig.pass_ms(500);
    assert!(rig.pool.engine.adoption(disk).unwrap().done_blocks > 0);
}

/// Where writes cannot bypass the device caches, a flush that failed in an earlier epoch may have lost a copy that the map still names.
#[test]
fn regression_copies_of_before_are_read_where_they_may_have_been_lost() {
    let setup = Setup { volatile_capacity: true, volatile_fast: true, durable_writes: false, ..setup(64 << 20) };
    let mut adopted = Adopted::new(&setup);
    adopted.copy_to_the_end();
    adopted.rig.checkpoint();
    let lost = adopted.model[300 * BLOCK..301 * BLOCK].to_vec();
    for device in &adopted.rig.devices {
        let places: Vec<usize> = device.bytes(|bytes| {
            bytes.chunks_exact(BLOCK).enumerate().filter(|(_, block)| *block == lost).map(|(at, _)| at).collect()
        });
        places.iter().for_each(|at| device.forge((at * BLOCK) as u64, &[0; BLOCK]));
    }
    let mut adopted = adopted.again(Rig::crash);
    for _ in 0..200 {
        adopted.rig.pass_ms(500);
    }
    let status = adopted.rig.pool.engine.adoption(adopted.disk).unwrap();
    assert!(
        matches!(status.why, Some(RequestError::Damaged { offset_bytes, .. }) if offset_bytes == 300 * BLOCK as u64)
    );
    assert_eq!((status.is_complete, status.failed_blocks, status.done_blocks), (false, 1, BASE_BLOCKS - 1));
    let refused = adopted.rig.pool.engine.detach_base("adopted").unwrap_err();
    assert!(refused.to_string().contains("1 could not be copied"), "{refused}");
    // A host's rewrite repairs the block.
    adopted.ask(300 * BLOCK, BLOCK, Op::Write(Buf::copy_of(&lost))).unwrap();
    adopted.copy_to_the_end();
    adopted.check_all();
}

#[test]
fn regression_a_step_that_finds_no_space_does_not_keep_others_from_its_range() {
    let mut adopted = Adopted::new(&Setup { volatile_fast: true, capacity_bytes: 2 << 20, ..setup(1) });
    // Its leaf has a page.
    adopted.write(399 * BLOCK, BLOCK, 2);
    let filled = adopted.rig.fill(0);
    // Freed slots cannot be used, because no flush ends.
    adopted.rig.devices[0].rule(|seen| if seen.kind == Kind::Flush { Fate::Held } else { Fate::Good });
    let disk = adopted.rig.disk;
    let freed = adopted.rig.submit_within(disk, 0, 0, filled / 2 * BLOCK as u64, Op::Discard);
    adopted.rig.wait(freed).unwrap();
    adopted.rig.pool.engine.set_adoption_rate(64 << 20);
    // Enough time to copy at the lowest rate.
    adopted.rig.pass_ms(200_000);
    for _ in 0..20 {
        adopted.rig.pass_ms(10);
    }
    assert!(!adopted.is_complete());
    let token = adopted.rig.submit_within(adopted.disk, 0, 0, 398 * BLOCK as u64, Op::Discard);
    let is_answered = adopted.rig.until(|rig| rig.answer(token).is_some());
    assert!(is_answered, "a discard waits for a copying step that waits for space");
}

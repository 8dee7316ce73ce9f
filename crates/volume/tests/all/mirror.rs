//! A mirrored fast tier: which members may be believed, whatever labels exist, and members that fail in the middle of an operation.

mod bare;
mod both_tiers;
pub mod disk;
mod doubted;
mod dropped;
mod former;
mod hung;
mod labels;
mod late;
mod rebuilds;
mod unread;

use disk::{Disk, Fate, QUEUE};
use forebay_block::{Buf, Device};
use forebay_prism::{ClassSpec, ClassTable, Place};
use forebay_volume::layout::member_label::{MemberLabel, OFFSETS_BYTES};
use forebay_volume::layout::plan::{PoolOptions, plan};
use forebay_volume::layout::superblock::Superblock;
use forebay_volume::mirror::{Candidate, Consent, JoinError, MemberState, MirrorView, clear_labels, join, new_mirror};
use forebay_volume::recovery::{format, format::NewDisk, open};
use forebay_volume::{Devices, EngineOptions, Op, Outcome, Pool, Request};

const FAST_BYTES: usize = (4 << 20) + (80 << 10);
const CAPACITY_BYTES: usize = 16 << 20;

fn classes() -> Vec<ClassSpec> {
    vec![ClassSpec::new("bulk", Place::Capacity)]
}

fn options() -> EngineOptions {
    EngineOptions { memory_limit_bytes: 64 << 20, frames: Some(64), overcommit: true, ..EngineOptions::default() }
}

/// Two members and a capacity device, formatted.
fn three(pool: u8) -> [Disk; 3] {
    let disks = [Disk::new("a", FAST_BYTES), Disk::new("b", FAST_BYTES), Disk::new("c", CAPACITY_BYTES)];
    create(&disks, pool);
    disks
}

fn create(disks: &[Disk; 3], pool: u8) {
    let [a, b, c] = disks;
    let mut all = Devices::new(vec![a.boxed(), b.boxed(), c.boxed()]);
    clear_labels(&mut all).unwrap();
    let (mirror, view) = new_mirror(vec![a.boxed(), b.boxed()], [pool; 16], &[[pool + 1; 16], [pool + 2; 16]]);
    lay_out(&mut Devices::mirrored(vec![Box::new(mirror), c.boxed()], view), pool, true);
}

fn lay_out(devices: &mut Devices, pool: u8, is_mirrored: bool) {
    let (band_bytes, journal_bytes) = (Some(64 << 10), Some(256 << 10));
    let options_of =
        PoolOptions { name: "mirror".into(), band_bytes, journal_bytes, is_mirrored, bands_offset_bytes: None };
    let geometry = |at: usize| devices.list[at].geometry().clone();
    let ids = [[pool + 1; 16], [pool + 3; 16]];
    let superblock: Superblock = plan(&options_of, &geometry(0), &[geometry(1)], [pool; 16], &ids).unwrap();
    let disks = [NewDisk { name: "disk".into(), size_bytes: 4 << 20, base: None }];
    format(devices, &superblock, ClassTable::from_configured(&classes()).unwrap(), &disks, options()).unwrap();
}

fn joined(members: &[&Disk], capacity: &Disk) -> Result<(Devices, MirrorView), JoinError> {
    joined_accepting(members, capacity, Consent::default())
}

fn joined_accepting(members: &[&Disk], capacity: &Disk, consent: Consent) -> Result<(Devices, MirrorView), JoinError> {
    let candidate = |disk: &&Disk| Candidate {
        name: disk.name.clone(),
        device: Ok(disk.boxed()),
        contents: if disk.bytes().bytes.iter().all(|&byte| byte == 0) {
            Vec::new()
        } else {
            vec!["something".to_owned()]
        },
    };
    let mut devices = Devices::new(vec![capacity.boxed()]);
    let mut next = 100;
    let mut new_id = || {
        next += 1;
        [next; 16]
    };
    let joined = join(members.iter().map(candidate).collect(), &mut devices, Some(&mut new_id), consent)?;
    let view = joined.view.clone();
    let list = std::iter::once(Box::new(joined.mirror) as Box<dyn Device>).chain(devices.list);
    Ok((Devices::mirrored(list.collect(), joined.view), view))
}

struct Served {
    pool: Pool,
    view: MirrorView,
    now_ns: u64,
}

impl Served {
    fn open(members: &[&Disk], capacity: &Disk) -> Self {
        let (mut devices, view) = joined(members, capacity).unwrap();
        let (engine, _) = open(&mut devices, 1, &classes(), options()).unwrap();
        Self { pool: Pool::new(engine, devices), view, now_ns: 0 }
    }

    fn submit(&mut self, block: u64, blocks: u64, op: Op) {
        self.submit_as(block, blocks, op, false);
    }

    fn submit_as(&mut self, block: u64, blocks: u64, op: Op, fua: bool) {
        let disk = self.pool.engine.disk_named("disk").unwrap().id;
        let (offset_bytes, len_bytes) = (block * 4096, blocks * 4096);
        self.pool.submit(Request { fua, ..Request::new(0, disk, offset_bytes, len_bytes, op) });
    }

    /// Requests that end within so many ticks, and whether all of them ended well.
    fn turn(&mut self, ticks: u32) -> (usize, bool) {
        let mut done = Vec::new();
        for _ in 0..ticks {
            self.now_ns += 10_000_000;
            self.pool.tick(self.now_ns);
            self.pool.poll(&mut done);
        }
        (done.len(), done.iter().all(|completion| completion.result.is_ok()))
    }

    #[track_caller]
    fn write(&mut self, block: u64, byte: u8) {
        let mut buf = Buf::zeroed(4096);
        buf.fill(byte);
        self.submit(block, 1, Op::Write(buf));
        self.submit(0, 0, Op::Flush);
        assert_eq!(self.turn(20), (2, true));
    }

    #[track_caller]
    fn read(&mut self, block: u64, blocks: u64) -> Buf {
        self.submit(block, blocks, Op::Read);
        let mut done = Vec::new();
        for _ in 0..20 {
            self.now_ns += 10_000_000;
            self.pool.tick(self.now_ns);
            self.pool.poll(&mut done);
        }
        match done.pop().unwrap().result.unwrap() {
            Outcome::Data(data) => {
                assert_eq!(data.len() as u64, blocks * 4096);
                data
            }
            other => panic!("{other:?}"),
        }
    }

    fn states(&self) -> Vec<MemberState> {
        self.view.status().members.iter().map(|member| member.state).collect()
    }

    #[track_caller]
    fn until_rebuilt(&mut self) {
        for _ in 0..200 {
            self.turn(10);
            if self.states().iter().all(|&state| state == MemberState::InSync) {
                return;
            }
        }
        panic!("no end of the rebuild: {:?}", self.view.status());
    }

    #[track_caller]
    fn close(mut self) {
        self.turn(10);
        assert!(self.pool.close());
    }
}

/// A power cut after a label change that only one member has: its label says that the other was left behind.
fn left_alone(disk: &Disk, member: u8) {
    let label = disk.label();
    let (generation, serial) = (label.generation + 1, label.serial + 1);
    disk.put(&MemberLabel { generation, serial, in_sync: 1 << member, member: Some(member), ..label });
}

/// A label change that no capacity device had at the power cut was never confirmed: the other member could be opened alone afterwards, with
/// its older data.
#[test]
fn regression_a_change_that_was_not_confirmed_is_confirmed_by_the_next_opening() {
    let [a, b, c] = three(10);
    Served::open(&[&a, &b], &c).close();
    left_alone(&a, 0);
    let mut served = Served::open(&[&a], &c);
    served.write(1, 7);
    served.close();
    assert_eq!((c.label().in_sync, c.label().member), (1, None));
    assert!(matches!(joined(&[&b], &c), Err(JoinError::Stale { .. })));
}

/// Labels of an unconfirmed member outranked those of the capacity devices, and the members that had continued were rebuilt from it.
#[test]
fn regression_what_was_never_confirmed_does_not_win_over_what_was() {
    let [a, b, c] = three(10);
    Served::open(&[&a, &b], &c).close();
    left_alone(&a, 0);
    left_alone(&a, 0);
    let mut served = Served::open(&[&b], &c);
    served.write(1, 7);
    served.close();
    let served = Served::open(&[&a, &b], &c);
    assert_eq!(served.states(), [MemberState::Rebuilding, MemberState::InSync]);
}

/// A damaged label copy may have been the newest: the member that it left behind was opened with its older data.
#[test]
fn regression_a_damaged_label_does_not_let_a_stale_member_in() {
    let [a, b, c] = three(10);
    let mut served = Served::open(&[&a, &b], &c);
    b.set(Fate::Fails);
    served.write(1, 7);
    assert_eq!(served.states(), [MemberState::InSync, MemberState::Out]);
    served.close();
    b.set(Fate::Good);
    c.damage_label(true);
    assert!(matches!(joined(&[&b], &c), Err(JoinError::Unread { .. })));
    // The other one's own label shows it.
    let served = Served::open(&[&a, &b], &c);
    assert_eq!(served.states(), [MemberState::InSync, MemberState::Rebuilding]);
}

/// The place of a label that was still blank was read wrongly once: that might have been a label, so a pool without one of its members was
/// not opened.
#[test]
fn regression_one_bad_transfer_makes_no_label_of_a_blank_place() {
    let [a, b, c] = three(10);
    Served::open(&[&a, &b], &c).close();
    let newest = (c.label().serial % 2) as usize;
    let blank = OFFSETS_BYTES[1 - newest] as usize;
    c.bytes().bytes[blank..blank + 4096].fill(0);
    c.bytes().misread.insert(blank);
    joined(&[&b], &c).unwrap();
    assert!(c.bytes().misread.is_empty());
}

/// A torn label of a capacity device together with a dead member made a good pool unopenable.
#[test]
fn regression_a_torn_label_and_a_dead_member_are_no_reason_to_refuse() {
    let [a, b, c] = three(10);
    let mut served = Served::open(&[&a, &b], &c);
    b.set(Fate::Fails);
    served.write(1, 7);
    served.close();
    c.damage_label(false);
    let mut served = Served::open(&[&a], &c);
    served.write(2, 8);
    served.close();
}

/// The power failed when only the blank device had the first label of a new mirror: it was refused at every start.
#[test]
fn regression_a_pool_becomes_a_mirror_although_the_power_failed_at_its_first_label() {
    let (a, b, c) = (Disk::new("a", FAST_BYTES), Disk::new("b", FAST_BYTES), Disk::new("c", CAPACITY_BYTES));
    lay_out(&mut Devices::new(vec![a.boxed(), c.boxed()]), 10, false);
    let before = [a.copy(), c.copy()];
    let mut served = Served::open(&[&a, &b], &c);
    served.write(1, 7);
    // As it was then: what follows had only begun.
    let label = MemberLabel { in_sync: 1, rebuilding: Some(1), rebuilt_bytes: 0, ..b.label() };
    drop(served);
    let [a, c] = before;
    let torn = Disk::new("b", FAST_BYTES);
    torn.put(&label);
    let mut served = Served::open(&[&a, &torn], &c);
    served.write(1, 8);
    served.until_rebuilt();
    served.close();
}

/// Labels of an older pool on the same devices outranked those of the new one, which could not be opened.
#[test]
fn regression_labels_of_an_older_pool_do_not_outlive_formatting() {
    let disks = three(10);
    let [a, b, c] = &disks;
    for _ in 0..3 {
        Served::open(&[a, b], c).close();
        Served::open(&[a], c).close();
        Served::open(&[a, b], c).until_rebuilt();
    }
    create(&disks, 50);
    let served = Served::open(&[a, b], c);
    assert_eq!(served.states(), [MemberState::InSync; 2]);
    served.close();
}

/// A copy that waited for room in a member's queue was forgotten when the member failed, and waited for ever: nothing was rebuilt any more,
/// and writes to the range being copied never ended.
#[test]
fn regression_a_copy_in_the_queue_of_a_member_that_fails_is_not_waited_for() {
    let [a, b, c] = three(10);
    let mut served = Served::open(&[&a], &c);
    served.write(1, 7);
    served.close();
    let mut served = Served::open(&[&a, &b], &c);
    assert_eq!(served.states(), [MemberState::InSync, MemberState::Rebuilding]);
    // Its queue fills up with writes of hosts, and what is copied comes behind them.
    b.set(Fate::Hangs);
    for block in 0..2 * QUEUE as u64 {
        let mut buf = Buf::zeroed(4096);
        buf.fill(9);
        served.submit(block * 40, 1, Op::Write(buf));
    }
    // No time passes, so that nothing is copied yet.
    (0..50).for_each(|_| served.pool.poll(&mut Vec::new()));
    served.turn(50);
    b.set(Fate::Fails);
    served.turn(50);
    assert_eq!(served.states(), [MemberState::InSync, MemberState::Out]);
    served.write(900, 3);
    let other = Disk::new("d", FAST_BYTES);
    served.view.offer("d".into(), [99; 16], other.boxed(), None).unwrap();
    served.until_rebuilt();
    served.close();
    let mut served = Served::open(&[&other], &c);
    served.write(901, 4);
    served.close();
}

/// A failed opening had already recorded that the missing member was left behind, although it may have been the only good one.
#[test]
fn regression_an_opening_that_fails_leaves_no_member_behind() {
    let [a, b, c] = three(10);
    let mut served = Served::open(&[&a, &b], &c);
    served.write(1, 7);
    served.close();
    // All roots and the journal of the member that is there are gone.
    b.bytes().bytes[128 << 10..2 << 20].fill(0xa5);
    let before = [b.label(), c.label()];
    let (mut devices, _) = joined(&[&b], &c).unwrap();
    assert!(open(&mut devices, 1, &classes(), options()).is_err());
    assert_eq!([b.label(), c.label()], before);
    let mut served = Served::open(&[&a, &b], &c);
    served.write(2, 8);
    served.close();
}

/// An old image of a capacity device claims that an old image of a member is complete: the member used since must not be rebuilt from it.
#[test]
fn regression_a_member_is_not_rebuilt_from_one_that_was_used_before_it() {
    let [a, b, c] = three(10);
    Served::open(&[&a, &b], &c).close();
    let old_b = b.copy();
    for _ in 0..3 {
        Served::open(&[&a], &c).close();
    }
    let label = c.label();
    c.put(&MemberLabel { generation: label.generation + 1, serial: label.serial + 1, in_sync: 2, ..label });
    assert!(matches!(joined(&[&a, &old_b], &c), Err(JoinError::Newer { .. })));
}

/// A read of several blocks failed where each of two members had a different bad block, until a scrub had repaired both. Only the bad
/// blocks must be repaired and counted; all blocks of the read were.
#[test]
fn regression_one_bad_block_on_each_of_two_members_costs_nothing() {
    let [a, b, c] = three(1);
    let mut served = Served::open(&[&a, &b], &c);
    let mut buf = Buf::zeroed(8 * 4096);
    buf.chunks_exact_mut(4096).zip(0xa0u8..).for_each(|(block, byte)| block.fill(byte));
    served.submit(0, 8, Op::Write(buf));
    assert_eq!(served.turn(5), (1, true));
    for (disk, byte) in [(&a, 0xa3), (&b, 0xa6)] {
        let mut inner = disk.bytes();
        let at = inner.bytes.windows(4096).step_by(512).position(|bytes| bytes.iter().all(|&found| found == byte));
        inner.bytes[at.unwrap() * 512 + 7] ^= 1;
    }
    let data = served.read(0, 8);
    assert!(data.chunks_exact(4096).zip(0xa0u8..).all(|(block, byte)| block.iter().all(|&found| found == byte)));
    let has = |disk: &Disk, byte| {
        disk.bytes().bytes.windows(4096).step_by(512).any(|bytes| bytes.iter().all(|&found| found == byte))
    };
    assert!(has(&a, 0xa3) || has(&b, 0xa6), "what the read met is mended");
    served.pool.engine.start_scrub();
    served.turn(4000);
    assert!(served.pool.engine.scrub().record.last.is_some(), "{:?}", served.pool.engine.scrub());
    assert!(has(&a, 0xa3) && has(&b, 0xa6), "both are mended");
    assert_eq!(served.pool.engine.status().counters.mended_blocks, 2);
}

/// A device offered twice before it was taken filled the places of two members: both rebuilt members were lost with it.
#[test]
fn regression_a_device_that_is_offered_twice_takes_one_place() {
    let [a, b, c] = three(10);
    let [d, e, f] = ["d", "e", "f"].map(|name| Disk::new(name, FAST_BYTES));
    let mut served = Served::open(&[&a, &b, &d], &c);
    served.until_rebuilt();
    [&b, &d].into_iter().for_each(|disk| disk.set(Fate::Fails));
    served.write(1, 7);
    assert_eq!(served.states(), [MemberState::InSync, MemberState::Out, MemberState::Out]);
    for id in [98, 99] {
        served.view.offer("e".into(), [id; 16], e.boxed(), None).unwrap();
    }
    served.turn(2000);
    assert_eq!(served.states(), [MemberState::InSync, MemberState::InSync, MemberState::Out]);
    assert!(served.view.offer("e".into(), [100; 16], e.boxed(), None).is_err());
    served.view.offer("f".into(), [101; 16], f.boxed(), None).unwrap();
    served.until_rebuilt();
    served.close();
}

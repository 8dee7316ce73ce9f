//! Sparse writes to disks far larger than the pool: each range that an index page maps takes space in the root, which was sized for a full
//! pool.

use super::device::{Kind, Region};
use super::rig::{BLOCK, CAPACITY, Rig, Setup, findings, held, superblock};
use forebay_volume::layout::page::{INDEX_ENTRIES, LEAF_ENTRIES};
use forebay_volume::layout::root::RootHeader;
use forebay_volume::layout::superblock::{Superblock, copy_offsets_bytes};
use forebay_volume::recovery::{OpenError, salvage};
use forebay_volume::{Devices, EngineOptions, Op, RequestError};

/// Blocks mapped by an index page.
const SPAN: u64 = (LEAF_ENTRIES * INDEX_ENTRIES) as u64;

fn setup(fast_bytes: u64, spans: u64) -> Setup {
    let options = EngineOptions { frames: Some(4096), ..Setup::default().options };
    Setup { fast_bytes, disk_bytes: spans * SPAN * BLOCK as u64, options, ..Setup::default() }
}

/// Writes zeros at the start of a range, which takes space in the map only.
fn zero(rig: &mut Rig, block: u64) -> Result<(), RequestError> {
    let op = Op::WriteZeroes { may_unmap: false };
    let token = rig.submit_to(rig.disk, block, BLOCK as u64, op, false, None);
    rig.wait(token).map(|_| ())
}

fn fill(rig: &mut Rig, spans: std::ops::Range<u64>) -> u64 {
    let full = spans.clone().find(|span| match zero(rig, span * SPAN) {
        Ok(()) => false,
        Err(RequestError::NoSpace) => true,
        Err(error) => panic!("{span}: {error:?}"),
    });
    full.unwrap_or(spans.end)
}

fn discard(rig: &mut Rig, spans: std::ops::Range<u64>) {
    let bytes = (spans.end - spans.start) * SPAN * BLOCK as u64;
    let token = rig.submit_to(rig.disk, spans.start * SPAN, bytes, Op::Discard, false, None);
    rig.wait(token).unwrap();
}

/// Writes to an overcommitted disk filled the root: no checkpoint could be written, and the pool could not be opened. Now such writes get
/// no space, everything else continues, and discards make space.
#[test]
fn regression_writes_here_and_there_leave_the_root_its_room() {
    let spans = 4600;
    let setup = setup(96 << 20, spans);
    let mut rig = Rig::new(&setup);
    rig.put(SPAN - 1, 7, None);
    let full = fill(&mut rig, 0..spans);
    assert!((4000..4400).contains(&full), "{full}");
    assert!(rig.pool.engine.lacks_index_room());
    // Ranges that exist are written as before.
    rig.put(3 * SPAN + 5000, 1, None);
    rig.checkpoint();
    let mut rig = rig.crash();
    assert!(matches!(zero(&mut rig, full * SPAN), Err(RequestError::NoSpace)));
    assert_eq!([SPAN - 1, 3 * SPAN + 5000].map(|block| rig.get(block)), [Ok(7), Ok(1)]);
    for round in 0..2 {
        // Of pages that are in memory, and of others.
        let first = 100 + round * 1000;
        discard(&mut rig, first..first + 10);
        let begin = full + round * 10;
        assert_eq!(fill(&mut rig, begin..spans), begin + 10, "round {round}");
        discard(&mut rig, 50..51);
        zero(&mut rig, 50 * SPAN).unwrap();
        rig.checkpoint();
    }
    let mut rig = rig.crash();
    assert_eq!(rig.get(SPAN - 1), Ok(7));
    discard(&mut rig, 0..spans);
    assert!(rig.pool.close());
    assert_eq!(findings(&setup, &rig.cut(|_| false)), [""; 0]);
}

/// The write waited while anything was moved, although moves never free space in the root, and all requests that waited for space waited
/// behind it.
#[test]
fn regression_a_write_without_room_in_the_root_does_not_wait_for_what_is_moved() {
    let spans = 4600;
    let setup = setup(96 << 20, spans);
    let options = EngineOptions { destage_above_percent: 0, ..setup.options.clone() };
    let mut rig = Rig::new(&Setup { options, ..setup });
    let full = fill(&mut rig, 0..spans);
    rig.checkpoint();
    rig.devices[CAPACITY].rule(|seen| held(seen.is(Kind::Write, Region::Bands)));
    (0..40).for_each(|block| rig.put(block, 1, None));
    let is_moving = |rig: &mut Rig| {
        rig.pass_ms(100);
        rig.pool.engine.activity().destage
    };
    assert!(rig.until(is_moving), "something is moved, and does not end");
    assert!(matches!(zero(&mut rig, full * SPAN), Err(RequestError::NoSpace)));
    assert!(rig.pool.engine.activity().destage);
    rig.devices[CAPACITY].heal();
}

/// A journal that names more ranges than fit into the root, as a version without this limit could write: the error names it, and the pool
/// can be read for salvage.
#[test]
fn a_journal_that_needs_more_than_the_root_is_read_for_salvage() {
    let spans = 320;
    let setup = setup(64 << 20, spans);
    let mut rig = Rig::new(&setup);
    rig.put(SPAN - 1, 7, None);
    rig.checkpoint();
    let before = rig.pool.engine.checkpoint_number();
    let layout = superblock(&rig.devices);
    let area = layout.root_offsets_bytes[(before % 2) as usize] as usize;
    let header = rig.devices[0].bytes(|bytes| RootHeader::decode(&bytes[area..area + 4096], &layout.pool)).unwrap();
    assert_eq!(fill(&mut rig, 0..spans), spans);
    rig.flush();
    assert_eq!(rig.pool.engine.checkpoint_number(), before, "more than the journal was to name");
    let devices = rig.cut(|_| false);
    // As if the root had been made for this size only.
    let root_len_bytes = 2 * 4096 + header.blob_len_bytes.next_multiple_of(4096);
    for device in &devices {
        let size_bytes = device.bytes(|bytes| bytes.len() as u64);
        for at in copy_offsets_bytes(size_bytes) {
            let found = device.bytes(|bytes| Superblock::decode(&bytes[at as usize..][..4096])).unwrap();
            device.forge(at, &Superblock { root_len_bytes, ..found }.encode());
        }
    }
    let refused = Rig::open(&setup, devices.clone()).map(|_| ());
    assert!(matches!(refused, Err(OpenError::RootFull)), "{refused:?}");
    let mut opened = Devices::new(devices.iter().map(|device| Box::new(device.clone()) as Box<_>).collect());
    let (engine, _) = salvage(&mut opened, 1, &super::rig::classes(), setup.options.clone()).unwrap();
    let mut rig = Rig::of(&setup, devices, engine, opened);
    assert_eq!([SPAN - 1, 200 * SPAN].map(|block| rig.get(block)), [Ok(7), Ok(0)]);
}

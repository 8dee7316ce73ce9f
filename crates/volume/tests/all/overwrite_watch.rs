//! Devices that another writer overwrites while their pool is served.

use forebay_block::{Device, Geometry};
use forebay_device::faulty::{Fault, Target};
use forebay_device::image::ImageDevice;
use forebay_device::{FaultyDevice, Image, blocking};
use forebay_volume::layout::Id;
use forebay_volume::layout::member_label::{MemberLabel, OFFSETS_BYTES};
use forebay_volume::layout::plan::{PoolOptions, plan};
use forebay_volume::layout::superblock::{Superblock, copy_offsets_bytes};
use forebay_volume::overwrite_watch::{Expected, OverwriteWatch, OverwriteWatchedDevice};

const SIZE_BYTES: u64 = 8 << 20;
const SECOND_NS: u64 = 1_000_000_000;
const POOL: Id = [1; 16];

fn superblock(epoch: u64) -> Superblock {
    let options = PoolOptions {
        name: "p".to_owned(),
        band_bytes: Some(65536),
        journal_bytes: None,
        is_mirrored: true,
        bands_offset_bytes: None,
    };
    let device = |size_bytes| Geometry {
        size_bytes,
        logical_block_bytes: 512,
        optimal_band_bytes: None,
        volatile_cache: false,
        durable_writes: true,
        discards: true,
    };
    let planned = plan(&options, &device(SIZE_BYTES), &[device(2 * SIZE_BYTES)], POOL, &[[2; 16], [3; 16]]).unwrap();
    Superblock { epoch, opening: 7, ..planned }
}

fn label(member: u8, generation: u64) -> MemberLabel {
    MemberLabel {
        pool: POOL,
        member: Some(member),
        generation,
        serial: generation,
        ids: vec![[4; 16], [5; 16]],
        in_sync: 3,
        rebuilding: None,
        rebuilt_bytes: 0,
        size_bytes: SIZE_BYTES,
        logical_block_bytes: 512,
    }
}

/// A member of a mirror, number 1, that is looked at each second.
struct Scene {
    device: OverwriteWatchedDevice,
    watch: OverwriteWatch,
    now_ns: u64,
}

impl Scene {
    fn over(device: Box<dyn Device>) -> Self {
        let (mut device, watch) = OverwriteWatchedDevice::new(device);
        for at in copy_offsets_bytes(SIZE_BYTES) {
            blocking::write(&mut device, at, &superblock(7).encode()).unwrap();
        }
        blocking::write(&mut device, OFFSETS_BYTES[0], &label(1, 5).encode()).unwrap();
        Self { device, watch, now_ns: 0 }
    }

    fn new() -> Self {
        Self::over(Box::new(ImageDevice::new(Image::zeroed(SIZE_BYTES))))
    }

    fn write(&mut self, at: u64, bytes: &[u8]) {
        blocking::write(&mut self.device, at, bytes).unwrap();
    }

    /// What was found after so many seconds.
    fn after(&mut self, seconds: u64) -> Option<String> {
        for _ in 0..seconds {
            self.now_ns += SECOND_NS;
            let expected =
                || Expected { superblock: superblock(7), index: 0, size_bytes: SIZE_BYTES, member: Some([5; 16]) };
            self.watch.look(self.now_ns, expected);
            let mut done = Vec::new();
            (0..20).for_each(|_| self.device.poll(&mut done));
            assert!(done.is_empty() && self.device.in_flight() == 0, "its own reads are nobody's");
        }
        self.watch.lost()
    }
}

/// Superblock and label were read only at the start: a device wiped under the server counted as complete until the next start.
#[test]
fn regression_what_is_written_over_under_a_server_is_found() {
    let (first, last) = (0, SIZE_BYTES - 4096);
    let foreign = Superblock { pool: [9; 16], ..superblock(7) };
    let copied = Superblock { opening: 8, ..superblock(7) };
    // What mke2fs leaves of the first copy: zeros, and a superblock of its own 1 KiB from the start.
    let ext4: Vec<u8> = [vec![0; 1080], vec![0x53, 0xef], vec![0; 3014]].concat();
    let cases: [(u64, Vec<u8>, &str); 9] = [
        (first, ext4, "its superblock at 0 was written over"),
        (last, b"EFI PART".repeat(512), "was written over"),
        (65536, vec![7; 4096], "its superblock at 65536 was written over"),
        (first, superblock(6).encode(), "an older superblock of the pool, of epoch 6 before 7"),
        (first, superblock(8).encode(), "of a later start, of epoch 8 after 7"),
        (first, foreign.encode(), "the superblock of another pool"),
        (first, copied.encode(), "another copy of the pool"),
        (OFFSETS_BYTES[0], vec![0; 4096], "its label was written over"),
        (OFFSETS_BYTES[1], label(0, 6).encode(), "the label of another device"),
    ];
    for (at, bytes, said) in cases {
        let mut scene = Scene::new();
        assert_eq!(scene.after(20), None);
        scene.write(at, &bytes);
        let found = scene.after(8).unwrap_or_default();
        assert!(found.contains(said), "{found:?}, not {said:?}");
    }
    for (first, second) in [(0, 65536), (0, last), (65536, last)] {
        let mut scene = Scene::new();
        assert_eq!(scene.after(8), None);
        [first, second].into_iter().for_each(|at| scene.write(at, &[0; 4096]));
        let found = scene.after(8).unwrap_or_default();
        assert!(found.contains("was written over"), "two copies are zeros: {found:?}");
    }
    let mut scene = Scene::new();
    assert_eq!(scene.after(8), None);
    scene.write(OFFSETS_BYTES[0], &label(1, 4).encode());
    assert!(scene.after(8).unwrap().contains("an older label"), "it is one of before");
}

/// A device wiped before the first check was never detected, because no check had ever found it good.
#[test]
fn regression_what_is_wiped_before_the_first_look_is_found() {
    let copies = copy_offsets_bytes(SIZE_BYTES);
    for wiped in [&copies[..], &copies[..2]] {
        let mut scene = Scene::new();
        wiped.iter().for_each(|&at| scene.write(at, &[0; 4096]));
        assert_eq!(scene.after(1), None, "one look is not believed");
        let found = scene.after(8);
        assert_eq!(found.is_some_and(|why| why.contains("superblocks were written over")), wiped.len() == 3);
    }
    let mut scene = Scene::new();
    scene.write(0, &vec![0; SIZE_BYTES as usize]);
    assert!(scene.after(8).is_some());
}

#[test]
fn labels_count_up_and_one_superblock_may_rot() {
    let mut scene = Scene::new();
    assert_eq!(scene.after(8), None);
    scene.write(OFFSETS_BYTES[1], &label(1, 6).encode());
    assert_eq!(scene.after(8), None);
    // In the middle of being written.
    scene.write(OFFSETS_BYTES[0], &[3; 4096]);
    assert_eq!(scene.after(8), None);
    let mut rotten = superblock(7).encode();
    rotten[300] ^= 1;
    scene.write(0, &rotten);
    assert_eq!(scene.after(8), None);
}

/// A member was left behind and rebuilt completely where one superblock copy had lost its first sector or bytes and the others were good.
#[test]
fn regression_a_superblock_that_has_lost_a_part_is_no_other_device() {
    let whole = superblock(7).encode();
    let without = |lost: std::ops::Range<usize>, by: u8| {
        let mut left = whole.clone();
        left[lost].fill(by);
        left
    };
    for (at, left) in [(0, without(0..512, 0)), (65536, without(0..4096, 0)), (SIZE_BYTES - 4096, without(0..8, 0x5a))]
    {
        let mut scene = Scene::new();
        assert_eq!(scene.after(8), None);
        scene.write(at, &left);
        assert_eq!((scene.after(20), scene.watch.damaged().is_some()), (None, true), "the one at {at}");
        scene.write(at, &whole);
        assert_eq!((scene.after(8), scene.watch.damaged()), (None, None));
        // With another one that rots it is not known any more to be the pool's.
        scene.write(at, &left);
        scene.write(if at == 0 { 65536 } else { 0 }, &without(300..301, 0x5a));
        assert!(scene.after(20).unwrap_or_default().contains("was written over"), "the one at {at}");
        assert_eq!(scene.watch.damaged(), None);
    }
}

/// The newest label rotted, and the previous one was taken for that of a stale device: a good member was left behind.
#[test]
fn regression_a_label_that_rots_is_no_older_one() {
    for is_whole in [true, false] {
        let mut scene = Scene::new();
        scene.write(OFFSETS_BYTES[1], &label(1, 6).encode());
        assert_eq!(scene.after(8), None);
        let mut rotten = label(1, 6).encode();
        rotten[100] ^= 1;
        scene.write(OFFSETS_BYTES[1], &rotten);
        if !is_whole {
            let mut other = label(1, 5).encode();
            other[100] ^= 1;
            scene.write(OFFSETS_BYTES[0], &other);
        }
        assert_eq!(scene.after(20), None);
    }
}

/// A single failed transfer must not cost a member.
#[test]
fn what_is_found_once_is_not_believed() {
    let mut scene = Scene::new();
    assert_eq!(scene.after(6), None);
    scene.write(0, &[7; 4096]);
    // The look of the sixth second has been, so that the next is that of the eleventh; it is good again before the one that follows.
    assert_eq!(scene.after(5), None);
    scene.write(0, &superblock(7).encode());
    assert_eq!(scene.after(20), None);
}

#[test]
fn what_cannot_be_read_is_not_asked_for_again() {
    let mut faulty = FaultyDevice::new(ImageDevice::new(Image::zeroed(SIZE_BYTES)));
    faulty.plan(Fault::range(Target::Reads, 65536..65536 + 4096));
    let mut scene = Scene::over(Box::new(faulty));
    assert_eq!(scene.after(20), None);
    scene.write(0, &[7; 4096]);
    assert!(scene.after(8).is_some());
}

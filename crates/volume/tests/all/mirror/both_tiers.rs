//! Reads of blocks of both tiers, of which one is a mirror.

use super::disk::Disk;
use super::{CAPACITY_BYTES, FAST_BYTES, Served, lay_out};
use forebay_block::Buf;
use forebay_volume::mirror::{clear_labels, new_mirror};
use forebay_volume::{Devices, Op, Request};

/// For a read across both tiers, the device with the greatest number decided how many copies were tried: data bad on two of three members
/// counted as damage beside a block of the capacity tier.
#[test]
fn regression_a_block_of_the_capacity_tier_takes_no_reading_from_those_beside_it() {
    for good in 0..3 {
        let fast = ["a", "b", "d"].map(|name| Disk::new(name, FAST_BYTES));
        let capacity = Disk::new("c", CAPACITY_BYTES);
        clear_labels(&mut Devices::new(fast.iter().chain([&capacity]).map(Disk::boxed).collect())).unwrap();
        let ids = [[11; 16], [12; 16], [14; 16]];
        let (mirror, view) = new_mirror(fast.iter().map(Disk::boxed).collect(), [10; 16], &ids);
        lay_out(&mut Devices::mirrored(vec![Box::new(mirror), capacity.boxed()], view), 10, true);
        let mut served = Served::open(&fast.iter().collect::<Vec<_>>(), &capacity);
        served.write(0, 0xa0);
        let disk = served.pool.engine.disk_named("disk").unwrap().id;
        let bulk = served.pool.engine.prism().table().id_of("bulk").unwrap();
        let data = Buf::copy_of(&[0xa1; 4096]);
        served.pool.submit(Request { tag: Some(bulk), ..Request::new(0, disk, 4096, 4096, Op::Write(data)) });
        assert_eq!(served.turn(20), (1, true));
        for (_, member) in fast.iter().enumerate().filter(|(number, _)| *number != good) {
            let mut inner = member.bytes();
            let is_it = |block: &&mut [u8]| block.iter().all(|byte| *byte == 0xa0);
            inner.bytes.chunks_exact_mut(4096).find(is_it).unwrap()[7] ^= 1;
        }
        let read = served.read(0, 2);
        assert!((0..2).all(|block| read[block * 4096..][..4096].iter().all(|byte| *byte == 0xa0 + block as u8)));
    }
}

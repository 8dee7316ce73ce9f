//! Reads of blocks of both tiers, of which one is a mirror.

use super::{Served, three};
use forebay_block::Buf;
use forebay_volume::{Op, Request};

/// Of a read with blocks of both tiers the device with the greatest number decided how many readings there are: what each of two members had wrong was damage
/// beside a block of the capacity tier.
#[test]
fn regression_a_block_of_the_capacity_tier_takes_no_reading_from_those_beside_it() {
    let [a, b, c] = three(10);
    let mut served = Served::open(&[&a, &b], &c);
    (0..2).for_each(|block| served.write(block, 0xa0 + block as u8));
    let disk = served.pool.engine.disk_named("disk").unwrap().id;
    let bulk = served.pool.engine.prism().table().id_of("bulk").unwrap();
    let data = Buf::copy_of(&[0xa2; 4096]);
    served.pool.submit(Request { tag: Some(bulk), ..Request::new(0, disk, 2 * 4096, 4096, Op::Write(data)) });
    assert_eq!(served.turn(20), (1, true));
    for (member, byte) in [(&a, 0xa0), (&b, 0xa1)] {
        let mut inner = member.bytes();
        let block = inner.bytes.chunks_exact_mut(4096).find(|block| block.iter().all(|found| *found == byte)).unwrap();
        block[7] ^= 1;
    }
    let read = served.read(0, 3);
    assert!((0..3).all(|block| read[block * 4096..][..4096].iter().all(|byte| *byte == 0xa0 + block as u8)));
}

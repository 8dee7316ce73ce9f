//! Reads of many blocks at once of which a member has something wrong.

use super::rig::Rig;
use crate::world::request::compress_all;
use forebay_prism::Compress;

/// Of one member all was wrong. Compressed blocks that lie there are right only where they are computed of the others, and those beside them only as they
/// lie: a read of several was right in no reading, and failed as often as it was asked for, until the member was out.
#[test]
fn regression_reads_of_many_compressed_blocks_are_right_where_a_member_has_lost_all() {
    for redundancy in ["2+1", "4+2"] {
        let rig = Rig::new(redundancy, 1);
        let mut served = rig.open();
        compress_all(&mut served.pool.engine, Compress::Lz4);
        (0..1200).step_by(10).for_each(|block| served.write_run(block, 10));
        served.checkpoint();
        let model = served.close();
        for number in 0..rig.members.len() {
            let rotten = rig.copy();
            let mut served = rotten.open();
            served.model.clone_from(&model);
            let first = rig.rows_at();
            rotten.members[number].bytes().bytes[first..].fill(0);
            served.check_in_runs(16);
        }
    }
}

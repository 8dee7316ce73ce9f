//! Block status of long ranges.

use super::rig::{Rig, Setup};
use crate::child::in_a_process;
use forebay_volume::{EngineOptions, ExtentState, Op, Outcome};

const DISK_BYTES: u64 = 8 << 30;

fn asks_for_the_status_of_all_leaves() {
    let base = Setup::default().options;
    let setup = Setup {
        fast_bytes: 64 << 20,
        disk_bytes: DISK_BYTES,
        journal_bytes: 4 << 20,
        options: EngineOptions { frames: Some(8192), ..base },
        ..Setup::default()
    };
    let mut rig = Rig::new(&setup);
    let zeroes = Op::WriteZeroes { may_unmap: false };
    let token = rig.submit_to(rig.disk, 0, DISK_BYTES, zeroes, false, None);
    rig.wait(token).unwrap();
    let token = rig.submit_to(rig.disk, 0, DISK_BYTES, Op::Status { max_extents: 8 }, false, None);
    let Ok(Outcome::Extents(extents)) = rig.wait(token) else { panic!("no extents") };
    assert!(extents.iter().all(|extent| extent.state == ExtentState::Zero), "{extents:?}");
    assert_eq!(extents.iter().map(|extent| extent.len_bytes).sum::<u64>(), DISK_BYTES);
}

/// BLOCK_STATUS recursed from leaf to leaf. Where thousands of leaves in memory have the same status (a disk written with zeros), the stack
/// overflowed and the server died. A terabyte has 655,360 leaves; the 5,243 of this disk suffice on a stack of 512 KiB.
#[test]
fn hole_08_block_status_of_a_long_uniform_range() {
    in_a_process(2 << 20, || {
        let thread = std::thread::Builder::new().stack_size(512 << 10);
        thread.spawn(asks_for_the_status_of_all_leaves).unwrap().join().unwrap();
    });
}

//! Blocks that end with a CRC of their own: a checksum of the pool's that is a CRC, too, is the same for all of their versions.

use super::device::{Kind, Region};
use super::rig::{BLOCK, Rig, Setup};
use forebay_block::checksum::crc32c;
use forebay_block::{Buf, Random};
use forebay_volume::{Op, Outcome};

/// As extent blocks of ext4 are: all versions have one CRC.
pub fn self_checked(seed: u64) -> Buf {
    let mut random = Random::new(seed);
    let mut bytes = Buf::new(BLOCK);
    bytes.chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&random.next_u64().to_le_bytes()));
    let crc = crc32c(&bytes[..BLOCK - 4]).to_le_bytes();
    bytes[BLOCK - 4..].copy_from_slice(&crc);
    bytes
}

pub fn put_raw(rig: &mut Rig, block: u64, seed: u64) {
    let token = rig.submit_to(rig.disk, block, BLOCK as u64, Op::Write(self_checked(seed)), false, None);
    rig.wait(token).unwrap();
}

#[track_caller]
pub fn is_raw(rig: &mut Rig, block: u64, seed: u64) {
    let token = rig.submit_to(rig.disk, block, BLOCK as u64, Op::Read, false, None);
    let Ok(Outcome::Data(data)) = rig.wait(token) else { panic!("not read") };
    assert!(data[..] == self_checked(seed)[..], "another version");
}

/// What a slot had held long before was taken for the newest version of its block, of which a power cut had left the record alone: older than
/// what a flush had covered, and without an error.
#[test]
fn regression_an_old_version_is_not_taken_for_one_that_a_power_cut_took() {
    let setup = Setup { volatile_fast: true, ..Setup::default() };
    let mut rig = Rig::new(&setup);
    let slots = setup.fast_bytes / BLOCK as u64;
    // Slots are used in turn, so that each has held a version of the block in the end.
    let flushed = slots + 100;
    for version in 1..=flushed {
        put_raw(&mut rig, 7, version);
        rig.flush();
    }
    put_raw(&mut rig, 7, flushed + 1);
    let devices = rig.cut(|seen| seen.is(Kind::Write, Region::Journal));
    let mut rig = Rig::open(&setup, devices).unwrap();
    is_raw(&mut rig, 7, flushed);
}

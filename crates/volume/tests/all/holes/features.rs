//! Unknown feature bits in superblocks.

use super::device::Scripted;
use super::rig::{BULK, FAST, Rig, Setup};
use forebay_block::checksum::crc32c;
use forebay_volume::layout::superblock::{SIZE_BYTES, copy_offsets_bytes};
use forebay_volume::{Op, RequestError};
use std::ops::Range;

/// Offsets of the bits in a superblock (docs/format.md, "Superblock").
const COMPATIBLE: Range<usize> = 16..24;
const READ_ONLY_COMPATIBLE: Range<usize> = 24..32;
/// A bit without a meaning.
const UNKNOWN: u64 = 1 << 47;

fn copies(device: &Scripted) -> Vec<(u64, Vec<u8>)> {
    let copy = |bytes: &[u8], at: u64| bytes[at as usize..at as usize + SIZE_BYTES].to_vec();
    device.bytes(|bytes| copy_offsets_bytes(bytes.len() as u64).map(|at| (at, copy(bytes, at))).to_vec())
}

/// Sets the unknown bit in all superblocks of all devices.
fn set(devices: &[Scripted], field: &Range<usize>) {
    for device in devices {
        for (at, mut copy) in copies(device) {
            let bits = u64::from_le_bytes(copy[field.clone()].try_into().unwrap()) | UNKNOWN;
            copy[field.clone()].copy_from_slice(&bits.to_le_bytes());
            let crc = crc32c(&copy[12..]);
            copy[8..12].copy_from_slice(&crc.to_le_bytes());
            device.forge(at, &copy);
        }
    }
}

fn is_set(devices: &[Scripted], field: &Range<usize>) -> bool {
    let has = |copy: &[u8]| u64::from_le_bytes(copy[field.clone()].try_into().unwrap()) & UNKNOWN != 0;
    devices.iter().all(|device| copies(device).iter().all(|(_, copy)| has(copy)))
}

/// A pool served until a power cut, so that its journal must be replayed.
fn served(setup: &Setup) -> Vec<Scripted> {
    let mut rig = Rig::new(setup);
    rig.put(1, 1, None);
    rig.put(2, 1, BULK);
    rig.checkpoint();
    rig.put(3, 1, None);
    rig.put(4, 1, BULK);
    rig.flush();
    rig.cut(|_| false)
}

/// A later version may set a bit that allows reading but not writing to versions that do not know it. The bit was ignored, the pool was
/// opened for writing, and the first superblock write erased it.
#[test]
fn hole_09_unknown_read_only_compatible_features() {
    let setup = Setup::default();
    let devices = served(&setup);
    set(&devices, &READ_ONLY_COMPATIBLE);
    let changes: Vec<u64> = devices.iter().map(Scripted::changes).collect();
    let mut rig = Rig::open(&setup, devices).unwrap();
    for block in 1..5 {
        assert_eq!(rig.get(block), Ok(1));
    }
    let zeroes = Op::WriteZeroes { may_unmap: false };
    let refused = [
        rig.write(1, 2, None),
        rig.submit_to(rig.disk, 1, 4096, Op::Discard, true, None),
        rig.submit_to(rig.disk, 1, 4096, zeroes, false, None),
    ];
    for token in refused {
        let answer = rig.wait(token);
        assert!(matches!(answer, Err(RequestError::ReadOnly(_))), "{answer:?}");
    }
    assert!(rig.pool.engine.status().read_only.is_some());
    assert!(rig.pool.engine.add_disk("second", 1 << 20).is_err());
    for _ in 0..20 {
        rig.pass_ms(1000);
    }
    rig.pool.close();
    for (device, before) in rig.devices.iter().zip(changes) {
        assert_eq!(device.changes(), before, "written to");
    }
    let devices = rig.cut(|_| true);
    assert!(is_set(&devices, &READ_ONLY_COMPATIBLE));
}

/// A bit that versions may ignore: the pool is served, and the bit is preserved.
#[test]
fn hole_09_unknown_compatible_features_are_kept() {
    let setup = Setup::default();
    let devices = served(&setup);
    set(&devices, &COMPATIBLE);
    let before = devices[FAST].changes();
    let mut rig = Rig::open(&setup, devices).unwrap();
    rig.put(1, 2, None);
    rig.flush();
    let options = rig.setup.options.clone();
    let rig = rig.restart(options);
    assert!(rig.devices[FAST].changes() > before);
    assert!(is_set(&rig.devices, &COMPATIBLE));
}

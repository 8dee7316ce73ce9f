//! Faults that fall into a window.

use crate::fault::{Fault, FaultKind};
use crate::order::Region;
use crate::scenario::kind::Kind;
use crate::scenario::pick::pick;
use forebay_block::Random;

/// What fails in lives of a kind.
pub(super) fn faults(kind: Kind, random: &mut Random, devices: usize) -> Vec<Fault> {
    use FaultKind::{DeadSector, Misread, ReadError, WriteError};
    let fault = |kind, is_fast, region, skip, counts: &[u32], random: &mut Random| Fault {
        kind,
        device: if is_fast { 0 } else { 1 + random.index(devices - 1) },
        region: Some(region),
        skip: random.below(skip) as u32,
        count: pick(random, counts),
    };
    match kind {
        // One, as a second reading is all that can be asked for.
        Kind::Misreading => {
            let (is_fast, region, skip) = pick(
                random,
                &[
                    (false, Region::Data, 30),
                    (false, Region::Data, 30),
                    (true, Region::Data, 30),
                    (true, Region::Page, 4),
                    (false, Region::Summary, 6),
                ],
            );
            vec![fault(Misread, is_fast, region, skip, &[1], random)]
        }
        Kind::Rotting if random.chance(1, 4) => vec![fault(DeadSector, false, Region::Summary, 6, &[1, 2], random)],
        Kind::Growing => {
            let region = pick(random, &[Region::Root, Region::Header]);
            vec![fault(WriteError, true, region, 4, &[1, 2, 4, 12], random)]
        }
        Kind::Unmapping if random.chance(1, 2) => vec![fault(ReadError, true, Region::Page, 40, &[1, 1, 2, 4], random)],
        _ => Vec::new(),
    }
}

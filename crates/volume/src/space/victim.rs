//! Chooses the band that is collected next.

use super::spare::Spare;
use crate::layout::page::BLOCK_GRAINS;
use crate::layout::root::BandRoot;
use forebay_placement::victim::{Candidate, Choice};

/// No band counts as older: a damaged clock must not cause an overflow.
const AGE_MAX_BANDS: u64 = 1 << 24;

/// The best victim by cost and benefit, of the bands that `may` be collected. `data_blocks`: blocks of data in a band; `clock`: bands closed so far.
pub(super) fn best(
    table: &[BandRoot],
    (data_blocks, clock): (u32, u64),
    packed_spare: Option<Spare>,
    may: impl Fn(u32) -> bool,
) -> Option<u32> {
    let data_grains = data_blocks * BLOCK_GRAINS as u32;
    let has_garbage = |band: &BandRoot| {
        // What is moved may take more than it did: otherwise a full pool would copy itself.
        (1..data_grains).contains(&band.valid) && packed_spare.is_none_or(|spare| spare.leaves_some(band, data_blocks))
    };
    let candidates = (0u32..).zip(table).filter(|(number, band)| has_garbage(band) && may(*number));
    let log_valid = table.iter().map(|band| u64::from(band.valid)).sum::<u64>() / BLOCK_GRAINS;
    Choice::CostBenefit.best(candidates.map(|(number, band)| Candidate {
        band: number,
        group: band.stream.group,
        valid: band.moved_grains(),
        blocks: data_grains,
        // Blocks written since this band was opened, as if it and each band closed since had been filled.
        age: (clock.saturating_sub(band.closed_at).min(AGE_MAX_BANDS) + 1) * u64::from(data_blocks),
        log_valid,
    }))
}

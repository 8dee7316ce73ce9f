//! Which tier a write goes to first: class, policy, and how full and how busy the tiers are. Nothing here does I/O.

use forebay_prism::Place;

/// What the choice depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Situation {
    /// Policy of the class.
    pub place: Place,
    /// Part of a long sequential stream.
    pub streams: bool,
    /// More writes wait for the fast device than it takes at once, and more than for the capacity tier.
    pub fast_is_behind: bool,
    /// Slots that data may take.
    pub free: u64,
    /// Free slots below which a growing share of staged writes goes past the fast tier; 0: none does.
    pub threshold: u64,
}

/// Error diffusion instead of chance: deterministic, and exact over any stretch of writes.
#[derive(Debug, Default)]
pub(crate) struct Bypass {
    debt: u64,
}

impl Bypass {
    /// Whether a write of so many blocks goes to the fast tier first. Long sequential streams do not, nor does what would
    /// wait there for longer. Below a threshold of free slots a growing share of staged writes goes past it, so that the
    /// pool slows down in proportion and never stops.
    pub fn goes_to_fast_first(&mut self, situation: &Situation, blocks: u32) -> bool {
        let Situation { place, streams, fast_is_behind, free, threshold } = *situation;
        match place {
            Place::Fast => return true,
            Place::Capacity | Place::Both => return false,
            Place::Stage if streams || fast_is_behind => return false,
            Place::Stage => {}
        }
        if free >= threshold {
            return true;
        }
        self.debt += u64::from(blocks) * (threshold - free);
        let due = u64::from(blocks) * threshold;
        if self.debt < due {
            return true;
        }
        self.debt -= due;
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_that_goes_past_grows_as_slots_run_out() {
        for free in [100, 75, 50, 10, 0] {
            let mut bypass = Bypass::default();
            let situation =
                Situation { place: Place::Stage, streams: false, fast_is_behind: false, free, threshold: 100 };
            let past = (0..1000).filter(|_| !bypass.goes_to_fast_first(&situation, 4)).count() as u64;
            assert_eq!(past, 10 * (100 - free), "with {free} free");
            let streams = Situation { streams: true, ..situation };
            assert!(!bypass.goes_to_fast_first(&streams, 4));
            let pinned = Situation { place: Place::Fast, ..streams };
            assert!(bypass.goes_to_fast_first(&pinned, 4));
        }
    }
}

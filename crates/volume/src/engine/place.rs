//! Which tier a write goes to first: class, policy, and how full and how busy the tiers are. Nothing here does I/O.

use forebay_prism::Place;

/// What the choice depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Situation {
    /// Policy of the class.
    pub place: Place,
    /// Part of a long sequential stream, or large and not worth its stay.
    pub past: bool,
    /// Data of its kind mostly dies on the fast tier.
    pub keeps: bool,
    /// It is too short to shrink by itself, and would shrink together with other data if it went to bands later.
    pub shrinks_later: bool,
    /// More writes wait for the fast device than it takes at once, and more than for the capacity tier.
    pub fast_is_behind: bool,
    /// A capacity device has no room for what is written to it: the file system below it, or a thin pool, is full.
    pub capacity_refuses: bool,
    /// Data in flight on the fast device and on the capacity tier, in bytes.
    pub in_flight_bytes: [u64; 2],
    /// Changes of hosts in flight, including this one and those that wait for space: a queue this deep hides to which tier they go.
    pub changes: usize,
    /// The host may yet say that what it writes is to stay on the fast tier.
    pub may_stay: bool,
    /// Slots that data may take.
    pub free: u64,
    /// Free slots below which a growing share of staged writes goes past the fast tier; 0: none does.
    pub threshold: u64,
}

/// Changes in flight from which on data that would be destaged all the same goes past the fast tier: where fewer are in flight, each would wait for the
/// capacity tier's latency. A host that keeps sixteen in flight has eight and more here whenever one comes, for it sends several once several have ended.
const CHANGES_MANY: usize = 8;

/// Eighths of what was staged in a stretch. Staging is in vain from the first number on, of blocks that had to be destaged, and stays so down to the second.
/// With one bound a flood over a disk of ten times the tier, of which .9 has to be destaged, would be judged one way and the other in turn: little is staged
/// while staging is in vain, and a stretch of that includes the end of the one before.
const IN_VAIN_EIGHTHS: u64 = 7;
const STILL_IN_VAIN_EIGHTHS: u64 = 6;

/// How long, in nanoseconds, writes go to the fast tier first after a capacity device had no room for one, as far as that tier has room: they would fail, and
/// take blocks of bands with them.
const REFUSES_NS: u64 = 10_000_000_000;

/// Bytes in flight on the fast device, with those of the run to be placed, from which on a large run goes to the capacity tier where less is in flight: what an
/// Optane-class drive moves in 300 us. The bandwidth of a flash drive is as high, so that large runs arrive there sooner.
const WAITING_BYTES: u64 = 740 << 10;
/// Blocks of a large run, which are neighbours of one class within one write. A smaller run waits for a latency rather
/// than for bandwidth, and is likelier to be overwritten soon.
pub(crate) const LARGE_BLOCKS: u32 = 16;
/// Blocks of a run from which on it is compressed by itself, as part of a stream. A shorter run mostly lies between zeros.
const STREAM_SHRINKS_BLOCKS: u32 = 4;

/// Blocks of a run of a class from which on it is compressed by itself. A shorter run would leave too much of its last device block unused.
pub(crate) fn shrinks_alone_blocks(place: Place) -> u32 {
    if place == Place::Capacity { LARGE_BLOCKS } else { STREAM_SHRINKS_BLOCKS }
}

/// Error diffusion instead of chance: deterministic, and exact over any stretch of writes.
#[derive(Debug, Default)]
pub(crate) struct Bypass {
    debt: u64,
    /// Blocks staged and blocks destaged since the start, when the present stretch began.
    staged_before: u64,
    destaged_before: u64,
    /// In the last stretch nearly all that was staged had to be destaged: hardly any of it died on the fast tier.
    is_in_vain: bool,
    /// Whether what goes past the tier is durable when it is answered.
    pub is_written_through: bool,
    /// When a capacity device last had no room for a write.
    refused_ns: Option<u64>,
}

impl Bypass {
    /// A capacity device had no room for a write.
    pub fn note_refusal(&mut self, now_ns: u64) {
        self.refused_ns = Some(now_ns);
    }

    /// Whether a capacity device had no room a short while ago.
    pub fn capacity_refuses(&self, now_ns: u64) -> bool {
        self.refused_ns.is_some_and(|refused_ns| now_ns.saturating_sub(refused_ns) < REFUSES_NS)
    }

    /// Judges each stretch of a quarter of the tier. `staged` and `destaged`: blocks since the start; `slots`: those of the tier. Where nearly all is destaged,
    /// staging costs both tiers a write and the fast one a read, and saves nothing. That verdict stands until a quarter dies there.
    pub fn learn(&mut self, staged: u64, destaged: u64, slots: u64) {
        let stretch = staged.saturating_sub(self.staged_before);
        if stretch > slots / 4 {
            let least = if self.is_in_vain { STILL_IN_VAIN_EIGHTHS } else { IN_VAIN_EIGHTHS };
            self.is_in_vain = 8 * destaged.saturating_sub(self.destaged_before) >= least * stretch;
            (self.staged_before, self.destaged_before) = (staged, destaged);
        }
    }

    /// Whether a run of so many blocks goes to the fast tier first. Not a long sequential stream, nor what would wait there for longer, nor one of many writes
    /// at once while staging saves nothing. While slots are free, no large run waits there behind others, unless it may turn out to be one that stays. Below a
    /// threshold of free slots a growing share of staged writes goes past the tier, so that the pool slows down in proportion and never stops.
    pub fn goes_to_fast_first(&mut self, situation: &Situation, blocks: u32) -> bool {
        let Situation {
            place, past, keeps, shrinks_later, in_flight_bytes, changes, may_stay, free, threshold, ..
        } = *situation;
        match place {
            Place::Fast => return true,
            Place::Both => return false,
            Place::Stage | Place::Capacity if situation.capacity_refuses => return true,
            Place::Stage | Place::Capacity if situation.fast_is_behind => return false,
            Place::Capacity if !shrinks_later => return false,
            Place::Stage if past && !shrinks_later => return false,
            Place::Capacity => {}
            Place::Stage if self.is_in_vain && !keeps && changes >= CHANGES_MANY => return false,
            Place::Stage => {}
        }
        if free >= threshold {
            let [fast, capacity] = in_flight_bytes;
            let waits = fast + 4096 * u64::from(blocks) >= WAITING_BYTES && capacity < fast;
            return blocks < LARGE_BLOCKS || !waits || may_stay || keeps;
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

    /// Streams went past an empty fast tier, failed, and took blocks of bands with them.
    #[test]
    fn regression_nothing_goes_past_the_fast_tier_while_the_capacity_tier_has_no_room() {
        let mut bypass = Bypass::default();
        assert!(!bypass.capacity_refuses(0));
        bypass.note_refusal(5);
        assert!(bypass.capacity_refuses(4 + REFUSES_NS) && !bypass.capacity_refuses(5 + REFUSES_NS));
        for place in [Place::Stage, Place::Capacity] {
            let past = Situation { place, past: true, fast_is_behind: true, free: 0, ..SITUATION };
            assert!(!bypass.goes_to_fast_first(&past, 64));
            assert!(bypass.goes_to_fast_first(&Situation { capacity_refuses: true, ..past }, 64));
        }
    }

    const SITUATION: Situation = Situation {
        place: Place::Stage,
        past: false,
        keeps: false,
        shrinks_later: false,
        fast_is_behind: false,
        capacity_refuses: false,
        in_flight_bytes: [0, 0],
        changes: 8,
        may_stay: false,
        free: 100,
        threshold: 100,
    };

    #[test]
    fn many_at_once_go_past_a_tier_on_which_nothing_dies_and_come_back() {
        let mut bypass = Bypass::default();
        let many = |bypass: &mut Bypass| !bypass.goes_to_fast_first(&SITUATION, 1);
        bypass.learn(1000, 0, 4000);
        assert!(!many(&mut bypass), "nothing is known yet");
        bypass.learn(1001, 200, 4000);
        assert!(!many(&mut bypass), "the tier is filled");
        bypass.learn(2002, 1076, 4000);
        assert!(many(&mut bypass), "7 of 8 had to leave");
        assert!(bypass.goes_to_fast_first(&Situation { changes: 7, ..SITUATION }, 1), "few wait for each");
        assert!(bypass.goes_to_fast_first(&Situation { place: Place::Fast, ..SITUATION }, 1));
        bypass.learn(3000, 1076, 4000);
        assert!(many(&mut bypass), "the next stretch is not over");
        bypass.learn(3003, 1850, 4000);
        assert!(many(&mut bypass), "a little less than 7 of 8 is not enough to come back");
        bypass.learn(4004, 2600, 4000);
        assert!(!many(&mut bypass), "a quarter dies there again");
    }

    #[test]
    fn what_shrinks_later_waits_unless_the_fast_device_is_behind_or_full() {
        let mut bypass = Bypass::default();
        let situation = Situation { past: true, shrinks_later: true, ..SITUATION };
        for place in [Place::Capacity, Place::Stage] {
            let mut goes_fast = |situation| bypass.goes_to_fast_first(&Situation { place, ..situation }, 3);
            assert!(goes_fast(situation) && !goes_fast(Situation { shrinks_later: false, ..situation }));
            assert!(!goes_fast(Situation { fast_is_behind: true, ..situation }));
            assert!(!goes_fast(Situation { free: 0, ..situation }));
        }
        assert!(!bypass.goes_to_fast_first(&Situation { place: Place::Both, ..situation }, 3));
    }

    #[test]
    fn large_writes_do_not_queue_for_the_fast_device_while_the_capacity_tier_has_less_to_do() {
        let mut bypass = Bypass::default();
        let mut goes_fast =
            |blocks, in_flight_bytes| bypass.goes_to_fast_first(&Situation { in_flight_bytes, ..SITUATION }, blocks);
        let waiting = [WAITING_BYTES - (128 << 10), 0];
        assert!(!goes_fast(32, waiting) && goes_fast(31, waiting), "the write itself counts");
        assert!(!goes_fast(16, [1 << 20, 0]) && goes_fast(15, [1 << 20, 0]), "small ones stay");
        assert!(goes_fast(32, [1 << 20, 1 << 20]), "as much to do there");
        let may_stay = Situation { in_flight_bytes: [1 << 20, 0], may_stay: true, ..SITUATION };
        assert!(bypass.goes_to_fast_first(&may_stay, 32), "nothing comes back from the capacity tier");
        let keeps = Situation { in_flight_bytes: [1 << 20, 0], keeps: true, ..SITUATION };
        assert!(bypass.goes_to_fast_first(&keeps, 32), "it would be written there for nothing");
    }

    #[test]
    fn the_share_that_goes_past_grows_as_slots_run_out() {
        for free in [100, 75, 50, 10, 0] {
            let mut bypass = Bypass::default();
            let situation = Situation { free, ..SITUATION };
            let past = (0..1000).filter(|_| !bypass.goes_to_fast_first(&situation, 4)).count() as u64;
            assert_eq!(past, 10 * (100 - free), "with {free} free");
            let past = Situation { past: true, ..situation };
            assert!(!bypass.goes_to_fast_first(&past, 4));
            let pinned = Situation { place: Place::Fast, ..past };
            assert!(bypass.goes_to_fast_first(&pinned, 4));
        }
    }
}

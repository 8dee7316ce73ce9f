//! Holds hosts to the pace of collection. While few bands are free hosts get blocks of bands as collection gains them, evenly over time: so they slow down
//! instead of stopping dead when none is left.

/// Parts of a block in which gains are counted.
const PARTS: u64 = 1 << 16;
/// Most blocks that hosts may take at once.
const CREDIT_MAX_BLOCKS: u64 = 64;
/// Most blocks that are saved up: gains that nobody takes must not use up the bands later.
const SAVED_MAX_BLOCKS: u64 = 4 << 10;
/// Time over which gains are spread: longer than the steps of a job in which it gains nothing. For a flood over a flash drive that is three quarters full, 10
/// to 40 ms are equally good.
const SPREAD_NS: u64 = 20_000_000;
/// Where nothing was gained for this long nobody is held back: jobs wait for something else then.
const GAINS_END_NS: u64 = 1_000_000_000;
/// Hosts get this many times what is gained where as much is free as should be, and less in proportion: at a third of it, they get what is gained.
const SHARE_MAX: u64 = 3;

/// Blocks of bands that hosts may take.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    is_on: bool,
    now_ns: u64,
    gained_at_ns: Option<u64>,
    /// Blocks that hosts could be granted now or soon, and the number from which on hosts are not held back.
    room_blocks: u64,
    enough_blocks: u64,
    /// What was gained and hosts may not take yet, in [`PARTS`] of a block.
    saved: u64,
    /// What hosts may take, in the same; below 0 where one write took more.
    credit: i64,
}

impl Pace {
    /// Updates time and room. `is_collecting`: a collection is in progress; without one nothing would be gained.
    pub fn look(&mut self, room_blocks: u64, enough_blocks: u64, is_collecting: bool, now_ns: u64) {
        let passed_ns = now_ns.saturating_sub(self.now_ns).min(SPREAD_NS);
        (self.room_blocks, self.enough_blocks, self.now_ns) = (room_blocks, enough_blocks, now_ns);
        let gains = self.gained_at_ns.is_some_and(|at_ns| now_ns.saturating_sub(at_ns) < GAINS_END_NS);
        self.is_on = is_collecting && gains && room_blocks < enough_blocks;
        let most = ((CREDIT_MAX_BLOCKS * PARTS) as i64 - self.credit).max(0) as u64;
        let share = (self.saved * passed_ns / SPREAD_NS).min(most);
        self.saved -= share;
        self.credit = if self.is_on { self.credit + share as i64 } else { 0 };
    }

    /// Whether hosts get no block of a band now.
    pub fn is_closed(&self) -> bool {
        self.is_on && self.credit <= 0
    }

    /// A host took so many blocks.
    pub fn take(&mut self, blocks: u32) {
        if self.is_on {
            self.credit -= (u64::from(blocks) * PARTS) as i64;
        }
    }

    /// So many blocks were read to be moved out of a band that had `dead` and `alive` blocks when its collection began: each block moved is to make room for
    /// its share of the dead ones.
    pub fn gain(&mut self, moved: u64, dead: u64, alive: u64) {
        self.gained_at_ns = Some(self.now_ns);
        let gained = moved * PARTS * dead / alive.max(1);
        // Always something, or hosts would stand still while only collection has room.
        let room_blocks = self.room_blocks.clamp(self.enough_blocks / 16, self.enough_blocks);
        let share = u128::from(gained * SHARE_MAX) * u128::from(room_blocks) / u128::from(self.enough_blocks.max(1));
        self.saved = (self.saved + share as u64).min(SAVED_MAX_BLOCKS * PARTS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Blocks that a host takes one by one, one look a millisecond, from `from_ms` on.
    fn taken(pace: &mut Pace, room_blocks: u64, from_ms: u64, looks: u64) -> Vec<u32> {
        let mut counts = Vec::new();
        for at_ms in from_ms..from_ms + looks {
            pace.look(room_blocks, 900, true, at_ms * MS);
            let mut count = 0;
            while !pace.is_closed() && count < 1000 {
                pace.take(1);
                count += 1;
            }
            counts.push(count);
        }
        counts
    }

    #[test]
    fn hosts_take_what_is_gained_at_a_third_of_the_room_and_evenly() {
        let mut pace = Pace::default();
        pace.look(300, 900, true, 0);
        pace.gain(400, 50, 100);
        let counts = taken(&mut pace, 300, 1, 200);
        assert!(counts.iter().all(|&count| count <= 11), "{counts:?}");
        assert!((199..=201).contains(&counts.iter().sum::<u32>()), "{counts:?}");
        for (room_blocks, expected) in [(600, 400), (150, 100), (0, 37)] {
            pace.look(room_blocks, 900, true, 300 * MS);
            pace.gain(400, 50, 100);
            let sum: u32 = taken(&mut pace, room_blocks, 301, 200).iter().sum();
            assert!((expected - 1..=expected + 1).contains(&i64::from(sum)), "{sum} with {room_blocks}");
        }
    }

    #[test]
    fn nobody_is_held_back_where_there_is_room_or_nothing_is_gained() {
        let mut pace = Pace::default();
        pace.look(1, 900, true, 0);
        assert!(!pace.is_closed(), "nothing was gained yet");
        pace.gain(1, 0, 100);
        pace.look(1, 900, true, MS);
        assert!(pace.is_closed());
        pace.look(900, 900, true, 2 * MS);
        assert!(!pace.is_closed(), "there is enough room");
        pace.look(1, 900, false, 3 * MS);
        assert!(!pace.is_closed(), "no collection is in progress");
        pace.look(1, 900, true, 999 * MS);
        assert!(pace.is_closed());
        pace.look(1, 900, true, 1000 * MS);
        assert!(!pace.is_closed(), "a second without gains");
    }

    #[test]
    fn what_nobody_takes_is_not_saved_for_ever() {
        let mut pace = Pace::default();
        pace.look(300, 900, true, 0);
        for at_ms in 1..500 {
            pace.gain(10_000, 100, 100);
            pace.look(300, 900, true, at_ms * MS);
        }
        let counts = taken(&mut pace, 300, 500, 900);
        assert_eq!(counts[0], CREDIT_MAX_BLOCKS as u32);
        let sum = u64::from(counts.iter().sum::<u32>());
        assert!((SAVED_MAX_BLOCKS..=SAVED_MAX_BLOCKS + CREDIT_MAX_BLOCKS).contains(&sum), "{sum}");
    }

    #[test]
    fn a_large_write_is_paid_for_afterwards() {
        let mut pace = Pace::default();
        pace.look(300, 900, true, 0);
        pace.gain(100, 100, 100);
        pace.look(300, 900, true, MS);
        assert!(!pace.is_closed());
        pace.take(500);
        pace.look(300, 900, true, 100 * MS);
        assert!(pace.is_closed(), "it took 400 more than was gained");
        pace.gain(401, 100, 100);
        pace.look(300, 900, true, 200 * MS);
        assert!(!pace.is_closed());
    }
}

//! An estimate of the invalid blocks in open bands: such blocks use space that no collection frees before their band
//! is full.

use super::{GROUPS_MAX, Version};

#[derive(Clone, Copy, Debug, Default)]
struct Open {
    /// Blocks written into the band; 0 if it is not open.
    filled: u32,
    opened_at: u64,
    /// Number of its blocks that have died.
    invalid: u32,
}

/// The open band of each group.
#[derive(Clone, Debug)]
pub struct OpenBands {
    band_blocks: u32,
    open: [Open; GROUPS_MAX as usize],
}

impl OpenBands {
    /// Bands of `band_blocks` blocks, none of them open.
    pub fn new(band_blocks: u32) -> Self {
        Self { band_blocks, open: [Open::default(); GROUPS_MAX as usize] }
    }

    /// A block is written into the open band of a group; returns true if it was the band's last.
    pub fn placed(&mut self, group: u8, now: u64) -> bool {
        let open = &mut self.open[usize::from(group)];
        if open.filled == 0 {
            *open = Open { filled: 0, opened_at: now, invalid: 0 };
        }
        open.filled += 1;
        let is_full = open.filled >= self.band_blocks;
        if is_full {
            *open = Open::default();
        }
        is_full
    }

    /// A version died that no collection has moved. It lay in the open band of its group if that band is older than
    /// the version.
    pub fn died(&mut self, version: &Version, now: u64) {
        let open = &mut self.open[usize::from(version.group % GROUPS_MAX)];
        if open.filled > 0 && version.age <= now.saturating_sub(open.opened_at) {
            open.invalid += 1;
        }
    }

    /// The group whose open band contains the most invalid blocks, the first of equals, and their number.
    pub fn most_invalid(&self) -> (u8, u32) {
        let groups = (0u8..).zip(&self.open).map(|(group, open)| (group, open.invalid));
        groups.fold((0, 0), |best, next| if next.1 > best.1 { next } else { best })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_died_in_an_open_band_counts() {
        let mut bands = OpenBands::new(4);
        let died = |bands: &mut OpenBands, group, age, now| bands.died(&Version { group, age, note: None }, now);
        died(&mut bands, 3, 1, 10);
        assert_eq!(bands.most_invalid(), (0, 0), "no band was open");
        assert!(!bands.placed(3, 10) && !bands.placed(3, 11) && !bands.placed(5, 12));
        died(&mut bands, 3, 5, 13);
        assert_eq!(bands.most_invalid(), (0, 0), "it was written before the band was opened");
        died(&mut bands, 3, 3, 13);
        died(&mut bands, 5, 1, 13);
        died(&mut bands, 3, 2, 13);
        assert_eq!(bands.most_invalid(), (3, 2));
        assert!(!bands.placed(3, 14) && bands.placed(3, 15));
        assert_eq!(bands.most_invalid(), (5, 1), "a full band can be collected");
        assert!(!bands.placed(3, 16));
        died(&mut bands, 3, 2, 16);
        assert_eq!(bands.most_invalid(), (5, 1), "it lies in the full band");
    }
}

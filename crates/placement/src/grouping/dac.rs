//! Dynamic data clustering (Chiang, Lee and Chang, 1999), as the authors of SepBIT compare with it: a block is a group hotter
//! with each write of a host and a group colder with each move. The group of the version before is all that it remembers.

use super::{Grouping, Move, Placed, Write};

const GROUPS: u8 = 6;

/// Six groups, the coldest first.
#[derive(Clone, Copy, Debug, Default)]
pub struct Dac;

impl Grouping for Dac {
    fn groups(&self) -> u8 {
        GROUPS
    }

    fn of_write(&mut self, write: &Write) -> Placed {
        Placed::group(write.over.map_or(0, |version| (version.group + 1).min(GROUPS - 1)))
    }

    fn of_move(&mut self, moved: &Move) -> Placed {
        Placed::group(moved.version.group.saturating_sub(1))
    }
}

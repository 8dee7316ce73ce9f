//! Dynamic data clustering (Chiang, Lee and Chang, 1999), in the form with which the authors of SepBIT compare: a
//! block moves to the next hotter group with each write by a host, and to the next colder one with each move. It
//! remembers only the group of the version before.

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

//! Writes all blocks into one band.

use super::{Grouping, Move, Placed, Write};

/// A single group.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSeparation;

impl Grouping for NoSeparation {
    fn groups(&self) -> u8 {
        1
    }

    fn of_write(&mut self, _write: &Write) -> Placed {
        Placed::group(0)
    }

    fn of_move(&mut self, _moved: &Move) -> Placed {
        Placed::group(0)
    }
}

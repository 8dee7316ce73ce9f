//! Separates blocks that hosts write from blocks that collection moves ("SepGC").

use super::{Grouping, Move, Placed, Write};

/// Two groups: written by hosts, and moved.
#[derive(Clone, Copy, Debug, Default)]
pub struct ByOrigin;

impl Grouping for ByOrigin {
    fn groups(&self) -> u8 {
        2
    }

    fn of_write(&mut self, _write: &Write) -> Placed {
        Placed::group(0)
    }

    fn of_move(&mut self, _moved: &Move) -> Placed {
        Placed::group(1)
    }
}

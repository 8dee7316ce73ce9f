//! What writes do rather than what they hold: the last resort of classification.
//!
//! Two small fixed tables, no clock: time is counted in blocks written. The guesses change only streams (`hot` and
//! `temp` are staged like the default) except for recycled logs, where the pattern must be clear; everything is
//! forgotten by halving, so a wrong guess does not stay.

mod overwrite;
mod sequential;

pub(crate) use overwrite::{Guess, Overwrites, REGION_BLOCKS, Write};
pub(crate) use sequential::Streams;

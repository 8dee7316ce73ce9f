//! Classification by the pattern of writes rather than their contents: the last resort.
//!
//! Two small tables of fixed size, no clock: time is counted in written blocks. The guesses only separate streams
//! (`hot` and `temp` are staged like the default), except for recycled logs, which require a clear pattern; all
//! counts are halved regularly, so that a wrong guess does not last.

mod overwrite;
mod sequential;

pub(crate) use overwrite::{Guess, Overwrites, REGION_BLOCKS, Write};
pub(crate) use sequential::Streams;

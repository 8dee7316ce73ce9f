//! Strings of a trace, in the form that columns take.

use crate::{NameTable, Names};
use ::parquet::data_type::ByteArray;

/// Names by number for a writer. It keeps its own, since requests wait in it for their row group.
#[derive(Default)]
pub(super) struct Texts {
    pub volumes: Vec<ByteArray>,
    pub processes: Vec<ByteArray>,
    pub paths: Vec<ByteArray>,
}

impl Texts {
    /// Adds what is new in `names`.
    pub fn learn(&mut self, names: &Names) {
        learn(&mut self.volumes, &names.volumes);
        learn(&mut self.processes, &names.processes);
        learn(&mut self.paths, &names.paths);
    }
}

fn learn(texts: &mut Vec<ByteArray>, names: &NameTable) {
    let known = texts.len();
    texts.extend(names.iter().skip(known).map(ByteArray::from));
}

/// The name of a number; `None` if it is not known.
pub(super) fn text(texts: &[ByteArray], number: u32) -> Option<ByteArray> {
    texts.get(number as usize).filter(|_| number != 0).cloned()
}

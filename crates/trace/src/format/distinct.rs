//! Names of volumes in a file whose format cannot hold all names: volumes of different names keep different ones.

use crate::NameTable;
use std::collections::{HashMap, HashSet};

/// Longest name in bytes, as it is read.
const NAME_BYTES_MAX: usize = 255;

/// The name in the file of each volume.
#[derive(Default)]
pub(super) struct DistinctNames {
    by_volume: HashMap<u32, String>,
    taken: HashSet<String>,
}

impl DistinctNames {
    /// The name of a volume in the file. `held` makes of its name one that the format holds. If that is the name of another volume, a number
    /// follows it.
    pub fn name(&mut self, volume: u32, names: &NameTable, held: impl FnOnce(&str) -> String) -> &str {
        let Self { by_volume, taken } = self;
        by_volume.entry(volume).or_insert_with(|| {
            let own = names.name(volume);
            let held = held(own);
            let numbered = |number: u32| match number {
                1 => cut(&held, NAME_BYTES_MAX).to_owned(),
                _ => {
                    let number = format!("_{number}");
                    cut(&held, NAME_BYTES_MAX - number.len()).to_owned() + &number
                }
            };
            let is_free = |name: &String| !taken.contains(name) && (name == own || names.find(name).is_none());
            let name = (1..).map(numbered).find(is_free).unwrap_or_default();
            taken.insert(name.clone());
            name
        })
    }
}

/// The beginning of a text, at most so many bytes.
fn cut(text: &str, len_bytes: usize) -> &str {
    &text[..text.floor_char_boundary(len_bytes)]
}

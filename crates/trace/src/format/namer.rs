//! Numbers of names that are repeated often.

use crate::NameTable;

/// Longer names are cut.
const NAME_BYTES_MAX: usize = 255;

/// Number of names that are remembered.
const REMEMBERED: usize = 8;

/// Remembers the last names; the next one is mostly among them.
#[derive(Default)]
pub(super) struct Namer {
    names: [(Vec<u8>, Option<u32>); REMEMBERED],
    /// Index of the last name.
    last: usize,
    /// Index of the name that is replaced next.
    oldest: usize,
}

impl Namer {
    /// The number of a name in `table`; `write` makes the name from its bytes in the trace.
    #[inline]
    pub fn number(&mut self, raw: &[u8], table: &mut NameTable, write: impl FnOnce(&str) -> String) -> u32 {
        match &self.names[self.last] {
            (name, Some(number)) if name == raw => *number,
            _ => self.look_up(raw, table, write),
        }
    }

    fn look_up(&mut self, raw: &[u8], table: &mut NameTable, write: impl FnOnce(&str) -> String) -> u32 {
        // Names that the table had no room for are passed to it again, so that it counts them.
        let is_it = |(name, number): &(Vec<u8>, Option<u32>)| number.is_some_and(|number| number > 0) && name == raw;
        if let Some(at) = self.names.iter().position(is_it) {
            self.last = at;
        } else {
            self.last = self.oldest;
            self.oldest = (self.oldest + 1) % REMEMBERED;
            let (name, number) = &mut self.names[self.last];
            name.clear();
            name.extend_from_slice(raw);
            *number = Some(table.number(&write(&text(raw))));
        }
        self.names[self.last].1.unwrap_or(0)
    }
}

/// The text of a name, cut if it is too long.
pub(super) fn text(raw: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(&raw[..raw.len().min(NAME_BYTES_MAX)])
}

/// The name as in the trace.
pub(super) fn as_is(name: &str) -> String {
    name.to_owned()
}

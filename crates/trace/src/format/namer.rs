//! Numbers of names that come again and again.

use crate::NameTable;

/// Longer names are cut.
const NAME_BYTES_MAX: usize = 255;

/// Remembers the last name, which is mostly the next one, too.
#[derive(Default)]
pub(super) struct Namer {
    last: Vec<u8>,
    number: Option<u32>,
}

impl Namer {
    /// The number that `table` gives the name; `write` makes the name from the bytes that stand for it in the trace.
    #[inline]
    pub fn number(&mut self, raw: &[u8], table: &mut NameTable, write: impl FnOnce(&str) -> String) -> u32 {
        match self.number {
            Some(number) if self.last == raw => number,
            _ => self.look_up(raw, table, write),
        }
    }

    fn look_up(&mut self, raw: &[u8], table: &mut NameTable, write: impl FnOnce(&str) -> String) -> u32 {
        self.last.clear();
        self.last.extend_from_slice(raw);
        let number = table.number(&write(&text(raw)));
        self.number = Some(number);
        number
    }
}

/// The text of a name, cut where it is too long.
pub(super) fn text(raw: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(&raw[..raw.len().min(NAME_BYTES_MAX)])
}

/// The name as it stands in the trace.
pub(super) fn as_is(name: &str) -> String {
    name.to_owned()
}

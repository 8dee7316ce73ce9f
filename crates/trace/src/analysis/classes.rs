//! Assigns requests to classes as they arrive, for a live view; no blocks are followed.

use super::blocks::BLOCK_BYTES;
use super::rows::{By, Part, Rows};
use crate::{Knows, Names, Op, Request};
use forebay_prism::Rule;

/// Assigns each request the row that an analysis by class would give it.
pub struct Classes {
    rows: Rows,
    parts: Vec<Part>,
}

impl Classes {
    /// `rules` are pairs of class and rule, the first match wins; then marks, hints and behaviour decide.
    #[must_use]
    pub fn new(rules: &[(String, Rule)]) -> Self {
        Self { rows: Rows::new(By::Class, rules), parts: Vec::new() }
    }

    /// The number of a request's class; of several parts, that of the largest. `None` for a flush, a discard, or a read whose class depends
    /// on who wrote the data.
    pub fn class(&mut self, request: &Request, names: &Names, knows: Knows) -> Option<u16> {
        let first = request.offset_bytes / BLOCK_BYTES;
        let blocks = (request.end_bytes().div_ceil(BLOCK_BYTES)).saturating_sub(first).max(1);
        match request.op {
            Op::Read | Op::Access => self.rows.read(request, first, blocks, names, knows),
            Op::Write => {
                self.parts.clear();
                self.rows.write(request, first, blocks, names, knows, &mut self.parts);
                self.parts.iter().max_by_key(|part| part.blocks).map(|part| part.row)
            }
            Op::Discard | Op::WriteZeroes => {
                self.rows.discard(request);
                None
            }
            Op::Flush => None,
        }
    }

    /// The name of a class.
    #[must_use]
    pub fn name(&self, class: u16) -> &str {
        self.rows.names().get(usize::from(class)).map_or("", String::as_str)
    }
}

#[cfg(test)]
// In tests, a panic reports the failure.
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::{Flags, Lifetime};

    #[test]
    fn rules_marks_and_hints_come_in_their_order() {
        let rule = Rule::parse("process:db_bench").unwrap();
        let mut classes = Classes::new(&[("mine".to_owned(), rule)]);
        let mut names = Names::default();
        let process = names.processes.number("db_bench");
        let knows = Knows { flags: true, lifetime: true, process: true, ..Knows::default() };
        let write = Request { lifetime: Lifetime::Short, ..Request::new(0, Op::Write, 0, 8192) };
        let read = Request { op: Op::Read, lifetime: Lifetime::NotSet, ..write };
        for (request, wanted) in [
            (Request { process, flags: Flags::META, ..write }, Some("mine")),
            (Request { flags: Flags::META, ..write }, Some("metadata")),
            (write, Some("lifetime short")),
            (Request { process, ..read }, Some("mine")),
            (read, None),
            (Request::new(0, Op::Flush, 0, 0), None),
            (Request::new(0, Op::Discard, 0, u64::MAX), None),
        ] {
            let class = classes.class(&request, &names, knows);
            assert_eq!(class.map(|class| classes.name(class)), wanted, "{request:?}");
        }
        // Without any evidence, behaviour decides.
        let class = classes.class(&Request { lifetime: Lifetime::NotSet, ..write }, &names, knows).unwrap();
        assert!(!classes.name(class).is_empty());
    }
}

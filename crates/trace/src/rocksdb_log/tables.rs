//! The known tables by number.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Most tables that are kept, including deleted ones.
const TABLES_MAX: usize = 1 << 20;

/// Number and size of tables that were written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Created {
    /// Number of tables.
    pub tables: u64,
    /// Bytes of their files.
    pub bytes: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Table {
    level: Option<u8>,
    created: Option<u8>,
    /// Time of the log entry that gave the level.
    reported_at: u64,
    bytes: u64,
    deleted: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Tables {
    tables: BTreeMap<u64, Table>,
    /// Deleted tables in the order of their deletion.
    deleted: VecDeque<u64>,
    changed: BTreeSet<u64>,
    sums: BTreeMap<Option<u8>, Created>,
    next_number: u64,
    forgotten: u64,
    limit: usize,
}

impl Default for Tables {
    fn default() -> Self {
        Self::with_limit(TABLES_MAX)
    }
}

impl Tables {
    pub fn with_limit(limit: usize) -> Self {
        Self {
            tables: BTreeMap::new(),
            deleted: VecDeque::new(),
            changed: BTreeSet::new(),
            sums: BTreeMap::new(),
            next_number: 0,
            forgotten: 0,
            limit,
        }
    }

    pub fn level(&self, number: u64) -> Option<u8> {
        self.tables.get(&number)?.level
    }

    pub fn level_created(&self, number: u64) -> Option<u8> {
        self.tables.get(&number)?.created
    }

    pub fn created_levels(&self) -> impl Iterator<Item = (u64, u8)> + '_ {
        self.tables.iter().filter_map(|(&number, table)| Some((number, table.created?)))
    }

    pub fn sums(&self) -> impl Iterator<Item = (Option<u8>, Created)> + '_ {
        self.sums.iter().filter(|(_, sum)| sum.tables > 0).map(|(&level, &sum)| (level, sum))
    }

    pub fn take_changed(&mut self) -> BTreeSet<u64> {
        std::mem::take(&mut self.changed)
    }

    /// A number greater than every logged one.
    pub fn next_number(&self) -> u64 {
        self.next_number
    }

    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Notes that a table was written, or (with 0 bytes) is about to be; earlier entries are kept.
    pub fn wrote(&mut self, at: u64, number: u64, level: Option<u8>, bytes: u64) {
        let Some(table) = self.entry(number) else { return };
        let before = *table;
        table.created = table.created.or(level);
        // A later move is logged before the end of a compaction, which may come late.
        if table.level.is_none() && !table.deleted && level.is_some() {
            table.level = level;
            table.reported_at = at;
        }
        if table.bytes == 0 {
            table.bytes = bytes;
        }
        let after = *table;
        self.account(before, after);
        if (before.level, before.created) != (after.level, after.created) {
            self.changed.insert(number);
        }
    }

    /// Notes that a table is now at a level.
    pub fn set_level(&mut self, at: u64, number: u64, level: u8) {
        let Some(table) = self.entry(number) else { return };
        // Lines of a log buffer come late: a later move may have been logged before.
        if table.deleted || at < table.reported_at {
            return;
        }
        table.reported_at = at;
        if table.level != Some(level) {
            table.level = Some(level);
            self.changed.insert(number);
        }
    }

    pub fn deletes(&mut self, number: u64) {
        let Some(table) = self.tables.get_mut(&number) else { return };
        if !table.deleted {
            table.deleted = true;
            table.level = None;
            self.deleted.push_back(number);
            self.changed.insert(number);
        }
    }

    fn account(&mut self, before: Table, after: Table) {
        if before.bytes > 0 {
            let sum = self.sums.entry(before.created).or_default();
            sum.tables = sum.tables.saturating_sub(1);
            sum.bytes = sum.bytes.saturating_sub(before.bytes);
        }
        if after.bytes > 0 {
            let sum = self.sums.entry(after.created).or_default();
            sum.tables += 1;
            sum.bytes = sum.bytes.saturating_add(after.bytes);
        }
    }

    fn entry(&mut self, number: u64) -> Option<&mut Table> {
        if self.tables.len() >= self.limit && !self.tables.contains_key(&number) {
            self.forgotten += 1;
            let oldest = self.deleted.pop_front()?;
            self.tables.remove(&oldest);
            self.changed.remove(&oldest);
        }
        self.next_number = self.next_number.max(number.saturating_add(1));
        Some(self.tables.entry(number).or_default())
    }
}

#[cfg(test)]
// In tests, a panic reports the failure.
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn deleted_tables_make_place_for_others_and_nothing_else_does() {
        let mut tables = Tables::with_limit(3);
        for number in 1..=3 {
            tables.wrote(0, number, Some(0), 10);
        }
        tables.wrote(0, 4, Some(0), 10);
        assert_eq!((tables.level_created(4), tables.forgotten()), (None, 1));
        tables.deletes(2);
        tables.wrote(0, 5, Some(1), 10);
        assert_eq!((tables.level_created(2), tables.level_created(5), tables.forgotten()), (None, Some(1), 2));
        assert_eq!(tables.take_changed().into_iter().collect::<Vec<_>>(), [1, 3, 5]);
        assert_eq!(tables.tables.len(), 3);
        // Written tables are counted, whether or not they are remembered.
        let sums: Vec<_> = tables.sums().collect();
        assert_eq!(sums, [(Some(0), Created { tables: 3, bytes: 30 }), (Some(1), Created { tables: 1, bytes: 10 })]);
    }

    #[test]
    fn a_move_that_is_reported_late_does_not_undo_a_later_one() {
        let mut tables = Tables::default();
        tables.wrote(10, 7, Some(1), 100);
        tables.set_level(30, 7, 3);
        tables.set_level(20, 7, 2);
        assert_eq!((tables.level(7), tables.level_created(7)), (Some(3), Some(1)));
    }
}

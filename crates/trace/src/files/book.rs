//! What is known of a mount, and which part of it has been reported. Events, walks and looks change it, and it decides what is to be
//! reported. Does no I/O.

use super::events::Event;
use super::extents::Layout;
use super::handle::{Handle, Id};
use super::look::Found;
use super::schedule::{Schedule, Timing};
use super::shared::{CHANGES_MAX, EXTENTS_MAX};
use super::table::{LateTable, Levels, is_sign, table_number};
use super::tree::{Linked, Name, Removed, Tree};
use super::{Change, FileFacts, Lifetime, WatchOptions};
use std::collections::VecDeque;
use std::hash::RandomState;
use std::time::Instant;

/// Number of looks without success after which a name is taken to be gone.
const MISSES_MAX: u8 = 2;

/// State of a file.
#[derive(Debug, Default)]
pub(super) struct File {
    size_bytes: u64,
    lifetime: Option<Lifetime>,
    levels: Levels,
    links: u32,
    extents: u32,
    fingerprint: Option<u64>,
    is_cut: bool,
    is_reported: bool,
    /// Whether it is in [`Book::stale`].
    is_stale: bool,
    misses: u8,
    timing: Timing,
}

/// Work that follows from an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Todo {
    /// Read this folder, and everything below it if the flag says so.
    Scan(u64, bool),
    /// Walk the whole mount: events were lost, or names are not known.
    Walk,
    /// This folder may be a database of RocksDB.
    Notice(u64),
    /// A table of this number was made in this folder.
    Table(u64, u64),
}

/// Most deleted tables that wait to be handled.
const LATE_MAX: usize = 4096;

/// The state of a mount.
#[derive(Debug)]
pub struct Book {
    options: WatchOptions,
    /// The mount point.
    point: std::path::PathBuf,
    subvolume: u64,
    pub(super) tree: Tree<File>,
    pub(super) schedule: Schedule,
    /// Changes that are to be reported and have not been passed on yet.
    outbox: Vec<Change>,
    outbox_extents: usize,
    /// Number of waiting changes and extents after the last were passed on.
    waiting: (usize, usize),
    /// Files to be reported once there is room.
    stale: VecDeque<u64>,
    hash: RandomState,
    /// Tables that were deleted before their level was known.
    late: Vec<LateTable>,
    /// Counts for the watch's state.
    pub(super) extents: usize,
    pub(super) left_out_files: u64,
    pub(super) cut_files: usize,
    pub(super) lost: u64,
}

impl Book {
    /// An empty book for a mount at `point` with this root.
    pub fn new(options: WatchOptions, point: std::path::PathBuf, root: Handle) -> Self {
        Self {
            tree: Tree::new(root.id, options.files_max),
            point,
            options,
            subvolume: root.subvolume,
            schedule: Schedule::default(),
            outbox: Vec::new(),
            outbox_extents: 0,
            waiting: (0, 0),
            stale: VecDeque::new(),
            hash: RandomState::new(),
            late: Vec::new(),
            extents: 0,
            left_out_files: 0,
            cut_files: 0,
            lost: 0,
        }
    }

    /// The absolute path of an inode.
    pub fn path(&self, inode: u64) -> Option<std::path::PathBuf> {
        let path = self.tree.path(inode)?;
        // Joining an empty path would append a slash.
        Some(if path.as_os_str().is_empty() { self.point.clone() } else { self.point.join(path) })
    }

    /// Whether a handle belongs to this (sub)volume.
    pub fn is_ours(&self, handle: &Handle) -> bool {
        handle.subvolume == self.subvolume
    }

    /// Handles an event. `is_whole` means that events report every name, and that everything from before is known.
    pub fn event(&mut self, event: &Event<'_>, is_whole: bool, now: Instant, todo: &mut Vec<Todo>) {
        if event.mask & libc::FAN_Q_OVERFLOW != 0 {
            self.lost += 1;
            todo.push(Todo::Walk);
            return;
        }
        let is_folder = event.mask & libc::FAN_ONDIR != 0;
        let has = |mask: u64| event.mask & mask != 0;
        let ours = |entry: &super::events::Entry<'_>| entry.folder.subvolume == self.subvolume && entry.name != b".";
        let entry = event.entry.filter(ours);
        let from = event.from.filter(ours);
        if event.file.is_some_and(|file| !self.is_ours(&file)) {
            return;
        }
        let file = event.file.map(|file| file.id);
        if let Some(entry) = entry {
            let folder = entry.folder.id.inode;
            let is_known = self.tree.id(folder) == Some(entry.folder.id);
            let comes = has(libc::FAN_CREATE | libc::FAN_MOVED_TO | libc::FAN_RENAME);
            match file {
                Some(id) if is_known && (comes || !is_whole && !has(libc::FAN_DELETE | libc::FAN_MOVED_FROM)) => {
                    self.name(folder, entry.name, id, is_folder, now, todo);
                }
                None if is_known && comes => todo.push(Todo::Scan(folder, false)),
                _ => {}
            }
            if has(libc::FAN_DELETE | libc::FAN_MOVED_FROM) {
                let inode = file.map(|id| id.inode);
                let is_still = inode.is_none() || self.tree.id(inode.unwrap_or_default()) == file;
                // If the name was created and deleted in one event, a look finds out whether it exists.
                if !comes && is_still {
                    self.no_name(folder, entry.name, inode, todo);
                }
            }
        }
        if let Some(from) = from {
            self.no_name(from.folder.id.inode, from.name, file.map(|id| id.inode), todo);
        }
        if let Some(id) = file.filter(|_| has(libc::FAN_MODIFY | libc::FAN_CLOSE_WRITE))
            && self.tree.id(id.inode) == Some(id)
        {
            self.touch(id.inode, now);
        }
    }

    fn touch(&mut self, inode: u64, now: Instant) {
        if let Some(file) = self.tree.file_mut(inode) {
            self.schedule.touched(inode, &mut file.timing, now);
        }
    }

    /// Handles a name that an event reports.
    fn name(&mut self, folder: u64, name: &[u8], id: Id, is_folder: bool, now: Instant, todo: &mut Vec<Todo>) {
        match self.link(folder, name, id, is_folder, todo) {
            Linked::New if is_folder => todo.push(Todo::Scan(id.inode, true)),
            Linked::New | Linked::Known => self.touch(id.inode, now),
            Linked::Refused => {}
        }
    }

    fn no_name(&mut self, folder: u64, name: &[u8], inode: Option<u64>, todo: &mut Vec<Todo>) {
        let mut removed = Vec::new();
        let table = self.unreported_table(folder, name);
        if let Some(inode) = self.tree.unlink(folder, name, inode, &mut removed) {
            self.tell(inode);
        }
        if let Some(table) = table.filter(|table| removed.iter().any(|gone| gone.id.inode == table.facts.inode)) {
            self.late.push(table);
        }
        self.gone(removed, todo);
    }

    /// The table of this name, if its level has not been reported yet. If places on the disk are wanted, the level does not matter after
    /// the deletion; and without a generation its inode number may belong to another file by then.
    fn unreported_table(&self, folder: u64, name: &[u8]) -> Option<LateTable> {
        if self.options.with_extents || self.late.len() >= LATE_MAX {
            return None;
        }
        let number = table_number(name)?;
        let inode = *self.tree.entries(folder)?.get(name)?;
        self.tree.file(inode).filter(|file| file.is_reported && file.levels.written.is_none())?;
        let facts = self.facts(inode).filter(|facts| facts.generation != 0)?;
        Some(LateTable { folder, number, facts })
    }

    /// Takes the deleted tables whose levels may still become known.
    pub fn take_late(&mut self) -> impl Iterator<Item = LateTable> + use<> {
        std::mem::take(&mut self.late).into_iter()
    }

    /// Reports the level of a deleted table.
    pub fn tell_late(&mut self, facts: FileFacts) {
        let (inode, generation) = (facts.inode, facts.generation);
        self.outbox.push(Change::File { facts, extents: None, seen_ns: 0 });
        self.outbox.push(Change::Gone { inode, generation });
    }

    /// Sets the name of a file or folder, found by an event or a walk.
    pub fn link(&mut self, folder: u64, name: &[u8], id: Id, is_folder: bool, todo: &mut Vec<Todo>) -> Linked {
        let mut removed = Vec::new();
        let before = if is_folder { self.first_name(id.inode) } else { None };
        let linked = self.tree.link(folder, name, id, is_folder, &mut removed);
        self.left_out_files += self.tree.take_left_out();
        self.gone(removed, todo);
        if linked == Linked::New && !is_folder {
            self.tell(id.inode);
        }
        if linked != Linked::Refused && is_sign(name) {
            todo.push(Todo::Notice(folder));
        }
        if linked == Linked::New
            && let Some(number) = table_number(name)
        {
            todo.push(Todo::Table(folder, number));
        }
        if linked == Linked::Known && is_folder && self.first_name(id.inode) != before {
            for inode in self.tree.files_below(id.inode) {
                self.tell(inode);
            }
        }
        linked
    }

    fn first_name(&self, inode: u64) -> Option<(u64, Name)> {
        self.tree.name(inode).map(|(folder, name)| (folder, name.clone()))
    }

    /// Notes that a walk has met this file.
    pub fn met(&mut self, inode: u64) {
        if !self.options.with_extents {
            return;
        }
        if let Some(file) = self.tree.file_mut(inode) {
            self.schedule.met(inode, &mut file.timing);
        }
    }

    /// Notes that a walk has not found a name where it was.
    pub fn not_there(&mut self, folder: u64, name: &[u8], todo: &mut Vec<Todo>) {
        self.no_name(folder, name, None, todo);
    }

    fn gone(&mut self, removed: Vec<Removed<File>>, todo: &mut Vec<Todo>) {
        for Removed { id, mut file } in removed {
            self.schedule.forget(id.inode, &mut file.timing);
            self.extents -= file.extents as usize;
            self.cut_files -= usize::from(file.is_cut);
            if file.is_reported {
                // Bounded by the number of files that were reported.
                self.outbox.push(Change::Gone { inode: id.inode, generation: id.generation });
            } else {
                self.left_out_files += 1;
            }
            if file.links > 1 {
                // The file may have names that are not known here.
                todo.push(Todo::Walk);
            }
        }
    }

    fn facts(&self, inode: u64) -> Option<FileFacts> {
        let (id, file, path) = (self.tree.id(inode)?, self.tree.file(inode)?, self.path(inode)?);
        Some(FileFacts {
            inode,
            generation: id.generation,
            path: path.to_string_lossy().into_owned(),
            size_bytes: file.size_bytes,
            lifetime: file.lifetime,
            level: file.levels.now,
            level_written: file.levels.written,
        })
    }

    /// Whether there is room for more changes.
    pub fn has_room(&self) -> bool {
        self.waiting.0 + self.outbox.len() < CHANGES_MAX && self.waiting.1 + self.outbox_extents < EXTENTS_MAX
    }

    /// Reports a file's facts, now or once there is room.
    fn tell(&mut self, inode: u64) {
        if self.has_room() {
            self.push(inode, None, 0);
        } else if let Some(file) = self.tree.file_mut(inode)
            && !file.is_stale
        {
            file.is_stale = true;
            self.stale.push_back(inode);
        }
    }

    fn push(&mut self, inode: u64, extents: Option<Vec<super::Extent>>, seen_ns: u64) {
        let Some(facts) = self.facts(inode) else { return };
        self.outbox_extents += extents.as_ref().map_or(0, Vec::len);
        self.outbox.push(Change::File { facts, extents, seen_ns });
        if let Some(file) = self.tree.file_mut(inode) {
            file.is_reported = true;
        }
    }

    /// Passes the changes to `put`, which returns how many changes and extents are then waiting.
    pub fn drain(&mut self, put: impl FnOnce(&mut Vec<Change>) -> (usize, usize)) {
        while self.has_room() {
            let Some(inode) = self.stale.pop_front() else { break };
            if let Some(file) = self.tree.file_mut(inode).filter(|file| file.is_stale) {
                file.is_stale = false;
                self.push(inode, None, 0);
            }
        }
        self.waiting = put(&mut self.outbox);
        self.outbox_extents = 0;
    }

    /// The next file to look at: one that is due, or with `bulk` one that a walk has met.
    pub fn next_look(&mut self, now: Instant, bulk: bool) -> Option<Id> {
        loop {
            let inode = if bulk { self.schedule.pop_bulk() } else { self.schedule.pop(now) }?;
            if let Some(file) = self.tree.file_mut(inode) {
                file.timing.popped();
                return self.tree.id(inode);
            }
        }
    }

    /// Most extents that may be kept for this file.
    pub fn extents_limit(&self, inode: u64) -> usize {
        let own = self.tree.file(inode).map_or(0, |file| file.extents as usize);
        self.options.extents_max.saturating_sub(self.extents - own)
    }

    /// Handles a look that has found its file.
    pub fn found(&mut self, id: Id, found: Found, begun: Instant, ended: Instant) {
        let Some(file) = self.tree.file_mut(id.inode) else { return };
        let again = found.layout.as_ref().is_some_and(|layout| layout.is_pending || layout.is_shared);
        // Shared blocks move when the file is written back, which no event reports: it is looked at several times after a write, but not
        // forever.
        let again = again && (found.layout.as_ref().is_some_and(|layout| layout.is_pending) || file.timing.looks() < 9);
        self.schedule.looked(id.inode, &mut file.timing, begun, ended, again);
        file.misses = 0;
        file.links = found.links;
        let mut is_news = (file.size_bytes, file.lifetime) != (found.size_bytes, found.lifetime);
        file.size_bytes = found.size_bytes;
        file.lifetime = found.lifetime;
        let mut changed = None;
        if let Some(layout) = found.layout {
            let Layout { extents, left_out, .. } = &layout;
            self.extents = self.extents - file.extents as usize + extents.len();
            file.extents = extents.len() as u32;
            self.cut_files = self.cut_files - usize::from(file.is_cut) + usize::from(*left_out > 0);
            file.is_cut = *left_out > 0;
            let fingerprint = layout.fingerprint(&self.hash);
            if file.fingerprint != Some(fingerprint) {
                file.fingerprint = Some(fingerprint);
                is_news = true;
                changed = Some(layout.extents);
            }
        }
        if is_news {
            self.push(id.inode, changed, since(begun));
        }
    }

    /// Handles a look that has not found its file.
    pub fn missing(&mut self, id: Id, now: Instant, todo: &mut Vec<Todo>) {
        let Some(file) = self.tree.file_mut(id.inode) else { return };
        file.misses += 1;
        if file.misses < MISSES_MAX {
            self.schedule.missed(id.inode, &mut file.timing, now);
            return;
        }
        file.misses = 0;
        if let Some((folder, name)) = self.first_name(id.inode) {
            self.no_name(folder, &name, Some(id.inode), todo);
            // Look for it by another name, if it has one.
            self.touch(id.inode, now);
        }
    }

    /// Handles a look whose file is no regular file.
    pub fn other(&mut self, id: Id, todo: &mut Vec<Todo>) {
        for _ in 0..=super::tree::NAMES_MAX {
            let Some((folder, name)) = self.first_name(id.inode) else { return };
            self.no_name(folder, &name, Some(id.inode), todo);
        }
    }

    /// Sets the levels of a table.
    pub fn set_levels(&mut self, inode: u64, levels: Levels) {
        if let Some(file) = self.tree.file_mut(inode).filter(|file| file.levels != levels) {
            file.levels = levels;
            self.tell(inode);
        }
    }

    /// Handles a look that has failed; it will be repeated later.
    pub fn failed(&mut self, id: Id, begun: Instant, ended: Instant) {
        if let Some(file) = self.tree.file_mut(id.inode) {
            self.schedule.looked(id.inode, &mut file.timing, begun, ended, true);
        }
    }
}

/// `begun` by the monotonic clock, in nanoseconds.
fn since(begun: Instant) -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let now_ns = (now.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(now.tv_nsec as u64);
    now_ns.saturating_sub(u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;

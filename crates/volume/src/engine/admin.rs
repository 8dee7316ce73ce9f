//! Changes of disks and classes while the pool is served. A change is durable with the next checkpoint, for which each
//! of these functions asks.

use super::AdoptionStatus;
use super::Engine;
use super::admin_error::{AdminError, DISK_NAME_MAX, DISKS_MAX};
use super::construct::{frames, memory_needed_bytes};
use super::map::Map;
use super::requests::{Client, ClientKind};
use super::served::RequestCounts;
use super::setup::Setup;
use crate::layout::base::Base;
use crate::layout::page::{self, Entry, LEAF_ENTRIES};
use crate::map::index::{Disk, INDEX_SPAN_BYTES, NO_FRAME};
use forebay_block::{BLOCK_BYTES_U64 as BLOCK, DiskId};

/// The frames of a disk's leaves from one on, which hold nothing; `None` where one of these leaves is on a device, or
/// being changed.
fn idle_frames_from(map: &Map, disk: &Disk, from: u64) -> Option<Vec<u32>> {
    let leaves = std::iter::successors(disk.next_leaf(from), |leaf| disk.next_leaf(leaf + 1));
    leaves
        .map(|leaf| {
            let (reference, frame) = disk.leaf(leaf);
            let held = (frame != NO_FRAME).then(|| map.frames.get(frame));
            let busy = held.is_some_and(|frame| frame.dirty || frame.writing || frame.loading || frame.pins > 0);
            (reference.location == 0 && !busy).then_some(frame)
        })
        .collect()
}

impl Engine {
    /// Bytes of disks that the pool can promise: the capacity tier less what collection needs to go on.
    #[must_use]
    pub fn usable_bytes(&self) -> u64 {
        let count = self.space.bands.count() as u64;
        let reserve = (count * 7 / 100).max(2) + 1;
        count.saturating_sub(reserve) * u64::from(self.space.bands.data_blocks()) * 4096
    }

    /// Bytes promised to disks.
    #[must_use]
    pub fn promised_bytes(&self) -> u64 {
        self.map.disks.values().map(|disk| disk.size_bytes).sum()
    }

    fn check_size(&self, old_bytes: u64, size_bytes: u64) -> Result<(), AdminError> {
        if let Some(reason) = self.refusal() {
            return Err(AdminError::ReadOnly(reason.to_owned()));
        }
        if size_bytes == 0 || !size_bytes.is_multiple_of(4096) || size_bytes > 1 << 58 {
            return Err(AdminError::BadSize(size_bytes));
        }
        let usable_bytes = self.usable_bytes();
        let free_bytes = usable_bytes.saturating_sub(self.promised_bytes() - old_bytes);
        let is_let_in = self.setup.options.overcommit || size_bytes <= old_bytes;
        if size_bytes > free_bytes && !is_let_in {
            return Err(AdminError::TooLarge { wanted_bytes: size_bytes, free_bytes, usable_bytes });
        }
        if !is_let_in {
            self.check_map_of(old_bytes, size_bytes)?;
        }
        let sizes = self.map.disks.values().map(|disk| disk.size_bytes).chain([size_bytes.saturating_sub(old_bytes)]);
        let needed_bytes = memory_needed_bytes(&self.setup.superblock, &self.setup.extents, sizes);
        let limit_bytes = self.setup.options.memory_limit_bytes;
        if needed_bytes > limit_bytes && self.setup.options.frames.is_none() {
            return Err(AdminError::Memory { needed_bytes, limit_bytes });
        }
        Ok(())
    }

    /// Adds a thin disk.
    ///
    /// # Errors
    /// See [`AdminError`].
    pub fn add_disk(&mut self, name: &str, size_bytes: u64) -> Result<DiskId, AdminError> {
        let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if name.is_empty() || name.len() > DISK_NAME_MAX || !name.chars().all(good) {
            return Err(AdminError::BadName(name.to_owned()));
        }
        if self.disk_named(name).is_some() {
            return Err(AdminError::NameTaken(name.to_owned()));
        }
        if self.map.disks.len() >= DISKS_MAX || self.map.next_disk == u16::MAX {
            return Err(AdminError::TooMany);
        }
        self.check_size(0, size_bytes)?;
        let id = DiskId(self.map.next_disk);
        self.map.disks.insert(id.0, Disk::new(id, name.to_owned(), size_bytes));
        if let Err(error) = self.check_index(!self.setup.options.overcommit).and_then(|()| self.make_room_for_map()) {
            self.map.disks.remove(&id.0);
            return Err(error);
        }
        self.map.next_disk += 1;
        self.disks_changed();
        Ok(id)
    }

    /// Changes the size of a disk.
    ///
    /// # Errors
    /// See [`AdminError`]; shrinking is refused where data lies beyond the new end. What was discarded there may be released by the next checkpoint only, and
    /// the leaf in which the disk is to end may have to be read first: `MappedBeyond` is final only after both.
    pub fn resize_disk(&mut self, name: &str, size_bytes: u64) -> Result<(), AdminError> {
        let disk = self.disk_named(name).ok_or_else(|| AdminError::NoDisk(name.to_owned()))?;
        let (id, old_bytes, has_base) = (disk.id, disk.size_bytes, disk.base.is_some());
        self.check_size(old_bytes, size_bytes)?;
        if size_bytes < old_bytes && has_base {
            return Err(AdminError::HasBase(name.to_owned()));
        }
        if size_bytes < old_bytes {
            let goes_beyond = |client: &Client| client.offset_bytes.saturating_add(client.len_bytes) > size_bytes;
            if self.checkpoint.is_active() || self.is_used(id, goes_beyond) {
                return Err(AdminError::InUse(name.to_owned()));
            }
            let Some(frames) = self.idle_frames_beyond(id, size_bytes / BLOCK) else {
                return Err(AdminError::MappedBeyond(name.to_owned()));
            };
            frames.into_iter().for_each(|frame| self.map.drop_frame(frame));
        }
        if let Some(disk) = self.map.disk_mut(id) {
            let kept = size_bytes.div_ceil(INDEX_SPAN_BYTES) as usize;
            let gone: Vec<_> = disk.pages.drain(kept.min(disk.pages.len())..).flatten().collect();
            disk.resize(size_bytes);
            gone.into_iter().for_each(|page| self.checkpoint.pages.supersede(page.reference));
        }
        if size_bytes > old_bytes
            && let Err(error) = self.check_grown()
        {
            if let Some(disk) = self.map.disk_mut(id) {
                disk.resize(old_bytes);
            }
            return Err(error);
        }
        self.disks_changed();
        Ok(())
    }

    /// Lays a disk, to which nothing was written yet, over a base. It is served when [`crate::Pool::attach_base`] was called, and a durable root names it.
    ///
    /// # Errors
    /// See [`AdminError`].
    pub fn lay_over(&mut self, id: DiskId, base: Base) -> Result<(), AdminError> {
        let Some(disk) = self.map.disk_mut(id) else { return Err(AdminError::NoDisk(String::new())) };
        if disk.durable_bytes > 0 {
            return Err(AdminError::NotEmpty(disk.name.clone()));
        }
        if base.blocks == 0 || base.blocks > disk.blocks() {
            return Err(AdminError::BadBase { blocks: base.blocks });
        }
        disk.base = Some(base);
        Ok(())
    }

    /// Ends the adoption of a disk: everything in its base was copied.
    ///
    /// # Errors
    /// See [`AdminError`].
    pub fn detach_base(&mut self, name: &str) -> Result<(), AdminError> {
        if let Some(reason) = self.refusal() {
            return Err(AdminError::ReadOnly(reason.to_owned()));
        }
        let id = self.disk_named(name).ok_or_else(|| AdminError::NoDisk(name.to_owned()))?.id;
        self.look_at_damage();
        let Some(AdoptionStatus { done_blocks, blocks, is_complete, is_leaving, failed_blocks, why, .. }) =
            self.adoption(id)
        else {
            return Err(AdminError::NoBase(name.to_owned()));
        };
        if is_leaving {
            // Asked again: a root that says so is due.
            self.abandon_base(id);
            return Ok(());
        }
        if !is_complete {
            let why = match (failed_blocks, why) {
                (0, _) => String::new(),
                (failed, why) => {
                    let why = why.map_or_else(String::new, |why| format!(", the last of them because of this: {why}"));
                    format!("; {failed} could not be copied, and are tried again{why}")
                }
            };
            return Err(AdminError::BaseNeeded { name: name.to_owned(), done_blocks, blocks, why });
        }
        let kept = |why| Err(AdminError::BaseKept { name: name.to_owned(), why });
        if self.capacity_side_error().is_some() {
            return kept(
                "the capacity-side checkpoint cannot be written, and the one that is there names it: look at the first capacity device",
            );
        }
        if self.adoption.is_kept(id) {
            return kept(
                "blocks that a crash had left in a cache could not be written again when the pool was opened: look at the devices, and detach it after a \
                 restart",
            );
        }
        self.abandon_base(id);
        Ok(())
    }

    /// A disk does without its base from now on, whatever it lacks then: for a disk that is about to be removed, or
    /// whose base was copied.
    pub fn abandon_base(&mut self, id: DiskId) {
        if let Some(disk) = self.map.disk_mut(id).filter(|disk| disk.base.is_some()) {
            disk.leaves_base = true;
            self.checkpoint.request(false);
        }
    }

    /// Whether requests of this kind, other than a scrub's, are in progress on a disk.
    fn is_used(&self, id: DiskId, such: impl Fn(&Client) -> bool) -> bool {
        // A scrub treats a disk that is gone like a hole.
        let by_host = |client: &Client| !matches!(client.kind, ClientKind::Scrub { .. });
        self.requests.clients.iter().any(|(_, client)| client.disk == id && by_host(client) && such(client))
    }

    /// Frames of the leaves behind a new end of a disk, which are empty; `None` where data may be mapped from that block on, as far as memory shows.
    fn idle_frames_beyond(&self, id: DiskId, block: u64) -> Option<Vec<u32>> {
        let disk = self.map.disk(id)?;
        let (leaf, at) = (block / LEAF_ENTRIES as u64, (block % LEAF_ENTRIES as u64) as usize);
        let frames = idle_frames_from(&self.map, disk, leaf + u64::from(at > 0))?;
        if at == 0 || disk.next_leaf(leaf) != Some(leaf) {
            return Some(frames);
        }
        // The disk is to end within this leaf.
        let frame = disk.frame(leaf);
        if frame == NO_FRAME || self.map.frames.get(frame).loading {
            return None;
        }
        let page = &self.map.frames.get(frame).page;
        let is_nothing = |at: usize| matches!(page::leaf_entry(page, at).0, Entry::Unmapped | Entry::Zero);
        (at..LEAF_ENTRIES).all(is_nothing).then_some(frames)
    }

    /// The disk that a removal by this name means: one that has the name, or else one that had it when its removal was
    /// begun.
    #[must_use]
    pub fn disk_to_remove(&self, name: &str) -> Option<&Disk> {
        let had_it = |disk: &&Disk| disk.name == disk.name_of_removed(name);
        self.disk_named(name).or_else(|| self.map.disks.values().find(had_it))
    }

    /// The removal of a disk begins: it has another name from now on, and for good with the next checkpoint. What is left of it while its data is discarded
    /// must be nobody's, also after a crash.
    pub fn begin_removal(&mut self, id: DiskId) {
        if let Some(disk) = self.map.disk_mut(id).filter(|disk| !disk.is_being_removed()) {
            disk.name = disk.name_of_removed(&disk.name);
            self.disks_changed();
        }
    }

    /// Removes an empty disk. To empty it: discard all of it, then wait for a checkpoint.
    ///
    /// # Errors
    /// See [`AdminError`].
    pub fn remove_disk(&mut self, name: &str) -> Result<(), AdminError> {
        let disk = self.disk_named(name).ok_or_else(|| AdminError::NoDisk(name.to_owned()))?;
        let id = disk.id;
        let Some(frames) = idle_frames_from(&self.map, disk, 0) else {
            return Err(AdminError::NotEmpty(name.to_owned()));
        };
        if self.is_used(id, |_| true) || self.checkpoint.is_active() {
            return Err(AdminError::NotEmpty(name.to_owned()));
        }
        frames.into_iter().for_each(|frame| self.map.drop_frame(frame));
        // Its index pages may still be on the device, with nothing in them.
        let pages = self.map.disks.remove(&id.0).map(|disk| disk.pages).unwrap_or_default();
        pages.into_iter().flatten().for_each(|page| self.checkpoint.pages.supersede(page.reference));
        self.stats.disks.remove(&id.0);
        self.disks_changed();
        Ok(())
    }

    /// Checks that the map of the disks as they are to be has slots, and that recovery has memory for what the journal names beside it; from then on the
    /// journal names no more.
    fn make_room_for_map(&mut self) -> Result<(), AdminError> {
        if let needed @ 1.. = self.slots_missing_for_map() {
            return Err(AdminError::NoRoomForMap { needed });
        }
        let sizes = self.map.disks.values().map(|disk| disk.size_bytes);
        let Setup { options, superblock, extents, beside_bytes, .. } = &*self.setup;
        let frames = frames(options, superblock, extents, sizes, *beside_bytes);
        let fits = self.checkpoint.limit_by_memory(frames, self.requests.executing);
        if fits { Ok(()) } else { Err(AdminError::Busy) }
    }

    /// The same for a disk that was made larger. With `overcommit` the root's room is not checked: what the disk holds
    /// is in the root as before.
    fn check_grown(&mut self) -> Result<(), AdminError> {
        if self.setup.options.overcommit { Ok(()) } else { self.check_index(true) }
            .and_then(|()| self.make_room_for_map())
    }

    fn disks_changed(&mut self) {
        self.prism.set_disks(&self.map.disk_names());
        self.checkpoint.index_room.count(&mut self.map);
        self.reserve_for_map();
        self.checkpoint.request(false);
    }

    /// The class table, to be changed by the caller, who then calls [`Engine::classes_changed`].
    pub fn prism_mut(&mut self) -> &mut forebay_prism::Prism {
        &mut self.prism
    }

    /// Policies changed: statistics and destage hints follow.
    pub fn classes_changed(&mut self) {
        let classes = self.prism.table().classes().len();
        if self.stats.classes.len() < classes {
            self.stats.classes.resize(classes, Default::default());
        }
        self.space.changed = true;
        self.prepare_copies();
        self.reserve_for_map();
        self.migrate.policy_changed();
        self.checkpoint.request(false);
    }

    /// Requests for a disk that were answered since the start.
    #[must_use]
    pub fn requests_of(&self, disk: DiskId) -> RequestCounts {
        self.stats.disks.get(&disk.0).copied().unwrap_or_default()
    }
}

//! What an opening reads before it replays the journal.

use super::disks::{LoadedDisks, load_disks};
use super::opened_root::OpenedRoot;
use super::report::OpenError;
use super::survey::{MissingBatches, Survey};
use super::surveyor::survey;
use crate::engine::{EngineOptions, memory_needed_bytes};
use crate::io::Devices;
use crate::journal::JournalGeometry;
use crate::layout::root::{Root, RootHeader};
use crate::layout::superblock::Superblock;
use crate::space::extents::Extents;
use forebay_prism::{ClassSpec, ClassTable};

/// What an opening goes by.
pub(super) struct Terms<'a> {
    /// Of each device, in the order of the pool's table.
    pub superblocks: &'a [Superblock],
    /// As configured, to be merged over what the pool stores.
    pub classes: &'a [ClassSpec],
    pub options: &'a EngineOptions,
    pub missing_batches: MissingBatches,
}

impl Terms<'_> {
    /// The superblock of the device with root and journal.
    pub fn superblock(&self) -> &Superblock {
        &self.superblocks[0]
    }

    /// Where the journal is.
    pub fn journal(&self) -> JournalGeometry {
        let superblock = self.superblock();
        JournalGeometry {
            offset_bytes: superblock.journal_offset_bytes,
            len_bytes: superblock.journal_len_bytes,
            sector_bytes: u64::from(superblock.journal_sector_bytes),
        }
    }

    fn check_memory(&self, root: &Root) -> Result<(), OpenError> {
        let extents = Extents::new(&self.superblock().members, self.superblock().band_bytes);
        let sizes = root.disks.iter().map(|disk| disk.size_bytes);
        let needed_bytes = memory_needed_bytes(self.superblock(), &extents, sizes);
        if self.options.frames.is_none() && needed_bytes > self.options.memory_limit_bytes {
            return Err(OpenError::Limit { needed_bytes, limit_bytes: self.options.memory_limit_bytes });
        }
        Ok(())
    }
}

/// A root, with all that it names but the leaves.
pub(super) struct Loaded {
    pub header: RootHeader,
    pub root: Root,
    pub disks: LoadedDisks,
    /// The pool's classes as the configuration has them.
    pub classes: ClassTable,
    /// A class that the pool knew has another place now.
    pub has_moved: bool,
}

impl Loaded {
    /// Reads what a root names, where memory suffices for it.
    pub fn load(chosen: OpenedRoot, devices: &mut Devices, terms: &Terms) -> Result<Self, OpenError> {
        let OpenedRoot { header, root } = chosen;
        terms.check_memory(&root)?;
        let disks = load_disks(devices, terms.superblock(), &root, terms.missing_batches)?;
        let mut classes = ClassTable::decode(&root.classes)?;
        let places = |table: &ClassTable| table.classes().iter().map(|class| class.place).collect::<Vec<_>>();
        let before = places(&classes);
        classes.merge(terms.classes)?;
        let has_moved = !places(&classes).starts_with(&before);
        Ok(Self { header, root, disks, classes, has_moved })
    }

    /// Reads the journal behind the root.
    pub fn survey(&self, devices: &mut Devices, terms: &Terms) -> Result<Survey, OpenError> {
        survey(devices, terms.journal(), terms.superblock(), &self.header, &self.root, terms.missing_batches)
    }
}

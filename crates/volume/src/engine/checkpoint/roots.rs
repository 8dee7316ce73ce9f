//! Writes the root: its blob into the area that the older root leaves free, then its headers, then headers of the older
//! root that say that it is superseded.

use super::pages::PageWriter;
use crate::engine::map::Map;
use crate::engine::outbox::{Outbox, Pending};
use crate::engine::setup::Setup;
use crate::layout::base::Base;
use crate::layout::policy_state;
use crate::layout::root::{DiskRoot, Root, RootHeader};
use crate::layout::root_blob;
use crate::layout::sections::KeptSection;
use crate::layout::superblock::Superblock;
use crate::map::index::Disk;
use forebay_block::Buf;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Further attempts at writing the headers of a root.
const HEADER_ATTEMPTS_MAX: u32 = 3;
const BLOB_CHUNK_BYTES: usize = 1 << 20;

/// State of writing roots.
pub(crate) struct RootWriter {
    setup: Arc<Setup>,
    /// Number of the last durable root.
    number: u64,
    /// Sections of the root that this program does not know.
    kept: Vec<KeptSection>,
    /// Attempts at writing the headers of this checkpoint.
    header_attempts: u32,
    /// It is unknown whether headers of the last attempt are on the device: its area must not be touched again.
    is_stuck: bool,
    /// The root of the last attempt did not fit into its area.
    is_too_small: bool,
    root: Root,
    /// What policies have learned, to be written beside the root.
    policy: Option<Vec<u8>>,
    /// An attempt failed since the last durable root: the next must not fail because of something on which nothing
    /// depends.
    has_failed: bool,
    /// The attempt has the policies' state beside it.
    has_policy: bool,
    header: Option<RootHeader>,
    /// The bases of disks when the checkpoint began. A detach since then is for the next checkpoint: what the detach waited for is not in this one's map.
    bases: BTreeMap<u16, Option<Base>>,
    /// What the root says of each disk: its number, its size in bytes, and whether it has a base.
    disks: Vec<(u16, u64, bool)>,
}

impl RootWriter {
    /// Goes on after root `number`.
    pub fn new(setup: Arc<Setup>, number: u64, kept: Vec<KeptSection>) -> Self {
        Self {
            setup,
            number,
            kept,
            header_attempts: 0,
            is_stuck: false,
            is_too_small: false,
            root: Root::default(),
            policy: None,
            has_failed: false,
            has_policy: false,
            header: None,
            bases: BTreeMap::new(),
            disks: Vec::new(),
        }
    }

    /// Number of the last durable root.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Whether no root can be written any more: it is unknown whether headers of one are on the device.
    pub fn is_stuck(&self) -> bool {
        self.is_stuck
    }

    /// Whether the root of the last attempt did not fit into its area.
    pub fn is_too_small(&self) -> bool {
        self.is_too_small
    }

    /// Bytes of the sections that newer programs have in the root.
    pub fn kept_bytes(&self) -> u64 {
        self.kept.iter().map(KeptSection::len_bytes).sum()
    }

    /// A checkpoint begins; `root` says what is fixed at this moment.
    pub fn begin(&mut self, root: Root, map: &Map) {
        self.header_attempts = 0;
        self.bases = map.disks.values().map(|disk| (disk.id.0, disk.base_for_root())).collect();
        self.root = Root { kept: self.kept.clone(), ..root };
    }

    /// What policies have learned goes beside the root of the checkpoint that has begun, unless an attempt has failed.
    pub fn add_policy_state(&mut self, state: Option<Vec<u8>>) {
        self.policy = state.filter(|_| !self.has_failed);
        self.has_policy = self.policy.is_some();
    }

    /// Whether the last attempt failed, perhaps because of what policies have learned: the next does without that.
    pub fn may_do_without_policy(&self) -> bool {
        self.has_failed && self.has_policy
    }

    /// Writes the blob, and returns the root. An error where the root area is too small for it.
    pub fn write_blob(
        &mut self,
        (map, pages, outbox): (&Map, &mut PageWriter, &mut Outbox),
        epoch: u64,
        counts_due: bool,
    ) -> Result<Root, &'static str> {
        // Disks may have been added since the freeze; their ids must never be given out again.
        self.root.next_disk = map.next_disk;
        let base_of = |disk: &Disk| self.bases.get(&disk.id.0).copied().flatten().or_else(|| disk.base_for_root());
        self.root.disks = map.disks.values().map(|disk| disk_root(disk, base_of(disk))).collect();
        let shown = |disk: &Disk| (disk.id.0, disk.size_bytes, base_of(disk).is_some());
        self.disks = map.disks.values().map(shown).collect();
        let Some(shadow) = pages.take_shadow() else { return Ok(Root::default()) };
        self.root.slots = shadow.words().to_vec();
        let root = std::mem::take(&mut self.root);
        let number = self.number + 1;
        let area = self.setup.superblock.root_offsets_bytes[(number % 2) as usize];
        let bytes_max = self.setup.superblock.root_len_bytes.saturating_sub(2 * 4096);
        let blob = root_blob::encode_within(&root, bytes_max);
        self.is_too_small = blob.is_none();
        let blob = blob.ok_or("the root area is too small for this map")?;
        self.header = Some(Root::header(&blob, number, (epoch, self.setup.options.opening), counts_due));
        let mut offset_bytes = area + 4096;
        for chunk in blob.chunks(BLOB_CHUNK_BYTES) {
            let mut buf = Buf::zeroed(chunk.len().next_multiple_of(4096));
            buf[..chunk.len()].copy_from_slice(chunk);
            let len = buf.len() as u64;
            pages.send(offset_bytes, buf.freeze(), Pending::RootOut, outbox);
            offset_bytes += len;
        }
        if let (Some(state), Some(beside)) =
            (self.policy.take(), policy_state::offset_bytes(&self.setup.superblock, number))
            && offset_bytes <= beside
        {
            let bytes = policy_state::encode(&state, number, &self.setup.superblock.pool);
            pages.send(beside, Buf::copy_of(&bytes).freeze(), Pending::RootOut, outbox);
        }
        Ok(root)
    }

    /// Writes the headers, past any cache. What they name is durable already; a flush after them could fail, and would leave
    /// open whether they are. False where there are none to be written.
    pub fn write_headers(&mut self, pages: &mut PageWriter, outbox: &mut Outbox) -> bool {
        let Some(header) = self.header else { return false };
        self.write_header_copies(&header, pages, outbox);
        true
    }

    /// Writing the headers failed. A copy may be on the device, and then there is no way back: another attempt would write its blob under this header. So the
    /// same bytes are written again; if that fails, too, nothing more is written, and the result is false.
    pub fn retry_headers(&mut self, pages: &mut PageWriter, outbox: &mut Outbox) -> bool {
        self.header_attempts += 1;
        if self.header_attempts <= HEADER_ATTEMPTS_MAX {
            return self.write_headers(pages, outbox);
        }
        self.is_stuck = true;
        false
    }

    fn write_header_copies(&self, header: &RootHeader, pages: &mut PageWriter, outbox: &mut Outbox) {
        for offset_bytes in header_offsets(&self.setup.superblock, header.checkpoint) {
            let buf = Buf::copy_of(&header.encode(&self.setup.superblock.pool)).freeze();
            pages.send_header(offset_bytes, buf, outbox);
        }
    }

    /// The headers are durable, and with them the root: returns its number. Should the new root be lost, the older one
    /// must never be taken for the newest, so its headers name the new one.
    pub fn durable(&mut self, map: &mut Map, pages: &mut PageWriter, outbox: &mut Outbox) -> Option<u64> {
        let header = self.header.take()?;
        self.number = header.checkpoint;
        self.has_failed = false;
        for (id, size_bytes, has_base) in std::mem::take(&mut self.disks) {
            if let Some(disk) = map.disks.get_mut(&id) {
                disk.note_durable_root(size_bytes, has_base);
            }
        }
        let older = RootHeader { checkpoint: header.checkpoint - 1, superseded_by: header.checkpoint, ..header };
        self.write_header_copies(&older, pages, outbox);
        Some(header.checkpoint)
    }

    /// The checkpoint is given up.
    pub fn abort(&mut self) {
        self.header = None;
        self.has_failed = true;
    }
}

fn disk_root(disk: &Disk, base: Option<Base>) -> DiskRoot {
    let pages = disk.pages.iter().enumerate();
    let pages = pages.filter_map(|(i, page)| page.as_ref().map(|page| (i as u32, page.reference)));
    DiskRoot {
        id: disk.id.0,
        name: disk.name.clone(),
        size_bytes: disk.size_bytes,
        base,
        pages: pages.filter(|(_, reference)| reference.location != 0).collect(),
    }
}

/// Where the two header copies of a checkpoint's root lie.
pub(crate) fn header_offsets(superblock: &Superblock, checkpoint: u64) -> [u64; 2] {
    let area = superblock.root_offsets_bytes[(checkpoint % 2) as usize];
    [area, area + superblock.root_len_bytes - 4096]
}

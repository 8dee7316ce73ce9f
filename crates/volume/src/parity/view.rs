//! What the engine and the server know of an array, and what they tell it: the array itself lies behind the device trait. Most of it is as
//! for a mirror.

use crate::layout::array_shape::{BLOCK, Shape};
use crate::layout::format_id;
use crate::mirror::{Member, MirrorView};
use crate::runs::Runs;
use forebay_block::lock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// A handle of an array.
#[derive(Clone)]
pub struct ArrayView {
    members: MirrorView,
    shape: Shape,
    /// How far each band was written, in blocks of data; `None` after the array has taken it.
    fronts: Arc<Mutex<Option<Vec<u32>>>>,
    /// Rows that a power cut may have torn although the log has nothing of them. `None`: nobody has said, so any row may be.
    torn: Arc<Mutex<Option<Runs>>>,
    in_doubt: Arc<AtomicU64>,
    written_bytes: Arc<AtomicU64>,
    is_settling: Arc<AtomicBool>,
    /// One bit for each member that a rebuild waits for.
    rebuild_waits_for: Arc<AtomicU32>,
}

impl ArrayView {
    pub(super) fn new(members: MirrorView, shape: Shape) -> Self {
        Self {
            members,
            shape,
            fronts: Arc::default(),
            torn: Arc::default(),
            in_doubt: Arc::default(),
            written_bytes: Arc::default(),
            is_settling: Arc::default(),
            rebuild_waits_for: Arc::default(),
        }
    }

    /// Its members: what each holds, and offers of others.
    #[must_use]
    pub fn members(&self) -> &MirrorView {
        &self.members
    }

    /// Where everything lies.
    #[must_use]
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// How often a block can be read in another way, where what its member has is wrong.
    #[must_use]
    pub fn variants(&self) -> u8 {
        self.shape.variants()
    }

    /// Says how far each band was written, in blocks of 4 KiB from its start: nothing lives beyond that, and writes there need no care for
    /// what was there before.
    pub fn set_fronts(&self, fronts: Vec<u32>) {
        *lock(&self.fronts) = Some(fronts);
    }

    /// Rows in which something was written beside a block that contradicts parity, since the array was put together. Either a power cut
    /// tore the row while it was written as a whole, and the block is right; or the block is damaged, and nobody can restore it any more.
    #[must_use]
    pub fn rows_in_doubt(&self) -> u64 {
        self.in_doubt.load(Ordering::Relaxed)
    }

    /// An opening finds these rows as a power cut may have left them, and all others as they were made whole. This holds until all is
    /// settled.
    pub(crate) fn add_maybe_torn(&self, rows: Runs) {
        lock(&self.torn).get_or_insert_default().add_all(rows);
    }

    /// Whether the parity of a row may belong to something else than was written there last.
    pub(super) fn is_maybe_torn(&self, row: u64) -> bool {
        let torn = lock(&self.torn);
        !self.members.is_settled() && torn.as_ref().is_none_or(|torn| torn.meets(row..row + 1))
    }

    pub(super) fn count_row_in_doubt(&self) {
        self.in_doubt.fetch_add(1, Ordering::Relaxed);
    }

    /// Bytes that were written to all members together since the array was put together, without the share of parity in whole rows: so much
    /// data in whole rows would have cost the members the same.
    #[must_use]
    pub fn written_as_rows_bytes(&self) -> u64 {
        let (data, all) = (self.shape.data as u128, (self.shape.data + self.shape.parity) as u128);
        (u128::from(self.written_bytes.load(Ordering::Relaxed)) * data / all.max(1)) as u64
    }

    pub(super) fn count_written(&self, bytes: u64) {
        self.written_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Whether changes wait while the array is served: because the log is being read anew after a flush that failed, or because what it has
    /// of bands that are written again is being erased.
    #[must_use]
    pub fn is_settling(&self) -> bool {
        self.is_settling.load(Ordering::Relaxed)
    }

    pub(super) fn set_settling(&self, is_settling: bool) {
        self.is_settling.store(is_settling, Ordering::Relaxed);
    }

    pub(super) fn take_fronts(&self) -> Option<Vec<u32>> {
        lock(&self.fronts).take()
    }

    pub(super) fn is_begun(&self) -> bool {
        self.members.is_begun()
    }

    pub(super) fn now_ns(&self) -> u64 {
        self.members.now_ns()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.members.is_idle()
    }

    pub(super) fn rebuild_bytes_per_s(&self) -> u64 {
        self.members.rebuild_bytes_per_s()
    }

    pub(super) fn count_failed_read(&self, number: usize) {
        self.members.set_status(|status| status.members[number].failed_reads += 1);
    }

    pub(super) fn count_mended(&self) {
        self.members.set_status(|status| status.mended_blocks += 1);
    }

    pub(super) fn count_unreadable(&self, places: u32) {
        if places > 0 {
            self.members.set_status(|status| status.unreadable_blocks += u64::from(places));
        }
    }

    /// Members without which a rebuild does not go on, and that do not answer: by the names of their devices, or by their ids.
    #[must_use]
    pub fn rebuild_waits_for(&self) -> Vec<String> {
        let waits_for = self.rebuild_waits_for.load(Ordering::Relaxed);
        let members = if waits_for == 0 { Vec::new() } else { self.members.status().members };
        let waited = members.into_iter().enumerate().filter(|(number, _)| waits_for & 1 << number != 0);
        waited.map(|(_, member)| if member.name.is_empty() { format_id(&member.id) } else { member.name }).collect()
    }

    pub(super) fn set_rebuild_waits_for(&self, members: u32) {
        self.rebuild_waits_for.store(members, Ordering::Relaxed);
    }

    pub(super) fn set_broken(&self, why: String) {
        self.members.set_status(|status| status.broken = Some(why));
    }

    /// A label is durable, and is shown now. Not before: whoever sees that a member holds everything may take others away.
    pub(super) fn show_label(&self, generation: u64, rebuilt_rows: u64, members: &[Member]) {
        self.members.set_status(|status| {
            (status.generation, status.rebuilt_bytes) = (generation, rebuilt_rows * BLOCK);
            status.members.iter_mut().zip(members).for_each(|(shown, member)| shown.state = member.state);
        });
    }
}

//! When a job is due, and whether one could free what others wait for.

use super::collect::begun_band;
use super::job::{JobKind, Phase};
use super::rooms::Moving;
use super::state::Migrate;
use crate::engine::limits::JOBS_MAX;
use crate::engine::setup::Setup;
use crate::engine::space::Space;
use crate::layout::band_summary::GROUP_BLOCKS;
use crate::layout::page::BLOCK_GRAINS;
use crate::layout::root::BandRoot;
use crate::space::spare::Spare;
use std::collections::BTreeSet;

/// Wait after a job that failed or found nothing, in nanoseconds.
const PAUSE_NS: u64 = 100_000_000;
/// How often that wait doubles at most, once more jobs have failed than [`FAILURES_MAX`].
const PAUSE_DOUBLINGS_MAX: u32 = 6;
/// After this many jobs in a row that failed or found nothing, requests that wait for space are refused. More than a
/// few: a job that runs out of bands fails, and by that what it had been granted becomes empty and is freed.
const FAILURES_MAX: u32 = 30;
/// Bands' worth of room below which hosts are held to what collection gains: with fewer free, collection has no room
/// for several bands at once.
const PACED_BANDS: usize = 4;

/// Whether a job is in progress, or one could free something now or after the pause.
pub(super) fn may_free(rooms: &Moving<'_>) -> bool {
    if rooms.is_read_only || rooms.flushes.has_failed() {
        return false;
    }
    if may_unpin(rooms) || !rooms.summaries.trimming().is_empty() {
        return true;
    }
    if rooms.migrate.failures >= FAILURES_MAX {
        return false;
    }
    // Where no checkpoint can be written any more, jobs that wait for one free nothing, and keep others from beginning.
    let jobs = &rooms.migrate.jobs;
    if rooms.checkpoint.hopeless(&rooms.stats.counters).is_some() && jobs.len() >= rooms.setup.limits.jobs {
        return jobs.iter().any(|(_, job)| !matches!(job.phase, Phase::Record | Phase::Apply));
    }
    // A collection that is possible but not due does not count: it will not come, for example while there are free
    // bands that cannot be opened.
    !jobs.is_empty() || destage_due(rooms) || collect_due(rooms) && victim(rooms).is_some()
}

/// Whether bands, or places in them, wait for a checkpoint that could be written.
fn may_unpin(rooms: &Moving<'_>) -> bool {
    let waits = rooms.checkpoint.capacity.pinned() > 0 || !rooms.migrate.stranded.is_empty();
    waits && rooms.checkpoint.hopeless(&rooms.stats.counters).is_none()
}

/// There is no room to move anything to. What was freed and is not yet durable would help, so a flush of it is asked
/// for: nobody else may ever flush. Where nothing is in progress that could help, this counts as a job that found
/// nothing.
pub(super) fn want_freed(rooms: &mut Moving<'_>) {
    if !rooms.space.freed.is_empty() {
        rooms.flushes.want();
    } else if may_unpin(rooms) {
        rooms.checkpoint.want_another();
    } else if rooms.outbox.is_empty() {
        rooms.migrate.fails(rooms.space.died_grains());
        pause(rooms);
    }
}

/// Data has died, as by discards: jobs that found nothing before may find something now.
pub(super) fn look_at_died(rooms: &mut Moving<'_>) {
    let band_grains = u64::from(rooms.space.bands.data_blocks()) * BLOCK_GRAINS;
    rooms.migrate.forgive(rooms.space.died_grains(), band_grains);
}

/// Waits before the next job: the longer, the more jobs in a row have found nothing.
pub(super) fn pause(rooms: &mut Moving<'_>) {
    let longer = rooms.migrate.failures.saturating_sub(FAILURES_MAX).min(PAUSE_DOUBLINGS_MAX);
    rooms.migrate.not_before_ns = rooms.now_ns.saturating_add(PAUSE_NS << longer);
}

pub(super) fn collect_due(rooms: &Moving<'_>) -> bool {
    let low = rooms.space.low_bands();
    let free = rooms.space.bands.free_count() + bands_to_be_free(rooms);
    // A request larger than what is kept free needs more.
    free < low
        || rooms.requests.space_wanted() > free.saturating_sub(low) as u64 * u64::from(rooms.space.bands.data_blocks())
}

/// Updates the pace of hosts with the room that there is.
pub(super) fn look_at_pace(rooms: &mut Moving<'_>) {
    let band_blocks = u64::from(rooms.space.bands.data_blocks());
    let room_blocks = rooms.space.bands.room(false) + bands_to_be_free(rooms) as u64 * band_blocks;
    let enough_blocks = rooms.space.low_bands().min(PACED_BANDS) as u64 * band_blocks;
    let is_collecting = rooms.migrate.in_progress().1;
    rooms.space.pace.look(room_blocks, enough_blocks, is_collecting, rooms.now_ns);
}

/// Empty bands that wait to be free: for a flush, a checkpoint, or the end of their trim.
fn bands_to_be_free(rooms: &Moving<'_>) -> usize {
    rooms.space.freed.bands() + rooms.checkpoint.capacity.pinned() + rooms.summaries.trimming().len()
}

/// Whether the valid blocks of a band fit elsewhere, beside what other jobs move.
pub(super) fn has_room_for(rooms: &Moving<'_>, band: u32) -> bool {
    rooms.space.bands.room(true) >= blocks_to_write(rooms, band)
}

/// Whether a destage is due, and has room.
pub(super) fn may_destage(rooms: &Moving<'_>) -> bool {
    destage_due(rooms) && rooms.space.bands.room(false) > 0
}

/// The best victim of those out of which nothing could be moved, or of all.
pub(super) fn last_victim(rooms: &Moving<'_>) -> Option<u32> {
    let Moving { migrate, space, .. } = rooms;
    space.bands.victim(|band| migrate.leaves_alone(band, space.bands.get(band).generation))
}

/// The band whose collection pays best: one that is begun, or the best of the others. Those out of which nothing could be moved come last.
fn victim(rooms: &Moving<'_>) -> Option<u32> {
    begun_band(rooms).or_else(|| better_victim(rooms)).or_else(|| last_victim(rooms))
}

/// The best victim of those out of which something could be moved as far as is known.
pub(super) fn better_victim(rooms: &Moving<'_>) -> Option<u32> {
    let Moving { migrate, space, .. } = rooms;
    space.bands.victim(|band| {
        let generation = space.bands.get(band).generation;
        migrate.comes_last(band, generation) || migrate.leaves_alone(band, generation)
    })
}

/// Whether so many collections in a row have moved nothing that those which wait for long need not wait for more.
pub(super) fn is_in_vain(migrate: &Migrate) -> bool {
    migrate.in_vain >= FAILURES_MAX
}

/// A band whose parity does not match its data, where there is room for its valid blocks.
pub(super) fn suspect(rooms: &mut Moving<'_>) -> Option<u32> {
    let band = rooms.migrate.next_suspect(&rooms.space.bands)?;
    has_room_for(rooms, band).then_some(band)
}

/// Blocks for which jobs have yet to allocate space, where this band is collected, too: all valid blocks of each band
/// that is collected, and what destages have taken.
fn blocks_to_write(rooms: &Moving<'_>, band: u32) -> u64 {
    let destaging = rooms.migrate.jobs.iter().filter(|(_, job)| {
        job.kind == JobKind::Destage && matches!(job.phase, Phase::Gather | Phase::Read | Phase::Pack)
    });
    let destaging: u64 = destaging.map(|(_, job)| job.candidates.len() as u64).sum();
    destaging + blocks_in_collection(rooms, Some(band))
}

/// Valid blocks of the bands that jobs collect, and of one more, as far as they have no space yet at their destination.
fn blocks_in_collection(rooms: &Moving<'_>, one_more: Option<u32>) -> u64 {
    let mut bands: BTreeSet<u32> = one_more.into_iter().collect();
    let mut granted_grains = 0;
    for (_, job) in &rooms.migrate.jobs {
        if let JobKind::Collect { band } = job.kind {
            bands.insert(band);
            granted_grains += job.granted_grains();
        }
    }
    let bands: Vec<BandRoot> = bands.into_iter().map(|band| rooms.space.bands.get(band)).collect();
    // Each band is rounded up, as what is moved ends within a block.
    let moved = |band: &BandRoot| u64::from(band.moved_grains()).next_multiple_of(BLOCK_GRAINS);
    let grains = bands.iter().map(moved).sum::<u64>().saturating_sub(granted_grains);
    let blocks = grains.div_ceil(BLOCK_GRAINS);
    // Compressed blocks leave some room at the end of each write, and of each group.
    blocks + spare(rooms).map_or(0, |spare| bands.iter().map(|band| spare.of(band)).sum())
}

/// Space that moving compressed blocks may take in addition; `None`: no blocks are compressed.
fn spare(rooms: &Moving<'_>) -> Option<Spare> {
    let blocks_per_job = rooms.setup.limits.blocks_per_job as u64;
    rooms.stats.are_some_packed().then_some(Spare { blocks_per_job })
}

/// Looks whether blocks are compressed, and keeps space accordingly.
pub(super) fn look_at_packed(rooms: &mut Moving<'_>) {
    let spare = spare(rooms);
    rooms.space.bands.kept.packed = spare;
}

/// Keeps the space that collections in progress need.
pub(super) fn keep_for_collection(rooms: &mut Moving<'_>) {
    let blocks = blocks_in_collection(rooms, None);
    rooms.space.bands.kept.in_collection_blocks = blocks;
}

pub(super) fn destage_due(rooms: &Moving<'_>) -> bool {
    if rooms.migrate.ages.is_empty() && rooms.migrate.surveys_left == 0 {
        return false;
    }
    // Copies count with what they are entitled to, whatever they have: more of them make room for whoever wants it.
    let kept = rooms.space.slots_kept().saturating_sub(rooms.copies.slots_held()) + rooms.copies.entitled();
    let is_full = kept * 100 > rooms.space.slots.total() * rooms.setup.options.destage_above_percent;
    // Slots that jobs are about to free are as good as free.
    let soon_free = rooms.space.data_slots_free()
        + rooms.space.freed.slots()
        + rooms.migrate.held.len() as u64
        + rooms.copies.excess();
    let wanted = free_slots_wanted(rooms.setup, rooms.space, rooms.migrate) + rooms.copies.lacking();
    is_full || soon_free < wanted
}

/// Slots that should be free for hosts: what hosts allocate while jobs make room.
pub(crate) fn free_slots_wanted(setup: &Setup, space: &Space, migrate: &Migrate) -> u64 {
    let total = space.slots.total();
    let wanted = 2 * migrate.slots_taken_per_job + setup.limits.blocks_per_job as u64 / 2;
    wanted.min(migrate.free_slots_max.unwrap_or(u64::MAX)).clamp(total / 64 + 1, total / 16 + 1)
}

/// Blocks that a destage takes: so many that several destages make what should be free.
pub(super) fn destage_blocks(rooms: &Moving<'_>) -> usize {
    let wanted = free_slots_wanted(rooms.setup, rooms.space, rooms.migrate) as usize;
    rooms.setup.limits.blocks_per_job.min((wanted / JOBS_MAX).max(GROUP_BLOCKS as usize))
}

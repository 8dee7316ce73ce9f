//! Which job begins next.

use super::collect::begun_band;
use super::due::{
    better_victim, collect_due, destage_due, has_room_for, last_victim, may_destage, suspect, want_freed,
};
use super::gather_together;
use super::job::JobKind;
use super::rooms::Moving;
use super::together::Waiting;

/// How often a band out of which nothing could be moved is tried while data could leave the fast tier, in nanoseconds.
pub(super) const LAST_EVERY_NS: u64 = 1_000_000_000;

/// The next job, where one is due, and the leaves that it looks at where it moves data that waited to leave together.
pub(super) fn next(rooms: &mut Moving<'_>) -> Option<(JobKind, Option<Vec<Waiting>>)> {
    let is_due = collect_due(rooms);
    if is_due && let Some(band) = begun_band(rooms).or_else(|| better_victim(rooms)) {
        return collect(rooms, band);
    }
    if let Some(band) = suspect(rooms) {
        return Some((JobKind::Collect { band }, None));
    }
    // A device may be well again that could not be read: now and then such a band is tried, whatever else is to be done.
    let last = if is_due { last_victim(rooms) } else { None };
    let has_room = last.is_some_and(|band| has_room_for(rooms, band));
    if let Some(band) = last.filter(|_| has_room && may_try_last(rooms)) {
        rooms.migrate.last_not_before_ns = rooms.now_ns.saturating_add(LAST_EVERY_NS);
        return Some((JobKind::Collect { band }, None));
    }
    if may_destage(rooms) {
        return Some((JobKind::Destage, None));
    }
    if destage_due(rooms) || last.is_some() && !has_room {
        want_freed_where_idle(rooms);
        return None;
    }
    gather_together::take_due(rooms).map(|leaves| (JobKind::Destage, Some(leaves)))
}

/// The collection of a band. All of its valid blocks must fit elsewhere before it begins, or it would only use up space; other jobs take from the same room.
fn collect(rooms: &mut Moving<'_>, band: u32) -> Option<(JobKind, Option<Vec<Waiting>>)> {
    if !has_room_for(rooms, band) {
        want_freed_where_idle(rooms);
        return None;
    }
    Some((JobKind::Collect { band }, None))
}

fn want_freed_where_idle(rooms: &mut Moving<'_>) {
    if rooms.migrate.jobs.is_empty() {
        want_freed(rooms);
    }
}

/// Whether a band out of which nothing could be moved is tried again now: one at a time, and not in a row while data could leave the fast tier.
fn may_try_last(rooms: &Moving<'_>) -> bool {
    let Moving { migrate, space, .. } = rooms;
    let is_last = |kind| match kind {
        JobKind::Collect { band } => migrate.comes_last(band, space.bands.get(band).generation),
        JobKind::Destage => false,
    };
    let is_time = rooms.now_ns >= migrate.last_not_before_ns || !may_destage(rooms);
    is_time && !migrate.jobs.iter().any(|(_, job)| is_last(job.kind))
}

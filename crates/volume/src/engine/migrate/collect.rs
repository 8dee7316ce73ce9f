//! Chooses the valid blocks of the band that is collected.

use super::job::{Job, JobKind, Phase};
use super::rooms::{After, Moving};
use super::state::Round;
use crate::engine::Pending;
use crate::engine::map::Leaf;
use crate::engine::mend_groups;
use crate::engine::outbox::SummaryRead;
use crate::layout::band_summary::{self, Summary, SummaryEntry, SummaryName};
use crate::layout::moved::Moved;
use crate::layout::page::{self, Entry, LEAF_ENTRIES};
use crate::layout::root::BandState;
use crate::layout::stored::Stored;
use crate::layout::stream::{Lifetime, Stream};
use crate::readings::good;
use forebay_block::{Buf, IoError, Op, Vectored};

/// Most summary entries looked up in one step, so that hosts are served in between.
const LOOKUPS_PER_STEP: usize = 4096;
/// Groups whose summaries a job reads beyond those that should fill it.
const GROUPS_SPARE: u64 = 2;
/// Most summaries of a band read at once.
const SUMMARIES_AT_ONCE: usize = 256;

/// The round to which the next job on a band belongs; `None` where other jobs look at all that is left of the band.
fn round(rooms: &Moving<'_>, band: u32, others_collect: bool) -> Option<Round> {
    let entry = rooms.space.bands.get(band);
    let generation = entry.generation;
    match rooms.migrate.rounds.get(&band).filter(|round| round.generation == generation) {
        None => Some(Round {
            generation,
            next_group: 0,
            alive_blocks: u64::from(entry.moved_grains()) / page::BLOCK_GRAINS,
            is_known: false,
            handed_out: 0,
        }),
        Some(round) if round.next_group < rooms.space.bands.shape().groups() => Some(*round),
        // From the start, for what the last round has left; not before the last job of that round has ended.
        Some(_) if others_collect => None,
        Some(round) => Some(Round { next_group: 0, ..*round }),
    }
}

/// A band whose groups were not all looked at yet. It comes first: one that is nearly free is worth more than several
/// that are half free. One out of which nothing could be moved does not.
pub(super) fn begun_band(rooms: &Moving<'_>) -> Option<u32> {
    let begun = |band: &u32| {
        let generation = rooms.space.bands.get(*band).generation;
        !rooms.migrate.is_excluded(*band, generation) && !rooms.migrate.comes_last(*band, generation)
    };
    let jobs = rooms.migrate.jobs.iter().filter_map(|(_, job)| match job.kind {
        JobKind::Collect { band } => Some(band),
        JobKind::Destage => None,
    });
    jobs.filter(begun).find(|&band| round(rooms, band, true).is_some())
}

/// Whether another job collects the same band.
pub(super) fn others_collect(rooms: &Moving<'_>, id: u32, band: u32) -> bool {
    rooms.migrate.jobs.iter().any(|(other, job)| other != id as usize && job.kind == JobKind::Collect { band })
}

/// A job takes as many groups of a band as should fill it, from the first that no other has taken.
pub(super) fn collect_begins(rooms: &mut Moving<'_>, id: u32, band: u32) -> After {
    match round(rooms, band, others_collect(rooms, id, band)) {
        Some(round) => look_at_groups(rooms, id, band, round),
        None => After::End { pause: false },
    }
}

fn look_at_groups(rooms: &mut Moving<'_>, id: u32, band: u32, round: Round) -> After {
    let groups = rooms.space.bands.shape().groups();
    let first = round.next_group;
    // Assumes that valid blocks are spread evenly: what is missed or too much is left for the next job.
    let alive = u64::from(rooms.space.bands.get(band).blocks.max(1));
    let wanted = rooms.setup.limits.blocks_per_job as u64 * u64::from(groups) / alive + GROUPS_SPARE;
    let end = u64::from(groups).min(u64::from(first) + wanted) as u32;
    let bands = &rooms.space.bands;
    rooms.migrate.rounds.retain(|&other, round| bands.get(other).generation == round.generation);
    rooms.migrate.rounds.insert(band, Round { next_group: end, handed_out: round.handed_out + 1, ..round });
    let Some(job) = rooms.migrate.job_mut(id) else { return After::Wait };
    job.phase = Phase::Summary;
    if job.handed_out == 0 {
        job.handed_out_before = round.handed_out;
    }
    job.handed_out += 1;
    (job.next_group, job.end_group) = (first, end);
    job.groups_seen += end - first;
    read_summaries(rooms, id, band)
}

/// Nothing that a job looked at is valid any more: it looks at the next groups of its band, where there are any.
pub(super) fn looks_further(rooms: &mut Moving<'_>, id: u32, band: u32) -> Option<After> {
    let groups = rooms.space.bands.shape().groups();
    if rooms.migrate.job(id).is_none_or(|job| job.groups_seen >= 2 * groups) {
        return None;
    }
    let next = round(rooms, band, others_collect(rooms, id, band))?;
    Some(look_at_groups(rooms, id, band, next))
}

/// Whether a job has looked at all that was ever written into a band, and nothing of that is named any more. To be asked when it looks no further, has found
/// nothing, and no other job collects the band.
pub(super) fn has_seen_all_dead(rooms: &Moving<'_>, id: u32, band: u32) -> bool {
    let (Some(job), Some(round)) = (rooms.migrate.job(id), rooms.migrate.rounds.get(&band)) else { return false };
    // What others were given meanwhile they may have found, and have left where it cannot be moved.
    let is_alone = round.handed_out == job.handed_out_before + job.handed_out;
    let bands = &rooms.space.bands;
    is_alone
        && !job.is_incomplete
        && job.lookups.is_empty()
        && round.generation == bands.get(band).generation
        && job.groups_seen >= 2 * bands.shape().groups()
        && bands.may_collect(band)
}

/// Reads the summaries of a job's groups, many at a time. The entries of one that cannot be written are in memory.
pub(super) fn read_summaries(rooms: &mut Moving<'_>, id: u32, band: u32) -> After {
    let shape = rooms.space.bands.shape();
    // Recovery closes bands that are not full, so groups may be missing.
    let written = rooms.space.bands.get(band).written / page::BLOCK_GRAINS as u32;
    while let Some(job) = rooms.migrate.job_mut(id) {
        let group = job.next_group;
        if group >= job.end_group || shape.first_block(group) >= written || shape.group_grains(group) == 0 {
            break;
        }
        if job.outstanding >= SUMMARIES_AT_ONCE {
            return After::Wait;
        }
        job.next_group += 1;
        match rooms.space.bands.groups().entries((band, group)) {
            Some(entries) => look_up(job, rooms.setup.extents.band_location(band, shape.first_block(group)), entries),
            None => read_summary(rooms, id, band, SummaryRead { group, attempt: 0, pages: 1 }),
        }
    }
    if rooms.migrate.job(id).is_some_and(|job| job.outstanding == 0) {
        return summaries_read(rooms, id);
    }
    After::Wait
}

fn read_summary(rooms: &mut Moving<'_>, id: u32, band: u32, which: SummaryRead) {
    let location = which.location(rooms.setup, rooms.space.bands.shape(), band);
    let place = rooms.setup.extents.place(location);
    if let Some(job) = rooms.migrate.job_mut(id) {
        job.outstanding += usize::from(place.is_some());
        job.is_incomplete |= place.is_none();
    }
    let Some((device, offset_bytes)) = place else { return };
    let bufs = Vectored::One(Buf::new(which.pages as usize * page::PAGE_BYTES));
    let op = Op::Read { bufs, attempt: which.attempt };
    rooms.outbox.send(device, offset_bytes, 0, op, Pending::MoveSummary { job: id, which });
}

/// The read of a summary ended. One that cannot be read in any way costs its group: valid blocks there stay, and keep the band from being freed. One that was
/// wrong at first and right later is mended.
pub(super) fn summary_read(
    rooms: &mut Moving<'_>,
    id: u32,
    which: SummaryRead,
    result: Result<(), IoError>,
    bufs: Option<Vectored<Buf>>,
) -> After {
    let SummaryRead { group, attempt, pages } = which;
    let Some(JobKind::Collect { band }) = rooms.migrate.job(id).map(|job| job.kind) else { return After::Wait };
    let (shape, table) = (rooms.space.bands.shape(), rooms.space.bands.get(band));
    let name = SummaryName { band, group, generation: table.generation };
    let bytes = good(result, bufs);
    let decode =
        |bytes: &Buf| band_summary::decode(&rooms.setup.superblock.pool, name, shape.group_grains(group), bytes);
    let found = bytes.as_ref().and_then(decode);
    let start = rooms.setup.extents.band_location(band, shape.first_block(group));
    let Some(job) = rooms.migrate.job_mut(id) else { return After::Wait };
    job.outstanding -= 1;
    let entries = match found {
        // Most summaries have one page.
        Some(Summary::Longer { pages: more, .. }) if more > pages => {
            read_summary(rooms, id, band, SummaryRead { pages: more, ..which });
            return After::Wait;
        }
        found => found.and_then(Summary::whole),
    };
    if entries.is_none() && attempt + 1 < rooms.setup.read_attempts_at(start) {
        read_summary(rooms, id, band, SummaryRead { attempt: attempt + 1, ..which });
        return After::Wait;
    }
    // Not where the band is to be freed: it may hold other data by then.
    if attempt > 0 && entries.is_some() && table.state == BandState::Closed {
        mend_groups::begin(start, mend_groups::AT_ONCE, (rooms.setup, &rooms.space.bands), rooms.outbox);
    }
    if let Some(entries) = entries {
        look_up(job, start, &entries);
    } else {
        job.is_incomplete = true;
        rooms.stats.counters.summary_errors += 1;
        rooms.exclude(band);
    }
    read_summaries(rooms, id, band)
}

/// The blocks that were written into a group, which begins at `start`, are to be looked up in the map.
fn look_up(job: &mut Job, start: u64, entries: &[SummaryEntry]) {
    job.lookups.extend(band_summary::placed(entries).map(|(at, e)| {
        let SummaryEntry { disk, block, origin, checksum, class, note, .. } = *e;
        let source = e.span(start + u64::from(at));
        let stored = Stored { grains: source.grains, checksum };
        Moved { disk, block, source, origin, checksum, stored, class, note }
    }));
}

/// The policy of lifetime groups learns, once, that the collection of a band begins.
fn tell_lifetimes(rooms: &mut Moving<'_>, id: u32) {
    let Some(job) = rooms.migrate.jobs.get(id as usize) else { return };
    let JobKind::Collect { band } = job.kind else { return };
    let Some(round) = rooms.migrate.rounds.get_mut(&band).filter(|round| !round.is_known) else { return };
    round.is_known = true;
    // The first blocks came when the band was opened.
    let now = rooms.stats.written_blocks();
    let opened = job.lookups.iter().map(|moved| moved.origin).min();
    let age = opened.map_or(0, |origin| rooms.space.lifetimes.age(origin, now));
    let table = rooms.space.bands.get(band);
    rooms.space.lifetimes.collected(table.stream, age, table.valid / page::BLOCK_GRAINS as u32);
}

fn summaries_read(rooms: &mut Moving<'_>, id: u32) -> After {
    tell_lifetimes(rooms, id);
    if let Some(job) = rooms.migrate.job_mut(id) {
        // Taken from the end, so in descending order; candidates are sorted again before they are applied.
        job.lookups.sort_by_key(|moved| (moved.disk, moved.block));
        job.phase = Phase::Gather;
    }
    gather_collect(rooms, id)
}

pub(super) fn gather_collect(rooms: &mut Moving<'_>, id: u32) -> After {
    for _ in 0..LOOKUPS_PER_STEP {
        let (limit, leaves_max) = (rooms.setup.limits.blocks_per_job, rooms.checkpoint.leaves_per_job());
        let Some(job) = rooms.migrate.job(id) else { return After::Wait };
        let (Some(&moved), JobKind::Collect { band }) = (job.lookups.last(), job.kind) else {
            return After::Gathered;
        };
        if job.candidates.len() >= limit {
            return After::Gathered;
        }
        let (disk, leaf) = moved.leaf();
        let frame = match rooms.require_leaf(id, disk, leaf) {
            Leaf::Wait => return After::Wait,
            Leaf::Hole => None,
            Leaf::Ready(frame) => Some(frame),
        };
        let entry = frame.map(|frame| {
            let at = (moved.block % LEAF_ENTRIES as u64) as usize;
            page::leaf_entry(&rooms.map.frames.get(frame).page, at)
        });
        let lives = match entry {
            Some((Entry::Data { span, class }, checksum)) => {
                (span == moved.source && checksum == moved.checksum).then_some(class)
            }
            _ => None,
        };
        let Some(job) = rooms.migrate.job_mut(id) else { return After::Wait };
        // The leaf may be readable again another time, and name this block.
        job.is_incomplete |= matches!(entry, Some((Entry::Damaged, _)));
        if lives.is_some() && job.leaves >= leaves_max && job.newest_leaf != Some((disk, leaf)) {
            return After::Gathered;
        }
        job.lookups.pop();
        if let Some(now) = lives {
            let of_band = rooms.space.bands.get(band).stream;
            let age = rooms.space.lifetimes.age(moved.origin, rooms.stats.written_blocks());
            let Lifetime { group, note } = rooms.space.lifetimes.moves(of_band.group, age, moved.note);
            // A band gets one class: mixed classes stay together, rather than opening a band for each.
            let stream = Stream { is_collected: true, group, class: of_band.class };
            // The block's class may have changed since the summary was written.
            job.take(Moved { class: now, note, ..moved }, stream);
        }
    }
    After::Wait
}

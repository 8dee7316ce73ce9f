//! Choosing what still lives in the band that is collected.

use super::job::{JobKind, Phase, waiter};
use super::state::Round;
use crate::engine::Engine;
use crate::engine::Pending;
use crate::engine::map::Leaf;
use crate::io::single;
use crate::layout::band_summary::{self, SummaryEntry, SummaryName};
use crate::layout::page::{self, Entry, LEAF_ENTRIES};
use crate::layout::record::Moved;
use crate::space::stream::COLLECTED;
use forebay_block::{Buf, ClassId, IoError, Op, Vectored};

/// Summary entries looked up in one step, so that hosts are served in between.
const LOOKUPS_PER_STEP: usize = 4096;
/// Groups of which a job reads the summaries beyond those that should fill it.
const GROUPS_SPARE: u64 = 2;
/// Summaries of a band read at once.
const SUMMARIES_AT_ONCE: usize = 256;

impl Engine {
    /// The round that the next job on a band belongs to; `None` where others look at all that is left of it.
    fn round(&self, band: u32, others_collect: bool) -> Option<Round> {
        let generation = self.space.bands.get(band).generation;
        match self.migrate.rounds.get(&band).filter(|round| round.generation == generation) {
            None => Some(Round { generation, next_group: 0 }),
            Some(round) if round.next_group < self.space.bands.shape().groups() => Some(*round),
            // From the start, for what the last round has left; not before its last job has ended.
            Some(_) if others_collect => None,
            Some(_) => Some(Round { generation, next_group: 0 }),
        }
    }

    /// A band whose groups are not all looked at yet: one that is nearly free is worth more than several that are half so.
    pub(super) fn begun_band(&self) -> Option<u32> {
        let begun = |band: &u32| self.migrate.collects(*band) && !self.migrate.excluded_until_ns.contains_key(band);
        let jobs = self.migrate.jobs.iter().filter_map(|(_, job)| match job.kind {
            JobKind::Collect { band } => Some(band),
            JobKind::Destage => None,
        });
        jobs.filter(begun).find(|&band| self.round(band, true).is_some())
    }

    /// Whether another job is at work on the band of this one.
    pub(super) fn others_collect(&self, id: u32, band: u32) -> bool {
        self.migrate.jobs.iter().any(|(other, job)| other != id as usize && job.kind == JobKind::Collect { band })
    }

    /// A job takes as many groups of a band as should fill it, from the first that no other has taken.
    pub(super) fn collect_begins(&mut self, id: u32, band: u32) {
        match self.round(band, self.others_collect(id, band)) {
            Some(round) => self.look_at_groups(id, band, round),
            None => self.end_job(id, false),
        }
    }

    fn look_at_groups(&mut self, id: u32, band: u32, round: Round) {
        let groups = self.space.bands.shape().groups();
        let first = round.next_group;
        // As if what lives were spread evenly: what is missed or too much is left for the next job.
        let valid_blocks = u64::from(self.space.bands.get(band).valid).div_ceil(page::BLOCK_SECTORS).max(1);
        let wanted = self.setup.limits.blocks_per_job as u64 * u64::from(groups) / valid_blocks + GROUPS_SPARE;
        let end = u64::from(groups).min(u64::from(first) + wanted) as u32;
        let bands = &self.space.bands;
        self.migrate.rounds.retain(|&other, round| bands.get(other).generation == round.generation);
        self.migrate.rounds.insert(band, Round { next_group: end, ..round });
        let Some(job) = self.migrate.job_mut(id) else { return };
        job.phase = Phase::Summary;
        (job.next_group, job.end_group) = (first, end);
        job.groups_seen += end - first;
        self.read_summaries(id, band);
    }

    /// Nothing that a job looked at lives any more. True where it looks at the next groups of its band.
    pub(super) fn looks_further(&mut self, id: u32, band: u32) -> bool {
        let groups = self.space.bands.shape().groups();
        if self.migrate.job(id).is_none_or(|job| job.groups_seen >= 2 * groups) {
            return false;
        }
        let Some(next) = self.round(band, self.others_collect(id, band)) else { return false };
        self.look_at_groups(id, band, next);
        true
    }

    /// Reads the summaries of a job's groups, many at a time.
    pub(super) fn read_summaries(&mut self, id: u32, band: u32) {
        let shape = self.space.bands.shape();
        // Recovery closes bands that are not full.
        let written = self.space.bands.get(band).written / page::BLOCK_SECTORS as u32;
        while let Some(job) = self.migrate.job_mut(id) {
            let group = job.next_group;
            if group >= job.end_group || shape.first_block(group) >= written || shape.group_sectors(group) == 0 {
                break;
            }
            if job.outstanding >= SUMMARIES_AT_ONCE {
                return;
            }
            job.next_group += 1;
            let location = self.setup.extents.band_location(band, shape.summary_block(group));
            let Some((device, offset_bytes)) = self.setup.extents.place(location) else { continue };
            if let Some(job) = self.migrate.job_mut(id) {
                job.outstanding += 1;
            }
            let op = Op::Read { bufs: Vectored::One(Buf::new(4096)) };
            self.outbox.send(device, offset_bytes, 0, op, Pending::MoveSummary { job: id, group });
        }
        if self.migrate.job(id).is_some_and(|job| job.outstanding == 0) {
            self.summaries_read(id);
        }
    }

    /// One that cannot be read costs its group: what lives there stays, and keeps the band from being freed.
    pub(crate) fn summary_read(
        &mut self,
        id: u32,
        group: u32,
        result: Result<(), IoError>,
        bufs: Option<Vectored<Buf>>,
    ) {
        let Some(JobKind::Collect { band }) = self.migrate.job(id).map(|job| job.kind) else { return };
        let (shape, table) = (self.space.bands.shape(), self.space.bands.get(band));
        let name = SummaryName { band, group, generation: table.generation };
        let entries = match (result, single(bufs)) {
            (Ok(()), Some(page)) => {
                band_summary::decode(&self.setup.superblock.pool, name, shape.group_sectors(group), &page)
            }
            _ => None,
        };
        let start = self.setup.extents.band_location(band, shape.first_block(group));
        let stream_class = ClassId(table.stream & !COLLECTED);
        let Some(job) = self.migrate.job_mut(id) else { return };
        job.outstanding -= 1;
        if let Some(entries) = entries {
            // A band gets one class: what was mixed stays so rather than opening a band for each.
            job.lookups.extend(band_summary::placed(&entries).map(|(at, e)| {
                let (disk, block, source) = (e.disk, e.block, start + u64::from(at));
                let SummaryEntry { sectors, origin, checksum, class, group, .. } = *e;
                (Moved { disk, block, source, sectors, origin, checksum, class, group }, stream_class)
            }));
        } else {
            self.stats.counters.summary_errors += 1;
            self.migrate.exclude(band, self.clock.now_ns());
        }
        self.read_summaries(id, band);
    }

    fn summaries_read(&mut self, id: u32) {
        if let Some(job) = self.migrate.job_mut(id) {
            // Taken from the end, so in descending order; they are sorted again before they are applied.
            job.lookups.sort_by_key(|(moved, _)| (moved.disk, moved.block));
            job.phase = Phase::Gather;
        }
        self.gather_collect(id);
    }

    pub(super) fn gather_collect(&mut self, id: u32) {
        for _ in 0..LOOKUPS_PER_STEP {
            let (limit, leaves_max) = (self.setup.limits.blocks_per_job, self.setup.limits.leaves_per_job);
            let Some(job) = self.migrate.job(id) else { return };
            let Some(&(moved, class)) = job.lookups.last() else {
                return self.gathered(id);
            };
            if job.candidates.len() >= limit {
                return self.gathered(id);
            }
            let (disk, leaf) = moved.leaf();
            let frame = match self.require_leaf(disk, leaf, waiter(id), false) {
                Leaf::Wait => {
                    if let Some(job) = self.migrate.job_mut(id) {
                        job.waiting = true;
                    }
                    return;
                }
                Leaf::Hole => None,
                Leaf::Ready(frame) => Some(frame),
            };
            let lives = frame.and_then(|frame| {
                let at = (moved.block % LEAF_ENTRIES as u64) as usize;
                let (entry, checksum) = page::leaf_entry(&self.map.frames.get(frame).page, at);
                match entry {
                    Entry::Data { location, class } => {
                        (location == moved.source && checksum == moved.checksum).then_some(class)
                    }
                    _ => None,
                }
            });
            let Some(job) = self.migrate.job_mut(id) else { return };
            if lives.is_some() && job.leaves >= leaves_max && job.newest_leaf != Some((disk, leaf)) {
                return self.gathered(id);
            }
            job.lookups.pop();
            if let Some(now) = lives {
                // Its class may have changed since the summary was written.
                job.take(Moved { class: now, ..moved }, class);
            }
        }
    }
}

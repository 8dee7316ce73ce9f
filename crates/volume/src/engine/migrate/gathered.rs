//! Leads from what a job has chosen to its transfer; or ends the job, where nothing was found.

use super::collect::{has_seen_all_dead, looks_further, others_collect};
use super::destage::LEAVES_PER_JOB;
use super::job::{JobKind, Phase};
use super::rooms::{After, Moving};
use super::sources::read_sources;

/// All that a job is going to move is known.
pub(super) fn gathered(rooms: &mut Moving<'_>, id: u32) -> After {
    let Some(job) = rooms.migrate.job_mut(id) else { return After::Wait };
    if job.candidates.is_empty() {
        let (kind, job_put_off) = (job.kind, job.leaves_put_off);
        if let JobKind::Collect { band } = kind
            && rooms.space.bands.get(band).valid > 0
        {
            if let Some(after) = looks_further(rooms, id, band) {
                return after;
            }
            if others_collect(rooms, id, band) {
                // The other jobs have the valid blocks.
                return After::End { pause: false };
            }
            if has_seen_all_dead(rooms, id, band) {
                // A leaf that named blocks in it could not be read and was overwritten, so nobody has given up these blocks.
                rooms.space.lose_all(band, rooms.journal.last_recorded());
                rooms.migrate.in_vain = 0;
                return After::End { pause: false };
            }
            // By the counts the band has valid blocks, but the summaries do not name them: it is left alone for a
            // while.
            rooms.exclude(band);
        }
        // After a start all leaves come at once. Where most of those that a job looked at are due later, it has made
        // progress.
        let got_on = job_put_off >= LEAVES_PER_JOB / 2;
        return After::End { pause: !got_on };
    }
    job.candidates.sort_by_key(|c| (c.stream, c.moved.disk, c.moved.block));
    job.phase = Phase::Read;
    read_sources(rooms, id)
}

//! From what a job has chosen to its transfer; or its end, where nothing was found.

use super::collect::{looks_further, others_collect};
use super::destage::LEAVES_PER_JOB;
use super::job::{JobKind, Phase};
use super::rooms::{After, Moving};
use super::sources::read_sources;

/// All that a job will move is known.
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
                // They have what lives here.
                return After::End { pause: false };
            }
            // The counts say that something lives here, the summary does not know what: leave it alone.
            rooms.migrate.exclude(band, rooms.now_ns);
        }
        // After a start all leaves come now, and where most of what a job looked at is due later it has got on.
        let got_on = job_put_off >= LEAVES_PER_JOB / 2;
        return After::End { pause: !got_on };
    }
    job.candidates.sort_by_key(|c| (c.stream, c.moved.disk, c.moved.block));
    job.phase = Phase::Read;
    read_sources(rooms, id)
}

//! Writes what moves to where it goes, and makes it durable.

use super::due::keep_for_collection;
use super::job::{Candidate, JobKind, Phase};
use super::rooms::{After, Moving};
use crate::engine::Pending;
use crate::engine::append::Append;
use crate::layout::band_summary::PACKED_TIMES_MAX;
use crate::layout::page::{BLOCK_GRAINS, GRAIN_BYTES};
use crate::layout::stream::Stream;
use crate::space::bands::Grant;
use crate::space::fitting::Wanted;
use forebay_block::{BLOCK_BYTES as BLOCK, Buf, Op, SharedBuf};

/// Most blocks of one write, 256 KiB.
const IO_BLOCKS: usize = 64;
/// Most candidates that are considered for one write of compressed blocks.
const PACKED_MAX: usize = IO_BLOCKS * PACKED_TIMES_MAX as usize;

/// A device request of the read, write or flush phase ended.
pub(super) fn part_done(rooms: &mut Moving<'_>, id: u32) -> After {
    let Some(job) = rooms.migrate.job_mut(id) else { return After::Wait };
    job.outstanding -= 1;
    if job.outstanding > 0 {
        return After::Wait;
    }
    if job.failed {
        if let JobKind::Collect { band } = job.kind {
            rooms.exclude(band);
        }
        return After::End { pause: true };
    }
    match job.phase {
        Phase::Read => After::Pack,
        Phase::Write => flush_destinations(rooms, id),
        Phase::Flush => {
            job.phase = Phase::Record;
            job.next = 0;
            After::Record
        }
        _ => After::Wait,
    }
}

pub(super) fn write_destinations(rooms: &mut Moving<'_>, id: u32) -> After {
    let Some(job) = rooms.migrate.job_mut(id) else { return After::Wait };
    job.phase = Phase::Write;
    job.outstanding = 1;
    let (kind, is_wrong) = (job.kind, job.is_wrong);
    let candidates = std::mem::take(&mut job.candidates);
    // Blocks that hosts have overwritten or discarded since they were chosen are not written in vain.
    let has_left = |c: &Candidate| rooms.map.has_left(c.moved.disk, c.moved.block, c.moved.source.location);
    let (left, candidates): (Vec<_>, Vec<_>) = candidates.into_iter().partition(has_left);
    if kind == JobKind::Destage {
        left.iter().for_each(|candidate| _ = rooms.migrate.held.remove(&candidate.moved.source.location));
    }
    // Damage on the fast tier stays where it is: reads of it fail, and an overwrite mends it.
    let moves = |c: &Candidate| c.data.is_some() || c.damaged && kind != JobKind::Destage;
    let (moving, staying): (Vec<_>, Vec<_>) = candidates.into_iter().partition(moves);
    let is_empty = moving.is_empty();
    if let Some(job) = rooms.migrate.job_mut(id) {
        job.candidates = moving;
    }
    if let (JobKind::Collect { band }, false) = (kind, staying.is_empty()) {
        // Blocks that cannot be read keep the band from being freed: it is not tried again at once.
        rooms.exclude(band);
    }
    if let (JobKind::Collect { band }, true) = (kind, is_wrong) {
        rooms.migrate.tried(band, rooms.space.bands.get(band).generation);
    }
    if kind == JobKind::Destage {
        staying.iter().for_each(|candidate| rooms.let_go(&candidate.moved));
    }
    if is_empty {
        // Not at once again where nothing has changed, as it would find the same.
        return After::End { pause: left.is_empty() };
    }
    write_runs(rooms, id);
    keep_for_collection(rooms);
    part_done(rooms, id)
}

/// Writes the candidates with data, stream by stream, each stream to a band of its own: uncompressed blocks first, and then compressed ones.
fn write_runs(rooms: &mut Moving<'_>, id: u32) {
    let Some(job) = rooms.migrate.job(id) else { return };
    let healthy: Vec<(usize, Stream, bool)> = job
        .candidates
        .iter()
        .enumerate()
        .filter(|(_, candidate)| !candidate.damaged)
        .map(|(at, candidate)| (at, candidate.stream, candidate.is_packed()))
        .collect();
    let mut rest = &healthy[..];
    while let Some(&(_, stream, is_packed)) = rest.first() {
        let alike = rest.iter().take_while(|(_, other, packed)| (*other, *packed) == (stream, is_packed));
        let run: Vec<usize> = alike.map(|(at, ..)| *at).take(if is_packed { PACKED_MAX } else { IO_BLOCKS }).collect();
        let sizes = if is_packed { sizes(rooms, id, &run) } else { Vec::new() };
        let wanted = if is_packed { Wanted::Packed(&sizes) } else { Wanted::Whole(run.len() as u32) };
        let grant = rooms.space.bands.grant(stream, wanted);
        // A grant that comes to nothing may have completed groups, too.
        rooms.summaries.granted(&rooms.space.bands);
        rooms.space.free_emptied(rooms.journal.last_recorded());
        let place = grant.and_then(|grant| {
            let location = rooms.setup.extents.band_location(grant.band, grant.first);
            rooms.setup.extents.place(location).map(|place| (grant, location, place))
        });
        let Some((grant, location, place)) = place else {
            // Hosts took the space meanwhile: candidates without space stay where they are.
            return leave_the_rest(rooms, id, rest.len() == healthy.len());
        };
        if !stream.is_collected {
            rooms.space.lifetimes.arrived(stream, grant.blocks);
        }
        let run = run.get(..grant.count as usize).unwrap_or_default();
        let bufs = match is_packed {
            true => pack_run(rooms, id, (run, &sizes), grant, location),
            false => lay_run(rooms, id, run, location),
        };
        let (device, offset_bytes) = place;
        let mut append = Append::new(device, offset_bytes, stream.hint(), false);
        bufs.into_iter().for_each(|buf| append.push(buf));
        if let Some(job) = rooms.migrate.job_mut(id) {
            job.outstanding += 1;
            job.devices |= 1 << device;
        }
        rooms.summaries.append(&mut append, &mut rooms.space.bands, location, grant.blocks);
        let hint = append.hint;
        let (op, groups) = append.into_op();
        rooms.outbox.send(device, offset_bytes, hint, op, Pending::MoveWrite { job: id, groups });
        rest = &rest[run.len()..];
    }
}

/// Gives uncompressed blocks their places; their data is written from the buffers into which it was read.
fn lay_run(rooms: &mut Moving<'_>, id: u32, run: &[usize], location: u64) -> Vec<SharedBuf> {
    let mut bufs = Vec::with_capacity(run.len());
    for (at, destination) in run.iter().zip((location..).step_by(BLOCK_GRAINS as usize)) {
        bufs.extend(place_candidate(rooms, id, *at, destination));
    }
    bufs
}

/// Grains that candidates take at their destinations.
fn sizes(rooms: &Moving<'_>, id: u32, run: &[usize]) -> Vec<u8> {
    let Some(job) = rooms.migrate.job(id) else { return Vec::new() };
    run.iter().filter_map(|&at| job.candidates.get(at)).map(|candidate| candidate.moved.stored.grains).collect()
}

/// Lays compressed blocks of these sizes one behind the other into the granted blocks, with zeros behind them.
fn pack_run(
    rooms: &mut Moving<'_>,
    id: u32,
    (run, sizes): (&[usize], &[u8]),
    grant: Grant,
    location: u64,
) -> Vec<SharedBuf> {
    let mut bytes = Buf::zeroed(grant.blocks as usize * BLOCK);
    let mut destination = location;
    for (&at, &size) in run.iter().zip(sizes) {
        // The data is copied: blocks of the device are written whole, and compressed blocks do not begin at their
        // boundaries.
        if let Some(data) = place_candidate(rooms, id, at, destination) {
            let from = (destination - location) as usize * GRAIN_BYTES;
            bytes[from..from + data.len()].copy_from_slice(&data);
        }
        destination += u64::from(size);
    }
    vec![bytes.freeze()]
}

/// Gives a block its place, and notes it for the summary there. Returns its data.
fn place_candidate(rooms: &mut Moving<'_>, id: u32, at: usize, destination: u64) -> Option<SharedBuf> {
    let candidate = rooms.migrate.job_mut(id)?.candidates.get_mut(at)?;
    candidate.destination = destination;
    let (entry, data) = (candidate.moved.summary_entry(), candidate.data.take());
    rooms.space.note(destination, entry);
    data
}

fn leave_the_rest(rooms: &mut Moving<'_>, id: u32, is_all: bool) {
    let Some(job) = rooms.migrate.job_mut(id) else { return };
    job.failed |= is_all;
    let kind = job.kind;
    let moves = |c: &Candidate| c.damaged || c.destination != 0;
    let (moving, staying): (Vec<_>, Vec<_>) = std::mem::take(&mut job.candidates).into_iter().partition(moves);
    job.candidates = moving;
    if kind == JobKind::Destage {
        staying.iter().for_each(|candidate| rooms.let_go(&candidate.moved));
    }
}

pub(super) fn destination_written(rooms: &mut Moving<'_>, id: u32, is_good: bool) -> After {
    if let Some(job) = rooms.migrate.job_mut(id) {
        job.failed |= !is_good;
    }
    part_done(rooms, id)
}

/// The data must be durable before the journal names it, so that no record outlives its data.
fn flush_destinations(rooms: &mut Moving<'_>, id: u32) -> After {
    let volatile = rooms.setup.volatile;
    let Some(job) = rooms.migrate.job_mut(id) else { return After::Wait };
    job.phase = Phase::Flush;
    job.outstanding = 1;
    let devices = job.devices & volatile;
    for device in 0..rooms.setup.extents.devices() {
        if devices & 1 << device != 0 {
            if let Some(job) = rooms.migrate.job_mut(id) {
                job.outstanding += 1;
            }
            let number = rooms.flushes.job_flush_begins(id, device, rooms.space.bands.groups().arrived());
            rooms.outbox.send(device, 0, 0, Op::Flush, Pending::MoveFlush { number });
        }
    }
    part_done(rooms, id)
}

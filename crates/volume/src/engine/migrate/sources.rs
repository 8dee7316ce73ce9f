//! Reads what moves from where it was.

use super::destinations::part_done;
use super::due;
use super::job::JobKind;
use super::rooms::{After, Moving};
use crate::engine::Pending;
use crate::engine::mend_groups;
use crate::layout::packed::is_stored;
use crate::layout::page::{BLOCK_GRAINS, GRAIN_BYTES, Span, Window};
use crate::readings::good;
use forebay_block::{BLOCK_BYTES as BLOCK, Buf, IoError, Op, SharedBuf, Vectored};

/// Blocks of one read of a destage, and blocks of one job in flight from which on it sends no more reads: a host's request on the fast device waits behind few
/// of them, 20 to 50 us of an Optane-class drive with four jobs. Blocks count, and not reads, or a job whose sources lie apart would move 8 KiB in each
/// latency. Where slots run short, and a share of the writes goes past the fast tier, more are read at once.
const READ_BLOCKS: u64 = 4;
const READING_BLOCKS_MAX: usize = 4;
const READING_IN_HASTE_BLOCKS_MAX: usize = 32;
/// The same for a collection: a flash drive reads from all of its dies at once, and a host's read passes each die by itself. Where hosts are held back to what
/// collection gains, it reads more at once; doing so sooner would cost hosts more than it gains, because their writes wait for the same dies.
const COLLECTED_READ_BLOCKS: u64 = 64;
const COLLECTING_BLOCKS_MAX: usize = 64;
const COLLECTING_IN_HASTE_BLOCKS_MAX: usize = 256;
/// Largest step from one source to the next, in blocks, across which both are read together within a band: a page of flash is read whole for any block of it,
/// and again for each read that ends within it. The blocks between take memory, too, so at least half of what is read must be sources.
const STEP_BLOCKS_MAX: u64 = 4;

pub(super) fn read_sources(rooms: &mut Moving<'_>, id: u32) -> After {
    let Some(job) = rooms.migrate.job_mut(id) else { return After::Wait };
    // In the order of places: blocks of one file lie together in both tiers.
    let mut sources: Vec<(Span, u32)> =
        job.candidates.iter().zip(0u32..).map(|(candidate, at)| (candidate.moved.source, at)).collect();
    sources.sort_unstable();
    let mut runs: Vec<Vec<u32>> = Vec::new();
    // The first device block of the run, and its last.
    let (mut start, mut last) = (u64::MAX, u64::MAX);
    for (source, at) in sources {
        let Window { first, len_bytes } = Window::of(source, BLOCK_GRAINS);
        let sources_before = runs.last().map_or(0, Vec::len) as u64;
        let follows = start != u64::MAX && reads_together(rooms, (start, last, sources_before), first);
        last = first + (len_bytes / BLOCK) as u64 * BLOCK_GRAINS - BLOCK_GRAINS;
        match runs.last_mut().filter(|_| follows) {
            Some(run) => run.push(at),
            None => {
                start = first;
                runs.push(vec![at]);
            }
        }
    }
    runs.reverse();
    let Some(job) = rooms.migrate.job_mut(id) else { return After::Wait };
    // One is for this function: devices that complete at once must not end the phase early.
    job.outstanding = 1 + runs.len();
    job.reads = runs;
    send_reads(rooms, id);
    part_done(rooms, id)
}

/// Whether a source is read together with the run of so many from `start` to `last`: on the fast tier where it follows the last one, within a band also with
/// some blocks between, because a flash drive reads pages of several blocks whole.
fn reads_together(rooms: &Moving<'_>, (start, last, sources): (u64, u64, u64), source: u64) -> bool {
    // Places that only damage can name may overlap.
    let (span, step) = ((source - start) / BLOCK_GRAINS, source.saturating_sub(last) / BLOCK_GRAINS);
    let is_fast = rooms.setup.extents.is_fast(start);
    let most = if is_fast { READ_BLOCKS } else { COLLECTED_READ_BLOCKS };
    if span >= most || rooms.setup.extents.is_fast(source) != is_fast {
        return false;
    }
    let band = |location| rooms.setup.extents.band(location).map(|(band, _)| band);
    step <= 1 || is_dense(span, step, sources) && band(source).is_some() && band(source) == band(start)
}

/// Whether at least half of what is read is sources with another one, so many blocks behind the first (`span`) and the last (`step`) of those before it.
fn is_dense(span: u64, step: u64, sources_before: u64) -> bool {
    step <= STEP_BLOCKS_MAX && 2 * (sources_before + 1) > span
}

/// What is read for some candidates: all from the first to the end of the last, as they are in the order of places.
fn around(rooms: &Moving<'_>, id: u32, candidates: &[u32]) -> Window {
    let source = |at: Option<&u32>| at.and_then(|&at| source_of(rooms, id, at));
    match (source(candidates.first()), source(candidates.last())) {
        (Some(first), Some(last)) => Window::around(first, last, rooms.setup.unit_grains),
        _ => Window::default(),
    }
}

fn source_of(rooms: &Moving<'_>, id: u32, at: u32) -> Option<Span> {
    rooms.migrate.job(id)?.candidates.get(at as usize).map(|candidate| candidate.moved.source)
}

/// Sends reads of a job, some blocks at a time, because hosts' requests wait behind them.
fn send_reads(rooms: &mut Moving<'_>, id: u32) {
    let lacks_bands = rooms.space.pace.is_closed();
    let wanted = due::free_slots_wanted(rooms.setup, rooms.space, rooms.migrate);
    let lacks_slots = rooms.space.data_slots_free() < wanted.div_ceil(2);
    loop {
        let Some(job) = rooms.migrate.job_mut(id) else { return };
        let most = match job.kind {
            JobKind::Destage if lacks_slots => READING_IN_HASTE_BLOCKS_MAX,
            JobKind::Destage => READING_BLOCKS_MAX,
            JobKind::Collect { .. } if lacks_bands => COLLECTING_IN_HASTE_BLOCKS_MAX,
            JobKind::Collect { .. } => COLLECTING_BLOCKS_MAX,
        };
        if job.reading_blocks >= most {
            return;
        }
        let Some(candidates) = job.reads.pop() else { return };
        let Window { first, len_bytes } = around(rooms, id, &candidates);
        let blocks = len_bytes.div_ceil(BLOCK);
        if let Some(job) = rooms.migrate.job_mut(id) {
            job.reading_blocks += blocks;
        }
        if let Some((device, offset_bytes)) = rooms.setup.extents.place(first) {
            let bufs = Vectored::One(Buf::new(len_bytes));
            let pending = Pending::MoveRead { job: id, candidates };
            rooms.outbox.send(device, offset_bytes, 0, Op::read(bufs), pending);
        } else {
            // A place outside the pool: its blocks are found to have no data.
            read_ended(rooms, id, blocks);
            if let Some(job) = rooms.migrate.job_mut(id) {
                // Not the last one: the sender of reads counts as one.
                job.outstanding -= 1;
            }
        }
    }
}

fn read_ended(rooms: &mut Moving<'_>, id: u32, blocks: usize) {
    if let Some(job) = rooms.migrate.job_mut(id) {
        job.reading_blocks -= blocks;
    }
}

/// Sources of a job were read: where it collects, hosts are given the room that moving the sources will make.
fn gains(rooms: &mut Moving<'_>, id: u32, candidates: &[u32]) {
    let Some(JobKind::Collect { band }) = rooms.migrate.job(id).map(|job| job.kind) else { return };
    let Some(alive_blocks) = rooms.migrate.rounds.get(&band).map(|round| round.alive_blocks) else { return };
    let dead_blocks = u64::from(rooms.space.bands.data_blocks()).saturating_sub(alive_blocks);
    let grains: u64 =
        candidates.iter().filter_map(|&at| source_of(rooms, id, at)).map(|source| u64::from(source.grains)).sum();
    rooms.space.pace.gain(grains.div_ceil(BLOCK_GRAINS), dead_blocks, alive_blocks);
}

pub(super) fn sources_read(
    rooms: &mut Moving<'_>,
    id: u32,
    candidates: &[u32],
    result: Result<(), IoError>,
    bufs: Option<Vectored<Buf>>,
) -> After {
    let around = around(rooms, id, candidates);
    read_ended(rooms, id, around.len_bytes.div_ceil(BLOCK));
    gains(rooms, id, candidates);
    send_reads(rooms, id);
    // A sector that cannot be read must not cost its neighbours: each block is read again by itself.
    let data = good(result, bufs).map(Buf::freeze);
    for &at in candidates {
        let source = source_of(rooms, id, at);
        let block = data.as_ref().zip(source).and_then(|(data, source)| stored(data, around, source));
        match block.filter(|block| is_good_source(rooms, id, at, block)) {
            Some(block) => source_read(rooms, id, at, block),
            // Where there are several copies, any of them may be the one that was read.
            None => read_source_again(rooms, id, at, u8::from(rooms.setup.copies == 1)),
        }
    }
    part_done(rooms, id)
}

/// The stored bytes of a source within what was read around it.
fn stored(data: &SharedBuf, around: Window, source: Span) -> Option<SharedBuf> {
    let bytes = around.stored(source, data)?.len();
    Some(data.slice((source.location - around.first) as usize * GRAIN_BYTES, bytes))
}

fn is_good_source(rooms: &Moving<'_>, id: u32, at: u32, block: &[u8]) -> bool {
    let Some(candidate) = rooms.migrate.job(id).and_then(|job| job.candidates.get(at as usize)) else {
        return false;
    };
    let moved = &candidate.moved;
    rooms.setup.options.faults.checksums_ignored() || is_stored(moved.disk, moved.block, block, moved.checksum)
}

fn source_read(rooms: &mut Moving<'_>, id: u32, at: u32, block: SharedBuf) {
    if let Some(candidate) = rooms.migrate.job_mut(id).and_then(|job| job.candidates.get_mut(at as usize)) {
        candidate.data = Some(block);
    }
}

/// Reads one block again, from another copy where there are several: damaged blocks are given up for good, so one bad transfer is not enough.
fn read_source_again(rooms: &mut Moving<'_>, id: u32, at: u32, attempt: u8) {
    let Window { first, len_bytes } = around(rooms, id, &[at]);
    let Some((device, offset_bytes)) = rooms.setup.extents.place(first) else { return };
    if let Some(job) = rooms.migrate.job_mut(id) {
        job.outstanding += 1;
    }
    let bufs = Vectored::One(Buf::new(len_bytes));
    let pending = Pending::MoveReadAgain { job: id, which: (at, attempt) };
    rooms.outbox.send(device, offset_bytes, 0, Op::Read { bufs, attempt }, pending);
}

/// Attempts from this number on are at the block's copy.
const OF_COPY: u8 = 128;
/// The device with the copies.
const FAST: usize = 0;

/// A band with wrong compressed blocks is tried once for each of its groups, and this many times more: each time some groups are mended.
const HOPELESS_TRIES: u32 = 16;

/// Whether a band was tried so often that each of its groups has had its turn at being mended.
fn is_hopeless(rooms: &Moving<'_>, location: u64) -> bool {
    let bands = &rooms.space.bands;
    let Some((band, _)) = rooms.setup.extents.band(location) else { return true };
    rooms.migrate.tries(band, bands.get(band).generation) > bands.shape().groups() + HOPELESS_TRIES
}

/// A block was read again. A block that cannot be read stays where it is: the device may be able to read it another
/// day. One that can be read and is not what was written is damaged.
pub(super) fn source_read_again(
    rooms: &mut Moving<'_>,
    id: u32,
    (at, attempt): (u32, u8),
    result: Result<(), IoError>,
    bufs: Option<Vectored<Buf>>,
) -> After {
    let of_copy = attempt.checked_sub(OF_COPY);
    let has_failed = result.is_err();
    if let (Some(of_copy), true) = (of_copy, has_failed) {
        // Another member may have it; while this one cannot be read, nobody knows that the block is lost.
        if let Some(candidate) = rooms.migrate.job_mut(id).and_then(|job| job.candidates.get_mut(at as usize)) {
            candidate.is_unread = true;
        }
        read_copy(rooms, id, at, of_copy + 1);
    } else if let (Some(buf), Some(source)) = (good(result, bufs), source_of(rooms, id, at)) {
        let buf = buf.freeze();
        let block = if of_copy.is_some() { Some(buf) } else { stored(&buf, around(rooms, id, &[at]), source) };
        if let Some(block) = block.filter(|block| is_good_source(rooms, id, at, block)) {
            source_read(rooms, id, at, block);
        } else if of_copy.is_none() && attempt + 1 < rooms.setup.read_attempts_at(source.location) {
            read_source_again(rooms, id, at, attempt + 1);
        } else if rooms.setup.variants > 0 && !source.is_whole() && !is_hopeless(rooms, source.location) {
            // Each device block in which it lies may be right in another way of reading: they are mended, and it is moved another time.
            let (setup, bands) = (rooms.setup, &rooms.space.bands);
            mend_groups::begin(source.location, mend_groups::AT_ONCE, (setup, bands), rooms.outbox);
            if let Some(job) = rooms.migrate.job_mut(id) {
                job.is_wrong = true;
            }
        } else if !read_copy(rooms, id, at, of_copy.map_or(0, |before| before + 1))
            && let Some(candidate) = rooms.migrate.job_mut(id).and_then(|job| job.candidates.get_mut(at as usize))
        {
            candidate.damaged = !candidate.is_unread;
        }
    }
    part_done(rooms, id)
}

/// Reads the copy on the fast tier of a block that is wrong in its band, as often as anything on that tier: it may be the last good one. False where there is
/// none, and after the last attempt. A compressed block has no copy that could be moved in its place.
fn read_copy(rooms: &mut Moving<'_>, id: u32, at: u32, attempt: u8) -> bool {
    let job = rooms.migrate.job(id);
    let Some(moved) = job.and_then(|job| job.candidates.get(at as usize)).map(|candidate| candidate.moved) else {
        return false;
    };
    let copy = rooms.copies.find(moved.disk, moved.block, moved.source.location);
    let copy = copy.filter(|copy| moved.source.is_whole() && copy.own == moved.checksum);
    let place = |slot| rooms.setup.extents.place(rooms.setup.extents.slot_location(slot));
    let place = copy.filter(|_| attempt < rooms.setup.read_attempts(FAST)).and_then(|copy| place(copy.slot));
    let Some((device, offset_bytes)) = place else { return false };
    if let Some(job) = rooms.migrate.job_mut(id) {
        job.outstanding += 1;
    }
    let op = Op::Read { bufs: Vectored::One(Buf::new(BLOCK)), attempt: rooms.setup.of_each_copy(attempt) };
    let pending = Pending::MoveReadAgain { job: id, which: (at, OF_COPY + attempt) };
    rooms.outbox.send(device, offset_bytes, 0, op, pending);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lengths of the reads of blocks at these places within one band.
    fn reads(places: &[u64]) -> Vec<u64> {
        let (mut lengths, mut start, mut last, mut sources) = (Vec::new(), places[0], places[0], 1);
        for &place in &places[1..] {
            let (span, step) = (place - start, place - last);
            if step != 1 && !is_dense(span, step, sources) {
                lengths.push(last - start + 1);
                (start, sources) = (place, 0);
            }
            sources += 1;
            last = place;
        }
        lengths.push(last - start + 1);
        lengths
    }

    #[test]
    fn a_band_in_which_half_lives_is_read_in_few_pieces_of_which_half_is_of_use() {
        assert_eq!(reads(&[0, 2, 4, 6]), [7], "each second block");
        assert_eq!(reads(&[0, 1, 2, 6, 7]), [8], "a gap of three after as many sources");
        assert_eq!(reads(&[0, 4, 8]), [1, 1, 1], "a quarter lives: nothing is read in vain");
        assert_eq!(reads(&[0, 1, 2, 3, 4, 9]), [5, 1], "a page lies between");
    }
}

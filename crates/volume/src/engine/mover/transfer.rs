//! Reading the sources, writing the destinations, making them durable.

use super::{Engine, JobKind, Phase};
use crate::engine::Pending;
use crate::engine::summaries::Append;
use crate::layout::band_summary::SummaryEntry;
use crate::layout::batch::Moved;
use crate::space::bands::stream_hint;
use forebay_block::checksum::block_checksum;
use forebay_block::{Buf, IoError, Op, SharedBuf, Vectored};

const BLOCK: usize = 4096;
/// Blocks of one read: 256 KiB.
const READ_BLOCKS: usize = 64;
/// Bytes of data that a write does not go on after.
const WRITE_BYTES: u64 = 1 << 20;

impl Engine {
    pub(super) fn mover_read(&mut self) {
        let Some(job) = &mut self.mover.job else {
            return;
        };
        job.phase = Phase::Read;
        job.outstanding = 1;
        let sources: Vec<u64> = job.candidates.iter().map(|candidate| candidate.moved.source).collect();
        let mut first = 0;
        while first < sources.len() {
            let mut run = 1;
            while first + run < sources.len()
                && run < READ_BLOCKS
                && sources[first + run] == sources[first] + 8 * run as u64
                && self.extents.is_fast(sources[first + run]) == self.extents.is_fast(sources[first])
            {
                run += 1;
            }
            if let Some((device, offset_bytes)) = self.extents.place(sources[first]) {
                if let Some(job) = &mut self.mover.job {
                    job.outstanding += 1;
                }
                let bufs = Vectored::One(Buf::new(run * BLOCK));
                self.command(device, offset_bytes, 0, Op::Read { bufs }, Pending::MoverRead { first, blocks: run });
            }
            first += run;
        }
        self.mover_part_done();
    }

    pub(crate) fn mover_read_done(
        &mut self,
        first: usize,
        blocks: usize,
        result: Result<(), IoError>,
        bufs: Option<Vectored<Buf>>,
    ) {
        let data = match (result, Self::single(bufs)) {
            (Ok(()), Some(buf)) => buf.freeze(),
            // One sector that cannot be read must not cost its neighbours: each block is asked for by itself.
            _ => return self.mover_read_singly(first, blocks),
        };
        for (i, at) in (first..first + blocks).enumerate() {
            let block = data.slice(i * BLOCK, BLOCK);
            if self.mover_block_is_good(at, &block) {
                self.mover_block_read(at, block);
            } else {
                self.mover_read_again(at);
            }
        }
        self.mover_part_done();
    }

    fn mover_read_singly(&mut self, first: usize, blocks: usize) {
        (first..first + blocks).for_each(|at| self.mover_read_again(at));
        self.mover_part_done();
    }

    fn mover_block_is_good(&self, at: usize, block: &[u8]) -> bool {
        let Some(candidate) = self.mover.job.as_ref().and_then(|job| job.candidates.get(at)) else { return false };
        let moved = &candidate.moved;
        self.options.faults.checksums_ignored() || block_checksum(moved.disk, moved.block, block) == moved.checksum
    }

    fn mover_block_read(&mut self, at: usize, block: SharedBuf) {
        if let Some(candidate) = self.mover.job.as_mut().and_then(|job| job.candidates.get_mut(at)) {
            candidate.data = Some(block);
        }
    }

    /// Reads one block once more: what is found damaged is given up for good, so one bad transfer is not enough.
    fn mover_read_again(&mut self, at: usize) {
        let Some(job) = &mut self.mover.job else { return };
        let Some(source) = job.candidates.get(at).map(|candidate| candidate.moved.source) else { return };
        let Some((device, offset_bytes)) = self.extents.place(source) else { return };
        job.outstanding += 1;
        let bufs = Vectored::One(Buf::new(BLOCK));
        self.command(device, offset_bytes, 0, Op::Read { bufs }, Pending::MoverReadAgain { at });
    }

    /// A block was read for the second time. What cannot be read stays where it is: the device may be able to read it
    /// another day. What can be read and is not what was written is damaged.
    pub(crate) fn mover_read_again_done(
        &mut self,
        at: usize,
        result: Result<(), IoError>,
        bufs: Option<Vectored<Buf>>,
    ) {
        if let (Ok(()), Some(buf)) = (result, Self::single(bufs)) {
            let block = buf.freeze();
            if self.mover_block_is_good(at, &block) {
                self.mover_block_read(at, block);
            } else if let Some(candidate) = self.mover.job.as_mut().and_then(|job| job.candidates.get_mut(at)) {
                candidate.damaged = true;
            }
        }
        self.mover_part_done();
    }

    /// One device request of the read, write or flush phase ended.
    fn mover_part_done(&mut self) {
        let Some(job) = &mut self.mover.job else {
            return;
        };
        job.outstanding -= 1;
        if job.outstanding > 0 {
            return;
        }
        if job.failed {
            if let JobKind::Collect { band } = job.kind {
                self.mover.avoided.insert(band);
            }
            return self.mover_end(true);
        }
        match job.phase {
            Phase::Read => self.mover_write(),
            Phase::Write => self.mover_flush(),
            Phase::Flush => {
                job.phase = Phase::Record;
                job.next = 0;
                self.mover_record();
            }
            _ => {}
        }
    }

    fn mover_write(&mut self) {
        let Some(job) = &mut self.mover.job else {
            return;
        };
        job.phase = Phase::Write;
        job.outstanding = 1;
        let found = job.candidates.len();
        match job.kind {
            // Damage on the fast tier stays where it is: reads of it fail, and an overwrite mends it.
            JobKind::Destage => job.candidates.retain(|candidate| candidate.data.is_some()),
            JobKind::Collect { .. } => job.candidates.retain(|candidate| candidate.data.is_some() || candidate.damaged),
        }
        if let JobKind::Collect { band } = job.kind
            && job.candidates.len() < found
        {
            // Blocks that cannot be read keep it from being freed: not at once again.
            self.mover.avoided.insert(band);
        }
        if job.candidates.is_empty() {
            // Not at once again: it would find the same.
            return self.mover_end(true);
        }
        let stream = job.stream();
        let healthy: Vec<usize> = (0..job.candidates.len()).filter(|&i| !job.candidates[i].damaged).collect();
        let mut done = 0;
        let mut append: Option<Append> = None;
        while done < healthy.len() {
            let wanted = (healthy.len() - done) as u32;
            let Some(grant) = self.bands.grant(stream, wanted) else {
                // Hosts took the space meanwhile: what has none stays where it is.
                let Some(job) = &mut self.mover.job else { return };
                job.failed |= done == 0;
                job.candidates.retain(|candidate| candidate.damaged || candidate.destination != 0);
                break;
            };
            self.checkpoint.summaries_due |= self.bands.has_due();
            let location = self.extents.band_location(grant.band, grant.first);
            let Some((device, offset_bytes)) = self.extents.place(location) else {
                break;
            };
            let Some(job) = &mut self.mover.job else {
                return;
            };
            job.devices |= 1 << device;
            let mut sent: Vec<(Moved, u64, SharedBuf)> = Vec::with_capacity(grant.blocks as usize);
            for (i, &at) in healthy[done..done + grant.blocks as usize].iter().enumerate() {
                let candidate = &mut job.candidates[at];
                candidate.destination = location + 8 * i as u64;
                sent.extend(candidate.data.take().map(|data| (candidate.moved, candidate.destination, data)));
            }
            done += grant.blocks as usize;
            let hint = stream_hint(stream);
            let ends = |a: &mut Append| a.len_bytes >= WRITE_BYTES || !a.meets(device, offset_bytes, hint);
            if let Some(before) = append.take_if(ends) {
                self.send_moved(before);
            }
            let append = append.get_or_insert_with(|| Append::new(device, offset_bytes, hint));
            for (moved, destination, data) in sent {
                let Moved { disk, block, sectors, origin, checksum, class, group, .. } = moved;
                self.note(destination, SummaryEntry { disk, class, group, sectors, checksum, block, origin });
                append.push(data);
            }
            self.append_summary(append, location, grant.blocks);
        }
        if let Some(append) = append {
            self.send_moved(append);
        }
        self.mover_part_done();
    }

    fn send_moved(&mut self, append: Append) {
        if let Some(job) = &mut self.mover.job {
            job.outstanding += 1;
        }
        let Append { device, offset_bytes, hint, .. } = append;
        let (op, groups) = append.into_op();
        self.command(device, offset_bytes, hint, op, Pending::MoverWrite { groups });
    }

    pub(crate) fn mover_write_done(&mut self, _device: usize, result: Result<(), IoError>) {
        if let Some(job) = &mut self.mover.job {
            job.failed |= result.is_err();
        }
        self.mover_part_done();
    }

    /// The data must be durable before the journal names it: then a record never outlives its data.
    fn mover_flush(&mut self) {
        let Some(job) = &mut self.mover.job else {
            return;
        };
        job.phase = Phase::Flush;
        job.outstanding = 1;
        let devices = job.devices & self.volatile;
        for device in 0..self.extents.devices() {
            if devices & 1 << device != 0 {
                if let Some(job) = &mut self.mover.job {
                    job.outstanding += 1;
                }
                self.flush.mover_devices |= 1 << device;
                self.command(device, 0, 0, Op::Flush, Pending::MoverFlush);
            }
        }
        self.mover_part_done();
    }

    pub(crate) fn mover_flushed(&mut self, device: usize, result: Result<(), IoError>) {
        self.flush.mover_devices &= !(1 << device);
        if let Err(error) = result {
            self.flush_failed(device, &error);
        }
        // Nor is the data of this job known to be durable where another flush heard of a lost write first.
        if self.flush.failed
            && let Some(job) = &mut self.mover.job
        {
            job.failed = true;
        }
        self.finish_flush();
        self.mover_part_done();
    }
}

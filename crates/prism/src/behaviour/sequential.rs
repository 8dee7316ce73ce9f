//! Sequential runs: a few streams for each disk; a new one replaces the one continued the longest ago.

use forebay_block::DiskId;
use std::collections::BTreeMap;

const STREAMS: usize = 8;
/// Most disks tracked; beyond that, all streams start anew (runs are short-lived anyway).
const DISKS_LIMIT: usize = 256;

#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    next: u64,
    run_bytes: u64,
    used: u64,
}

/// Runs of writes that continue each other.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    disks: BTreeMap<DiskId, [Stream; STREAMS]>,
    requests: u64,
}

impl Streams {
    /// Notes a request and returns the bytes of the run that it ends, including the request.
    pub fn note(&mut self, disk: DiskId, offset_bytes: u64, len_bytes: u64) -> u64 {
        self.requests += 1;
        if self.disks.len() >= DISKS_LIMIT && !self.disks.contains_key(&disk) {
            self.disks.clear();
        }
        let streams = self.disks.entry(disk).or_default();
        // One pass: finds the stream that this request continues, or the one unused for the longest time.
        let mut chosen = 0;
        for (i, stream) in streams.iter().enumerate() {
            if stream.used > 0 && stream.next == offset_bytes {
                chosen = i;
                break;
            }
            if stream.used < streams[chosen].used {
                chosen = i;
            }
        }
        let stream = &mut streams[chosen];
        let continued = stream.used > 0 && stream.next == offset_bytes;
        let before = if continued { stream.run_bytes } else { 0 };
        let run_bytes = before.saturating_add(len_bytes);
        *stream = Stream { next: offset_bytes.saturating_add(len_bytes), run_bytes, used: self.requests };
        run_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_interleaved_runs_and_forgets_the_oldest() {
        let mut streams = Streams::default();
        for step in 0..100u64 {
            for stream in 0..STREAMS as u64 {
                let run = streams.note(DiskId(1), (stream << 30) + step * 8192, 8192);
                assert_eq!(run, (step + 1) * 8192);
            }
        }
        assert_eq!(streams.note(DiskId(2), 100 * 8192, 4096), 4096, "disks are apart");
        assert_eq!(streams.note(DiskId(1), 99 << 30, 4096), 4096);
        assert_eq!(streams.note(DiskId(1), 100 * 8192, 4096), 4096, "the first stream gave way");
        assert_eq!(streams.note(DiskId(1), (1 << 30) + 100 * 8192, 4096), 4096, "and then the second");
        assert_eq!(streams.note(DiskId(1), (7 << 30) + 100 * 8192, 4096), 101 * 8192 - 4096);
    }
}

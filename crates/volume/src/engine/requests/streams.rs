//! Sequential streams of writes: long ones go past the fast tier, which they would only pass through.

/// Streams followed on all disks together.
const STREAMS_MAX: usize = 16;
/// How far a request may come from the end of its stream, in blocks: requests of one stream overtake one another.
const SLACK_BLOCKS: u64 = 256;
/// Shorter requests make no stream: random writes in a small region would look like one.
const REQUEST_MIN_BLOCKS: u64 = 8;

#[derive(Clone, Copy, Debug)]
struct Stream {
    disk: u16,
    /// Block behind the furthest request.
    end: u64,
    /// Blocks written.
    blocks: u64,
    /// When it was last written, in requests.
    used: u64,
}

/// The streams written last.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    list: Vec<Stream>,
    clock: u64,
}

impl Streams {
    /// A write comes; returns how many blocks its stream has by now, itself included.
    pub fn write(&mut self, disk: u16, block: u64, blocks: u64) -> u64 {
        if blocks < REQUEST_MIN_BLOCKS {
            return 0;
        }
        self.clock += 1;
        let near = |stream: &&mut Stream| stream.disk == disk && stream.end.abs_diff(block) <= SLACK_BLOCKS;
        if let Some(stream) = self.list.iter_mut().find(near) {
            stream.end = stream.end.max(block + blocks);
            stream.blocks += blocks;
            stream.used = self.clock;
            return stream.blocks;
        }
        let new = Stream { disk, end: block + blocks, blocks, used: self.clock };
        if self.list.len() < STREAMS_MAX {
            self.list.push(new);
        } else if let Some(oldest) = self.list.iter_mut().min_by_key(|stream| stream.used) {
            *oldest = new;
        }
        blocks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_that_overtake_one_another_are_one_stream_and_strangers_are_none() {
        let mut streams = Streams::default();
        assert_eq!(streams.write(1, 0, 32), 32);
        assert_eq!(streams.write(1, 64, 32), 64, "the one before it is late");
        assert_eq!(streams.write(1, 32, 32), 96);
        assert_eq!(streams.write(2, 96, 32), 32, "another disk");
        assert_eq!(streams.write(1, 10_000, 32), 32, "another place");
        assert_eq!(streams.write(1, 96, 1), 0, "too small");
        for other in 1..40 {
            streams.write(1, other * 100_000, 8);
        }
        assert_eq!(streams.write(1, 96, 32), 32, "forgotten");
    }
}

//! Sequential streams of writes: long ones bypass the fast tier, through which they would only pass.

use super::sequences::Sequences;

/// How far from the end of its stream a request may begin, in blocks: requests of one stream overtake one another.
const SLACK_BLOCKS: u64 = 256;
/// Shorter requests make no stream: random writes in a small region would look like one.
const REQUEST_MIN_BLOCKS: u64 = 8;

/// The streams written last, and where each began.
#[derive(Debug, Default)]
pub(super) struct Streams(Sequences<u64>);

impl Streams {
    /// A write arrives. Returns how many blocks its stream has advanced by now, this write included. Writes that go round in one place, such as a log in files
    /// that are used again, do not advance.
    pub fn write(&mut self, disk: u16, block: u64, blocks: u64) -> u64 {
        if blocks < REQUEST_MIN_BLOCKS {
            return 0;
        }
        let Some(stream) = self.0.continued(disk, block, SLACK_BLOCKS) else {
            self.0.begin(disk, block + blocks, block);
            return blocks;
        };
        stream.end = stream.end.max(block + blocks);
        stream.end.saturating_sub(stream.known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_that_overtake_one_another_are_one_stream_and_strangers_are_none() {
        let mut streams = Streams::default();
        assert_eq!(streams.write(1, 0, 32), 32);
        assert_eq!(streams.write(1, 64, 32), 96, "the one before it is late");
        assert_eq!(streams.write(1, 32, 32), 96);
        assert_eq!(streams.write(2, 96, 32), 32, "another disk");
        assert_eq!(streams.write(1, 10_000, 32), 32, "another place");
        assert_eq!(streams.write(1, 96, 1), 0, "too small");
        for other in 1..40 {
            streams.write(1, other * 100_000, 8);
        }
        assert_eq!(streams.write(1, 96, 32), 32, "forgotten");
        let mut streams = Streams::default();
        let longest = (0..1000).map(|at| streams.write(1, at % 40 * 10, 10)).max();
        assert_eq!(longest, Some(400), "round and round");
    }
}

//! Streams tailored to a cache size: a loop that just fits, and scans beside a load.

use super::requests::{Access, Origin, Stream};
use anyhow::Result;
use forebay_placement::cache::Key;

/// The load, which benefits from a cache that holds part of it.
const LOAD: &str = "zipf:?alpha=1&reads=1";
/// The disk that scans read.
const SCANNED_DISK: u16 = 1;
/// Rounds of the loop.
const ROUNDS: usize = 20;

/// How a stream is made.
#[derive(Clone, Copy, Debug)]
pub enum Pattern {
    /// Repeated sequential reads of nine tenths of the cache's blocks.
    Loop,
    /// A scan beside the load, with requests of `request_bytes` from byte `first_byte` on, each after `after` reads of the load.
    Scan { request_bytes: u64, first_byte: u64, after: usize },
}

/// The patterns that always run. With scans, about every second block read belongs to the scan.
pub const ALL: [(&str, Pattern); 4] = [
    ("loop over 0.9 of the cache", Pattern::Loop),
    ("scan by 64 KiB beside a load", Pattern::Scan { request_bytes: 65_536, first_byte: 0, after: 16 }),
    ("scan by 64 KiB, not aligned", Pattern::Scan { request_bytes: 65_536, first_byte: 512, after: 16 }),
    ("scan by 2 KiB", Pattern::Scan { request_bytes: 2048, first_byte: 0, after: 1 }),
];

/// Generates the load once for all patterns.
///
/// # Errors
/// The load cannot be generated.
pub fn load() -> Result<Stream> {
    Stream::read(LOAD)
}

/// The stream for a cache of `places` blocks.
pub fn make(name: &str, pattern: Pattern, load: &Stream, places: u32) -> Stream {
    let accesses = match pattern {
        Pattern::Loop => {
            let blocks = (u64::from(places) * 9 / 10).max(1);
            vec![Access::read(Key::from_bits(0), blocks); ROUNDS]
        }
        Pattern::Scan { request_bytes, first_byte, after } => {
            let mut at = first_byte;
            let mut request = || {
                let (start, end) = (at, at + request_bytes);
                at = end;
                let first = Key::new(SCANNED_DISK, start / 4096).unwrap_or_default();
                let goes_on_inside = start > first_byte && !start.is_multiple_of(4096);
                Access { goes_on_inside, ..Access::read(first, end.div_ceil(4096) - start / 4096) }
            };
            let mut accesses = Vec::new();
            for reads in load.accesses.chunks(after) {
                accesses.extend_from_slice(reads);
                accesses.push(request());
            }
            accesses
        }
    };
    Stream::of(name.to_owned(), Origin::Made, accesses)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_fits_and_a_scan_is_read_once() {
        let load = Stream::of(String::new(), Origin::Generated, vec![Access::read(Key::from_bits(3), 1); 64]);
        let around = make("", Pattern::Loop, &load, 100);
        assert_eq!((around.read_blocks, around.accesses.len()), (90, ROUNDS));
        let scan = |request_bytes, first_byte, after| {
            let made = make("", Pattern::Scan { request_bytes, first_byte, after }, &load, 100);
            let of_scan = made.accesses.iter().filter(|access| access.first.disk() == SCANNED_DISK);
            (of_scan.map(|access| access.blocks).sum::<u64>(), made.read_blocks - 1, made.going_on_inside())
        };
        assert_eq!(scan(65_536, 0, 16), (64, 64, 0));
        assert_eq!(scan(65_536, 512, 16), (68, 65, 3));
        assert_eq!(scan(2048, 0, 1), (64, 32, 32));
    }
}

//! Streams that are made for caches of a size: a loop that just fits, and scans beside a load.

use super::requests::{Access, Origin, Stream};
use anyhow::Result;
use forebay_placement::cache::Key;

/// The load, of which caches have a part: what it reads is worth a copy.
const LOAD: &str = "zipf:?alpha=1&reads=1";
/// The disk that scans read.
const SCANNED_DISK: u16 = 1;
/// Rounds of the loop.
const ROUNDS: usize = 20;

/// A way to make one.
#[derive(Clone, Copy, Debug)]
pub enum Pattern {
    /// In sequence over nine tenths of as many blocks as there are places, again and again.
    Loop,
    /// Beside the load, a scan by requests of so many bytes from this byte on, each after so many reads of the load.
    Scan { request_bytes: u64, first_byte: u64, after: usize },
}

/// What is always run. About every second block that is read is one of the scan.
pub const ALL: [(&str, Pattern); 4] = [
    ("loop over 0.9 of the cache", Pattern::Loop),
    ("scan by 64 KiB beside a load", Pattern::Scan { request_bytes: 65_536, first_byte: 0, after: 16 }),
    ("scan by 64 KiB, not aligned", Pattern::Scan { request_bytes: 65_536, first_byte: 512, after: 16 }),
    ("scan by 2 KiB", Pattern::Scan { request_bytes: 2048, first_byte: 0, after: 1 }),
];

/// The load, read once for all patterns.
///
/// # Errors
/// It cannot be generated.
pub fn load() -> Result<Stream> {
    Stream::read(LOAD)
}

/// The stream for a cache of so many places.
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

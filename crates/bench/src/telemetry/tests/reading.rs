use super::super::TelemetryError;
use super::*;
use forebay_block::checksum::crc32c;
use proptest::prelude::*;
use std::io::Read;

const RECORDS: u32 = 3;
const SEGMENT: usize = 64 + RECORDS as usize * 40;

fn begin_bytes() -> usize {
    small_file(0, RECORDS).len() - 64
}

/// Updates the checksum of a block of 64 bytes that was changed.
fn reseal(block: &mut [u8]) {
    let crc = crc32c(&block[12..64]);
    block[8..12].copy_from_slice(&crc.to_le_bytes());
}

#[test]
fn the_bytes_are_those_of_the_document() {
    let one = Record {
        intended_ns: 0x0102_0304_0506_0708,
        submitted_ns: 0x1112_1314_1516_1718,
        completed_ns: 0x2122_2324_2526_2728,
        offset_bytes: 0x3132_3334_3536_3738,
        len_bytes: 0x4142_4344,
        depth: 0x5152,
        kind: OpKind::Trim,
        failed: true,
    };
    let bytes = one.encode();
    let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
    assert_eq!(hex, "08070605040302011817161514131211282726252423222138373635343332314443424152510301");
    let mut unknown = bytes;
    unknown[38] = 6;
    assert_eq!(Record::decode(&unknown), None);
    unknown[38] = 3;
    unknown[39] = 3;
    assert_eq!(Record::decode(&unknown), None);

    let file = small_file(2, RECORDS);
    let h = header();
    assert_eq!(&file[..8], b"FOREBAYT");
    assert_eq!(file[8..12], crc32c(&file[12..64]).to_le_bytes());
    assert_eq!(file[12..16], 1u32.to_le_bytes());
    assert_eq!(&file[16..32], &h.run_id);
    assert_eq!(file[32..40], h.begin_unix_ns.to_le_bytes());
    let names = 2 + h.jobs[0].len() + 2 + h.jobs[1].len();
    assert_eq!(file[40..44], 2u32.to_le_bytes());
    assert_eq!(file[44..48], (names as u32).to_le_bytes());
    assert_eq!(file[48..52], (h.metadata.len() as u32).to_le_bytes());
    let begin = 64 + names + h.metadata.len();
    assert_eq!(file[52..56], crc32c(&file[64..begin]).to_le_bytes());
    assert_eq!(file[56..60], 40u32.to_le_bytes());
    assert_eq!(&file[66..66 + 8], b"randread");
    assert_eq!(&file[64 + names..begin], h.metadata.as_bytes());

    let second = &file[begin + SEGMENT..begin + 2 * SEGMENT];
    assert_eq!(&second[..8], b"FBTSEGMT");
    assert_eq!(second[8..12], crc32c(&second[12..64]).to_le_bytes());
    assert_eq!(second[12..16], crc32c(&second[64..]).to_le_bytes());
    assert_eq!(second[16..24], 1u64.to_le_bytes());
    assert_eq!(second[24..28], 1u32.to_le_bytes());
    assert_eq!(second[28..32], 3u32.to_le_bytes());
    assert_eq!(second[32..36], RECORDS.to_le_bytes());
    assert_eq!(second[40..48], 0u64.to_le_bytes());
    assert_eq!(&second[48..64], &h.run_id);
    assert_eq!(second[64..104], record(3).encode());

    let footer = &file[begin + 2 * SEGMENT..];
    assert_eq!((footer.len(), &footer[..8]), (64, &b"FBTENDED"[..]));
    assert_eq!(footer[16..24], 2u64.to_le_bytes());
    assert_eq!(footer[24..32], 6u64.to_le_bytes());
}

#[test]
fn cut_anywhere_exactly_the_whole_segments_are_read() {
    let file = small_file(4, RECORDS);
    let (all, _) = read_all(&file);
    let begin = begin_bytes();
    for cut in 0..begin {
        let error = Reader::new(&file[..cut]).unwrap_err();
        match error {
            TelemetryError::NotTelemetry => assert!(cut < 8),
            TelemetryError::HeaderDamaged { what } => assert_eq!(what, "cut off"),
            other => panic!("{other}"),
        }
    }
    for cut in begin..file.len() {
        let (segments, summary) = read_all(&file[..cut]);
        let whole = ((cut - begin) / SEGMENT).min(4);
        assert_eq!(segments, all[..whole], "cut at {cut}");
        assert_eq!(summary.torn_tail_bytes, (cut - begin - whole * SEGMENT) as u64, "cut at {cut}");
        assert_eq!((summary.footer, summary.damaged_bytes), (None, 0));
        assert!(!summary.is_whole());
    }
    assert!(read_all(&file).1.is_whole());
}

#[test]
fn every_flipped_bit_is_found_and_costs_one_segment_at_most() {
    let file = small_file(4, RECORDS);
    let (all, _) = read_all(&file);
    let begin = begin_bytes();
    for bit in 0..file.len() * 8 {
        let mut flipped = file.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        if bit / 8 < begin {
            assert!(Reader::new(&flipped[..]).is_err(), "bit {bit}");
            continue;
        }
        let (segments, summary) = read_all(&flipped);
        assert!(!summary.is_whole(), "bit {bit}");
        let hit = (bit / 8 - begin) / SEGMENT;
        let expected: Vec<_> = all.iter().filter(|s| s.sequence != hit as u64).cloned().collect();
        assert_eq!(segments, expected, "bit {bit}");
        if hit < 4 {
            assert_eq!((summary.damaged_bytes, summary.damaged_places), (SEGMENT as u64, 1));
            assert_eq!(summary.missing_segments, 1);
        } else {
            assert_eq!((summary.footer, summary.torn_tail_bytes), (None, 64));
        }
    }
}

#[test]
fn a_hole_in_the_middle_costs_only_what_it_touches() {
    let file = small_file(5, RECORDS);
    let begin = begin_bytes();
    // Bytes of segment 1 are missing, so segment 2 begins within the announced length of segment 1.
    for gone in 1..SEGMENT {
        let mut short = file.clone();
        let at = begin + SEGMENT + 64;
        short.drain(at.min(begin + 2 * SEGMENT - gone)..(at + gone).min(begin + 2 * SEGMENT));
        let (segments, summary) = read_all(&short);
        assert_eq!(segments.iter().map(|s| s.sequence).collect::<Vec<_>>(), [0, 2, 3, 4], "{gone} bytes");
        assert_eq!((summary.missing_segments, summary.damaged_places), (1, 1));
    }
    // A whole segment is missing without a trace, or is there twice; or the last is missing, which only the footer shows.
    let mut short = file.clone();
    short.drain(begin + SEGMENT..begin + 2 * SEGMENT);
    let (_, summary) = read_all(&short);
    assert_eq!((summary.segments, summary.missing_segments, summary.damaged_bytes), (4, 1, 0));
    assert!(!summary.is_whole());
    let mut twice = file.clone();
    twice.splice(begin + SEGMENT..begin + SEGMENT, file[begin..begin + SEGMENT].iter().copied());
    let (_, summary) = read_all(&twice);
    assert_eq!((summary.segments, summary.records, summary.damaged_bytes), (5, 15, SEGMENT as u64));
    let mut short = file.clone();
    short.drain(begin + 4 * SEGMENT..begin + 5 * SEGMENT);
    assert_eq!(read_all(&short).1.missing_segments, 1);
    // Bytes after the footer.
    let mut long = file;
    long.extend_from_slice(&[0; 1000]);
    assert_eq!(read_all(&long).1.torn_tail_bytes, 1000);
}

#[test]
fn hostile_headers_with_right_checksums_are_refused() {
    let file = small_file(1, RECORDS);
    let damaged = |at: usize, value: u32| {
        let mut bytes = file.clone();
        bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        reseal(&mut bytes[..64]);
        Reader::new(&bytes[..]).map(|_| ()).unwrap_err()
    };
    assert!(matches!(damaged(12, 2), TelemetryError::Version { found: 2, known: 1 }));
    for (at, value) in
        [(40, 3), (40, 1), (40, 4_097), (40, u32::MAX), (44, u32::MAX), (44, 5), (48, u32::MAX), (56, 48)]
    {
        assert!(matches!(damaged(at, value), TelemetryError::HeaderDamaged { .. }), "{value} at {at}");
    }
    assert!(matches!(damaged(0, 0), TelemetryError::NotTelemetry));

    let begin = begin_bytes();
    // Job, thread or count of a segment is out of its bounds, so the segment is invalid.
    for (at, value) in [(24, 2), (28, 65_536), (32, 0), (32, 65_537), (32, u32::MAX)] {
        let mut bytes = file.clone();
        bytes[begin + at..begin + at + 4].copy_from_slice(&value.to_le_bytes());
        reseal(&mut bytes[begin..begin + 64]);
        let (segments, summary) = read_all(&bytes);
        assert!(segments.is_empty(), "{value} at {at}");
        assert_eq!((summary.damaged_bytes, summary.missing_segments), (SEGMENT as u64, 1));
    }
    // An unknown kind of I/O with correct checksums.
    let mut bytes = file.clone();
    bytes[begin + 64 + 38] = 99;
    let crc = crc32c(&bytes[begin + 64..begin + SEGMENT]);
    bytes[begin + 12..begin + 16].copy_from_slice(&crc.to_le_bytes());
    reseal(&mut bytes[begin..begin + 64]);
    assert_eq!(read_all(&bytes).1.segments, 0);
    // Numbers as large as possible.
    let mut bytes = file;
    bytes[begin + 16..begin + 24].fill(0xff);
    bytes[begin + 40..begin + 48].fill(0xff);
    reseal(&mut bytes[begin..begin + 64]);
    let footer = begin + SEGMENT;
    bytes[footer + 16..footer + 40].fill(0xff);
    reseal(&mut bytes[footer..footer + 64]);
    let (segments, summary) = read_all(&bytes);
    assert_eq!((segments.len(), summary.missing_segments, summary.dropped), (1, u64::MAX, u64::MAX));
}

#[test]
fn short_reads_change_nothing_and_errors_say_where() {
    struct Dripping<'a>(&'a [u8], usize);
    impl Read for Dripping<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            self.1 += 1;
            match self.1 % 7 {
                0 => Err(io::ErrorKind::Interrupted.into()),
                n => {
                    let n = n.min(into.len());
                    self.0.read(&mut into[..n])
                }
            }
        }
    }
    let file = small_file(4, RECORDS);
    let mut reader = Reader::new(Dripping(&file, 0)).unwrap();
    assert_eq!(reader.header(), &header());
    while reader.next_segment().unwrap().is_some() {}
    assert!(reader.summary().is_whole());

    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("medium error"))
        }
    }
    let mut reader = Reader::new((&file[..300]).chain(Broken)).unwrap();
    let mut seen = 0;
    let error = loop {
        match reader.next_segment() {
            Ok(Some(_)) => seen += 1,
            Ok(None) => panic!("the error was taken for the end"),
            Err(error) => break error,
        }
    };
    assert_eq!(seen, (300 - begin_bytes()) / SEGMENT);
    assert_eq!(error.to_string(), "cannot read telemetry at byte 300: medium error");
}

/// Damage that may happen to a file.
#[derive(Clone, Debug)]
enum Harm {
    Flip(usize, u8),
    Remove(usize, usize),
    Insert(usize, Vec<u8>),
    Copy(usize, usize, usize),
    Zero(usize, usize),
    Cut(usize),
}

fn harm() -> impl Strategy<Value = Harm> {
    let at = 0usize..2_000;
    prop_oneof![
        (at.clone(), 1u8..=255).prop_map(|(a, x)| Harm::Flip(a, x)),
        (at.clone(), 1usize..300).prop_map(|(a, n)| Harm::Remove(a, n)),
        (at.clone(), prop::collection::vec(any::<u8>(), 1..200)).prop_map(|(a, v)| Harm::Insert(a, v)),
        (at.clone(), at.clone(), 1usize..600).prop_map(|(a, b, n)| Harm::Copy(a, b, n)),
        (at.clone(), 1usize..300).prop_map(|(a, n)| Harm::Zero(a, n)),
        at.prop_map(Harm::Cut),
    ]
}

fn apply(bytes: &mut Vec<u8>, harm: &Harm) {
    let len = bytes.len();
    let span = |at: usize, n: usize| at.min(len)..(at + n).min(len);
    match harm {
        Harm::Flip(at, mask) => bytes.iter_mut().skip(*at).take(1).for_each(|b| *b ^= mask),
        Harm::Remove(at, n) => drop(bytes.drain(span(*at, *n))),
        Harm::Insert(at, new) => drop(bytes.splice(span(*at, 0), new.iter().copied())),
        Harm::Copy(from, to, n) => {
            let part = bytes[span(*from, *n)].to_vec();
            drop(bytes.splice(span(*to, 0), part));
        }
        Harm::Zero(at, n) => bytes[span(*at, *n)].fill(0),
        Harm::Cut(at) => bytes.truncate(*at),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn no_harm_makes_up_a_record(harms in prop::collection::vec(harm(), 1..6)) {
        let file = small_file(8, RECORDS);
        let (all, _) = read_all(&file);
        let begin = begin_bytes();
        let mut bytes = file.clone();
        // The header is not damaged, so that what follows it is reached; the header has tests of its own.
        let mut tail = bytes.split_off(begin);
        harms.iter().for_each(|h| apply(&mut tail, h));
        bytes.extend_from_slice(&tail);
        let (segments, summary) = read_all(&bytes);
        let mut last = None;
        for segment in &segments {
            prop_assert!(last < Some(segment.sequence));
            last = Some(segment.sequence);
            prop_assert_eq!(segment, &all[segment.sequence as usize]);
        }
        // Every byte is accounted for.
        let footer = if summary.footer.is_some() { 64 } else { 0 };
        let read = (segments.len() * SEGMENT + begin + footer) as u64;
        prop_assert_eq!(read + summary.damaged_bytes + summary.torn_tail_bytes, bytes.len() as u64);
        prop_assert_eq!(summary.is_whole(), bytes == file);
    }

    #[test]
    fn any_bytes_at_all_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..400), with_magic in any::<bool>()) {
        let mut file = bytes;
        if with_magic && file.len() >= 64 {
            file[..8].copy_from_slice(b"FOREBAYT");
            file[12..16].copy_from_slice(&1u32.to_le_bytes());
            file[56..60].copy_from_slice(&40u32.to_le_bytes());
            reseal(&mut file[..64]);
        }
        prop_assert!(Reader::new(&file[..]).is_err());
    }

    #[test]
    fn records_survive_their_bytes(times in any::<(u64, u64, u64, u64)>(), len_bytes: u32, depth: u16, kind in 0usize..6, failed: bool) {
        let (intended_ns, submitted_ns, completed_ns, offset_bytes) = times;
        let kind = OpKind::ALL[kind];
        let one = Record { intended_ns, submitted_ns, completed_ns, offset_bytes, len_bytes, depth, kind, failed };
        prop_assert_eq!(Record::decode(&one.encode()), Some(one));
    }
}

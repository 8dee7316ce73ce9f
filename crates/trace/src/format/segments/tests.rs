#![allow(clippy::unwrap_used)]

use super::*;
use crate::{Flags, Lifetime, Op};
use proptest::prelude::*;
use std::io::Cursor;

const CAPTURE: CaptureId = [7; 16];

fn header() -> Header {
    let volumes = vec![
        Volume { name: "nvme0n1".to_owned(), size_bytes: 1 << 40 },
        Volume { name: "loop7".to_owned(), size_bytes: 0 },
    ];
    Header { capture: CAPTURE, begin_unix_ns: 1_700_000_000_000_000_000, file: 3, volumes }
}

fn captured(index: u64) -> Captured {
    let op = Op::ALL[(index % 5) as usize];
    let request = Request {
        queued_ns: index,
        latency_ns: index * 7,
        inode: index % 3,
        cgroup: 9,
        volume: (index % 2) as u32,
        process: 1 + (index % 2) as u32,
        pid: 1000 + index as u32,
        depth: index as u16,
        flags: Flags(index as u16 & 0x1ff),
        lifetime: Lifetime::ALL[(index % 6) as usize],
        ..Request::new(index * 100, op, index * 4096, 4096)
    };
    Captured { request, file_system: 0x70_0003, generation: 5 }
}

fn process(number: u32, name: &str) -> Name {
    Name::Process { number, name: name.to_owned() }
}

fn path(inode: u64, path: &str) -> Name {
    Name::File { file_system: 0x70_0003, inode, generation: 5, level: None, path: path.to_owned() }
}

/// A file with `count` segments of four records each; the path of inode 2 comes last.
fn file(count: u64) -> (Vec<u8>, Vec<Captured>) {
    let mut writer = SegmentWriter::begin(Vec::new(), header()).unwrap();
    writer.names(&[process(1, "fio"), process(2, "kworker/0:1"), path(1, "/db/a\u{e9}")], 0).unwrap();
    let records: Vec<Captured> = (0..count * 4).map(captured).collect();
    for (index, records) in records.chunks(4).enumerate() {
        writer.records(records, index as u64).unwrap();
    }
    writer.names(&[path(2, "/db/b")], count).unwrap();
    (writer.finish(count).unwrap(), records)
}

type All<'a> = (Vec<Request>, Names, Segments<Cursor<&'a [u8]>>);

fn read(bytes: &[u8]) -> Result<All<'_>, TraceError> {
    let mut segments = Segments::open(Cursor::new(bytes))?;
    let (mut requests, mut names) = (Vec::new(), Names::default());
    while segments.read(&mut requests, &mut names)? {}
    Ok((requests, names, segments))
}

#[test]
fn what_was_written_is_read() {
    let (bytes, records) = file(5);
    let (requests, names, segments) = read(&bytes).unwrap();
    assert_eq!(segments.header(), &header());
    assert_eq!(segments.faults(), &Faults { missing: 5, ..Faults::default() });
    assert!(segments.footer.is_some());
    assert_eq!((requests.len(), segments.dropped()), (20, 5));
    for (request, captured) in requests.iter().zip(&records) {
        let path = match captured.request.inode {
            1 => "/db/a\u{e9}",
            2 => "/db/b",
            _ => "",
        };
        assert_eq!(names.paths.name(request.path), path);
        let process = if captured.request.process == 1 { "fio" } else { "kworker/0:1" };
        assert_eq!(names.processes.name(request.process), process);
        let volume = if captured.request.volume == 0 { "nvme0n1" } else { "loop7" };
        assert_eq!(names.volumes.name(request.volume), volume);
        let Request { volume, process, path, .. } = *request;
        assert_eq!(*request, Request { volume, process, path, ..captured.request });
    }
}

#[test]
fn a_killed_capture_is_read_up_to_its_end() {
    let (bytes, _) = file(5);
    let whole_segments = |len: usize| read(&bytes[..len]).unwrap();
    let (requests, _, segments) = whole_segments(bytes.len() - 64);
    assert_eq!((requests.len(), segments.faults().count, segments.footer.is_some()), (20, 1, false));
    // Cut in the last segment of records: it is missing, and said to be.
    let names_bytes = 64 + 1 + 17 + 2 + "/db/b".len();
    let (requests, _, segments) = whole_segments(bytes.len() - 64 - names_bytes - 10);
    assert_eq!((requests.len(), segments.footer.is_some()), (16, false));
    assert!(segments.faults().count >= 1);
}

#[test]
fn damage_is_located_and_the_rest_is_read() {
    let (mut bytes, _) = file(5);
    let header_bytes = header().encode().len();
    let names_bytes = u32::from_le_bytes(bytes[header_bytes + 32..header_bytes + 36].try_into().unwrap()) as usize;
    let segment_bytes = BLOCK + 4 * RECORD_BYTES;
    let second = header_bytes + BLOCK + names_bytes + segment_bytes;
    bytes[second + BLOCK + 5] ^= 1;
    let (requests, _, segments) = read(&bytes).unwrap();
    assert_eq!(requests.len(), 16);
    let faults = segments.faults();
    assert_eq!(faults.first[0].place, second as u64);
    assert!(faults.first[0].what.contains("384 bytes are damaged"), "{faults:?}");
    assert!(faults.first[1].what.contains("1 segments are missing"), "{faults:?}");
    assert!(faults.first[2].what.contains("20 records were written, 16 are readable"), "{faults:?}");
}

#[test]
fn other_files_are_refused() {
    for bytes in [&b""[..], b"FOREBAYT", &[0; 200], &file(1).0[..70]] {
        assert!(matches!(read(bytes), Err(TraceError::Malformed { format: FORMAT, .. })));
    }
    let (mut bytes, _) = file(1);
    bytes[20] ^= 1;
    assert!(read(&bytes).is_err());
}

#[test]
fn segments_inside_segments_do_not_cost_time_without_end() {
    // Headers of damaged 8 MiB payloads, every 64 bytes.
    let mut bytes = header().encode();
    let block = SegmentHeader {
        payload_crc: 0,
        sequence: 0,
        kind: Kind::Names,
        count: 1,
        payload_bytes: 8 << 20,
        dropped: 0,
        capture: CAPTURE,
    }
    .encode();
    for _ in 0..(24 << 20) / BLOCK {
        bytes.extend_from_slice(&block);
    }
    let begin = std::time::Instant::now();
    let (requests, ..) = read(&bytes).unwrap();
    assert!(requests.is_empty());
    assert!(begin.elapsed().as_secs() < 60, "{:?}", begin.elapsed());
}

proptest! {
    #[test]
    fn hostile_bytes_never_panic(flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20), cut in any::<prop::sample::Index>()) {
        let (mut bytes, records) = file(4);
        for (index, byte) in flips {
            let at = index.index(bytes.len());
            bytes[at] = byte;
        }
        bytes.truncate(cut.index(bytes.len()) + 1);
        if let Ok((requests, ..)) = read(&bytes) {
            // Nothing is invented: all requests that come out were put in.
            for request in requests {
                prop_assert!(records.iter().any(|captured| captured.request.issued_ns == request.issued_ns));
            }
        }
    }
}

#[test]
fn names_hold_from_where_they_stand_and_for_their_generation() {
    let request = |issued_ns, generation| Captured {
        request: Request { inode: 8, ..Request::new(issued_ns, Op::Write, 0, 4096) },
        file_system: 1,
        generation,
    };
    let name = |generation, level, path: &str| {
        [Name::File { file_system: 1, inode: 8, generation, level, path: path.to_owned() }]
    };
    let mut writer = SegmentWriter::begin(Vec::new(), header()).unwrap();
    writer.records(&[request(0, 1)], 0).unwrap();
    writer.names(&name(1, None, "/db/000012.dbtmp"), 0).unwrap();
    writer.records(&[request(1, 1), request(2, 2), request(3, 3)], 0).unwrap();
    writer.names(&name(1, None, "/db/CURRENT"), 0).unwrap();
    writer.names(&name(2, Some(3), "/db/000013.sst"), 0).unwrap();
    writer.records(&[request(4, 1), request(5, 2), request(6, 0)], 0).unwrap();
    let bytes = writer.finish(0).unwrap();
    let (requests, names, _) = read(&bytes).unwrap();
    let paths: Vec<&str> = requests.iter().map(|request| names.paths.name(request.path)).collect();
    let (temporary, current, table) = ("/db/000012.dbtmp", "/db/CURRENT", "/db/000013.sst");
    assert_eq!(paths, [temporary, temporary, table, "", current, table, ""]);
    assert_eq!((names.levels.get(requests[5].path), names.levels.count()), (Some(3), 1));
}

#[test]
fn a_level_that_is_reported_late_holds_for_what_came_before() {
    let request = |issued_ns| Captured {
        request: Request { inode: 8, ..Request::new(issued_ns, Op::Write, 0, 4096) },
        file_system: 1,
        generation: 1,
    };
    let name =
        |level, path: &str| [Name::File { file_system: 1, inode: 8, generation: 1, level, path: path.to_owned() }];
    let mut writer = SegmentWriter::begin(Vec::new(), header()).unwrap();
    writer.names(&name(None, "/db/a"), 0).unwrap();
    writer.records(&[request(0)], 0).unwrap();
    writer.names(&name(None, "/db/000012.sst"), 0).unwrap();
    writer.records(&[request(1)], 0).unwrap();
    writer.names(&name(Some(1), "/db/000012.sst"), 0).unwrap();
    let bytes = writer.finish(0).unwrap();
    let mut segments = Segments::open(Cursor::new(bytes)).unwrap();
    let (mut requests, mut names) = (Vec::new(), Names::default());
    let mut levels = Vec::new();
    while segments.read(&mut requests, &mut names).unwrap() {
        levels.push(requests.last().and_then(|request| names.levels.get(request.path)));
    }
    assert_eq!(levels, [None, Some(1)], "known when its requests are read, not only at the end");
}

#[test]
fn names_of_the_first_kind_are_read() {
    let mut bytes = vec![1];
    bytes.extend_from_slice(&7u32.to_le_bytes());
    bytes.extend_from_slice(&9u64.to_le_bytes());
    bytes.extend_from_slice(&2u16.to_le_bytes());
    bytes.extend_from_slice(b"/x!");
    let name = Name::File { file_system: 7, inode: 9, generation: 0, level: None, path: "/x".to_owned() };
    assert_eq!(Name::decode(&bytes), Some((name, &b"!"[..])));
}

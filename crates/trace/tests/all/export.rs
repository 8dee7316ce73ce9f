//! An exported trace is the same after an import, as far as the format can express it.

use forebay_trace::format::{BlktraceWriter, CsvWriter, FioLogVersion, FioLogWriter, Format, from_reader};
use forebay_trace::{Flags, NOT_KNOWN, Names, Op, Request};
use proptest::prelude::*;
use std::io::Cursor;
use std::path::Path;

fn import(bytes: Vec<u8>, format: Format) -> (Vec<Request>, Names) {
    let mut source = from_reader(Cursor::new(bytes.clone()), Path::new("trace"), None).unwrap();
    let (mut requests, mut names) = (Vec::new(), Names::default());
    while source.read(&mut requests, &mut names).unwrap() {}
    assert_eq!(source.faults().count, 0, "{:?}", source.faults());
    let mut named = from_reader(Cursor::new(bytes), Path::new("trace"), Some(format)).unwrap();
    let mut again = Vec::new();
    while named.read(&mut again, &mut Names::default()).unwrap() {}
    assert_eq!(requests, again, "the format is recognised");
    (requests, names)
}

fn names() -> Names {
    let mut names = Names::default();
    for volume in ["8,0", "259,3", "hm.1"] {
        names.volumes.number(volume);
    }
    for process in ["mysqld", "a long name of a process"] {
        names.processes.number(process);
    }
    names
}

fn requests() -> impl Strategy<Value = Vec<Request>> {
    let op = prop_oneof![Just(Op::Read), Just(Op::Write), Just(Op::Discard), Just(Op::Flush)];
    let flags = proptest::sample::subsequence(
        vec![Flags::META, Flags::SYNC, Flags::FUA, Flags::PREFLUSH, Flags::READ_AHEAD, Flags::ERROR],
        0..4,
    );
    let known = |longest: u64| prop_oneof![3 => 0..longest, 1 => Just(NOT_KNOWN)];
    let one = (0..5_000_u64, op, 0..64_u64, 1..32_u64, flags, 1..4_u32, 1..3_u32, known(9_000), known(9_000), 0..2_u64);
    proptest::collection::vec(one, 0..200).prop_map(|all| {
        let mut issued_ns = 20_000;
        let mut requests = Vec::new();
        for (number, (gap_ns, op, sector, sectors, flags, volume, process, queued_ns, latency_ns, cgroup)) in
            all.into_iter().enumerate()
        {
            issued_ns += gap_ns;
            let is_flush = op == Op::Flush;
            // Separate sectors: requests at the same sector and time cannot always be distinguished.
            let sector = sector + 100 * number as u64;
            let (offset_bytes, len_bytes) = if is_flush { (0, 0) } else { (sector * 512, sectors * 512) };
            let flags = flags.into_iter().fold(Flags::default(), Flags::with);
            requests.push(Request {
                queued_ns,
                latency_ns,
                volume,
                process,
                pid: process + 1000,
                cgroup,
                flags,
                ..Request::new(issued_ns, op, offset_bytes, len_bytes)
            });
        }
        requests
    })
}

/// The part of a request that blktrace can express. All flushes have the same key, so theirs may be exchanged.
fn shown_by_blktrace(request: &Request, names: &Names) -> String {
    let Request { issued_ns, op, offset_bytes, len_bytes, pid, .. } = *request;
    let volume = match names.volumes.name(request.volume) {
        "hm.1" => "240,3",
        name => name,
    };
    if op == Op::Flush {
        return format!("{issued_ns} flush {volume}");
    }
    let flags = request.flags.0 & !if request.latency_ns == NOT_KNOWN { Flags::ERROR.0 } else { 0 };
    // Requests are written with a queueing event, even if it is not known.
    let queued_ns = if request.queued_ns == NOT_KNOWN { 0 } else { request.queued_ns };
    let process: String = names.processes.name(request.process).chars().take(15).collect();
    let latency_ns = request.latency_ns;
    format!(
        "{issued_ns} {} {offset_bytes} {len_bytes} {pid} {volume} {flags:x} {queued_ns} {latency_ns} {process}",
        op.name()
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn blktrace_and_back(requests in requests(), step in 1_usize..50) {
        let names = names();
        let mut writer = BlktraceWriter::new(Vec::new());
        for part in requests.chunks(step) {
            writer.write(part, &names).unwrap();
        }
        let (found, found_names) = import(writer.finish().unwrap().0, Format::Blktrace);
        let shown = |requests: &[Request], names: &Names| -> Vec<_> {
            requests.iter().map(|request| shown_by_blktrace(request, names)).collect()
        };
        // Requests with equal times may come in another order.
        let (mut wanted, mut got) = (shown(&requests, &names), shown(&found, &found_names));
        wanted.sort();
        got.sort();
        prop_assert_eq!(wanted, got);
        prop_assert!(found.windows(2).all(|pair| pair[0].issued_ns <= pair[1].issued_ns));
    }

    #[test]
    fn fio_log_and_back(requests in requests(), step in 1_usize..50) {
        let names = names();
        for (version, unit_ns) in [(FioLogVersion::V3, 1000), (FioLogVersion::V2, 1_000_000)] {
            let mut writer = FioLogWriter::new(Vec::new(), version);
            for part in requests.chunks(step) {
                writer.write(part, &names).unwrap();
            }
            let (found, found_names) = import(writer.finish().unwrap().0, Format::FioLog);
            let shown = |request: &Request, names: &Names| {
                let Request { issued_ns, op, offset_bytes, len_bytes, .. } = *request;
                (issued_ns / unit_ns, op, offset_bytes, len_bytes, names.volumes.name(request.volume).to_owned())
            };
            let wanted: Vec<_> = requests.iter().map(|request| shown(request, &names)).collect();
            let got: Vec<_> = found.iter().map(|request| shown(request, &found_names)).collect();
            prop_assert_eq!(wanted, got);
        }
    }
}

#[test]
fn huge_requests_are_cut() {
    let names = names();
    let huge = Request { volume: 1, ..Request::new(0, Op::Discard, 1 << 30, 10 << 30) };
    let mut writer = BlktraceWriter::new(Vec::new());
    writer.write(&[huge], &names).unwrap();
    let (found, _) = import(writer.finish().unwrap().0, Format::Blktrace);
    assert_eq!(found.len(), 3);
    assert_eq!(found.iter().map(|request| request.len_bytes).sum::<u64>(), 10 << 30);
    assert!(found.windows(2).all(|pair| pair[0].end_bytes() == pair[1].offset_bytes));
    let mut writer = FioLogWriter::new(Vec::new(), FioLogVersion::V3);
    writer.write(&[huge], &names).unwrap();
    let (found, _) = import(writer.finish().unwrap().0, Format::FioLog);
    assert_eq!(found.iter().map(|request| request.len_bytes).sum::<u64>(), 10 << 30);
}

/// Requests beyond 2 TiB were cut silently.
#[test]
fn regression_requests_beyond_2_tib_are_left_out_and_located() {
    let names = names();
    let request = |len_bytes| Request { volume: 1, ..Request::new(0, Op::Discard, 0, len_bytes) };
    let list = [request(4096), request((2 << 40) + 512), request(2 << 40), request(u64::MAX)];
    let mut writer = BlktraceWriter::new(Vec::new());
    writer.write(&list[..1], &names).unwrap();
    writer.write(&list[1..], &names).unwrap();
    let blktrace = writer.finish().unwrap();
    let mut writer = FioLogWriter::new(Vec::new(), FioLogVersion::V3);
    writer.write(&list[..1], &names).unwrap();
    writer.write(&list[1..], &names).unwrap();
    for ((bytes, refused), format) in [(blktrace, Format::Blktrace), (writer.finish().unwrap(), Format::FioLog)] {
        let (found, _) = import(bytes, format);
        assert_eq!(found.iter().map(|request| request.len_bytes).sum::<u64>(), 4096 + (2 << 40));
        assert_eq!(refused.count, 2);
        assert_eq!(refused.first.iter().map(|fault| fault.place).collect::<Vec<_>>(), [2, 4]);
        assert!(refused.first[0].what.contains("2 TiB"), "{refused:?}");
    }
}

#[test]
fn partial_sectors_are_extended() {
    let mut writer = BlktraceWriter::new(Vec::new());
    writer.write(&[Request { volume: 1, ..Request::new(0, Op::Write, 1000, 100) }], &names()).unwrap();
    let (found, _) = import(writer.finish().unwrap().0, Format::Blktrace);
    assert_eq!((found[0].offset_bytes, found[0].len_bytes), (512, 1024));
}

#[test]
fn nothing_is_an_empty_trace() {
    let (found, _) = import(BlktraceWriter::new(Vec::new()).finish().unwrap().0, Format::Blktrace);
    assert!(found.is_empty());
    let (found, _) = import(FioLogWriter::new(Vec::new(), FioLogVersion::V3).finish().unwrap().0, Format::FioLog);
    assert!(found.is_empty());
}

#[test]
fn blanks_in_names_of_files_are_replaced() {
    let mut names = Names::default();
    let volume = names.volumes.number("my disk\n");
    let mut writer = FioLogWriter::new(Vec::new(), FioLogVersion::V3);
    let unnamed = Request::new(2_000, Op::Access, 0, 512);
    writer.write(&[Request { volume, ..Request::new(1_000, Op::Read, 0, 512) }, unnamed], &names).unwrap();
    let text = String::from_utf8(writer.finish().unwrap().0).unwrap();
    let wanted = "fio version 3 iolog\n1 my_disk_ add\n1 my_disk_ open\n1 my_disk_ read 0 512\n\
        2 volume0 add\n2 volume0 open\n2 volume0 read 0 512\n";
    assert_eq!(text, wanted);
}

#[test]
fn regression_a_device_without_completions_keeps_its_turn() {
    let names = names();
    let first = Request { volume: 1, queued_ns: 0, latency_ns: 2111, ..Request::new(20_000, Op::Read, 0, 512) };
    let second = Request { volume: 2, queued_ns: 0, ..Request::new(20_001, Op::Read, 51_200, 512) };
    let mut writer = BlktraceWriter::new(Vec::new());
    writer.write(&[first, second], &names).unwrap();
    let (found, _) = import(writer.finish().unwrap().0, Format::Blktrace);
    assert_eq!(found.iter().map(|request| request.issued_ns).collect::<Vec<_>>(), [20_000, 20_001]);
}

/// Volumes whose names a format cannot hold became one with others.
#[test]
fn regression_volumes_stay_distinct_in_every_format() {
    let long = "x".repeat(300);
    let given = [
        "",
        "a b",
        "a_b",
        "a\tb",
        "a_b_2",
        "a,b",
        "a\"b",
        "volume0",
        "volume0_2",
        " a",
        "a",
        "_a",
        "8,0",
        "08,0",
        "+8,0",
        "240,0",
        "240,2",
        "240,3",
        "4096,0",
        &format!("{long}1"),
        &format!("{long}2"),
        &format!("{long} 1"),
        "late,b",
        "late_b",
    ];
    let mut names = Names::default();
    for name in &given[..given.len() - 2] {
        names.volumes.number(name);
    }
    let mut requests = Vec::new();
    let (mut csv, mut blktrace) = (CsvWriter::new(Vec::new()), BlktraceWriter::new(Vec::new()));
    let mut fio = [FioLogVersion::V2, FioLogVersion::V3].map(|version| FioLogWriter::new(Vec::new(), version));
    // The last names come when others have been written; each volume has two requests, at a place of its own.
    for (number, name) in (0..).zip(given.iter().copied().chain(given.iter().copied())) {
        let (volume, place) = (names.volumes.number(name), number % given.len() as u64);
        let request = Request { volume, ..Request::new(number * 1_000_000, Op::Read, place << 20, 512) };
        requests.push(request);
        csv.write(&[request], &names).unwrap();
        blktrace.write(&[request], &names).unwrap();
        fio.iter_mut().for_each(|fio| fio.write(&[request], &names).unwrap());
    }
    let [fio2, fio3] = fio.map(|fio| fio.finish().unwrap().0);
    for (bytes, format, same) in [
        (csv.finish().unwrap(), Format::Csv, &["a b", "a_b", "a_b_2", "volume0", "a", "_a"][..]),
        (fio2, Format::FioLog, &["a_b", "a_b_2", "a,b", "volume0_2", "a", "8,0", "late,b"]),
        (fio3, Format::FioLog, &["a_b", "a_b_2", "a,b", "volume0_2", "a", "8,0", "late,b"]),
        (blktrace.finish().unwrap().0, Format::Blktrace, &["8,0"]),
    ] {
        let (found, found_names) = import(bytes, format);
        assert_eq!(found.len(), 2 * given.len(), "{format:?}");
        let name = |at: usize| found_names.volumes.name(found[at].volume);
        let distinct: std::collections::HashSet<&str> = (0..given.len()).map(name).collect();
        assert_eq!(distinct.len(), given.len(), "{format:?}: {:?}", (0..given.len()).map(name).collect::<Vec<_>>());
        for at in 0..given.len() {
            assert_eq!(name(at), name(at + given.len()), "{format:?}: {}", given[at]);
            assert!(!same.contains(&given[at]) || name(at) == given[at], "{format:?}: {} is {}", given[at], name(at));
        }
    }
}

//! Events of requests are paired correctly, from blktrace's records and from blkparse's text.

use forebay_trace::format::parquet::Wanted;
use forebay_trace::format::{Format, from_reader, open};
use forebay_trace::{Faults, Flags, Knows, NOT_KNOWN, Names, Op, Request, Source};
use std::io::Cursor;
use std::path::Path;

const Q: u32 = 1 | 1 << 20;
const M: u32 = 2 | 1 << 20;
const R: u32 = 6 | 1 << 21;
const D: u32 = 7 | 1 << 22;
const C: u32 = 8 | 1 << 23;
const PROCESS: u32 = 1 << 26;
const READ: u32 = 1 << 16;
const WRITE: u32 = 1 << 17;
const FLUSH: u32 = 1 << 18;
const SYNC: u32 = 1 << 19;
const META: u32 = 1 << 28;
const DISCARD: u32 = 1 << 29;
const FUA: u32 = 1 << 31;
const CGROUP: u32 = 1 << 8;
const SDA: u32 = 8 << 20;

#[derive(Clone, Default)]
struct Event {
    time_ns: u64,
    action: u32,
    sector: u64,
    len_bytes: u32,
    pid: u32,
    error: u16,
    data: Vec<u8>,
}

impl Event {
    fn new(time_ns: u64, action: u32, sector: u64, len_bytes: u32) -> Self {
        Self { time_ns, action, sector, len_bytes, pid: 77, ..Self::default() }
    }

    fn little(&self) -> Vec<u8> {
        let mut bytes = 0x6561_7407_u32.to_le_bytes().to_vec();
        bytes.extend(1_u32.to_le_bytes());
        bytes.extend(self.time_ns.to_le_bytes());
        bytes.extend(self.sector.to_le_bytes());
        for word in [self.len_bytes, self.action, self.pid, SDA, 0] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(self.error.to_le_bytes());
        bytes.extend((self.data.len() as u16).to_le_bytes());
        bytes.extend(&self.data);
        bytes
    }

    fn big(&self) -> Vec<u8> {
        let mut bytes = 0x6561_7407_u32.to_be_bytes().to_vec();
        bytes.extend(1_u32.to_be_bytes());
        bytes.extend(self.time_ns.to_be_bytes());
        bytes.extend(self.sector.to_be_bytes());
        for word in [self.len_bytes, self.action, self.pid, SDA, 0] {
            bytes.extend(word.to_be_bytes());
        }
        bytes.extend(self.error.to_be_bytes());
        bytes.extend((self.data.len() as u16).to_be_bytes());
        bytes.extend(&self.data);
        bytes
    }
}

fn zero() -> Event {
    Event::new(1_000_000, 1 | PROCESS, 0, 0)
}

fn at(us: u64, action: u32, sector: u64, len_bytes: u32) -> Event {
    Event::new(1_000_000 + us * 1000, action, sector, len_bytes)
}

struct Trace {
    requests: Vec<Request>,
    names: Names,
    faults: Faults,
    knows: Knows,
    notes: Vec<String>,
}

fn read_all(mut source: Box<dyn Source + Send>) -> Trace {
    let (mut requests, mut names) = (Vec::new(), Names::default());
    while source.read(&mut requests, &mut names).unwrap() {}
    Trace { requests, names, faults: source.faults().clone(), knows: source.knows(), notes: source.notes() }
}

fn read_bytes(bytes: Vec<u8>) -> Trace {
    read_all(from_reader(Cursor::new(bytes), Path::new("trace"), None).unwrap())
}

fn read(events: &[Event]) -> Trace {
    let trace = read_bytes(events.iter().flat_map(Event::little).collect());
    assert_eq!(trace.faults.count, 0, "{:?}", trace.faults);
    trace
}

/// The part of a request that pairing decides, with times in microseconds.
fn paired(trace: &Trace) -> Vec<(u64, u64, u64, u64, u16)> {
    let us = |ns: u64| if ns == NOT_KNOWN { ns } else { ns / 1000 };
    let of = |r: &Request| (us(r.issued_ns), us(r.queued_ns), us(r.latency_ns), r.offset_bytes / 512, r.depth);
    trace.requests.iter().map(of).collect()
}

#[test]
fn queueing_issue_and_completion() {
    let mut named = at(0, PROCESS, 0, 0);
    named.data = b"mysqld\0\0\0\0\0\0\0\0\0\0".to_vec();
    let mut issue = at(15, D | WRITE | SYNC | META | FUA, 8, 4096);
    issue.pid = 3;
    let mut failed = at(90, C | READ, 64, 512);
    failed.error = 5;
    let events = [
        zero(),
        named,
        at(10, Q | WRITE | SYNC | META | FUA, 8, 4096),
        issue,
        at(20, Q | READ, 64, 512),
        at(21, D | READ, 64, 512),
        at(40, C | WRITE | SYNC | META | FUA, 8, 4096),
        at(50, D | DISCARD | WRITE, 4096, 1 << 20),
        at(60, C | DISCARD | WRITE, 4096, 1 << 20),
        failed,
        at(100, D | READ | FLUSH, 0, 0),
        at(130, C | READ | FLUSH, 0, 0),
        at(200, D | WRITE | FLUSH, 8, 512),
    ];
    let trace = read(&events);
    assert_eq!(
        paired(&trace),
        [
            (15, 5, 25, 8, 1),
            (21, 1, 69, 64, 2),
            (50, NOT_KNOWN, 10, 4096, 2),
            (100, NOT_KNOWN, 30, 0, 1),
            (200, NOT_KNOWN, NOT_KNOWN, 8, 1),
        ]
    );
    let first = trace.requests[0];
    assert_eq!(first.flags, Flags::SYNC.with(Flags::META).with(Flags::FUA));
    assert_eq!((first.pid, trace.names.processes.name(first.process)), (77, "mysqld"));
    assert_eq!(trace.names.volumes.name(first.volume), "8,0");
    assert_eq!(trace.requests[1].flags, Flags::ERROR);
    assert_eq!(trace.requests[2].op, Op::Discard);
    assert_eq!((trace.requests[3].op, trace.requests[3].flags), (Op::Flush, Flags::default()));
    assert_eq!(trace.requests[4].flags, Flags::PREFLUSH);
    assert!(trace.knows.latency && trace.knows.depth);
    assert!(trace.notes.is_empty());
}

#[test]
fn both_byte_orders_say_the_same() {
    let mut named = at(0, PROCESS, 0, 0);
    named.data = b"fio\0".to_vec();
    let events = [zero(), named, at(1, Q | READ, 8, 512), at(2, D | READ, 8, 512), at(3, C | READ, 8, 512)];
    let little = read_bytes(events.iter().flat_map(Event::little).collect());
    let big = read_bytes(events.iter().flat_map(Event::big).collect());
    assert_eq!(little.requests.len(), 1);
    assert_eq!(little.requests, big.requests);
}

#[test]
fn requeued_requests_count_once() {
    let trace = read(&[
        zero(),
        at(1, Q | READ, 8, 512),
        at(2, D | READ, 8, 512),
        at(3, R | READ, 8, 512),
        at(4, Q | READ, 16, 512),
        at(5, D | READ, 16, 512),
        at(6, D | READ, 8, 512),
        at(9, C | READ, 8, 512),
        at(9, C | READ, 16, 512),
    ]);
    assert_eq!(paired(&trace), [(5, 1, 4, 16, 1), (6, 5, 3, 8, 2)]);
}

#[test]
fn merged_requests_are_one() {
    let trace = read(&[
        zero(),
        at(1, Q | WRITE, 8, 512),
        at(2, Q | WRITE, 9, 512),
        at(3, M | WRITE, 9, 512),
        at(4, D | WRITE, 8, 1024),
        at(5, C | WRITE, 8, 1024),
        at(6, D | WRITE, 9, 512),
        at(7, C | WRITE, 9, 512),
    ]);
    assert_eq!(paired(&trace), [(4, 3, 1, 8, 1), (6, NOT_KNOWN, 1, 9, 1)]);
    assert_eq!(trace.requests[0].len_bytes, 1024);
}

#[test]
fn requests_of_the_same_sector_are_distinguished_by_length() {
    let trace = read(&[
        zero(),
        at(1, D | READ, 8, 512),
        at(2, D | READ, 8, 4096),
        at(3, D | READ, 8, 512),
        at(10, C | READ, 8, 4096),
        at(20, C | READ, 8, 512),
        at(30, C | READ, 8, 512),
        at(31, C | READ, 8, 512),
    ]);
    let wanted = [(1, NOT_KNOWN, 19, 8, 1), (2, NOT_KNOWN, 8, 8, 2), (3, NOT_KNOWN, 27, 8, 3)];
    assert_eq!(paired(&trace), wanted);
}

#[test]
fn requests_complete_in_parts() {
    let trace = read(&[
        zero(),
        at(1, D | READ, 8, 4096),
        at(5, C | READ, 8, 1024),
        at(6, D | READ, 800, 512),
        at(9, C | READ, 10, 3072),
        at(9, C | READ, 800, 512),
    ]);
    assert_eq!(paired(&trace), [(1, NOT_KNOWN, 8, 8, 1), (6, NOT_KNOWN, 3, 800, 2)]);
}

#[test]
fn what_a_trace_does_not_have_is_not_known() {
    let only_issues = read(&[zero(), at(1, D | READ, 8, 512), at(2, D | READ, 16, 512)]);
    assert_eq!(paired(&only_issues), [(1, NOT_KNOWN, NOT_KNOWN, 8, 0), (2, NOT_KNOWN, NOT_KNOWN, 16, 0)]);
    assert!(!only_issues.knows.latency && !only_issues.knows.depth);
    let bio_based = read(&[zero(), at(1, Q | READ, 8, 512), at(4, C | READ, 8, 512)]);
    assert_eq!(paired(&bio_based), [(1, NOT_KNOWN, 3, 8, 1)]);
    assert_eq!(bio_based.notes, ["8,0: no issues (D): times are those of queueing (Q)"]);
    let only_completions = read(&[zero(), at(4, C | READ, 8, 512)]);
    assert_eq!(paired(&only_completions), [(4, NOT_KNOWN, NOT_KNOWN, 8, 0)]);
    assert!(only_completions.notes[0].contains("those of completion"), "{:?}", only_completions.notes);
}

#[test]
fn passed_through_commands_are_no_requests() {
    let mut command = at(1, D | READ | 1 << 25, 0, 36);
    command.data = vec![0x12; 6];
    assert!(read(&[zero(), command]).requests.is_empty());
}

#[test]
fn control_groups() {
    let mut queue = at(1, Q | READ | CGROUP, 8, 512);
    queue.data = 4711_u64.to_le_bytes().to_vec();
    let mut named = at(0, PROCESS | CGROUP, 0, 0);
    named.data = [&4711_u64.to_le_bytes()[..], b"cat\0"].concat();
    let trace = read(&[zero(), named, queue, at(2, D | READ, 8, 512), at(3, C | READ, 8, 512)]);
    assert_eq!(trace.requests[0].cgroup, 4711);
    assert_eq!(trace.names.processes.name(trace.requests[0].process), "cat");
}

#[test]
fn a_lost_completion_does_not_hold_up_the_rest() {
    let mut events = vec![zero(), at(1, D | READ, 1 << 30, 512)];
    for number in 0..70_000_u64 {
        events.push(at(2 + 2 * number, D | READ, number, 512));
        events.push(at(3 + 2 * number, C | READ, number, 512));
    }
    let trace = read(&events);
    assert_eq!(trace.requests.len(), 70_001);
    assert_eq!(trace.requests[0].latency_ns, NOT_KNOWN);
    assert!(trace.requests.windows(2).all(|pair| pair[0].issued_ns < pair[1].issued_ns));
    assert_eq!(trace.requests[1].depth, 2);
    assert_eq!(trace.requests[70_000].depth, 1);
}

#[test]
fn junk_is_passed_and_located() {
    let pair = |us| [at(us, D | READ, us, 512).little(), at(us + 1, C | READ, us, 512).little()].concat();
    let mut bytes = [zero().little(), pair(10), vec![0xaa; 1000], pair(20)].concat();
    let whole = bytes.len() as u64;
    bytes.extend(&pair(30)[..60]);
    let trace = read_bytes(bytes);
    assert_eq!(trace.requests.len(), 3);
    assert_eq!(trace.requests[2].latency_ns, NOT_KNOWN, "its completion is cut off");
    let places: Vec<_> = trace.faults.first.iter().map(|fault| (fault.place, fault.what.clone())).collect();
    assert_eq!(trace.faults.count, 2);
    assert_eq!(places[0], (144, "1000 bytes are no record (of version 7)".to_owned()));
    assert_eq!(places[1].0, whole + 48);
}

/// A damaged length of data that covered sixteen records removed these from the trace, without notice.
#[test]
fn regression_a_damaged_length_of_data_costs_one_record() {
    let pair = |us| [at(us, D | READ, us, 512).little(), at(us + 1, C | READ, us, 512).little()].concat();
    let mut bytes = zero().little();
    (0..40).for_each(|n| bytes.extend(pair(10 * n)));
    for length in [1_u16, 48, 16 * 48, 16 * 48 + 5, 60_000] {
        let mut damaged = bytes.clone();
        // The length of the first completion. If it covers a part of a record, the record behind it is lost.
        damaged[48 * 3 - 2..48 * 3].copy_from_slice(&length.to_le_bytes());
        let trace = read_bytes(damaged);
        let known = trace.requests.iter().filter(|request| request.latency_ns != NOT_KNOWN).count();
        assert_eq!((known, trace.faults.count), (39, 1), "{length}");
    }
}

#[test]
fn absurd_sectors_and_times_are_faults() {
    let events = [
        zero(),
        at(1, D | READ, u64::MAX / 512, 512),
        at(1, D | READ, 1 << 60, 512),
        Event::new(u64::MAX, D | READ, 0, 512),
        at(1, D | READ, 8, 512),
    ];
    let trace = read_bytes(events.iter().flat_map(Event::little).collect());
    assert_eq!((trace.requests.len(), trace.faults.count), (1, 3));
    assert_eq!(trace.faults.first[0].place, 48);
}

#[test]
fn files_of_the_processors_are_one_trace() {
    let folder = tempfile::tempdir().unwrap();
    let write = |number: u32, events: &[Event]| {
        let bytes: Vec<u8> = events.iter().flat_map(Event::little).collect();
        std::fs::write(folder.path().join(format!("sda.blktrace.{number}")), bytes).unwrap();
    };
    write(0, &[zero(), at(1, D | READ, 8, 512), at(9, C | READ, 16, 512)]);
    write(3, &[at(2, D | READ, 16, 512), at(5, C | READ, 8, 512)]);
    let trace = read_all(open(&folder.path().join("sda"), None, Wanted::ALL).unwrap());
    assert_eq!(paired(&trace), [(1, NOT_KNOWN, 4, 8, 1), (2, NOT_KNOWN, 7, 16, 2)]);
    let one = read_all(open(&folder.path().join("sda.blktrace.3"), None, Wanted::ALL).unwrap());
    assert_eq!(one.requests.len(), 1);
    assert!(one.notes[0].starts_with("sda.blktrace.0 lies beside this file of processor 3"), "{:?}", one.notes);
    let error = open(&folder.path().join("sdb"), None, Wanted::ALL).err().unwrap();
    assert!(error.to_string().contains("sdb"), "{error}");
    assert!(open(&folder.path().join("sda"), Some(Format::Msr), Wanted::ALL).is_err());
}

#[test]
fn blkparse_text() {
    let text = b"  8,0    3        1     0.000000000   697  A   W 223490 + 8 <- (8,1) 223427
  8,0    3        2     0.000001000   697  Q   W 223490 + 8 [kjournald2 x]
  8,0    3        3     0.000002000   697  G   W 223490 + 8 [kjournald2 x]
  8,0    3        4     0.000002500   697  P   N [kjournald2 x]
  8,0    3        5     0.000003000   697  I   W 223490 + 8 [kjournald2 x]
  8,0    3        6     0.000003100   697  U   N [kjournald2 x] 1
  8,0    3        7     0.000004000    33  D  WS 223490 + 8 [kworker/3:1H]
  8,0    1        8     0.000004500     0  m   N cfq697 insert_request
  8,0    1        9     0.000004600    12  D   R 36 (12 00 00 00 24 00) [smartd]
  8,0    1        9     0.000005000    12  D  FN [kworker/0:0]
  8,0    1       10     0.000009000     0  C  WS 223490 + 8 [0]
  8,0    1       11     0.000010000     0  C  FN 0 [0]
  8,0    1       12     0.000012000     9  D  RA 64 + 128 (    1200) [(null)]
  8,0    1       13     0.000022000     9  C  RA 64 + 128 (   10000) [65531]
CPU0 (8,0):
 Reads Queued:           0,        0KiB\t Writes Queued:           1,        4KiB

Total (8,0):
 Reads Queued:           0,        0KiB\t Writes Queued:           1,        4KiB
";
    let trace = read_bytes(text.to_vec());
    assert_eq!(trace.faults.count, 0, "{:?}", trace.faults);
    assert_eq!(paired(&trace), [(4, 3, 5, 223_490, 1), (5, NOT_KNOWN, 5, 0, 2), (12, NOT_KNOWN, 10, 64, 1)]);
    let first = trace.requests[0];
    assert_eq!((first.pid, trace.names.processes.name(first.process)), (697, "kjournald2 x"));
    assert_eq!((first.op, first.flags), (Op::Write, Flags::SYNC));
    assert_eq!(trace.requests[1].op, Op::Flush);
    assert_eq!(trace.requests[2].process, 0);
    assert_eq!(trace.requests[2].flags, Flags::READ_AHEAD.with(Flags::ERROR));
    assert_eq!(trace.names.volumes.name(first.volume), "8,0");
}

#[test]
fn bad_blkparse_lines_are_faults() {
    let text = b"8,0 1 1 0.0 9 D R 64 + 128 [cat]
8.0 1 1 0.0 9 D R 64 + 128 [cat]
8,0 1 1 -1.0 9 D R 64 + 128 [cat]
8,0 1 1 0.0 9 DDD R 64 + 128 [cat]
8,0 1 1 0.0 9 D X 64 + 128 [cat]
8,0 1 1 0.0 9 D R 64 - 128 [cat]
8,0 1 1 0.0 9 D R 36028797018963968 + 128 [cat]
8,0 1 1 0.0 9 D R 64 + 128 cat
4096,0 1 1 0.0 9 D R 64 + 128 [cat]
8,0 1 1 0.0 9 D R 64 + 128 ]cat[
8,0 1 1
";
    let trace = read_bytes(text.to_vec());
    assert_eq!((trace.requests.len(), trace.faults.count), (1, 10));
    assert_eq!(trace.faults.first[0].place, 2);
}

/// blkparse's text for events: microseconds, device, action, and sector, with blocks of 4 KiB.
fn text_of(events: impl IntoIterator<Item = (u64, &'static str, char, u64)>) -> Vec<u8> {
    let mut text = String::new();
    for (at, (us, device, action, sector)) in events.into_iter().enumerate() {
        let bracketed = if action == 'C' { "0" } else { "app" };
        let (s, ns) = (us / 1_000_000, us % 1_000_000 * 1000);
        text += &format!("{device} 0 {at} {s}.{ns:09} 100 {action} W {sector} + 8 [{bracketed}]\n");
    }
    text.into_bytes()
}

/// `requests` requests of a drive, one after the other from time 0, 30 us each.
fn drive(requests: u64) -> impl Iterator<Item = (u64, &'static str, char, u64)> {
    (0..requests)
        .flat_map(|at| [('Q', 0), ('D', 10), ('C', 20)].map(|(action, us)| (at * 30 + us, "8,0", action, at * 8)))
}

#[test]
fn regression_devices_without_issues_that_come_after_the_first_events_are_seen() {
    // A logical volume over the drive, created while the trace is running. It never has D.
    let both = (6000..8000).flat_map(|at| {
        let event = |us, device, action| (at * 30 + us, device, action, at * 8);
        [
            event(0, "253,0", 'Q'),
            event(1, "8,0", 'Q'),
            event(10, "8,0", 'D'),
            event(20, "8,0", 'C'),
            event(21, "253,0", 'C'),
        ]
    });
    let trace = read_bytes(text_of(drive(6000).chain(both)));
    let of = |volume| {
        let requests = trace.requests.iter().filter(|request| trace.names.volumes.name(request.volume) == volume);
        requests.map(|request| (request.issued_ns / 1000 % 30, request.latency_ns)).collect::<Vec<_>>()
    };
    assert_eq!(of("253,0"), vec![(0, 21_000); 2000]);
    assert_eq!((of("8,0").len(), trace.faults.count), (8000, 0));
    assert!(trace.requests.is_sorted_by_key(|request| request.issued_ns), "the order of issue is kept");
    assert_eq!(trace.notes, ["253,0: no issues (D): times are those of queueing (Q)"]);
}

#[test]
fn a_drive_that_comes_later_is_issued_once_and_what_stays_unclear_becomes_clear() {
    // A drive plugged in later: several requests are queued before the first is issued.
    let late = [(1_000_000, 'Q', 0), (1_000_001, 'Q', 8), (1_000_005, 'D', 0), (1_000_006, 'D', 8)]
        .into_iter()
        .chain([(1_000_009, 'C', 8), (1_000_010, 'C', 0)])
        .map(|(us, action, sector)| (us, "8,16", action, sector));
    let trace = read_bytes(text_of(drive(6000).chain(late)));
    let last: Vec<_> = trace.requests[6000..].iter().map(|r| (r.issued_ns, r.queued_ns, r.latency_ns)).collect();
    assert_eq!(last, [(1_000_005_000, 5000, 5000), (1_000_006_000, 5000, 3000)]);
    assert!(trace.notes.is_empty(), "{:?}", trace.notes);

    // Only one Q for long while others go on: taken as the issue, until D and C show otherwise.
    let one = [(180_000, "8,16", 'Q', 0)];
    let others = drive(14_000).skip(18_000).map(|(us, device, action, sector)| (us + 1, device, action, sector));
    let issued = [(500_000, 'Q'), (500_010, 'D'), (500_020, 'C')].map(|(us, action)| (us, "8,16", action, 64));
    let trace = read_bytes(text_of(drive(6000).chain(one).chain(others).chain(issued)));
    assert_eq!(trace.requests.len(), 14_000 + 2);
    let last = trace.requests.last().unwrap();
    assert_eq!((last.issued_ns, last.latency_ns), (500_010_000, 10_000));
}

#[test]
fn completions_that_belong_to_nothing_are_counted() {
    let begun_before = [(0, "8,0", 'C', 1 << 20), (1, "8,0", 'C', 1 << 21)];
    let trace = read_bytes(text_of(begun_before.into_iter().chain(drive(10))));
    assert_eq!(trace.requests.len(), 10);
    assert_eq!(trace.notes.len(), 1);
    assert!(trace.notes[0].starts_with("2 completions (C) belong to no request"), "{:?}", trace.notes);
}

#[test]
fn regression_events_that_blkparse_says_are_lost_are_missing() {
    let events = String::from_utf8(text_of(drive(10))).unwrap();
    let text = events.clone()
        + "CPU0 (8,0):\n Reads Queued:           0,        0KiB\n\nThroughput (R/W): 0KiB/s / 0KiB/s\n\
           Events (8,0): 30 entries\nSkips: 3 forward (4,999 -  33.3%)\n";
    let trace = read_bytes(text.into_bytes());
    assert_eq!((trace.requests.len(), trace.faults.count, trace.faults.missing), (10, 0, 4999));
    let whole = events + "CPU0 (8,0):\nEvents (8,0): 30 entries\nSkips: 0 forward (0 -   0.0%)\n";
    assert_eq!(read_bytes(whole.into_bytes()).faults.missing, 0);
}

/// The flush was taken for a pass-through command.
#[test]
fn regression_a_flush_that_completes_with_its_time_has_its_latency() {
    for elapsed in ["    1234", " 1234", "123456789"] {
        let text = format!(
            "8,0 0 1 0.000001000 9 Q FN [cat]\n8,0 0 1 0.000002000 9 D FN [cat]\n8,0 0 1 0.000009000 9 C FN 0 ({elapsed}) [0]\n\
             8,0 0 1 0.000010000 9 D R 36 (12 00 00 00 24 00) [smartd]\n"
        );
        assert_eq!(paired(&read_bytes(text.into_bytes())), [(1, 1, 7, 0, 1)]);
    }
}

/// Names of files, and parts of a summary other than the usual first ones, counted as unreadable.
#[test]
fn regression_what_blkparse_says_besides_events_is_no_fault() {
    let events = String::from_utf8(text_of(drive(10))).unwrap();
    let (first, last) = events.split_at(events.match_indices('\n').nth(14).unwrap().0 + 1);
    let text = format!(
        "Input file sda.blktrace.0 added\nInput file sda.blktrace.1 added\n{first}Throughput (R/W): 0KiB/s / 0KiB/s\n\
         Skips: 3 forward (7 -  33.3%)\nEvents (8,0): 15 entries\nTotal (8,0):\n Reads Queued:           0,        0KiB\n\
         {last}Input file sda.blktrace.2 added\n"
    );
    let trace = read_bytes(text.into_bytes());
    assert_eq!((trace.requests.len(), trace.faults.count, trace.faults.missing), (10, 0, 7), "{:?}", trace.faults);
}

/// Latencies in microseconds and depths.
fn latencies(trace: &Trace) -> Vec<(Option<u64>, u16)> {
    let of = |r: &Request| ((r.latency_ns != NOT_KNOWN).then_some(r.latency_ns / 1000), r.depth);
    trace.requests.iter().map(of).collect()
}

/// Each completion behind a lost one ended the request before its own: all latencies and depths at that place were wrong from then on.
#[test]
fn regression_a_lost_completion_costs_one_latency() {
    // A block of a log that is written again each 10 ms, or at once; before the first loss or at the very beginning; with other requests.
    for (period_us, lost, has_others) in [(10_000, 2, true), (10_000, 0, true), (1_000_000, 0, false), (105, 5, false)]
    {
        let mut events = Vec::new();
        for number in 0..400_u64 {
            let us = number * period_us;
            events.push((us, "8,0", 'D', 2048));
            if number != lost {
                events.push((us + 100, "8,0", 'C', 2048));
            }
            if has_others {
                let sector = 1_000_000 + number * 8;
                events.extend([(us + 200, "8,0", 'D', sector), (us + 250, "8,0", 'C', sector)]);
            }
        }
        let trace = read_bytes(text_of(events.clone()));
        let of_log = trace.requests.iter().filter(|request| request.offset_bytes == 2048 * 512);
        let wrong: Vec<u64> = of_log
            .map(|r| r.latency_ns)
            .enumerate()
            .filter(|(_, ns)| *ns != 100_000)
            .map(|(at, _)| at as u64)
            .collect();
        assert_eq!(wrong, [lost], "{period_us}");
        let deep = latencies(&trace).iter().filter(|(_, depth)| *depth > 1).count();
        assert!(deep <= 4, "{period_us}: {deep}");
        assert_eq!((trace.faults.count, trace.faults.missing), (0, 1), "{period_us}");
        assert!(
            trace.notes.iter().any(|note| note.starts_with("1 completion (C) must have been lost")),
            "{:?}",
            trace.notes
        );
        // The records say the same as the text.
        let records = events.iter().map(|&(us, _, action, sector)| {
            let action = if action == 'D' { D } else { C };
            at(us, action | WRITE, sector, 4096)
        });
        let records = read(&[zero()].into_iter().chain(records).collect::<Vec<_>>());
        assert_eq!((latencies(&records), records.faults.missing), (latencies(&trace), 1), "{period_us}");
    }
}

/// Like requests that are really in flight at once end in the order of their issue, and none is given up.
#[test]
fn like_requests_in_flight_at_once_keep_their_latencies() {
    // A place that always has `deep` requests, 100 us each; before that others, or none.
    for (deep, others) in [(2, 0), (2, 50), (32, 0), (32, 50)] {
        let mut events: Vec<_> = (0..others)
            .flat_map(|at| [(at * 200, "8,0", 'D', 8 + at * 8), (at * 200 + 100, "8,0", 'C', 8 + at * 8)])
            .collect();
        let begin = others * 200;
        for round in 0..50 {
            for at in 0..deep {
                let us = begin + round * 101 + at * 100 / deep;
                events.extend([(us, "8,0", 'D', 1 << 20), (us + 100, "8,0", 'C', 1 << 20)]);
            }
        }
        events.sort_by_key(|&(us, ..)| us);
        let trace = read_bytes(text_of(events));
        assert!(trace.requests.iter().all(|request| request.latency_ns == 100_000), "{deep} {others}");
        assert_eq!((trace.faults.missing, trace.notes.len()), (0, 0), "{deep} {others}");
    }
    // A few at once, with very different latencies: all of them get one.
    let events = [(0, 'D'), (90, 'D'), (91, 'D'), (95, 'C'), (96, 'D'), (400, 'C'), (5000, 'C'), (5001, 'C')];
    let trace = read_bytes(text_of(events.map(|(us, action)| (us, "8,0", action, 64))));
    assert!(latencies(&trace).iter().all(|(latency, _)| latency.is_some()), "{:?}", latencies(&trace));
    assert_eq!(trace.faults.missing, 0);
}

/// A completion that was lost at a place that is not used again was not said to be missing.
#[test]
fn regression_a_request_that_thousands_overtook_has_lost_its_completion() {
    let others = |count: u64| (0..count).flat_map(|at| [(at + 1, "8,0", 'D', 8 + at), (at + 1, "8,0", 'C', 8 + at)]);
    for (count, missing) in [(1000, 0), (2000, 1)] {
        let trace = read_bytes(text_of([(0, "8,0", 'D', 1 << 20)].into_iter().chain(others(count))));
        assert_eq!((trace.requests[0].latency_ns, trace.faults.missing), (NOT_KNOWN, missing));
    }
}

//! Every format reads what it should, reports what it cannot read, and is recognised.

use flate2::Compression;
use flate2::write::GzEncoder;
use forebay_trace::format::{Format, from_reader};
use forebay_trace::{Faults, Knows, NOT_KNOWN, Names, Op, Request, TraceError};
use std::io::{Cursor, Write};
use std::path::Path;

/// A trace that was read to its end.
struct Trace {
    requests: Vec<Request>,
    names: Names,
    faults: Faults,
    knows: Knows,
}

impl Trace {
    fn volume(&self, at: usize) -> &str {
        self.names.volumes.name(self.requests[at].volume)
    }

    fn process(&self, at: usize) -> &str {
        self.names.processes.name(self.requests[at].process)
    }
}

fn read(bytes: &[u8], format: Option<Format>) -> Result<Trace, TraceError> {
    let mut source = from_reader(Cursor::new(bytes.to_vec()), Path::new("trace"), format)?;
    let (mut requests, mut names) = (Vec::new(), Names::default());
    while source.read(&mut requests, &mut names)? {}
    Ok(Trace { requests, names, faults: source.faults().clone(), knows: source.knows() })
}

/// Reads a trace without faults; its format must be detected.
fn detected(bytes: &[u8], format: Format) -> Trace {
    let found = read(bytes, None).expect("detected");
    assert_eq!(found.faults.count, 0, "{:?}", found.faults);
    let named = read(bytes, Some(format)).expect("named");
    assert_eq!(found.requests, named.requests);
    assert_eq!(found.knows, named.knows);
    found
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut to = GzEncoder::new(Vec::new(), Compression::fast());
    to.write_all(bytes).unwrap();
    to.finish().unwrap()
}

fn vscsi(command: u16, len: u32, sector: u64, us: u64) -> Vec<u8> {
    let mut record = Vec::new();
    record.extend_from_slice(&7_u32.to_le_bytes());
    record.extend_from_slice(&len.to_le_bytes());
    record.extend_from_slice(&1_u32.to_le_bytes());
    record.extend_from_slice(&command.to_le_bytes());
    record.extend_from_slice(&0x0102_u16.to_le_bytes());
    record.extend_from_slice(&sector.to_le_bytes());
    record.extend_from_slice(&us.to_le_bytes());
    record
}

fn oracle(seconds: u32, id: u64, bytes: u32, next: i64) -> Vec<u8> {
    let mut record = seconds.to_le_bytes().to_vec();
    record.extend_from_slice(&id.to_le_bytes());
    record.extend_from_slice(&bytes.to_le_bytes());
    record.extend_from_slice(&next.to_le_bytes());
    record
}

#[test]
fn vscsi_records() {
    let bytes =
        [vscsi(0x2a, 4096, 8, 1_000_005), vscsi(0x88, 512, 1 << 40, 1_000_007), vscsi(0x42, 1 << 20, 0, 1_000_006)];
    let trace = detected(&bytes.concat(), Format::Vscsi);
    assert_eq!(
        trace.requests,
        [
            Request::new(0, Op::Write, 4096, 4096),
            Request::new(2000, Op::Read, 1 << 49, 512),
            Request::new(1000, Op::Discard, 0, 1 << 20),
        ]
    );
}

#[test]
fn vscsi_faults_are_located_by_byte() {
    let bytes = [
        vscsi(0x2a, 4096, 8, 5),
        vscsi(0x99, 4096, 8, 5),
        vscsi(0x2a, 4096, u64::MAX / 512, 5),
        vscsi(0x2a, 4096, u64::MAX, 5),
        vscsi(0x2a, 4096, 8, u64::MAX),
        vscsi(0x2a, 4096, 8, 6),
        vec![1, 2, 3],
    ];
    let trace = read(&bytes.concat(), None).unwrap();
    assert_eq!(trace.requests.len(), 2);
    assert!(!trace.faults.by_line);
    let places: Vec<_> = trace.faults.first.iter().map(|fault| fault.place).collect();
    assert_eq!(places, [32, 64, 96, 128, 192]);
}

#[test]
fn oracle_general_records() {
    let bytes = [oracle(100, 16, 4096, 3), oracle(101, u64::MAX, 512, -1), oracle(101, 16, 4096, i64::MAX)].concat();
    let trace = detected(&bytes, Format::OracleGeneral);
    assert_eq!(trace.requests[0], Request::new(0, Op::Access, 8192, 4096));
    assert_eq!(trace.requests[2], Request::new(1_000_000_000, Op::Access, 8192, 4096));
    assert!(!trace.knows.op);
    let bad = [oracle(100, 16, 0, 3), oracle(100, 16, 1, -9), oracle(99, 1, 1, 1), oracle(100, 16, 512, 3)].concat();
    let trace = read(&bad, Some(Format::OracleGeneral)).unwrap();
    assert_eq!((trace.requests.len(), trace.faults.count), (2, 2));
}

#[test]
fn msr_lines() {
    let text = b"Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n\
        128166372003061629,hm,1,Read,383496192,32768,113736\n\
        128166372003061639,hm,1,Write,0,512,0\r\n\
        128166372003061630,prxy,0,Write,18446744073709551103,512,1";
    let trace = detected(text, Format::Msr);
    let first = Request { volume: 1, latency_ns: 11_373_600, ..Request::new(0, Op::Read, 383_496_192, 32_768) };
    assert_eq!(trace.requests[0], first);
    assert_eq!(trace.requests[1].issued_ns, 1000);
    assert_eq!(trace.requests[2].issued_ns, 100);
    assert_eq!((trace.volume(0), trace.volume(1), trace.volume(2)), ("hm.1", "hm.1", "prxy.0"));
    assert!(trace.knows.latency);
}

/// The header counted as an entry that could be read: of three rows with two bad ones, half seemed good.
#[test]
fn regression_the_header_of_a_csv_is_no_entry() {
    let trace = read(b"time_s,op,offset,length\n0,read,0,512\n1,walk,0,512\n2,read,x,512\n", None).unwrap();
    assert_eq!((trace.faults.count, trace.faults.entries_read), (2, 1));
    let note = trace.faults.unreadable_note(1).unwrap();
    assert!(note.contains("2 bad entries and 1 good ones"), "{note}");
}

/// A CSV of Excel, PowerShell or Python's csv module had no known format: its header seemed to contain a CR.
#[test]
fn csv_with_crlf_is_recognised() {
    let text = b"time_s,op,offset,size\r\n0.1,R,0,4096\r\n0.2,W,8192,512\r\n";
    let trace = detected(text, Format::Csv);
    let wanted = [Request::new(0, Op::Read, 0, 4096), Request::new(100_000_000, Op::Write, 8192, 512)];
    assert_eq!(trace.requests, wanted);
}

#[test]
fn alibaba_lines() {
    let text = b"419,W,8792731648,16384,1577808144360767\n725,R,359841792,4096,1577808144360794\n";
    let trace = detected(text, Format::Alibaba);
    assert_eq!(trace.requests[0], Request { volume: 1, ..Request::new(0, Op::Write, 8_792_731_648, 16_384) });
    assert_eq!(trace.requests[1], Request { volume: 2, ..Request::new(27_000, Op::Read, 359_841_792, 4096) });
    assert_eq!((trace.volume(0), trace.volume(1)), ("419", "725"));
}

#[test]
fn tencent_lines_may_be_slightly_unsorted() {
    let text = b"1538323200,12910952,128,0,1063\n1538323199,105352008,584,1,1576\n1538323201,8,8,1,1063\n";
    let trace = detected(text, Format::Tencent);
    assert_eq!(
        trace.requests[0],
        Request { volume: 1, ..Request::new(1_000_000_000, Op::Read, 12_910_952 * 512, 65_536) }
    );
    assert_eq!(trace.requests[1], Request { volume: 2, ..Request::new(0, Op::Write, 105_352_008 * 512, 584 * 512) });
    assert_eq!(trace.requests[2].issued_ns, 2_000_000_000, "zero is the earliest");
}

#[test]
fn systor_responses_may_be_missing() {
    let text = b"Timestamp,Response,IOType,LUN,Offset,Size\n\
        1455592200.056321001,0.000083,W,3,39842557952,8192\n\
        1455592200.056322,,R,3,0,4096\n";
    let trace = detected(text, Format::Systor);
    let first = Request { volume: 1, latency_ns: 83_000, ..Request::new(0, Op::Write, 39_842_557_952, 8192) };
    assert_eq!(trace.requests[0], first);
    assert_eq!((trace.requests[1].issued_ns, trace.requests[1].latency_ns), (999, NOT_KNOWN));
}

#[test]
fn spc_lines_may_have_more_fields() {
    let text = b"0,20941264,8192,W,0.551706\n0,20939840,8192,r,0.554041,extra\n 1 ,3436288,15872,W,1.011732\n";
    let trace = detected(text, Format::Spc);
    let first = Request { volume: 1, ..Request::new(551_706_000, Op::Write, 20_941_264 * 512, 8192) };
    assert_eq!(trace.requests[0], first);
    assert_eq!(trace.requests[1].op, Op::Read);
    assert_eq!(trace.volume(2), "1");
}

#[test]
fn disksim_lines() {
    let text = b"938513000 4 264719034 16 0\n938828000 3 197570570 16 1\n";
    let trace = detected(text, Format::DiskSim);
    let first = Request { volume: 1, ..Request::new(938_513_000, Op::Write, 264_719_034 * 512, 8192) };
    assert_eq!(trace.requests[0], first);
    assert_eq!(trace.requests[1].op, Op::Read);
}

#[test]
fn regression_disksims_own_milliseconds_with_a_fraction_are_read() {
    let text = b"0.000000 0 4096 8 1\n12.345678 0 4104 8 0\n1000.5 1 16 8 1\n";
    let trace = detected(text, Format::DiskSim);
    let times: Vec<u64> = trace.requests.iter().map(|request| request.issued_ns).collect();
    assert_eq!(times, [0, 12_345_678, 1_000_500_000]);
}

/// A whole millisecond without a fraction, as `%g` prints it, was taken for nanoseconds in a file of milliseconds.
#[test]
fn regression_disksims_unit_is_one_for_the_file() {
    let text = b"0 0 4096 8 1\n998 0 8 8 1\n999.5 0 4104 8 0\n1000 1 16 8 1\n1000.25 1 16 8 1\n";
    let trace = detected(text, Format::DiskSim);
    let times: Vec<u64> = trace.requests.iter().map(|request| request.issued_ns / 1000).collect();
    assert_eq!(times, [0, 998_000, 999_500, 1_000_000, 1_000_250]);
    // The first fraction within the first 64 KiB, and behind them.
    let lines = |count: u64| (0..count).map(|at| format!("{at:06} 0 4096 8 1\n")).collect::<String>();
    let within = read((lines(3000) + "3000.5 0 4096 8 1\n").as_bytes(), None).unwrap();
    assert_eq!((within.requests.len(), within.faults.count), (3001, 0));
    assert_eq!(within.requests[2999].issued_ns, 2_999_000_000);
    let behind = read((lines(10_000) + "10000.5 0 4096 8 1\n").as_bytes(), None).err().unwrap().to_string();
    assert!(behind.contains("line 10001: a time has a fraction"), "{behind}");
    // A line that is bad in any case says nothing of the unit.
    let bad = read((lines(10_000) + "1.x 0 4096 8 1\n").as_bytes(), None).unwrap();
    assert_eq!((bad.requests.len(), bad.faults.count, bad.requests[9999].issued_ns), (10_000, 1, 9999));
}

/// `WRITE` was no write.
#[test]
fn regression_the_types_of_msr_have_any_case() {
    let line = |of: &str| format!("128166372003061629,hm,1,{of},0,4096,7\n");
    let text: String = ["READ", "read", "Write", "WRITE", "wRiTe"].map(line).concat();
    let trace = detected(text.as_bytes(), Format::Msr);
    let ops: Vec<Op> = trace.requests.iter().map(|request| request.op).collect();
    assert_eq!(ops, [Op::Read, Op::Read, Op::Write, Op::Write, Op::Write]);
}

/// Lines that must be faults, for one format after the other.
#[test]
fn bad_lines_are_counted_and_located() {
    let good_and_bad: &[(Format, &str, &[&str])] = &[
        (
            Format::Msr,
            "128166372003061629,hm,1,Read,383496192,32768,113736",
            &[
                "128166372003061629,hm,1,Read,383496192,32768",
                "128166372003061629,hm,1,Read,383496192,32768,1,1",
                "128166372003061629,hm,1,Reed,383496192,32768,113736",
                "128166372003061629,hm,1,Read,-1,32768,113736",
                "128166372003061629,hm,1,Read,18446744073709551615,32768,113736",
                "999999999999999999999,hm,1,Read,0,32768,113736",
                "18446744073709551615,hm,1,Read,0,32768,113736",
                "12,hm,1,Read,0,32768,113736",
            ],
        ),
        (
            Format::Alibaba,
            "419,W,8792731648,16384,1577808144360767",
            &["419,X,0,1,1577808144360767", "419,W,0,1,15", "x,W,0,1,1577808144360767", "419,W,0,1,1577808144360767,"],
        ),
        (
            Format::Tencent,
            "1538323200,12910952,128,0,1063",
            &["1538323200,36028797018963968,128,0,1063", "1538323200,1,128,2,1063", "1538323200,1,128,0,x"],
        ),
        (
            Format::Systor,
            "1455592200.056321001,0.000083,W,3,39842557952,8192",
            &["1455592200,-1,W,3,0,1", "1455592200,99999999,W,3,0,1", "99999999999,1,W,3,0,1", ",1,W,3,0,1"],
        ),
        (
            Format::Spc,
            "0,20941264,8192,W,0.551706",
            &["0,20941264,8192,W", "0,20941264,8192,X,1", "0,20941264,8192,W,9e9", "0,20941264,8192,W,999999999999"],
        ),
        (Format::DiskSim, "1 4 264719034 16 0", &["1 4 264719034 16", "1 4 2 16 0 1", "1 4 2 16 2", "1 4 -2 16 1"]),
    ];
    for &(format, good, bad) in good_and_bad {
        let text = format!("{good}\n{}\n\n{}\n{good}\n", bad.join("\n"), "x".repeat(70_000));
        for format in [Some(format), None] {
            let trace = read(text.as_bytes(), format).unwrap();
            assert_eq!(trace.requests.len(), 2, "{format:?}: {:?}", trace.faults);
            assert!(trace.faults.by_line);
            assert_eq!(trace.faults.count, bad.len() as u64 + 1);
            for (at, fault) in trace.faults.first.iter().take(bad.len()).enumerate() {
                assert_eq!(fault.place, at as u64 + 2, "{fault:?}");
                let (_, quoted) = fault.what.split_once(": ").expect("the line is quoted");
                assert!(fault.what.starts_with("a ") || !quoted.is_empty());
            }
        }
    }
}

#[test]
fn what_is_nothing_of_the_format_is_an_error() {
    let text = "419,W,8792731648,16384,1577808144360767\n";
    for count in [3, 5000] {
        let error = read(text.repeat(count).as_bytes(), Some(Format::Msr)).err().expect("an error");
        let TraceError::Malformed { format, what, offset_bytes } = error else { panic!("{error:?}") };
        assert_eq!((format, offset_bytes), ("msr", 0));
        assert!(what.contains(&format!("first {} ", count.min(1000))), "{what}");
    }
    let error = read(&[7; 4000], Some(Format::Vscsi)).err().expect("an error");
    assert!(matches!(error, TraceError::Malformed { format: "vscsi", .. }));
}

#[test]
fn one_good_line_makes_a_trace() {
    let text =
        format!("{}\n419,W,8792731648,16384,1577808144360767\n{}\n", ["bad"; 900].join("\n"), ["bad"; 900].join("\n"));
    let trace = read(text.as_bytes(), Some(Format::Alibaba)).unwrap();
    assert_eq!((trace.requests.len(), trace.faults.count), (1, 1799), "the first may be a header");
    assert_eq!(trace.faults.first.len(), 8);
}

#[test]
fn unknown_formats_are_refused() {
    for bytes in [&b""[..], b"hello\nworld\n", &[0; 300], &[0xff; 300], b"1,2\n"] {
        let error = read(bytes, None).err().expect("refused");
        assert!(matches!(error, TraceError::UnknownFormat { .. }), "{bytes:?}: {error:?}");
    }
}

#[test]
fn an_empty_file_of_a_named_format_is_an_empty_trace() {
    // The last two formats are no streams: an empty file cannot have them.
    for format in Format::ALL.into_iter().filter(|format| !matches!(format, Format::Parquet | Format::Record)) {
        assert!(read(b"", Some(format)).unwrap().requests.is_empty());
    }
}

#[test]
fn packed_traces_of_several_members() {
    let text = b"419,W,8792731648,16384,1577808144360767\n725,R,359841792,4096,1577808144360794\n";
    let mut packed = gzip(text);
    packed.extend_from_slice(&gzip(text));
    let trace = detected(&packed, Format::Alibaba);
    assert_eq!(trace.requests.len(), 4);
}

#[test]
fn a_cut_packed_trace_gives_what_is_there_and_a_located_error() {
    let line = "419,W,8792731648,16384,1577808144360767\n";
    let mut packed = gzip(line.repeat(10_000).as_bytes());
    packed.truncate(packed.len() - 9);
    let mut source = from_reader(Cursor::new(packed), Path::new("trace"), None).unwrap();
    let (mut requests, mut names) = (Vec::new(), Names::default());
    let error = loop {
        match source.read(&mut requests, &mut names) {
            Ok(true) => {}
            Ok(false) => panic!("not seen"),
            Err(error) => break error,
        }
    };
    let TraceError::Read { offset_bytes, .. } = error else { panic!("{error:?}") };
    assert!(requests.len() > 1000, "{}", requests.len());
    assert!(offset_bytes > 1000 * line.len() as u64);
}

/// If a trace of events was cut before its devices were known, all waiting events were dropped.
#[test]
fn regression_events_that_wait_count_where_a_trace_is_cut() {
    let event = |at: u64, action: &str| {
        format!("  8,0    3  {:7}     0.{:09}   697  {action}   W {} + 8 [x]\n", at + 1, at * 1000, 8 * (at / 2))
    };
    let text: String = (0..4000).map(|at| event(at, if at % 2 == 0 { "D" } else { "C" })).collect();
    let packed = gzip(text.as_bytes());
    let (requests, _) = until_failed(packed[..packed.len() / 2].to_vec(), None);
    assert!((500..2000).contains(&requests), "{requests}");
}

/// The first request of a text with a byte order mark was lost, or the text was refused.
#[test]
fn regression_a_byte_order_mark_is_no_part_of_a_trace() {
    let texts: [(&str, Format); 3] = [
        ("419,W,8792731648,16384,1577808144360767\n725,R,359841792,4096,1577808144360794\n", Format::Alibaba),
        ("time_us,op,offset,size\n1,write,0,4096\n2,read,0,4096\n", Format::Csv),
        ("fio version 2 iolog\n/a add\n/a open\n/a write 0 4096\n/a read 0 4096\n/a close\n", Format::FioLog),
    ];
    for (text, format) in texts {
        let marked = format!("\u{feff}{text}");
        let trace = detected(marked.as_bytes(), format);
        assert_eq!((trace.requests.len(), trace.faults.count), (2, 0), "{format:?}");
    }
}

/// Zero bytes in a text, as a crash leaves them, made its format unknown, and the error named its good header.
#[test]
fn regression_a_zero_byte_in_a_text_is_named() {
    let mut text = b"time_us,op,offset,size\n".to_vec();
    (0..200).for_each(|at| text.extend(format!("{at},write,{},4096\n", at * 4096).bytes()));
    text[1000..1003].fill(0);
    let error = read(&text, None).err().unwrap().to_string();
    assert!(error.contains("byte 1000") && error.contains("is 0"), "{error}");
    assert_eq!(read(&text, Some(Format::Csv)).ok().unwrap().faults.count, 1);
}

/// A file whose lines end with CR alone was one header, a trace without requests; empty lines alone were requests.
#[test]
fn regression_what_has_no_lines_is_no_trace() {
    let old = b"time_us,op,offset,size\r1,write,0,4096\r2,read,0,4096\r";
    assert!(read(old, None).is_err());
    assert!(read(&[b'\n'; 1000], None).is_err());
}

/// Zstandard with a checksum, as packed by the `zstd` tool.
fn zstd_packed(bytes: &[u8]) -> Vec<u8> {
    let mut packer = zstd::Encoder::new(Vec::new(), 3).unwrap();
    packer.include_checksum(true).unwrap();
    std::io::Write::write_all(&mut packer, bytes).unwrap();
    packer.finish().unwrap()
}

#[test]
fn zstd_frames_are_unpacked_and_what_is_skippable_is_skipped() {
    let text = b"419,W,8792731648,16384,1577808144360767\n725,R,359841792,4096,1577808144360794\n";
    let skippable = [&[0x52, 0x2a, 0x4d, 0x18][..], &3_u32.to_le_bytes(), b"abc"].concat();
    let packed = [&skippable[..], &zstd_packed(text), &skippable, &zstd_packed(text)].concat();
    assert_eq!(detected(&packed, Format::Alibaba).requests.len(), 4);
    assert_eq!(detected(&zstd_packed(text), Format::Alibaba).requests.len(), 2);
}

/// Reads until the expected error; returns the number of requests before it, and its place.
fn until_failed(packed: Vec<u8>, format: Option<Format>) -> (usize, u64) {
    let mut source = match from_reader(Cursor::new(packed), Path::new("trace"), format) {
        Ok(source) => source,
        Err(TraceError::Read { offset_bytes, .. }) => return (0, offset_bytes),
        Err(error) => panic!("{error:?}"),
    };
    let (mut requests, mut names) = (Vec::new(), Names::default());
    loop {
        match source.read(&mut requests, &mut names) {
            Ok(true) => {}
            Ok(false) => panic!("not seen"),
            Err(TraceError::Read { offset_bytes, .. }) => return (requests.len(), offset_bytes),
            Err(error) => panic!("{error:?}"),
        }
    }
}

#[test]
fn cut_and_changed_zstd_gives_what_is_there_and_a_located_error() {
    let lines: Vec<String> = (0..100_000_u64)
        .map(|n| format!("419,W,{},16384,{}\n", n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20, 1_577_808_144_360_767 + n))
        .collect();
    let packed = zstd_packed(lines.concat().as_bytes());
    for cut in [packed.len() - 1, packed.len() / 2, packed.len() / 3] {
        let (requests, offset_bytes) = until_failed(packed[..cut].to_vec(), None);
        assert!(requests > 10_000 && offset_bytes > 10_000 * 30, "{requests} {offset_bytes}");
    }
    assert_eq!(until_failed(packed[..7].to_vec(), Some(Format::Alibaba)), (0, 0));
    // Only the checksum, the last four bytes, detects this.
    let mut changed = packed.clone();
    let last = changed.len() - 1;
    changed[last] ^= 1;
    assert!(until_failed(changed, None).0 > 90_000);
    let garbage = [&packed[..], b"this is no frame"].concat();
    assert!(until_failed(garbage, None).0 > 90_000);
}

#[test]
fn a_zstd_window_beyond_128_mib_is_refused() {
    // Magic, a descriptor of a frame without single segment, and a window of 2^28 bytes (RFC 8878, 3.1.1.1.2).
    let packed = [&[0x28, 0xb5, 0x2f, 0xfd, 0, (28 - 10) << 3][..], &[1, 0, 0]].concat();
    assert_eq!(until_failed(packed, Some(Format::Alibaba)), (0, 0));
}

#[test]
fn names_of_formats() {
    for format in Format::ALL {
        assert_eq!(Format::from_name(format.name()), Some(format));
    }
    assert_eq!(Format::from_name("ntfs"), None);
}

#[test]
fn fio_logs_of_version_3_have_times() {
    let text = b"fio version 3 iolog\n26 /dev/a add\n161 /dev/a open\n166 /dev/a read 61440 4096\n\
        4533 /dev/b write 774144 4096\n4534 /dev/b trim 0 1048576\n8507 /dev/a sync 5 4096\n8600 /dev/a close\n";
    let trace = detected(text, Format::FioLog);
    assert_eq!(
        trace.requests,
        [
            Request { volume: 1, ..Request::new(166_000, Op::Read, 61_440, 4096) },
            Request { volume: 2, ..Request::new(4_533_000, Op::Write, 774_144, 4096) },
            Request { volume: 2, ..Request::new(4_534_000, Op::Discard, 0, 1 << 20) },
            Request { volume: 1, ..Request::new(8_507_000, Op::Flush, 0, 0) },
        ]
    );
    assert_eq!((trace.volume(0), trace.volume(1)), ("/dev/a", "/dev/b"));
    assert!(trace.knows.time);
    // As in fio, which says that it ignores it there.
    let waits = detected(b"fio version 3 iolog\n1 /dev/a wait 7 0\n2 /dev/a read 0 512\n", Format::FioLog);
    assert_eq!((waits.requests[0].issued_ns, waits.faults.count), (2000, 0));
}

#[test]
fn fio_logs_of_version_2_wait() {
    let text =
        b"fio version 2 iolog\n/dev/a add\n/dev/a open\n/dev/a read 0 4096\n/dev/a wait 7 0\n/dev/a write 0 512\n";
    let trace = detected(text, Format::FioLog);
    assert_eq!(trace.requests[1], Request { volume: 1, ..Request::new(7_000_000, Op::Write, 0, 512) });
    let text = b"fio version 2 iolog\n/dev/a read 0 4096\n";
    assert!(!detected(text, Format::FioLog).knows.time);
    let bad = b"fio version 3 iolog\n1 /dev/a read 0\n1 /dev/a walk 0 1\n1 /dev/a read 0 1 1\n\
        1 /dev/a read 18446744073709551615 1\n99999999999999999 /dev/a read 0 1\n1 /dev/a read 0 1\n";
    let trace = read(bad, None).unwrap();
    assert_eq!((trace.requests.len(), trace.faults.count, trace.faults.first[0].place), (1, 5, 2));
}

#[test]
fn biosnoop_columns_are_those_of_the_header() {
    let usual = b"TIME(s)     COMM           PID    DISK    T SECTOR     BYTES  LAT(ms)\n\
        0.000004    supervise      1950   xvda1   W 13092560   4096      0.74\n\
        0.001589    Web Content    1956   xvda1   R 13115128   8192      1.09\n";
    let trace = detected(usual, Format::Biosnoop);
    assert_eq!(trace.requests[0].issued_ns, 0);
    let second = Request {
        volume: 1,
        process: 2,
        pid: 1956,
        latency_ns: 1_090_000,
        // The first was issued 736 us before the zero.
        ..Request::new(736_000 + 499_000, Op::Read, 13_115_128 * 512, 8192)
    };
    assert_eq!(trace.requests[1], second);
    assert_eq!((trace.volume(1), trace.process(1)), ("xvda1", "Web Content"));
    let queued = b"TIME(s)     COMM           PID     DISK      T SECTOR     BYTES   P QUE(ms) LAT(ms)\n\
        1.5         jbd2/vda1-8    203     vda       WS 2222616    32768  S    0.01    0.40\n\
        1.6         kworker/0:1H   99      vda       FF 0          0      R    0.01    0.50\n\
        1.7         kworker/0:1H   99      vda       W 0           x      R    0.01    0.50\n\
        1.7         kworker/0:1H   99      vda       W 18446744073709551615 512 R 0.01 0.50\n";
    let trace = read(queued, None).unwrap();
    assert_eq!((trace.requests[0].queued_ns, trace.requests[0].latency_ns), (10_000, 400_000));
    assert_eq!(trace.requests[0].flags, forebay_trace::Flags::SYNC);
    assert_eq!((trace.requests[1].op, trace.requests[1].len_bytes), (Op::Flush, 0));
    assert_eq!(trace.faults.count, 2);
}

/// All requests that were in flight when biosnoop began were issued at once.
#[test]
fn regression_biosnoops_requests_before_the_zero_keep_their_spacing() {
    for wall_clock in ["", "17000000"] {
        let head = "TIME(s) COMM PID DISK T SECTOR BYTES LAT(ms)\n".to_owned();
        let lines = [("00.000000", 20), ("00.001000", 11), ("00.002000", 2), ("00.010000", 1)]
            .map(|(time, latency_ms)| format!("{wall_clock}{time} cat 9 sda R 8 4096 {latency_ms}.00\n"));
        let trace = detected((head + &lines.concat()).as_bytes(), Format::Biosnoop);
        let issued_ms: Vec<u64> = trace.requests.iter().map(|request| request.issued_ns / 1_000_000).collect();
        assert_eq!(issued_ms, [0, 10, 20, 29], "{wall_clock}");
    }
}

#[test]
fn iotrace_events() {
    let text = br#"{"header":{"sid":"23","timestamp":"33493819292"},"io":{"lba":"1953524992","len":8,"ioClass":1,"operation":"Read","flush":false,"fua":false,"error":false,"latency":"144925","qd":"1"},"device":{"id":"271581185","name":"nvme0n1"}}
{"header":{"sid":"24","timestamp":"33493819392"},"io":{"lba":"904","len":120,"ioClass":14,"operation":"Write","flush":true,"fua":true,"error":true,"latency":"40076","qd":"3","writeHint":2},"device":{"id":"271581185","name":"nvme0n1"},"file":{"id":"73","offset":"0","size":"203","path":"\/var\/a.log"}}
{"header":{"sid":"25","timestamp":"33493819492"},"io":{"flush":true,"operation":"Write","latency":"1"},"device":{"id":"5"}}
"#;
    let trace = detected(text, Format::Iotrace);
    let first = Request {
        volume: 1,
        latency_ns: 144_925,
        io_class: 1,
        depth: 1,
        ..Request::new(0, Op::Read, 1_953_524_992 * 512, 4096)
    };
    assert_eq!(trace.requests[0], first);
    let second = trace.requests[1];
    assert_eq!((second.inode, trace.names.paths.name(second.path)), (73, "/var/a.log"));
    let flags = forebay_trace::Flags::PREFLUSH.with(forebay_trace::Flags::FUA).with(forebay_trace::Flags::ERROR);
    assert_eq!((second.flags, second.depth, second.io_class), (flags, 3, 14));
    assert_eq!(second.lifetime, forebay_trace::Lifetime::Short);
    let third = trace.requests[2];
    assert_eq!((third.op, third.len_bytes, third.io_class), (Op::Flush, 0, Request::NO_CLASS));
    assert_eq!((trace.volume(0), trace.volume(2)), ("nvme0n1", "5"));
}

#[test]
fn raw_iotrace_events() {
    let text = br#"{"header":{"sid":"1","timestamp":"100"},"deviceDescription":{"id":"7","name":"sda","size":"1000"}}
{"header":{"sid":"2","timestamp":"200"},"io":{"lba":"8","len":8,"ioClass":1,"deviceId":"7","operation":"Discard"}}
{"header":{"sid":"3","timestamp":"300"},"filesystemMeta":{"refSid":"2","fileId":"9"}}
{"header":{"sid":"4","timestamp":"400"},"ioCompletion":{"lba":"8","len":8}}
"#;
    let trace = detected(text, Format::Iotrace);
    assert_eq!(trace.requests.len(), 1);
    assert_eq!((trace.requests[0].op, trace.volume(0)), (Op::Discard, "sda"));
    assert!(!trace.knows.latency);
    let bad = br#"{"header":{"timestamp":"200"},"io":{"lba":"8","len":8}}
{"header":{"timestamp":"200"},"io":{"lba":"36028797018963968","len":8}}
{"header":{"timestamp":"200"},"io":{"lba":"-8","len":8}}
{"header":{"timestamp":"200"},"io":{"lba":8,"len":8,"ioClass":65536}}
{"header":{"timestamp":"200"},"io":{"lba":8,"len":8,"operation":"Sing"}}
{"io":{"lba":8,"len":8}}
{"header":{"timestamp":"200"},"io":{"lba":8,"len":8,
[]
{"header":{"timestamp":"99999999999999999999"},"io":{"lba":8,"len":8}}
"#;
    let trace = read(bad, None).unwrap();
    assert_eq!((trace.requests.len(), trace.faults.count, trace.faults.first[0].place), (1, 8, 2));
}

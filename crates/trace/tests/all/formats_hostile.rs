//! Cut, changed and made-up traces of every format: no panic, bounded memory, located faults.

use flate2::Compression;
use flate2::write::GzEncoder;
use forebay_trace::format::{BlktraceWriter, Format, from_reader};
use forebay_trace::{Flags, Names, Op, Request, TraceError};
use proptest::prelude::*;
use std::io::{Cursor, Read, Write};
use std::path::Path;

/// The formats that are read from a stream; the others have their own tests.
fn streams() -> Vec<Format> {
    Format::ALL.into_iter().filter(|format| !matches!(format, Format::Parquet | Format::Record)).collect()
}

/// A valid trace of each format.
fn sample(format: Format) -> Vec<u8> {
    let lines = |line: &dyn Fn(u64) -> String| (0..40).map(line).collect::<String>().into_bytes();
    match format {
        Format::Vscsi => (0..40_u64)
            .flat_map(|n| {
                let mut record = vec![0; 32];
                record[4..8].copy_from_slice(&4096_u32.to_le_bytes());
                record[12..16].copy_from_slice(&[0x2a, 0, 2, 1]);
                record[16..24].copy_from_slice(&(n * 8).to_le_bytes());
                record[24..32].copy_from_slice(&(n * 100).to_le_bytes());
                record
            })
            .collect(),
        Format::OracleGeneral => (0..40_u64)
            .flat_map(|n| {
                let mut record = (n as u32).to_le_bytes().to_vec();
                record.extend((n * 8).to_le_bytes());
                record.extend(4096_u32.to_le_bytes());
                record.extend((n as i64 + 3).to_le_bytes());
                record
            })
            .collect(),
        Format::Blktrace => {
            let mut names = Names::default();
            let (volume, process) = (names.volumes.number("8,0"), names.processes.number("fio"));
            let request = |n: u64| Request {
                volume,
                process,
                pid: 5,
                queued_ns: 10,
                latency_ns: 5000,
                flags: Flags::SYNC,
                ..Request::new(n * 1000, if n.is_multiple_of(3) { Op::Write } else { Op::Read }, n * 4096, 4096)
            };
            let mut writer = BlktraceWriter::new(Vec::new());
            writer.write(&(0..40).map(request).collect::<Vec<_>>(), &names).unwrap();
            writer.finish().unwrap().0
        }
        Format::Blkparse => lines(&|n| {
            let head = format!("  8,0    1 {n}     {n}.00000");
            format!(
                "{head}1000  697  Q  WS {n} + 8 [a b]\n{head}2000  697  D  WS {n} + 8 [a]\n{head}3000 0  C  WS {n} + 8 [0]\n"
            )
        }),
        Format::FioLog => {
            [b"fio version 3 iolog\n0 /dev/a add\n".to_vec(), lines(&|n| format!("{n} /dev/a write {n} 512\n"))]
                .concat()
        }
        Format::Msr => lines(&|n| format!("{},hm,1,Read,{n},32768,113736\n", 128_166_372_003_061_629 + n)),
        Format::Alibaba => lines(&|n| format!("419,W,{n},16384,{}\n", 1_577_808_144_360_767 + n)),
        Format::Tencent => lines(&|n| format!("{},{n},128,0,1063\n", 1_538_323_200 + n)),
        Format::Systor => lines(&|n| format!("1455592200.{n},0.000083,W,3,{n},8192\n")),
        Format::Spc => lines(&|n| format!("0,{n},8192,W,0.{n}\n")),
        Format::DiskSim => lines(&|n| format!("{n} 4 {n} 16 0\n")),
        Format::Biosnoop => [
            b"TIME(s) COMM PID DISK T SECTOR BYTES QUE(ms) LAT(ms)\n".to_vec(),
            lines(&|n| format!("{n}.000004 super vise 1950 xvda1 W {n} 4096 0.01 0.74\n")),
        ]
        .concat(),
        Format::Iotrace => lines(&|n| {
            format!(
                "{{\"header\":{{\"timestamp\":\"{n}\"}},\"io\":{{\"lba\":\"{n}\",\"len\":8,\"operation\":\"Write\",\
                 \"latency\":\"5\"}},\"device\":{{\"name\":\"sda\"}},\"file\":{{\"id\":\"7\",\"path\":\"\\/a\"}}}}\n"
            )
        }),
        Format::Csv => [b"time_us,op,offset,size\n".to_vec(), lines(&|n| format!("{n}.5,write,{n},512\n"))].concat(),
        Format::Parquet | Format::Record => Vec::new(),
    }
}

/// Reads everything, and checks what must hold for any trace. Returns the number of requests and of faults.
fn read(bytes: Vec<u8>, format: Option<Format>) -> Result<(usize, u64), TraceError> {
    let len = bytes.len() as u64;
    let mut source = from_reader(Cursor::new(bytes), Path::new("trace"), format)?;
    let (mut batch, mut names, mut count) = (Vec::new(), Names::default(), 0);
    loop {
        let goes_on = source.read(&mut batch, &mut names)?;
        count += batch.len();
        for request in batch.drain(..) {
            assert!(request.offset_bytes.checked_add(request.len_bytes).is_some(), "{request:?}");
            assert!((request.volume as usize) < names.volumes.count() && (request.path as usize) < names.paths.count());
            assert!((request.process as usize) < names.processes.count());
            assert!(request.issued_ns < 1 << 60, "{request:?}");
        }
        if !goes_on {
            break;
        }
    }
    let faults = source.faults();
    assert!(faults.first.len() as u64 <= faults.count);
    for fault in &faults.first {
        let place = if faults.by_line { fault.place - 1 } else { fault.place };
        assert!(place < len, "{fault:?} beyond {len} bytes");
        assert!(fault.what.len() < 500 && !fault.what.is_empty());
    }
    Ok((count, faults.count))
}

fn any_format() -> impl Strategy<Value = Format> {
    proptest::sample::select(streams())
}

/// A change at a part of the sample.
#[derive(Clone, Debug)]
enum Change {
    Cut(f64),
    Flip(f64, u8),
    Insert(f64, Vec<u8>),
    Remove(f64, usize),
}

fn change() -> impl Strategy<Value = Change> {
    let telling = proptest::sample::select(vec![
        b"18446744073709551616".to_vec(),
        b"-1".to_vec(),
        b"\n".to_vec(),
        b",".to_vec(),
        b" ".to_vec(),
        b"\"".to_vec(),
        b"\\".to_vec(),
        b"{{{{[[".to_vec(),
        b"\0".to_vec(),
        vec![0xff; 8],
        vec![0x07, 0x74, 0x61, 0x65],
        vec![b'9'; 70_000],
    ]);
    prop_oneof![
        (0.0..1.0).prop_map(Change::Cut),
        (0.0..1.0, 1..=255_u8).prop_map(|(at, bits)| Change::Flip(at, bits)),
        (0.0..1.0, prop_oneof![telling, proptest::collection::vec(any::<u8>(), 1..20)])
            .prop_map(|(at, bytes)| Change::Insert(at, bytes)),
        (0.0..1.0, 1..60_usize).prop_map(|(at, count)| Change::Remove(at, count)),
    ]
}

fn changed(mut bytes: Vec<u8>, changes: &[Change]) -> Vec<u8> {
    for change in changes {
        let place = |at: f64| (at * bytes.len() as f64) as usize;
        match change {
            Change::Cut(at) => bytes.truncate(place(*at)),
            Change::Flip(at, bits) => {
                let at = place(*at);
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= bits;
                }
            }
            Change::Insert(at, what) => {
                let at = place(*at);
                bytes.splice(at..at, what.iter().copied());
            }
            Change::Remove(at, count) => {
                let at = place(*at);
                bytes.drain(at..(at + count).min(bytes.len()));
            }
        }
    }
    bytes
}

#[test]
fn samples_are_valid_and_recognised() {
    for format in streams() {
        let (count, faults) = read(sample(format), None).unwrap();
        assert_eq!((count, faults), (40, 0), "{format:?}");
        assert_eq!(read(sample(format), Some(format)).unwrap(), (40, 0), "{format:?}");
        // Other formats cannot read it, except for a few lines.
        for other in streams().into_iter().filter(|&other| other != format) {
            let found = read(sample(format), Some(other));
            assert!(!matches!(found, Ok((1.., 0))), "{format:?} as {other:?}: {found:?}");
        }
    }
}

#[test]
fn every_cut_of_every_sample() {
    for format in streams() {
        let bytes = sample(format);
        for len in 0..bytes.len().min(2000) {
            match read(bytes[..len].to_vec(), Some(format)) {
                Ok((_, faults)) => assert!(faults <= 1, "{format:?} cut at {len}"),
                Err(TraceError::Malformed { .. }) => {}
                Err(error) => panic!("{format:?} cut at {len}: {error:?}"),
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn changed_samples(format in any_format(), changes in proptest::collection::vec(change(), 1..6), named: bool) {
        let bytes = changed(sample(format), &changes);
        let _ = read(bytes, named.then_some(format));
    }

    #[test]
    fn a_changed_byte_costs_few_requests(format in any_format(), at in 0.3..1.0, bits in 1..=255_u8) {
        let bytes = changed(sample(format), &[Change::Flip(at, bits)]);
        let (count, faults) = read(bytes, Some(format)).unwrap();
        prop_assert!((37..=41).contains(&count), "{count} requests, {faults} faults");
    }

    #[test]
    fn noise_of_every_format(format in any_format(), bytes in proptest::collection::vec(any::<u8>(), 0..4000)) {
        let _ = read(bytes.clone(), Some(format));
        let _ = read(bytes, None);
    }

    #[test]
    fn changed_packed_samples(format in any_format(), changes in proptest::collection::vec(change(), 1..3)) {
        let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
        packer.write_all(&sample(format)).unwrap();
        for packed in [packer.finish().unwrap(), zstd::encode_all(&sample(format)[..], 3).unwrap()] {
            let bytes = changed(packed, &changes);
            let Ok(mut source) = from_reader(Cursor::new(bytes), Path::new("trace"), None) else { continue };
            let (mut batch, mut names) = (Vec::new(), Names::default());
            while let Ok(true) = source.read(&mut batch, &mut names) {}
        }
    }
}

/// Repeats the same bytes forever.
struct Endless(Vec<u8>, u64);

impl Read for Endless {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let count = (into.len() as u64).min(self.1) as usize;
        for (byte, said) in into[..count].iter_mut().zip(self.0.iter().cycle()) {
            *byte = *said;
        }
        self.1 -= count as u64;
        Ok(count)
    }
}

#[test]
fn a_line_without_an_end_is_one_fault() {
    let good = b"419,W,8792731648,16384,1577808144360767\n";
    let from = Cursor::new(good.to_vec()).chain(Endless(b"x".to_vec(), 100 << 20)).chain(Cursor::new(b"\n".to_vec()));
    let mut source = from_reader(from.chain(Cursor::new(good.to_vec())), Path::new("trace"), None).unwrap();
    let (mut requests, mut names) = (Vec::new(), Names::default());
    while source.read(&mut requests, &mut names).unwrap() {}
    assert_eq!((requests.len(), source.faults().count, source.faults().first[0].place), (2, 1, 2));
}

#[test]
fn new_names_for_ever_are_bounded() {
    let line = |n: u64| format!("{n} {n}{} write 0 512\n", "x".repeat(240));
    let mut text = b"fio version 3 iolog\n".to_vec();
    text.extend((0..300_000).flat_map(|n| line(n).into_bytes()));
    let mut source = from_reader(Cursor::new(text), Path::new("trace"), None).unwrap();
    let (mut requests, mut names) = (Vec::new(), Names::default());
    while source.read(&mut requests, &mut names).unwrap() {}
    assert_eq!(requests.len(), 300_000);
    let kept_bytes: usize = names.volumes.iter().map(str::len).sum();
    assert!(kept_bytes <= 64 << 20, "{kept_bytes}");
    assert!(names.volumes.refused() > 0);
    assert_eq!(requests[299_999].volume, 0);
}

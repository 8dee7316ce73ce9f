//! Writing and reading Parquet: the contents stay the same, and hostile files end in located errors.

use forebay_trace::format::parquet::{ParquetTrace, ParquetWriter, PartitionedWriter, Wanted, partitions};
use forebay_trace::{Faults, Flags, Knows, Lifetime, NOT_KNOWN, Names, Op, Request, Source, TraceError};
use proptest::prelude::*;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const KNOWS_ALL: Knows =
    Knows { op: true, time: true, latency: true, depth: true, flags: true, lifetime: true, process: true, file: true };

const DAY_NS: u64 = 86_400_000_000_000;

/// A request with its names.
#[derive(Clone, Debug, PartialEq)]
struct Named {
    request: Request,
    volume: String,
    process: String,
    path: String,
}

fn named(request: &Request, names: &Names) -> Named {
    Named {
        request: Request { volume: 0, process: 0, path: 0, ..*request },
        volume: names.volumes.name(request.volume).to_owned(),
        process: names.processes.name(request.process).to_owned(),
        path: names.paths.name(request.path).to_owned(),
    }
}

fn with_numbers(named: &Named, names: &mut Names) -> Request {
    Request {
        volume: names.volumes.number(&named.volume),
        process: names.processes.number(&named.process),
        path: names.paths.number(&named.path),
        ..named.request
    }
}

fn write(path: &Path, knows: Knows, rows: &[Named], batch: usize) {
    let mut names = Names::default();
    let mut writer = ParquetWriter::create(path, &knows).unwrap();
    for rows in rows.chunks(batch) {
        let requests: Vec<Request> = rows.iter().map(|row| with_numbers(row, &mut names)).collect();
        writer.write(&requests, &names).unwrap();
    }
    let written = writer.finish(&Faults::default()).unwrap();
    assert_eq!((written.rows, written.refused.count), (rows.len() as u64, 0));
}

fn read(trace: &mut impl Source) -> Result<Vec<Named>, TraceError> {
    let (mut requests, mut names, mut rows) = (Vec::new(), Names::default(), Vec::new());
    // Names that the caller already has keep their numbers.
    names.paths.number("/earlier");
    loop {
        requests.clear();
        let goes_on = trace.read(&mut requests, &mut names)?;
        rows.extend(requests.iter().map(|request| named(request, &names)));
        if !goes_on {
            return Ok(rows);
        }
    }
}

fn words(error: &dyn Error) -> String {
    error.source().map_or_else(|| error.to_string(), |source| format!("{error}: {}", words(source)))
}

fn maybe(unknown: u64, end: u64) -> impl Strategy<Value = u64> {
    prop_oneof![1 => Just(unknown), 3 => 0..end, 1 => Just(end - 1)]
}

fn any_row() -> impl Strategy<Value = Named> {
    let numbers = (maybe(0, 1 << 63), maybe(NOT_KNOWN, DAY_NS), maybe(NOT_KNOWN, DAY_NS), maybe(0, 1 << 63));
    let more = (maybe(0, 1 << 63), any::<u64>(), any::<u64>(), any::<u32>(), any::<u16>(), any::<u16>(), any::<u16>());
    let names = ("[a-c]?", "[a-z é]{0,3}", "(/[ab]{1,2}){0,3}");
    (numbers, more, names, 0..Op::ALL.len(), 0..Lifetime::ALL.len()).prop_map(|(numbers, more, names, op, lifetime)| {
        let (issued_ns, queued_ns, latency_ns, offset_bytes) = numbers;
        let (len_bytes, inode, cgroup, pid, io_class, depth, flags) = more;
        let request = Request {
            issued_ns,
            queued_ns,
            latency_ns,
            offset_bytes,
            len_bytes,
            inode,
            cgroup,
            volume: 0,
            process: 0,
            pid,
            path: 0,
            io_class,
            depth,
            flags: Flags(flags % (1 << 9)),
            op: Op::ALL[op],
            lifetime: Lifetime::ALL[lifetime],
        };
        Named { request, volume: names.0.to_owned(), process: names.1.to_owned(), path: names.2.to_owned() }
    })
}

fn any_knows() -> impl Strategy<Value = Knows> {
    any::<[bool; 5]>().prop_map(|[latency, depth, flags, lifetime, process]| Knows {
        op: true,
        time: true,
        latency,
        depth,
        flags,
        lifetime,
        process,
        file: false,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn what_goes_in_comes_out(rows in prop::collection::vec(any_row(), 0..300), knows in any_knows(), batch in 1..400_usize) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t.parquet");
        write(&path, knows, &rows, batch);
        let mut trace = ParquetTrace::open(&path).unwrap();
        prop_assert_eq!(trace.knows(), knows);
        prop_assert_eq!(trace.rows(), rows.len() as u64);
        prop_assert_eq!(read(&mut trace).unwrap(), rows);
        prop_assert_eq!(trace.faults().count, 0);
    }

    #[test]
    fn a_partitioned_trace_has_the_rows_of_each_volume(rows in prop::collection::vec(any_row(), 1..300)) {
        let directory = tempfile::tempdir().unwrap();
        let to = directory.path().join("fleet");
        let mut names = Names::default();
        let requests: Vec<Request> = rows.iter().map(|row| with_numbers(row, &mut names)).collect();
        let mut writer = PartitionedWriter::create(&to, &KNOWS_ALL).unwrap();
        writer.write(&requests, &names).unwrap();
        writer.finish(&Faults::default()).unwrap();
        let mut volumes: Vec<String> = rows.iter().map(|row| row.volume.clone()).collect();
        volumes.sort();
        volumes.dedup();
        let found = partitions(&to).unwrap();
        prop_assert_eq!(found.iter().map(|found| found.volume.clone()).collect::<Vec<_>>(), volumes);
        for partition in found {
            let mut here = Vec::new();
            for file in &partition.files {
                here.extend(read(&mut ParquetTrace::open(file).unwrap()).unwrap());
            }
            let wanted: Vec<Named> = rows.iter().filter(|row| row.volume == partition.volume).cloned().collect();
            prop_assert_eq!(here, wanted);
        }
    }

    /// Bytes anywhere, including the index, are changed, or the file is cut. The reader must not panic, and must not return more rows than
    /// were written.
    #[test]
    fn damage_is_an_error_or_other_values(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        at_the_end in any::<bool>(),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t.parquet");
        let mut bytes = sample_bytes();
        let len = bytes.len();
        for (at, byte) in changes {
            // The index is a small part of the file, and the most effective one to damage.
            let at = if at_the_end { len - 1 - at.index(2000.min(len)) } else { at.index(len) };
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(len));
        }
        fs::write(&path, &bytes).unwrap();
        if let Ok(mut trace) = ParquetTrace::open(&path) {
            let rows = trace.rows();
            if let Ok(read) = read(&mut trace) {
                prop_assert_eq!(read.len() as u64 + trace.faults().count, rows);
            }
        }
    }
}

/// A file of 6,000 rows with all columns.
fn sample_bytes() -> Vec<u8> {
    static BYTES: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
    BYTES
        .get_or_init(|| {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("t.parquet");
            write(&path, KNOWS_ALL, &sample(6000), 1000);
            fs::read(path).unwrap()
        })
        .clone()
}

fn sample(count: u64) -> Vec<Named> {
    let row = |n: u64| {
        let mut request = Request::new(n * 1000, Op::ALL[n as usize % 6], (n * 7919) % 5000 * 4096, 4096 << (n % 3));
        request.latency_ns = if n.is_multiple_of(5) { NOT_KNOWN } else { n % 777 };
        request.flags = Flags(n as u16 % 8);
        request.lifetime = Lifetime::ALL[n as usize % 6];
        request.inode = n % 100;
        request.pid = n as u32 % 3;
        request.depth = n as u16 % 32;
        let name = |what: &str, of: u64| if n.is_multiple_of(of) { String::new() } else { format!("{what}{}", n % of) };
        Named { request, volume: name("vol", 4), process: name("p", 5), path: name("/d/", 300) }
    };
    (0..count).map(row).collect()
}

#[test]
fn only_wanted_columns_are_decoded() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.parquet");
    let rows = sample(10_000);
    write(&path, KNOWS_ALL, &rows, 4096);
    let wanted = Wanted { latency: true, volume: true, ..Wanted::NONE };
    let read = read(&mut ParquetTrace::open(&path).unwrap().with_columns(wanted)).unwrap();
    for (read, row) in read.iter().zip(&rows) {
        let from = &row.request;
        let mut request = Request::new(from.issued_ns, from.op, from.offset_bytes, from.len_bytes);
        request.latency_ns = from.latency_ns;
        let (process, path) = Default::default();
        assert_eq!(*read, Named { request, volume: row.volume.clone(), process, path });
    }
    assert_eq!(read.len(), rows.len());
}

#[test]
fn strings_that_fit_no_dictionary_are_read_too() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.parquet");
    let mut rows = sample(30_000);
    for (n, row) in rows.iter_mut().enumerate().filter(|(n, _)| n % 7 != 0) {
        row.path = format!("/a/rather/long/directory/{}/{n}", "x".repeat(200));
    }
    write(&path, KNOWS_ALL, &rows, 4096);
    assert!(read(&mut ParquetTrace::open(&path).unwrap()).unwrap() == rows);
}

#[test]
fn what_the_source_could_not_read_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.parquet");
    let mut faults = Faults { by_line: true, ..Faults::default() };
    for line in 1..100 {
        faults.note(line, || format!("bad {line}"));
    }
    ParquetWriter::create(&path, &KNOWS_ALL).unwrap().finish(&faults).unwrap();
    assert_eq!(*ParquetTrace::open(&path).unwrap().faults_at_import(), faults);
}

#[test]
fn values_beyond_63_bits_are_refused_by_number() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.parquet");
    let mut writer = ParquetWriter::create(&path, &KNOWS_ALL).unwrap();
    let rows =
        [Request::new(1, Op::Read, 0, 1), Request::new(2, Op::Read, 1 << 63, 1), Request::new(3, Op::Read, 2, 1)];
    writer.write(&rows, &Names::default()).unwrap();
    let written = writer.finish(&Faults::default()).unwrap();
    assert_eq!((written.rows, written.refused.count, written.refused.first[0].place), (2, 1, 2));
    assert!(written.refused.first[0].what.contains("offset_bytes of 9223372036854775808"));
}

#[test]
fn an_existing_file_is_refused_and_unharmed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.parquet");
    fs::write(&path, "mine").unwrap();
    let error = ParquetWriter::create(&path, &KNOWS_ALL).err().unwrap();
    assert!(words(&error).contains("exists"), "{}", words(&error));
    assert!(words(&PartitionedWriter::create(&path, &KNOWS_ALL).err().unwrap()).contains("exists"));
    assert_eq!(names_in(directory.path()), ["t.parquet"]);

    let other = directory.path().join("u.parquet");
    let writer = ParquetWriter::create(&other, &KNOWS_ALL).unwrap();
    assert!(ParquetWriter::create(&other, &KNOWS_ALL).is_err(), "two writers of one file");
    fs::write(&other, "came in between").unwrap();
    let error = writer.finish(&Faults::default()).unwrap_err();
    assert!(words(&error).contains("exists"), "{}", words(&error));
    assert_eq!(fs::read(&other).unwrap(), b"came in between");
    assert_eq!(names_in(directory.path()), ["t.parquet", "u.parquet"]);
}

#[test]
fn a_writer_that_is_dropped_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    drop(ParquetWriter::create(&directory.path().join("t.parquet"), &KNOWS_ALL).unwrap());
    drop(PartitionedWriter::create(&directory.path().join("fleet"), &KNOWS_ALL).unwrap());
    assert_eq!(names_in(directory.path()), Vec::<String>::new());
}

/// A file cut to any length gives an error with its place.
#[test]
fn a_file_that_is_cut_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.parquet");
    let bytes = sample_bytes();
    for len in (0..bytes.len()).step_by(97).chain([0, 4, 7, 8, 11, 12, bytes.len() - 1]) {
        fs::write(&path, &bytes[..len]).unwrap();
        let error = ParquetTrace::open(&path).err().unwrap();
        assert!(matches!(error, TraceError::Malformed { .. }), "{len}: {}", words(&error));
    }
}

/// A valid file with a few damaged bytes in a page was called no Parquet trace.
#[test]
fn regression_a_damaged_page_is_damage_and_not_another_format() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.parquet");
    let good = sample_bytes();
    let mut unpacked_wrongly = 0;
    for at in (4..good.len() - 4000).step_by(499) {
        let mut bytes = good.clone();
        bytes[at..at + 64].fill(0xff);
        fs::write(&path, &bytes).unwrap();
        let Err(error) = ParquetTrace::open(&path).and_then(|mut trace| read(&mut trace)) else {
            continue;
        };
        let text = words(&error);
        // Damage in the header of a page may give a size beyond all limits.
        let is_limit = matches!(error, TraceError::Unsupported { .. }) && text.contains(" bytes, more than ");
        assert!(is_limit || matches!(error, TraceError::Damaged { .. }), "{at}: {text}");
        unpacked_wrongly += u32::from(text.contains("snappy"));
        for part in [" of row group 0, from row ", "in what begins at byte "] {
            assert!(text.contains(part), "{text}");
        }
        assert!(is_limit || text.contains("get it anew where it came from"), "{text}");
    }
    assert!(unpacked_wrongly > 0);
}

#[test]
fn an_index_longer_than_the_file_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.parquet");
    let mut bytes = sample_bytes();
    let at = bytes.len() - 8;
    bytes[at..at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
    fs::write(&path, &bytes).unwrap();
    assert!(words(&ParquetTrace::open(&path).err().unwrap()).contains("an index of 4294967295 bytes"));
}

#[test]
fn directories_are_named_as_hive_names_them() {
    let directory = tempfile::tempdir().unwrap();
    let to = directory.path().join("fleet");
    let names_of_volumes = ["", "a/b", "..", "50%", "é x", "__HIVE_DEFAULT_PARTITION__", &"/".repeat(200)];
    let mut names = Names::default();
    let mut writer = PartitionedWriter::create(&to, &KNOWS_ALL).unwrap();
    for name in names_of_volumes {
        let mut request = Request::new(0, Op::Write, 0, 4096);
        request.volume = names.volumes.number(name);
        writer.write(&[request], &names).unwrap();
    }
    let written = writer.finish(&Faults::default()).unwrap();
    assert_eq!((written.rows, written.refused.count, written.refused.first[0].place), (6, 1, 7));
    let mut wanted = vec![
        "volume=..",
        "volume=50%25",
        "volume=%5F_HIVE_DEFAULT_PARTITION__",
        "volume=__HIVE_DEFAULT_PARTITION__",
        "volume=a%2Fb",
        "volume=é%20x",
    ];
    wanted.sort_unstable();
    assert_eq!(names_in(&to), wanted);
    let mut found: Vec<String> = partitions(&to).unwrap().into_iter().map(|found| found.volume).collect();
    let mut wanted = names_of_volumes[..6].to_vec();
    found.sort();
    wanted.sort_unstable();
    assert_eq!(found, wanted);
}

fn names_in(directory: &Path) -> Vec<String> {
    let entries: Vec<PathBuf> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    let mut names: Vec<String> =
        entries.iter().map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Packed as Polars does by default; the file was called no Parquet trace.
#[test]
fn regression_a_file_of_others_in_zstandard_is_read() {
    use parquet::basic::{Compression, ZstdLevel};
    use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::SerializedFileWriter;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("of-others.parquet");
    let columns =
        "required int64 issued_ns; required binary op (UTF8); required int64 offset_bytes; required int64 size_bytes;";
    let schema = parquet::schema::parser::parse_message_type(&format!("message m {{ {columns} }}")).unwrap();
    let packed = WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::default())).build();
    let file = std::fs::File::create(&path).unwrap();
    let mut writer = SerializedFileWriter::new(file, schema.into(), packed.into()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    for at in 0..4 {
        let mut column = group.next_column().unwrap().unwrap();
        if at == 1 {
            let ops: Vec<ByteArray> = (0..1000).map(|_| ByteArray::from("write")).collect();
            column.typed::<ByteArrayType>().write_batch(&ops, None, None).unwrap();
        } else {
            let values: Vec<i64> = (0..1000).map(|row| if at == 3 { 4096 } else { row * 4096 }).collect();
            column.typed::<Int64Type>().write_batch(&values, None, None).unwrap();
        }
        column.close().unwrap();
    }
    group.close().unwrap();
    writer.close().unwrap();
    let read = read(&mut ParquetTrace::open(&path).unwrap()).unwrap();
    let last = &read[999].request;
    assert_eq!((last.issued_ns, last.len_bytes), (999 * 4096, 4096));
}

/// A latency of a day, which every other format refuses, was taken.
#[test]
fn regression_a_duration_of_a_day_is_a_fault() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.parquet");
    let mut rows = sample(3);
    rows[0].request.latency_ns = DAY_NS - 1;
    rows[1].request.latency_ns = DAY_NS;
    rows[2].request.queued_ns = DAY_NS;
    write(&path, KNOWS_ALL, &rows, 3);
    let mut trace = ParquetTrace::open(&path).unwrap();
    assert_eq!(read(&mut trace).unwrap(), rows[..1]);
    let first: Vec<_> = trace.faults().first.iter().map(|fault| (fault.place, fault.what.as_str())).collect();
    let whats = ["latency_ns of 86400000000000 is out of range", "queued_ns of 86400000000000 is out of range"];
    assert_eq!(first, [(2, whats[0]), (3, whats[1])]);
}

/// Nulls of a file that also had values became values: `not-set`, flags that are 0, and false.
#[test]
fn regression_what_is_null_stays_null_from_parquet_to_parquet() {
    use parquet::data_type::{ByteArray, ByteArrayType, Int32Type, Int64Type};
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::file::writer::SerializedFileWriter;
    use parquet::record::Field;
    const LIFETIMES: [Option<&str>; 3] = [None, Some("not-set"), Some("short")];
    const FLAGS: [Option<i32>; 4] = [None, Some(0), Some(5), None];
    const ROWS: usize = 3000;
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("from.parquet"), folder.path().join("to.parquet"));
    let schema = "message m { required int64 issued_ns; required binary op (UTF8); required int64 offset_bytes;
        required int64 size_bytes; optional binary lifetime (UTF8); optional int32 flags; }";
    let schema = parquet::schema::parser::parse_message_type(schema).unwrap();
    let mut writer =
        SerializedFileWriter::new(fs::File::create(&from).unwrap(), schema.into(), Arc::default()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    for at in 0..6 {
        let mut column = group.next_column().unwrap().unwrap();
        let texts = |of: &dyn Fn(usize) -> Option<&'static str>| -> (Vec<ByteArray>, Vec<i16>) {
            let all = (0..ROWS).map(of);
            (all.clone().flatten().map(ByteArray::from).collect(), all.map(|text| i16::from(text.is_some())).collect())
        };
        match at {
            1 => {
                let (ops, _) = texts(&|_| Some("write"));
                column.typed::<ByteArrayType>().write_batch(&ops, None, None).unwrap();
            }
            4 => {
                let (lifetimes, levels) = texts(&|row| LIFETIMES[row % 3]);
                column.typed::<ByteArrayType>().write_batch(&lifetimes, Some(&levels), None).unwrap();
            }
            5 => {
                let flags: Vec<i32> = (0..ROWS).filter_map(|row| FLAGS[row % 4]).collect();
                let levels: Vec<i16> = (0..ROWS).map(|row| i16::from(FLAGS[row % 4].is_some())).collect();
                column.typed::<Int32Type>().write_batch(&flags, Some(&levels), None).unwrap();
            }
            _ => {
                let values: Vec<i64> = (0..ROWS as i64).map(|row| row * 4096).collect();
                column.typed::<Int64Type>().write_batch(&values, None, None).unwrap();
            }
        }
        column.close().unwrap();
    }
    group.close().unwrap();
    writer.close().unwrap();

    let mut trace = ParquetTrace::open(&from).unwrap();
    let mut writer = ParquetWriter::create(&to, &trace.knows()).unwrap();
    let (mut requests, mut names) = (Vec::new(), Names::default());
    while trace.read(&mut requests, &mut names).unwrap() {}
    assert_eq!((requests.len(), trace.faults().count), (ROWS, 0));
    writer.write(&requests, &names).unwrap();
    writer.finish(trace.faults()).unwrap();
    // What is not known answers no rule.
    let facts = |row: usize| trace.knows().facts(&requests[row], &names);
    let of = |row| (facts(row).lifetime, facts(row).meta);
    assert_eq!(
        (of(0), of(1), of(2)),
        ((None, None), (Some(Lifetime::NotSet), Some(false)), (Some(Lifetime::Short), Some(true)))
    );

    let reader = SerializedFileReader::new(fs::File::open(&to).unwrap()).unwrap();
    for (row, found) in reader.get_row_iter(None).unwrap().enumerate() {
        let found = found.unwrap();
        let of = |name: &str| found.get_column_iter().find(|(of, _)| *of == name).unwrap().1.clone();
        let (lifetime, flags) = (LIFETIMES[row % 3], FLAGS[row % 4]);
        assert_eq!(of("lifetime"), lifetime.map_or(Field::Null, |text| Field::Str(text.to_owned())), "{row}");
        assert_eq!(of("flags"), flags.map_or(Field::Null, Field::Int), "{row}");
        for (name, bit) in [("meta", 1), ("sync", 2), ("fua", 4)] {
            assert_eq!(of(name), flags.map_or(Field::Null, |flags| Field::Bool(flags & bit != 0)), "{row}");
        }
    }
}

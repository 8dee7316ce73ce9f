use super::super::{TelemetryError, parquet};
use super::*;
use ::parquet::basic::{Compression, Encoding};
use ::parquet::file::reader::{FileReader, SerializedFileReader};
use ::parquet::record::RowAccessor;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;

/// Writes a telemetry file with these records, of job 1, thread 3.
fn spill_to(path: &Path, chunk: u32, records: &[Record]) {
    let mut spill = Spill::create(path, &header(), options(chunk, 512, 1)).unwrap();
    let mut recorder = spill.recorder(1, 3).unwrap();
    records.iter().for_each(|r| recorder.push(*r));
    assert_eq!(recorder.finish().dropped, 0);
    assert!(spill.finish(TIMEOUT).is_clean);
}

#[test]
fn what_was_recorded_is_what_parquet_gives() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("run.fbt"), dir.path().join("run.parquet"));
    let mut records: Vec<_> = (0..1_000).map(record).collect();
    // Unusual but possible: a clock that went back between two CPUs, hours of latency, the largest trim, the last byte.
    records[7].submitted_ns = records[7].intended_ns - 5;
    records[8].completed_ns = 5 * 3_600 * 1_000_000_000;
    records[9].len_bytes = u32::MAX;
    records[10].offset_bytes = i64::MAX as u64;
    records[11].depth = Record::clamp_depth(1_000_000);
    spill_to(&from, 100, &records);
    let out = File::create(&to).unwrap();
    let summary = parquet::convert_in_groups(Reader::open(&from).unwrap(), out, 350).unwrap();
    assert!(summary.is_whole() && summary.records == 1_000);

    let reader = SerializedFileReader::new(File::open(&to).unwrap()).unwrap();
    let metadata = reader.metadata();
    let groups: Vec<i64> = metadata.row_groups().iter().map(|g| g.num_rows()).collect();
    assert_eq!(groups, [400, 400, 200]);
    let group = metadata.row_group(0);
    assert!(group.columns().iter().all(|c| c.compression() == Compression::SNAPPY));
    for (column, encoding) in
        [(0, Encoding::RLE_DICTIONARY), (2, Encoding::RLE_DICTIONARY), (3, Encoding::DELTA_BINARY_PACKED)]
    {
        assert!(group.column(column).encodings().any(|e| e == encoding), "column {column}");
    }
    let names: Vec<_> = group.columns().iter().map(|c| c.column_path().string()).collect();
    assert_eq!(
        names,
        [
            "job",
            "thread",
            "op",
            "intended_ns",
            "submitted_ns",
            "completed_ns",
            "submission_latency_ns",
            "device_latency_ns",
            "total_latency_ns",
            "offset_bytes",
            "size_bytes",
            "depth",
            "error"
        ]
    );
    let pairs: BTreeMap<_, _> = metadata
        .file_metadata()
        .key_value_metadata()
        .unwrap()
        .iter()
        .map(|pair| (pair.key.as_str(), pair.value.as_deref().unwrap()))
        .collect();
    assert_eq!(pairs["forebay.run_id"], "30313233343536373839616263646566");
    assert_eq!(pairs["forebay.begin_unix_ns"], "1700000000123456789");
    assert_eq!(pairs["forebay.metadata"], header().metadata);
    assert_eq!(pairs["forebay.records"], "1000");
    assert_eq!(pairs["forebay.records_dropped"], "0");
    assert_eq!(pairs["forebay.whole"], "true");

    let mut rows = 0;
    for (row, expected) in reader.get_row_iter(None).unwrap().zip(&records) {
        let row = row.unwrap();
        let signed = |value: u64| i64::try_from(value).unwrap();
        let [intended, submitted, completed] =
            [expected.intended_ns, expected.submitted_ns, expected.completed_ns].map(signed);
        assert_eq!(row.get_string(0).unwrap(), "Protokoll schreiben ü");
        assert_eq!(row.get_int(1).unwrap(), 3);
        assert_eq!(row.get_string(2).unwrap(), expected.kind.name());
        let times: Vec<i64> = (3..10).map(|i| row.get_long(i).unwrap()).collect();
        let latencies = [submitted - intended, completed - submitted, completed - intended];
        assert_eq!(times[..3], [intended, submitted, completed]);
        assert_eq!(times[3..6], latencies);
        assert_eq!(times[6], signed(expected.offset_bytes));
        assert_eq!(row.get_uint(10).unwrap(), expected.len_bytes);
        assert_eq!(row.get_int(11).unwrap(), i32::from(expected.depth));
        assert_eq!(row.get_bool(12).unwrap(), expected.failed);
        rows += 1;
    }
    assert_eq!(rows, 1_000);
}

#[test]
fn a_torn_file_is_converted_and_says_so() {
    let file = small_file(4, 10);
    let mut out = Vec::new();
    let summary = parquet::convert(Reader::new(&file[..file.len() - 65]).unwrap(), &mut out).unwrap();
    assert_eq!((summary.records, summary.torn_tail_bytes), (30, 463));
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("torn.parquet");
    fs::write(&path, out).unwrap();
    let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
    let metadata = reader.metadata().file_metadata();
    assert_eq!(metadata.num_rows(), 30);
    let value = |key: &str| {
        metadata.key_value_metadata().unwrap().iter().find(|p| p.key == key).unwrap().value.clone().unwrap()
    };
    assert_eq!(value("forebay.whole"), "false");
    assert_eq!(value("forebay.torn_tail_bytes"), "463");
}

#[test]
fn what_no_row_can_hold_is_an_error_and_no_records_are_none() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("run.fbt"), dir.path().join("run.parquet"));
    let mut bad = record(1);
    bad.completed_ns = u64::MAX;
    spill_to(&from, 10, &[record(0), bad]);
    let error = parquet::convert(Reader::open(&from).unwrap(), Vec::new()).unwrap_err();
    assert!(matches!(error, TelemetryError::Unrepresentable { index: 1, what: "completed_ns", .. }), "{error}");

    fs::remove_file(&from).unwrap();
    spill_to(&from, 10, &[]);
    assert!(parquet::convert(Reader::open(&from).unwrap(), File::create(&to).unwrap()).unwrap().is_whole());
    assert_eq!(SerializedFileReader::new(File::open(&to).unwrap()).unwrap().metadata().file_metadata().num_rows(), 0);
    assert!(matches!(Reader::open(&to), Err(TelemetryError::NotTelemetry)));
    assert!(matches!(Reader::open(Path::new("/nowhere")), Err(TelemetryError::Open { .. })));
}

#[test]
fn a_full_disk_is_reported() {
    let file = small_file(4, 10);
    let full = File::options().write(true).open("/dev/full").unwrap();
    let error = parquet::convert(Reader::new(&file[..]).unwrap(), full).unwrap_err();
    assert!(matches!(error, TelemetryError::Parquet { .. }), "{error}");
}

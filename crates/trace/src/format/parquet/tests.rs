//! Tests that need internals: full disks, small limits.

#![allow(clippy::unwrap_used)]

use super::partitioned::{Limits, PartitionedWriter, partitions};
use super::reader::ParquetTrace;
use super::writer::ParquetWriter;
use crate::format::PartialFile;
use crate::{Faults, Knows, Names, Op, Request, Source, TraceError};
use std::error::Error;
use std::fs::{self, File};
use std::io::ErrorKind;

#[test]
fn a_full_disk_is_reported_and_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let to = directory.path().join("t.parquet");
    let partial = directory.path().join("t.parquet.partial");
    let full = || File::options().write(true).open("/dev/full").unwrap();
    let requests: Vec<Request> = (0..5000).map(|n| Request::new(n, Op::Write, n * 7919 % 6007, 1)).collect();
    let is_full = |error: &TraceError| {
        let source = error.source().unwrap().downcast_ref::<std::io::Error>().unwrap();
        assert_eq!(source.kind(), ErrorKind::StorageFull, "{error} {source}");
        assert!(error.to_string().contains("t.parquet"), "{error}");
    };

    // The disk is full while rows are written: row groups have few rows.
    fs::write(&partial, "").unwrap();
    let mut writer = ParquetWriter::over(PartialFile::over(full(), &to), &Knows::default(), 1000).unwrap();
    is_full(&writer.write(&requests, &Names::default()).unwrap_err());
    assert!(!partial.exists(), "it goes at once");
    assert!(writer.write(&requests, &Names::default()).is_err());
    assert!(writer.finish(&Faults::default()).is_err());

    // The disk is full at the end.
    fs::write(&partial, "").unwrap();
    let mut writer = ParquetWriter::over(PartialFile::over(full(), &to), &Knows::default(), 1 << 20).unwrap();
    writer.write(&requests, &Names::default()).unwrap();
    is_full(&writer.finish(&Faults::default()).unwrap_err());
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn few_files_and_little_memory_make_several_parts() {
    let directory = tempfile::tempdir().unwrap();
    let to = directory.path().join("fleet");
    let mut names = Names::default();
    let volumes: Vec<u32> = (0..10).map(|n| names.volumes.number(&format!("v{n}"))).collect();
    let limits = Limits { waiting_rows: 64, open_files: 3 };
    let mut writer = PartitionedWriter::with_limits(&to, &Knows::default(), limits).unwrap();
    for n in 0..2000_u64 {
        let mut request = Request::new(n, Op::Write, n, 1);
        request.volume = volumes[(n * n % 10) as usize];
        writer.write(&[request], &names).unwrap();
    }
    assert_eq!(writer.finish(&Faults::default()).unwrap().rows, 2000);
    let (mut rows, mut files) = (0, 0);
    for partition in partitions(&to).unwrap() {
        let mut last = None;
        for file in partition.files {
            files += 1;
            let mut trace = ParquetTrace::open(&file).unwrap();
            let (mut requests, mut names) = (Vec::new(), Names::default());
            while trace.read(&mut requests, &mut names).unwrap() {}
            for request in requests {
                assert_eq!(names.volumes.name(request.volume), partition.volume);
                assert!(last < Some(request.issued_ns), "parts are in order");
                last = Some(request.issued_ns);
                rows += 1;
            }
        }
    }
    assert_eq!(rows, 2000);
    assert!(files > 10, "{files}");
}

/// A convert that was killed left its directory, and the same convert then only said "File exists".
#[test]
fn regression_what_a_kill_has_left_of_a_directory_does_not_block_the_next() {
    let directory = tempfile::tempdir().unwrap();
    let (to, partial) = (directory.path().join("fleet"), directory.path().join("fleet.partial"));
    fs::create_dir_all(partial.join("volume=old")).unwrap();
    fs::write(partial.join("volume=old/part-0.parquet"), "half").unwrap();
    let mut names = Names::default();
    let mut request = Request::new(0, Op::Write, 0, 1);
    request.volume = names.volumes.number("new");
    let why = |found: Result<PartitionedWriter, TraceError>| match found {
        Ok(_) => panic!("it was begun"),
        Err(error) => error.source().unwrap().to_string(),
    };
    let mut writer = PartitionedWriter::create(&to, &Knows::default()).unwrap();
    assert!(why(PartitionedWriter::create(&to, &Knows::default())).contains("another convert"));
    writer.write(&[request], &names).unwrap();
    writer.finish(&Faults::default()).unwrap();
    let volumes: Vec<String> = partitions(&to).unwrap().into_iter().map(|partition| partition.volume).collect();
    assert_eq!(volumes, ["new"]);
    // Files of other people are kept.
    fs::remove_dir_all(&to).unwrap();
    fs::create_dir_all(partial.join("volume=old")).unwrap();
    fs::write(partial.join("thesis.txt"), "dear").unwrap();
    assert!(why(PartitionedWriter::create(&to, &Knows::default())).contains("thesis.txt"));
    assert!(partial.join("thesis.txt").exists() && partial.join("volume=old").exists());
}

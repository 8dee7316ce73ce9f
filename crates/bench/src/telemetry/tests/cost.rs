use super::super::{Recorder, parquet};
use super::*;
use std::fs::{self, File};
use std::hint::black_box;
use std::time::Instant;

/// A record as a generator makes one: its fields are in registers.
#[inline(always)]
fn made(i: u64) -> Record {
    let (begin, offset_bytes) = (black_box(i * 50), black_box(i << 12));
    Record {
        intended_ns: begin,
        submitted_ns: begin + 20,
        completed_ns: begin + 45,
        offset_bytes,
        len_bytes: 4096,
        depth: Record::clamp_depth(black_box(7)),
        kind: OpKind::Read,
        failed: false,
    }
}

/// Nanoseconds per push, best of `rounds`.
fn ns_per_push(mut recorder: Recorder, rounds: usize, pushes: u64) -> (f64, Recorder) {
    let mut best = f64::MAX;
    for _ in 0..rounds {
        let begin = Instant::now();
        (0..pushes).for_each(|i| recorder.push(made(i)));
        best = best.min(begin.elapsed().as_nanos() as f64 / pushes as f64);
    }
    (best, recorder)
}

/// `cargo test --release -p forebay-bench --lib telemetry -- --ignored --nocapture`, so that everything is optimised.
#[test]
#[ignore = "a measurement, to be run in release"]
fn cost_of_push() {
    let mut empty = f64::MAX;
    for _ in 0..20 {
        let begin = Instant::now();
        (0..1_000_000u64).for_each(|i| {
            let one = made(i);
            black_box((one.completed_ns, one.offset_bytes));
        });
        empty = empty.min(begin.elapsed().as_nanos() as f64 / 1e6);
    }
    println!("the loop alone                    {empty:6.2} ns");
    for records in [4 << 10, 64 << 10] {
        let (ring, _) = ns_per_push(Recorder::ring(records), 20, 1_000_000);
        println!("ring of {records:6} records            {ring:6.2} ns");
    }
    let dir = tempfile::tempdir().unwrap();
    // To a null target, as fast as possible: the cost of chunks that have left the worker's cache.
    for (chunk_records, chunks) in [(1_024, 4), (4_096, 4), (16_384, 4), (65_536, 4), (65_536, 64)] {
        let null = File::options().write(true).open("/dev/null").unwrap();
        let options = options(chunk_records, chunks, 1);
        let mut spill = Spill::start(Box::new(null), "null", &header(), options).unwrap();
        let (spilled, recorder) = ns_per_push(spill.recorder(0, 0).unwrap(), 5, 2_000_000);
        let report = recorder.finish();
        println!("spilled, {chunks:2} chunks of {chunk_records:6}      {spilled:6.2} ns, {report:?}");
    }
    // The cost of the spill thread itself.
    let targets = [("/dev/null", File::options().write(true).open("/dev/null")), ("a file", tempfile::tempfile())];
    for (name, file) in targets {
        let mut spill = Spill::start(Box::new(file.unwrap()), name, &header(), options(65_536, 64, 1)).unwrap();
        let mut recorder = spill.recorder(0, 0).unwrap();
        let begin = Instant::now();
        (0..4_000_000).for_each(|i| recorder.push(made(i)));
        assert_eq!(recorder.finish().dropped, 0);
        while spill.status().written < 4_000_000 {
            std::thread::sleep(Duration::from_micros(100));
        }
        println!("spill thread to {name}: {:.1} ns per record", begin.elapsed().as_nanos() as f64 / 4e6);
        assert!(spill.finish(TIMEOUT).is_clean || name == "/dev/null");
    }
    // Paced at 20 M/s, which a null target reaches.
    let path = dir.path().join("cost.fbt");
    let mut spill = Spill::create(&path, &header(), SpillOptions::within_budget(2, 256 << 20)).unwrap();
    let mut paced = spill.recorder(0, 0).unwrap();
    let begin = Instant::now();
    for i in 0..10_000_000u64 {
        while begin.elapsed().as_nanos() < u128::from(i) * 50 {}
        paced.push(record(i));
    }
    println!("20 M/s for 0.5 s to {}: {:?}, {:?}", path.display(), paced.finish(), begin.elapsed());
    // 1 M/s, as with a fast device: does the spill keep up, and what does it cost?
    let mut paced = spill.recorder(0, 1).unwrap();
    let begin = Instant::now();
    for i in 0..3_000_000u64 {
        while begin.elapsed().as_nanos() < u128::from(i) * 1_000 {}
        paced.push(record(i));
    }
    println!("1 M/s for 3 s: {:?}", paced.finish());
    let report = spill.finish(TIMEOUT);
    println!("{report:?}");
    // The conversion to Parquet.
    let begin = Instant::now();
    let summary = parquet::convert_file(&path, &dir.path().join("cost.parquet")).unwrap();
    let seconds = begin.elapsed().as_secs_f64();
    let size = |name: &str| fs::metadata(dir.path().join(name)).unwrap().len() as f64;
    println!(
        "Parquet: {} records in {seconds:.2} s, {:.1} bytes per record",
        summary.records,
        size("cost.parquet") / summary.records as f64
    );
    if let Ok(keep) = std::env::var("FOREBAY_KEEP_PARQUET") {
        fs::copy(dir.path().join("cost.parquet"), keep).unwrap();
    }
    // Nothing is written: every chunk waits, and all other records are dropped.
    struct Stuck(File);
    impl SpillTarget for Stuck {
        fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
            if bytes.len() > 1_000 {
                std::thread::sleep(Duration::from_secs(2));
            }
            self.0.append(bytes)
        }
        fn sync(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let null = Stuck(File::options().write(true).open("/dev/null").unwrap());
    let mut spill = Spill::start(Box::new(null), "null", &header(), options(100, 2, 1)).unwrap();
    let mut recorder = spill.recorder(0, 0).unwrap();
    (0..1_000).for_each(|i| recorder.push(record(i)));
    let (dropping, recorder) = ns_per_push(recorder, 5, 1_000_000);
    println!("dropping                          {dropping:6.2} ns");
    drop(recorder);
    drop(spill);
}

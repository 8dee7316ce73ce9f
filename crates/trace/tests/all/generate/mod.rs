//! The generators compared with the published tables, and invariants of all their streams.

mod counters;

use counters::{BLOCK_BYTES, Classify, Counters, MONGODB, Published, ROCKSDB, mongodb_row, published, rocksdb_row};
use forebay_trace::generate::{self, GenerateError, Mongodb, MongodbOptions, Rocksdb, RocksdbOptions};
use forebay_trace::generate::{Ycsb, YcsbOptions, YcsbWorkload};
use forebay_trace::{Flags, Lifetime, Names, Op, Request, Source};
use proptest::prelude::*;

/// Every alpha must agree within a percentage point; every beta, and both sizes with it, within a tenth.
fn hold_against(uri: &str, scale: f64, rows: &[Published], classify: Classify) {
    let mut source = generate::open(uri).expect("a generator").expect("its parameters");
    let counters = Counters::of(&mut *source, rows.len(), classify);
    for (row, Published { name, .. }) in rows.iter().enumerate() {
        let (is, should) = (counters.figures(row), published(rows, row));
        assert!((is.alpha - should.alpha).abs() < 0.01, "{uri} {name}: alpha {} not {}", is.alpha, should.alpha);
        assert!((is.beta / should.beta - 1.0).abs() < 0.1, "{uri} {name}: beta {} not {}", is.beta, should.beta);
        let written = is.written_gb / scale / should.written_gb;
        assert!((written - 1.0).abs() < 0.02, "{uri} {name}: {} GB written", is.written_gb);
        let occupied = is.occupied_gb / scale / should.occupied_gb;
        assert!((occupied - 1.0).abs() < 0.1, "{uri} {name}: {} GB occupied", is.occupied_gb);
    }
}

#[test]
fn rocksdb_gives_the_published_table() {
    hold_against("rocksdb:?scale=0.001&seed=1", 0.001, &ROCKSDB, rocksdb_row);
    hold_against("rocksdb:?scale=0.002&seed=2&reads=0.2&rate=200MB/s", 0.002, &ROCKSDB, rocksdb_row);
}

#[test]
fn mongodb_gives_the_published_table() {
    hold_against("mongodb:?scale=0.001&seed=1", 0.001, &MONGODB, mongodb_row);
    hold_against("mongodb:?scale=0.0005&seed=2&commit=12KiB&commits=0", 0.0005, &MONGODB, mongodb_row);
}

#[test]
#[ignore = "ten seconds and more in a debug build; run it with --ignored"]
fn a_hundredth_gives_the_published_tables() {
    hold_against("rocksdb:?scale=0.01&seed=1", 0.01, &ROCKSDB, rocksdb_row);
    hold_against("mongodb:?scale=0.01&seed=1", 0.01, &MONGODB, mongodb_row);
}

/// All requests of a stream.
fn all(source: &mut dyn Source) -> (Vec<Request>, Names) {
    let (mut requests, mut names) = (Vec::new(), Names::default());
    while source.read(&mut requests, &mut names).expect("a generator does not fail") {}
    (requests, names)
}

/// Invariants of every generator: times never go back; all ranges are whole blocks within the volume; the writer of a live block owns it;
/// only written blocks are read and discarded, by their own file.
fn hold_together(requests: &[Request], capacity_bytes: u64) {
    const NOBODY: u64 = 0;
    /// Requests of the file system itself have no inode.
    const METADATA: u64 = u64::MAX;
    let mut owners = vec![NOBODY; (capacity_bytes / BLOCK_BYTES) as usize];
    let mut now_ns = 0;
    for request in requests {
        assert!(request.issued_ns >= now_ns, "{request:?} at {now_ns}");
        now_ns = request.issued_ns;
        if request.op == Op::Flush {
            assert_eq!(request.len_bytes, 0);
            continue;
        }
        assert!(request.len_bytes > 0, "{request:?}");
        assert!(request.offset_bytes % BLOCK_BYTES == 0 && request.len_bytes % BLOCK_BYTES == 0, "{request:?}");
        assert!(request.end_bytes() <= capacity_bytes, "{request:?} beyond {capacity_bytes}");
        assert!(request.op == Op::Discard || request.len_bytes <= 128 << 10, "{request:?}");
        assert_eq!(request.inode == 0, request.flags.has(Flags::META), "{request:?}");
        let file = if request.inode == 0 { METADATA } else { request.inode };
        let (begin, end) = (request.offset_bytes / BLOCK_BYTES, request.end_bytes() / BLOCK_BYTES);
        for owner in &mut owners[begin as usize..end as usize] {
            match request.op {
                Op::Write => {
                    assert!(*owner == NOBODY || *owner == file, "{request:?} over what {owner} has");
                    *owner = file;
                }
                Op::Discard => {
                    assert_eq!(*owner, file, "{request:?}");
                    *owner = NOBODY;
                }
                Op::Read => assert_eq!(*owner, file, "{request:?}"),
                op => panic!("{op:?}"),
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2))]

    #[test]
    fn rocksdb_streams_hold_together(seed: u64, scale in 0.001..0.0015, reads in 0.0..0.3) {
        let options = RocksdbOptions { seed, scale, reads, ..RocksdbOptions::default() };
        let mut source = Rocksdb::new(options);
        let capacity = source.capacity_bytes();
        let (requests, names) = all(&mut source);
        hold_together(&requests, capacity);
        // The log keeps its rate: background threads keep up with it.
        let log_s = scale * 688.9e9 / options.rate_bytes as f64;
        let seconds = requests[requests.len() - 1].issued_ns as f64 / 1e9;
        prop_assert!((0.97..1.05).contains(&(seconds / log_s)), "{} s, not {}", seconds, log_s);
        for request in requests.iter().filter(|request| request.op == Op::Write) {
            let hint = match rocksdb_row(request, &names) {
                0 => Lifetime::NotSet,
                1 => Lifetime::Short,
                2 | 3 => Lifetime::Medium,
                4 => Lifetime::Long,
                _ => Lifetime::Extreme,
            };
            prop_assert_eq!(request.lifetime, hint);
            prop_assert!(!names.processes.name(request.process).is_empty());
        }
        let (again, _) = all(&mut Rocksdb::new(options));
        prop_assert!(requests == again, "one seed, two streams");
        let (mut other, mut names) = (Vec::new(), Names::default());
        Rocksdb::new(RocksdbOptions { seed: seed ^ 1, ..options }).read(&mut other, &mut names).unwrap();
        prop_assert!(requests[..other.len()] != other, "two seeds, one stream");
    }

    #[test]
    fn mongodb_streams_hold_together(
        seed: u64, scale in 0.0001..0.0002, commit in 4u64..70, commits in 0.0..2000.0f64,
    ) {
        let options = MongodbOptions { seed, scale, commit_bytes: commit * BLOCK_BYTES, commits };
        let mut source = Mongodb::new(options);
        let capacity = source.capacity_bytes();
        let (requests, names) = all(&mut source);
        hold_together(&requests, capacity);
        prop_assert!(requests.iter().all(|request| request.op != Op::Discard));
        // There is a commit at least every 100 ms.
        let journal = names.processes.iter().position(|name| name == "WTJourn.Flusher").unwrap() as u32;
        let commits: Vec<_> = requests.iter().filter(|request| request.process == journal).collect();
        prop_assert!(commits.windows(2).all(|two| two[1].issued_ns - two[0].issued_ns <= 100_000_000));
        let (again, _) = all(&mut Mongodb::new(options));
        prop_assert!(requests == again, "one seed, two streams");
    }
}

#[test]
fn mongodb_replaces_pages_in_free_space() {
    let (requests, names) = all(&mut Mongodb::new(MongodbOptions { scale: 0.001, ..MongodbOptions::default() }));
    let mut written = std::collections::HashMap::new();
    let (mut checkpoint, mut reused) = (0, 0);
    for request in &requests {
        if request.process == names.processes.iter().position(|name| name == "WTCheck.tThread").unwrap() as u32 {
            if request.op == Op::Flush {
                checkpoint += 1;
            } else if let Some(before) = written.insert(request.offset_bytes, checkpoint) {
                // Pages replaced by a checkpoint stay until it ends.
                assert!(before < checkpoint, "{request:?}");
                reused += 1;
            }
        }
    }
    assert!(checkpoint > 10 && reused > 100, "{checkpoint} checkpoints, {reused} pages in space used again");
}

#[test]
fn names_are_those_of_the_real_systems() {
    let (_, names) = all(&mut Rocksdb::new(RocksdbOptions { scale: 0.001, reads: 0.01, ..RocksdbOptions::default() }));
    for (name, is_there) in [("db/010000.log", true), ("db/L0/010000.sst", false), ("db/L5/", false)] {
        assert_eq!(names.paths.iter().any(|path| path == name), is_there, "{name}");
    }
    for level in 0..5 {
        let prefix = format!("db/L{level}/");
        assert!(names.paths.iter().any(|path| path.starts_with(&prefix) && path.ends_with(".sst")), "{prefix}");
    }
    for process in ["kworker/u16:1", "rocksdb:high0", "rocksdb:low0", "rocksdb:low3", "xfsaild/nvme0n1", "db_bench"] {
        assert!(names.processes.iter().any(|name| name == process && name.len() <= 15), "{process}");
    }
    let (_, names) = all(&mut Mongodb::new(MongodbOptions { scale: 0.0001, ..MongodbOptions::default() }));
    for name in ["journal/WiredTigerLog.0000000001", "collection-0.wt"] {
        assert!(names.paths.iter().any(|path| path == name), "{name}");
    }
}

#[test]
fn ycsb_mixes_are_those_of_the_workloads() {
    use YcsbWorkload::{A, B, C, D, E, F};
    // Shares of operations that read and that write, in percent.
    for (workload, reads, writes) in [(A, 50, 50), (B, 95, 5), (C, 100, 0), (D, 95, 5), (E, 95, 5), (F, 100, 50)] {
        let options = YcsbOptions { workload, records: 10_000, operations: 100_000, ..YcsbOptions::default() };
        let mut source = Ycsb::new(options);
        let capacity = source.capacity_bytes();
        let (requests, _) = all(&mut source);
        assert!(requests.iter().all(|request| request.end_bytes() <= capacity));
        assert!(requests.is_sorted_by_key(|request| request.issued_ns));
        let count = |op| {
            let mut times: Vec<_> =
                requests.iter().filter(|r| r.op == op).map(|r| (r.issued_ns, r.offset_bytes)).collect();
            // Scans are split into requests with equal times.
            times.dedup_by_key(|(at_ns, _)| *at_ns);
            times.len() as i64 / 1000
        };
        assert!((count(Op::Read) - reads).abs() <= 1, "{workload:?}: {} reads", count(Op::Read));
        assert!((count(Op::Write) - writes).abs() <= 1, "{workload:?}: {} writes", count(Op::Write));
        let seconds = requests.last().unwrap().issued_ns as f64 / 1e9;
        assert!((seconds / 10.0 - 1.0).abs() < 0.02, "{seconds} s for 100,000 operations at 10,000 a second");
    }
}

#[test]
fn ycsb_has_its_hottest_record() {
    let text = "ycsb:?workload=c&records=100000&operations=400000&record=8KiB&seed=9";
    let (requests, _) = all(&mut *generate::open(text).unwrap().unwrap());
    let mut hits = std::collections::HashMap::new();
    for request in &requests {
        assert_eq!((request.len_bytes, request.offset_bytes % 8192), (8192, 0));
        *hits.entry(request.offset_bytes).or_insert(0u64) += 1;
    }
    let top = *hits.values().max().unwrap() as f64 / requests.len() as f64;
    // Three standard deviations are 0.09 points.
    assert!((top - 0.0378).abs() < 0.001, "{top}");
    // Nearly all records are read: the tail is long.
    assert!(hits.len() > 80_000, "{}", hits.len());
}

#[test]
fn only_generators_are_opened() {
    for text in ["", "rocksdb", "trace.bin", "vscsi:x", "/tmp/rocksdb:?scale=1", "rocks:?scale=1"] {
        assert!(generate::open(text).is_none(), "{text}");
    }
    for (name, keys) in generate::NAMES {
        assert!(generate::open(&format!("{name}:")).unwrap().is_ok());
        assert!(!keys.is_empty());
    }
    let error = |text: &str| generate::open(text).unwrap().err().unwrap();
    assert_eq!(
        error("mongodb:?comit=4KiB").to_string(),
        "mongodb: has no parameter \"comit\", did you mean commit?; there are scale, commit, commits, seed"
    );
    for text in [
        "rocksdb:?scale=0",
        "rocksdb:?scale=inf",
        "rocksdb:?scale=NaN",
        "rocksdb:?reads=1",
        "rocksdb:?rate=1",
        "rocksdb:?seed=-1",
        "mongodb:?commit=5000",
        "mongodb:?commit=2MiB",
        "mongodb:?commits=-1",
        "ycsb:?workload=g",
        "ycsb:?records=0",
        "ycsb:?record=100",
        "ycsb:?rate=0",
        "ycsb:?operations=1e6",
    ] {
        assert!(matches!(error(text), GenerateError::Value { .. }), "{text}");
    }
    assert!(matches!(error("ycsb:workload=a"), GenerateError::Form { .. }));
    assert!(matches!(error("ycsb:?seed=1&seed=1"), GenerateError::Twice { .. }));
}

proptest! {
    #[test]
    fn no_ycsb_parameters_panic(
        records in 1u64..1 << 40, operations in 0u64..1 << 40, record in 1u64..2048, seed: u64, mix in 0usize..6,
    ) {
        let workload = ["a", "b", "c", "d", "e", "f"][mix];
        let record = record * 512;
        let text = format!(
            "ycsb:?workload={workload}&records={records}&operations={operations}&record={record}&seed={seed}"
        );
        let mut source = generate::open(&text).unwrap().unwrap();
        let (mut requests, mut names) = (Vec::new(), Names::default());
        source.read(&mut requests, &mut names).unwrap();
        prop_assert!(requests.iter().all(|request| request.len_bytes > 0 && request.end_bytes() < u64::MAX));
    }
}

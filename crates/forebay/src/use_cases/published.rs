//! The two use cases of "Optane + QLC" with PRISM as published (Intel, 2019): the PRISM table of the workload, and the figures of single
//! drives and of both tiers.

/// A row of the table "workload through the PRISM".
#[derive(Clone, Copy, Debug)]
pub struct Class {
    /// Rows of our analysis that form it: classes of the built-in rules.
    pub name: &'static str,
    /// Occupied space in GB (10^9 bytes).
    pub occupancy_gb: f64,
    /// Bytes written to it, in GB.
    pub written_gb: f64,
}

/// A published figure of three set-ups: TLC alone, QLC alone, both tiers. `None` where it was not published.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    /// Name of the figure in our results.
    pub key: &'static str,
    pub tlc: Option<f64>,
    pub qlc: Option<f64>,
    pub tiered: Option<f64>,
}

/// A use case: its load, its drives, and the published results.
#[derive(Debug)]
pub struct UseCase {
    /// Name for `forebay conformance`.
    pub name: &'static str,
    pub about: &'static str,
    /// The generator that models the application; `scale` and `seed` are added to its name.
    pub generator: &'static str,
    /// The built-in rules whose classes are the rows of the table.
    pub rules: &'static str,
    /// The published classifier, as classes of a pool.
    pub classifier: &'static str,
    /// Compressible share of the application's data in percent; `None` where the application compresses its data itself.
    pub compressible_percent: Option<u32>,
    /// I/Os in flight.
    pub depth: u32,
    /// Default scale of sizes.
    pub scale: f64,
    /// The least scale that generator and models accept, and the greatest whose contents fit into memory (some 15 GB).
    pub scales: (f64, f64),
    /// The drives, and their sizes in bytes at scale 1.
    pub fast: (&'static str, f64),
    pub qlc: (&'static str, f64),
    pub tlc: (&'static str, f64),
    pub classes: &'static [Class],
    pub figures: &'static [Figure],
}

const fn class(name: &'static str, occupancy_gb: f64, written_gb: f64) -> Class {
    Class { name, occupancy_gb, written_gb }
}

const fn figure(key: &'static str, tlc: f64, qlc: f64, tiered: f64) -> Figure {
    Figure { key, tlc: Some(tlc), qlc: Some(qlc), tiered: Some(tiered) }
}

/// db_bench, `fillseq` and then `readwhilewriting`, RocksDB 5.17.2 on XFS; P4510 8 TB, D5-P4320 7.68 TB, P4800X 375 GB.
pub const ROCKSDB: UseCase = UseCase {
    name: "oq-rocksdb",
    about: "RocksDB on XFS: log, L0 to L3 and metadata on the fast tier, lower levels on QLC",
    generator: "rocksdb:?reads=0.5",
    rules: "rocksdb",
    classifier: "[[class]]\nname = \"upper\"\nplace = \"fast\"\nmatch = [\"ext:log\", \"rocksdb.level<=3\"]\n\
                 [[class]]\nname = \"lower\"\nplace = \"capacity\"\nmatch = [\"rocksdb.level>=4\"]\n",
    // db_bench's `compression_ratio` is 0.5 by default (RocksDB, `tools/db_bench_tool.cc`); no compression was published.
    compressible_percent: Some(50),
    depth: 8,
    scale: 0.001,
    scales: (0.001, 0.01),
    fast: ("p4800x", 375e9),
    qlc: ("p4320", 7.68e12),
    tlc: ("p4510", 8e12),
    classes: &[
        class("metadata", 2.0, 5.7),
        class("wal", 4.0, 688.9),
        class("L0", 1.0, 689.6),
        class("L1", 1.0, 1012.3),
        class("L2", 11.8, 3157.0),
        class("L3", 100.0, 4511.9),
        class("L4/L5", 1000.0, 2601.9),
    ],
    figures: &[
        figure("epbw_pb", 24.92, 8.86, 37.22),
        figure("edpwd", 1.71, 0.63, 2.65),
        figure("write_mb_per_s", 29.83, 25.96, 40.32),
        figure("read_p50_us", 163.93, 522.03, 74.07),
        figure("read_p75_us", 423.68, 1263.73, 240.07),
        figure("read_p99_us", 5041.73, 7961.48, 1281.36),
        figure("read_p99_9_us", 17866.50, 18953.32, 4213.98),
        figure("read_p99_99_us", 30199.82, 73848.21, 13682.56),
        Figure { key: "alpha", tlc: None, qlc: None, tiered: Some(0.79) },
    ],
};

/// YCSB A on MongoDB 4.0.6, WiredTiger on XFS, with acknowledged journal; P4500 (TLC), P4800X 375 GB. The source does not name the QLC
/// drive; that of the other use case is used.
pub const MONGODB: UseCase = UseCase {
    name: "oq-mongodb",
    about: "MongoDB, WiredTiger on XFS: the directory with the journal on the fast tier, data on QLC",
    generator: "mongodb:?",
    rules: "mongodb",
    classifier: "[[class]]\nname = \"journal\"\nplace = \"fast\"\nmatch = [\"path:**/journal/**\"]\n\
                 [[class]]\nname = \"data\"\nplace = \"capacity\"\nmatch = [\"ext:wt\"]\n",
    // WiredTiger compresses blocks and journal with snappy by default.
    compressible_percent: None,
    depth: 16,
    scale: 0.0005,
    scales: (0.0003, 0.015),
    fast: ("p4800x", 375e9),
    qlc: ("p4320", 7.68e12),
    tlc: ("p4500", 4e12),
    classes: &[class("journal", 3.0, 27478.3), class("data", 750.0, 776.7)],
    figures: &[
        Figure { key: "edpwd", tlc: Some(0.27), qlc: None, tiered: Some(3.01) },
        Figure { key: "alpha", tlc: None, qlc: None, tiered: Some(0.97) },
    ],
};

/// All use cases.
pub const ALL: [&UseCase; 2] = [&ROCKSDB, &MONGODB];

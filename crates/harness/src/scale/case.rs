//! The pools of the scale test, and their limits.

use crate::server::{Pool, sparse_file};
use anyhow::{Context, Result};
use std::path::Path;
use std::time::Duration;

/// Blocks covered by a map leaf (docs/format.md).
pub const LEAF_BLOCKS: u64 = 400;
/// Size of a leaf in bytes.
pub const LEAF_BYTES: u64 = 4096;

/// One pool with its load, its kill and its limits.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Name, as in `--case`.
    pub name: &'static str,
    /// Size of the disk that is written, in GiB.
    pub disk_gib: u64,
    /// The operator's memory limit, in MiB.
    pub limit_mib: u64,
    /// The load continues at least until this many map leaves exist.
    pub leaves: u64,
    /// Most blocks read back: half of them the newest, the others spread evenly over all.
    pub check_max: u64,
    /// Whether to write one block in each leaf first, in order: maps the whole disk thinly.
    pub sweep: bool,
    /// Longest time from the start of the process to `ready`, after the kill.
    pub ready_max: Duration,
    /// The runs that include the case.
    pub runs: Runs,
}

/// The runs that include a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runs {
    /// Only on request, with `--case`.
    Little,
    /// In short runs.
    Short,
    /// In long runs.
    Long,
}

/// Most bytes that recovery may read.
pub const READ_MAX_BYTES: u64 = 1 << 30;
/// Size of the sparse capacity file, in GiB.
const CAPACITY_GIB: u64 = 4096;
/// Size of the sparse fast file, in GiB.
const FAST_GIB: u64 = 24;
/// Size of a disk that covers nearly all of the pool, in GiB.
const WIDE_GIB: u64 = 4000;

/// Number of leaves in a map of ten times a memory limit.
const fn ten_times(limit_mib: u64) -> u64 {
    10 * (limit_mib << 20) / LEAF_BYTES
}

/// All cases.
pub const CASES: [Case; 5] = [
    Case {
        name: "wide-short",
        disk_gib: WIDE_GIB,
        limit_mib: 160,
        leaves: ten_times(160),
        check_max: 150_000,
        sweep: false,
        ready_max: Duration::from_secs(10),
        runs: Runs::Short,
    },
    // For machines with little disk space: a map of four times the limit.
    Case {
        name: "wide-little",
        disk_gib: WIDE_GIB,
        limit_mib: 160,
        leaves: ten_times(160) * 4 / 10,
        check_max: 150_000,
        sweep: false,
        ready_max: Duration::from_secs(10),
        runs: Runs::Little,
    },
    Case {
        name: "wide",
        disk_gib: WIDE_GIB,
        limit_mib: 192,
        leaves: ten_times(192),
        check_max: u64::MAX,
        sweep: false,
        ready_max: Duration::from_secs(10),
        runs: Runs::Long,
    },
    // 64 GiB of address space with every leaf present: to recovery and map the same as 64 GiB of data.
    Case {
        name: "mapped",
        disk_gib: 64,
        limit_mib: 1024,
        leaves: 64 * (1 << 18) / LEAF_BLOCKS,
        check_max: u64::MAX,
        sweep: true,
        ready_max: Duration::from_secs(2),
        runs: Runs::Long,
    },
    // The most leaves that may be dirty at once, so that recovery reads as much as possible.
    Case {
        name: "burst",
        disk_gib: WIDE_GIB,
        limit_mib: 1024,
        leaves: 300_000,
        check_max: u64::MAX,
        sweep: false,
        ready_max: Duration::from_secs(10),
        runs: Runs::Long,
    },
];

impl Case {
    /// Number of blocks of the disk.
    pub fn blocks(&self) -> u64 {
        self.disk_gib << 18
    }

    /// Creates files and configuration, and formats the pool.
    pub fn create(&self, program: &Path, directory: &Path) -> Result<Pool> {
        let directory = directory.join(self.name);
        std::fs::create_dir_all(&directory)?;
        sparse_file(&directory.join("fast.img"), FAST_GIB << 30)?;
        sparse_file(&directory.join("capacity.img"), CAPACITY_GIB << 30)?;
        let config = directory.join("pool.toml");
        let text = directory.to_str().context("the directory's name is not UTF-8")?;
        let Self { disk_gib, limit_mib, .. } = self;
        let content = format!(
            r#"[pool]
name = "scale"
overcommit = true

[[fast]]
target = "{text}/fast.img"

[[capacity]]
target = "{text}/capacity.img"

[[disk]]
name = "db"
size = "{disk_gib}GiB"

[memory]
limit = "{limit_mib}MiB"

[[export]]
disk = "db"
nbd = "unix:{text}/db.sock"

[server]
control = "{text}/control.sock"
"#
        );
        std::fs::write(&config, content)?;
        let pool = Pool { program: program.to_owned(), config, log: directory.join("server.log") };
        pool.run("create", &[])?;
        Ok(pool)
    }
}

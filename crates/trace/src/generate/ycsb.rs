//! YCSB's core workloads A to F as block requests: a record is a range of the volume.
//!
//! Mixes and distributions are those of YCSB's `workloads/workloada` to `workloadf`; keys are chosen as
//! `CoreWorkload.nextKeynum` does.

use super::parts::{BLOCK_BYTES, REQUEST_BYTES, poisson_gap_ns};
use super::{GenerateError, Latest, Parameters, ScrambledZipfian};
use crate::{BATCH_REQUESTS, Faults, Knows, Names, Op, Request, Source, TraceError};
use forebay_block::Random;

/// Most records that a scan reads (`maxscanlength`).
const SCAN_RECORDS_MAX: u64 = 100;
/// Most draws of a key until one exists.
const DRAWS_MAX: usize = 1000;
const NS_PER_S: f64 = 1e9;

/// A core workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum YcsbWorkload {
    /// Update heavy: half reads, half updates.
    A,
    /// Read mostly: 95 % reads, 5 % updates.
    B,
    /// Reads only.
    C,
    /// Read latest: 95 % reads of mostly the newest records, 5 % inserts.
    D,
    /// Short ranges: 95 % scans, 5 % inserts.
    E,
    /// Half reads, half reads that are followed by an update of the same record.
    F,
}

/// The effect of one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Read,
    Update,
    Insert,
    Scan,
    ReadModifyWrite,
}

impl YcsbWorkload {
    const NAMES: [(&str, Self); 6] =
        [("a", Self::A), ("b", Self::B), ("c", Self::C), ("d", Self::D), ("e", Self::E), ("f", Self::F)];

    /// The most frequent operation, its share in percent, and the other one.
    fn mix(self) -> (Operation, u64, Operation) {
        match self {
            Self::A => (Operation::Read, 50, Operation::Update),
            Self::B => (Operation::Read, 95, Operation::Update),
            Self::C => (Operation::Read, 100, Operation::Read),
            Self::D => (Operation::Read, 95, Operation::Insert),
            Self::E => (Operation::Scan, 95, Operation::Insert),
            Self::F => (Operation::Read, 50, Operation::ReadModifyWrite),
        }
    }

    /// Whether the workload adds records.
    fn inserts(self) -> bool {
        matches!(self, Self::D | Self::E)
    }
}

/// Options of a [`Ycsb`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct YcsbOptions {
    /// The workload.
    pub workload: YcsbWorkload,
    /// Number of records at the beginning (`recordcount`).
    pub records: u64,
    /// Number of operations until the end (`operationcount`).
    pub operations: u64,
    /// Bytes of a record.
    pub record_bytes: u64,
    /// Operations per second, at random times.
    pub rate: f64,
    /// Seed of all random choices.
    pub seed: u64,
}

impl Default for YcsbOptions {
    fn default() -> Self {
        Self {
            workload: YcsbWorkload::A,
            records: 1_000_000,
            operations: 1_000_000,
            record_bytes: BLOCK_BYTES,
            rate: 10_000.0,
            seed: 1,
        }
    }
}

impl YcsbOptions {
    pub(super) const KEYS: &[&str] = &["workload", "records", "operations", "record", "rate", "seed"];

    pub(super) fn parse(text: &str) -> Result<Self, GenerateError> {
        let parameters = Parameters::parse("ycsb", Self::KEYS, text)?;
        let default = Self::default();
        let workload = match parameters.text("workload") {
            None => default.workload,
            Some(word) => YcsbWorkload::NAMES
                .iter()
                .find(|(name, _)| word.eq_ignore_ascii_case(name))
                .map(|(_, workload)| *workload)
                .ok_or_else(|| parameters.refuse("workload", word, "a, b, c, d, e or f".to_owned()))?,
        };
        Ok(Self {
            workload,
            records: parameters.count("records", default.records, 1, 1 << 40)?,
            operations: parameters.count("operations", default.operations, 0, 1 << 40)?,
            record_bytes: parameters.size_bytes("record", default.record_bytes, (512, 1 << 20), 512)?,
            rate: parameters.number("rate", default.rate, 0.001, 1e9)?,
            seed: parameters.count("seed", default.seed, 0, u64::MAX)?,
        })
    }
}

/// How keys are chosen.
enum Chooser {
    Zipfian(ScrambledZipfian),
    Latest(Latest),
}

/// The requests of YCSB; see the module.
pub struct Ycsb {
    options: YcsbOptions,
    random: Random,
    chooser: Chooser,
    /// Present number of records.
    records: u64,
    operations_left: u64,
    now_ns: u64,
    faults: Faults,
}

impl Ycsb {
    /// A stream from its beginning. Options that the text form does not allow (no records, records of 0 bytes) are raised to the minimum.
    #[must_use]
    pub fn new(options: YcsbOptions) -> Self {
        let options =
            YcsbOptions { records: options.records.max(1), record_bytes: options.record_bytes.max(512), ..options };
        let chooser = if options.workload == YcsbWorkload::D {
            Chooser::Latest(Latest::new(options.records - 1))
        } else {
            // Both ends belong to YCSB's range: one key more than there are records, and twice the expected inserts. Keys that do not exist
            // yet are drawn again.
            Chooser::Zipfian(ScrambledZipfian::new(options.records + 1 + Self::expected_inserts(&options)))
        };
        Self {
            options,
            random: Random::new(options.seed),
            chooser,
            records: options.records,
            operations_left: options.operations,
            now_ns: 0,
            faults: Faults::default(),
        }
    }

    /// Twice the number of expected inserts (`expectednewkeys`).
    fn expected_inserts(options: &YcsbOptions) -> u64 {
        if options.workload.inserts() { options.operations / 10 } else { 0 }
    }

    /// Size of a volume that holds all records, for any seed.
    #[must_use]
    pub fn capacity_bytes(&self) -> u64 {
        let added = if self.options.workload.inserts() { self.options.operations } else { 0 };
        (self.options.records + added) * self.options.record_bytes
    }

    fn key(&mut self) -> u64 {
        let last = self.records - 1;
        match &mut self.chooser {
            Chooser::Latest(latest) => latest.next(&mut self.random, last),
            Chooser::Zipfian(zipfian) => {
                let random = &mut self.random;
                // YCSB draws without limit; that takes too long if many inserts are expected and there are few records.
                let drawn = (0..DRAWS_MAX).map(|_| zipfian.next(random)).find(|key| *key <= last);
                drawn.unwrap_or_else(|| random.below(last + 1))
            }
        }
    }

    fn operation(&mut self, into: &mut Vec<Request>, process: u32, path: u32) {
        let (first, percent, second) = self.options.workload.mix();
        let operation = if self.random.chance(percent, 100) { first } else { second };
        let (key, records) = match operation {
            Operation::Insert => {
                self.records += 1;
                (self.records - 1, 1)
            }
            Operation::Scan => {
                let key = self.key();
                (key, (1 + self.random.below(SCAN_RECORDS_MAX)).min(self.records - key))
            }
            _ => (self.key(), 1),
        };
        let ops: &[Op] = match operation {
            Operation::Read | Operation::Scan => &[Op::Read],
            Operation::Update | Operation::Insert => &[Op::Write],
            Operation::ReadModifyWrite => &[Op::Read, Op::Write],
        };
        let (begin, end) = (key * self.options.record_bytes, (key + records) * self.options.record_bytes);
        for op in ops {
            for offset in (begin..end).step_by(REQUEST_BYTES as usize) {
                let len = (end - offset).min(REQUEST_BYTES);
                into.push(Request { process, path, inode: 1, ..Request::new(self.now_ns, *op, offset, len) });
            }
        }
        self.now_ns =
            self.now_ns.saturating_add(poisson_gap_ns(&mut self.random, NS_PER_S / self.options.rate.max(0.001)));
    }
}

impl Source for Ycsb {
    fn read(&mut self, into: &mut Vec<Request>, names: &mut Names) -> Result<bool, TraceError> {
        let (process, path) = (names.processes.number("ycsb"), names.paths.number("usertable"));
        let end = into.len() + BATCH_REQUESTS;
        while into.len() < end && self.operations_left > 0 {
            self.operations_left -= 1;
            self.operation(into, process, path);
        }
        Ok(self.operations_left > 0)
    }

    fn faults(&self) -> &Faults {
        &self.faults
    }

    fn knows(&self) -> Knows {
        Knows { op: true, time: true, process: true, file: true, ..Knows::default() }
    }
}

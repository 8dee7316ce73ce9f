//! The table "workload through the PRISM", computed block by block, without the crate's own analysis.

use forebay_trace::{Flags, Names, Op, Request, Source};

pub const BLOCK_BYTES: u64 = 4096;
const GB: f64 = 1e9;

/// A row of a published table.
pub struct Published {
    pub name: &'static str,
    pub occupied_gb: f64,
    pub written_gb: f64,
}

const fn row(name: &'static str, occupied_gb: f64, written_gb: f64) -> Published {
    Published { name, occupied_gb, written_gb }
}

/// Intel, "Optane + QLC with PRISM", use case 1: RocksDB.
pub const ROCKSDB: [Published; 7] = [
    row("XFS metadata + journal", 2.0, 5.7),
    row("WAL", 4.0, 688.9),
    row("L0", 1.0, 689.6),
    row("L1", 1.0, 1012.3),
    row("L2", 11.8, 3157.0),
    row("L3", 100.0, 4511.9),
    row("L4/L5", 1000.0, 2601.9),
];

/// The same, use case 2: MongoDB.
pub const MONGODB: [Published; 2] = [row("journal", 3.0, 27_478.3), row("data", 750.0, 776.7)];

/// The row that a request belongs to, by its properties.
pub type Classify = fn(&Request, &Names) -> usize;

pub fn rocksdb_row(request: &Request, names: &Names) -> usize {
    let path = names.paths.name(request.path);
    if request.flags.has(Flags::META) {
        0
    } else if path.ends_with(".log") {
        1
    } else {
        let level = path.strip_prefix("db/L").and_then(|rest| rest.split('/').next());
        2 + level.and_then(|level| level.parse::<usize>().ok()).expect("a level in the path")
    }
}

pub fn mongodb_row(request: &Request, names: &Names) -> usize {
    usize::from(!names.paths.name(request.path).starts_with("journal/"))
}

/// Bytes written and bytes live, by row. Live data was written, and neither discarded nor overwritten by other rows.
pub struct Counters {
    owners: Vec<u8>,
    pub live_blocks: Vec<u64>,
    pub peak_blocks: Vec<u64>,
    pub written_blocks: Vec<u64>,
    pub requests: u64,
    pub end_ns: u64,
}

const NOBODY: u8 = u8::MAX;

impl Counters {
    pub fn new(rows: usize) -> Self {
        let empty = vec![0; rows];
        Self {
            owners: Vec::new(),
            live_blocks: empty.clone(),
            peak_blocks: empty.clone(),
            written_blocks: empty,
            requests: 0,
            end_ns: 0,
        }
    }

    pub fn note(&mut self, request: &Request, row: usize) {
        self.requests += 1;
        self.end_ns = request.issued_ns;
        let owner = match request.op {
            Op::Write => row as u8,
            Op::Discard => NOBODY,
            _ => return,
        };
        let (begin, end) =
            ((request.offset_bytes / BLOCK_BYTES) as usize, (request.end_bytes() / BLOCK_BYTES) as usize);
        if self.owners.len() < end {
            self.owners.resize(end, NOBODY);
        }
        for block in &mut self.owners[begin..end] {
            if *block != NOBODY {
                self.live_blocks[usize::from(*block)] -= 1;
            }
            *block = owner;
        }
        if owner != NOBODY {
            let blocks = (end - begin) as u64;
            self.written_blocks[row] += blocks;
            self.live_blocks[row] += blocks;
            self.peak_blocks[row] = self.peak_blocks[row].max(self.live_blocks[row]);
        }
    }

    /// Counts all requests of a source.
    pub fn of(source: &mut dyn Source, rows: usize, classify: Classify) -> Self {
        let (mut counters, mut names, mut batch) = (Self::new(rows), Names::default(), Vec::new());
        loop {
            let goes_on = source.read(&mut batch, &mut names).expect("a generator does not fail");
            for request in batch.drain(..) {
                if request.len_bytes > 0 && request.op != Op::Read {
                    counters.note(&request, classify(&request, &names));
                }
            }
            if !goes_on {
                return counters;
            }
        }
    }

    /// The figures of a row: occupancy in GB, bytes written in GB, alpha (share of all bytes written), beta.
    pub fn figures(&self, row: usize) -> Figures {
        let gb = |blocks: u64| (blocks * BLOCK_BYTES) as f64 / GB;
        let all: u64 = self.written_blocks.iter().sum();
        Figures {
            occupied_gb: gb(self.peak_blocks[row]),
            written_gb: gb(self.written_blocks[row]),
            alpha: self.written_blocks[row] as f64 / all as f64,
            beta: self.written_blocks[row] as f64 / self.peak_blocks[row] as f64,
        }
    }
}

pub struct Figures {
    pub occupied_gb: f64,
    pub written_gb: f64,
    pub alpha: f64,
    pub beta: f64,
}

/// The published figures of a row.
pub fn published(rows: &[Published], row: usize) -> Figures {
    let all: f64 = rows.iter().map(|row| row.written_gb).sum();
    let Published { occupied_gb, written_gb, .. } = rows[row];
    Figures { occupied_gb, written_gb, alpha: written_gb / all, beta: written_gb / occupied_gb }
}

//! The results of an analysis, as plain data.

use super::blocks::BLOCK_BYTES;
use super::bursts::WINDOWS_NS;
use super::depth::Depths;
use super::distances::Distances;
use super::followed::Followed;
use super::histogram::Histogram;
use super::knee::knee;
use super::lengths::Lengths;
use super::over_time::OverTime;
use super::requests::Requests;
use super::rows::Rows;
use super::shapes::Shapes;
use super::statistics::RowStatistics;
use crate::{Names, Op};
use serde::Serialize;

/// Sizes for miss ratios, in percent of the footprint.
const PERCENTS: [u64; 6] = [1, 10, 20, 40, 80, 100];
/// Smallest cache of the curves in bytes.
const CURVE_FIRST_BYTES: u64 = 1 << 20;
/// A row that overwrites its space at least this often is temporary data. The value lies between those of the published tables: 45 for
/// RocksDB's L3, which belongs on the fast tier, and 3 for L4 and L5, which do not.
const TEMPORARY_BETA: f64 = 10.0;
/// A row whose bytes are read at least this many times as much as it occupies, while it is written less, is hot.
const HOT_READS: f64 = 10.0;

/// Mean, quantiles and maximum of a quantity.
#[derive(Clone, Debug, Serialize)]
pub struct Spread {
    /// Number of values, or the number that the sampled ones stand for.
    pub count: f64,
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: u64,
    /// 90th percentile.
    pub p90: u64,
    /// 99th percentile.
    pub p99: u64,
    /// 99.9th percentile.
    pub p99_9: u64,
    /// The largest.
    pub max: u64,
}

impl Spread {
    fn of(histogram: &Histogram) -> Option<Self> {
        Self::with(histogram, |share| histogram.quantile(share))
    }

    fn of_lengths(lengths: &Lengths) -> Option<Self> {
        Self::with(lengths.histogram(), |share| lengths.quantile(share))
    }

    fn with(histogram: &Histogram, at: impl Fn(f64) -> Option<u64>) -> Option<Self> {
        Some(Self {
            count: histogram.count(),
            mean: histogram.mean()?,
            p50: at(0.5)?,
            p90: at(0.9)?,
            p99: at(0.99)?,
            p99_9: at(0.999)?,
            max: histogram.max(),
        })
    }
}

/// Latencies of a row in nanoseconds.
#[derive(Clone, Debug, Serialize)]
pub struct Latency {
    /// Latency of reads; `None` if there is none.
    pub read_ns: Option<Spread>,
    /// Latency of writes; `None` if there is none.
    pub write_ns: Option<Spread>,
}

/// A row of the table "workload through the PRISM".
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Class, hint, directory or the like.
    pub name: String,
    /// Most bytes occupied at any time: written, and neither overwritten by another row nor discarded.
    pub occupancy_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Share of all bytes written: what the fast tier absorbs if it takes this row.
    pub alpha: Option<f64>,
    /// Bytes written over bytes occupied.
    pub beta: Option<f64>,
    /// T, M, L or H; X for data that should go to the capacity tier; `None` where that is not known.
    pub letter: Option<char>,
    /// Number of write requests.
    pub writes: u64,
    /// Number of read requests.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes discarded.
    pub discarded_bytes: u64,
    /// Latencies, if the trace has them.
    pub latency: Latency,
    /// Lifetime of its blocks in nanoseconds.
    pub life_ns: Option<Spread>,
    /// Lifetime of its blocks in bytes that the whole trace wrote meanwhile.
    pub life_bytes: Option<Spread>,
}

/// A cache size, and its effect.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Curve {
    /// Size in bytes.
    pub size_bytes: u64,
    /// Size in percent of the footprint, if it was chosen that way.
    pub percent: Option<u64>,
    /// Miss ratio of all block accesses with LRU.
    pub miss_ratio: Option<f64>,
    /// Miss ratio of the reads among them.
    pub read_miss_ratio: Option<f64>,
    /// Share of block writes whose block is among the last written ones of this size: what a fast tier absorbs that stages only writes.
    pub alpha: Option<f64>,
    /// Half of the 95 % interval of the miss ratio; `None` if all blocks were followed.
    pub miss_ratio_error: Option<f64>,
    /// Half of the 95 % interval of the reads' miss ratio.
    pub read_miss_ratio_error: Option<f64>,
    /// Half of the 95 % interval of alpha.
    pub alpha_error: Option<f64>,
}

/// Depths of all requests, or of one process: the number of requests (or of the process's requests) at the device when one is issued,
/// itself included. Each volume of the trace is a device.
#[derive(Clone, Debug, Serialize)]
pub struct Depth {
    /// Name of the process; empty for all.
    pub process: String,
    /// Number of requests with a known depth.
    pub requests: u64,
    /// These requests per second, over the whole trace; `None` if it has no times.
    pub requests_per_s: Option<f64>,
    /// Mean depth that a request met, itself included.
    pub mean: Option<f64>,
    /// Mean depth over the time in which devices were busy.
    pub mean_busy: Option<f64>,
    /// Median depth that a request met.
    pub p50: Option<usize>,
    /// 99 % of the requests met this depth or less.
    pub p99: Option<usize>,
    /// For each depth that occurs: depth, share of the requests, share of the devices' busy time.
    pub histogram: Vec<(usize, f64, f64)>,
}

/// Requests of one direction.
#[derive(Clone, Debug, Serialize)]
pub struct Direction {
    /// Lengths of requests in bytes.
    pub sizes: Option<Spread>,
    /// Share of requests whose offset and length are multiples of 4 KiB.
    pub aligned_4k: Option<f64>,
    /// Share of requests whose offset and length are multiples of 512 bytes, but not of 4 KiB.
    pub aligned_512: Option<f64>,
    /// Share of requests in runs of eight or more, where each begins at the end of the one before.
    pub sequential: Option<f64>,
    /// Share of bytes in such runs.
    pub sequential_bytes: Option<f64>,
    /// Lengths of such runs in bytes.
    pub runs: Option<Spread>,
}

/// Rates over windows of one length.
#[derive(Clone, Debug, Serialize)]
pub struct Burst {
    /// Length of the windows in nanoseconds.
    pub window_ns: u64,
    /// Share of windows with any request.
    pub busy: f64,
    /// Bytes a second in the busiest window.
    pub max_bytes_per_s: f64,
    /// Bytes a second that 99 % of the busy windows do not exceed.
    pub p99_bytes_per_s: f64,
    /// Rate of the busiest window relative to the mean rate of the whole trace; at least 1.
    pub max_over_mean: f64,
}

/// Requests and bytes of one operation.
#[derive(Clone, Debug, Serialize)]
pub struct Operation {
    /// Name of the operation.
    pub op: &'static str,
    /// Number of requests.
    pub requests: u64,
    /// Bytes of the requests.
    pub bytes: u64,
    /// Requests per second, over the whole trace; `None` if it has no times.
    pub requests_per_s: Option<f64>,
    /// Bytes per second, over the whole trace; `None` if it has no times.
    pub bytes_per_s: Option<f64>,
}

/// How behaviour alone would classify data whose row is known from other evidence.
#[derive(Clone, Debug, Serialize)]
pub struct Agreement {
    /// The row by all evidence.
    pub row: String,
    /// The class by behaviour alone.
    pub behaviour: String,
    /// Bytes written.
    pub bytes: u64,
}

/// The complete report.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// One block in this number was followed. 1 means all, and figures of blocks are exact.
    pub one_block_in: u64,
    /// Requests and bytes by operation.
    pub operations: Vec<Operation>,
    /// Nanoseconds from the first issue to the last; `None` if the trace has no times.
    pub duration_ns: Option<u64>,
    /// Bytes accessed at least once (if nothing was discarded).
    pub footprint_bytes: u64,
    /// Most bytes written and not discarded at any time.
    pub written_footprint_bytes: u64,
    /// Bytes written, relative to `written_footprint_bytes`.
    pub beta: Option<f64>,
    /// Share of the written bytes in rows that belong on the fast tier (T, M, L, H).
    pub alpha_fast: Option<f64>,
    /// Bytes that these rows occupy together.
    pub fast_bytes: u64,
    /// The rows of the table, by bytes written.
    pub rows: Vec<Row>,
    /// Number of accesses to blocks of 4 KiB.
    pub block_accesses: u64,
    /// Miss ratios and alpha by size.
    pub curve: Vec<Curve>,
    /// Size from which more space absorbs few more writes; `None` if the curve does not bend.
    pub knee_bytes: Option<u64>,
    /// Depths, all requests first; empty if the trace has neither depths nor latencies.
    pub depths: Vec<Depth>,
    /// Reads.
    pub reads: Direction,
    /// Writes.
    pub writes: Direction,
    /// Latency of flushes in nanoseconds; `None` if the trace has none.
    pub flush_ns: Option<Spread>,
    /// Nanoseconds between consecutive requests.
    pub gaps_ns: Option<Spread>,
    /// Nanoseconds from a write of a block to its next write or discard.
    pub overwrite_ns: Option<Spread>,
    /// Bytes that the whole trace wrote in that time.
    pub overwrite_bytes: Option<Spread>,
    /// Nanoseconds from a read or write of a block to its next read.
    pub reread_ns: Option<Spread>,
    /// Burstiness over windows of several lengths.
    pub bursts: Vec<Burst>,
    /// Where requests went and what they touched, by slices of time.
    pub over_time: OverTime,
    /// How the classifier decides without hints and rules.
    pub agreement: Vec<Agreement>,
    /// Number of requests with a time before that of the previous one.
    pub back_in_time: u64,
    /// Predicates of the rules for which no request of the trace had the information; they are neither true nor false.
    pub unknown: Vec<String>,
    /// Requests left out: beyond 64 PiB, or larger than 64 MiB.
    pub absurd: u64,
}

/// Hit ratio of reads in an LRU cache of any size over all accesses.
#[derive(Clone, Debug)]
pub struct ReadHits(Distances);

impl ReadHits {
    /// Made from the distances of the reads.
    pub(super) fn of(reads: Distances) -> Self {
        Self(reads)
    }

    /// Share of the reads that a cache of this size serves; `None` without reads.
    #[must_use]
    pub fn ratio(&self, size_bytes: u64) -> Option<f64> {
        self.0.hit_ratio(size_bytes / BLOCK_BYTES).map(|(ratio, _)| ratio)
    }
}

fn share(part: u64, all: u64) -> Option<f64> {
    (all > 0).then(|| part as f64 / all as f64)
}

fn direction(shapes: &mut Shapes) -> Direction {
    shapes.finish();
    let count = shapes.aligned_4k + shapes.aligned_512 + shapes.unaligned;
    let sizes = shapes.sizes.histogram();
    let bytes = sizes.mean().unwrap_or(0.0) * sizes.count();
    Direction {
        sizes: Spread::of_lengths(&shapes.sizes),
        aligned_4k: share(shapes.aligned_4k, count),
        aligned_512: share(shapes.aligned_512, count),
        sequential: share(shapes.sequential, count),
        sequential_bytes: (bytes > 0.0).then(|| shapes.sequential_bytes as f64 / bytes),
        runs: Spread::of(&shapes.runs),
    }
}

/// A rate per second, from a count and the length of the trace.
fn per_s(count: u64, duration_ns: Option<u64>) -> Option<f64> {
    duration_ns.filter(|&ns| ns > 0).map(|ns| count as f64 * 1e9 / ns as f64)
}

fn depth(process: &str, depths: &Depths, duration_ns: Option<u64>) -> Depth {
    let requests: u64 = depths.requests.iter().sum();
    let busy_ns = depths.busy_ns();
    let histogram = (1..depths.requests.len())
        .map(|at| {
            (at, share(depths.requests[at], requests).unwrap_or(0.0), share(depths.time_ns[at], busy_ns).unwrap_or(0.0))
        })
        .filter(|(_, requests, time)| *requests > 0.0 || *time > 0.0)
        .collect();
    Depth {
        process: process.to_owned(),
        requests,
        requests_per_s: per_s(requests, duration_ns),
        mean: depths.mean(),
        mean_busy: depths.mean_busy(),
        p50: depths.quantile(0.5),
        p99: depths.quantile(0.99),
        histogram,
    }
}

/// The letter of a row by its figures.
fn letter(beta: Option<f64>, reads_over: f64) -> Option<char> {
    Some(if beta? >= TEMPORARY_BETA {
        'T'
    } else if reads_over >= HOT_READS {
        'H'
    } else {
        'X'
    })
}

fn knee_bytes(curve: &[Curve]) -> Option<u64> {
    let alphas = curve.iter().filter(|point| point.size_bytes > 0);
    let alphas: Vec<(u64, f64)> = alphas.filter_map(|point| Some((point.size_bytes, point.alpha?))).collect();
    knee(&alphas).map(|at| alphas[at].0)
}

/// Both stages of an analysis after its end.
pub struct Ended {
    pub requests: Requests,
    pub followed: Followed,
}

impl Ended {
    fn row(&self, number: u16, name: &str, row_statistics: &RowStatistics, written_bytes: u64) -> Row {
        let occupancy_bytes = self.followed.blocks.peak_bytes(number);
        let beta = (occupancy_bytes > 0).then(|| row_statistics.written_bytes as f64 / occupancy_bytes as f64);
        let reads_over = row_statistics.read_bytes as f64 / occupancy_bytes.max(1) as f64;
        Row {
            name: name.to_owned(),
            occupancy_bytes,
            written_bytes: row_statistics.written_bytes,
            alpha: share(row_statistics.written_bytes, written_bytes),
            beta,
            letter: match number {
                Rows::UNWRITTEN => None,
                _ => self.requests.rows.letter(number).or_else(|| letter(beta, reads_over)),
            },
            writes: row_statistics.writes,
            reads: row_statistics.reads,
            read_bytes: row_statistics.read_bytes,
            discarded_bytes: row_statistics.discarded_bytes,
            latency: Latency {
                read_ns: Spread::of(&row_statistics.read_latency_ns),
                write_ns: Spread::of(&row_statistics.write_latency_ns),
            },
            life_ns: Spread::of(&row_statistics.life_ns).filter(|_| self.requests.knows.time),
            life_bytes: Spread::of(&row_statistics.life_bytes),
        }
    }

    fn at_size(&self, blocks: u64, percent: Option<u64>) -> Curve {
        let blocks_of = &self.followed.blocks;
        let [all, reads, writes] =
            [&blocks_of.all, &blocks_of.reads, &blocks_of.writes].map(|distances| distances.hit_ratio(blocks));
        let error = |found: Option<(f64, Option<f64>)>| found.and_then(|found| found.1);
        Curve {
            size_bytes: blocks * BLOCK_BYTES,
            percent,
            miss_ratio: all.map(|found| 1.0 - found.0),
            read_miss_ratio: reads.map(|found| 1.0 - found.0),
            alpha: writes.map(|found| found.0),
            miss_ratio_error: error(all),
            read_miss_ratio_error: error(reads),
            alpha_error: error(writes),
        }
    }

    fn curve(&self) -> Vec<Curve> {
        let unique = self.followed.blocks.peak_accessed_bytes() / BLOCK_BYTES;
        let mut curve: Vec<Curve> =
            PERCENTS.into_iter().map(|percent| self.at_size(unique * percent / 100, Some(percent))).collect();
        let mut size_bytes = CURVE_FIRST_BYTES;
        while size_bytes / BLOCK_BYTES < unique {
            curve.push(self.at_size(size_bytes / BLOCK_BYTES, None));
            size_bytes = size_bytes.saturating_mul(2);
        }
        curve.sort_by_key(|point| point.size_bytes);
        curve
    }

    fn bursts(&mut self) -> Vec<Burst> {
        self.requests.bursts.finish();
        let len_ns = self.requests.bursts.len_ns().max(1);
        // There is one gap less than there are requests. The last request gets a gap of mean length, since the load goes on for that long.
        let gaps = self.requests.bursts.gaps_ns.count();
        let rate_ns = len_ns as f64 * (gaps + 1.0) / gaps.max(1.0);
        let windows = self.requests.bursts.windows.iter().zip(WINDOWS_NS).filter(|(_, window_ns)| *window_ns <= len_ns);
        windows
            .filter_map(|(window, window_ns)| {
                let per_s = 1e9 / window_ns as f64;
                let bytes = window.bytes.mean()? * window.bytes.count();
                let mean = bytes * window_ns as f64 / rate_ns;
                Some(Burst {
                    window_ns,
                    busy: window.bytes.count() / (len_ns / window_ns + 1) as f64,
                    max_bytes_per_s: window.bytes.max() as f64 * per_s,
                    p99_bytes_per_s: window.bytes.quantile(0.99)? as f64 * per_s,
                    // The last window may be cut short, so that no window reaches the mean rate.
                    max_over_mean: if mean > 0.0 { (window.bytes.max() as f64 / mean).max(1.0) } else { 1.0 },
                })
            })
            .collect()
    }

    /// Makes the report. `names` are the trace's names.
    pub fn report(&mut self, names: &Names) -> Report {
        let written_bytes = self.requests.counts[Op::Write as usize].bytes;
        let mut rows: Vec<Row> = self
            .followed
            .statistics
            .iter()
            .enumerate()
            .filter(|(_, row_statistics)| {
                row_statistics.writes + row_statistics.reads > 0 || row_statistics.written_bytes > 0
            })
            .map(|(at, row_statistics)| {
                self.row(at as u16, &self.requests.rows.names()[at], row_statistics, written_bytes)
            })
            .collect();
        rows.sort_by(|a, b| (b.written_bytes, &a.name).cmp(&(a.written_bytes, &b.name)));
        let fast = rows.iter().filter(|row| row.letter.is_some_and(|letter| letter != 'X'));
        let (fast_written, fast_bytes) =
            fast.fold((0, 0), |(written, bytes), row| (written + row.written_bytes, bytes + row.occupancy_bytes));
        let row_name = |number: u16| self.requests.rows.names().get(usize::from(number)).cloned().unwrap_or_default();
        let agreement = self
            .followed
            .agreement
            .all()
            .map(|(row, behaviour, bytes)| Agreement { row: row_name(row), behaviour: row_name(behaviour), bytes })
            .collect();
        let duration_ns = self.requests.knows.time.then(|| self.requests.bursts.len_ns());
        let mut depths = Vec::new();
        if let Some((all, processes)) = std::mem::take(&mut self.requests.depth).finish() {
            depths.push(depth("", &all, duration_ns));
            let named = processes.iter().filter(|_| processes.len() > 1);
            depths.extend(named.map(|(process, depths)| match names.processes.name(*process) {
                "" => depth("not known", depths, duration_ns),
                name => depth(name, depths, duration_ns),
            }));
        }
        let footprint = self.followed.blocks.peak_all_bytes();
        let curve = self.curve();
        Report {
            one_block_in: self.followed.blocks.weight(),
            operations: Op::ALL
                .into_iter()
                .zip(self.requests.counts)
                .filter(|(_, count)| count.requests > 0)
                .map(|(op, count)| Operation {
                    op: op.name(),
                    requests: count.requests,
                    bytes: count.bytes,
                    requests_per_s: per_s(count.requests, duration_ns),
                    bytes_per_s: per_s(count.bytes, duration_ns),
                })
                .collect(),
            duration_ns,
            footprint_bytes: self.followed.blocks.peak_accessed_bytes(),
            written_footprint_bytes: footprint,
            beta: (footprint > 0).then(|| written_bytes as f64 / footprint as f64),
            alpha_fast: share(fast_written, written_bytes),
            fast_bytes,
            rows,
            block_accesses: self.followed.blocks.all.accesses(),
            knee_bytes: knee_bytes(&curve),
            curve,
            depths,
            reads: direction(&mut self.requests.reads),
            writes: direction(&mut self.requests.writes),
            flush_ns: Spread::of(&self.requests.flush_ns),
            gaps_ns: Spread::of(&self.requests.bursts.gaps_ns).filter(|_| self.requests.knows.time),
            overwrite_ns: Spread::of(&self.followed.overwrite_ns).filter(|_| self.requests.knows.time),
            overwrite_bytes: Spread::of(&self.followed.overwrite_bytes),
            reread_ns: Spread::of(&self.followed.reread_ns).filter(|_| self.requests.knows.time),
            bursts: if self.requests.knows.time { self.bursts() } else { Vec::new() },
            over_time: std::mem::take(&mut self.followed.timeline).finish(self.followed.blocks.weight() > 1, names),
            agreement,
            back_in_time: self.requests.back_in_time,
            unknown: self.requests.rows.unknown().map(str::to_owned).collect(),
            absurd: self.requests.absurd,
        }
    }
}

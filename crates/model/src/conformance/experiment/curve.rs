//! The figure of the queue-depth paper: throughput on one axis, mean read latency on the other, a point for each queue depth.

use super::found::{Data, Found, Value};
use super::setting::{Effort, Live, host};
use crate::conformance::closed::Pattern;
use crate::conformance::closed::Workload;
use crate::conformance::table::ConformanceError;

/// The paper's load: 4 KiB random, with this percentage of reads.
const READ_PERCENT: u8 = 70;
/// The assumed host of the curves, which the paper does not describe, and a known host that includes the load generator's own cost.
const HOSTS: [&str; 2] = ["queue-depth-paper", "linux-anandtech"];
/// The drives of the figure, XPoint first.
const DRIVES: [&str; 2] = ["p4800x", "p4610"];
/// I/Os in flight per thread before another thread is added, and the maximum number of threads: the evaluation guide runs QD32 as 8 x 4,
/// AnandTech QD16 as 4 x 4.
const A_THREAD: u32 = 4;
const THREADS_MAX: u32 = 8;
const DEPTHS: [u32; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];
const DEPTHS_FULL: [u32; 19] = [1, 2, 3, 4, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64, 96, 128, 160, 192, 256];

/// A point of a curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// I/Os in flight.
    pub depth: u32,
    /// Threads that share the depth.
    pub threads: u32,
    /// Bytes a second, both directions.
    pub bytes_per_s: f64,
    /// I/Os a second.
    pub iops: f64,
    /// Mean read latency in microseconds.
    pub read_mean_us: f64,
    /// Mean write latency in microseconds.
    pub write_mean_us: f64,
}

/// A drive's curve at a host, points in order of depth.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// Preset of the drive.
    pub drive: String,
    /// Profile of the host.
    pub host: String,
    /// Points in order of depth.
    pub points: Vec<Point>,
}

impl Curve {
    /// The point of this depth; `None` where the curve has none.
    #[must_use]
    pub fn at(&self, depth: u32) -> Option<&Point> {
        self.points.iter().find(|point| point.depth == depth)
    }

    /// The highest throughput in bytes a second; 0 without points.
    #[must_use]
    pub fn peak_bytes_per_s(&self) -> f64 {
        self.points.iter().map(|point| point.bytes_per_s).fold(0.0, f64::max)
    }

    /// The depth at which the curve first reaches `share` of its peak, interpolated between points; `None` without points.
    #[must_use]
    pub fn depth_of(&self, share: f64) -> Option<f64> {
        let wanted = share * self.peak_bytes_per_s();
        let after = self.points.iter().position(|point| point.bytes_per_s >= wanted)?;
        let to = self.points[after];
        let Some(from) = after.checked_sub(1).map(|before| self.points[before]) else {
            return Some(f64::from(to.depth));
        };
        let part = (wanted - from.bytes_per_s) / (to.bytes_per_s - from.bytes_per_s);
        Some(f64::from(from.depth) + part * f64::from(to.depth - from.depth))
    }
}

fn threads(depth: u32) -> u32 {
    // A divisor of the depth, so that every thread has the same number in flight.
    (1..=THREADS_MAX.min(depth.div_ceil(A_THREAD))).rev().find(|&threads| depth.is_multiple_of(threads)).unwrap_or(1)
}

/// Measures a drive's curve on a host. Flash is in its steady state: filled, then overwritten three times at random.
///
/// # Errors
/// [`ConformanceError`] where the drive or the host does not exist.
pub fn curve(drive: &str, host_name: &str, depths: &[u32], effort: Effort) -> Result<Curve, ConformanceError> {
    let profile = host(host_name)?;
    let mut live = Live::new(drive, effort)?;
    live.age(1.0, 3.0);
    let mut points = Vec::new();
    for &depth in depths {
        let threads = threads(depth);
        let workload = Workload {
            threads,
            depth: depth / threads,
            read_percent: READ_PERCENT,
            size_bytes: 4096,
            pattern: Pattern::Random,
        };
        let capacity_bytes = live.ssd.capacity_bytes();
        let warm_up = (effort.ios / 4).max(u64::from(depth) * 20);
        let ios = effort.ios.max(u64::from(depth) * 200);
        let figures = live.closed(&profile, &workload, capacity_bytes, warm_up, ios);
        points.push(Point {
            depth,
            threads,
            bytes_per_s: figures.bytes_per_s,
            iops: figures.iops,
            read_mean_us: figures.reads.mean_ns().unwrap_or_default() / 1e3,
            write_mean_us: figures.writes.mean_ns().unwrap_or_default() / 1e3,
        });
    }
    Ok(Curve { drive: drive.to_owned(), host: host_name.to_owned(), points })
}

/// The paper's value for a point; statements with errors are in `claims.toml` and `published.toml`.
fn published(drive: &str, depth: u32) -> &'static str {
    match (drive, depth) {
        ("p4800x", 1) => "8 to 10 us",
        ("p4800x", 4) => "over 1.2 GB/s, about 10 us",
        ("p4800x", 8) => "peak just over this",
        ("p4610", 1) => "about 80 us",
        ("p4610", 4) => "under 0.3 GB/s, about 100 us",
        ("p4610", 128 | 256) => "peak at 128 to 256",
        _ => "",
    }
}

fn data(curve: &Curve) -> Data {
    let peak = curve.peak_bytes_per_s();
    let columns = ["QD", "threads", "GB/s", "IOPS", "read mean us", "write mean us", "of peak %", "published"];
    let row = |point: &Point| {
        vec![
            Value::Number(point.depth.into(), 0),
            Value::Number(point.threads.into(), 0),
            Value::Number(point.bytes_per_s / 1e9, 3),
            Value::Number(point.iops, 0),
            Value::Number(point.read_mean_us, 1),
            Value::Number(point.write_mean_us, 1),
            Value::Number(100.0 * point.bytes_per_s / peak, 1),
            Value::Text(published(&curve.drive, point.depth).to_owned()),
        ]
    };
    Data {
        title: format!("{} at {}, 4 KiB {READ_PERCENT}/{}", curve.drive, curve.host, 100 - READ_PERCENT),
        columns: columns.map(str::to_owned).to_vec(),
        rows: curve.points.iter().map(row).collect(),
    }
}

fn ratios(host: &str, fast: &Curve, slow: &Curve) -> Data {
    let rows = fast.points.iter().filter_map(|point| slow.at(point.depth).map(|other| (point, other)));
    Data {
        title: format!("{} over {} at {host}", fast.drive, slow.drive),
        columns: ["QD", "throughput", "read latency"].map(str::to_owned).to_vec(),
        rows: rows
            .map(|(point, other)| {
                vec![
                    Value::Number(point.depth.into(), 0),
                    Value::Number(point.bytes_per_s / other.bytes_per_s, 2),
                    Value::Number(other.read_mean_us / point.read_mean_us, 2),
                ]
            })
            .collect(),
    }
}

pub(super) fn run(effort: Effort) -> Result<Found, ConformanceError> {
    let mut found = Found::default();
    let depths: &[u32] = if effort.full { &DEPTHS_FULL } else { &DEPTHS };
    for host in HOSTS {
        // The second host shows the host's cost at the depths of applications, so it needs only these unless all points are wanted.
        let depths = if host == HOSTS[0] || effort.full { depths } else { &DEPTHS[..5] };
        let [fast, slow] = [curve(DRIVES[0], host, depths, effort)?, curve(DRIVES[1], host, depths, effort)?];
        for curve in [&fast, &slow] {
            let name = |what: &str| format!("{} {host} {what}", curve.drive);
            for point in &curve.points {
                found.set(name(&format!("qd{} bytes_per_s", point.depth)), Some(point.bytes_per_s));
                found.set(name(&format!("qd{} read_mean_us", point.depth)), Some(point.read_mean_us));
                found.set(name(&format!("qd{} iops", point.depth)), Some(point.iops));
            }
            found.set(name("depth of 95 %"), curve.depth_of(0.95));
            found.data.push(data(curve));
        }
        for point in &fast.points {
            let ratio = slow.at(point.depth).map(|other| point.bytes_per_s / other.bytes_per_s);
            found.set(format!("ratio {host} qd{}", point.depth), ratio);
        }
        found.data.push(ratios(host, &fast, &slow));
    }
    Ok(found)
}

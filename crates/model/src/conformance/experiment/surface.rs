//! The surface of S-PASS: fill x percent read x depth, a client XPoint drive against a client flash drive.

use super::found::{Data, Found, Value};
use super::setting::{Effort, Live, host};
use crate::conformance::closed::Pattern;
use crate::conformance::closed::Workload;
use crate::conformance::table::ConformanceError;

/// XPoint first. The flash drive is the one that the paper compares endurance with.
const DRIVES: [&str; 2] = ["800p", "960evo-250"];
/// All tools of the paper run on Windows; this is the only Windows profile with the inbox driver.
const HOST: &str = "windows-inbox";
/// As in `forebay bench surface`.
const FILLS_PERCENT: [u32; 3] = [10, 50, 90];
const FILLS_PERCENT_FULL: [u32; 6] = [10, 25, 50, 75, 90, 100];
const READS_PERCENT: [u8; 5] = [100, 70, 50, 30, 0];
const READS_PERCENT_FULL: [u8; 11] = [100, 90, 80, 70, 60, 50, 40, 30, 20, 10, 0];
const DEPTHS: [u32; 4] = [1, 2, 4, 16];
const DEPTHS_FULL: [u32; 6] = [1, 2, 4, 8, 16, 32];
/// Pause between two cells, as between two runs of a tool; a flash drive empties its cache in it.
const PAUSE_NS: u64 = 2_000_000_000;

/// A cell of the surface.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// Percent of the capacity that is filled; the I/Os stay within this part.
    pub fill_percent: u32,
    /// Share of reads, in percent.
    pub read_percent: u8,
    /// I/Os in flight from one thread.
    pub depth: u32,
    /// I/Os a second of each of the two drives, in the order XPoint, flash.
    pub iops: [f64; 2],
}

impl Cell {
    /// IOPS of the first drive over IOPS of the second.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        self.iops[0] / self.iops[1]
    }
}

/// Whether a cell belongs to client use: the "centre-right of the percent-read axis", taken here as 50 to 70 % reads, and at most 4 in
/// flight, as the vast majority of client requests (low-queue-depth-method.md).
#[must_use]
pub fn client_mix(cell: &Cell) -> bool {
    (50..=70).contains(&cell.read_percent) && cell.depth <= 4
}

fn cells(effort: Effort) -> Result<Vec<Cell>, ConformanceError> {
    let fills: &[u32] = if effort.full { &FILLS_PERCENT_FULL } else { &FILLS_PERCENT };
    let reads: &[u8] = if effort.full { &READS_PERCENT_FULL } else { &READS_PERCENT };
    let depths: &[u32] = if effort.full { &DEPTHS_FULL } else { &DEPTHS };
    let profile = host(HOST)?;
    let mut cells = Vec::new();
    for &fill_percent in fills {
        let mut found = [Vec::new(), Vec::new()];
        for (name, found) in DRIVES.iter().zip(&mut found) {
            let mut live = Live::new(name, effort)?;
            live.age(f64::from(fill_percent) / 100.0, 0.0);
            let region_bytes = live.ssd.capacity_bytes() / 100 * u64::from(fill_percent);
            for &read_percent in reads {
                for &depth in depths {
                    let workload =
                        Workload { threads: 1, depth, read_percent, size_bytes: 4096, pattern: Pattern::Random };
                    let ios = (effort.ios / 4).max(1000);
                    let figures = live.closed(&profile, &workload, region_bytes, ios / 4, ios);
                    found.push(figures.iops);
                    live.rest(PAUSE_NS);
                }
            }
        }
        let [fast, slow] = found;
        let places = reads.iter().flat_map(|&read| depths.iter().map(move |&depth| (read, depth)));
        for ((read_percent, depth), iops) in places.zip(fast.into_iter().zip(slow)) {
            cells.push(Cell { fill_percent, read_percent, depth, iops: [iops.0, iops.1] });
        }
    }
    Ok(cells)
}

pub(super) fn run(effort: Effort) -> Result<Found, ConformanceError> {
    let cells = cells(effort)?;
    let mut found = Found::default();
    let most = |among: &dyn Fn(&Cell) -> bool| {
        cells
            .iter()
            .filter(|cell| among(cell))
            .map(Cell::ratio)
            .fold(None, |most: Option<f64>, ratio| Some(most.map_or(ratio, |most| most.max(ratio))))
    };
    found.set("most at client mixes", most(&client_mix));
    found.set("most", most(&|_| true));
    let least_writes = cells.iter().filter(|cell| cell.read_percent == 0 && cell.depth == 1);
    found.set("least at writes of depth 1", least_writes.map(Cell::ratio).reduce(f64::min));
    let mut columns = vec!["fill %".to_owned(), "reads %".to_owned()];
    let mut depths: Vec<u32> = cells.iter().map(|cell| cell.depth).collect();
    depths.sort_unstable();
    depths.dedup();
    columns.extend(depths.iter().map(|depth| format!("QD{depth}")));
    let of = |title: &str, value: &dyn Fn(&Cell) -> Value| Data {
        title: title.to_owned(),
        columns: columns.clone(),
        rows: cells
            .chunk_by(|a, b| (a.fill_percent, a.read_percent) == (b.fill_percent, b.read_percent))
            .map(|line| {
                let place =
                    [Value::Number(line[0].fill_percent.into(), 0), Value::Number(line[0].read_percent.into(), 0)];
                place.into_iter().chain(line.iter().map(value)).collect()
            })
            .collect(),
    };
    found.data.push(of("800p over 960evo-250, IOPS (x)", &|cell| Value::Number(cell.ratio(), 2)));
    for (at, drive) in DRIVES.iter().enumerate() {
        found.data.push(of(&format!("{drive}, IOPS"), &|cell| Value::Number(cell.iops[at], 0)));
    }
    Ok(found)
}

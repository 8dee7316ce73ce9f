//! fio's log files (fio HOWTO, "Log File Formats"): one line per interval, `time in ms, value, direction, size, offset`, as fio writes them
//! with `log_avg_msec`.

use crate::run::{JobResult, per_second};
use forebay_block::OpKind;
use std::fmt::Write as _;

/// Suffixes of the names of a job's log files.
pub const ENDS: [&str; 3] = ["_bw.1.log", "_iops.1.log", "_lat.1.log"];

/// The log files of a job: suffix of the name (`_bw.1.log`, ...) and content.
#[must_use]
pub fn files(result: &JobResult) -> [(&'static str, String); 3] {
    let mut bandwidth = String::new();
    let mut iops = String::new();
    let mut latency = String::new();
    let kinds = [(OpKind::Read, 0), (OpKind::Write, 1)];
    for row in result.rated_intervals() {
        let at_ms = (row.begin_ns + row.length_ns) / 1_000_000;
        for (kind, direction) in kinds {
            let way = if kind == OpKind::Read { row.read } else { row.write };
            let used = result.kind(kind).is_some() || (direction == 1 && result.kind(OpKind::WriteFua).is_some());
            if !used {
                continue;
            }
            let rate = per_second(way.bytes, row.length_ns) / 1024.0;
            // Writing to a String cannot fail.
            let _ = writeln!(bandwidth, "{at_ms}, {}, {direction}, 0, 0", rate as u64);
            let _ = writeln!(iops, "{at_ms}, {}, {direction}, 0, 0", per_second(way.ios, row.length_ns) as u64);
            // fio leaves out an interval in which no I/O ended: a latency of 0 would be wrong.
            if way.ios > 0 {
                let _ = writeln!(latency, "{at_ms}, {}, {direction}, 0, 0", way.mean_ns());
            }
        }
    }
    let [of_bandwidth, of_iops, of_latency] = ENDS;
    [(of_bandwidth, bandwidth), (of_iops, iops), (of_latency, latency)]
}

//! Speed of importing a trace, beside a bare scan of the same file in the same run.
//!
//!     cargo run --release -p forebay-trace --example import_speed -- FORMAT FILE [ROUNDS]
//!
//! Each round imports the file once and scans it once (reads it in chunks and counts its line ends). Printed are the lines (for a binary
//! file, the requests) per second of processor time, so that a busy machine gives about the same as an idle one, and the import's speed as
//! a fraction of the scan's.

use forebay_trace::Names;
use forebay_trace::format::parquet::Wanted;
use forebay_trace::format::{Format, open};
use std::error::Error;
use std::fs::File;
use std::io::Read;
use std::path::Path;

const CHUNK_BYTES: usize = 256 << 10;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [format, path, rest @ ..] = &arguments[..] else {
        return Err("usage: import_speed FORMAT FILE [ROUNDS]".into());
    };
    let format = Format::from_name(format).ok_or("no such format")?;
    let rounds: usize = rest.first().map_or(Ok(9), |rounds| rounds.parse())?;
    let path = Path::new(path);
    let size_bytes = std::fs::metadata(path)?.len();
    let (mut import_s, mut scan_s) = (Vec::new(), Vec::new());
    let (mut requests, mut faults, mut lines) = (0, 0, 0);
    for _ in 0..rounds.max(1) {
        let begin_s = processor_s()?;
        (requests, faults) = import(path, format)?;
        let between_s = processor_s()?;
        lines = scan(path)?;
        import_s.push(between_s - begin_s);
        scan_s.push(processor_s()? - between_s);
    }
    let is_text = !matches!(format, Format::Vscsi | Format::OracleGeneral | Format::Blktrace);
    let entries = if is_text { lines } else { requests };
    println!("{}: {size_bytes} bytes, {lines} line ends, {requests} requests, {faults} faults", format.name());
    let unit = if is_text { "lines" } else { "requests" };
    let rates = |seconds: &[f64]| seconds.iter().map(|s| entries as f64 / s / 1e6).collect::<Vec<_>>();
    print(&format!("import, M {unit}/s"), rates(&import_s));
    print(&format!("scan, M {unit}/s"), rates(&scan_s));
    print("import / scan", import_s.iter().zip(&scan_s).map(|(import, scan)| scan / import).collect());
    Ok(())
}

/// Processor time that this thread has used (Documentation/scheduler/sched-stats.rst).
fn processor_s() -> Result<f64, Box<dyn Error>> {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let used_ns: u64 = stat.split_whitespace().next().ok_or("no schedstat")?.parse()?;
    Ok(used_ns as f64 / 1e9)
}

fn import(path: &Path, format: Format) -> Result<(u64, u64), Box<dyn Error>> {
    let mut source = open(path, Some(format), Wanted::ALL)?;
    let (mut batch, mut names, mut requests) = (Vec::new(), Names::default(), 0);
    let mut goes_on = true;
    while goes_on {
        goes_on = source.read(&mut batch, &mut names)?;
        requests += batch.len() as u64;
        batch.clear();
    }
    Ok((requests, source.faults().count))
}

fn scan(path: &Path) -> Result<u64, Box<dyn Error>> {
    let (mut file, mut chunk, mut lines) = (File::open(path)?, vec![0; CHUNK_BYTES], 0);
    loop {
        let count = file.read(&mut chunk)?;
        if count == 0 {
            return Ok(lines);
        }
        lines += memchr::memchr_iter(b'\n', &chunk[..count]).count() as u64;
    }
}

fn print(what: &str, mut values: Vec<f64>) {
    values.sort_by(f64::total_cmp);
    let [first, .., last] = &values[..] else {
        println!("{what:24} {:.3?}", values);
        return;
    };
    println!("{what:24} median {:8.3}  min {first:8.3}  max {last:8.3}", values[values.len() / 2]);
}

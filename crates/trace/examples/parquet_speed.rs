//! Speed of writing traces to Parquet and reading them, on one core.
//!
//! `cargo run --release -p forebay-trace --example parquet_speed -- [MILLION_ROWS [ROUNDS]]` writes synthetic rows to a temporary file.
//! Each round reads them with the hot columns, with the four columns that every trace has, and with all; and analyses them as `forebay
//! analyze --sample N` does. Times are CPU times, so that other work on the machine matters less. Each round also reads the bare bytes of
//! the file, as a measure of the machine.

use forebay_trace::analysis::{Analysis, Options};
use forebay_trace::format::parquet::{ParquetTrace, ParquetWriter, Wanted};
use forebay_trace::{Faults, Flags, Knows, Lifetime, Names, Op, Request, Source};
use std::error::Error;
use std::fs::File;
use std::hint::black_box;
use std::io::Read;
use std::path::Path;

const BATCH: usize = 4096;
const HOT: Wanted = Wanted { latency: true, volume: true, flags: true, lifetime: true, ..Wanted::NONE };

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let rows = arguments.next().map_or(Ok(8), |text| text.parse::<u64>())? * 1_000_000;
    let rounds = arguments.next().map_or(Ok(5), |text| text.parse::<usize>())?;
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("speed.parquet");

    let begin_s = cpu_s()?;
    write(&path, rows)?;
    let write_s = cpu_s()? - begin_s;
    let bytes = path.metadata()?.len();
    println!("{rows} rows, {bytes} bytes, {:.1} bytes a row", bytes as f64 / rows as f64);
    println!("write        {:>7.2} M rows/s", rows as f64 / write_s / 1e6);

    let cases = [("hot", HOT), ("four", Wanted::NONE), ("all", Wanted::ALL)];
    let mut scans = Vec::new();
    let mut reads = vec![Vec::new(); cases.len()];
    let mut ratios = vec![Vec::new(); cases.len()];
    for _ in 0..rounds {
        let begin_s = cpu_s()?;
        black_box(scan(&path)?);
        let scan_s = cpu_s()? - begin_s;
        scans.push(bytes as f64 / scan_s / 1e9);
        for (case, (_, wanted)) in cases.iter().enumerate() {
            let begin_s = cpu_s()?;
            assert_eq!(read(&path, *wanted)?, rows);
            let read_s = cpu_s()? - begin_s;
            reads[case].push(rows as f64 / read_s / 1e6);
            ratios[case].push(read_s / scan_s);
        }
    }
    for (sample, halvings) in [(64, 6), (1024, 10)] {
        let (mut rates, mut times) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            let begin_s = cpu_s()?;
            black_box(scan(&path)?);
            let scan_s = cpu_s()? - begin_s;
            let begin_s = cpu_s()?;
            analyse(&path, halvings)?;
            let analyse_s = cpu_s()? - begin_s;
            rates.push(rows as f64 / analyse_s / 1e6);
            times.push(analyse_s / scan_s);
        }
        println!("analyse 1/{sample:<5} {} M rows/s", spread(&mut rates));
        println!("  {:<12} {} times the time of the scan", "", spread(&mut times));
    }
    println!("bare scan    {} GB/s", spread(&mut scans));
    for (case, (name, _)) in cases.iter().enumerate() {
        println!("read {name:<7} {} M rows/s", spread(&mut reads[case]));
        println!("  {:<10} {} times the time of the scan", "", spread(&mut ratios[case]));
    }
    Ok(())
}

/// Median, minimum and maximum.
fn spread(values: &mut [f64]) -> String {
    values.sort_by(f64::total_cmp);
    let (first, last) = (values.first().copied().unwrap_or(0.0), values.last().copied().unwrap_or(0.0));
    format!("{:>7.2} (min {first:.2}, max {last:.2})", values.get(values.len() / 2).copied().unwrap_or(0.0))
}

/// Seconds that this thread has been on a CPU (Documentation/scheduler/sched-stats.rst: `/proc/PID/schedstat`).
fn cpu_s() -> Result<f64, Box<dyn Error>> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    Ok(text.split(' ').next().ok_or("no time in schedstat")?.parse::<f64>()? / 1e9)
}

/// The sum of all words of a file.
fn scan(path: &Path) -> Result<u64, Box<dyn Error>> {
    let mut file = File::open(path)?;
    let mut buffer = vec![0; 1 << 20];
    let mut sum = 0_u64;
    loop {
        let count = file.read(&mut buffer)?;
        if count == 0 {
            return Ok(sum);
        }
        for word in buffer[..count].as_chunks::<8>().0 {
            sum = sum.wrapping_add(u64::from_le_bytes(*word));
        }
    }
}

fn read(path: &Path, wanted: Wanted) -> Result<u64, Box<dyn Error>> {
    let mut trace = ParquetTrace::open(path)?.with_columns(wanted);
    let (mut batch, mut names, mut rows) = (Vec::new(), Names::default(), 0);
    loop {
        batch.clear();
        let goes_on = trace.read(&mut batch, &mut names)?;
        rows += black_box(&batch).len() as u64;
        if !goes_on {
            return Ok(rows);
        }
    }
}

/// Analyses as `forebay analyze` without rules, with the columns that it needs.
fn analyse(path: &Path, sample_halvings: u32) -> Result<(), Box<dyn Error>> {
    let wanted = Wanted { depth: true, process: true, ..HOT };
    let mut trace = ParquetTrace::open(path)?.with_columns(wanted);
    let mut analysis = Analysis::new(&Options { sample_halvings, ..Options::default() });
    let (mut batch, mut names) = (Vec::new(), Names::default());
    loop {
        batch.clear();
        let goes_on = trace.read(&mut batch, &mut names)?;
        analysis.add(&batch, &names, trace.knows());
        if !goes_on {
            black_box(analysis.finish(&names));
            return Ok(());
        }
    }
}

fn write(path: &Path, rows: u64) -> Result<(), Box<dyn Error>> {
    let knows = Knows {
        op: true,
        time: true,
        latency: true,
        depth: true,
        flags: true,
        lifetime: true,
        process: true,
        file: true,
    };
    let mut names = Names::default();
    let volumes: Vec<u32> = (0..8).map(|n| names.volumes.number(&format!("nvme{n}n1"))).collect();
    let processes: Vec<u32> = (0..6).map(|n| names.processes.number(&format!("worker-{n}"))).collect();
    let paths: Vec<u32> = (0..1000).map(|n| names.paths.number(&format!("/data/db/{n:06}.sst"))).collect();
    let mut writer = ParquetWriter::create(path, &knows)?;
    let mut random = Random(1);
    let (mut issued_ns, mut batch) = (0, Vec::new());
    for row in 0..rows {
        issued_ns += random.below(20_000);
        let op = [Op::Read, Op::Read, Op::Read, Op::Write, Op::Write, Op::Flush][random.below(6) as usize];
        let len_bytes = if op == Op::Flush { 0 } else { 4096 << random.below(6) };
        let mut request = Request::new(issued_ns, op, random.below(1 << 28) * 4096, len_bytes);
        request.latency_ns = 8_000 + random.below(200_000);
        request.queued_ns = random.below(2_000);
        request.volume = volumes[random.below(8) as usize];
        request.flags = [Flags::default(), Flags::SYNC, Flags::META.with(Flags::SYNC)][random.below(3) as usize];
        request.lifetime = if op == Op::Write { Lifetime::ALL[random.below(6) as usize] } else { Lifetime::NotSet };
        request.depth = 1 + random.below(32) as u16;
        request.process = processes[random.below(6) as usize];
        request.pid = 1000 + random.below(6) as u32;
        request.cgroup = 77;
        request.path = paths[random.below(1000) as usize];
        request.inode = 5_000_000 + u64::from(request.path);
        batch.push(request);
        if batch.len() == BATCH || row + 1 == rows {
            writer.write(&batch, &names)?;
            batch.clear();
        }
    }
    writer.finish(&Faults::default())?;
    Ok(())
}

/// xorshift64*.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) % end
    }
}

//! How flash drives handle writes and mixes in their steady state, without a host: `cargo run --release -p forebay-model --example
//! flash_mixes [DRIVE...]`. Latencies in microseconds: of the reads where there are any, else of the writes.

use forebay_model::conformance::{Latencies, Pattern, Span, Workload, closed_loop_over};
use forebay_model::host::Profile;
use forebay_model::preset::Drive;
use forebay_model::ssd::Past;
use std::error::Error;

/// A drive of this size ages quickly and keeps its full parallelism.
const FLASH_BYTES: u64 = 16 << 30;
/// Name, queue depth, reads in percent, bytes per I/O, pattern, and number of I/Os.
const LOADS: [(&str, u32, u8, u32, Pattern, u64); 9] = [
    ("read QD1", 1, 100, 4096, Pattern::Random, 60_000),
    ("write QD1", 1, 0, 4096, Pattern::Random, 200_000),
    ("write QD16", 16, 0, 4096, Pattern::Random, 1_000_000),
    ("write QD32", 32, 0, 4096, Pattern::Random, 1_000_000),
    ("70/30 QD1", 1, 70, 4096, Pattern::Random, 200_000),
    ("70/30 QD4", 4, 70, 4096, Pattern::Random, 400_000),
    ("70/30 QD16", 16, 70, 4096, Pattern::Random, 1_000_000),
    ("seq write QD32", 32, 0, 131_072, Pattern::Sequential, 60_000),
    ("seq read QD32", 32, 100, 131_072, Pattern::Sequential, 60_000),
];

fn us(latencies: &Latencies, one_in: u64) -> String {
    latencies.all_but_one_in(one_in).map_or("-".to_owned(), |ns| format!("{:.0}", ns as f64 / 1e3))
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut names: Vec<String> = std::env::args().skip(1).collect();
    if names.is_empty() {
        names = ["p3700", "micron9100", "p4500", "p4510", "p4610", "p4320", "tlc", "qlc", "960evo", "960evo-250"]
            .map(str::to_owned)
            .to_vec();
    }
    let none = Profile::named("none")?;
    println!("drive\tload\tkIOPS\tGB/s\tmean\tp50\tp90\tp99\tp99.9\tp99.99\tWAF");
    for name in &names {
        for (load, depth, read_percent, size_bytes, pattern, ios) in LOADS {
            let mut ssd = Drive::named(name)?.scaled(FLASH_BYTES)?.build(1)?;
            let random_passes = if pattern == Pattern::Random { 3.0 } else { 0.0 };
            ssd.age(Past { filled: 1.0, random_passes });
            let workload = Workload { threads: 1, depth, read_percent, size_bytes, pattern };
            // The warm-up brings the drive into the state that this load itself produces, which is part of the measurement.
            let span = Span { start_ns: 0, warm_up_ios: ios / 2, ios, region_bytes: FLASH_BYTES };
            let (figures, _) = closed_loop_over(ssd.as_mut(), &none, &workload, 7, span);
            let of = if read_percent > 0 { &figures.reads } else { &figures.writes };
            println!(
                "{name}\t{load}\t{:.1}\t{:.2}\t{:.1}\t{}\t{}\t{}\t{}\t{}\t{:.2}",
                figures.iops / 1e3,
                figures.bytes_per_s / 1e9,
                of.mean_ns().unwrap_or(f64::NAN) / 1e3,
                us(of, 2),
                us(of, 10),
                us(of, 100),
                us(of, 1_000),
                us(of, 10_000),
                ssd.counters().write_amplification()
            );
        }
    }
    Ok(())
}

//! How many I/Os the models simulate per second of processor time on one core, including the loop that drives them and the host model:
//! `cargo run --release -p forebay-model --example speed [DRIVE...]`. Prints median, minimum and maximum of five runs. The runs rotate over
//! all loads, so that a drift affects all loads alike.

use forebay_model::conformance::{Pattern, Workload, closed_loop};
use forebay_model::host::Profile;
use forebay_model::preset::Drive;
use forebay_model::ssd::Past;
use std::error::Error;

const IOS: u64 = 2_000_000;
const ROUNDS: usize = 5;
/// At this size the flash map does not fit into a processor cache.
const FLASH_BYTES: u64 = 8 << 30;
/// Name, threads, queue depth of each thread, reads in percent, and pattern.
const LOADS: [(&str, u32, u32, u8, Pattern); 5] = [
    ("random read QD1", 1, 1, 100, Pattern::Random),
    ("random read QD16", 4, 4, 100, Pattern::Random),
    ("random write QD16", 4, 4, 0, Pattern::Random),
    ("random 70/30 QD16", 4, 4, 70, Pattern::Random),
    ("sequential read QD16", 4, 4, 100, Pattern::Sequential),
];

/// Processor time of this thread, in nanoseconds (proc(5), schedstat).
fn cpu_ns() -> Result<u64, Box<dyn Error>> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    Ok(text.split(' ').next().ok_or("schedstat is empty")?.parse()?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut names: Vec<String> = std::env::args().skip(1).collect();
    if names.is_empty() {
        names = ["p4800x", "p4510", "p3700"].map(str::to_owned).to_vec();
    }
    let mut cells = Vec::new();
    for name in &names {
        cells.extend(LOADS.iter().map(|load| (name, load, Vec::new())));
    }
    let none = Profile::named("none")?;
    for _ in 0..ROUNDS {
        for (name, (_, threads, depth, read_percent, pattern), runs) in &mut cells {
            let (threads, depth, read_percent, pattern) = (*threads, *depth, *read_percent, *pattern);
            let workload = Workload { threads, depth, read_percent, size_bytes: 4096, pattern };
            let drive = match Drive::named(name)? {
                Drive::XPoint(config) => Drive::XPoint(config),
                flash => flash.scaled(FLASH_BYTES)?,
            };
            let mut ssd = drive.build(1)?;
            // With writes in steady state, so that garbage collection runs.
            ssd.age(Past { filled: 1.0, random_passes: if read_percent < 100 { 2.0 } else { 0.0 } });
            let begin_ns = cpu_ns()?;
            closed_loop(ssd.as_mut(), &none, &workload, 1, IOS);
            runs.push(IOS as f64 * 1e3 / (cpu_ns()? - begin_ns).max(1) as f64);
        }
    }
    println!("million I/Os per second of processor time, median [min..max] of {ROUNDS} runs of {IOS}");
    for (name, (load, ..), runs) in &mut cells {
        runs.sort_by(f64::total_cmp);
        println!("{name:<10} {load:<21} {:.2} [{:.2}..{:.2}]", runs[ROUNDS / 2], runs[0], runs[ROUNDS - 1]);
    }
    Ok(())
}

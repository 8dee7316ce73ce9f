//! Prints the generators' figures beside the published ones: `generated_table [SCALE] [SEED]`.

#[path = "../tests/all/generate/counters.rs"]
mod counters;

use counters::{Classify, Counters, MONGODB, Published, ROCKSDB, mongodb_row, published, rocksdb_row};
use forebay_trace::generate;
use std::time::Instant;

fn print(uri: &str, scale: f64, rows: &[Published], classify: Classify) -> Result<(), Box<dyn std::error::Error>> {
    let mut source = generate::open(uri).ok_or("no generator")??;
    let begin = Instant::now();
    let counters = Counters::of(&mut *source, rows.len(), classify);
    let took = begin.elapsed().as_secs_f64();
    println!(
        "{uri}: {} requests of writes and discards, {:.0} s of trace, counted in {took:.1} s",
        counters.requests,
        counters.end_ns as f64 / 1e9
    );
    println!("sizes in GB at scale 1: as generated, (published)\n");
    println!("| data | occupancy | writes | alpha % | error, points | beta | error % |\n|---|---|---|---|---|---|---|");
    for (row, Published { name, .. }) in rows.iter().enumerate() {
        let (is, should) = (counters.figures(row), published(rows, row));
        println!(
            "| {name} | {:.2} ({:.1}) | {:.1} ({:.1}) | {:.2} ({:.2}) | {:+.2} | {:.2} ({:.2}) | {:+.1} |",
            is.occupied_gb / scale,
            should.occupied_gb,
            is.written_gb / scale,
            should.written_gb,
            100.0 * is.alpha,
            100.0 * should.alpha,
            100.0 * (is.alpha - should.alpha),
            is.beta,
            should.beta,
            100.0 * (is.beta / should.beta - 1.0),
        );
    }
    println!();
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let scale: f64 = arguments.next().as_deref().unwrap_or("0.01").parse()?;
    let seed: u64 = arguments.next().as_deref().unwrap_or("1").parse()?;
    print(&format!("rocksdb:?scale={scale}&seed={seed}"), scale, &ROCKSDB, rocksdb_row)?;
    print(&format!("mongodb:?scale={scale}&seed={seed}"), scale, &MONGODB, mongodb_row)
}

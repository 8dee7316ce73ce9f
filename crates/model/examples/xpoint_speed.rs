//! How many I/Os a second of the processor's time the XPoint model simulates on one core, the loop that drives it and its
//! host included: `cargo run --release -p forebay-model --example xpoint_speed`.

use forebay_model::conformance::{Pattern, Workload, closed_loop};
use forebay_model::host::Profile;
use forebay_model::preset::Drive;
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    const IOS: u64 = 10_000_000;
    for (name, threads, depth, read_percent) in
        [("read QD1", 1, 1, 100), ("read QD16", 4, 4, 100), ("write QD16", 4, 4, 0), ("70/30 QD16", 4, 4, 70)]
    {
        let workload = Workload { threads, depth, read_percent, size_bytes: 4096, pattern: Pattern::Random };
        let mut ssd = Drive::named("p4800x")?.build(1)?;
        let begin = Instant::now();
        closed_loop(ssd.as_mut(), &Profile::named("none")?, &workload, 1, IOS);
        println!("{name:<12} {:.2} million I/Os/s", IOS as f64 / begin.elapsed().as_secs_f64() / 1e6);
    }
    Ok(())
}

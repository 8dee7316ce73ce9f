//! Prints the published tables beside the models' figures: `cargo run --release -p forebay-model --example conformance [IOS [PART]]`. PART
//! selects by a part of the name of the drive, test or host.

use forebay_model::conformance::{Options, Use, run};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let ios = words.next().map_or(Ok(4_000_000), |word| word.parse())?;
    let part = words.next().unwrap_or_default();
    let rows = run(Options { ios, seed: 1 }, |test| {
        [&test.drive, &test.name, &test.host].into_iter().any(|name| name.contains(&part))
    })?;
    for row in &rows {
        println!("{row}");
    }
    for (used, name) in [(Use::Fit, "fit"), (Use::HeldOut, "held out"), (Use::Calibrated, "calibrated")] {
        let judged: Vec<_> = rows.iter().filter(|row| row.used == used).filter_map(|row| row.within).collect();
        let within = judged.iter().filter(|within| **within).count();
        println!("{name}: {within} of {} figures within their limits", judged.len());
    }
    Ok(())
}

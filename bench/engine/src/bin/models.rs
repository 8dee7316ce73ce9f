//! The pool over modelled drives in virtual time, beside the same pool over RAM devices: processor time for an I/O,
//! the models' and the engine's together, against the engine's alone. Rounds are interleaved: A B, B A. The promise is
//! at most three times as much.
//!
//! cargo run --release --manifest-path bench/engine/Cargo.toml --bin models [-- ROUNDS [SECONDS]]

#[path = "../load.rs"]
mod load;

use forebay_block::{Device, VirtualClock};
use forebay_device::{ModelUri, RamDevice, VirtualDevice};
use load::Load;
use std::time::Duration;

const FAST_BYTES: u64 = 2 << 30;
const CAPACITY_BYTES: u64 = 4 << 30;
const LOADS: [(bool, u64, &str); 4] =
    [(false, 1, "read QD1"), (false, 16, "read QD16"), (true, 1, "write QD1"), (true, 16, "write QD16")];

fn on_ram() -> Load {
    let device = |size| Box::new(RamDevice::new(size).expect("memory")) as Box<dyn Device>;
    Load::new([FAST_BYTES, CAPACITY_BYTES].map(device).into(), None, 2)
}

fn on_models() -> Load {
    let clock = VirtualClock::default();
    let device = |name: String| {
        let uri = ModelUri::parse(&name, false).expect("name");
        Box::new(VirtualDevice::new(&uri, 1, &clock).expect("model").0) as Box<dyn Device>
    };
    let devices = [format!("p4800x?size={FAST_BYTES}"), format!("qlc?size={CAPACITY_BYTES}")].map(device);
    Load::new(devices.into(), Some(clock.clone()), 2)
}

fn median(values: &mut [f64]) -> String {
    values.sort_by(f64::total_cmp);
    format!("{:>8.2} [{:.2} .. {:.2}]", values[values.len() / 2], values[0], values[values.len() - 1])
}

fn main() {
    let mut args = std::env::args().skip(1);
    let rounds: usize = args.next().and_then(|a| a.parse().ok()).unwrap_or(7);
    let time = Duration::from_secs_f64(args.next().and_then(|a| a.parse().ok()).unwrap_or(1.0));
    let mut pools = [on_ram(), on_models()];
    let mut found = LOADS.map(|_| [Vec::new(), Vec::new()]);
    for round in 0..rounds {
        for ((write, depth, _), found) in LOADS.into_iter().zip(&mut found) {
            for turn in 0..2 {
                let which = (round + turn) % 2;
                found[which].push(pools[which].run(write, depth, time));
            }
        }
    }
    println!(
        "processor time for a 4 KiB I/O, ns: median [min .. max] of {rounds} rounds of {time:?}; ratio within rounds"
    );
    for ((_, _, name), [ram, models]) in LOADS.into_iter().zip(&mut found) {
        let mut ratios: Vec<f64> = models.iter().zip(ram.iter()).map(|(models, ram)| models / ram).collect();
        println!(
            "{name:<12} over RAM {:<28} over models {:<28} ratio {}",
            median(ram),
            median(models),
            median(&mut ratios)
        );
    }
}

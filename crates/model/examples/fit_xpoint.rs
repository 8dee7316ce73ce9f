//! Fits the P4800X and the hosts of its two tables to those published tests that are marked "fit", by coordinate descent,
//! and prints the values to be written into `presets/p4800x.toml` and `profiles/*.toml`. No held-out test is run.
//!
//! With `ladder` first: calibrates the two profiles of each rung of the settings ladder, with the drive as its preset is.
//!
//! `cargo run --release -p forebay-model --example fit_xpoint [ladder] [ROUNDS [IOS]]`; each round halves the steps that did not
//! help. The same arguments give the same values.

use forebay_model::conformance::{FREE, Measure, Options, Relation, Test, Use, published};
use forebay_model::host::{Profile, Wait};
use forebay_model::preset::Drive;
use forebay_model::xpoint::{Config, XPoint};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// All parameters of a candidate: the drive's and the hosts'.
#[derive(Clone)]
struct Candidate {
    drive: Config,
    hosts: BTreeMap<String, Profile>,
}

impl Candidate {
    /// Returns the parameter that [`FREE`] calls `name`.
    fn get(&mut self, name: &str) -> Option<u64> {
        let mut found = None;
        self.visit(name, &mut |value| found = Some(*value));
        found
    }

    fn set(&mut self, name: &str, to: u64) {
        self.visit(name, &mut |value| *value = to);
    }

    fn visit(&mut self, name: &str, f: &mut dyn FnMut(&mut u64)) {
        let mut narrow = |value: &mut u32| {
            let mut wide = u64::from(*value);
            f(&mut wide);
            *value = wide.clamp(1, 65536) as u32;
        };
        let drive = &mut self.drive;
        match name {
            "drive.controller_ns" => return f(&mut drive.controller_ns),
            "drive.channel_read_ns" => return f(&mut drive.channel_read_ns),
            "drive.channel_write_ns" => return f(&mut drive.channel_write_ns),
            "drive.turnaround_ns" => return f(&mut drive.turnaround_ns),
            "drive.die_read_recovery_ns" => return f(&mut drive.die_read_recovery_ns),
            "drive.die_write_recovery_ns" => return f(&mut drive.die_write_recovery_ns),
            "drive.refresh.length_ns" => return f(&mut drive.refresh.length_ns),
            "drive.levelling.every_writes" => return f(&mut drive.levelling.every_writes),
            "drive.levelling.length_ns" => return f(&mut drive.levelling.length_ns),
            "drive.commands" => return narrow(&mut drive.commands),
            "drive.registers" => return narrow(&mut drive.registers),
            _ => {}
        }
        let Some((host, key)) = name.rsplit_once('.') else { return };
        for (at, profile) in &mut self.hosts {
            // "linux" stands for both profiles of that machine.
            if at != host && !(host == "linux" && at.starts_with("linux-")) {
                continue;
            }
            match (key, &mut profile.wait) {
                ("complete_ns", _) => f(&mut profile.complete_ns),
                ("between_ns", _) => f(&mut profile.between_ns),
                ("wake_ns", Wait::Interrupt { wake_ns, .. }) => f(wake_ns),
                ("short_ns", _) => f(&mut profile.stalls[0].cost_ns),
                ("long_ns", _) => f(&mut profile.stalls[1].cost_ns),
                _ => {}
            }
        }
    }

    /// Sum of the squared errors of a test, each error in units of its allowance. Infinite where the parameters do not form a valid drive.
    fn cost_of(&self, test: &Test, ios: u64) -> f64 {
        let Ok(mut ssd) = XPoint::new(self.drive.clone(), 1) else { return f64::INFINITY };
        let figures = test.figures(&mut ssd, &self.hosts[&test.host], Options { ios, seed: 1 });
        let mut cost = 0.0;
        for row in test.rows(&figures) {
            let Some(error) = row.error_percent else { continue };
            // Medians have no target of their own, but they place the bulk of the distribution.
            let allowed =
                row.measure.target_percent().unwrap_or(if row.measure == Measure::MedianUs { 10.0 } else { 30.0 });
            let miss = match row.relation {
                Relation::Is => error,
                Relation::AtMost => error.max(0.0),
                Relation::AtLeast => error.min(0.0),
            };
            cost += (miss / allowed).powi(2);
        }
        cost
    }

    /// Costs of all tests. Tests that do not depend on what changed since `before` keep their cost from there.
    fn costs(&self, tests: &[Test], ios: u64, before: Option<(&Self, &[f64])>) -> Vec<f64> {
        let next = AtomicUsize::new(0);
        let costs = Mutex::new(vec![0.0; tests.len()]);
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    while let Some((index, test)) = {
                        let index = next.fetch_add(1, Ordering::Relaxed);
                        tests.get(index).map(|test| (index, test))
                    } {
                        let cost = match before {
                            Some((other, costs))
                                if other.drive == self.drive && other.hosts[&test.host] == self.hosts[&test.host] =>
                            {
                                costs[index]
                            }
                            _ => self.cost_of(test, ios),
                        };
                        if let Ok(mut costs) = costs.lock() {
                            costs[index] = cost;
                        }
                    }
                });
            }
        });
        costs.into_inner().unwrap_or_default()
    }
}

/// Threads that run tests.
const THREADS: usize = 2;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1).peekable();
    let ladder = words.next_if(|word| word == "ladder").is_some();
    let mut numbers = words.map(|text| text.parse::<u64>());
    let rounds = numbers.next().transpose()?.unwrap_or(6);
    let ios = numbers.next().transpose()?.unwrap_or(1_500_000);
    let used = if ladder { Use::Calibrated } else { Use::Fit };
    let tests: Vec<Test> =
        published()?.into_iter().filter(|test| test.used == used && test.drive == "p4800x").collect();
    let free: Vec<String> = if ladder {
        let keys = |host: &str| match host.ends_with("-polled") {
            true => ["complete_ns", "between_ns", "short_ns", "long_ns"].as_slice(),
            false => ["between_ns", "long_ns"].as_slice(),
        };
        tests.iter().flat_map(|test| keys(&test.host).iter().map(|key| format!("{}.{key}", test.host))).collect()
    } else {
        FREE.map(str::to_owned).to_vec()
    };
    let mut hosts = BTreeMap::new();
    for test in &tests {
        hosts.insert(test.host.clone(), Profile::named(&test.host)?);
    }
    let Drive::XPoint(drive) = Drive::named("p4800x")? else { return Err("p4800x is not an XPoint drive".into()) };
    let mut best = Candidate { drive: *drive, hosts };
    let mut costs = best.costs(&tests, ios, None);
    println!("start {:.3}", costs.iter().sum::<f64>());
    let mut steps: Vec<f64> = free.iter().map(|_| 0.16).collect();
    for round in 0..rounds {
        for (name, step) in free.iter().zip(&mut steps) {
            let Some(value) = best.get(name) else { return Err(format!("unknown parameter {name}").into()) };
            let mut helped = false;
            for direction in [-1.0, 1.0] {
                let change = ((value as f64 * *step) as u64).max(1);
                let to = if direction > 0.0 { value + change } else { value.saturating_sub(change) };
                let mut candidate = best.clone();
                candidate.set(name, to);
                let tried = candidate.costs(&tests, ios, Some((&best, &costs)));
                if tried.iter().sum::<f64>() < costs.iter().sum::<f64>() {
                    (best, costs, helped) = (candidate, tried, true);
                    break;
                }
            }
            if !helped {
                *step /= 2.0;
            }
        }
        println!("round {round} {:.3}", costs.iter().sum::<f64>());
        for name in &free {
            println!("    {name} = {}", best.get(name).unwrap_or_default());
        }
    }
    Ok(())
}

//! Endurance: bytes written over the life for each byte of capacity, and how much of it random writes cost.

use super::found::{Data, Found, Value};
use super::setting::{Effort, host};
use crate::conformance::closed::Pattern;
use crate::conformance::closed::{Workload, closed_loop};
use crate::conformance::table::ConformanceError;
use crate::endurance::{Life, scaled_by_capacity};
use crate::preset::{Drive, PresetError};
use crate::ssd::Past;

/// Ratings of client drives: name, capacity in bytes, bytes written over the life, years of warranty.
/// 365 TBW of the 800P: low-queue-depth-method.md; 100 TBW of the 960 EVO: Samsung's data sheet [memory].
const RATED: [(&str, f64, f64, f64); 3] =
    [("800p 118 GB", 118e9, 365e12, 5.0), ("800p 58 GB", 58e9, 365e12, 5.0), ("960evo 250 GB", 250e9, 100e12, 3.0)];

/// The QLC drive with two ratings, and the size of its model: write amplification does not depend on the size.
const QLC: &str = "p4320";
const QLC_BYTES: u64 = 6 << 30;

pub(super) fn run(effort: Effort) -> Result<Found, ConformanceError> {
    let mut found = Found::default();
    let lives =
        RATED.map(|(name, capacity_bytes, media_bytes, years)| (name, Life { capacity_bytes, media_bytes, years }));
    let base = scaled_by_capacity(&lives[2].1);
    let rows = lives.map(|(name, life)| {
        let times = scaled_by_capacity(&life) / base;
        found.set(name, Some(times));
        vec![
            Value::Text(name.to_owned()),
            Value::Number(life.capacity_bytes / 1e9, 0),
            Value::Number(life.media_bytes / 1e12, 0),
            Value::Number(scaled_by_capacity(&life), 0),
            Value::Number(times, 2),
        ]
    });
    found.data.push(Data {
        title: "endurance by capacity, as rated".to_owned(),
        columns: ["drive", "capacity GB", "TBW", "writes a byte", "times the 960 EVO"].map(str::to_owned).to_vec(),
        rows: rows.to_vec(),
    });
    drive_writes(effort, &mut found)?;
    Ok(found)
}

/// Drive writes a day of the QLC drive: sequential writes have no amplification, random ones that of the model.
fn drive_writes(effort: Effort, found: &mut Found) -> Result<(), ConformanceError> {
    let fault = |source: PresetError| ConformanceError::Drive { test: QLC.to_owned(), source };
    let drive = Drive::named(QLC).and_then(|drive| drive.scaled(QLC_BYTES)).map_err(fault)?;
    let Drive::Nand(config) = &drive else { return Ok(()) };
    let config = config.clone();
    let mut ssd = drive.build(effort.seed).map_err(fault)?;
    ssd.age(Past { filled: 1.0, random_passes: 3.0 });
    let ios = ssd.capacity_bytes() / 4096 / 3;
    let workload = Workload { threads: 1, depth: 64, read_percent: 0, size_bytes: 4096, pattern: Pattern::Random };
    closed_loop(ssd.as_mut(), &host("none")?, &workload, effort.seed, ios);
    let amplification = ssd.counters().write_amplification();
    let (sequential, random) = (config.drive_writes_per_day(1.0), config.drive_writes_per_day(amplification));
    found.set("p4320 dwpd sequential", sequential);
    found.set("p4320 dwpd random", random);
    found.set("p4320 dwpd ratio", sequential.zip(random).map(|(sequential, random)| sequential / random));
    let row = |name: &str, amplification, dwpd: Option<f64>| {
        let dwpd = dwpd.map_or_else(|| Value::Text("-".to_owned()), |dwpd| Value::Number(dwpd, 3));
        vec![Value::Text(name.to_owned()), Value::Number(amplification, 2), dwpd]
    };
    found.data.push(Data {
        title: format!("{QLC}: drive writes a day"),
        columns: ["writes", "amplification", "DWPD"].map(str::to_owned).to_vec(),
        rows: vec![row("sequential", 1.0, sequential), row("4 KiB random", amplification, random)],
    });
    Ok(())
}

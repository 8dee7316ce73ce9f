//! Rated endurance of a pool's tiers, where it is known.

use crate::config::{Config, Size};
use forebay_device::Target;

/// Bytes that may be written to the fast tier and to the capacity tier over their lives. A mirror counts as its
/// weakest member; capacity devices are added up. `None` where the endurance of any device is unknown.
pub fn of_tiers(config: &Config) -> Option<[u64; 2]> {
    // Every member of a mirror receives every write.
    let fast: Option<Vec<u64>> = config.fast.iter().map(|device| of(device.endurance, &device.target.0)).collect();
    let fast = fast.and_then(|each| each.into_iter().min());
    let capacity: Option<u64> = config.capacity.iter().map(|device| of(device.endurance, &device.target.0)).sum();
    let capacity = capacity.map(|bytes| match config.pool.redundancy {
        // Parity blocks use up endurance, too, in proportion to the row.
        Some(redundancy) => {
            let (data, parity) = (redundancy.0.data as u64, redundancy.0.parity as u64);
            (u128::from(bytes) * u128::from(data) / u128::from(data + parity)) as u64
        }
        None => bytes,
    });
    Some([fast?, capacity?])
}

/// The configured endurance, or else that of a modelled drive's preset.
fn of(configured: Option<Size>, target: &Target) -> Option<u64> {
    configured.map(|size| size.0).or_else(|| {
        let (Target::Model(uri) | Target::Emulated(uri)) = target else { return None };
        let life = uri.drive().ok()?.life()?;
        Some(life.media_bytes as u64)
    })
}

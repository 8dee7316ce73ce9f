//! What the tiers of a pool may be written over their lives, where that is known.

use crate::config::{Config, Size};
use forebay_device::Target;

/// Bytes of the fast tier (of a mirror, of the member that may be written least), and of the capacity tier all together; none where one device's are not known.
pub fn of_tiers(config: &Config) -> Option<[u64; 2]> {
    // Each member of a mirror is written everything.
    let fast: Option<Vec<u64>> = config.fast.iter().map(|device| of(device.endurance, &device.target.0)).collect();
    let fast = fast.and_then(|each| each.into_iter().min());
    let capacity: Option<u64> = config.capacity.iter().map(|device| of(device.endurance, &device.target.0)).sum();
    let capacity = capacity.map(|bytes| match config.pool.redundancy {
        // Parity is written with each row.
        Some(redundancy) => {
            let (data, parity) = (redundancy.0.data as u64, redundancy.0.parity as u64);
            (u128::from(bytes) * u128::from(data) / u128::from(data + parity)) as u64
        }
        None => bytes,
    });
    Some([fast?, capacity?])
}

/// What the configuration says, or else a modelled drive's preset.
fn of(configured: Option<Size>, target: &Target) -> Option<u64> {
    configured.map(|size| size.0).or_else(|| {
        let (Target::Model(uri) | Target::Emulated(uri)) = target else { return None };
        let life = uri.drive().ok()?.life()?;
        Some(life.media_bytes as u64)
    })
}

//! How much can be written before a drive is worn, and how much of that a tier above it saves.
//!
//! The seeds name EPBW and EDPWD without spelling them out; here, as `tiering-and-prism.md` reads them, they are
//! *effective petabytes written* over the life and *effective drive writes per day*: what the host may write to the pool
//! until the first tier is worn, not what reaches one drive.

/// Days of a year in warranties.
const DAYS_A_YEAR: f64 = 365.0;

/// Rated life of a drive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Life {
    /// Capacity that the host sees, in bytes.
    pub capacity_bytes: f64,
    /// Bytes that can be written to the media before it is worn.
    pub media_bytes: f64,
    /// Years of the rating; warranties often have five.
    pub years: f64,
}

/// Why an endurance cannot be computed.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("{what} is {value}, allowed is {allowed}")]
pub struct EnduranceError {
    /// Name of the number.
    pub what: &'static str,
    /// Its value.
    pub value: f64,
    /// Allowed values.
    pub allowed: &'static str,
}

fn positive(what: &'static str, value: f64) -> Result<f64, EnduranceError> {
    if value.is_finite() && value > 0.0 {
        Ok(value)
    } else {
        Err(EnduranceError { what, value, allowed: "a number above 0" })
    }
}

fn at_least_one(what: &'static str, value: f64) -> Result<f64, EnduranceError> {
    if value.is_finite() && value >= 1.0 {
        Ok(value)
    } else {
        Err(EnduranceError { what, value, allowed: "at least 1" })
    }
}

impl Life {
    /// From program/erase cycles and the raw capacity of the media.
    ///
    /// # Errors
    /// [`EnduranceError`] where a number is not above 0.
    pub fn from_cycles(capacity_bytes: f64, raw_bytes: f64, cycles: f64, years: f64) -> Result<Self, EnduranceError> {
        Ok(Self {
            capacity_bytes: positive("capacity", capacity_bytes)?,
            media_bytes: positive("raw capacity", raw_bytes)? * positive("cycles", cycles)?,
            years: positive("years", years)?,
        })
    }

    /// Petabytes (10^15 bytes) that the host may write at write amplification `waf`.
    ///
    /// # Errors
    /// [`EnduranceError`] where `waf` is below 1.
    pub fn pbw(&self, waf: f64) -> Result<f64, EnduranceError> {
        Ok(self.media_bytes / at_least_one("write amplification", waf)? / 1e15)
    }

    /// Drive writes per day over the rated years at write amplification `waf`.
    ///
    /// # Errors
    /// [`EnduranceError`] where `waf` is below 1.
    pub fn dwpd(&self, waf: f64) -> Result<f64, EnduranceError> {
        Ok(self.pbw(waf)? * 1e15 / self.capacity_bytes / DAYS_A_YEAR / self.years)
    }
}

/// Host writes over the life for each byte of capacity: compares drives of different sizes.
///
/// Seed: 58 GB and 118 GB of an 800P against 250 GB of a 960 EVO, all but the capacity as published.
#[must_use]
pub fn scaled_by_capacity(life: &Life) -> f64 {
    life.media_bytes / life.capacity_bytes
}

/// A tier of a pool: all its drives together, and the share of the pool's host writes that its media takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tier {
    /// All drives of the tier as one; the copies of a mirror count once.
    pub life: Life,
    /// Bytes that reach the tier for each byte that the host writes: alpha for the fast tier (more where it is also a staging buffer), 1 -
    /// alpha for the capacity tier.
    pub share: f64,
    /// Write amplification of the tier's drives under those writes.
    pub waf: f64,
}

/// The tier that is worn first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The fast tier.
    Fast,
    /// The capacity tier.
    Capacity,
}

/// Endurance of a pool in host writes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effective {
    /// EPBW: petabytes (10^15) of host writes until the first tier is worn; infinite where no tier is written.
    pub epbw: f64,
    /// EDPWD: EPBW as capacities of the capacity tier per day, over that tier's years.
    pub edpwd: f64,
    /// The tier that is worn first.
    pub limit: Limit,
}

/// Endurance of a pool: the minimum over both tiers.
///
/// # Errors
/// [`EnduranceError`] where a share is negative or a write amplification is below 1.
pub fn pool(fast: &Tier, capacity: &Tier) -> Result<Effective, EnduranceError> {
    let host_pb = |tier: &Tier| {
        if tier.share.is_finite() && tier.share >= 0.0 {
            Ok(tier.life.pbw(tier.waf)? / tier.share)
        } else {
            Err(EnduranceError { what: "share of writes", value: tier.share, allowed: "0 or more" })
        }
    };
    let (of_fast, of_capacity) = (host_pb(fast)?, host_pb(capacity)?);
    let (epbw, limit) = if of_fast < of_capacity { (of_fast, Limit::Fast) } else { (of_capacity, Limit::Capacity) };
    let edpwd = epbw * 1e15 / capacity.life.capacity_bytes / DAYS_A_YEAR / capacity.life.years;
    Ok(Effective { epbw, edpwd, limit })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GB: f64 = 1e9;

    /// A warranty of five years in drive writes a day.
    fn rated(capacity_bytes: f64, dwpd: f64) -> Life {
        Life { capacity_bytes, media_bytes: capacity_bytes * dwpd * DAYS_A_YEAR * 5.0, years: 5.0 }
    }

    #[test]
    fn ratings_convert_into_each_other() {
        // P4800X 375 GB: 30 DWPD over five years (data sheet of the time) is 20.5 PB.
        let life = rated(375.0 * GB, 30.0);
        assert!((life.pbw(1.0).unwrap() - 20.53).abs() < 0.01);
        assert!((life.dwpd(1.0).unwrap() - 30.0).abs() < 1e-9);
        // P4320 7.68 TB (models-and-placement.md): 0.9 DWPD sequential, 0.2 random: a write amplification of 4.5.
        let qlc = rated(7680.0 * GB, 0.9);
        assert!((qlc.dwpd(4.5).unwrap() - 0.2).abs() < 1e-9);
        // 1,600 cycles over five years are 0.88 a day of the raw capacity.
        let cycles = Life::from_cycles(7680.0 * GB, 7680.0 * GB, 1600.0, 5.0).unwrap();
        assert!((cycles.dwpd(1.0).unwrap() - 0.877).abs() < 0.001);
    }

    #[test]
    fn capacity_scaled_endurance_of_the_800p() {
        // low-queue-depth-method.md: 365 TBW for each 800P, 100 TBW for the 960 EVO 250 GB ([memory]: Samsung's data
        // sheet; the seed gives the ratios only).
        let scaled = |capacity_gb: f64, tbw: f64, years| {
            let life = Life { capacity_bytes: capacity_gb * GB, media_bytes: tbw * 1e12, years };
            scaled_by_capacity(&life)
        };
        let evo = scaled(250.0, 100.0, 3.0);
        assert!((scaled(118.0, 365.0, 5.0) / evo - 7.7).abs() < 0.05, "{}", scaled(118.0, 365.0, 5.0) / evo);
        assert!((scaled(58.0, 365.0, 5.0) / evo - 15.7).abs() < 0.05, "{}", scaled(58.0, 365.0, 5.0) / evo);
        // 200 GB a day over five years are the 365 TB.
        assert!((200.0 * GB * DAYS_A_YEAR * 5.0 / 1e12 - 365.0).abs() < 1e-9);
    }

    #[test]
    fn a_pool_lasts_as_long_as_its_first_worn_tier() {
        let fast = rated(375.0 * GB, 30.0);
        let qlc = rated(7680.0 * GB, 0.9);
        let at = |alpha: f64| {
            let fast = Tier { life: fast, share: alpha, waf: 1.0 };
            pool(&fast, &Tier { life: qlc, share: 1.0 - alpha, waf: 1.0 }).unwrap()
        };
        let alone = at(0.0);
        assert_eq!(alone.limit, Limit::Capacity);
        assert!((alone.epbw - qlc.pbw(1.0).unwrap()).abs() < 1e-9);
        assert!((alone.edpwd - 0.9).abs() < 1e-9);
        // Absorbing half of the writes doubles the life, until the fast tier is the one that is worn first.
        assert!((at(0.5).epbw / alone.epbw - 2.0).abs() < 1e-9);
        assert_eq!(at(0.99).limit, Limit::Fast);
        assert!((at(0.99).epbw - fast.pbw(1.0).unwrap() / 0.99).abs() < 1e-9);
    }

    #[test]
    fn numbers_that_make_no_sense_are_refused() {
        assert!(Life::from_cycles(0.0, GB, 1.0, 5.0).is_err());
        assert!(Life::from_cycles(GB, GB, f64::NAN, 5.0).is_err());
        let life = rated(GB, 1.0);
        assert!(life.pbw(0.9).is_err());
        let tier = Tier { life, share: -0.1, waf: 1.0 };
        assert!(pool(&tier, &tier).is_err());
    }

    proptest! {
        #[test]
        fn more_wear_never_lengthens_a_pools_life(alpha in 0.0..1.0_f64, waf in 1.0..10.0_f64, more in 0.0..5.0_f64) {
            let fast = rated(375.0 * GB, 30.0);
            let qlc = rated(7680.0 * GB, 0.9);
            let fast = Tier { life: fast, share: alpha, waf: 1.0 };
            let of = |waf| pool(&fast, &Tier { life: qlc, share: 1.0 - alpha, waf }).unwrap();
            prop_assert!(of(waf + more).epbw <= of(waf).epbw);
            // Whatever the pool takes, neither tier takes more than its life.
            let written = of(waf).epbw;
            prop_assert!(written * alpha <= fast.life.pbw(1.0).unwrap() * (1.0 + 1e-9));
            prop_assert!(written * (1.0 - alpha) * waf <= qlc.pbw(1.0).unwrap() * (1.0 + 1e-9));
        }
    }
}

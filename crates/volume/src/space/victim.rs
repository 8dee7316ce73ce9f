//! Which band is collected next: a pure policy.

/// What the choice goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The band.
    pub band: u32,
    /// Sectors that the map still names.
    pub valid: u32,
    /// Sectors of data that it holds when it is full.
    pub data_sectors: u32,
    /// How long ago it was closed, in bands closed since.
    pub age: u64,
}

/// The band whose collection pays best, the first of equals: (1 - u) / 2u times its age, u the share still valid
/// (Rosenblum and Ousterhout, 1992, section 3.5).
pub fn cost_benefit(candidates: impl Iterator<Item = Candidate>) -> Option<u32> {
    let mut best: Option<(f64, u32)> = None;
    for Candidate { band, valid, data_sectors, age } in candidates {
        let u = f64::from(valid) / f64::from(data_sectors);
        let score = (1.0 - u) / (2.0 * u) * (age + 1) as f64;
        if best.is_none_or(|(other, _)| score > other) {
            best = Some((score, band));
        }
    }
    best.map(|(_, band)| band)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(list: &[(u32, u64)]) -> Option<u32> {
        let candidate = |(band, &(valid, age)): (u32, &(u32, u64))| Candidate { band, valid, data_sectors: 100, age };
        cost_benefit((0..).zip(list).map(candidate))
    }

    #[test]
    fn the_emptier_and_the_older_band_comes_first() {
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[(50, 0), (10, 0), (90, 0)]), Some(1));
        assert_eq!(of(&[(50, 3), (50, 9), (50, 9)]), Some(1));
        assert_eq!(of(&[(10, 0), (60, 100)]), Some(1), "age outweighs what there is to copy");
    }
}

//! What writes to the capacity tier cost the drives below it, where these have parity: writing a part of a row also writes parity and its log.

/// The cost, which is known since the first time that it was reported.
#[derive(Debug, Default)]
pub(crate) struct CostBelow {
    /// Bytes that had been written to the members and to the tier at that time.
    then: Option<[u64; 2]>,
    /// Bytes written to the members by now, as data in whole rows, of which the parity is left out.
    now: u64,
}

impl CostBelow {
    /// The members were written as much as so many bytes of data in whole rows would have cost them. `tier_bytes` returns what was written to the tier; it is
    /// called once.
    pub fn note(&mut self, members_bytes: u64, tier_bytes: impl FnOnce() -> u64) {
        self.then.get_or_insert_with(|| [members_bytes, tier_bytes()]);
        self.now = members_bytes;
    }

    /// What a tier to which so much was written cost its drives, never less than that.
    pub fn of(&self, tier_bytes: u64) -> u64 {
        let cost = |[members, tier]: [u64; 2]| tier + self.now.saturating_sub(members);
        tier_bytes.max(self.then.map_or(0, cost))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Wear of a tier with parity counted data alone: with 4+2, and small writes, a quarter of what its drives were written.
    #[test]
    fn regression_parity_of_parts_of_rows_is_wear() {
        let mut below = CostBelow::default();
        assert_eq!(below.of(500), 500, "without parity");
        below.note(70, || 500);
        assert_eq!(below.of(510), 510, "what the members were written before was not of these");
        below.note(70 + 400, || 600);
        assert_eq!(below.of(600), 900);
        assert_eq!(below.of(1000), 1000, "what is on its way yet");
    }
}

//! Settings of experiments: drives with a past, hosts, and effort.

use crate::conformance::closed::{Figures, Span, Workload, closed_loop_over};
use crate::conformance::table::ConformanceError;
use crate::host::Profile;
use crate::preset::Drive;
use crate::ssd::{Past, Ssd};

/// How much an experiment runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Seed of drives, hosts and addresses.
    pub seed: u64,
    /// I/Os of a point; points that are slow to compute take fewer.
    pub ios: u64,
    /// Run all points of curves and surfaces instead of only those that the claims need.
    pub full: bool,
    /// Modelled capacity of flash drives in bytes: full parallelism, fewer blocks.
    pub flash_bytes: u64,
}

impl Default for Effort {
    /// Flash as large as in the tables of single tests.
    fn default() -> Self {
        Self { seed: 1, ios: 200_000, full: false, flash_bytes: 32 << 30 }
    }
}

/// A drive and the virtual time that it has reached.
pub(super) struct Live {
    pub ssd: Box<dyn Ssd>,
    pub now_ns: u64,
    pub seed: u64,
}

impl Live {
    /// Builds a drive by name: flash scaled to the effort's size, XPoint at its own size.
    pub(super) fn new(name: &str, effort: Effort) -> Result<Self, ConformanceError> {
        let drive = Drive::named(name).and_then(|drive| match drive {
            Drive::Nand(_) => drive.scaled(effort.flash_bytes),
            Drive::XPoint(_) => Ok(drive),
        });
        let ssd = drive
            .and_then(|drive| drive.build(effort.seed))
            .map_err(|source| ConformanceError::Drive { test: name.to_owned(), source })?;
        Ok(Self { ssd, now_ns: 0, seed: effort.seed })
    }

    /// Gives the drive a past.
    pub(super) fn age(&mut self, filled: f64, random_passes: f64) {
        self.ssd.age(Past { filled, random_passes });
    }

    /// Runs a workload within the first `region_bytes`.
    pub(super) fn closed(
        &mut self,
        profile: &Profile,
        workload: &Workload,
        region_bytes: u64,
        warm_up_ios: u64,
        ios: u64,
    ) -> Figures {
        let span = Span { start_ns: self.now_ns, warm_up_ios, ios, region_bytes };
        // A new seed each time: the same addresses again could hit the drive's caches.
        self.seed = self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(1);
        let (figures, end_ns) = closed_loop_over(self.ssd.as_mut(), profile, workload, self.seed, span);
        self.now_ns = end_ns;
        figures
    }

    /// Lets time pass without commands.
    pub(super) fn rest(&mut self, ns: u64) {
        self.now_ns += ns;
        let mut done = Vec::new();
        self.ssd.advance(self.now_ns, &mut done);
    }
}

/// A host by name.
pub(super) fn host(name: &str) -> Result<Profile, ConformanceError> {
    Profile::named(name).map_err(|source| ConformanceError::Host { test: name.to_owned(), source })
}

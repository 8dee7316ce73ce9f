//! The policies that are compared.

use super::streams::Stream;
use forebay_placement::grouping::{Future, Grouping, Kind};
use forebay_placement::log::{Log, Op, Written};
use forebay_placement::victim::Choice;

/// Number of the oracle's groups.
const FUTURE_GROUPS: u8 = 6;

/// Bands, spare space and victim choice.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub band_blocks: u32,
    /// Share of the space that may hold invalid data.
    pub spare: f64,
    pub choice: Choice,
}

/// A policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Policy {
    /// A policy without knowledge of the future.
    Blind(Kind),
    Oracle,
}

impl Policy {
    pub const SEPBIT: Self = Self::Blind(Kind::SepBit);
    pub const OURS: Self = Self::Blind(Kind::ByRate);
    /// All policies without knowledge of the future, except ours.
    pub const OTHERS: [Self; 5] = [
        Self::Blind(Kind::NoSep),
        Self::Blind(Kind::SepGc),
        Self::Blind(Kind::Dac),
        Self::SEPBIT,
        Self::Blind(Kind::Midas),
    ];

    /// All policies.
    pub fn all() -> Vec<Self> {
        Kind::ALL.into_iter().map(Self::Blind).chain([Self::Oracle]).collect()
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Blind(kind) => kind.name(),
            Self::Oracle => "oracle",
        }
    }

    /// Simulates the stream with the policy.
    pub fn run(self, setting: Setting, stream: &Stream) -> Written {
        let Setting { band_blocks, spare, .. } = setting;
        let band = u64::from(band_blocks);
        match self {
            Self::Blind(kind) => through(kind.build(band, spare), setting, stream),
            Self::Oracle => through(Future::new(FUTURE_GROUPS, band), setting, stream),
        }
    }
}

fn through(grouping: impl Grouping, setting: Setting, stream: &Stream) -> Written {
    let mut log = Log::new(grouping, setting.choice, stream.addresses, setting.band_blocks, setting.spare);
    for (op, dies_after) in stream.ops.iter().zip(&stream.dies_after) {
        match *op {
            Op::Write(block) => log.write(block, (*dies_after != u64::MAX).then_some(*dies_after)),
            Op::Discard(block) => log.discard(block),
        }
    }
    log.written()
}

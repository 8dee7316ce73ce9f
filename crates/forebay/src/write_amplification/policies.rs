//! The policies that are compared.

use super::streams::Stream;
use forebay_placement::grouping::{Future, Grouping, Kind};
use forebay_placement::log::{Log, Op, Written};
use forebay_placement::victim::Choice;

/// Groups of the oracle.
const FUTURE_GROUPS: u8 = 6;

/// Bands, space and whose data is collected first.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub band_blocks: u32,
    /// Share of the space that may be invalid.
    pub spare: f64,
    pub choice: Choice,
}

/// A policy with the name that its authors gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Policy {
    NoSep,
    SepGc,
    Dac,
    SepBit,
    Midas,
    Ours,
    Oracle,
}

impl Policy {
    pub const ALL: [Self; 7] =
        [Self::NoSep, Self::SepGc, Self::Dac, Self::SepBit, Self::Midas, Self::Ours, Self::Oracle];
    /// Those that know nothing of the future, but for ours.
    pub const OTHERS: [Self; 5] = [Self::NoSep, Self::SepGc, Self::Dac, Self::SepBit, Self::Midas];

    /// What knows nothing of the future; none for the oracle.
    fn kind(self) -> Option<Kind> {
        Some(match self {
            Self::NoSep => Kind::NoSep,
            Self::SepGc => Kind::SepGc,
            Self::Dac => Kind::Dac,
            Self::SepBit => Kind::SepBit,
            Self::Midas => Kind::Midas,
            Self::Ours => Kind::ByRate,
            Self::Oracle => return None,
        })
    }

    pub fn name(self) -> &'static str {
        self.kind().map_or("oracle", Kind::name)
    }

    /// What the stream comes to with it.
    pub fn run(self, setting: Setting, stream: &Stream) -> Written {
        let Setting { band_blocks, spare, .. } = setting;
        let band = u64::from(band_blocks);
        match self.kind() {
            Some(kind) => through(kind.build(band, spare), setting, stream),
            None => through(Future::new(FUTURE_GROUPS, band), setting, stream),
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

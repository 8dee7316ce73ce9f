//! How far a scrub has come, in a section of the root that a program without scrubs keeps as it is (docs/format.md, "Scrub").

use super::codec::{COUNTER_LIMIT, Reader, Writer};

/// Whether everything stored is being read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScrubState {
    /// No pass has begun, or the last one has come to its end.
    #[default]
    Idle,
    /// A pass is in progress.
    Running,
    /// A pass has begun and waits to be continued.
    Paused,
}

/// A pass over everything stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pass {
    /// When it began, in seconds since 1970; 0 where the time was not known.
    pub began_unix_s: u64,
    /// When it ended, likewise.
    pub ended_unix_s: u64,
    /// Blocks read that were as they should be.
    pub good_blocks: u64,
    /// Blocks that could not be read, or were not what was written.
    pub bad_blocks: u64,
    /// Blocks of bands that could not be compared with their parity.
    pub uncompared_blocks: u64,
}

/// In place of a disk: all disks were read, and parity of the capacity tier is being compared, from a block of that tier on. A program without this
/// takes it for the end, as no disk has this number.
pub const PARITY: u16 = u16::MAX;

/// How far a scrub is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScrubRecord {
    /// Whether a pass is in progress.
    pub state: ScrubState,
    /// The disk that it is at, or [`PARITY`]; and there the first block that was not read yet, or behind which a finding may not have been written
    /// again yet.
    pub disk: u16,
    /// See `disk`.
    pub block: u64,
    /// The pass in progress.
    pub pass: Pass,
    /// The last one that came to its end.
    pub last: Option<Pass>,
}

impl ScrubRecord {
    /// As it stands in the root: 92 bytes, of which earlier programs know the first 76.
    pub(super) fn put(&self, w: &mut Writer) {
        w.u8(self.state as u8);
        w.u8(u8::from(self.last.is_some()));
        w.u16(self.disk);
        w.u64(self.block);
        for pass in [self.pass, self.last.unwrap_or_default()] {
            for value in [pass.began_unix_s, pass.ended_unix_s, pass.good_blocks, pass.bad_blocks] {
                w.u64(value);
            }
        }
        w.u64(self.pass.uncompared_blocks);
        w.u64(self.last.unwrap_or_default().uncompared_blocks);
    }

    /// `None` where it is impossible. What a later program has added behind it is ignored.
    pub(super) fn take(r: &mut Reader<'_>) -> Option<Self> {
        let state = match r.u8()? {
            0 => ScrubState::Idle,
            1 => ScrubState::Running,
            2 => ScrubState::Paused,
            _ => return None,
        };
        let has_last = r.u8()? != 0;
        let (disk, block) = (r.u16()?, r.u64()?);
        let mut pass = || {
            let [began_unix_s, ended_unix_s, good_blocks, bad_blocks] = [r.u64()?, r.u64()?, r.u64()?, r.u64()?];
            let is_possible =
                [began_unix_s, ended_unix_s, good_blocks, bad_blocks].iter().all(|&value| value < COUNTER_LIMIT);
            is_possible.then_some(Pass { began_unix_s, ended_unix_s, good_blocks, bad_blocks, uncompared_blocks: 0 })
        };
        let (mut pass, mut last) = (pass()?, pass()?);
        // A record of an earlier program ends here.
        for pass in [&mut pass, &mut last] {
            pass.uncompared_blocks = r.u64().filter(|&blocks| blocks < COUNTER_LIMIT).unwrap_or(0);
        }
        (block < COUNTER_LIMIT).then_some(Self { state, disk, block, pass, last: has_last.then_some(last) })
    }
}

//! How a row may be written of which a part is to be written, judged by what was read of it.

use super::code::{Code, Likely, slices};
use crate::layout::array_shape::BLOCK;
use forebay_block::SharedBuf;

/// What was read of a row, and what is to be written there.
pub(super) struct Evidence<'a> {
    pub code: &'a Code,
    /// What was read: blocks of data, and behind them the parity.
    pub images: &'a [Option<Vec<u8>>],
    /// How many of them are data.
    pub data: usize,
    /// What is to be written, by places in the row.
    pub blocks: &'a [(usize, SharedBuf)],
    /// One bit for each other block of data that may live.
    pub living: u32,
    /// One bit for each of these that its member failed to read.
    pub failed: u32,
    /// All data was read, and parity agrees with it: the row has no other fault.
    pub was_right: bool,
    /// Parity of this row is known to be right: so it also shows which block is wrong.
    pub is_settled: bool,
    /// A power cut may have torn the row.
    pub may_be_torn: bool,
}

/// How a row is to be written.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Judgement {
    /// Not now: a block that lives is not known. It may be readable later, and the parity that can restore it is not given up.
    Unreadable,
    /// Only the blocks themselves: nothing changes in the row, and its parity may be all that shows what another block was.
    Repeats,
    /// At once, with this parity.
    InPlace { known: Known, parity: Vec<Vec<u8>> },
    /// After what lives there has been put into the log.
    ByLog(Known),
}

/// What a row will hold.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Known {
    pub data: Vec<Vec<u8>>,
    /// Places of other blocks that were read and are wrong.
    pub wrong: Vec<usize>,
    /// Parity says something else than what was there: it cannot be known here whether the row is torn or a block is damaged.
    pub is_in_doubt: bool,
}

impl Evidence<'_> {
    /// How the row is to be written.
    pub fn judge(&self) -> Judgement {
        let before = if self.was_right { None } else { self.code.likely(self.images, 0) };
        let Some(data) = self.data_after(before.as_ref()) else { return Judgement::Unreadable };
        let parity = self.code.encode(&slices(&data));
        let facts = self.facts(before.as_ref(), &parity);
        let is_in_doubt = before.is_some_and(|before| self.others(self.living).any(|at| before.data[at] != data[at]));
        let differs = |at: &usize| self.images[*at].as_ref().is_some_and(|read| *read != data[*at]);
        let wrong = |places: u32| self.others(places).filter(differs).collect();
        match facts.way() {
            Way::Unreadable => Judgement::Unreadable,
            Way::Repeats => Judgement::Repeats,
            Way::InPlace => {
                let wrong = if facts.is_sure() { wrong(u32::MAX) } else { Vec::new() };
                Judgement::InPlace { known: Known { data, wrong, is_in_doubt }, parity }
            }
            Way::ByLog => {
                let wrong = wrong(self.living);
                Judgement::ByLog(Known { data, wrong, is_in_doubt })
            }
        }
    }

    /// One bit for each block that is to be written.
    fn written(&self) -> u32 {
        self.blocks.iter().fold(0, |bits, (at, _)| bits | 1 << at)
    }

    /// Of these places those of blocks that are not to be written.
    fn others(&self, places: u32) -> impl Iterator<Item = usize> {
        let others = places & !self.written();
        (0..self.data).filter(move |at| others & 1 << at != 0)
    }

    /// What the row will hold: what is to be written, and beside it what is most likely there. `None` where a block that lives is not known.
    fn data_after(&self, before: Option<&Likely>) -> Option<Vec<Vec<u8>>> {
        let now = self.now(before);
        let likely = if self.was_right { None } else { self.likeliest(before, &now) };
        if let Some(known) = likely.or_else(|| now[..self.data].iter().cloned().collect()) {
            return Some(known);
        }
        if self.others(self.living).any(|at| now[at].is_none()) {
            return None;
        }
        let zeros = |block: Option<Vec<u8>>| block.unwrap_or_else(|| vec![0; BLOCK as usize]);
        Some(now.into_iter().take(self.data).map(zeros).collect())
    }

    /// What was read, with what is to be written in its place. A block that cannot be read is what parity says, which is of what was there
    /// before. One that can be read counts as right where a power cut may have torn the row.
    fn now(&self, before: Option<&Likely>) -> Vec<Option<Vec<u8>>> {
        let mut now = self.images.to_vec();
        let is_incomplete = self.others(u32::MAX).any(|at| self.images[at].is_none());
        if let Some(before) = before.filter(|_| self.is_settled || is_incomplete) {
            let is_taken = |at: &usize| self.is_settled || self.images[*at].is_none();
            let taken = before.data.iter().enumerate().filter(|(at, _)| is_taken(at));
            taken.for_each(|(at, block)| now[at] = Some(block.clone()));
        }
        self.blocks.iter().for_each(|(at, block)| now[*at] = Some(block.to_vec()));
        now
    }

    /// The likely data of the row, with what is to be written. Where `now` fits no parity, the other blocks may fit the state before: that
    /// shows which of them is wrong.
    fn likeliest(&self, before: Option<&Likely>, now: &[Option<Vec<u8>>]) -> Option<Vec<Vec<u8>>> {
        let likely = self.code.likely(now, self.written())?;
        let mut data = likely.data;
        if likely.agreeing > 0 {
            return Some(data);
        }
        if let Some(before) = before.filter(|before| before.agreeing > 0) {
            self.others(u32::MAX).for_each(|at| data[at].clone_from(&before.data[at]));
        }
        Some(data)
    }

    /// What decides how the row is to be written, where its parity would be this.
    fn facts(&self, before: Option<&Likely>, parity: &[Vec<u8>]) -> Facts {
        let read = &self.images[self.data..];
        let is_new = |(at, block): &&(usize, SharedBuf)| self.images[*at].as_deref() != Some(&**block);
        Facts {
            was_right: self.was_right,
            may_be_torn: self.may_be_torn,
            has_before: before.is_some(),
            is_guessed: self.failed & self.living != 0 && !before.is_some_and(Likely::is_sure),
            is_unread: self.others(self.living).any(|at| self.images[at].is_none()),
            changed: self.blocks.iter().filter(is_new).count(),
            needed: self.others(u32::MAX).filter(|&at| self.images[at].is_none()).count(),
            read: read.iter().flatten().count(),
            agreeing: read.iter().zip(parity).filter(|(read, sum)| read.as_ref() == Some(*sum)).count(),
        }
    }
}

/// What decides how a row is to be written.
#[derive(Clone, Copy, Debug)]
struct Facts {
    was_right: bool,
    may_be_torn: bool,
    /// Enough was read to say what was there before.
    has_before: bool,
    /// A block that lives could not be read, and parity gives it without certainty. It is not kept as if it had been read: nothing is logged
    /// then, as nothing was protected before.
    is_guessed: bool,
    /// A block that lives was not read.
    is_unread: bool,
    /// Blocks that are to be written and are not there yet.
    changed: usize,
    /// Other blocks of data that were not read: as many blocks of parity compute them.
    needed: usize,
    /// Blocks of parity that were read.
    read: usize,
    /// Of these the ones that fit what the row will hold.
    agreeing: usize,
}

/// The ways to write a row, see [`Judgement`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Unreadable,
    Repeats,
    InPlace,
    ByLog,
}

impl Facts {
    /// Whether what the row will hold is certain. As many blocks of parity as were needed to compute missing blocks agree in any case: they
    /// show nothing where another one does not agree.
    fn is_sure(self) -> bool {
        self.agreeing > self.needed || self.agreeing > 0 && self.agreeing == self.read
    }

    fn way(self) -> Way {
        if !self.was_right && !self.has_before && self.is_unread && self.agreeing <= self.needed {
            // The block was restored as if what is to be written had been there before, and no parity shows that it had.
            Way::Unreadable
        } else if self.changed == 0 && !self.was_right && !self.is_sure() && !self.is_guessed && !self.may_be_torn {
            // Not so where an opening finds a row that a power cut has torn: what lies there gets new parity.
            Way::Repeats
        } else if self.is_guessed || self.is_sure() && self.agreeing >= self.needed + self.changed {
            // Agreeing parity shows as many blocks as it has: where more have changed, other contents may have the same parity.
            Way::InPlace
        } else {
            Way::ByLog
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row with two blocks of parity that were read, of which none agrees, and in which one block changes.
    const CHANGES: Facts = Facts {
        was_right: false,
        may_be_torn: false,
        has_before: true,
        is_guessed: false,
        is_unread: false,
        changed: 1,
        needed: 0,
        read: 2,
        agreeing: 0,
    };
    const REPEATS: Facts = Facts { changed: 0, ..CHANGES };
    const UNREAD: Facts = Facts { is_unread: true, needed: 1, ..CHANGES };

    #[test]
    fn each_way_follows_from_the_facts() {
        let table = [
            ("right before, and something changes", Facts { was_right: true, ..CHANGES }, Way::ByLog),
            ("right before, and nothing changes", Facts { was_right: true, agreeing: 2, ..REPEATS }, Way::InPlace),
            ("wrong before, and something changes", CHANGES, Way::ByLog),
            ("wrong before, and nothing changes", REPEATS, Way::Repeats),
            ("the same, in a torn row", Facts { may_be_torn: true, ..REPEATS }, Way::ByLog),
            ("nothing changes, and one parity agrees", Facts { agreeing: 1, ..REPEATS }, Way::InPlace),
            ("one changes, and one parity agrees with it", Facts { agreeing: 1, ..CHANGES }, Way::InPlace),
            ("two change, and one parity agrees", Facts { agreeing: 1, changed: 2, ..CHANGES }, Way::ByLog),
            ("two change, and both agree", Facts { agreeing: 2, changed: 2, ..CHANGES }, Way::InPlace),
            ("one is computed, and nothing agrees beyond", Facts { agreeing: 1, ..UNREAD }, Way::ByLog),
            ("one is computed, and another agrees", Facts { agreeing: 2, ..UNREAD }, Way::InPlace),
            ("one is computed by all there is", Facts { agreeing: 1, read: 1, ..UNREAD }, Way::ByLog),
            ("the same, and nothing changes", Facts { agreeing: 1, read: 1, changed: 0, ..UNREAD }, Way::InPlace),
            ("one is computed, nothing changes or agrees", Facts { agreeing: 1, changed: 0, ..UNREAD }, Way::Repeats),
            ("without what was before", Facts { has_before: false, agreeing: 1, ..UNREAD }, Way::Unreadable),
            ("the same, but another agrees", Facts { has_before: false, agreeing: 2, ..UNREAD }, Way::InPlace),
            ("the same, but nothing there lives", Facts { has_before: false, ..CHANGES }, Way::ByLog),
            ("guessed", Facts { is_guessed: true, ..UNREAD }, Way::InPlace),
            ("guessed, and nothing changes", Facts { is_guessed: true, changed: 0, ..UNREAD }, Way::InPlace),
            (
                "guessed without what was before",
                Facts { is_guessed: true, has_before: false, ..UNREAD },
                Way::Unreadable,
            ),
        ];
        for (what, facts, way) in table {
            assert_eq!(facts.way(), way, "{what}");
        }
    }

    fn block(byte: u8) -> Vec<u8> {
        vec![byte; BLOCK as usize]
    }

    /// Judges a write of one block to the first place of a row of three blocks of data, and two of parity as they fit 1, 2, 3.
    fn judged(read: [Option<u8>; 3], new: u8) -> Judgement {
        let code = Code::new(3, 2);
        let parity = code.encode(&[&block(1), &block(2), &block(3)]);
        let data = read.iter().map(|byte| byte.map(block));
        let images: Vec<Option<Vec<u8>>> = data.chain(parity.into_iter().map(Some)).collect();
        let blocks = [(0, forebay_block::Buf::copy_of(&block(new)).freeze())];
        let (was_right, living) = (code.agrees(&images), 0b110);
        let evidence = Evidence {
            code: &code,
            images: &images,
            data: 3,
            blocks: &blocks,
            living,
            failed: 0,
            was_right,
            is_settled: false,
            may_be_torn: false,
        };
        evidence.judge()
    }

    #[test]
    fn what_parity_says_of_other_blocks_is_kept() {
        let of = |data: [u8; 3]| data.map(block).to_vec();
        let Judgement::ByLog(known) = judged([Some(1), Some(2), Some(3)], 9) else { panic!("it changes something") };
        assert_eq!((known.data, known.wrong, known.is_in_doubt), (of([9, 2, 3]), vec![], false));
        let Judgement::ByLog(known) = judged([Some(1), None, Some(3)], 9) else { panic!("the second is known") };
        assert_eq!((known.data, known.wrong), (of([9, 2, 3]), vec![]), "by what was there before");
        let Judgement::InPlace { known, .. } = judged([Some(7), Some(2), Some(3)], 1) else { panic!("parity fits it") };
        assert_eq!((known.data, known.wrong), (of([1, 2, 3]), vec![]), "the damaged block is written again");
        assert_eq!(judged([None, None, None], 9), Judgement::Unreadable, "parity is too little for three blocks");
    }
}

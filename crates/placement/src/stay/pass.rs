//! Shares the tier out in pieces, for a caller that must not be delayed for long: each piece examines a bounded
//! number of blocks, groups or segments. If nothing is written between the pieces, the result is that of one long
//! piece; writes in between count as far as a later piece examines them. All decisions change at once, at the end.

use super::ages::{self, Ages};
use super::group::{Group, State};
use super::lives::{Lives, Point};
use super::sample::Sample;
use super::share::{self, Fill, Segment, Share};
use std::collections::BTreeMap;

/// Factor for old observations from one plan to the next: they count half after about three times as many writes as
/// the tier has blocks.
const FADE: f32 = 0.95;

/// What one piece examines at most: a few tens of microseconds for each kind.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    /// Followed blocks.
    pub blocks: usize,
    /// Groups.
    pub groups: usize,
    /// Segments of the groups' hulls.
    pub segments: usize,
}

pub(super) const PIECE: Piece = Piece { blocks: 256, groups: 8, segments: 256 };

/// The progress of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Counts followed blocks, after this one.
    Count(Option<(u16, u64)>),
    /// Sums the lifetimes of classes, from this group on.
    Classes(usize),
    /// Cuts hulls, from this group on.
    Cut(usize),
    /// Takes segments, the best first.
    Fill,
}

/// A pass over all blocks, groups and segments.
#[derive(Clone, Debug)]
pub(super) struct Pass {
    step: Step,
    now: u64,
    room_blocks: f64,
    /// Writes to all groups together.
    written: f64,
    of_classes: BTreeMap<u8, Lives>,
    segments: Vec<Segment>,
    fill: Fill,
    shares: Vec<Share>,
    hull: Vec<Point>,
    curve: Vec<Point>,
}

/// The state that a pass reads and changes.
pub(super) struct Known<'a> {
    pub groups: &'a mut Vec<Group>,
    pub lives: &'a mut Vec<Lives>,
    pub sample: &'a mut Sample,
    pub free_numbers: &'a mut Vec<u16>,
    pub ages: Ages,
    pub price: f64,
}

impl Pass {
    /// Begins to share `room_blocks` out.
    pub fn begin(now: u64, room_blocks: f64) -> Self {
        Self {
            step: Step::Count(None),
            now,
            room_blocks,
            written: 0.0,
            of_classes: BTreeMap::new(),
            segments: Vec::new(),
            fill: Fill::default(),
            shares: Vec::new(),
            hull: Vec::new(),
            curve: Vec::new(),
        }
    }

    /// When the pass began, in blocks written.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// The share of each group, once the pass is complete.
    pub fn shares(&self) -> &[Share] {
        &self.shares
    }

    /// Whether room is left.
    pub fn has_room(&self) -> bool {
        self.fill.left > 0.0
    }

    /// Writes that one more block of the tier would save for each block written.
    pub fn gain_of_more(&self) -> f64 {
        self.fill.gain_of_more
    }

    /// Continues by one piece; returns true once the pass is complete. Allocates now and then.
    pub fn go_on(&mut self, known: &mut Known<'_>, piece: Piece) -> bool {
        self.step = match self.step {
            Step::Count(after) => self.count_piece(known, after, piece.blocks),
            Step::Classes(from) => self.add_classes(known, from, piece.groups),
            Step::Cut(from) => self.cut_piece(known, from, piece.groups),
            Step::Fill => {
                let shares = &mut self.shares;
                let is_more =
                    self.fill.take(piece.segments, &self.segments, |number, share| shares[usize::from(number)] = share);
                return !is_more;
            }
        };
        false
    }

    /// Counts living blocks up to now, and forgets blocks that have nothing more to show.
    fn count_piece(&self, known: &mut Known<'_>, after: Option<(u16, u64)>, blocks: usize) -> Step {
        let oldest = self.now.saturating_sub(known.ages.begin(ages::BINS));
        let groups = &*known.groups;
        let is_known = |group: u16| groups.get(usize::from(group)).is_some_and(|group| group.state == State::Known);
        let from = (self.now, oldest, known.ages);
        if let Some(last) = known.sample.count_some(after, blocks, from, is_known, known.lives) {
            return Step::Count(Some(last));
        }
        known.sample.follow_more();
        for (number, group) in (0u16..).zip(&mut *known.groups).filter(|(_, group)| group.state == State::Leaving) {
            group.state = State::Gone;
            (group.written, group.share) = (0.0, Share::default());
            known.lives[usize::from(number)] = Lives::default();
            known.free_numbers.push(number);
        }
        Step::Classes(0)
    }

    fn add_classes(&mut self, known: &Known<'_>, from: usize, groups: usize) -> Step {
        let to = known.groups.len().min(from + groups);
        for (group, lives) in known.groups[from..to].iter().zip(&known.lives[from..to]) {
            self.of_classes.entry(group.traits.class).or_default().add(lives);
            self.written += group.written;
        }
        if to < known.groups.len() { Step::Classes(to) } else { Step::Cut(0) }
    }

    fn cut_piece(&mut self, known: &mut Known<'_>, from: usize, groups: usize) -> Step {
        let to = known.groups.len().min(from + groups);
        for number in from..to {
            let (group, lives) = (&mut known.groups[number], &mut known.lives[number]);
            if let Some(prior) = self.of_classes.get(&group.traits.class).filter(|_| group.written > 0.0) {
                self.curve.clear();
                lives.curve(prior, known.ages, |point| self.curve.push(point));
                // Groups are written while a pass is in progress, so that one group may have more writes now than all
                // had when these were summed.
                let (rate, first) = (group.written / self.written.max(group.written), self.segments.len());
                share::cut(number as u16, rate, known.price, &self.curve, &mut self.hull, &mut self.segments);
                self.fill.add(first, &self.segments);
            }
            // Old observations count less in the next pass.
            group.written *= f64::from(FADE);
            lives.fade(FADE);
        }
        if to < known.groups.len() {
            return Step::Cut(to);
        }
        self.fill.left = self.room_blocks;
        self.shares = vec![Share::default(); known.groups.len()];
        Step::Fill
    }
}

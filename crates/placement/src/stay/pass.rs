//! Sharing the tier out in pieces, for whoever may not be kept for long: each looks at a bounded number of blocks, groups or
//! segments. Where nothing is written between them, what comes out is what one long piece would find; what is written meanwhile
//! counts as far as a piece has yet to look at it. Decisions change at the end, all at once.

use super::group::State;
use super::lives::{Lives, Point};
use super::share::{self, Fill, Segment, Share};
use super::{PLANS_PER_TIER, ROOM_PARTS, Stays, ages};
use std::collections::BTreeMap;

/// Blocks written between two plans at least.
const PLAN_MIN_BLOCKS: u64 = 256;
/// What the past counts for, from one plan to the next: half after some three tiers' worth of writes.
const FADE: f32 = 0.95;
/// Share of what is written that may leave before its time.
const EARLY_MAX: f64 = 0.002;

/// What a piece looks at, at most: a few tens of microseconds each.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    /// Blocks that are followed.
    pub blocks: usize,
    /// Groups.
    pub groups: usize,
    /// Segments of their hulls.
    pub segments: usize,
}

const PIECE: Piece = Piece { blocks: 256, groups: 8, segments: 256 };

/// How far a pass has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Blocks are counted that are followed, after this one.
    Count(Option<(u16, u64)>),
    /// The lives of classes are added up, from this group on.
    Classes(usize),
    /// Hulls are cut, from this group on.
    Cut(usize),
    /// Segments are taken, the best first.
    Fill,
}

/// A pass over all that is known.
#[derive(Clone, Debug)]
pub(super) struct Pass {
    step: Step,
    now: u64,
    room_blocks: f64,
    /// What groups were written, all together.
    written: f64,
    of_classes: BTreeMap<u8, Lives>,
    segments: Vec<Segment>,
    fill: Fill,
    shares: Vec<Share>,
    hull: Vec<Point>,
    curve: Vec<Point>,
}

impl Stays {
    /// Begins to share `room_blocks` of the tier out. `early_blocks`: what has left it since the last time before it should.
    pub fn begin_plan(&mut self, now: u64, room_blocks: u64, early_blocks: u64) {
        let passed = now.saturating_sub(self.planned_at);
        self.planned_at = now;
        // Sooner while all is new.
        self.plan_at =
            now + (self.tier_blocks / PLANS_PER_TIER).min(now / 2).max(self.tier_blocks / 64).max(PLAN_MIN_BLOCKS);
        if now > 2 * self.tier_blocks && passed > 0 {
            let is_early = early_blocks as f64 > EARLY_MAX * passed as f64;
            let factor = if is_early { 0.985 } else { 1.004 };
            self.room_part = (self.room_part * factor).clamp(ROOM_PARTS.1, ROOM_PARTS.2);
        }
        self.give_up_groups();
        let room_blocks = room_blocks as f64 * self.room_part;
        self.pass = Some(Box::new(Pass {
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
        }));
    }

    /// Whether the tier is being shared out.
    #[must_use]
    pub fn is_planning(&self) -> bool {
        self.pass.is_some()
    }

    /// Goes on with that; true where it came to its end. Allocates, once in a while.
    pub fn plan_on(&mut self) -> bool {
        self.plan_piece(PIECE)
    }

    pub(super) fn plan_piece(&mut self, piece: Piece) -> bool {
        let Some(mut pass) = self.pass.take() else { return false };
        let next = match pass.step {
            Step::Count(after) => Some(self.count_piece(&pass, after, piece.blocks)),
            Step::Classes(from) => Some(self.add_classes(&mut pass, from, piece.groups)),
            Step::Cut(from) => Some(self.cut_piece(&mut pass, from, piece.groups)),
            Step::Fill => self.fill_piece(&mut pass, piece.segments).then_some(Step::Fill),
        };
        match next {
            Some(step) => {
                pass.step = step;
                self.pass = Some(pass);
                false
            }
            None => {
                self.end_pass(&pass);
                true
            }
        }
    }

    /// Counts lives that go on up to now, and forgets blocks that nothing is learned from any more.
    fn count_piece(&mut self, pass: &Pass, after: Option<(u16, u64)>, blocks: usize) -> Step {
        let oldest = pass.now.saturating_sub(self.ages.begin(ages::BINS));
        let groups = &self.groups;
        let is_known = |group: u16| groups.get(usize::from(group)).is_some_and(|group| group.state == State::Known);
        let from = (pass.now, oldest, self.ages);
        if let Some(last) = self.sample.count_some(after, blocks, from, is_known, &mut self.lives) {
            return Step::Count(Some(last));
        }
        self.sample.follow_more();
        for (number, group) in (0u16..).zip(&mut self.groups).filter(|(_, group)| group.state == State::Leaving) {
            group.state = State::Gone;
            (group.written, group.share) = (0.0, Share::default());
            self.lives[usize::from(number)] = Lives::default();
            self.free_numbers.push(number);
        }
        Step::Classes(0)
    }

    fn add_classes(&mut self, pass: &mut Pass, from: usize, groups: usize) -> Step {
        let to = self.groups.len().min(from + groups);
        for (group, lives) in self.groups[from..to].iter().zip(&self.lives[from..to]) {
            pass.of_classes.entry(group.traits.class).or_default().add(lives);
            pass.written += group.written;
        }
        if to < self.groups.len() { Step::Classes(to) } else { Step::Cut(0) }
    }

    fn cut_piece(&mut self, pass: &mut Pass, from: usize, groups: usize) -> Step {
        let to = self.groups.len().min(from + groups);
        for number in from..to {
            let (group, lives) = (&mut self.groups[number], &mut self.lives[number]);
            if let Some(prior) = pass.of_classes.get(&group.traits.class).filter(|_| group.written > 0.0) {
                pass.curve.clear();
                lives.curve(prior, self.ages, |point| pass.curve.push(point));
                let (rate, first) = (group.written / pass.written, pass.segments.len());
                share::cut(number as u16, rate, self.price, &pass.curve, &mut pass.hull, &mut pass.segments);
                pass.fill.add(first, &pass.segments);
            }
            // The past counts for less the next time.
            group.written *= f64::from(FADE);
            lives.fade(FADE);
        }
        if to < self.groups.len() {
            return Step::Cut(to);
        }
        pass.fill.left = pass.room_blocks;
        pass.shares = vec![Share::default(); self.groups.len()];
        Step::Fill
    }

    /// True where there is more to be taken.
    fn fill_piece(&mut self, pass: &mut Pass, segments: usize) -> bool {
        let Pass { fill, shares, segments: all, .. } = pass;
        fill.take(segments, all, |number, share| shares[usize::from(number)] = share)
    }

    fn end_pass(&mut self, pass: &Pass) {
        let shares = pass.shares.iter().copied().chain(std::iter::repeat(Share::default()));
        self.groups.iter_mut().zip(shares).for_each(|(group, share)| group.share = share);
        self.has_room = pass.fill.left > 0.0;
        self.is_planned = pass.now >= self.began_at.get_or_insert(pass.now).saturating_add(self.tier_blocks);
    }

    /// Where there are as many groups as may be, those that hardly anything is written to make room for others: they are not
    /// written to any more, and gone once no block is followed that is theirs.
    fn give_up_groups(&mut self) {
        if self.groups.len() < self.groups_max || !self.free_numbers.is_empty() {
            return;
        }
        for group in self.groups.iter_mut().filter(|group| group.state == State::Known && group.written < 1.0) {
            group.state = State::Leaving;
        }
        self.numbers.retain(|_, number| self.groups[usize::from(*number)].state == State::Known);
    }
}

//! Shrinks a failing life: leaves out whatever is not needed for a failure.

use crate::life::{Failure, Lived, live};
use crate::scenario::{End, Member, MemberRound, Round, Scenario, Step};

/// Maximum number of lives that are tried.
const TRIES_MAX: u32 = 3000;

struct Shrinker<'a> {
    best: Scenario,
    failure: Failure,
    tries: u32,
    fails: &'a mut dyn FnMut(&Scenario) -> Option<Failure>,
}

impl Shrinker<'_> {
    /// Keeps a smaller life where it fails too.
    fn offer(&mut self, smaller: Scenario) -> bool {
        if self.tries >= TRIES_MAX || smaller == self.best {
            return false;
        }
        self.tries += 1;
        let Some(failure) = (self.fails)(&smaller) else { return false };
        (self.best, self.failure) = (smaller, failure);
        true
    }

    fn with_round(&mut self, at: usize, change: impl FnOnce(&mut Round)) -> bool {
        let mut smaller = self.best.clone();
        match smaller.rounds.get_mut(at) {
            Some(round) => change(round),
            None => return false,
        }
        self.offer(smaller)
    }

    /// A pool with devices like those of most lives.
    fn shape(&mut self) {
        let mut smaller = self.best.clone();
        smaller.shape.durable_writes = true;
        self.offer(smaller);
        let mut smaller = self.best.clone();
        smaller.shape.is_over_bucket = false;
        self.offer(smaller);
    }

    fn rounds(&mut self) {
        let last = self.failure.round + 1;
        let mut smaller = self.best.clone();
        smaller.rounds.truncate(last);
        self.offer(smaller);
        let mut at = 0;
        while at < self.best.rounds.len() {
            let mut smaller = self.best.clone();
            smaller.rounds.remove(at);
            if smaller.rounds.is_empty() || !self.offer(smaller) {
                at += 1;
            }
        }
    }

    /// Steps of one round: halves, quarters and so on, then single steps.
    fn steps(&mut self, at: usize) {
        let mut chunk = self.best.rounds[at].steps.len().div_ceil(2);
        while chunk > 0 {
            let mut from = 0;
            while from < self.best.rounds.get(at).map_or(0, |round| round.steps.len()) {
                let cut = |round: &mut Round| {
                    let end = (from + chunk).min(round.steps.len());
                    round.steps.drain(from..end);
                };
                if !self.with_round(at, cut) {
                    from += chunk;
                }
            }
            chunk /= 2;
        }
    }

    /// Faults of the members in one round.
    fn members(&mut self, at: usize) {
        self.with_round(at, |round| round.beyond = None);
        self.with_round(at, |round| round.members.clear());
        for slot in 0..self.best.rounds[at].members.len() {
            let mut with_member = |change: &dyn Fn(&mut MemberRound)| {
                self.with_round(at, |round| round.members.get_mut(slot).into_iter().for_each(change));
            };
            with_member(&|member| *member = MemberRound::default());
            with_member(&|member| member.is = Member::Present);
            with_member(&|member| member.is_another = false);
            with_member(&|member| member.wounds[0] = 0);
            with_member(&|member| member.wounds[1] = 0);
            with_member(&|member| (member.rots, member.dies) = (false, false));
            for when in 0..2 {
                // At most so many are drawn.
                for number in (0..3).rev() {
                    with_member(&|member| {
                        if number < member.faults[when].len() {
                            member.faults[when].remove(number);
                        }
                    });
                }
            }
        }
    }

    fn details(&mut self, at: usize) {
        self.with_round(at, |round| round.recovery_cuts.clear());
        for number in (0..self.best.rounds[at].recovery_cuts.len()).rev() {
            self.with_round(at, |round| {
                round.recovery_cuts.remove(number);
            });
        }
        for number in (0..self.best.rounds[at].faults.len()).rev() {
            self.with_round(at, |round| {
                round.faults.remove(number);
            });
        }
        for number in (0..self.best.rounds[at].opening_faults.len()).rev() {
            self.with_round(at, |round| {
                round.opening_faults.remove(number);
            });
        }
        for number in (0..self.best.rounds[at].holds.len()).rev() {
            self.with_round(at, |round| {
                round.holds.remove(number);
            });
        }
        for number in (0..self.best.rounds[at].wounds.len()).rev() {
            self.with_round(at, |round| {
                round.wounds.remove(number);
            });
            self.with_round(at, |round| {
                if let Some(wound) = round.wounds.get_mut(number) {
                    wound.count = 1;
                }
            });
        }
        self.members(at);
        self.with_round(at, |round| round.connections = 1);
        self.with_round(at, |round| round.rots = false);
        self.with_round(at, |round| round.stays_on = false);
        self.with_round(at, |round| round.depth = 1);
        self.with_round(at, |round| round.verify = false);
        self.with_round(at, |round| round.timing_ns = [(1000, 1000); 2]);
        for effects in 0..8 {
            if self.with_round(at, |round| {
                if let End::PowerCut { effects: old } | End::PowerCutInStop { effects: old } = &mut round.end {
                    *old = effects.min(*old);
                }
            }) {
                break;
            }
        }
        for number in 0..self.best.rounds[at].steps.len() {
            self.with_round(at, |round| match &mut round.steps[number] {
                Step::Write { sectors, .. }
                | Step::Patchwork { sectors, .. }
                | Step::Clear { sectors, .. }
                | Step::Read { sectors, .. } => {
                    *sectors = (*sectors).min(8);
                }
                Step::Idle(ns) => *ns = (*ns).min(1_000_000),
                _ => {}
            });
        }
    }
}

/// The shortest failing life found, with its failure, which may differ from the original one. Panics count as failures where `fails` says
/// so.
pub fn shrink(
    scenario: &Scenario,
    failure: Failure,
    fails: &mut dyn FnMut(&Scenario) -> Option<Failure>,
) -> (Scenario, Failure) {
    let mut shrinker = Shrinker { best: scenario.clone(), failure, tries: 0, fails };
    loop {
        let before = shrinker.best.clone();
        shrinker.rounds();
        shrinker.shape();
        for at in (0..shrinker.best.rounds.len()).rev() {
            shrinker.steps(at);
        }
        for at in 0..shrinker.best.rounds.len() {
            shrinker.details(at);
        }
        if shrinker.best == before || shrinker.tries >= TRIES_MAX {
            return (shrinker.best, shrinker.failure);
        }
    }
}

/// Runs a scenario; a panic counts as a failure, with nothing else known of the life.
#[must_use]
pub fn attempt(scenario: &Scenario) -> Lived {
    std::panic::catch_unwind(|| live(scenario, false)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
        let what = format!("panic: {}", text.unwrap_or_default());
        let failure = Failure { round: scenario.rounds.len().saturating_sub(1), doing: "anything".into(), what };
        Lived { failure: Some(failure), ..Lived::default() }
    })
}

/// The failure of a life; none where it succeeds.
#[must_use]
pub fn fails(scenario: &Scenario) -> Option<Failure> {
    attempt(scenario).failure
}

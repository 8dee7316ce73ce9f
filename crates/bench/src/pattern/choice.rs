//! Weighted choice, which costs nothing if there is only one value.

use forebay_block::Random;

/// Most values of a choice, since the search is linear. fio allows 64 (`BSSPLIT_MAX`, thread_options.h).
pub(super) const CHOICES_MAX: usize = 256;

/// Draws one of several values by weight.
#[derive(Clone, Debug)]
pub(super) struct Weighted<T> {
    /// The only value, stored in place so that the common case follows no pointer.
    only: T,
    /// Empty if there is only one value; otherwise the values, each with the sum of the weights up to and including its own.
    rest: Box<[(u64, T)]>,
    total: u64,
}

impl<T: Copy> Weighted<T> {
    /// Always `value`.
    pub(super) fn always(value: T) -> Self {
        Self { only: value, rest: Box::default(), total: 1 }
    }

    /// Values with weights; those with weight 0 are left out. `None` if no weight is positive.
    pub(super) fn new(weighted: impl Iterator<Item = (T, u32)>) -> Option<Self> {
        let mut total = 0_u64;
        let mut values = Vec::new();
        for (value, weight) in weighted.filter(|&(_, weight)| weight > 0) {
            total += u64::from(weight);
            values.push((total, value));
        }
        let &(_, only) = values.first()?;
        if values.len() == 1 {
            values.clear();
        }
        Some(Self { only, rest: values.into(), total })
    }

    /// Draws a value. Does not use `random` if there is only one value.
    #[inline]
    pub(super) fn draw(&self, random: &mut Random) -> T {
        if self.rest.is_empty() { self.only } else { self.search(random.below(self.total)) }
    }

    #[inline(never)]
    fn search(&self, at: u64) -> T {
        // `at` is below the last sum, so a value is always found.
        self.rest.iter().find(|&&(sum, _)| at < sum).map_or(self.only, |&(_, value)| value)
    }

    /// All values that can be drawn.
    pub(super) fn values(&self) -> impl Iterator<Item = T> + '_ {
        let only = self.rest.is_empty().then_some(self.only);
        only.into_iter().chain(self.rest.iter().map(|&(_, value)| value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_follow_the_weights() {
        let choice = Weighted::new([('a', 70), ('b', 0), ('c', 30)].into_iter()).unwrap();
        let mut random = Random::new(5);
        let draws: Vec<char> = (0..20_000).map(|_| choice.draw(&mut random)).collect();
        let share = draws.iter().filter(|&&c| c == 'a').count() as f64 / 20_000.0;
        // The standard deviation is 0.0032.
        assert!((share - 0.7).abs() < 0.013, "{share}");
        assert!(!draws.contains(&'b'));
        assert_eq!(choice.values().collect::<String>(), "ac");
    }

    #[test]
    fn a_single_value_takes_no_random_number() {
        let choice = Weighted::new([('a', 0), ('b', 3)].into_iter()).unwrap();
        let mut random = Random::new(5);
        assert_eq!(choice.draw(&mut random), 'b');
        assert_eq!(random, Random::new(5));
        assert!(Weighted::new([('a', 0)].into_iter()).is_none());
    }
}

//! When something was: the pool's clock, recorded at some counts of another clock.

/// Most marks kept; at this number every second one is dropped.
const MARKS_MAX: usize = 512;

/// Marks of the pool's clock (blocks that hosts have written) at counts of something else: origins (docs/format.md, "Origins"), or bands closed. Between two
/// marks the clock is taken to have gone evenly; before the start, from the pool's beginning on.
#[derive(Clone, Debug)]
pub(crate) struct Marks {
    /// Counts, each with the clock then; both ascend.
    marks: Vec<(u64, u64)>,
    /// Least advance of the clock from one mark to the next.
    spacing: u64,
}

impl Marks {
    /// For a pool in which the count and the clock stand here.
    pub fn new(count: u64, now: u64) -> Self {
        let mut marks = Vec::with_capacity(MARKS_MAX);
        marks.extend([(0, 0), (count, now)]);
        Self { marks, spacing: 1 }
    }

    /// Notes that the clock says `now` at this count.
    pub fn mark(&mut self, count: u64, now: u64) {
        let is_due = self.marks.last().is_none_or(|&(last, then)| count > last && now >= then + self.spacing);
        if !is_due {
            return;
        }
        if self.marks.len() == MARKS_MAX {
            let mut keep = false;
            self.marks.retain(|_| {
                keep = !keep;
                keep
            });
            self.spacing *= 2;
        }
        self.marks.push((count, now));
    }

    /// What the clock said at a count.
    pub fn time(&self, count: u64) -> u64 {
        let behind = self.marks.partition_point(|&(mark, _)| mark <= count);
        let before = behind.checked_sub(1).map_or((0, 0), |at| self.marks[at]);
        let Some(&after) = self.marks.get(behind) else { return before.1 };
        let part = (count - before.0) as f64 / (after.0 - before.0) as f64;
        before.1 + ((after.1 - before.1) as f64 * part) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_is_known_at_every_count() {
        let mut marks = Marks::new(1000, 50_000);
        assert_eq!([0, 500, 1000, 2000].map(|origin| marks.time(origin)), [0, 25_000, 50_000, 50_000]);
        marks.mark(1100, 60_000);
        marks.mark(1100, 70_000);
        assert_eq!((marks.time(1050), marks.time(1100)), (55_000, 60_000), "no two marks at one count");
        for i in 0..10_000 {
            marks.mark(1101 + i, 60_001 + 3 * i);
        }
        assert!(marks.marks.len() <= MARKS_MAX);
        for origin in [1000, 1050, 1100, 3000, 9000, 11_000] {
            let time = marks.time(origin);
            let exact = if origin <= 1100 { 50_000 + 100 * (origin - 1000) } else { 60_001 + 3 * (origin - 1101) };
            assert!(time.abs_diff(exact) <= 2 * marks.spacing + 100 * (1 << 6), "{origin}: {time}, not {exact}");
        }
        assert!(marks.time(0) == 0 && marks.marks.is_sorted());
        assert_eq!(Marks::new(0, 0).time(7), 0, "a new pool");
    }
}

//! The best partition of cells, in the order of their rates, into a number of groups.

/// Most groups.
pub const GROUPS_MAX: usize = 6;
/// Most cells.
pub const CELLS_MAX: usize = 16;

/// The versions with one note.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cell {
    /// Their note.
    pub note: u8,
    /// Deaths for each block and unit of time.
    pub rate: f64,
    /// Number of valid blocks.
    pub valid: f64,
}

/// The partitions for each number of groups up to [`GROUPS_MAX`]: those with the least sum over groups of the square
/// root of (deaths for each unit of time x blocks). Computed by dynamic programming over the cells in the order of
/// their rates.
#[derive(Clone, Debug)]
pub struct Partition {
    cells: [Cell; CELLS_MAX],
    count: usize,
    /// For each number of groups and of cells, the least sum.
    best: [[f64; CELLS_MAX + 1]; GROUPS_MAX + 1],
    /// The first cell of the last of these groups.
    cut: [[usize; CELLS_MAX + 1]; GROUPS_MAX + 1],
}

impl Partition {
    /// Computes the best partitions of these cells.
    ///
    /// # Panics
    /// There are more cells than [`CELLS_MAX`].
    pub fn new(cells: &[Cell]) -> Self {
        let count = cells.len();
        let mut sorted = [Cell::default(); CELLS_MAX];
        sorted[..count].copy_from_slice(cells);
        sorted[..count].sort_unstable_by(|a, b| b.rate.total_cmp(&a.rate).then(a.note.cmp(&b.note)));
        let mut best = [[f64::INFINITY; CELLS_MAX + 1]; GROUPS_MAX + 1];
        let mut cut = [[0; CELLS_MAX + 1]; GROUPS_MAX + 1];
        best[0][0] = 0.0;
        for groups in 1..=GROUPS_MAX {
            for end in 1..=count {
                let (mut deaths, mut valid) = (0.0, 0.0);
                for from in (0..end).rev() {
                    deaths += sorted[from].rate * sorted[from].valid;
                    valid += sorted[from].valid;
                    let sum = best[groups - 1][from] + (deaths * valid).sqrt();
                    if sum < best[groups][end] {
                        (best[groups][end], cut[groups][end]) = (sum, from);
                    }
                }
            }
        }
        Self { cells: sorted, count, best, cut }
    }

    /// The least sum with this many groups; infinite if there are fewer cells.
    pub fn cost(&self, groups: usize) -> f64 {
        self.best[groups][self.count]
    }

    /// The note of each cell with its group, the fastest group first.
    pub fn groups(&self, groups: usize) -> impl Iterator<Item = (u8, usize)> {
        let mut starts = [usize::MAX; GROUPS_MAX];
        let mut end = self.count;
        for group in (0..groups).rev() {
            end = self.cut[group + 1][end];
            starts[group] = end;
        }
        let group_at = move |at: usize| starts.iter().rposition(|&start| start <= at).unwrap_or(0);
        self.cells[..self.count].iter().enumerate().map(move |(at, cell)| (cell.note, group_at(at)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(note: u8, rate: f64, valid: f64) -> Cell {
        Cell { note, rate, valid }
    }

    #[test]
    fn two_kinds_of_rates_are_parted_where_they_differ() {
        let cells = [cell(0, 1.0, 10.0), cell(1, 0.001, 100.0), cell(2, 0.9, 10.0), cell(3, 0.0011, 100.0)];
        let partition = Partition::new(&cells);
        let mut groups: Vec<_> = partition.groups(2).collect();
        groups.sort_unstable();
        assert_eq!(groups, [(0, 0), (1, 1), (2, 0), (3, 1)]);
        assert!(partition.cost(2) < 0.7 * partition.cost(1), "{} {}", partition.cost(2), partition.cost(1));
    }

    #[test]
    fn cuts_are_the_best_of_all() {
        // Fractions of the golden ratio: rates and sizes in no particular order.
        let fraction = |n: u32| (f64::from(n) * 0.618_033_988_75).fract();
        let cells: Vec<Cell> = (0..9).map(|n| cell(n as u8, fraction(n + 1), 100.0 * fraction(7 * n + 3))).collect();
        let mut sorted = cells.clone();
        sorted.sort_by(|a, b| b.rate.total_cmp(&a.rate));
        let of = |cells: &[Cell]| {
            let deaths: f64 = cells.iter().map(|cell| cell.rate * cell.valid).sum();
            (deaths * cells.iter().map(|cell| cell.valid).sum::<f64>()).sqrt()
        };
        let least = (1..9).flat_map(|a| (a + 1..9).map(move |b| (a, b)));
        let least =
            least.map(|(a, b)| of(&sorted[..a]) + of(&sorted[a..b]) + of(&sorted[b..])).fold(f64::INFINITY, f64::min);
        let partition = Partition::new(&cells);
        assert!((partition.cost(3) - least).abs() < 1e-9, "{} is not {least}", partition.cost(3));
        // The groups have the cost that was computed.
        let mut parts = vec![Vec::new(); 3];
        for (note, group) in partition.groups(3) {
            parts[group].push(cells[usize::from(note)]);
        }
        let sum: f64 = parts.iter().map(|part| of(part)).sum();
        assert!((sum - least).abs() < 1e-9, "{sum} is not {least}");
    }

    #[test]
    fn no_more_groups_than_cells() {
        let partition = Partition::new(&[cell(0, 1.0, 1.0), cell(1, 2.0, 1.0)]);
        assert!(partition.cost(2).is_finite() && partition.cost(3).is_infinite());
    }
}

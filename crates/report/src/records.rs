//! Records of single I/Os, of which a run has millions. They stream by three times; the records that are kept are unchanged.

use crate::command::as_command;
use std::collections::BinaryHeap;

/// Parts of the run; of each, the fastest and the slowest I/O are kept.
const PARTS: usize = 200;
/// Maximum number of I/Os of a window, which are shown one by one.
const WINDOW_IOS_MAX: usize = 500;
/// Length of the windows among which the busiest is chosen.
const BUSY_NS: u64 = 1_000_000;
/// Maximum number of these windows; in a longer run each is longer.
const BUSY_WINDOWS_MAX: u64 = 1 << 20;

/// One I/O. Times are nanoseconds since the start of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Io {
    /// Intended start.
    pub intended_ns: u64,
    /// Submission.
    pub submitted_ns: u64,
    /// When its completion was seen.
    pub completed_ns: u64,
    /// Where it is.
    pub offset_bytes: u64,
    /// Length in bytes.
    pub len_bytes: u32,
    /// I/Os that its thread had in flight when it was issued.
    pub depth: u16,
    /// Kind of the I/O, such as read or write.
    pub kind: &'static str,
    /// Whether it failed.
    pub failed: bool,
}

impl Io {
    /// Latency from the intended start until the completion was seen.
    #[must_use]
    pub fn latency_ns(&self) -> u64 {
        self.completed_ns.saturating_sub(self.intended_ns)
    }

    fn distance_ns(&self, from_ns: u64) -> u64 {
        self.intended_ns.abs_diff(from_ns)
    }
}

/// A period of the run whose I/Os are shown one by one.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    pub(crate) title: String,
    begin_ns: u64,
    end_ns: u64,
    /// The I/Os nearest to the middle of the window so far; the farthest is on top of the heap.
    nearest: BinaryHeap<(u64, Io)>,
    pub(crate) count: u64,
}

impl Window {
    fn new(title: String, begin_ns: u64, end_ns: u64) -> Self {
        Self { title, begin_ns, end_ns, nearest: BinaryHeap::new(), count: 0 }
    }

    fn add(&mut self, io: &Io) {
        if !(self.begin_ns..=self.end_ns).contains(&io.intended_ns) {
            return;
        }
        self.count += 1;
        let middle = self.begin_ns + (self.end_ns - self.begin_ns) / 2;
        self.nearest.push((io.distance_ns(middle), *io));
        if self.nearest.len() > WINDOW_IOS_MAX {
            self.nearest.pop();
        }
    }

    /// The I/Os to show, in order of time.
    pub(crate) fn ios(&self) -> Vec<Io> {
        let mut ios: Vec<Io> = self.nearest.iter().map(|(_, io)| *io).collect();
        ios.sort();
        ios
    }
}

/// Records of a run, reduced to what the page shows.
#[derive(Clone, Debug, Default)]
pub struct Records {
    pub(crate) name: String,
    pub(crate) command: Option<String>,
    pub(crate) notes: Vec<String>,
    pub(crate) count: u64,
    pub(crate) failed: u64,
    pub(crate) begin_ns: u64,
    pub(crate) end_ns: u64,
    slowest: Option<Io>,
    busy: Vec<u32>,
    parts: Vec<Option<(Io, Io)>>,
    pub(crate) windows: Vec<Window>,
}

impl Records {
    /// Empty records of the file `name`.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), begin_ns: u64::MAX, ..Self::default() }
    }

    /// Sets the command that made the records, as words.
    pub fn made_by<'a>(&mut self, words: impl Iterator<Item = &'a str>) {
        self.command = as_command(words);
    }

    /// Adds a note about the file for the reader of the page.
    pub fn note(&mut self, note: String) {
        self.notes.push(note);
    }

    /// First pass over all I/Os: counts them and finds the span.
    pub fn survey(&mut self, io: &Io) {
        self.count += 1;
        self.failed += u64::from(io.failed);
        self.begin_ns = self.begin_ns.min(io.intended_ns);
        self.end_ns = self.end_ns.max(io.intended_ns);
        if self.slowest.is_none_or(|slowest| slowest.latency_ns() < io.latency_ns()) {
            self.slowest = Some(*io);
        }
    }

    /// Second pass over all I/Os: finds the extremes and the load of the windows.
    pub fn reduce(&mut self, io: &Io) {
        let (busy_ns, part_ns) = (self.busy_ns(), self.part_ns());
        // An I/O that the survey has not seen, because the file grew meanwhile, is counted at an end of the span.
        let after_ns = io.intended_ns.saturating_sub(self.begin_ns).min(self.span_ns() - 1);
        let at = (after_ns / busy_ns) as usize;
        if self.busy.len() <= at {
            self.busy.resize(at + 1, 0);
        }
        self.busy[at] = self.busy[at].saturating_add(1);
        self.parts.resize(PARTS, None);
        let part = &mut self.parts[((after_ns / part_ns) as usize).min(PARTS - 1)];
        let (fastest, slowest) = part.unwrap_or((*io, *io));
        let faster = if io.latency_ns() < fastest.latency_ns() { *io } else { fastest };
        let slower = if io.latency_ns() > slowest.latency_ns() { *io } else { slowest };
        *part = Some((faster, slower));
    }

    /// Third pass over all I/Os: collects those of the windows, which the first call chooses.
    pub fn gather(&mut self, io: &Io) {
        if self.windows.is_empty() {
            self.windows = self.chosen();
        }
        self.windows.iter_mut().for_each(|window| window.add(io));
    }

    /// The fastest and the slowest I/O of each part of the run, in order of time.
    pub(crate) fn extremes(&self) -> Vec<Io> {
        let mut ios: Vec<Io> = self.parts.iter().flatten().flat_map(|(a, b)| [*a, *b]).collect();
        ios.sort();
        ios.dedup();
        ios
    }

    fn span_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.begin_ns).saturating_add(1)
    }

    fn busy_ns(&self) -> u64 {
        self.span_ns().div_ceil(BUSY_WINDOWS_MAX).max(BUSY_NS)
    }

    fn part_ns(&self) -> u64 {
        self.span_ns().div_ceil(PARTS as u64).max(1)
    }

    fn chosen(&self) -> Vec<Window> {
        let mut windows = Vec::new();
        if let Some(slowest) = self.slowest {
            let around = slowest.latency_ns().max(BUSY_NS / 10);
            let (begin, end) = (slowest.intended_ns.saturating_sub(around), slowest.intended_ns.saturating_add(around));
            windows.push(Window::new("Around the slowest I/O".to_owned(), begin, end));
        }
        let busiest = self.busy.iter().enumerate().max_by_key(|(at, count)| (**count, usize::MAX - at));
        if let Some((at, _)) = busiest {
            let begin = self.begin_ns.saturating_add((at as u64).saturating_mul(self.busy_ns()));
            let title = format!("The busiest {} ms", self.busy_ns() as f64 / 1e6);
            windows.push(Window::new(title, begin, begin.saturating_add(self.busy_ns() - 1)));
        }
        let title = format!("The first {} ms", self.busy_ns() as f64 / 1e6);
        windows.push(Window::new(title, self.begin_ns, self.begin_ns.saturating_add(self.busy_ns() - 1)));
        windows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regression_times_near_the_largest_there_is_are_records_too() {
        let io = |at: u64| Io {
            intended_ns: at,
            submitted_ns: at,
            completed_ns: u64::MAX,
            offset_bytes: 0,
            len_bytes: 4096,
            depth: 1,
            kind: "read",
            failed: false,
        };
        for times in [&[0, u64::MAX][..], &[u64::MAX - 1, u64::MAX][..], &[u64::MAX][..]] {
            let mut records = Records::new("x");
            times.iter().for_each(|at| records.survey(&io(*at)));
            times.iter().for_each(|at| records.reduce(&io(*at)));
            times.iter().for_each(|at| records.gather(&io(*at)));
            assert_eq!(records.extremes().len(), times.len(), "{times:?}");
        }
        // A record outside the surveyed span must not allocate memory beyond it.
        let mut records = Records::new("x");
        records.survey(&io(0));
        records.reduce(&io(u64::MAX));
        assert_eq!(records.busy.len(), 1);
    }

    #[test]
    fn extremes_and_windows_are_records_as_they_are() {
        let io = |at: u64| Io {
            intended_ns: at * 1000,
            submitted_ns: at * 1000 + 10,
            completed_ns: at * 1000 + if at == 70_000 { 9_000_000 } else { 20_000 + at % 13 },
            offset_bytes: at * 4096,
            len_bytes: 4096,
            depth: 1,
            kind: "read",
            failed: false,
        };
        // A thousand I/Os per millisecond, and twice as many in the fortieth.
        let all: Vec<Io> = (0..100_000).map(io).chain((40_000..41_000).map(io)).collect();
        let mut records = Records::new("x");
        all.iter().for_each(|io| records.survey(io));
        all.iter().for_each(|io| records.reduce(io));
        all.iter().for_each(|io| records.gather(io));
        let extremes = records.extremes();
        assert!(extremes.len() <= 2 * PARTS && extremes.iter().all(|io| all.contains(io)));
        assert!(extremes.iter().any(|io| io.intended_ns == 70_000_000), "the slowest of all is kept");
        let [slowest, busiest, first] = records.windows.as_slice() else { panic!("three windows") };
        assert!(slowest.ios().iter().any(|io| io.intended_ns == 70_000_000));
        assert_eq!((busiest.begin_ns, busiest.count, busiest.ios().len()), (40_000_000, 2000, WINDOW_IOS_MAX));
        assert_eq!((first.begin_ns, first.count), (0, 1000));
    }
}

//! Records of single I/Os, of which a run has millions: looked through three times as they stream by, and what is kept of them is
//! kept as it is.

use crate::command::as_command;
use std::collections::BinaryHeap;

/// Parts of the run of which the fastest and the slowest I/O are kept.
const PARTS: usize = 200;
/// I/Os of a window that is shown one by one.
const WINDOW_IOS_MAX: usize = 500;
/// Length of the windows among which the busiest is looked for.
const BUSY_NS: u64 = 1_000_000;
/// At most so many of these; in a longer run they are longer.
const BUSY_WINDOWS_MAX: u64 = 1 << 20;

/// What is known of one I/O. Times are nanoseconds since the run's begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Io {
    /// When it should have begun.
    pub intended_ns: u64,
    /// When it was submitted.
    pub submitted_ns: u64,
    /// When its completion was seen.
    pub completed_ns: u64,
    /// Where it is.
    pub offset_bytes: u64,
    /// How long it is.
    pub len_bytes: u32,
    /// I/Os in flight of its thread when it was issued.
    pub depth: u16,
    /// What it does.
    pub kind: &'static str,
    /// Whether it failed.
    pub failed: bool,
}

impl Io {
    /// From when it should have begun to when its completion was seen.
    #[must_use]
    pub fn latency_ns(&self) -> u64 {
        self.completed_ns.saturating_sub(self.intended_ns)
    }

    fn distance_ns(&self, from_ns: u64) -> u64 {
        self.intended_ns.abs_diff(from_ns)
    }
}

/// A time of the run that is shown one I/O at a time.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    pub(crate) title: String,
    begin_ns: u64,
    end_ns: u64,
    /// The nearest to the middle so far, the farthest on top.
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

    /// What is shown, in the order of time.
    pub(crate) fn ios(&self) -> Vec<Io> {
        let mut ios: Vec<Io> = self.nearest.iter().map(|(_, io)| *io).collect();
        ios.sort();
        ios
    }
}

/// Records of a run, or what is shown of them.
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
    /// None yet, of the file `name`.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), begin_ns: u64::MAX, ..Self::default() }
    }

    /// The words of the command that made them.
    pub fn made_by<'a>(&mut self, words: impl Iterator<Item = &'a str>) {
        self.command = as_command(words);
    }

    /// Something that the reader of the page should know of the file.
    pub fn note(&mut self, note: String) {
        self.notes.push(note);
    }

    /// All I/Os for the first time.
    pub fn survey(&mut self, io: &Io) {
        self.count += 1;
        self.failed += u64::from(io.failed);
        self.begin_ns = self.begin_ns.min(io.intended_ns);
        self.end_ns = self.end_ns.max(io.intended_ns);
        if self.slowest.is_none_or(|slowest| slowest.latency_ns() < io.latency_ns()) {
            self.slowest = Some(*io);
        }
    }

    /// All I/Os for the second time.
    pub fn reduce(&mut self, io: &Io) {
        let (busy_ns, part_ns) = (self.busy_ns(), self.part_ns());
        // What the survey has not seen, as of a file that grew since, stands at an end of its span.
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

    /// All I/Os for the last time: those of the windows, which are chosen at the first.
    pub fn gather(&mut self, io: &Io) {
        if self.windows.is_empty() {
            self.windows = self.chosen();
        }
        self.windows.iter_mut().for_each(|window| window.add(io));
    }

    /// The fastest and the slowest I/O of each part of the run, in the order of time.
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
        // A record that the survey has not seen takes no room beyond the span.
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
        // A thousand I/Os a millisecond; in the fortieth twice as many.
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

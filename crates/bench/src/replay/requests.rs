//! Converts recorded requests to I/Os that fit a target: sorted, selected, rounded, wrapped, split.

use super::counts::extend;
use super::{Counts, Recorded, ReplayIo, SourceError, TraceSource};
use forebay_block::OpKind;

/// Requests that are held back, so that later ones in the trace with earlier times can be sorted in.
const HELD_BACK: usize = 4096;
/// Longest request that is replayed, in bytes; a longer one is an error in the trace. This bounds the number of I/Os from one request.
pub const REQUEST_MAX_BYTES: u64 = 4 << 30;
/// Longest trim in bytes; longer ones are split. A pool accepts 64 MiB at once.
const TRIM_MAX_BYTES: u32 = 32 << 20;
/// Approximate number of I/Os made at a time.
const BATCH_IOS: usize = 8192;
/// Latest time of an I/O in nanoseconds; later values mean "never" elsewhere.
const LATEST_NS: u64 = u64::MAX / 2;

/// Which requests of a trace are replayed, and how fast.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Selection {
    /// Only requests issued from this time of the trace on, in nanoseconds. The replay begins at this time; without it, with the first
    /// request.
    pub from_ns: Option<u64>,
    /// Only requests issued before this time, in nanoseconds.
    pub to_ns: Option<u64>,
    /// Most requests.
    pub limit: u64,
    /// Divisor of recorded times; above 0.
    pub scale: f64,
}

impl Default for Selection {
    /// All requests, as fast as recorded.
    fn default() -> Self {
        Self { from_ns: None, to_ns: None, limit: u64::MAX, scale: 1.0 }
    }
}

/// The target that requests are fitted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fit {
    /// Size of the target in bytes.
    pub target_bytes: u64,
    /// Logical block of the target in bytes, at least 1.
    pub block_bytes: u32,
    /// Longest I/O that transfers data, in bytes.
    pub piece_bytes: u32,
    /// Whether offsets beyond the target's end continue at its beginning.
    pub wrap: bool,
}

impl Fit {
    fn block(&self) -> u64 {
        u64::from(self.block_bytes.max(1))
    }

    /// Size of the target in whole blocks, in bytes.
    fn size_bytes(&self) -> u64 {
        self.target_bytes - self.target_bytes % self.block()
    }

    /// Longest I/O of a kind in bytes: whole blocks, at least one.
    fn longest(&self, kind: OpKind) -> u64 {
        let longest = u64::from(if kind.has_data() { self.piece_bytes } else { TRIM_MAX_BYTES });
        (longest - longest % self.block()).max(self.block())
    }
}

/// Provides the I/Os of a trace in batches.
pub struct Requests<S> {
    source: S,
    selection: Selection,
    fit: Fit,
    counts: Counts,
    /// Requests read and not yet passed on, in order of time.
    held: Vec<Recorded>,
    /// Number of held requests that come before all that are still to be read.
    ready: usize,
    /// Whether the source has more requests.
    has_more: bool,
    /// Latest time read so far.
    newest_ns: u64,
    /// Time of the last request passed on.
    last_ns: u64,
    /// The trace's time at which the replay begins, once it is known.
    origin_ns: Option<u64>,
    is_over: bool,
}

impl<S: TraceSource> Requests<S> {
    /// Reads requests from `source`.
    #[must_use]
    pub fn new(source: S, selection: Selection, fit: Fit) -> Self {
        Self {
            source,
            selection,
            fit,
            counts: Counts::default(),
            held: Vec::new(),
            ready: 0,
            has_more: true,
            newest_ns: 0,
            last_ns: 0,
            origin_ns: selection.from_ns,
            is_over: false,
        }
    }

    /// Counts of the requests read so far.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Appends the next I/Os, up to some thousand, possibly none; `false` at the end.
    ///
    /// # Errors
    /// The reason why the rest of the trace cannot be read.
    pub fn read(&mut self, into: &mut Vec<ReplayIo>) -> Result<bool, SourceError> {
        if self.is_over {
            return Ok(false);
        }
        if self.ready == 0 {
            self.hold_more()?;
        }
        let held = std::mem::take(&mut self.held);
        let (mut used, enough) = (0, into.len() + BATCH_IOS);
        while used < self.ready && !self.is_over && into.len() < enough {
            self.take(held[used], into);
            used += 1;
        }
        self.held = held;
        self.held.drain(..used);
        self.ready -= used;
        self.is_over |= self.ready == 0 && !self.has_more;
        Ok(!self.is_over)
    }

    /// Reads more requests, and sorts those that are held.
    fn hold_more(&mut self) -> Result<(), SourceError> {
        let known = self.held.len();
        self.has_more = self.source.read(&mut self.held)?;
        for request in &self.held[known..] {
            self.counts.read += 1;
            self.counts.out_of_order += u64::from(request.at_ns < self.newest_ns);
            self.newest_ns = self.newest_ns.max(request.at_ns);
            extend(&mut self.counts.read_span, request.at_ns);
        }
        if !self.held.is_sorted_by_key(|request| request.at_ns) {
            // A stable sort: requests with equal times keep the trace's order.
            self.held.sort_by_key(|request| request.at_ns);
        }
        let held_back = if self.has_more { HELD_BACK } else { 0 };
        self.ready = self.held.len().saturating_sub(held_back);
        Ok(())
    }

    /// Converts a request, if it is selected.
    fn take(&mut self, request: Recorded, into: &mut Vec<ReplayIo>) {
        let Selection { from_ns, to_ns, limit, .. } = self.selection;
        let behind = request.at_ns < self.last_ns;
        let at_ns = request.at_ns.max(self.last_ns);
        self.last_ns = at_ns;
        if self.counts.requests >= limit || to_ns.is_some_and(|to_ns| at_ns >= to_ns) {
            self.is_over = true;
            return;
        }
        if from_ns.is_some_and(|from_ns| at_ns < from_ns) {
            self.counts.before_window += 1;
            return;
        }
        let is_flush = matches!(request.kind, OpKind::Flush | OpKind::Fsync);
        if !is_flush && request.len_bytes == 0 {
            self.counts.without_length += 1;
            return;
        }
        if !is_flush && request.len_bytes > REQUEST_MAX_BYTES {
            self.counts.too_long += 1;
            return;
        }
        self.counts.unsorted += u64::from(behind);
        extend(&mut self.counts.span, at_ns);
        self.counts.requests += 1;
        self.counts.stand_ins[request.kind as usize] += u64::from(request.is_stand_in);
        let at_ns = self.replay_ns(at_ns);
        if is_flush {
            self.push(into, ReplayIo { at_ns, offset_bytes: 0, len_bytes: 0, kind: request.kind, hint: 0 });
            return;
        }
        self.fit(at_ns, &request, into);
    }

    /// Converts a time of the trace to one of the replay.
    fn replay_ns(&mut self, at_ns: u64) -> u64 {
        let since_ns = at_ns - *self.origin_ns.get_or_insert(at_ns);
        let scale = self.selection.scale;
        // At a scale of 1 nanoseconds are kept exactly.
        let scaled_ns = if scale == 1.0 { since_ns } else { (since_ns as f64 / scale) as u64 };
        scaled_ns.min(LATEST_NS)
    }

    /// Makes the I/Os of a request with a range.
    fn fit(&mut self, at_ns: u64, request: &Recorded, into: &mut Vec<ReplayIo>) {
        let (block, size) = (self.fit.block(), self.fit.size_bytes());
        let begin = request.offset_bytes;
        let end = begin.saturating_add(request.len_bytes);
        let is_first = self.counts.reach_bytes == 0;
        self.counts.lowest_bytes = if is_first { begin } else { self.counts.lowest_bytes.min(begin) };
        self.counts.reach_bytes = self.counts.reach_bytes.max(end);
        // Extended on both sides, since a device can only transfer whole blocks.
        let from = begin - begin % block;
        let mut to = end.checked_next_multiple_of(block).unwrap_or(end - end % block);
        let is_rounded = (from, to) != (begin, end);
        if to > size {
            self.counts.beyond += 1;
            if !self.fit.wrap || size == 0 {
                return;
            }
            self.counts.wrapped += 1;
            // A request longer than the target covers the target once.
            to = to.min(from.saturating_add(size));
        }
        self.counts.rounded += u64::from(is_rounded);
        if request.flush_before {
            self.counts.flushes_added += 1;
            self.push(into, ReplayIo { at_ns, offset_bytes: 0, len_bytes: 0, kind: OpKind::Flush, hint: 0 });
        }
        let (mut at, mut pieces) = (from, 0u64);
        while at < to {
            let offset_bytes = at % size;
            let len = (to - at).min(self.fit.longest(request.kind)).min(size - offset_bytes);
            // The length is at most that of a piece, so it fits 32 bits.
            let Recorded { kind, hint, .. } = *request;
            self.push(into, ReplayIo { at_ns, offset_bytes, len_bytes: len as u32, kind, hint });
            at += len;
            pieces += 1;
        }
        self.counts.split += u64::from(pieces > 1);
    }

    fn push(&mut self, into: &mut Vec<ReplayIo>, io: ReplayIo) {
        self.counts.ios[io.kind as usize] += 1;
        self.counts.bytes[io.kind as usize] += u64::from(io.len_bytes);
        if io.kind.has_data() {
            self.counts.longest_bytes = self.counts.longest_bytes.max(io.len_bytes);
        }
        into.push(io);
    }
}

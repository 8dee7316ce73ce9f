//! What became of a trace's requests.

use forebay_block::OpKind;

/// The first and the last time of requests, in nanoseconds since the trace's zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first.
    pub first_ns: u64,
    /// The last.
    pub last_ns: u64,
}

/// Figures of a trace as it is replayed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests read from the trace. Reading ends with the window.
    pub read: u64,
    /// Of these, before the window.
    pub before_window: u64,
    /// Left out: they have no length, and are no flushes.
    pub without_length: u64,
    /// Left out: longer than [`super::REQUEST_MAX_BYTES`].
    pub too_long: u64,
    /// Taken.
    pub requests: u64,
    /// Of these, recorded behind one of a later time.
    pub out_of_order: u64,
    /// Of these, so far behind that sorting could not mend it: issued with the one before.
    pub unsorted: u64,
    /// End beyond the target's. Without wrapping they are left out.
    pub beyond: u64,
    /// Begin beyond the target's end or cross it, and were wrapped around it.
    pub wrapped: u64,
    /// Were no multiples of the target's block, and were widened to it.
    pub rounded: u64,
    /// Became several I/Os.
    pub split: u64,
    /// Flushes that stand for what a request said of itself: a flush before it.
    pub flushes_added: u64,
    /// Requests whose kind stands for one that there is not, in the order of [`OpKind::ALL`].
    pub stand_ins: [u64; OpKind::ALL.len()],
    /// I/Os by kind, in the order of [`OpKind::ALL`].
    pub ios: [u64; OpKind::ALL.len()],
    /// Their bytes.
    pub bytes: [u64; OpKind::ALL.len()],
    /// Longest I/O that transfers data, in bytes.
    pub longest_bytes: u32,
    /// First byte that any request taken touches, as recorded.
    pub lowest_bytes: u64,
    /// End of the furthest of them, as recorded.
    pub reach_bytes: u64,
    /// Times of those taken.
    pub span: Option<Span>,
    /// Times of all that were read.
    pub read_span: Option<Span>,
}

impl Counts {
    /// I/Os of all kinds.
    #[must_use]
    pub fn all_ios(&self) -> u64 {
        self.ios.iter().sum()
    }

    /// Kinds of I/O that occur.
    pub fn kinds(&self) -> impl Iterator<Item = OpKind> + '_ {
        OpKind::ALL.into_iter().filter(|&kind| self.ios[kind as usize] > 0)
    }

    /// From the first to the last request taken, in nanoseconds.
    #[must_use]
    pub fn span_ns(&self) -> u64 {
        self.span_since_ns(None)
    }

    /// The same from another begin on, where there is one.
    #[must_use]
    pub fn span_since_ns(&self, begin_ns: Option<u64>) -> u64 {
        self.span.map_or(0, |span| span.last_ns.saturating_sub(begin_ns.unwrap_or(span.first_ns)))
    }
}

/// Extends a span to a time.
pub(super) fn extend(span: &mut Option<Span>, at_ns: u64) {
    let known = span.get_or_insert(Span { first_ns: at_ns, last_ns: at_ns });
    known.first_ns = known.first_ns.min(at_ns);
    known.last_ns = known.last_ns.max(at_ns);
}

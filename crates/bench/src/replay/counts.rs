//! Counts of a trace's requests as they are replayed.

use forebay_block::OpKind;

/// First and last time of requests, in nanoseconds since the trace's zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Time of the first request.
    pub first_ns: u64,
    /// Time of the last request.
    pub last_ns: u64,
}

/// Counts and extents of a trace as it is replayed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests read from the trace. Reading ends at the end of the window.
    pub read: u64,
    /// Requests before the window.
    pub before_window: u64,
    /// Requests left out because they have no length and are no flushes.
    pub without_length: u64,
    /// Requests left out because they are longer than [`super::REQUEST_MAX_BYTES`].
    pub too_long: u64,
    /// Requests that are replayed.
    pub requests: u64,
    /// Requests recorded after one with a later time.
    pub out_of_order: u64,
    /// Replayed requests that came too late to be sorted: they are issued together with the one before.
    pub unsorted: u64,
    /// Requests that end beyond the target. Without wrapping they are left out.
    pub beyond: u64,
    /// Requests that begin beyond the target's end or cross it, and were wrapped.
    pub wrapped: u64,
    /// Requests that were no multiples of the target's block, and were extended to whole blocks.
    pub rounded: u64,
    /// Requests that became several I/Os.
    pub split: u64,
    /// Flushes made because a request asked for a flush before it.
    pub flushes_added: u64,
    /// Requests whose kind replaces one that does not exist here, in the order of [`OpKind::ALL`].
    pub stand_ins: [u64; OpKind::ALL.len()],
    /// Number of I/Os by kind, in the order of [`OpKind::ALL`].
    pub ios: [u64; OpKind::ALL.len()],
    /// Bytes of I/Os by kind, in the order of [`OpKind::ALL`].
    pub bytes: [u64; OpKind::ALL.len()],
    /// Longest I/O that transfers data, in bytes; 0 if there is none.
    pub longest_bytes: u32,
    /// Lowest byte of all replayed requests, as recorded.
    pub lowest_bytes: u64,
    /// End of the request that reaches furthest, as recorded.
    pub reach_bytes: u64,
    /// Times of the replayed requests; `None` if there are none.
    pub span: Option<Span>,
    /// Times of all requests read; `None` if there are none.
    pub read_span: Option<Span>,
}

impl Counts {
    /// Number of I/Os of all kinds.
    #[must_use]
    pub fn all_ios(&self) -> u64 {
        self.ios.iter().sum()
    }

    /// The kinds of I/O that occur.
    pub fn kinds(&self) -> impl Iterator<Item = OpKind> + '_ {
        OpKind::ALL.into_iter().filter(|&kind| self.ios[kind as usize] > 0)
    }

    /// Time from the first to the last replayed request, in nanoseconds.
    #[must_use]
    pub fn span_ns(&self) -> u64 {
        self.span_since_ns(None)
    }

    /// Time from `begin_ns`, or else from the first replayed request, to the last one, in nanoseconds.
    #[must_use]
    pub fn span_since_ns(&self, begin_ns: Option<u64>) -> u64 {
        self.span.map_or(0, |span| span.last_ns.saturating_sub(begin_ns.unwrap_or(span.first_ns)))
    }
}

/// Extends a span to include a time.
pub(super) fn extend(span: &mut Option<Span>, at_ns: u64) {
    let known = span.get_or_insert(Span { first_ns: at_ns, last_ns: at_ns });
    known.first_ns = known.first_ns.min(at_ns);
    known.last_ns = known.last_ns.max(at_ns);
}

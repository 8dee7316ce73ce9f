//! Conversion of requests to I/Os: order, window, speed, fitting.

use super::*;
use forebay_block::OpKind;
use proptest::prelude::*;

/// A trace in memory, which returns some requests at a time.
struct Memory {
    requests: Vec<Recorded>,
    each: usize,
    fails_at_end: bool,
}

impl TraceSource for Memory {
    fn read(&mut self, into: &mut Vec<Recorded>) -> Result<bool, SourceError> {
        let now = self.each.min(self.requests.len());
        into.extend(self.requests.drain(..now));
        if self.requests.is_empty() && self.fails_at_end {
            return Err("torn at byte 7".into());
        }
        Ok(!self.requests.is_empty())
    }
}

fn memory(requests: &[Recorded]) -> Memory {
    Memory { requests: requests.to_vec(), each: 1000, fails_at_end: false }
}

fn request(at_ns: u64, kind: OpKind, offset_bytes: u64, len_bytes: u64) -> Recorded {
    Recorded { at_ns, kind, offset_bytes, len_bytes, flush_before: false, is_stand_in: false, hint: 0 }
}

fn read(at_ns: u64, offset_bytes: u64, len_bytes: u64) -> Recorded {
    request(at_ns, OpKind::Read, offset_bytes, len_bytes)
}

const FIT: Fit = Fit { target_bytes: 1 << 30, block_bytes: 512, piece_bytes: 1 << 20, wrap: false };

fn all(requests: &[Recorded], selection: Selection, fit: Fit) -> (Vec<ReplayIo>, Counts) {
    let mut made = Requests::new(memory(requests), selection, fit);
    let mut ios = Vec::new();
    while made.read(&mut ios).unwrap() {}
    assert!(!made.read(&mut ios).unwrap());
    let counts = made.counts().clone();
    assert_eq!(survey(memory(requests), &selection, &fit).unwrap(), counts);
    (ios, counts)
}

fn times(ios: &[ReplayIo]) -> Vec<u64> {
    ios.iter().map(|io| io.at_ns).collect()
}

fn places(ios: &[ReplayIo]) -> Vec<(u64, u32)> {
    ios.iter().map(|io| (io.offset_bytes, io.len_bytes)).collect()
}

#[test]
fn a_replay_begins_with_its_first_request_or_with_its_window() {
    let trace: Vec<Recorded> = (0..10).map(|i| read(7_000 + i * 100, i * 512, 512)).collect();
    let (ios, counts) = all(&trace, Selection::default(), FIT);
    assert_eq!(times(&ios), (0..10).map(|i| i * 100).collect::<Vec<u64>>());
    assert_eq!((counts.requests, counts.span), (10, Some(Span { first_ns: 7_000, last_ns: 7_900 })));
    let window = Selection { from_ns: Some(7_150), to_ns: Some(7_500), ..Selection::default() };
    let (ios, counts) = all(&trace, window, FIT);
    assert_eq!(times(&ios), [50, 150, 250]);
    assert_eq!((counts.before_window, counts.requests, counts.read), (2, 3, 10));
    // The beginning belongs to the window, its end does not.
    let window = Selection { from_ns: Some(7_100), to_ns: Some(7_200), ..Selection::default() };
    assert_eq!(times(&all(&trace, window, FIT).0), [0]);
    let none = Selection { from_ns: Some(9_000), ..Selection::default() };
    assert_eq!(all(&trace, none, FIT).1.requests, 0);
}

#[test]
fn scale_divides_time_and_limit_counts_requests() {
    let trace: Vec<Recorded> = (0..10).map(|i| read(i * 1_000, 0, 4 << 20)).collect();
    let twice = Selection { scale: 2.0, limit: 3, ..Selection::default() };
    let (ios, counts) = all(&trace, twice, FIT);
    assert_eq!(times(&ios), [0, 0, 0, 0, 500, 500, 500, 500, 1000, 1000, 1000, 1000]);
    assert_eq!((counts.requests, counts.split, counts.all_ios()), (3, 3, 12));
    let slower = Selection { scale: 0.25, ..Selection::default() };
    assert_eq!(all(&trace, slower, FIT).0.last().unwrap().at_ns, 36_000);
    // A time that no clock reaches is late, but neither "never" nor soon.
    let absurd = [read(0, 0, 512), read(u64::MAX, 0, 512)];
    let (ios, _) = all(&absurd, Selection { scale: 1e-6, ..Selection::default() }, FIT);
    assert_eq!(times(&ios), [0, u64::MAX / 2]);
}

#[test]
fn times_that_go_back_are_sorted_as_far_as_that_goes() {
    let trace = [read(30, 3, 1), read(10, 1, 1), read(20, 2, 1), read(20, 0, 1)];
    let bytes = Fit { block_bytes: 1, ..FIT };
    let (ios, counts) = all(&trace, Selection::default(), bytes);
    // Requests with equal times keep the trace's order.
    assert_eq!(places(&ios), [(1, 1), (2, 1), (0, 1), (3, 1)]);
    assert_eq!((times(&ios), counts.out_of_order, counts.unsorted), (vec![0, 10, 10, 20], 3, 0));
    // A request that comes some ten thousand requests too late is issued at once, and counted.
    let mut trace: Vec<Recorded> = (0..20_000).map(|i| read(1_000_000 + i, 512, 512)).collect();
    trace.push(read(5, 0, 512));
    let (ios, counts) = all(&trace, Selection::default(), FIT);
    assert_eq!((ios.len(), counts.out_of_order, counts.unsorted), (20_001, 1, 1));
    assert!(ios.is_sorted_by_key(|io| io.at_ns));
}

#[test]
fn what_is_no_multiple_of_the_block_is_widened() {
    let fit = Fit { block_bytes: 4096, ..FIT };
    let trace = [read(0, 100, 10), read(1, 4000, 200), read(2, 8192, 4096)];
    let (ios, counts) = all(&trace, Selection::default(), fit);
    assert_eq!(places(&ios), [(0, 4096), (0, 8192), (8192, 4096)]);
    assert_eq!((counts.rounded, counts.split), (2, 0));
}

#[test]
fn long_requests_are_split_into_whole_blocks() {
    let fit = Fit { piece_bytes: 10_000, block_bytes: 4096, ..FIT };
    let (ios, counts) = all(&[read(5, 4096, 20_480)], Selection::default(), fit);
    assert_eq!(places(&ios), [(4096, 8192), (12_288, 8192), (20_480, 4096)]);
    assert_eq!((counts.split, counts.longest_bytes), (1, 8192));
    // Trims transfer no data; they are split at the limit of a pool.
    let (ios, counts) = all(&[request(0, OpKind::Trim, 0, 80 << 20)], Selection::default(), fit);
    assert_eq!(places(&ios), [(0, 32 << 20), (32 << 20, 32 << 20), (64 << 20, 16 << 20)]);
    assert_eq!((counts.longest_bytes, counts.split), (0, 1));
}

#[test]
fn what_lies_beyond_the_target_is_reported_or_wrapped() {
    let fit = Fit { target_bytes: 1_048_576 + 100, ..FIT };
    let trace = [read(0, 0, 4096), read(1, 3 << 20, 4096), read(2, (1 << 20) - 512, 1536), read(3, 1 << 20, 100)];
    let (ios, counts) = all(&trace, Selection::default(), fit);
    assert_eq!(places(&ios), [(0, 4096)]);
    assert_eq!((counts.beyond, counts.wrapped, counts.requests), (3, 0, 4));
    assert_eq!((counts.lowest_bytes, counts.reach_bytes), (0, (3 << 20) + 4096));
    let (ios, counts) = all(&trace, Selection::default(), Fit { wrap: true, ..fit });
    assert_eq!(places(&ios), [(0, 4096), (0, 4096), ((1 << 20) - 512, 512), (0, 1024), (0, 512)]);
    assert_eq!((counts.beyond, counts.wrapped, counts.split), (3, 3, 1));
    // Longer than the target: all of the target, once.
    let tiny = Fit { target_bytes: 1024, wrap: true, ..FIT };
    let (ios, _) = all(&[read(0, 512, REQUEST_MAX_BYTES)], Selection::default(), tiny);
    assert_eq!(places(&ios), [(512, 512), (0, 512)]);
}

#[test]
fn flushes_have_no_place_and_what_has_no_length_is_left_out() {
    let barrier = Recorded { flush_before: true, ..request(7, OpKind::WriteFua, 512, 512) };
    let zeros = Recorded { is_stand_in: true, ..request(9, OpKind::Trim, 0, 512) };
    let (_, counts) = all(&[zeros, read(9, 0, 512)], Selection::default(), FIT);
    assert_eq!((counts.stand_ins[OpKind::Trim as usize], counts.stand_ins.iter().sum::<u64>()), (1, 1));
    let trace = [request(3, OpKind::Flush, u64::MAX, 9), barrier, read(8, 0, 0), read(9, 0, REQUEST_MAX_BYTES + 1)];
    let (ios, counts) = all(&trace, Selection::default(), FIT);
    let kinds: Vec<OpKind> = ios.iter().map(|io| io.kind).collect();
    assert_eq!(kinds, [OpKind::Flush, OpKind::Flush, OpKind::WriteFua]);
    assert_eq!(places(&ios), [(0, 0), (0, 0), (512, 512)]);
    assert_eq!((counts.flushes_added, counts.without_length, counts.too_long, counts.requests), (1, 1, 1, 2));
    assert_eq!(counts.kinds().collect::<Vec<_>>(), [OpKind::WriteFua, OpKind::Flush]);
}

#[test]
fn a_trace_that_ends_in_the_middle_of_something_says_so() {
    let torn = || Memory { requests: vec![read(0, 0, 512)], each: 1, fails_at_end: true };
    let error = survey(torn(), &Selection::default(), &FIT).unwrap_err();
    assert_eq!(error.to_string(), "torn at byte 7");
    let feed = Feed::new(Requests::new(torn(), Selection::default(), FIT)).unwrap();
    feed.prime();
    assert!(matches!(feed.close(), Err(ReplayError::Source(_))));
}

#[test]
fn a_feed_hands_out_everything_once_and_in_order_and_can_be_closed_early() {
    let trace: Vec<Recorded> = (0..100_000).map(|i| read(i, i * 512, 512)).collect();
    let fit = Fit { target_bytes: 1 << 40, ..FIT };
    let feed = Feed::new(Requests::new(memory(&trace), Selection::default(), fit)).unwrap();
    let takers: Vec<_> = (0..3)
        .map(|_| {
            let feed = feed.clone();
            std::thread::spawn(move || {
                let mut taken = Vec::new();
                while let feed::Answer::Io(io) = feed.take(true) {
                    taken.push(io.offset_bytes / 512);
                }
                taken
            })
        })
        .collect();
    let each: Vec<Vec<u64>> = takers.into_iter().map(|taker| taker.join().unwrap()).collect();
    assert!(each.iter().all(|taken| taken.is_sorted()));
    let mut taken = each.concat();
    taken.sort_unstable();
    assert!(taken.into_iter().eq(0..100_000));
    feed.close().unwrap();
    let feed = Feed::new(Requests::new(memory(&trace), Selection::default(), fit)).unwrap();
    assert!(matches!(feed.take(true), feed::Answer::Io(_)));
    // The reading thread, which waits for somebody to take more, ends.
    feed.close().unwrap();
    assert_eq!(feed.take(true), feed::Answer::Over);
}

proptest! {
    /// Every byte of a request that fits is touched exactly once; no I/O lies outside the target, is longer than allowed or crosses a
    /// block's edge; times do not go back.
    #[test]
    fn ios_cover_what_was_recorded(
        recorded in prop::collection::vec((0u64..1000, 0usize..4, 0u64..300_000, 0u64..40_000), 1..40),
        block in prop::sample::select(vec![1u32, 512, 520, 4096]),
        piece in 1u32..20_000,
        target in 1u64..400_000,
        wrap: bool,
        each in 1usize..9,
    ) {
        let kinds = [OpKind::Read, OpKind::Write, OpKind::Trim, OpKind::Flush];
        let trace: Vec<Recorded> =
            recorded.iter().map(|&(at, kind, offset, len)| request(at, kinds[kind], offset, len)).collect();
        let fit = Fit { target_bytes: target, block_bytes: block, piece_bytes: piece, wrap };
        let mut made = Requests::new(Memory { requests: trace.clone(), each, fails_at_end: false }, Selection::default(), fit);
        let mut ios = Vec::new();
        while made.read(&mut ios).unwrap() {}
        prop_assert!(ios.is_sorted_by_key(|io| io.at_ns));
        let (block, size) = (u64::from(block), target - target % u64::from(block));
        for io in ios.iter().filter(|io| io.kind != OpKind::Flush) {
            prop_assert!(io.len_bytes > 0 && io.offset_bytes + u64::from(io.len_bytes) <= size);
            prop_assert!(io.offset_bytes % block == 0 && u64::from(io.len_bytes) % block == 0);
            prop_assert!(!io.kind.has_data() || u64::from(io.len_bytes) <= u64::from(piece).max(block));
        }
        let expected: u64 = trace.iter().filter(|request| request.kind != OpKind::Flush && request.len_bytes > 0).map(|request| {
            let from = request.offset_bytes - request.offset_bytes % block;
            let to = (request.offset_bytes + request.len_bytes).next_multiple_of(block);
            if to <= size { to - from } else if wrap { (to - from).min(size) } else { 0 }
        }).sum();
        prop_assert_eq!(made.counts().bytes.iter().sum::<u64>(), expected);
        let flushes = trace.iter().filter(|request| request.kind == OpKind::Flush).count() as u64;
        prop_assert_eq!(made.counts().ios[OpKind::Flush as usize], flushes);
    }
}

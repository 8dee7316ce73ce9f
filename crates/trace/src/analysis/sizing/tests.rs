// In tests, a panic reports the failure.
#![allow(clippy::unwrap_used)]

use super::super::blocks::BLOCK_BYTES;
use super::super::{Analysis, By};
use super::weighing::half_interval;
use super::*;
use crate::Lifetime;
use forebay_block::hash::splitmix64;
use proptest::prelude::*;

fn options() -> Options {
    Options { by: By::Hint, ..Options::default() }
}

fn sized(requests: &[Request], more_bytes: &[u64]) -> (Report, Sizes) {
    sized_past(requests, more_bytes, &[])
}

fn sized_past(requests: &[Request], more_bytes: &[u64], past: &[String]) -> (Report, Sizes) {
    sized_by(requests, more_bytes, &Options { bypassed: past.to_vec(), ..options() })
}

/// Sizes a trace by two passes over it, and by what the first pass keeps.
fn sized_by(requests: &[Request], more_bytes: &[u64], options: &Options) -> (Report, Sizes) {
    let (names, knows) = (Names::default(), Knows { op: true, time: true, lifetime: true, ..Knows::default() });
    let mut analysis = Analysis::keeping_writes(options);
    analysis.add(requests, &names, knows);
    let writes = analysis.take_writes().unwrap();
    let report = analysis.finish(&names);
    let mut sizing = Sizing::new(options, &report);
    sizing.add(requests, &names, knows);
    let sizes = sizing.finish(more_bytes);
    let mut of_kept = Sizing::new(options, &report);
    of_kept.repeat(&writes);
    let of_kept = of_kept.finish(more_bytes);
    assert_eq!(format!("{:?}", of_kept), format!("{sizes:?}"));
    (report, sizes)
}

/// Requests of several classes each, reads that make data hot, and a sample that becomes smaller meanwhile.
#[test]
fn what_the_first_pass_keeps_is_as_good_as_the_trace() {
    let requests: Vec<Request> = (0..30_000_u64)
        .map(|at| {
            let block = splitmix64(at) % 2000 * (1 + at % 3 * 20);
            let (op, blocks) = match splitmix64(at * 7) % 10 {
                0 => (Op::Discard, 300),
                1..=3 => (Op::Read, 8),
                4 => (Op::Write, 40),
                _ => (Op::Write, 1),
            };
            Request {
                volume: (at % 2) as u32,
                ..Request::new(at * 1000, op, block * BLOCK_BYTES + at % 2 * 512, blocks * BLOCK_BYTES)
            }
        })
        .collect();
    for memory_bytes in [1 << 30, 2 << 20] {
        let (report, sizes) = sized_by(&requests, &[], &Options { memory_bytes, ..Options::default() });
        assert!(
            report.rows.len() > 2 && (sizes.one_block_in > 1) == (memory_bytes < 1 << 30),
            "{}",
            sizes.one_block_in
        );
    }
    // More writes than may be kept.
    let mut analysis = Analysis::keeping_writes(&Options { memory_bytes: 1 << 20, ..options() });
    analysis.add(&requests, &Names::default(), Knows::default());
    assert!(analysis.take_writes().is_none());
}

/// Within a bucket of distances the share that is kept was spread evenly: a tier a block too small for a log seemed to keep most of it. Sizes went in quarter
/// octaves, and the knee was up to a fifth too large.
#[test]
fn regression_a_log_that_is_written_round_and_round_is_a_step() {
    let blocks = 3000_u64;
    let write = |at: u64| Request::new(at * 1000, Op::Write, at % blocks * BLOCK_BYTES, BLOCK_BYTES);
    let requests: Vec<Request> = (0..20 * blocks).map(write).collect();
    let (_, sizes) = sized(&requests, &[(blocks - 1) * BLOCK_BYTES, blocks * BLOCK_BYTES]);
    let rewrites = |blocks: u64| {
        let size = sizes.sizes.iter().find(|size| size.size_bytes == blocks * BLOCK_BYTES);
        size.map(|size| (size.rewrites * 20.0).round()).unwrap()
    };
    assert_eq!((rewrites(blocks - 1), rewrites(blocks)), (0.0, 19.0));
    assert_eq!(sizes.sizes[sizes.knee.unwrap()].size_bytes, blocks * BLOCK_BYTES);
    assert_eq!(sizes.sizes.last().unwrap().size_bytes, sizes.rows_bytes);
}

fn name(lifetime: Lifetime) -> String {
    format!("lifetime {}", lifetime.name())
}

/// Blocks that a tier with `pinned` pinned rows absorbs, by a list of the blocks staged in the rest.
fn plain(requests: &[Request], order: &[Pinned], past: &[String], pinned: usize, left_blocks: u64) -> u64 {
    let (mut list, mut kept) = (Vec::<u64>::new(), 0);
    for request in requests {
        if request.op == Op::Discard {
            let (first, end) = (request.offset_bytes.div_ceil(BLOCK_BYTES), request.end_bytes() / BLOCK_BYTES);
            let before = list.len();
            list.retain(|block| !(first..end).contains(block));
            kept += (before - list.len()) as u64;
            continue;
        }
        let is_past = past.contains(&name(request.lifetime));
        let is_pinned = order[..pinned].iter().any(|row| row.name == name(request.lifetime));
        for block in request.offset_bytes / BLOCK_BYTES..request.end_bytes().div_ceil(BLOCK_BYTES) {
            if let Some(at) = list.iter().position(|other| *other == block) {
                kept += 1;
                list.remove(at);
            }
            kept += u64::from(is_pinned);
            if !is_pinned && !is_past {
                list.insert(0, block);
                list.truncate(usize::try_from(left_blocks).unwrap());
            }
        }
    }
    kept
}

proptest! {
    #[test]
    fn sizes_are_those_of_lists(
        steps in proptest::collection::vec((0_u8..12, 0_u64..120, 1_u64..6), 1..300),
        sizes in proptest::collection::vec(0_u64..130, 1..6),
        past in proptest::option::of(2..5_usize),
    ) {
        let requests: Vec<Request> = steps
            .iter()
            .enumerate()
            .map(|(at, &(what, block, blocks))| match what {
                0 => Request::new(at as u64, Op::Discard, block * BLOCK_BYTES, blocks * 7 * BLOCK_BYTES),
                1 => Request::new(at as u64, Op::Discard, block * BLOCK_BYTES + 1, blocks << 30),
                what => {
                    let lifetime = Lifetime::ALL[2 + usize::from(what % 3)];
                    // Each row prefers some places.
                    let block = block / (1 + u64::from(what % 3) * 3);
                    Request { lifetime, ..Request::new(at as u64, Op::Write, block * BLOCK_BYTES + 512, blocks * BLOCK_BYTES - 512) }
                }
            })
            .collect();
        let sizes: Vec<u64> = sizes.iter().map(|blocks| blocks * BLOCK_BYTES).collect();
        let past: Vec<String> = past.map(|at| name(Lifetime::ALL[at])).into_iter().collect();
        let (report, found) = sized_past(&requests, &sizes, &past);
        prop_assert!(found.order.is_sorted_by(|a, b| a.beta >= b.beta));
        prop_assert_eq!(found.order.len() + found.bypassed.len(), report.rows.len());
        let all: u64 = requests.iter().filter(|request| request.op == Op::Write).map(|request| {
            request.end_bytes().div_ceil(BLOCK_BYTES) - request.offset_bytes / BLOCK_BYTES
        }).sum();
        for size in &found.sizes {
            let mut best = (0, 0);
            let mut taken = 0;
            let blocks_of = |wanted: &dyn Fn(&String) -> bool| -> u64 {
                let of = requests.iter().filter(|request| request.op == Op::Write && wanted(&name(request.lifetime)));
                of.map(|request| request.end_bytes().div_ceil(BLOCK_BYTES) - request.offset_bytes / BLOCK_BYTES).sum()
            };
            let mut share = 0;
            for pinned in 0..=found.order.len() {
                taken += pinned.checked_sub(1).map_or(0, |at| found.order[at].occupancy_bytes);
                let Some(left) = size.size_bytes.checked_sub(taken) else { break };
                let kept = plain(&requests, &found.order, &past, pinned, left / BLOCK_BYTES);
                if kept > best.0 {
                    best = (kept, pinned);
                }
                if best == (kept, pinned) {
                    let is_pinned = |name: &String| found.order[..pinned].iter().any(|row| row.name == *name);
                    share = blocks_of(&|name| !past.contains(name) && (left >= BLOCK_BYTES || is_pinned(name)));
                }
            }
            let wanted = best.0 as f64 / all.max(1) as f64;
            prop_assert!((size.alpha - wanted).abs() < 1e-9, "{:?}: {}", size, wanted);
            prop_assert_eq!(size.pinned, best.1);
            prop_assert!((size.fast_share - share as f64 / all.max(1) as f64).abs() < 1e-9, "{:?}: {}", size, share);
        }
    }
}

#[test]
fn regression_a_discard_kills_at_once_whatever_the_order_of_its_blocks() {
    let mut requests: Vec<Request> =
        (0..64).map(|at| Request::new(at, Op::Write, at * BLOCK_BYTES, BLOCK_BYTES)).collect();
    requests.push(Request::new(64, Op::Discard, 0, 1 << 40));
    let (_, found) = sized(&requests, &[32 * BLOCK_BYTES]);
    let half = found.sizes.iter().find(|size| size.size_bytes == 32 * BLOCK_BYTES).unwrap();
    assert_eq!(half.alpha, 0.5);
}

/// A hot megabyte and a cold rest.
fn two_parts() -> Vec<Request> {
    (0..40_000_u64)
        .map(|at| {
            let block = if at % 4 == 0 { 600 + at % 20_000 } else { at % 512 };
            Request::new(at, Op::Write, block * BLOCK_BYTES, BLOCK_BYTES)
        })
        .collect()
}

#[test]
fn regression_sizes_asked_for_do_not_move_the_knee() {
    let requests = two_parts();
    let (_, plain) = sized(&requests, &[]);
    let (_, asked) = sized(&requests, &[0, BLOCK_BYTES, 1 << 50]);
    let at = |sizes: &Sizes| sizes.sizes[sizes.knee.unwrap()].size_bytes;
    assert_eq!(at(&plain), at(&asked));
    assert_eq!(asked.sizes.len(), plain.sizes.len() + 3);
    // The hot blocks, and what is written between two writes of one of them.
    let hot = 512 * BLOCK_BYTES;
    assert!((hot..hot * 2).contains(&at(&plain)), "{}", at(&plain));
}

#[test]
fn who_is_forgotten_in_the_middle_of_a_request_does_not_come_back() {
    let requests = [Request::new(0, Op::Write, 0, 16_384 * BLOCK_BYTES)];
    let (report, _) = sized(&requests, &[]);
    let mut sizing = Sizing::new(&Options { memory_bytes: 1 << 17, ..options() }, &report);
    sizing.add(&requests, &Names::default(), Knows { op: true, ..Knows::default() });
    assert!(sizing.slots.len() > 100);
    let sample = sizing.sample;
    assert!(sizing.slots.addresses().all(|key| sample.has(key)));
}

/// The sample has the hottest blocks or not, and its own error could not show that.
#[test]
fn regression_the_error_of_a_sample_holds_where_few_blocks_are_written_most() {
    let (mut held, mut all) = (0, 0);
    for placement in 0..30_u64 {
        let requests: Vec<Request> = (0..10_000_u64)
            .map(|at| {
                let share = (splitmix64(placement << 32 | at) >> 11) as f64 / (1_u64 << 53) as f64;
                let block = splitmix64(placement << 20 | (share.powi(4) * 30_000.0) as u64) % (1 << 34);
                Request::new(at * 1000, Op::Write, block * BLOCK_BYTES, BLOCK_BYTES)
            })
            .collect();
        let sized = |sample_halvings: u32| {
            let options = Options { sample_halvings, ..options() };
            let (names, knows) = (Names::default(), Knows { op: true, time: true, lifetime: true, ..Knows::default() });
            let mut analysis = Analysis::new(&options);
            analysis.add(&requests, &names, knows);
            let mut sizing = Sizing::new(&options, &analysis.finish(&names));
            sizing.add(&requests, &names, knows);
            sizing.finish(&[1 << 20, 2 << 20, 4 << 20])
        };
        let (exact, sampled) = (sized(0), sized(4));
        for size_bytes in [1 << 20, 2 << 20, 4 << 20] {
            let at = |sizes: &Sizes| sizes.sizes.iter().find(|sized| sized.size_bytes == size_bytes).unwrap().clone();
            let (exact, sampled) = (at(&exact), at(&sampled));
            held += u32::from((exact.rewrites - sampled.rewrites).abs() <= sampled.sample_error.unwrap());
            all += 1;
        }
    }
    // Errors of neighbouring sizes are correlated.
    assert!(held * 10 >= all * 9, "{held} of {all}");
}

#[test]
fn a_sample_stays_within_its_memory_and_comes_close() {
    let requests = two_parts();
    let (names, knows) = (Names::default(), Knows { op: true, time: true, lifetime: true, ..Knows::default() });
    let (report, exact) = sized(&requests, &[]);
    let mut sizing = Sizing::new(&Options { memory_bytes: 1 << 17, ..options() }, &report);
    sizing.add(&requests, &names, knows);
    assert!(sizing.slots.len() <= sizing.limit);
    let sampled = sizing.finish(&[]);
    assert!(sampled.one_block_in >= 4, "{}", sampled.one_block_in);
    let of_size =
        |of: &Sized| exact.sizes.iter().find(|exact| exact.size_bytes == of.size_bytes).map(|exact| exact.alpha);
    let both = sampled.sizes.iter().filter_map(|sampled| Some((sampled, of_size(sampled)?)));
    let large: Vec<_> = both.filter(|(sampled, _)| sampled.size_bytes > 8 << 20).collect();
    assert!(large.len() > 3 && large.iter().all(|(sampled, alpha)| (sampled.alpha - alpha).abs() < 0.1), "{large:?}");
}

#[test]
fn an_interval_is_that_of_batch_means() {
    let batches: Vec<f64> = (0..20).map(|at| f64::from(at % 2)).collect();
    // 2.093 * sqrt(20 * 0.25 / 19 / 20)
    assert!((half_interval(&batches) - 0.240_08).abs() < 1e-4, "{}", half_interval(&batches));
    let (_, found) = sized(&two_parts(), &[600 * BLOCK_BYTES]);
    let size = found.sizes.iter().find(|size| size.size_bytes == 600 * BLOCK_BYTES).unwrap();
    // The load does not change.
    assert!(size.alpha_error.unwrap() < 0.05, "{size:?}");
}

/// Hot data that is overwritten in turn, beside as much data that is written once.
fn hot_beside_write_once(hot_bytes: u64, writes: u64) -> Vec<Request> {
    let hot = hot_bytes / BLOCK_BYTES;
    (0..writes)
        .map(|at| {
            let block = if at % 2 == 0 { at / 2 % hot } else { 1 << 30 | at };
            Request::new(at, Op::Write, block * BLOCK_BYTES, BLOCK_BYTES)
        })
        .collect()
}

#[test]
fn regression_hot_data_beside_what_is_written_once_has_a_knee() {
    // 16 MiB written five times: between two writes of a block lie 16 MiB of hot data and as much other data.
    let (_, found) = sized(&hot_beside_write_once(16 << 20, 5 * 8192), &[]);
    let knee = &found.sizes[found.knee.unwrap()];
    assert!((32 << 20..40 << 20).contains(&knee.size_bytes), "{}", knee.size_bytes);
    // Half of the writes are hot, and one of five of these overwrites nothing.
    assert!((knee.rewrites - 0.4).abs() < 0.01, "{knee:?}");
    assert!((found.rewrites_max - 0.4).abs() < 0.01, "{}", found.rewrites_max);
    // At the end everything fits and is pinned, which is no rewrite.
    let last = found.sizes.last().unwrap();
    assert_eq!((last.alpha, last.rewrites), (1.0, knee.rewrites));
}

#[test]
fn regression_a_curve_that_bends_upwards_has_its_knee_where_it_ends() {
    // A recording of pgbench: small sizes absorb little, and most is absorbed from 256 MiB on, at which nearly all fits. Here 1/16 of that.
    let (small, large) = (1 << 8, 12 << 8);
    let requests: Vec<Request> = (0..40_000_u64)
        .map(|at| {
            let block = if at % 4 == 0 { at / 4 % small } else { 1 << 20 | (at % large) };
            Request::new(at, Op::Write, block * BLOCK_BYTES, BLOCK_BYTES)
        })
        .collect();
    let (_, found) = sized(&requests, &[]);
    let knee = &found.sizes[found.knee.unwrap()];
    let footprint = found.footprint_bytes;
    assert!(knee.rewrites > found.rewrites_max * 0.95, "{knee:?} {}", found.rewrites_max);
    assert!((footprint / 2..footprint * 5 / 4).contains(&knee.size_bytes), "{} of {footprint}", knee.size_bytes);
}

/// The footprint was the sum of the rows' maxima at different times: more than there ever was, under a name that the analysis uses for what
/// is touched.
#[test]
fn regression_a_footprint_is_that_of_the_analysis() {
    let of =
        |volume: u32, op: Op, at: u64| Request { volume, ..Request::new(at, op, at % 1024 * BLOCK_BYTES, BLOCK_BYTES) };
    // One row is discarded before the other one, whose data is also read, begins.
    let mut requests: Vec<Request> = (0..1024).map(|at| of(0, Op::Write, at)).collect();
    requests.extend((1024..2048).map(|at| of(0, Op::Discard, at)));
    requests.extend((2048..3072).map(|at| of(1, Op::Write, at)));
    requests.extend((3072..3584).map(|at| of(2, Op::Read, at)));
    let options = Options { by: By::Volume, ..Options::default() };
    let mut names = Names::default();
    let numbers: Vec<u32> = ["a", "b", "c"].map(|name| names.volumes.number(name)).to_vec();
    requests.iter_mut().for_each(|request| request.volume = numbers[request.volume as usize]);
    let mut analysis = Analysis::new(&options);
    analysis.add(&requests, &names, Knows::default());
    let report = analysis.finish(&names);
    let mut sizing = Sizing::new(&options, &report);
    sizing.add(&requests, &names, Knows::default());
    let found = sizing.finish(&[]);
    assert_eq!((found.footprint_bytes, found.written_footprint_bytes), (6 << 20, 4 << 20));
    assert_eq!((report.footprint_bytes, report.written_footprint_bytes), (6 << 20, 4 << 20));
    assert_eq!(found.rows_bytes, 8 << 20, "both pinned, each at its most");
}

#[test]
fn what_is_written_once_has_no_knee_and_little_data_has_a_table() {
    let once: Vec<Request> = (0..16_384).map(|at| Request::new(at, Op::Write, at * BLOCK_BYTES, BLOCK_BYTES)).collect();
    let (_, found) = sized(&once, &[]);
    assert_eq!((found.knee, found.rewrites_max), (None, 0.0));
    assert_eq!(found.footprint_bytes, 64 << 20);
    let (_, found) = sized(&once[..4], &[]);
    assert_eq!(found.sizes.first().map(|size| size.size_bytes), Some(BLOCK_BYTES));
}

#[test]
fn a_share_that_passes_by_leaves_room_for_the_rest() {
    // Half of the blocks staged in half of the space are absorbed as well as all blocks in all of the space.
    let (_, found) = sized(&hot_beside_write_once(16 << 20, 5 * 8192), &[18 << 20]);
    let size = found.sizes.iter().find(|size| size.size_bytes == 18 << 20).unwrap();
    let way = |staged: f64| size.ways.iter().find(|way| way.pinned == 0 && way.staged == staged).unwrap();
    assert_eq!(way(1.0).alpha, 0.0);
    assert!((way(0.5).alpha - 0.2).abs() < 0.01, "{:?}", way(0.5));
    assert_eq!((way(0.5).fast_share, way(0.0).fast_share, way(0.0).alpha), (0.5, 0.0, 0.0));
}

/// Each count of pinned rows got an equal part of the memory, as if each followed its own blocks.
#[test]
fn regression_a_sizing_is_exact_as_long_as_its_blocks_fit() {
    let lifetimes = [Lifetime::Short, Lifetime::Long, Lifetime::Extreme];
    let write = |at: u64| {
        let lifetime = lifetimes[(at % 3) as usize];
        Request { lifetime, ..Request::new(at, Op::Write, at % 15_000 * BLOCK_BYTES, BLOCK_BYTES) }
    };
    let requests: Vec<Request> = (0..30_000).map(write).collect();
    let (report, exact) = sized(&requests, &[]);
    let mut sizing = Sizing::new(&Options { memory_bytes: 4 << 20, ..options() }, &report);
    assert_eq!(sizing.rests.len(), 4);
    let knows = Knows { op: true, time: true, lifetime: true, ..Knows::default() };
    sizing.add(&requests, &Names::default(), knows);
    let found = sizing.finish(&[]);
    assert_eq!(found.one_block_in, 1);
    assert!(found.sizes.iter().map(|size| size.alpha).eq(exact.sizes.iter().map(|size| size.alpha)));
}

//! The analysis compared with plain definitions that use lists.

use super::*;
use crate::{Knows, Names};
use forebay_block::hash::splitmix64;
use proptest::prelude::*;
use std::collections::BTreeMap;

const BLOCK: u64 = 4096;

fn analysed(options: &Options, requests: &[Request]) -> Report {
    let names = Names::default();
    let mut analysis = Analysis::new(options);
    let knows = Knows { op: true, time: true, ..Knows::default() };
    requests.chunks(7).for_each(|requests| analysis.add(requests, &names, knows));
    analysis.finish(&names)
}

/// A cache of one size, or a tier that holds what was written last; implemented as a list.
struct Plain {
    blocks: u64,
    is_tier: bool,
    list: Vec<u64>,
    /// Hits of all accesses, and of the reads among them.
    hits: u64,
    read_hits: u64,
    /// Versions that were discarded while the list held them.
    discarded: u64,
    accesses: u64,
    reads: u64,
    peak: usize,
}

impl Plain {
    fn of(requests: &[Request], blocks: u64, is_tier: bool) -> Self {
        let (list, hits, read_hits) = (Vec::new(), 0, 0);
        let mut plain = Self { blocks, is_tier, list, hits, read_hits, discarded: 0, accesses: 0, reads: 0, peak: 0 };
        requests.iter().for_each(|request| plain.take(request));
        plain
    }

    fn take(&mut self, request: &Request) {
        if request.op == Op::Discard {
            let (first, end) = (request.offset_bytes.div_ceil(BLOCK), request.end_bytes() / BLOCK);
            let before = self.list.len();
            self.list.retain(|block| !(first..end).contains(block));
            self.discarded += (before - self.list.len()) as u64;
            return;
        }
        let is_read = request.op == Op::Read;
        if is_read && self.is_tier {
            return;
        }
        for block in request.offset_bytes / BLOCK..request.end_bytes().div_ceil(BLOCK) {
            self.accesses += 1;
            self.reads += u64::from(is_read);
            if let Some(at) = self.list.iter().position(|other| *other == block) {
                self.list.remove(at);
                self.hits += 1;
                self.read_hits += u64::from(is_read);
            }
            self.list.insert(0, block);
            self.list.truncate(usize::try_from(self.blocks).unwrap());
            self.peak = self.peak.max(self.list.len());
        }
    }
}

/// Compares all figures of a report that depend on sizes with caches of these sizes.
#[track_caller]
fn assert_curve_is_that_of_caches(requests: &[Request], report: &Report) {
    let share = |part: u64, all: u64| (all > 0).then(|| part as f64 / all as f64);
    for point in &report.curve {
        let blocks = point.size_bytes / BLOCK;
        let (cache, tier) = (Plain::of(requests, blocks, false), Plain::of(requests, blocks, true));
        assert_eq!(point.miss_ratio, share(cache.hits, cache.accesses).map(|hits| 1.0 - hits), "{point:?}");
        assert_eq!(point.read_miss_ratio, share(cache.read_hits, cache.reads).map(|hits| 1.0 - hits), "{point:?}");
        let kept = (tier.hits + tier.discarded).min(tier.accesses);
        assert_eq!(point.alpha, share(kept, tier.accesses), "{point:?}");
    }
}

proptest! {
    #[test]
    fn exact_figures_are_those_of_lists(steps in proptest::collection::vec((0_u8..10, 0_u64..60_000, 1_u64..20_000), 1..400)) {
        let requests: Vec<Request> = steps
            .iter()
            .enumerate()
            .map(|(at, &(what, offset, len))| {
                let op = match what { 0..5 => Op::Write, 5..9 => Op::Read, _ => Op::Discard };
                Request::new(at as u64, op, offset * 8, len)
            })
            .collect();
        let report = analysed(&Options::default(), &requests);
        let (cache, tier) = (Plain::of(&requests, 1 << 40, false), Plain::of(&requests, 1 << 40, true));
        prop_assert_eq!(report.one_block_in, 1);
        prop_assert_eq!(report.footprint_bytes, cache.peak as u64 * BLOCK);
        prop_assert_eq!(report.written_footprint_bytes, tier.peak as u64 * BLOCK);
        prop_assert_eq!(report.block_accesses, cache.accesses);
        assert_curve_is_that_of_caches(&requests, &report);
        let written: u64 = report.rows.iter().map(|row| row.written_bytes).sum();
        let wanted: u64 = requests.iter().filter(|request| request.op == Op::Write).map(|request| request.len_bytes).sum();
        prop_assert_eq!(written, wanted, "every byte written is in one row");
    }
}

/// Space that a discard freed counted as if it had been free when blocks were evicted.
#[test]
fn regression_what_was_pushed_out_before_a_discard_is_not_there_again() {
    // In a cache of two blocks, c evicts a; discarding b and c does not bring a back.
    let write = |at: u64, block: u64| Request::new(at, Op::Write, block * BLOCK, BLOCK);
    let requests = [write(0, 0), write(1, 1), write(2, 2), Request::new(3, Op::Discard, BLOCK, 2 * BLOCK), write(4, 0)];
    let report = analysed(&Options::default(), &requests);
    assert_curve_is_that_of_caches(&requests, &report);
    let two = report.curve.iter().find(|point| point.size_bytes == 2 * BLOCK).unwrap();
    assert_eq!((two.miss_ratio, two.alpha), (Some(1.0), Some(0.5)));
    // Half writes and a tenth discards, like a file system that deletes files.
    let mut state = 1_u64;
    let requests: Vec<Request> = (0..6000)
        .map(|at| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let block = (state >> 33) % 3000;
            match (state >> 50) % 10 {
                0..5 => Request::new(at, Op::Write, block * BLOCK, BLOCK),
                5 => Request::new(at, Op::Discard, block * BLOCK, (64 + block % 192) * BLOCK),
                _ => Request::new(at, Op::Read, block * BLOCK, BLOCK),
            }
        })
        .collect();
    assert_curve_is_that_of_caches(&requests, &analysed(&Options::default(), &requests));
}

/// Writes and reads of blocks with skewed popularity.
fn skewed(count: u64) -> Vec<Request> {
    let mut state = 88_172_645_463_325_252_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    (0..count)
        .map(|at| {
            let block = random() % (1 + random() % 60_000);
            let op = if random() % 3 == 0 { Op::Read } else { Op::Write };
            Request::new(at * 1000, op, block * BLOCK, BLOCK)
        })
        .collect()
}

#[test]
fn a_sample_comes_close() {
    let requests = skewed(400_000);
    let exact = analysed(&Options::default(), &requests);
    // As many blocks as SHARDS with 8,192 entries, sampled from the beginning or when memory runs out.
    let from_first = Options { sample_halvings: 3, ..Options::default() };
    let by_memory = Options { memory_bytes: 8192 * blocks::FOLLOWED_BYTES, ..Options::default() };
    for options in [from_first, by_memory] {
        let sampled = analysed(&options, &requests);
        assert!(sampled.one_block_in > 1);
        for point in &sampled.curve {
            let other = exact.curve.iter().find(|other| other.size_bytes == point.size_bytes);
            let Some(other) = other.filter(|other| other.percent.is_none()) else { continue };
            let error = |a: Option<f64>, b: Option<f64>| (a.unwrap() - b.unwrap()).abs();
            assert!(error(point.miss_ratio, other.miss_ratio) < 0.01, "{point:?} {other:?}");
            assert!(error(point.read_miss_ratio, other.read_miss_ratio) < 0.015, "{point:?} {other:?}");
            assert!(error(point.alpha, other.alpha) < 0.015, "{point:?} {other:?}");
        }
        let off = sampled.written_footprint_bytes as f64 / exact.written_footprint_bytes as f64;
        assert!((off - 1.0).abs() < 0.04, "{off}");
    }
}

/// The figures of a sample whose printed interval does not contain those of all blocks; and how many figures there are.
fn outside(requests: &[Request], halvings: &[u32]) -> (Vec<String>, usize) {
    let exact = analysed(&Options::default(), requests);
    let (mut out, mut all) = (Vec::new(), 0);
    for &sample_halvings in halvings {
        let sampled = analysed(&Options { sample_halvings, ..Options::default() }, requests);
        for point in &sampled.curve {
            let other = exact.curve.iter().find(|other| other.size_bytes == point.size_bytes);
            let Some(other) = other.filter(|other| other.percent.is_none()) else { continue };
            for (what, found, truth, error) in [
                ("miss ratio", point.miss_ratio, other.miss_ratio, point.miss_ratio_error),
                ("of reads", point.read_miss_ratio, other.read_miss_ratio, point.read_miss_ratio_error),
                ("alpha", point.alpha, other.alpha, point.alpha_error),
            ] {
                let (Some(found), Some(truth)) = (found, truth) else { continue };
                all += 1;
                let error = error.unwrap();
                if (found - truth).abs() > error + 1e-9 {
                    out.push(format!(
                        "1 in {}, {}: {what} {found} +- {error}, {truth}",
                        1 << sample_halvings,
                        point.size_bytes
                    ));
                }
            }
        }
    }
    (out, all)
}

#[test]
fn regression_what_a_sample_prints_holds_what_all_blocks_have() {
    let loads: [(&str, Vec<Request>); 3] = [
        ("skewed", skewed(300_000)),
        // Blocks are written evenly in random order: what the sample lacks is no hit at small sizes.
        ("even", {
            let mut state = 9_u64;
            (0..300_000)
                .map(|at| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    Request::new(at * 1000, Op::Write, (state >> 33) % 40_000 * BLOCK, BLOCK)
                })
                .collect()
        }),
        // A few blocks have half of all writes.
        ("hot", {
            let mut state = 5_u64;
            (0..300_000)
                .map(|at| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let block = if at % 2 == 0 { at / 2 % 7 * 1000 } else { (state >> 33) % 60_000 };
                    Request::new(at * 1000, Op::Write, block * BLOCK, BLOCK)
                })
                .collect()
        }),
    ];
    for (name, requests) in loads {
        let (out, all) = outside(&requests, &[2, 4, 6]);
        // 95 % of the figures; those of neighbouring sizes are correlated.
        assert!(out.len() * 10 <= all && all > 15, "{name}: {} of {all}: {out:#?}", out.len());
    }
}

/// A load with few hot blocks, placed by the first of them: next to each other, or scattered.
fn hot_blocks(placement: u64, is_scattered: bool) -> Vec<Request> {
    let mut state = placement;
    let mut random = move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        splitmix64(state)
    };
    let first = random() % (1 << 30);
    (0..12_000)
        .map(|at| {
            let op = if random() % 2 == 0 { Op::Read } else { Op::Write };
            // The first block has 8 % of all accesses, the next ones 1.4, 1.0, .8 %.
            let rank = ((random() >> 11) as f64 / (1_u64 << 53) as f64).powi(4) * 30_000.0;
            let block = if is_scattered { splitmix64(first + rank as u64) % (1 << 34) } else { first + rank as u64 };
            Request::new(at * 1000, op, block * BLOCK, BLOCK)
        })
        .collect()
}

#[test]
fn regression_intervals_of_a_sample_hold_where_few_blocks_are_hot() {
    const PLACEMENTS: u64 = 40;
    for is_scattered in [false, true] {
        let (mut held, mut all) = (BTreeMap::<(&str, u64, u32), u64>::new(), 0);
        for placement in 0..PLACEMENTS {
            let requests = hot_blocks(placement, is_scattered);
            let exact = analysed(&Options::default(), &requests);
            for halvings in [3, 5] {
                let sampled = analysed(&Options { sample_halvings: halvings, ..Options::default() }, &requests);
                for point in sampled.curve.iter().filter(|point| point.percent.is_none()) {
                    let is_same = |other: &&Curve| other.percent.is_none() && other.size_bytes == point.size_bytes;
                    let Some(other) = exact.curve.iter().find(is_same).filter(|other| other.size_bytes <= 8 << 20)
                    else {
                        continue;
                    };
                    for (what, found, truth, error) in [
                        ("miss ratio", point.miss_ratio, other.miss_ratio, point.miss_ratio_error),
                        ("of reads", point.read_miss_ratio, other.read_miss_ratio, point.read_miss_ratio_error),
                        ("alpha", point.alpha, other.alpha, point.alpha_error),
                    ] {
                        let holds = (found.unwrap() - truth.unwrap()).abs() <= error.unwrap();
                        *held.entry((what, point.size_bytes, halvings)).or_default() += u64::from(holds);
                        all += 1;
                    }
                }
            }
        }
        assert_eq!(all, PLACEMENTS * 3 * 4 * 2);
        // If 95 % hold, fewer than 34 of 40 have a chance of one in 300.
        assert!(held.values().all(|held| *held >= 34), "{is_scattered}: {held:#?}");
        let share = held.values().sum::<u64>() as f64 / all as f64;
        assert!((0.93..=0.975).contains(&share), "{is_scattered}: {share} {held:#?}");
    }
}

#[test]
fn regression_rates_flushes_and_processes_are_shown() {
    let mut names = Names::default();
    let (one, other) = (names.processes.number("one"), names.processes.number("other"));
    let mut requests: Vec<Request> = (0..1001_u64)
        .map(|at| Request {
            process: if at % 4 == 0 { one } else { other },
            latency_ns: 500_000,
            ..Request::new(at * 1_000_000, Op::Write, at * BLOCK, BLOCK)
        })
        .collect();
    requests.insert(500, Request { latency_ns: 3_000_000, ..Request::new(499_000_000, Op::Flush, 0, 0) });
    let mut analysis = Analysis::new(&Options::default());
    analysis.add(&requests, &names, Knows { op: true, time: true, latency: true, process: true, ..Knows::default() });
    let report = analysis.finish(&names);
    let write = report.operations.iter().find(|operation| operation.op == "write").unwrap();
    assert!((write.requests_per_s.unwrap() - 1001.0).abs() < 1e-6, "{write:?}");
    assert!((write.bytes_per_s.unwrap() - 1001.0 * 4096.0).abs() < 1e-2, "{write:?}");
    assert_eq!(report.flush_ns.unwrap().max, 3_000_000);
    let of = |name: &str| report.depths.iter().find(|depth| depth.process == name).unwrap();
    assert_eq!((of("one").requests, of("other").requests), (251, 750));
    assert!((of("one").requests_per_s.unwrap() - 251.0).abs() < 1e-6);
}

#[test]
fn rows_follow_rules_then_hints_then_behaviour() {
    let mut names = Names::default();
    let wal = names.paths.number("db/000007.log");
    let knows = Knows { op: true, flags: true, lifetime: true, file: true, ..Knows::default() };
    let write = |at: u64| Request::new(at, Op::Write, at * BLOCK, BLOCK);
    let requests = [
        Request { path: wal, lifetime: crate::Lifetime::Short, ..write(1) },
        Request { lifetime: crate::Lifetime::Medium, ..write(2) },
        Request { flags: crate::Flags::META, ..write(3) },
        write(4),
        Request { op: Op::Read, ..write(1) },
        Request { op: Op::Read, ..write(77) },
    ];
    let rules = vec![("wal".to_owned(), forebay_prism::Rule::parse("ext:.log").unwrap())];
    let mut analysis = Analysis::new(&Options { rules, ..Options::default() });
    analysis.add(&requests, &names, knows);
    let report = analysis.finish(&names);
    let mut found: Vec<(&str, u64, u64)> =
        report.rows.iter().map(|row| (row.name.as_str(), row.writes, row.reads)).collect();
    found.sort_unstable();
    let wanted = [
        ("cold", 1, 0),
        ("lifetime medium", 1, 0),
        ("metadata", 1, 0),
        ("not written in the trace", 0, 1),
        ("wal", 1, 1),
    ];
    assert_eq!(found, wanted);
    assert!(report.agreement.iter().any(|entry| entry.row == "wal" && entry.behaviour == "cold"));
}

/// Alpha was -0.0, in tables and in JSON.
#[test]
fn regression_an_alpha_of_nothing_is_no_negative_zero() {
    for sample_halvings in [0, 2] {
        let once: Vec<Request> = (0..1000).map(|at| Request::new(at, Op::Write, at * BLOCK, BLOCK)).collect();
        let report = analysed(&Options { sample_halvings, ..Options::default() }, &once);
        let alphas: Vec<f64> = report.curve.iter().filter_map(|point| point.alpha).collect();
        assert!(!alphas.is_empty() && alphas.iter().all(|alpha| alpha.is_sign_positive()), "{alphas:?}");
    }
}

/// Each such request had 262,144 blocks, handled one by one: a trace of three kilobytes took a minute.
#[test]
fn regression_huge_requests_do_not_keep_the_analysis_busy() {
    let huge: Vec<Request> = (0..2000).map(|at| Request::new(at, Op::Write, at << 30, 1 << 30)).collect();
    let report = analysed(&Options::default(), &huge);
    assert_eq!((report.absurd, report.written_footprint_bytes), (2000, 0));
    // Sizes that hosts really send are accepted.
    let large = [Request::new(0, Op::Write, 0, 64 << 20), Request::new(1, Op::Discard, 0, 1 << 40)];
    assert_eq!(analysed(&Options::default(), &large).absurd, 0);
}

/// Reported sizes were upper edges of buckets: 60.2 KiB, although requests are multiples of 512 bytes.
#[test]
fn regression_sizes_that_are_reported_are_sizes_of_requests() {
    let requests: Vec<Request> =
        (0..100).map(|at| Request::new(at, Op::Read, at << 20, if at < 60 { 61_440 } else { 65_536 })).collect();
    let sizes = analysed(&Options::default(), &requests).reads.sizes.unwrap();
    assert_eq!((sizes.p50, sizes.p90, sizes.p99, sizes.max), (61_440, 65_536, 65_536, 65_536));
}

#[test]
fn absurd_requests_are_counted_and_left_out() {
    let requests = [
        Request::new(5, Op::Write, u64::MAX - 10, 100),
        Request::new(6, Op::Write, 0, 1 << 40),
        Request::new(7, Op::Discard, 0, 1 << 50),
        Request::new(1, Op::Write, 0, 1),
    ];
    let report = analysed(&Options::default(), &requests);
    assert_eq!((report.absurd, report.back_in_time), (2, 1));
    assert_eq!(report.written_footprint_bytes, BLOCK);
}

#[test]
fn regression_no_more_windows_are_busy_than_there_are() {
    let requests: Vec<Request> = (0..5).map(|at| Request::new(at * 1_000_000, Op::Write, 0, BLOCK)).collect();
    let burst = &analysed(&Options::default(), &requests).bursts[0];
    assert_eq!((burst.window_ns, burst.busy, burst.max_over_mean), (1_000_000, 1.0, 1.0));
    assert_eq!(burst.max_bytes_per_s, 4_096_000.0);
}

/// The last window counted as a whole one, however short it was: an even load of 1.05 s had 1.9 times its mean in the busiest second.
#[test]
fn regression_an_even_load_is_not_bursty_for_its_last_window() {
    let every_ms = |requests: u64| -> Vec<Request> {
        (0..requests).map(|at| Request::new(at * 1_000_000, Op::Write, at * BLOCK, BLOCK)).collect()
    };
    for requests in [1050, 1100, 1990, 10_001, 15_000] {
        for burst in analysed(&Options::default(), &every_ms(requests)).bursts {
            assert!((burst.max_over_mean - 1.0).abs() < 1e-9, "{requests}: {burst:?}");
        }
    }
    // Half of all requests in the last tenth of a second of 1.1 s: ten times the rate before, and 5.5 times the mean.
    let mut requests = every_ms(1000);
    requests.extend((0..1000).map(|at| Request::new(1_000_000_000 + at * 100_000, Op::Write, at * BLOCK, BLOCK)));
    let bursts = analysed(&Options::default(), &requests).bursts;
    assert!((bursts[2].max_over_mean - 5.5).abs() < 0.01 && (bursts[3].max_over_mean - 1.0).abs() < 1e-9, "{bursts:?}");
}

/// A trace of a format without hints seemed to say that its writes had no hint set.
#[test]
fn regression_hints_that_a_trace_cannot_tell_are_not_known() {
    let requests = [Request::new(0, Op::Write, 0, BLOCK)];
    for (lifetime, row) in [(false, "not known"), (true, "lifetime not-set")] {
        let mut analysis = Analysis::new(&Options { by: By::Hint, ..Options::default() });
        let knows = Knows { op: true, time: true, lifetime, ..Knows::default() };
        analysis.add(&requests, &Names::default(), knows);
        let report = analysis.finish(&Names::default());
        assert_eq!(report.rows.iter().map(|row| row.name.as_str()).collect::<Vec<_>>(), [row]);
    }
}

#[test]
fn regression_reads_of_a_sample_count_for_those_who_wrote() {
    let requests = skewed(200_000);
    let row = |halvings| {
        let options = Options { by: By::Hint, sample_halvings: halvings, ..Options::default() };
        let mut report = analysed(&options, &requests);
        report.rows.retain(|row| row.name == "not known");
        report.rows.pop().unwrap()
    };
    let (exact, sampled) = (row(0), row(3));
    for (exact, sampled) in [(exact.reads, sampled.reads), (exact.read_bytes, sampled.read_bytes)] {
        let off = sampled as f64 / exact as f64;
        assert!((off - 1.0).abs() < 0.06, "{sampled} for {exact}");
    }
}

#[test]
fn regression_what_is_discarded_has_lived_while_bytes_were_written() {
    let requests = [
        Request::new(0, Op::Write, 0, BLOCK),
        Request::new(5, Op::Write, BLOCK, 3 * BLOCK),
        Request::new(9, Op::Discard, 0, BLOCK),
    ];
    let report = analysed(&Options::default(), &requests);
    let (bytes, ns) = (report.overwrite_bytes.unwrap(), report.overwrite_ns.unwrap());
    assert_eq!((bytes.count, bytes.max, ns.count, ns.max), (1.0, 3 * BLOCK, 1.0, 9));
    let row = &report.rows[0];
    assert_eq!((row.life_bytes.as_ref().unwrap().max, row.discarded_bytes), (3 * BLOCK, BLOCK));
}

/// A write is counted by the parts that behaviour distinguishes; the blocks of its first part had waited for less than those of its last.
#[test]
fn regression_all_blocks_of_a_write_have_waited_for_the_whole_of_it() {
    let write = |at, block, blocks| Request::new(at, Op::Write, block * BLOCK, blocks * BLOCK);
    let requests = [write(1000, 0, 32), write(2000, 0, 32), write(3000, 0, 32), write(4000, 14, 32)];
    let report = analysed(&Options::default(), &requests);
    let bytes = report.overwrite_bytes.unwrap();
    assert_eq!((bytes.count, bytes.mean, bytes.max), (82.0, f64::from(32 * 4096), 32 * BLOCK));
    let lives = report.rows.iter().filter_map(|row| row.life_bytes.as_ref());
    lives.for_each(|bytes| assert_eq!(bytes.mean, f64::from(32 * 4096)));
}

#[test]
fn a_sample_that_has_too_much_of_one_block_is_adjusted() {
    // One block has half of the accesses, and a sample has it or not.
    let requests: Vec<Request> = (0..200_000)
        .map(|at| Request::new(at, Op::Read, if at % 2 == 0 { 77 } else { at * 7919 % 30_000 } * BLOCK, BLOCK))
        .collect();
    let at =
        |report: &Report, size| report.curve.iter().find(|point| point.size_bytes == size).unwrap().miss_ratio.unwrap();
    let exact = analysed(&Options::default(), &requests);
    for halvings in 1..5 {
        let sampled = analysed(&Options { sample_halvings: halvings, ..Options::default() }, &requests);
        let size = 16 << 20;
        // The other accesses go to the odd ones of 30,000 blocks. Each group follows one with even chances, so this share of half of all
        // accesses is a standard deviation, 0.004 to 0.012.
        let deviation = 0.5 * (f64::from(1_u32 << halvings) / 30_000.0).sqrt();
        assert!((at(&sampled, size) - at(&exact, size)).abs() < 2.0 * deviation, "{halvings}: {sampled:?}");
    }
}

#[test]
fn hints_and_marks_make_rows_where_they_say_something() {
    use crate::{Flags, Lifetime};
    let write = |at: u64| Request::new(at, Op::Write, at * BLOCK, BLOCK);
    let requests = [
        Request { lifetime: Lifetime::None, ..write(1) },
        Request { lifetime: Lifetime::Short, ..write(2) },
        Request { lifetime: Lifetime::Medium, ..write(3) },
        Request { flags: Flags::SWAP.with(Flags::META), ..write(4) },
    ];
    let rows = |knows, rules| {
        let names = Names::default();
        let mut analysis = Analysis::new(&Options { rules, ..Options::default() });
        analysis.add(&requests, &names, knows);
        let mut rows: Vec<String> = analysis.finish(&names).rows.into_iter().map(|row| row.name).collect();
        rows.sort_unstable();
        rows
    };
    let all = Knows { op: true, flags: true, lifetime: true, ..Knows::default() };
    assert_eq!(rows(all, Vec::new()), ["cold", "lifetime medium", "lifetime short", "swap"]);
    let rule = |class: &str, text: &str| (class.to_owned(), forebay_prism::Rule::parse(text).unwrap());
    // Answers are cached for each hint; a fact that the trace does not have is not known to be false.
    let rules = vec![rule("brief", "hint.lifetime:short"), rule("else", "!hint.lifetime:short")];
    assert_eq!(rows(all, rules.clone()), ["brief", "else"]);
    assert_eq!(rows(Knows { op: true, ..Knows::default() }, rules), rows(all, Vec::new()));
}

#[test]
fn rows_are_bounded_and_letters_follow_from_figures() {
    let mut names = Names::default();
    let mut requests: Vec<Request> = (0..5000_u64)
        .map(|at| Request {
            path: names.paths.number(&format!("d{at}/f")),
            ..Request::new(at, Op::Write, at * BLOCK, BLOCK)
        })
        .collect();
    // d7 is read again and again, d8 is written.
    for at in 0..20 {
        requests.push(Request { path: requests[7].path, ..Request::new(6000 + at, Op::Read, 7 * BLOCK, BLOCK) });
        requests.push(Request { path: requests[8].path, ..Request::new(6000 + at, Op::Write, 8 * BLOCK, BLOCK) });
    }
    let mut analysis = Analysis::new(&Options { by: By::Directory, ..Options::default() });
    let knows = Knows { op: true, file: true, ..Knows::default() };
    analysis.add(&requests, &names, knows);
    let report = analysis.finish(&names);
    assert!((4096..=4097).contains(&report.rows.len()), "{}", report.rows.len());
    let row = |name: &str| report.rows.iter().find(|row| row.name == name).unwrap();
    assert_eq!(["d7", "d8", "d9"].map(|name| row(name).letter), [Some('H'), Some('T'), Some('X')]);
    assert!(row("others").writes > 900);
    assert_eq!(report.alpha_fast, Some(22.0 / 5020.0));
    assert_eq!(report.fast_bytes, 2 * BLOCK);
    // Rows that are known for certain are counted exactly, even with a sample.
    let mut analysis = Analysis::new(&Options { by: By::Directory, sample_halvings: 5, ..Options::default() });
    analysis.add(&requests, &names, knows);
    let report = analysis.finish(&names);
    assert_eq!(report.rows.iter().find(|row| row.name == "d7").unwrap().reads, 20);
}

#[test]
fn letters_follow_from_classes_not_from_beginnings_of_names() {
    let mut names = Names::default();
    let requests: Vec<Request> =
        ["catalog", "redo log", "metabase", "temporal", "pg_wal", "hot", "templates", "Meta data"]
            .iter()
            .enumerate()
            .map(|(at, name)| Request {
                path: names.paths.number(name),
                ..Request::new(at as u64, Op::Write, at as u64 * BLOCK, BLOCK)
            })
            .collect();
    let knows = Knows { op: true, file: true, flags: true, ..Knows::default() };
    let rules: Vec<_> = names
        .paths
        .iter()
        .skip(1)
        .map(|name| (name.to_owned(), forebay_prism::Rule::parse(&format!("path:\"{name}\"")).unwrap()))
        .collect();
    let letters = |by, rules: &[(String, forebay_prism::Rule)]| {
        let mut analysis = Analysis::new(&Options { by, rules: rules.to_vec(), ..Options::default() });
        analysis.add(&requests, &names, knows);
        let mut rows = analysis.finish(&names).rows;
        rows.sort_by(|a, b| a.name.cmp(&b.name));
        rows.iter().map(|row| format!("{} {}", row.letter.unwrap(), row.name)).collect::<Vec<_>>()
    };
    let wanted =
        ["M Meta data", "X catalog", "H hot", "X metabase", "L pg_wal", "L redo log", "X templates", "X temporal"];
    assert_eq!(letters(By::Class, &rules), wanted);
    // A directory or a process is no class, whatever its name.
    let mut names = Names::default();
    let request = Request { path: names.paths.number("wal/1"), ..Request::new(0, Op::Write, 0, BLOCK) };
    let marked = Request { flags: crate::Flags::META, ..Request::new(1, Op::Write, BLOCK, BLOCK) };
    let row = |by| {
        let mut analysis = Analysis::new(&Options { by, ..Options::default() });
        analysis.add(&[request, marked], &names, knows);
        let mut rows = analysis.finish(&names).rows;
        rows.sort_by(|a, b| a.name.cmp(&b.name));
        rows.into_iter().map(|row| (row.name, row.letter.unwrap())).collect::<Vec<_>>()
    };
    assert_eq!(row(By::Directory), [("not known".to_owned(), 'X'), ("wal".to_owned(), 'X')]);
    assert_eq!(row(By::Class), [("cold".to_owned(), 'X'), ("metadata".to_owned(), 'M')]);
}

#[test]
fn rows_are_levels_where_these_are_reported() {
    let mut names = Names::default();
    let mut write = |at: u64, path: &str| Request {
        path: names.paths.number(path),
        ..Request::new(at, Op::Write, at * BLOCK, BLOCK)
    };
    let mut requests = vec![
        write(0, "db/000009.sst"),
        write(1, "db/000010.sst"),
        write(2, "db/000011.sst"),
        write(3, "db/000012.log"),
        write(4, ""),
        write(5, ""),
    ];
    requests[5].flags = crate::Flags::META;
    // A later read whose file is known.
    requests.push(Request { op: Op::Read, ..requests[0] });
    names.levels.set(requests[0].path, 0);
    names.levels.set(requests[1].path, 4);
    let knows = Knows { op: true, file: true, flags: true, ..Knows::default() };
    let rows = |by, rules: &[(&str, &str)]| {
        let parsed = |&(class, rule): &(&str, &str)| (class.to_owned(), forebay_prism::Rule::parse(rule).unwrap());
        let rules = rules.iter().map(parsed).collect();
        let mut analysis = Analysis::new(&Options { by, rules, ..Options::default() });
        analysis.add(&requests, &names, knows);
        let mut rows: Vec<_> =
            analysis.finish(&names).rows.into_iter().map(|row| (row.name, row.writes, row.reads)).collect();
        rows.sort_unstable();
        rows
    };
    let row = |name: &str, writes, reads| (name.to_owned(), writes, reads);
    let wanted = [
        row("level 0", 1, 1),
        row("level 4", 1, 0),
        row("level not known", 1, 0),
        row("no table", 2, 0),
        row("not known", 1, 0),
    ];
    assert_eq!(rows(By::Level, &[]), wanted);
    let found = rows(By::Level, &[("upper", "rocksdb.level<4"), ("log", "ext:log")]);
    assert_eq!(found[..3], [row("level 4", 1, 0), row("level not known", 1, 0), row("log", 1, 0)]);
    assert_eq!(found[5], row("upper", 1, 1));
    // A file without a level is neither below nor above one.
    let found = rows(By::Class, &[("upper", "rocksdb.level<4"), ("lower", "rocksdb.level>3")]);
    assert_eq!(found, [row("cold", 3, 0), row("lower", 1, 0), row("metadata", 1, 0), row("upper", 1, 1)]);
}

#[test]
fn what_rules_ask_for_and_no_request_tells_is_named() {
    let mut names = Names::default();
    let wal = names.paths.number("000007.log");
    let requests =
        [Request::new(0, Op::Write, 0, BLOCK), Request { path: wal, ..Request::new(1, Op::Write, BLOCK, BLOCK) }];
    let texts =
        ["path:a", "ext:log & !(sequential>=1MiB | fs.journal)", "cgroup:x | sequential>=1MiB", "!export:0", "wlth:1"];
    let rules = texts.map(|text| ("it".to_owned(), forebay_prism::Rule::parse(text).unwrap())).to_vec();
    let unknown = |requests: &[Request], knows| {
        let mut analysis = Analysis::new(&Options { rules: rules.clone(), ..Options::default() });
        analysis.add(requests, &names, knows);
        let report = analysis.finish(&names);
        assert!(report.rows.iter().all(|row| row.name != "it"), "nothing is known to be otherwise");
        report.unknown
    };
    let (file, hints) =
        (Knows { op: true, file: true, ..Knows::default() }, Knows { lifetime: true, ..Knows::default() });
    let never = ["sequential:ge:1048576", "fs.journal", "cgroup:x", "export:0"];
    assert_eq!(unknown(&requests, file), [&never[..], &["wlth:eq:1"]].concat());
    assert_eq!(unknown(&requests, hints), never);
    assert_eq!(unknown(&requests[..1], hints), [&["path:a", "extension:log"][..], &never[..]].concat());
}

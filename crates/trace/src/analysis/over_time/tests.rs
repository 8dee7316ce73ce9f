use crate::analysis::{Analysis, Options, OverTime, Report, VolumeMap};
use crate::{Knows, Names, Op, Request};
use proptest::prelude::*;
use std::collections::BTreeSet;

const BLOCK: u64 = 4096;
const MIB: u64 = 1 << 20;

fn analysed(options: &Options, has_times: bool, requests: &[Request]) -> Report {
    let names = Names::default();
    let mut analysis = Analysis::new(options);
    let knows = Knows { op: true, time: has_times, ..Knows::default() };
    requests.chunks(7).for_each(|requests| analysis.add(requests, &names, knows));
    analysis.finish(&names)
}

fn over_time(requests: &[Request]) -> OverTime {
    analysed(&Options::default(), true, requests).over_time
}

fn only_map(found: &OverTime) -> &VolumeMap {
    let [map] = found.volumes.as_deref().unwrap() else { panic!("one volume: {found:?}") };
    map
}

fn write(at: u64, offset: u64, len: u64) -> Request {
    Request::new(at, Op::Write, offset, len)
}

/// Bytes of all operations in `ops`.
fn moved(report: &Report, ops: &[&str]) -> u64 {
    report.operations.iter().filter(|operation| ops.contains(&operation.op)).map(|operation| operation.bytes).sum()
}

/// Checks that sums over slices, regions and cells are the totals of the trace.
fn sums_are_totals(report: &Report) {
    let found = &report.over_time;
    let (read, written) = (moved(report, &["read", "access"]), moved(report, &["write"]));
    let requests: u64 = report.operations.iter().map(|operation| operation.requests).sum();
    let slices = |of: fn(&super::Slice) -> u64| found.slices.iter().map(of).sum::<u64>();
    assert_eq!(slices(|slice| slice.requests), requests);
    assert_eq!((slices(|slice| slice.reads.moved_bytes), slices(|slice| slice.writes.moved_bytes)), (read, written));
    assert_eq!(slices(|slice| slice.all.moved_bytes), read + written);
    let maps = found.volumes.as_deref().unwrap();
    let cells = || maps.iter().flat_map(|map| &map.cells);
    assert_eq!((cells().map(|cell| cell.2).sum::<u64>(), cells().map(|cell| cell.3).sum::<u64>()), (read, written));
    let regions = || maps.iter().flat_map(|map| &map.regions);
    let sums = (regions().map(|region| region.read_bytes).sum(), regions().map(|region| region.written_bytes).sum());
    assert_eq!(sums, (read, written));
    assert!(found.slices.len() <= 64 && maps.len() <= 16 && maps.iter().all(|map| map.regions.len() <= 64));
    assert!(cells().all(|cell| cell.0 < found.slices.len()));
}

#[test]
fn a_hot_spot_that_moves_is_where_it_was_when_it_was_there() {
    // Writes 1 MiB of 64 MiB again and again for 16 ms, then the next; reads of both ends show how large the disk is.
    let mut requests = vec![Request::new(0, Op::Read, 0, BLOCK), Request::new(0, Op::Read, 64 * MIB - BLOCK, BLOCK)];
    for at in 0..64 * 256_u64 {
        requests.push(write(at << 16, at / 256 * MIB + at % 256 * BLOCK, BLOCK));
    }
    let report = analysed(&Options::default(), true, &requests);
    sums_are_totals(&report);
    let found = &report.over_time;
    assert_eq!((found.slice_ns, found.slice_requests, found.slices.len()), (Some(1 << 24), None, 64));
    let map = only_map(found);
    assert_eq!((map.region_bytes, map.regions.len()), (MIB, 64));
    let hot: Vec<(usize, usize, u64)> =
        map.cells.iter().filter(|cell| cell.3 > 0).map(|cell| (cell.0, cell.1, cell.3)).collect();
    assert_eq!(hot, (0..64).map(|at| (at, at, MIB)).collect::<Vec<_>>());
    for slice in &found.slices[1..] {
        assert_eq!(
            (slice.writes.blocks, slice.writes.new_blocks),
            (Some(256), Some(if slice.begin == 63 << 24 { 255 } else { 256 }))
        );
    }
}

#[test]
fn a_scan_is_new_at_first_and_known_when_it_comes_again() {
    let scan = |from: u64| (0..4096_u64).map(move |at| Request::new(from + at, Op::Read, at * BLOCK, BLOCK));
    let found = over_time(&scan(0).chain(scan(4096)).collect::<Vec<_>>());
    assert_eq!((found.slice_ns, found.slices.len()), (Some(128), 64));
    for (at, slice) in found.slices.iter().enumerate() {
        let new = if at < 32 { 128 } else { 0 };
        assert_eq!(
            (slice.reads.blocks, slice.reads.block_bytes, slice.reads.new_blocks),
            (Some(128), Some(128 * BLOCK), Some(new))
        );
        assert_eq!((slice.all.blocks, slice.writes.blocks), (Some(128), Some(0)));
    }
    let map = only_map(&found);
    assert_eq!(map.cells.len(), 128 * 64 * BLOCK as usize / map.region_bytes as usize, "a diagonal, twice");
}

#[test]
fn two_phases_have_their_own_working_sets() {
    // First among 1,000 random blocks and then among 10; one access in three is a read.
    let mut state = 1_u64;
    let requests: Vec<Request> = (0..60_000_u64)
        .map(|at| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let block = (state >> 33) % if at < 30_000 { 1000 } else { 10 };
            let op = if at % 3 == 0 { Op::Read } else { Op::Write };
            Request::new(at * 1000, op, block * BLOCK, BLOCK)
        })
        .collect();
    let found = over_time(&requests);
    let half = 30_000_000 / found.slice_ns.unwrap();
    let (first, last) = (&found.slices[..half as usize], &found.slices[half as usize + 1..]);
    assert!(first.len() > 20 && last.len() > 20);
    assert!(first.iter().all(|slice| slice.all.blocks.unwrap() > 500 && slice.reads.blocks < slice.writes.blocks));
    assert_eq!(first.iter().map(|slice| slice.all.new_blocks.unwrap()).sum::<u64>(), 1000);
    let whole = &last[..last.len() - 1];
    assert!(whole.iter().all(|slice| slice.all.blocks == Some(10) && slice.all.new_blocks == Some(0)));
    assert!(whole.iter().all(|slice| slice.reads.blocks == Some(10) && slice.writes.blocks == Some(10)));
}

#[test]
fn hostile_traces_have_slices_and_regions_too() {
    let nothing = over_time(&[]);
    assert_eq!((nothing.slices.len(), nothing.volumes), (0, Some(Vec::new())));
    let one = over_time(&[write(u64::MAX, 12_345, 1)]);
    assert_eq!((one.slices.len(), one.slices[0].writes.blocks, one.slices[0].begin), (1, Some(1), 0));
    assert_eq!(only_map(&one).cells, [(0, 0, 0, 1)]);
    // Flushes and discards transfer no data.
    let empty = over_time(&[Request::new(5, Op::Flush, 0, 0), Request::new(9, Op::Discard, 0, MIB)]);
    assert_eq!((empty.slices.len(), empty.volumes), (5, Some(Vec::new())));
    assert!(empty.slices.iter().all(|slice| slice.all.blocks == Some(0)));
    // From one end of time and of the disk to the other; a request beyond them is left out of all figures.
    let end = BLOCK << 44;
    let requests = [
        write(0, 0, BLOCK),
        write(u64::MAX, end - BLOCK, BLOCK),
        write(u64::MAX, u64::MAX - 100, 50),
        write(u64::MAX, u64::MAX, u64::MAX),
        write(u64::MAX, end - 1, 2),
        Request { volume: u32::MAX, ..write(u64::MAX, 0, BLOCK) },
    ];
    let report = analysed(&Options::default(), true, &requests);
    sums_are_totals(&report);
    assert_eq!(report.absurd, 4);
    let found = &report.over_time;
    assert_eq!((found.slice_ns, found.slices.len(), found.slices[63].requests), (Some(1 << 58), 64, 1));
    assert_eq!(only_map(found).cells, [(0, 0, 0, BLOCK), (63, 63, 0, BLOCK)]);
    // All times are 0; then times go back.
    let still = over_time(&[write(0, 0, BLOCK), write(0, 0, BLOCK), write(0, BLOCK, BLOCK)]);
    assert_eq!((still.slices.len(), still.slices[0].writes.blocks, still.slices[0].requests), (1, Some(2), 3));
    let back = [write(1000, 0, BLOCK), write(10, 0, BLOCK), write(0, BLOCK, BLOCK), write(1003, 0, BLOCK)];
    let found = over_time(&back);
    assert_eq!(found.slices.iter().map(|slice| slice.requests).collect::<Vec<_>>(), [3, 0, 0, 1]);
    assert_eq!((found.slices[0].writes.blocks, found.slices[3].writes.new_blocks), (Some(2), Some(0)));
}

#[test]
fn without_times_slices_are_of_requests() {
    let requests: Vec<Request> = (0..1000).map(|at| write(0, at % 5 * BLOCK, BLOCK)).collect();
    let report = analysed(&Options::default(), false, &requests);
    sums_are_totals(&report);
    let found = &report.over_time;
    assert_eq!((found.slice_ns, found.slice_requests, found.slices.len()), (None, Some(16), 63));
    assert!(found.slices[..62].iter().all(|slice| slice.requests == 16 && slice.writes.blocks == Some(5)));
    assert!(report.rows.iter().all(|row| row.life_ns.is_none()), "nor are there lives in nanoseconds");
}

#[test]
fn volumes_beyond_some_share_a_map() {
    let requests: Vec<Request> = (0..40)
        .map(|volume| Request { volume, ..write(u64::from(volume), 0, BLOCK * u64::from(volume + 1)) })
        .collect();
    let report = analysed(&Options::default(), true, &requests);
    sums_are_totals(&report);
    let maps = report.over_time.volumes.unwrap();
    assert_eq!(maps.len(), 16);
    assert!(maps[..15].iter().all(|map| map.volume.is_some()) && maps[15].volume.is_none());
    assert_eq!(maps[0].moved_bytes(), 15 * BLOCK, "those with most bytes are first");
}

#[test]
fn what_is_discarded_is_new_again() {
    let found = over_time(&[write(0, 0, BLOCK), Request::new(1, Op::Discard, 0, BLOCK), write(2, 0, BLOCK)]);
    let new: Vec<Option<u64>> = found.slices.iter().map(|slice| slice.writes.new_blocks).collect();
    assert_eq!(new, [Some(1), Some(0), Some(1)]);
}

#[test]
fn a_sample_estimates_blocks_and_says_where_it_knows_none() {
    let mut state = 1_u64;
    let mut requests: Vec<Request> = (0..200_000_u64)
        .map(|at| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            write(at * 1000, (state >> 33) % 100_000 * BLOCK, BLOCK)
        })
        .collect();
    // Much later: one block that is not followed.
    requests.push(Request::new(2_000_000_000, Op::Read, 200_001 * BLOCK, BLOCK));
    let exact = analysed(&Options::default(), true, &requests).over_time;
    let report = analysed(&Options { sample_halvings: 3, ..Options::default() }, true, &requests);
    sums_are_totals(&report);
    assert_eq!(report.one_block_in, 8);
    let sampled = report.over_time;
    assert_eq!(sampled.volumes, exact.volumes, "bytes are exact always");
    for (exact, sampled) in
        exact.slices.iter().zip(&sampled.slices).filter(|(exact, _)| exact.writes.blocks > Some(10_000))
    {
        let off = sampled.writes.blocks.unwrap() as f64 / exact.writes.blocks.unwrap() as f64;
        assert!((off - 1.0).abs() < 0.1, "{off}");
    }
    let last = sampled.slices.last().unwrap();
    assert_eq!((last.reads.moved_bytes, last.reads.blocks, last.reads.new_blocks), (BLOCK, None, None));
    assert_eq!(last.writes.blocks, Some(0), "nothing was written, and that is known");
}

proptest! {
    /// Slices compared with sets of blocks, and sums with totals.
    #[test]
    fn slices_are_those_of_sets(
        steps in proptest::collection::vec((0_u8..10, 0_u64..1 << 20, 0_u64..30_000, 0_u32..14, 0_u32..20), 1..200),
    ) {
        let mut now = 0;
        let requests: Vec<Request> = steps
            .iter()
            .map(|&(what, offset, len, gap, volume)| {
                now += (1_u64 << gap) - 1;
                let op = match what { 0..4 => Op::Write, 4..7 => Op::Read, 7 => Op::Access, 8 => Op::Flush, _ => Op::WriteZeroes };
                // Zeroes are written beside all data: their effect on blocks is tested elsewhere.
                let offset = if op == Op::WriteZeroes { 1 << 40 } else { offset };
                let len = if op == Op::Flush { 0 } else { len };
                Request { volume, ..Request::new(now, op, offset, len) }
            })
            .collect();
        let report = analysed(&Options::default(), true, &requests);
        sums_are_totals(&report);
        let found = &report.over_time;
        let len = found.slice_ns.unwrap();
        prop_assert!(len == 1 || found.slices.len() > 32, "no longer than they must be");
        let mut known = BTreeSet::new();
        for (at, slice) in found.slices.iter().enumerate() {
            prop_assert_eq!(slice.begin, at as u64 * len);
            let begin_ns = requests[0].issued_ns;
            let here = || requests.iter().filter(|request| (request.issued_ns - begin_ns) / len == at as u64 && request.len_bytes > 0);
            let (mut read, mut written, mut new) = (BTreeSet::new(), BTreeSet::new(), [0, 0]);
            for request in here() {
                let set = match request.op {
                    Op::Write => &mut written,
                    Op::Read | Op::Access => &mut read,
                    _ => continue,
                };
                for block in request.offset_bytes / BLOCK..request.end_bytes().div_ceil(BLOCK) {
                    set.insert((request.volume, block));
                    new[usize::from(request.op == Op::Write)] += u64::from(known.insert((request.volume, block)));
                }
            }
            let count = |set: &BTreeSet<_>| Some(set.len() as u64);
            prop_assert_eq!((slice.reads.blocks, slice.writes.blocks), (count(&read), count(&written)));
            prop_assert_eq!(slice.all.blocks, count(&read.union(&written).copied().collect()));
            prop_assert_eq!((slice.reads.new_blocks, slice.writes.new_blocks), (Some(new[0]), Some(new[1])));
            prop_assert_eq!(slice.all.new_blocks, Some(new[0] + new[1]));
        }
    }
}

//! Lives that aim at one window each: small geometry, so that it opens often, and requests of one kind held back, so that
//! it stays open. Each goes after what 2 million lives of a little of everything had not met.

use super::kind::Kind;
use super::pick::pick;
use super::round::{End, Round, Wound};
use super::shape::{Shape, blocks_that_fit};
use super::step::{LEAF_BLOCKS, Step};
use crate::device::AfterDiscard;
use crate::fault::{Fault, FaultKind};
use crate::order::{Hold, Region, What};
use forebay_block::{Geometry, Random};
use forebay_volume::layout::plan::{PoolOptions, plan};
use forebay_volume::layout::superblock::HEAD_BYTES;

/// Class of an export: everything to the capacity tier, or everything to stay on the fast one.
const BULK: Option<u8> = Some(5);
const PINNED: Option<u8> = Some(1);

/// Bytes of a fast device that has about `slots` slots.
fn fast_bytes(shape: &Shape, slots: u64) -> u64 {
    let of = |size_bytes: u64| Geometry {
        size_bytes,
        logical_block_bytes: 512,
        optimal_band_bytes: None,
        volatile_cache: true,
        durable_writes: true,
        discards: false,
    };
    let options = PoolOptions {
        name: "simulated".into(),
        band_bytes: Some(shape.band_bytes),
        journal_bytes: Some(shape.journal_bytes),
    };
    let capacity: Vec<Geometry> = shape.capacity_device_bytes().into_iter().map(of).collect();
    let ids = vec![[1; 16]; capacity.len() + 1];
    let probe_bytes = 8 << 20;
    let probed = plan(&options, &of(probe_bytes), &capacity, [7; 16], &ids).map_or(0, |superblock| superblock.slots);
    // Tables of the root shrink with the device: a few slots more come of that.
    probe_bytes - probed.saturating_sub(slots) * 4096
}

/// Bytes of a capacity device of so many bands.
fn bands(count: u64, band_bytes: u64) -> u64 {
    HEAD_BYTES.next_multiple_of(band_bytes) + count * band_bytes + 8192
}

/// The geometry of such a life.
pub(super) fn shape(any: Shape, random: &mut Random) -> Shape {
    let kind = any.kind;
    // Discontiguous leaves of the map are what paging is about.
    let leaves = match kind {
        Kind::Reusing => 12 + random.below(8),
        Kind::Unmapping => 12 + random.below(12),
        Kind::Talking => 24 + random.below(40),
        _ => 1 + random.below(3),
    };
    let base = Shape {
        leaves,
        disk_bytes: (leaves * LEAF_BLOCKS * 4096).max(16 << 20),
        journal_bytes: 128 << 10,
        sector_bytes: pick(random, &[[512, 512], [512, 512], [4096, 4096]]),
        is_modelled: false,
        unflushed_limit_bytes: 4 << 20,
        discards: true,
        ..any
    };
    let of = |band_bytes: u64, capacity: &[u64], slots: u64, base: Shape| {
        let capacity_bytes = capacity.iter().map(|&count| bands(count, band_bytes)).collect();
        let shape = Shape { band_bytes, capacity_bytes, ..base };
        Shape { fast_bytes: fast_bytes(&shape, slots), ..shape }
    };
    match kind {
        Kind::Overtaking => Shape {
            is_volatile: pick(random, &[[false, true], [false, true], [false, true], [false, true], [true, true]]),
            frames: 16,
            job_blocks: pick(random, &[4, 24]),
            destage_above_percent: pick(random, &[1, 40]),
            bypass_below_percent: pick(random, &[5, 40]),
            blocks: 3 + random.below(16),
            ..of(pick(random, &[16 << 10, 16 << 10, 32 << 10]), &[24 + random.below(16)], 70 + random.below(60), base)
        },
        Kind::Reusing => Shape {
            is_volatile: pick(random, &[[false, true], [false, true], [false, false], [true, true]]),
            frames: pick(random, &[8, 12, 14]),
            // More than a leaf's worth, and late: what waits to be destaged lies in leaves that are no longer in memory.
            job_blocks: 2048,
            journal_bytes: 256 << 10,
            destage_above_percent: pick(random, &[30, 40, 50, 60]),
            bypass_below_percent: 1,
            blocks: 2 + random.below(7),
            ..of(64 << 10, &[24], 70 + random.below(40), Shape { journal_bytes: 256 << 10, ..base })
        },
        Kind::Rotting | Kind::Misreading => {
            let shape = Shape {
                frames: 16,
                job_blocks: pick(random, &[4, 24, 64]),
                destage_above_percent: pick(random, &[1, 5, 40]),
                bypass_below_percent: 5,
                ..of(pick(random, &[16 << 10, 32 << 10]), &[22 + random.below(8)], 70 + random.below(60), base)
            };
            // As many as fit: collection is always due.
            let fitting = blocks_that_fit(shape.band_bytes, &shape.capacity_bytes);
            Shape { blocks: (fitting / shape.leaves).max(1), ..shape }
        }
        Kind::Growing => Shape {
            frames: pick(random, &[8, 16]),
            blocks: 4 + random.below(12),
            ..of(32 << 10, &[24], 90 + random.below(60), base)
        },
        Kind::Unmapping => Shape {
            is_volatile: pick(random, &[[false, true], [true, true], [false, false]]),
            frames: pick(random, &[5, 8, 12]),
            job_blocks: pick(random, &[1, 3, 8]),
            destage_above_percent: 1,
            bypass_below_percent: 5,
            blocks: 1 + random.below(4),
            ..of(pick(random, &[8 << 10, 8 << 10, 16 << 10]), &[60], 80 + random.below(60), base)
        },
        Kind::Many => Shape {
            is_volatile: pick(random, &[[true, true], [true, true], [false, true]]),
            frames: pick(random, &[8, 16]),
            destage_above_percent: pick(random, &[1, 40]),
            blocks: 4 + random.below(20),
            ..of(16 << 10, &vec![4; 28 + random.index(4)], 120 + random.below(60), base)
        },
        Kind::Forgetting => Shape {
            is_volatile: pick(random, &[[true, true], [true, true], [false, true], [true, false]]),
            frames: pick(random, &[8, 16]),
            job_blocks: pick(random, &[4, 24]),
            destage_above_percent: pick(random, &[5, 40, 75]),
            blocks: 4 + random.below(16),
            durable_writes: random.chance(1, 2),
            ..of(pick(random, &[16 << 10, 32 << 10]), &[24, 8], 90 + random.below(100), base)
        },
        _ => Shape { frames: 64, blocks: 1 + random.below(3), ..of(32 << 10, &[40], 400, base) },
    }
}

fn hold(device: usize, what: What, region: Option<Region>, random: &mut Random) -> Hold {
    Hold {
        device,
        what,
        region,
        skip: random.below(40) as u32,
        count: pick(random, &[1, 1, 2, 8]),
        hold_ns: pick(random, &[200_000, 2_000_000, 20_000_000]),
        is_early: random.chance(1, 4),
    }
}

/// What is held back in lives of a kind; each of these some times.
fn holds(kind: Kind, random: &mut Random, devices: usize) -> Vec<Hold> {
    use Region::{Data, Header, Journal, Page, Root, Summary};
    use What::{Discard, Flush, Read, Write};
    let wanted: &[(bool, What, Option<Region>)] = match kind {
        Kind::Overtaking => &[
            (true, Write, Some(Journal)),
            (true, Write, Some(Journal)),
            (true, Write, Some(Data)),
            (false, Write, Some(Data)),
            (false, Flush, None),
        ],
        Kind::Reusing => &[
            (true, Read, Some(Page)),
            (true, Read, Some(Page)),
            (true, Read, Some(Page)),
            (true, Write, Some(Data)),
            (true, Write, Some(Data)),
            (true, Read, Some(Data)),
        ],
        Kind::Rotting | Kind::Misreading => &[
            (false, Read, Some(Data)),
            (false, Flush, None),
            (false, Write, Some(Data)),
            (true, Write, Some(Journal)),
            (true, Write, Some(Root)),
        ],
        Kind::Growing => &[
            (true, Write, Some(Root)),
            (true, Write, Some(Root)),
            (true, Write, Some(Header)),
            (true, Write, Some(Page)),
            (true, Flush, None),
        ],
        Kind::Unmapping => &[
            (false, Write, Some(Data)),
            (false, Flush, None),
            (true, Read, Some(Page)),
            (true, Write, Some(Root)),
            (true, Write, Some(Header)),
        ],
        _ => &[
            (true, Write, Some(Journal)),
            (true, Write, Some(Page)),
            (false, Write, Some(Data)),
            (false, Write, Some(Summary)),
            (false, Flush, None),
            (false, Discard, None),
        ],
    };
    let mut holds = Vec::new();
    for &(is_fast, what, region) in wanted {
        for _ in 0..random.below(3) {
            let device = if is_fast { 0 } else { 1 + random.index(devices - 1) };
            holds.push(hold(device, what, region, random));
        }
    }
    holds
}

/// What fails in lives of a kind.
fn faults(kind: Kind, random: &mut Random, devices: usize) -> Vec<Fault> {
    use FaultKind::{DeadSector, Misread, ReadError, WriteError};
    let fault = |kind, is_fast, region, skip, counts: &[u32], random: &mut Random| Fault {
        kind,
        device: if is_fast { 0 } else { 1 + random.index(devices - 1) },
        region: Some(region),
        skip: random.below(skip) as u32,
        count: pick(random, counts),
    };
    match kind {
        // One, as a second reading is all that can be asked for.
        Kind::Misreading => {
            let (is_fast, region, skip) = pick(
                random,
                &[
                    (false, Region::Data, 30),
                    (false, Region::Data, 30),
                    (true, Region::Data, 30),
                    (true, Region::Page, 4),
                    (false, Region::Summary, 6),
                ],
            );
            vec![fault(Misread, is_fast, region, skip, &[1], random)]
        }
        Kind::Rotting if random.chance(1, 4) => vec![fault(DeadSector, false, Region::Summary, 6, &[1, 2], random)],
        Kind::Growing => {
            let region = pick(random, &[Region::Root, Region::Header]);
            vec![fault(WriteError, true, region, 4, &[1, 2, 4, 12], random)]
        }
        Kind::Unmapping if random.chance(1, 2) => vec![fault(ReadError, true, Region::Page, 40, &[1, 1, 2, 4], random)],
        _ => Vec::new(),
    }
}

/// A block, more often one of a few that are hot; and the blocks from it to the end of its leaf's working set.
fn block(shape: &Shape, random: &mut Random) -> (u64, u64) {
    let leaf = if random.chance(1, 2) { random.below(2).min(shape.leaves - 1) } else { random.below(shape.leaves) };
    let hot = (shape.blocks / 3).max(1);
    let within = if random.chance(3, 4) { random.below(hot) } else { random.below(shape.blocks) };
    (leaf * LEAF_BLOCKS + within, shape.blocks - within)
}

fn write(block: u64, blocks: u64, fua: bool, class: Option<u8>) -> Step {
    Step::Write { sector: block * 8, sectors: blocks * 8, fua, class, zeros: false }
}

fn hold_now(device: usize, what: What, region: Region, count: u32, hold_ns: u64) -> Step {
    Step::Hold(Hold { device, what, region: Some(region), skip: 0, count, hold_ns, is_early: false })
}

/// Bands are filled and flushed; then all that lives in them is overwritten in one burst, first what is staged and ends
/// late, and then what goes to bands again: a band is emptied by a batch older than others that gave up its blocks.
fn empty_bands(shape: &Shape, random: &mut Random) -> Vec<Step> {
    let count = shape.blocks.min(9);
    let first = random.below(shape.leaves) * LEAF_BLOCKS + random.below(shape.blocks - count + 1);
    let staged = 1 + random.below(count.min(4));
    let hold_ns = pick(random, &[500_000, 2_000_000]);
    let mut steps = vec![write(first, count, false, BULK), Step::Settle, Step::Flush, Step::Settle];
    let region = pick(random, &[Region::Data, Region::Data, Region::Journal]);
    steps.push(hold_now(0, What::Write, region, staged as u32, hold_ns));
    let mut left: Vec<u64> = (first..first + count).collect();
    for at in 0..count {
        let block = left.swap_remove(random.index(left.len()));
        if at == staged {
            // What is late has a batch of its own.
            steps.push(Step::Idle(1000));
        }
        steps.push(write(block, 1, false, if at < staged { None } else { BULK }));
    }
    steps.push(Step::Idle(hold_ns + random.below(hold_ns)));
    steps
}

/// A few blocks are written again and again while a job that has taken them waits for a map page, and for the capacity
/// tier: after a round through the tier one of them is back in the slot that the job copies from.
fn lap(shape: &Shape, random: &mut Random) -> Vec<Step> {
    let page_ns = pick(random, &[30_000, 100_000]);
    let mut steps =
        vec![hold_now(0, What::Read, Region::Page, 4, page_ns), hold_now(1, What::Write, Region::Data, 4, 4_000_000)];
    for _ in 0..random.below(shape.leaves) {
        steps.push(write(random.below(shape.leaves) * LEAF_BLOCKS + random.below(shape.blocks), 1, false, None));
    }
    // The end comes anywhere in a round through the tier.
    for _ in 0..40 + random.below(80) {
        steps.push(write(random.below(shape.blocks), 1, random.chance(1, 16), None));
    }
    steps.push(Step::Idle(8_000_000));
    steps
}

/// Blocks of one leaf are staged and destaged slowly, while other leaves are touched until that one is no longer in
/// memory; then it cannot be read.
fn lose_leaf(shape: &Shape, random: &mut Random) -> Vec<Step> {
    let leaf = random.below(shape.leaves);
    let mut steps = vec![
        hold_now(1, What::Write, Region::Data, 1 + random.below(8) as u32, 2_000_000),
        write(leaf * LEAF_BLOCKS, shape.blocks, random.chance(1, 2), None),
        Step::Checkpoint,
    ];
    for _ in 0..3 + random.below(12) {
        let other = random.below(shape.leaves) * LEAF_BLOCKS + random.below(shape.blocks);
        steps.push(Step::Read { sector: other * 8, sectors: 8 });
    }
    steps.push(Step::Settle);
    steps.push(Step::Fail(Fault {
        kind: FaultKind::ReadError,
        device: 0,
        region: Some(Region::Page),
        skip: random.below(2) as u32,
        count: 1 + random.below(3) as u32,
    }));
    steps.push(hold_now(0, What::Write, Region::Root, 4, 20_000_000));
    steps.push(Step::Idle(pick(random, &[1_000_000, 4_000_000])));
    steps
}

/// A flush of hosts, of a job or of a checkpoint fails, with requests in flight beside it; some of what it covered may
/// fail to be written again. After a while flushes are good again, and the power may fail at any time from then on.
fn fail_flush(shape: &Shape, random: &mut Random) -> Vec<Step> {
    let devices = 1 + shape.capacity_bytes.len();
    let mut steps = Vec::new();
    let writes = |steps: &mut Vec<Step>, random: &mut Random| {
        for _ in 0..random.below(6) {
            let (first, left) = block(shape, random);
            let class = pick(random, &[BULK, None, None]);
            steps.push(write(first, (1 + random.below(4)).min(left), random.chance(1, 8), class));
        }
    };
    writes(&mut steps, random);
    if random.chance(1, 2) {
        steps.push(Step::Settle);
    }
    for _ in 0..1 + random.below(2) {
        let (skip, count) = (random.below(3) as u32 / 2, pick(random, &[1, 1, 2, 3]));
        let fault = Fault { kind: FaultKind::FlushError, device: random.index(devices), region: None, skip, count };
        steps.push(Step::Fail(fault));
    }
    if random.chance(1, 4) {
        // A durable write is what hears of it instead of the last of these flushes: a host's, or that of a root header.
        let device = random.index(devices);
        let is_header = random.chance(1, 2);
        let (device, region) = match device {
            _ if is_header => (0, Region::Header),
            0 => (0, Region::Journal),
            _ => (device, Region::Data),
        };
        let (kind, skip) = (FaultKind::WriteError, random.below(2) as u32);
        steps.pop();
        steps.push(Step::Fail(Fault { kind, device, region: Some(region), skip, count: 1 }));
        let (first, _) = block(shape, random);
        steps.push(if is_header { Step::Checkpoint } else { write(first, 1, true, pick(random, &[BULK, None])) });
    }
    steps.push(pick(random, &[Step::Flush, Step::Flush, Step::Checkpoint]));
    writes(&mut steps, random);
    if random.chance(1, 6) {
        let device = random.index(devices);
        let region = Some(pick(random, &[Region::Data, Region::Journal, Region::Page]));
        steps.push(Step::Idle(90_000_000));
        steps.push(Step::Fail(Fault { kind: FaultKind::WriteError, device, region, skip: 0, count: 1 }));
    }
    steps.push(Step::Idle(pick(random, &[50_000, 101_000_000, 400_000_000, 2_000_000_000])));
    writes(&mut steps, random);
    steps.push(Step::Flush);
    steps
}

/// What a collection reads or writes takes long.
fn collect_slowly(random: &mut Random) -> Vec<Step> {
    let what = pick(random, &[What::Read, What::Write]);
    vec![hold_now(1, what, Region::Data, 1 + random.below(4) as u32, pick(random, &[500_000, 2_000_000]))]
}

/// What happens one after the other, at one time of a round.
fn steps(shape: &Shape, at: u64, connections: u64, random: &mut Random) -> Vec<Step> {
    match shape.kind {
        Kind::Overtaking if random.chance(1, 8) => empty_bands(shape, random),
        Kind::Unmapping if random.chance(1, 8) => lose_leaf(shape, random),
        Kind::Reusing if random.chance(1, 8) => lap(shape, random),
        Kind::Forgetting if at > 0 && random.chance(1, 8) => fail_flush(shape, random),
        Kind::Rotting if at > 0 && random.chance(1, 12) => collect_slowly(random),
        Kind::Rotting if at > 0 && random.chance(1, 12) => vec![Step::Mend { nth: random.below(64) as u32 }],
        _ => vec![step(shape, at, connections, random)],
    }
}

fn step(shape: &Shape, at: u64, connections: u64, random: &mut Random) -> Step {
    let kind = shape.kind;
    let (first, left) = block(shape, random);
    let sector = first * 8;
    let blocks = (1 + random.below(4)).min(left);
    let is_second = kind == Kind::Growing && random.chance(1, 2);
    if is_second {
        return match random.below(6) {
            0 => Step::DiskNow { blocks: pick(random, &[8, 50, 420, 900]) },
            1 => Step::Flush,
            _ => Step::WriteNow {
                block: random.below(8) + pick(random, &[0, 0, 40, 400]),
                blocks: 1 + random.below(2),
                fua: random.chance(1, 2),
            },
        };
    }
    let class = match kind {
        Kind::Overtaking | Kind::Many => pick(random, &[BULK, BULK, None]),
        Kind::Reusing | Kind::Unmapping => None,
        Kind::Rotting | Kind::Misreading => pick(random, &[BULK, BULK, None]),
        _ => pick(random, &[BULK, None, None, PINNED]),
    };
    // The first round fills what later ones wear out.
    let fua_in = if at == 0 { 12 } else { pick(random, &[2, 4, 12]) };
    let fua = random.chance(1, fua_in);
    match random.below(40) {
        0 => Step::Checkpoint,
        1 | 2 => Step::Flush,
        3 => Step::Idle(pick(random, &[100_000, 2_000_000, 1_500_000_000, 11_000_000_000])),
        4 => Step::Settle,
        5 | 6 => Step::Read { sector, sectors: blocks * 8 },
        7 => Step::Clear { sector, sectors: blocks * 8, fua, is_discard: random.chance(1, 2) },
        // A part of a block: read, changed, written.
        8 => Step::Write { sector: sector + random.below(8), sectors: 1, fua, class, zeros: false },
        9 => Step::Status { sector: 0, sectors: shape.disk_bytes / 512 },
        10 if connections > 1 => Step::HangUp { connection: random.below(connections) as u8 },
        11..=20 if kind == Kind::Talking => {
            let first = random.below(shape.leaves) * LEAF_BLOCKS * 8;
            let sectors = (LEAF_BLOCKS * 8 * (1 + random.below(40))).min(shape.disk_bytes / 512 - first);
            match random.below(3) {
                0 => Step::Status { sector: first, sectors },
                // Most of a leaf: ranges that are uniform over leaves come of many of these.
                1 if random.chance(1, 4) => {
                    Step::Clear { sector: first, sectors: sectors.min(LEAF_BLOCKS * 8), fua, is_discard: false }
                }
                _ => Step::Flush,
            }
        }
        _ => Step::Write { sector, sectors: blocks * 8, fua, class, zeros: false },
    }
}

/// What a round ends with: the power fails soon after it.
pub(super) fn ending(shape: &Shape, random: &mut Random) -> Vec<Step> {
    match shape.kind {
        Kind::Overtaking => empty_bands(shape, random),
        Kind::Unmapping => lose_leaf(shape, random),
        Kind::Reusing => lap(shape, random),
        Kind::Forgetting => fail_flush(shape, random),
        _ => Vec::new(),
    }
}

/// Whether devices keep their power as a round ends. Drawn for the one kind that is about it: the draws of other kinds stay
/// as they were.
pub(super) fn stays_on(shape: &Shape, random: &mut Random) -> bool {
    shape.kind == Kind::Forgetting && random.chance(1, 4)
}

/// A round of such a life.
pub(super) fn round(random: &mut Random, shape: &Shape, at: u64) -> Round {
    let kind = shape.kind;
    let devices = 1 + shape.capacity_bytes.len();
    let connections = pick(random, &[1, 2, 4]);
    let count = match kind {
        Kind::Reusing => 30 + random.below(30),
        Kind::Rotting | Kind::Misreading => 40 + random.below(80),
        _ => 20 + random.below(50),
    };
    let timings = [(1000, 1000), (1000, 20_000), (5_000, 200_000)];
    let is_faulty = at > 0 && random.chance(3, 4);
    let mut steps: Vec<Step> = (0..count).flat_map(|_| steps(shape, at, connections, random)).collect();
    steps.extend(ending(shape, random));
    let end = match random.below(12) {
        0 => End::Stop,
        1 => End::PowerCutInStop { effects: random.below(40) as u32 },
        2 | 3 => End::Rest,
        _ => End::PowerCut { effects: random.below(30) as u32 },
    };
    let kinds = &[FaultKind::DeadSector, FaultKind::Rot][..];
    let wounds = match kind {
        Kind::Rotting => (0..1 + random.below(2))
            .map(|_| Wound { device: 1, kind: pick(random, kinds), count: pick(random, &[1, 3, 8]) })
            .collect(),
        _ => Vec::new(),
    };
    Round {
        seed: random.next_u64(),
        recovery_cuts: (0..pick(random, &[0, 0, 0, 1])).map(|_| random.below(60) as u32).collect(),
        // A round through the tier takes less time than a page that is held.
        timing_ns: [pick(random, if kind == Kind::Reusing { &timings[..2] } else { &timings }), pick(random, &timings)],
        keep: if kind == Kind::Overtaking { pick(random, &[0, 0, 64]) } else { pick(random, &[0, 0, 128, 256]) },
        after_discard: pick(random, &[AfterDiscard::Zeros, AfterDiscard::Other, AfterDiscard::Old]),
        // Also a misread of what recovery verifies.
        opening_faults: if kind == Kind::Misreading && at > 0 { faults(kind, random, devices) } else { Vec::new() },
        faults: if is_faulty { faults(kind, random, devices) } else { Vec::new() },
        depth: 1 + random.index(12),
        steps,
        end,
        holds: holds(kind, random, devices),
        connections: connections as u8,
        wounds,
        rots: false,
        verify: random.chance(1, 4),
        stays_on: stays_on(shape, random),
    }
}

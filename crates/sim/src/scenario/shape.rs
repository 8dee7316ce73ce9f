//! The geometry of the pools that lives are about.

use super::kind::Kind;
use super::pick::pick;
use super::step::{ADMINISTERED_BLOCKS, LEAF_BLOCKS, SECOND_BLOCKS};
use forebay_block::{Geometry, Random};
use forebay_prism::Compress;
use forebay_volume::EngineOptions;
use forebay_volume::engine::GroupingKind;
use forebay_volume::layout::band_summary::BandShape;
use forebay_volume::layout::capacity_area::CapacityArea;
use forebay_volume::layout::superblock::HEAD_BYTES;
use forebay_volume::parity::Redundancy;

/// Largest memory that an engine of these sizes may ask for, in bytes.
const MEMORY_LIMIT_BYTES: u64 = 64 << 20;

/// A capacity tier with parity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parity {
    /// Blocks of data and of parity in a row.
    pub redundancy: Redundancy,
    /// Members that may do wrong at a time and say nothing of it. To find one takes as much parity as to do without two.
    pub liars: usize,
}

impl Parity {
    /// Members that may do wrong at a time.
    #[must_use]
    pub fn culprits(&self) -> usize {
        self.redundancy.parity - self.liars
    }
}

/// Geometry and settings of a pool.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    /// What its life is rich in.
    pub kind: Kind,
    /// Bytes of the fast device.
    pub fast_bytes: u64,
    /// Members of the fast tier that hold the same.
    pub members: u8,
    /// Bytes of each capacity device.
    pub capacity_bytes: Vec<u64>,
    /// Several devices with parity are the one of these.
    pub parity: Option<Parity>,
    /// Band in bytes.
    pub band_bytes: u64,
    /// Journal in bytes.
    pub journal_bytes: u64,
    /// Logical block of the fast device, and of the capacity devices.
    pub sector_bytes: [u32; 2],
    /// Whether the fast device, and the capacity devices, have a volatile cache.
    pub is_volatile: [bool; 2],
    /// Whether devices make durable writes durable themselves, and the system need not flush behind them.
    pub durable_writes: bool,
    /// Whether the capacity devices take discards.
    pub discards: bool,
    /// Bytes of the first disk.
    pub disk_bytes: u64,
    /// Leaves of the map that may be resident.
    pub frames: usize,
    /// Blocks of one destage or collection job.
    pub job_blocks: u32,
    /// See `EngineOptions`.
    pub destage_above_percent: u64,
    /// See `EngineOptions`.
    pub bypass_below_percent: u64,
    /// See `EngineOptions`.
    pub unflushed_limit_bytes: u64,
    /// Leaves that requests go to.
    pub leaves: u64,
    /// Blocks of each that they go to.
    pub blocks: u64,
    /// Requests take as long as modelled SSDs take for them.
    pub is_modelled: bool,
    /// The caches of capacity devices are the server's own memory, and the server dies where otherwise the power fails: the fast device keeps its power.
    pub is_over_bucket: bool,
}

/// Blocks that requests may touch so that all of them fit at once: part of what the capacity tier can promise.
pub(super) fn blocks_that_fit(band_bytes: u64, capacity_bytes: &[u64]) -> u64 {
    let bands: u64 = capacity_bytes.iter().map(|bytes| bytes / band_bytes).sum();
    // A block of each band holds its summary, some bands are the collector's reserve, and ends of devices are lost.
    let usable = bands.saturating_sub((bands * 7 / 100).max(2) + 3);
    usable * (band_bytes / 4096 - 2) * 8 / 10
}

/// What lies on a member of a tier with parity before its rows: what all have alike, and the log.
const MEMBER_HEAD_BYTES: u64 = 2 << 20;

/// What roots take of the fast device beyond what shapes say: these count slots.
pub(in crate::scenario) const ROOTS_BYTES: u64 = 240 << 10;

impl Shape {
    /// Sizes of the capacity devices in bytes. What the first holds for the capacity tier to be opened alone comes on top
    /// of what shapes say: they count bands.
    pub(super) fn capacity_device_bytes(&self) -> Vec<u64> {
        let start = |head_bytes: u64| head_bytes.next_multiple_of(self.band_bytes.min(1 << 20));
        let all_bytes = self.capacity_bytes.iter().sum::<u64>();
        // With those that the area itself could be.
        let bands = all_bytes / self.band_bytes + 16;
        let area = CapacityArea::plan(HEAD_BYTES, all_bytes + self.fast_bytes, bands, BandShape::new(self.band_bytes));
        let area_bytes = start(HEAD_BYTES + area.len_bytes()) - start(HEAD_BYTES);
        let extra = std::iter::once(area_bytes).chain(std::iter::repeat(0));
        self.capacity_bytes.iter().zip(extra).map(|(bytes, extra)| bytes + extra).collect()
    }

    /// Settings of an engine over it.
    pub(crate) fn options(&self) -> EngineOptions {
        EngineOptions {
            memory_limit_bytes: MEMORY_LIMIT_BYTES,
            frames: Some(self.frames),
            unflushed_limit_bytes: self.unflushed_limit_bytes,
            job_blocks: self.job_blocks,
            destage_above_percent: self.destage_above_percent,
            bypass_below_percent: self.bypass_below_percent,
            // Drawn from what was drawn, so that lives of old keep their numbers.
            grouping: GroupingKind::ALL[(self.job_blocks as usize + self.frames) % GroupingKind::ALL.len()],
            fill_bytes_per_s: 1 << 40,
            // A base is to be there for some rounds where what goes with it is lived.
            adoption_bytes_per_s: if matches!(self.kind, Kind::Redundant | Kind::Changing) {
                64 << 10
            } else {
                64 << 20
            },
            warm_list_interval_ns: 50_000_000,
            scrub_bytes_per_s: 256 << 20,
            overcommit: true,
            ..EngineOptions::default()
        }
    }

    /// How all classes compress, of a third of all shapes each in one of two ways.
    pub(crate) fn compress(&self) -> Compress {
        match (self.frames % 3, self.sector_bytes[1]) {
            // In larger sectors a dead one is that of neighbours, too, which the oracle does not know.
            (1, 512) => Compress::Lz4,
            (2, 512) => Compress::Zstd(1),
            _ => Compress::Off,
        }
    }

    /// Blocks of what the first disk lies over, in some lives: those that requests go to.
    pub(crate) fn base_blocks(&self) -> Option<u64> {
        let in_all = if matches!(self.kind, Kind::Redundant | Kind::Changing) { 2 } else { 4 };
        let has_base = (self.frames as u64 + self.disk_bytes / 4096 + self.blocks) % in_all == 1;
        has_base.then(|| self.blocks.min(self.disk_bytes / 4096)).filter(|&blocks| blocks > 0)
    }

    /// Its devices.
    pub(crate) fn geometries(&self) -> Vec<Geometry> {
        let of = |size_bytes: u64, at: usize| Geometry {
            size_bytes,
            logical_block_bytes: self.sector_bytes[at],
            optimal_band_bytes: None,
            volatile_cache: self.is_volatile[at],
            durable_writes: self.durable_writes,
            discards: at == 1 && self.discards,
        };
        let capacity = match &self.parity {
            Some(Parity { redundancy: Redundancy { data, parity }, .. }) => {
                let rows_bytes = self.capacity_bytes.iter().sum::<u64>() / *data as u64;
                vec![MEMBER_HEAD_BYTES + rows_bytes + 4096; data + parity]
            }
            None => self.capacity_device_bytes(),
        };
        let capacity = capacity.into_iter().map(|size_bytes| of(size_bytes, 1));
        [of(self.fast_bytes + ROOTS_BYTES, 0)].into_iter().chain(capacity).collect()
    }

    /// Of a life of this kind; those that aim at a window change it further.
    pub(super) fn of(kind: Kind, random: &mut Random) -> Self {
        match kind {
            Kind::Mixed => Self::random(random),
            Kind::Wide => Self::wide(random),
            Kind::Patchwork => Self::patchwork(random),
            Kind::Cramped => Self::cramped(random),
            Kind::Naming => Self { kind, is_modelled: random.chance(1, 4), ..Self::random(random) },
            Kind::Lying | Kind::Failing => Self { kind, is_modelled: random.chance(1, 4), ..Self::random(random) },
            Kind::Mirrored => Self { kind, members: pick(random, &[2, 2, 3]), ..Self::random(random) },
            Kind::Parity => Self::parity(random),
            Kind::Redundant => Self::redundant(random),
            Kind::Packed => Self::packed(random),
            Kind::Changing => Self::changing(random),
            Kind::Tight => Self::tight(random),
            Kind::Sweeping => Self::sweeping(random),
            _ => Self { kind, ..Self::random(random) },
        }
    }

    fn random(random: &mut Random) -> Self {
        let band_bytes = pick(random, &[32 << 10, 64 << 10, 64 << 10, 128 << 10]);
        let bands = 16 + random.below(40);
        let capacity: u64 = bands * band_bytes;
        let capacity_bytes = match random.below(4) {
            0 if bands >= 24 => vec![capacity / 2, capacity / 2 + 4 * band_bytes],
            _ => vec![capacity],
        };
        let frames = pick(random, &[5, 6, 8, 16, 32]);
        let leaves = 1 + random.below(10);
        let fitting = blocks_that_fit(band_bytes, &capacity_bytes).saturating_sub(SECOND_BLOCKS);
        let blocks = (4 + random.below(40)).min(fitting / leaves).max(1);
        Self {
            kind: Kind::Mixed,
            members: 1,
            fast_bytes: pick(random, &[1664 << 10, 1800 << 10, 2 << 20, 3 << 20]),
            capacity_bytes,
            parity: None,
            band_bytes,
            journal_bytes: pick(random, &[128 << 10, 128 << 10, 192 << 10, 256 << 10]),
            sector_bytes: pick(random, &[[512, 512], [512, 512], [512, 4096], [4096, 4096]]),
            is_volatile: pick(random, &[[true, true], [true, true], [false, true], [true, false], [false, false]]),
            durable_writes: true,
            discards: random.chance(3, 4),
            disk_bytes: 16 << 20,
            frames,
            job_blocks: pick(random, &[4, 24, 24, 64]),
            destage_above_percent: pick(random, &[5, 40, 40, 75]),
            bypass_below_percent: pick(random, &[5, 15, 15, 40]),
            unflushed_limit_bytes: pick(random, &[64 << 10, 512 << 10, 4 << 20]),
            leaves,
            blocks,
            is_modelled: false,
            is_over_bucket: false,
        }
    }

    fn wide(random: &mut Random) -> Self {
        let leaves = 80 + random.below(120);
        Self {
            kind: Kind::Wide,
            fast_bytes: (8 + random.below(4)) << 20,
            capacity_bytes: vec![6 << 20],
            band_bytes: 64 << 10,
            journal_bytes: 256 << 10,
            disk_bytes: leaves * LEAF_BLOCKS * 4096,
            frames: pick(random, &[180, 256]),
            leaves,
            blocks: 1 + random.below(4),
            ..Self::random(random)
        }
    }

    fn patchwork(random: &mut Random) -> Self {
        Self {
            kind: Kind::Patchwork,
            fast_bytes: (6 + random.below(8)) << 20,
            capacity_bytes: vec![12 << 20],
            band_bytes: 128 << 10,
            journal_bytes: 1 << 20,
            frames: 32,
            leaves: 3,
            blocks: 390,
            ..Self::random(random)
        }
    }

    fn cramped(random: &mut Random) -> Self {
        let leaves = 1 + random.below(3);
        Self {
            kind: Kind::Cramped,
            fast_bytes: pick(random, &[1600 << 10, 1664 << 10]),
            capacity_bytes: vec![5 << 20],
            band_bytes: 64 << 10,
            journal_bytes: 128 << 10,
            is_volatile: pick(random, &[[true, true], [true, false]]),
            frames: 16,
            job_blocks: pick(random, &[4, 8, 24]),
            destage_above_percent: pick(random, &[1, 10]),
            bypass_below_percent: 5,
            leaves,
            blocks: 300 / leaves,
            ..Self::random(random)
        }
    }

    fn tight(random: &mut Random) -> Self {
        let band_bytes = pick(random, &[32 << 10, 64 << 10]);
        let capacity_bytes = vec![(16 + random.below(10)) * band_bytes];
        let leaves = 1 + random.below(3);
        let blocks = blocks_that_fit(band_bytes, &capacity_bytes).saturating_sub(SECOND_BLOCKS) / leaves;
        Self {
            kind: Kind::Tight,
            capacity_bytes,
            band_bytes,
            job_blocks: pick(random, &[4, 24]),
            destage_above_percent: 5,
            leaves,
            blocks: blocks.max(1),
            is_modelled: random.chance(1, 4),
            ..Self::random(random)
        }
    }

    fn parity(random: &mut Random) -> Self {
        let shapes = [(2, 1), (2, 1), (3, 1), (4, 1), (3, 2), (3, 2), (4, 2), (4, 3)];
        let (data, parity) = pick(random, &shapes);
        let liars = if parity > 1 { random.index(2) } else { 0 };
        let band_bytes = data as u64 * 4096 * pick(random, &[4, 8, 8, 12]);
        let capacity_bytes = vec![(16 + random.below(30)) * band_bytes];
        let any = Self::random(random);
        let fitting = blocks_that_fit(band_bytes, &capacity_bytes).saturating_sub(SECOND_BLOCKS);
        Self {
            kind: Kind::Parity,
            capacity_bytes,
            parity: Some(Parity { redundancy: Redundancy { data, parity }, liars }),
            band_bytes,
            destage_above_percent: pick(random, &[1, 5, 40]),
            blocks: (4 + random.below(60)).min(fitting / any.leaves).max(1),
            ..any
        }
    }

    /// A mirror of one to three, and parity or none.
    fn redundant(random: &mut Random) -> Self {
        let members = pick(random, &[1, 2, 2, 2, 3]);
        let any = if random.chance(2, 3) { Self::parity(random) } else { Self::random(random) };
        Self { kind: Kind::Redundant, members, ..any }
    }

    /// Parity, and bands of one or two groups that hold many times as many blocks as they have.
    fn packed(random: &mut Random) -> Self {
        let (data, parity) = pick(random, &[(2, 1), (3, 2), (3, 2), (4, 2), (4, 3)]);
        let liars = if parity > 1 { 1 } else { 0 };
        let band_bytes = (data as u64 * pick(random, &[16, 22, 32])) << 12;
        let any = Self::random(random);
        let leaves = 1 + random.below(3);
        Self {
            kind: Kind::Packed,
            capacity_bytes: vec![(16 + random.below(10)) * band_bytes],
            parity: Some(Parity { redundancy: Redundancy { data, parity }, liars }),
            band_bytes,
            sector_bytes: [512, 512],
            // Compressed in one of two ways, see `compress`.
            frames: pick(random, &[7, 8, 16, 31, 32]),
            job_blocks: pick(random, &[24, 64, 128]),
            destage_above_percent: 1,
            leaves,
            blocks: 100 + random.below(280),
            ..any
        }
    }

    /// Little is kept in memory, and some room is left for disks that come.
    fn changing(random: &mut Random) -> Self {
        let any = Self::random(random);
        let fitting =
            blocks_that_fit(any.band_bytes, &any.capacity_bytes).saturating_sub(SECOND_BLOCKS + ADMINISTERED_BLOCKS);
        let is_over_bucket = random.chance(1, 4);
        let is_volatile = if is_over_bucket { [true, true] } else { any.is_volatile };
        Self {
            kind: Kind::Changing,
            is_over_bucket,
            is_volatile,
            leaves: any.leaves.min(4),
            blocks: any.blocks.min(fitting / any.leaves).max(1),
            ..any
        }
    }

    fn sweeping(random: &mut Random) -> Self {
        let leaves = 16 + random.below(16);
        Self {
            kind: Kind::Sweeping,
            fast_bytes: 4 << 20,
            capacity_bytes: vec![6 << 20],
            band_bytes: 64 << 10,
            disk_bytes: leaves * LEAF_BLOCKS * 4096,
            frames: pick(random, &[5, 6, 8, 16]),
            leaves,
            blocks: 1 + random.below(4),
            is_modelled: random.chance(1, 4),
            ..Self::random(random)
        }
    }
}

//! Parameters of a NAND drive, as in a preset.

use serde::Deserialize;

/// Bytes of a logical unit, the unit of a map entry.
pub const UNIT_BYTES: u64 = 4096;

/// Parameters of a drive. Every number has its unit in its name; unknown keys are refused.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Name for reports.
    pub name: String,
    /// Capacity that the host sees, in bytes; a multiple of 4096.
    pub capacity_bytes: u64,
    /// Seed of everything random.
    #[serde(default)]
    pub seed: u64,
    /// How the flash is laid out.
    pub geometry: Geometry,
    /// How long the flash takes.
    pub timing: Timing,
    /// The controller and its link to the host.
    pub controller: Controller,
    /// The write buffer.
    pub buffer: Buffer,
    /// The flash translation layer.
    pub ftl: FtlConfig,
    /// Single-level write cache; the drive has none where left out.
    pub slc: Option<Slc>,
    /// Read-ahead of sequential reads; the drive has none where left out.
    pub read_ahead: Option<ReadAhead>,
    /// The drive's own periodic work; the drive has none where left out.
    pub housekeeping: Option<Housekeeping>,
    /// Rated wear; not rated where left out.
    pub endurance: Option<Endurance>,
}

/// Layout of the flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Geometry {
    /// Flash channels, 1 to 64.
    pub channels: u32,
    /// Dies a channel, 1 to 64.
    pub dies_per_channel: u32,
    /// Planes a die, 1 to 8; all planes are read and programmed together.
    pub planes: u32,
    /// Erase blocks a plane.
    pub blocks_per_plane: u32,
    /// Pages a block.
    pub pages_per_block: u32,
    /// Bytes a page, a multiple of 4096.
    pub page_bytes: u32,
    /// Bits a cell, 1 to 5: a block in single-level mode holds 1/`bits_per_cell` of the data.
    pub bits_per_cell: u32,
}

/// Times of the flash and of its channels.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timing {
    /// Array read times tR in ns, one for each page type of the repeating pattern.
    pub read_ns: Vec<u64>,
    /// Array program times tPROG in ns, for the same pattern.
    pub program_ns: Vec<u64>,
    /// Block erase time tBERS in ns.
    pub erase_ns: u64,
    /// Bytes a second of a channel.
    pub bus_bytes_per_s: u64,
    /// How long a command with its address holds the channel, in ns.
    pub command_ns: u64,
    /// Bytes that one hold of the channel loads into a page register, a multiple of 4096.
    pub burst_bytes: u32,
    /// Whether the next page can be loaded while the array programs.
    pub cache_program: bool,
    /// Whether the next read can begin while the page register is being read out.
    pub cache_read: bool,
    /// Suspension of programs and erases for reads; none where left out.
    pub suspend: Option<Suspend>,
    /// How long background work of a die may wait behind reads, in ns.
    pub background_wait_max_ns: u64,
    /// Shares of pages that take longer to read.
    #[serde(default)]
    pub weak: Vec<Weak>,
}

fn one() -> u32 {
    1
}

/// Suspension of a program or erase for a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Suspend {
    /// From the suspend command until the die can read, in ns.
    pub enter_ns: u64,
    /// The same for an erase, in ns; 0 takes `enter_ns`.
    #[serde(default)]
    pub erase_enter_ns: u64,
    /// Least time that an operation must have run since its start or resumption before it can be suspended, in ns.
    #[serde(default)]
    pub run_least_ns: u64,
    /// From the end of the last read until the operation resumes, in ns.
    pub resume_ns: u64,
    /// An operation can no longer be suspended this long after it was queued, in ns; `background_wait_max_ns` where left out.
    #[serde(default)]
    pub deadline_ns: Option<u64>,
    /// How often one operation may be suspended.
    pub times_max: u8,
    /// Whether programs can be suspended.
    pub program: bool,
    /// Whether erases can be suspended.
    pub erase: bool,
}

/// A share of the pages that take longer to read (retries with shifted thresholds). The page's place decides, so that a page is weak always
/// or never.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Weak {
    /// Weak pages per million.
    pub pages_ppm: u32,
    /// Additional read time of a weak page, in ns.
    pub extra_ns: u64,
}

/// Controller and host link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Controller {
    /// Commands inside the drive at once; further commands wait in the host's queues.
    pub commands_max: u32,
    /// Firmware engines that work in parallel, 1 to 16.
    pub engines: u32,
    /// How long a read holds an engine, in ns.
    pub read_ns: u64,
    /// How long a write holds an engine, in ns.
    pub write_ns: u64,
    /// How long each further 4 KiB of a command holds the engine, in ns.
    pub unit_ns: u64,
    /// From the doorbell until an engine has the command, in ns.
    pub fetch_ns: u64,
    /// From the last byte until the interrupt, in ns.
    pub complete_ns: u64,
    /// Additional time until a write is acknowledged, in ns.
    pub acknowledge_ns: u64,
    /// Error correction time of a read, in ns.
    pub decode_ns: u64,
    /// Serial work on map and journal for each 4 KiB unit written that does not follow the previously written unit, in ns; 0 for none. It
    /// limits random writes where the flash does not.
    #[serde(default)]
    pub map_update_ns: u64,
    /// Records of a journal page, which are applied to the map together, 1 to 65536.
    #[serde(default = "one")]
    pub map_batch: u32,
    /// Bytes a second to the host.
    pub to_host_bytes_per_s: u64,
    /// Bytes a second from the host.
    pub from_host_bytes_per_s: u64,
}

/// DRAM write buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Buffer {
    /// Size in bytes, a multiple of 4096.
    pub size_bytes: u64,
    /// Whether capacitors make the buffer durable. Without them a flush drains the buffer.
    pub capacitors: bool,
    /// Time to read a unit from the buffer, in ns.
    pub dram_ns: u64,
    /// Rows of pages that may be in flight to one die at once, 1 to 16.
    pub rows_per_die: u32,
    /// Rows of a stripe, 1 to 4096: the buffer room of all rows is released when the last of them is programmed.
    #[serde(default = "one")]
    pub stripe_rows: u32,
}

/// Choice of the block to collect (the victim).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// The block with the fewest valid units.
    Greedy,
    /// The block with the greatest age * (1 - u) / 2u among some drawn at random, u being the valid share.
    CostBenefit,
}

/// Flash translation layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FtlConfig {
    /// Dies whose blocks are erased together (a group): 1 collects block by block, all dies form superblocks.
    pub superblock_dies: u32,
    /// Victim choice.
    pub policy: Policy,
    /// Number of host streams with write points of their own, 1 to 16; a higher stream number counts as stream 0.
    pub streams: u32,
    /// Collection begins where a group has fewer erased blocks than this.
    pub collect_below_blocks: u32,
    /// Erased blocks of a group that are reserved for collection.
    pub reserve_blocks: u32,
    /// DRAM for the map in bytes; 0 holds the whole map. A miss costs a flash read.
    #[serde(default)]
    pub map_cache_bytes: u64,
    /// Whether collection reads only the pages of a row with valid units, one by one, instead of all planes together.
    #[serde(default)]
    pub collect_by_page: bool,
    /// Time without commands until idle work (collection, folding) begins, in ns.
    pub idle_ns: u64,
    /// Static wear levelling: where the most worn block of a group is this many erases ahead of a block with data, the data is moved off
    /// that block. Where left out, wear only decides which erased block is used next.
    #[serde(default)]
    pub level_spread: Option<u32>,
}

/// Single-level write cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slc {
    /// Data that the permanent part of the cache holds, in bytes.
    pub fixed_bytes: u64,
    /// Additional data that the cache may hold while blocks are free, in bytes.
    pub dynamic_bytes: u64,
    /// Array read time tR in ns.
    pub read_ns: u64,
    /// Array program time tPROG in ns.
    pub program_ns: u64,
    /// Full cache blocks a group may hold before it folds them while the host has commands; where left out, folding waits for idle time.
    #[serde(default)]
    pub fold_above_blocks: Option<u32>,
    /// Groups that fold at once while the host has commands, 1 to 4096.
    #[serde(default = "one")]
    pub fold_groups: u32,
}

/// Read-ahead of sequential reads into DRAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadAhead {
    /// Sequential commands before read-ahead begins.
    pub after_commands: u32,
    /// How far it reads ahead, in bytes.
    pub depth_bytes: u64,
}

/// Periodic work that occupies one die after the other and cannot be suspended: journals, patrol, refresh.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Housekeeping {
    /// Time between two such works over the whole drive, in ns.
    pub interval_ns: u64,
    /// How long the work occupies the die, in ns; less than the interval.
    pub busy_ns: u64,
}

/// Rated wear.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Endurance {
    /// Program/erase cycles a block.
    pub cycles: u32,
    /// Warranty in years of 365 days.
    pub years: f64,
}

/// Why a configuration is refused.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum ConfigError {
    /// Not TOML, an unknown key, or a value of another type.
    #[error("cannot read the preset of a NAND drive: {0}")]
    Syntax(String),
    /// No preset of that name.
    #[error("no NAND preset is called {0}")]
    UnknownPreset(String),
    /// A value outside its range.
    #[error("{key} is {value}: {why}")]
    Range {
        /// The key.
        key: &'static str,
        /// Its value.
        value: u64,
        /// Allowed values.
        why: &'static str,
    },
}

fn within(key: &'static str, value: u64, low: u64, high: u64, why: &'static str) -> Result<(), ConfigError> {
    if (low..=high).contains(&value) { Ok(()) } else { Err(ConfigError::Range { key, value, why }) }
}

/// An hour: an upper bound of all times of a drive.
const TIME_MAX_NS: u64 = 3_600_000_000_000;

impl Config {
    /// Checks every value on its own.
    ///
    /// # Errors
    /// [`ConfigError::Range`] with the key, its value and what is allowed.
    pub(super) fn validate_values(&self) -> Result<(), ConfigError> {
        self.validate_geometry()?;
        self.validate_times()?;
        self.validate_parts()
    }

    fn validate_geometry(&self) -> Result<(), ConfigError> {
        let g = &self.geometry;
        within("geometry.channels", g.channels.into(), 1, 64, "1 to 64")?;
        within("geometry.dies_per_channel", g.dies_per_channel.into(), 1, 64, "1 to 64")?;
        within("geometry.planes", g.planes.into(), 1, 8, "1 to 8")?;
        within("geometry.blocks_per_plane", g.blocks_per_plane.into(), 8, 1 << 20, "8 to 1048576")?;
        within("geometry.pages_per_block", g.pages_per_block.into(), 2, 1 << 16, "2 to 65536")?;
        within("geometry.bits_per_cell", g.bits_per_cell.into(), 1, 5, "1 to 5")?;
        within("geometry.page_bytes", g.page_bytes.into(), 4096, 65536, "4096 to 65536")?;
        if u64::from(g.page_bytes) % UNIT_BYTES != 0 {
            return Err(ConfigError::Range {
                key: "geometry.page_bytes",
                value: g.page_bytes.into(),
                why: "a multiple of 4096",
            });
        }
        if self.capacity_bytes == 0 || !self.capacity_bytes.is_multiple_of(UNIT_BYTES) {
            return Err(ConfigError::Range {
                key: "capacity_bytes",
                value: self.capacity_bytes,
                why: "a multiple of 4096 above 0",
            });
        }
        Ok(())
    }

    fn validate_times(&self) -> Result<(), ConfigError> {
        let t = &self.timing;
        let types = t.read_ns.len() as u64;
        within("timing.read_ns (number of values)", types, 1, 64, "1 to 64 page types")?;
        if t.program_ns.len() as u64 != types {
            return Err(ConfigError::Range {
                key: "timing.program_ns (number of values)",
                value: t.program_ns.len() as u64,
                why: "as many as in timing.read_ns",
            });
        }
        for &ns in &t.read_ns {
            within("timing.read_ns", ns, 1, TIME_MAX_NS, "1 ns to an hour")?;
        }
        for &ns in &t.program_ns {
            within("timing.program_ns", ns, 1, TIME_MAX_NS, "1 ns to an hour")?;
        }
        within("timing.erase_ns", t.erase_ns, 1, TIME_MAX_NS, "1 ns to an hour")?;
        within("timing.command_ns", t.command_ns, 0, TIME_MAX_NS, "at most an hour")?;
        within("timing.bus_bytes_per_s", t.bus_bytes_per_s, 1_000_000, 1 << 40, "1 MB/s to 1 TB/s")?;
        within("timing.burst_bytes", t.burst_bytes.into(), 4096, 1 << 20, "4096 to 1048576")?;
        within("timing.background_wait_max_ns", t.background_wait_max_ns, 0, TIME_MAX_NS, "at most an hour")?;
        within("timing.weak (entries)", t.weak.len() as u64, 0, 8, "at most 8")?;
        for weak in &t.weak {
            within("timing.weak.pages_ppm", weak.pages_ppm.into(), 0, 1_000_000, "at most 1000000")?;
            within("timing.weak.extra_ns", weak.extra_ns, 0, TIME_MAX_NS, "at most an hour")?;
        }
        if let Some(s) = &t.suspend {
            within("timing.suspend.enter_ns", s.enter_ns, 0, TIME_MAX_NS, "at most an hour")?;
            within("timing.suspend.erase_enter_ns", s.erase_enter_ns, 0, TIME_MAX_NS, "at most an hour")?;
            within("timing.suspend.run_least_ns", s.run_least_ns, 0, TIME_MAX_NS, "at most an hour")?;
            within("timing.suspend.deadline_ns", s.deadline_ns.unwrap_or(0), 0, TIME_MAX_NS, "at most an hour")?;
            within("timing.suspend.resume_ns", s.resume_ns, 0, TIME_MAX_NS, "at most an hour")?;
        }
        Ok(())
    }

    fn validate_parts(&self) -> Result<(), ConfigError> {
        let c = &self.controller;
        within("controller.commands_max", c.commands_max.into(), 1, 65536, "1 to 65536")?;
        within("controller.engines", c.engines.into(), 1, 16, "1 to 16")?;
        for (key, ns) in [
            ("controller.read_ns", c.read_ns),
            ("controller.write_ns", c.write_ns),
            ("controller.unit_ns", c.unit_ns),
            ("controller.fetch_ns", c.fetch_ns),
            ("controller.complete_ns", c.complete_ns),
            ("controller.acknowledge_ns", c.acknowledge_ns),
            ("controller.decode_ns", c.decode_ns),
            ("controller.map_update_ns", c.map_update_ns),
            ("buffer.dram_ns", self.buffer.dram_ns),
            ("ftl.idle_ns", self.ftl.idle_ns),
        ] {
            within(key, ns, 0, TIME_MAX_NS, "at most an hour")?;
        }
        within("controller.to_host_bytes_per_s", c.to_host_bytes_per_s, 1_000_000, 1 << 40, "1 MB/s to 1 TB/s")?;
        within("controller.from_host_bytes_per_s", c.from_host_bytes_per_s, 1_000_000, 1 << 40, "1 MB/s to 1 TB/s")?;
        within("buffer.size_bytes", self.buffer.size_bytes, UNIT_BYTES, 1 << 36, "4096 to 64 GiB")?;
        within("buffer.rows_per_die", self.buffer.rows_per_die.into(), 1, 16, "1 to 16")?;
        within("buffer.stripe_rows", self.buffer.stripe_rows.into(), 1, 4096, "1 to 4096")?;
        within("controller.map_batch", c.map_batch.into(), 1, 65536, "1 to 65536")?;
        within("ftl.streams", self.ftl.streams.into(), 1, 16, "1 to 16")?;
        within("ftl.reserve_blocks", self.ftl.reserve_blocks.into(), 2, 1024, "2 to 1024")?;
        within(
            "ftl.collect_below_blocks",
            self.ftl.collect_below_blocks.into(),
            u64::from(self.ftl.reserve_blocks) + 1,
            4096,
            "above ftl.reserve_blocks, at most 4096",
        )?;
        if let Some(spread) = self.ftl.level_spread {
            within("ftl.level_spread", spread.into(), 1, 1 << 20, "1 to 1048576 erases")?;
        }
        if let Some(s) = &self.slc {
            within("slc.read_ns", s.read_ns, 1, TIME_MAX_NS, "1 ns to an hour")?;
            within("slc.program_ns", s.program_ns, 1, TIME_MAX_NS, "1 ns to an hour")?;
            within("slc.fold_groups", s.fold_groups.into(), 1, 4096, "1 to 4096")?;
            within("geometry.bits_per_cell", self.geometry.bits_per_cell.into(), 2, 5, "2 to 5 with an slc cache")?;
        }
        if let Some(r) = &self.read_ahead {
            within("read_ahead.depth_bytes", r.depth_bytes, UNIT_BYTES, 1 << 26, "4096 to 64 MiB")?;
            within("read_ahead.after_commands", r.after_commands.into(), 1, 1024, "1 to 1024")?;
        }
        if let Some(h) = &self.housekeeping {
            within("housekeeping.interval_ns", h.interval_ns, 1, TIME_MAX_NS, "1 ns to an hour")?;
            within("housekeeping.busy_ns", h.busy_ns, 0, h.interval_ns - 1, "less than housekeeping.interval_ns")?;
        }
        if let Some(e) = &self.endurance
            && !(e.years > 0.0 && e.years <= 100.0)
        {
            return Err(ConfigError::Range {
                key: "endurance.years",
                value: e.years as u64,
                why: "above 0, at most 100",
            });
        }
        Ok(())
    }
}

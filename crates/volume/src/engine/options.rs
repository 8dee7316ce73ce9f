//! What the operator and the tests may set.

use forebay_placement::grouping::Kind;

/// Settings of an engine.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// Limit for map, checksums, buffers and tables together, in bytes.
    pub memory_limit_bytes: u64,
    /// Whether the sizes of disks may exceed what the pool can hold.
    pub overcommit: bool,
    /// Frames for map leaves; `None`: as many as the memory limit leaves.
    pub frames: Option<usize>,
    /// Unflushed data after which the engine flushes by itself, in bytes. It bounds what recovery verifies.
    pub unflushed_limit_bytes: u64,
    /// Blocks that the jobs of destage and garbage collection may move at once, all together.
    pub job_blocks: u32,
    /// Share of slots in use above which staged data is destaged in any case, in percent. 100: only where too few are free for what hosts write while jobs run.
    pub destage_above_percent: u64,
    /// Share of free slots below which a growing part of staged writes goes to the capacity tier directly, in percent; at
    /// most half of what should be free for hosts.
    pub bypass_below_percent: u64,
    /// Bytes that may be written to the fast tier and to the capacity tier over their lives, where that is known: where the fast tier would be worn first, less
    /// is staged.
    pub endurance_bytes: Option<[u64; 2]>,
    /// By which policy data of the capacity tier is grouped.
    pub grouping: Kind,
    /// Most bytes a second that a scrub reads, while hosts have no requests.
    pub scrub_bytes_per_s: u64,
    /// Most bytes a second that are copied from bases, while hosts have no requests.
    pub adoption_bytes_per_s: u64,
    /// Most bytes a second that are written to the fast tier as copies of what was read.
    pub fill_bytes_per_s: u64,
    /// Memory for what was read of classes with copies, in bytes, in front of these copies; `None`: a sixteenth of what is shared out, or a sixty-fourth where
    /// no class has copies when the pool is opened.
    pub recent_reads_bytes: Option<u64>,
    /// Least time between two lists of these copies, in nanoseconds.
    pub warm_list_interval_ns: u64,
    /// Opens a pool although pages of its map, a part of its journal, or what was written last cannot be read, now or from the members that are there.
    pub accepts_loss: bool,
    /// A random number, which no other opening of this pool or of a copy of it should have; 0: none.
    pub opening: u64,
    /// Faults planted by tests.
    pub faults: Faults,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            memory_limit_bytes: 1 << 30,
            overcommit: false,
            frames: None,
            unflushed_limit_bytes: 64 << 20,
            job_blocks: 2048,
            destage_above_percent: 95,
            bypass_below_percent: 10,
            endurance_bytes: None,
            grouping: Kind::default(),
            scrub_bytes_per_s: 64 << 20,
            adoption_bytes_per_s: 256 << 20,
            fill_bytes_per_s: 64 << 20,
            recent_reads_bytes: None,
            warm_list_interval_ns: 1_000_000_000,
            accepts_loss: false,
            opening: 0,
            faults: Faults::default(),
        }
    }
}

/// Faults that tests plant to show that they would be found. Without the feature `planted-faults` there are none.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// FLUSH answers without flushing.
    #[cfg(feature = "planted-faults")]
    pub flush_is_no_op: bool,
    /// Checksums are not compared.
    #[cfg(feature = "planted-faults")]
    pub checksums_ignored: bool,
    /// Space is reused before the record that supersedes it is durable.
    #[cfg(feature = "planted-faults")]
    pub reuse_at_once: bool,
    /// Recovery serves without making its decisions durable in a new epoch.
    #[cfg(feature = "planted-faults")]
    pub epoch_not_fenced: bool,
}

macro_rules! fault {
    ($name:ident) => {
        /// Whether this fault is planted.
        #[must_use]
        pub fn $name(&self) -> bool {
            #[cfg(feature = "planted-faults")]
            {
                self.$name
            }
            #[cfg(not(feature = "planted-faults"))]
            {
                false
            }
        }
    };
}

impl Faults {
    fault!(flush_is_no_op);
    fault!(checksums_ignored);
    fault!(reuse_at_once);
    fault!(epoch_not_fenced);
}

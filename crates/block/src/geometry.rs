//! What a device says about itself.

/// Geometry of a device. All sizes in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Usable size; a multiple of `logical_block_bytes`.
    pub size_bytes: u64,
    /// Smallest unit of a read or write (512 or 4096), and the alignment of offsets.
    pub logical_block_bytes: u32,
    /// The size in which the device prefers to be written and freed (zone, superblock), where it tells.
    pub optimal_band_bytes: Option<u64>,
    /// Whether completed writes may be lost by a power cut until a flush completes.
    pub volatile_cache: bool,
    /// Whether the device itself makes a durable (FUA) write durable. Elsewhere the system flushes the cache behind it
    /// (Linux, Documentation/block/writeback_cache_control.rst), and its failure may be the one report of what else was
    /// lost there.
    pub durable_writes: bool,
    /// Whether `Op::Discard` frees space (otherwise it completes and does nothing).
    pub discards: bool,
}

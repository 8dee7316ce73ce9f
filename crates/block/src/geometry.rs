//! Properties that a device reports.

/// Geometry of a device. All sizes in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Usable size; a multiple of `logical_block_bytes`.
    pub size_bytes: u64,
    /// Smallest unit of a read or write (512 or 4096), and the alignment of offsets.
    pub logical_block_bytes: u32,
    /// Unit in which the device prefers to be written and freed (zone, superblock); `None` where it reports none.
    pub optimal_band_bytes: Option<u64>,
    /// Whether a power cut may lose completed writes until a flush completes.
    pub volatile_cache: bool,
    /// Whether the device itself makes a FUA write durable. Otherwise the system flushes the cache after the write
    /// (Linux, Documentation/block/writeback_cache_control.rst), and a failure of that flush may be the only report
    /// that other data in the cache was lost.
    pub durable_writes: bool,
    /// Whether `Op::Discard` frees space; otherwise it completes without effect.
    pub discards: bool,
}

//! The common vocabulary, free of the operating system: buffers, checksums, the device trait, geometry and errors.
//! Every other crate uses it; this one imports none of ours.

pub mod buf;
pub mod checksum;
pub mod device;
pub mod figures;
pub mod geometry;
pub mod hash;
pub mod ident;
mod lock;
pub mod log_linear;
pub mod mistakes;
pub mod queue;
pub mod random;
pub mod size;
pub mod virtual_time;

pub use buf::{Buf, SharedBuf};
pub use device::{Completion, Device, IoError, IoErrorKind, Op, Request, Vectored};
pub use geometry::Geometry;
pub use ident::{ClassId, DiskId};
pub use lock::lock;
pub use queue::{Done, Io, OpKind, Queue, WaitMethod};
pub use random::Random;
pub use virtual_time::{VirtualClock, VirtualQueue};

/// Unit of mapping and of atomic writes, in bytes.
pub const BLOCK_BYTES: usize = 4096;
/// [`BLOCK_BYTES`] for positions on devices.
pub const BLOCK_BYTES_U64: u64 = BLOCK_BYTES as u64;
/// Unit of locations, and the smallest unit that a power cut leaves whole, in bytes.
pub const SECTOR_BYTES: usize = 512;

//! Real targets behind the one device trait: files and block devices, RAM, a null device; and wrappers that lose,
//! tear, reorder and fail requests for tests of durability.

mod alarm;
mod bell;
pub mod blocking;
pub mod bucket;
pub mod counters;
pub mod emulated;
mod escape;
pub mod faulty;
pub mod file;
pub mod image;
pub mod instant;
pub mod modelled;
pub mod nbd_client;
pub mod null;
pub mod open_error;
pub mod queue;
pub mod ram;
pub mod reorder;
pub mod request;
pub mod signature;
pub mod stdout;
pub mod target;
pub mod throttle;
pub mod virtual_device;
pub mod volatile;
pub mod watched;

pub use bucket::{BucketDevice, BucketError, BucketUri};
pub use emulated::EmulatedDevice;
pub use faulty::FaultyDevice;
pub use file::{FileDevice, FileOptions, Holder, OpenMode, rewrites_larger_sectors};
pub use image::{Image, ImageDevice};
pub use modelled::{ModelError, ModelUri};
pub use null::NullDevice;
pub use open_error::OpenError;
pub use ram::RamDevice;
pub use reorder::ReorderDevice;
pub use signature::{FileContent, Signature, detect, detect_where_readable, file_content, first_content};
pub use target::{Target, TargetError, open};
pub use virtual_device::{Drive, VirtualDevice};
pub use volatile::VolatileDevice;
pub use watched::{DeviceCounts, KindCounts, WatchedCounts, WatchedDevice};

//! Jobs, and the formats in which they are written.
//!
//! All formats become a [`model::Plan`] that [`validate::validate`] has accepted: our own TOML ([`toml_file`]), fio's job files ([`fio`]),
//! DiskSpd's command line ([`diskspd`]). [`load()`] distinguishes the first two.

pub mod diskspd;
mod error;
pub mod fio;
mod fit;
mod length;
mod load;
mod mix;
pub mod model;
mod region;
pub mod size;
pub mod steady;
pub mod toml_file;
pub mod validate;
pub mod walks;

pub use error::JobError;
pub use fit::check_fit;
pub use length::MAX_FILE_BYTES;
pub use load::{JobText, load, read};

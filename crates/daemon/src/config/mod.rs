//! The configuration file: what it may hold, how it is read, and what must be true of it.

mod check;
mod load;
mod model;
mod network;
mod rules;
mod tls;
mod ublk;
mod values;

pub use load::{load, load_real, of_text, read};
pub use model::{Config, Disk, Evidence, Export, LogLimits, ReadCache, Server};
pub use rules::{explain_rule, notes_of_classes};
pub use ublk::Ublk;
pub use values::{Compression, PLACES, Place, SOCKET_PATH_MAX, Size, parse_share, place_name};

/// The JSON schema of the file.
pub fn schema() -> schemars::Schema {
    schemars::schema_for!(Config)
}

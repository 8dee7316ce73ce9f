//! A served pool from its configuration to its clean end: exports and control socket on one thread.

mod access;
mod answer;
mod before_ready;
mod beside;
mod clients;
mod configured;
mod disk_names;
mod exporting;
mod handle;
mod hooks;
mod jobs;
mod listen;
mod open;
mod reload;
mod reload_exports;
mod service_manager;
mod snapshot;
mod tls;
mod ublk;
mod ublk_left;
mod users;
mod vhost;
mod watch;

pub use access::SocketAccess;
pub use disk_names::no_disk;
pub use handle::{Announce, Asked, Handle};
pub use open::Server;

//! The server: sockets, connections and the event loop, on one thread.

mod accept;
mod address;
mod admission;
mod announce;
mod clock;
mod config;
mod connection;
mod connections;
mod frontends;
mod handshakes;
mod hooks;
mod interest;
mod listener;
mod outcome;
mod peer;
mod poller;
mod reactor;
mod secure;
mod shaker;
mod shutdown;
mod spin;
mod stats;

pub use address::{AddressError, Listen};
pub use clock::monotonic_ns;
pub use config::{ServerConfig, ServerError};
pub use hooks::{Hooks, NoHooks, ServerControl};
pub use interest::Interest;
pub(crate) use listener::Listener;
pub use listener::can_listen;
pub use outcome::CloseReason;
pub use peer::Peer;
pub(crate) use peer::peer;
pub use reactor::Reactor;
pub use stats::ServerStats;

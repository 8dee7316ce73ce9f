//! The server: sockets, connections and the loop, on one thread.

mod accept;
mod address;
mod config;
mod connection;
mod connections;
mod frontends;
mod hooks;
mod interest;
mod listener;
mod poller;
mod reactor;
mod shutdown;
mod spin;

pub use address::{AddressError, Listen};
pub use config::{ServerConfig, ServerError};
pub use connection::{CloseReason, Peer};
pub use hooks::{Hooks, NoHooks, ServerControl, ServerStats};
pub use interest::Interest;
pub use reactor::Reactor;

//! Front ends, which turn protocols into volume requests and decide no policy. The NBD server has two layers: [`nbd`]
//! is the protocol without I/O, [`server`] is the reactor that drives it over sockets, on one thread and without
//! locks.

pub mod access;
pub mod backend;
pub mod exports;
pub mod frontend;
pub mod limits;
pub mod nbd;
pub mod server;
pub mod tls;
pub mod ublk;
pub mod vhost;

pub use access::{Access, Client, Identity, Security, TlsNeed};
pub use backend::{Backend, MemoryBackend};
pub use exports::{Export, ExportError, Exports};
pub use frontend::{Door, DoorSide, FrontRequest, Frontend, FrontendError, open_door};
pub use limits::SessionLimits;
pub use nbd::session::Session;
pub use server::{Hooks, Listen, NoHooks, Reactor, ServerConfig, ServerControl, ServerError};
pub use tls::{TlsContext, TlsError, TlsFiles};

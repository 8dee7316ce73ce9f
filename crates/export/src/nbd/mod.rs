//! The NBD protocol, free of input and output. Source of every number and rule: `doc/proto.md` of
//! <https://github.com/NetworkBlockDevice/nbd> (commit 89ba7b53, May 2026; its sections are quoted by name), and the
//! branch `extension-ext-header` for extended headers.

pub mod command;
pub mod context;
pub mod error;
pub mod handshake;
pub mod inbound;
pub mod options;
pub mod outgoing;
pub mod replies;
pub mod session;
pub mod wire;

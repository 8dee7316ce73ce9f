//! The NBD protocol, free of I/O. The source of all numbers and rules is `doc/proto.md` of
//! <https://github.com/NetworkBlockDevice/nbd> (commit 89ba7b53, May 2026; its sections are quoted by name), and its
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

//! A served pool as a library: its configuration, devices, server with control socket, live evidence, metrics and
//! log. `forebay serve` is little more than this:
//!
//! ```no_run
//! use forebay_daemon::{config, pool::Opening, server::{Handle, Server}};
//! use std::path::Path;
//! use std::time::Duration;
//!
//! # fn main() -> anyhow::Result<()> {
//! let file = Path::new("pool.toml");
//! let (handle, asked) = Handle::new()?;
//! let announce = Box::new(|line: &str| Ok(println!("{line}")));
//! // Nothing where it was asked to stop before it was ready.
//! let server = Server::open(config::load_real(file)?, file, Opening::Recover, Duration::ZERO, asked, announce)?;
//! // Another thread ends it, or a signal does (`handle.watch_signals()`).
//! let other = std::thread::spawn(move || handle.stop());
//! if let Some(server) = server {
//!     server.run()?;
//! }
//! # drop(other);
//! # Ok(())
//! # }
//! ```
//!
//! `examples/embedded.rs` serves a pool in memory and asks it for its status.
#![forbid(unsafe_code)]

pub mod config;
pub mod contents;
pub mod control;
pub mod evidence;
pub mod finding;
pub mod log;
mod metrics;
pub mod pool;
pub mod server;
pub mod text;

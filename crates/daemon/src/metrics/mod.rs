//! What a served pool tells over HTTP, to read only: metrics for Prometheus, its health, and a live page.
//!
//! The reactor never waits for any of it: where somebody has asked lately, it makes a status at a tick, at most twice a second
//! (`publish.rs`). A thread of its own answers from the newest one (`server.rs`), so all forms of it agree with
//! `forebay status`.

mod exposition;
mod health;
mod publish;
mod server;
mod table;

pub use publish::{Publisher, channel};
pub use server::Server;

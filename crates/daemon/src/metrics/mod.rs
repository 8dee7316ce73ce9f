//! Read-only HTTP of a served pool: metrics for Prometheus, its health, and a live page.
//!
//! The reactor never waits for HTTP. Where somebody has asked lately, it makes a status at a tick, at most twice a
//! second (`publish.rs`). A separate thread answers from the newest status (`server.rs`), so all forms agree with
//! `forebay status`.

mod exposition;
mod health;
mod publish;
mod server;
mod table;

pub use publish::{Publisher, channel};
pub use server::Server;

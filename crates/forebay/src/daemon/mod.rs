//! The server process: the pool, its exports, signals, and the control socket, on one thread.

mod answer;
mod clients;
mod hooks;
mod jobs;
mod run;
mod snapshot;
mod users;

pub use run::{STOP_WITH_PARENT, serve};

//! The server process: the pool, its exports, signals, and the control socket, on one thread.

mod access;
mod answer;
mod clients;
mod configured;
mod hooks;
mod jobs;
mod reload;
mod run;
mod snapshot;
mod tls;
mod ublk;
mod ublk_left;
mod users;
mod vhost;
mod watch;

pub use run::{STOP_WITH_PARENT, serve};

//! Sessions without sockets, servers with them, front ends and real clients: one program, so that what they share is built once.

// Here a panic is the finding.
#![allow(clippy::unwrap_used)]

mod certificates;
mod client;
mod door;
mod end_to_end;
mod flood;
mod handshakes;
mod real_clients;
mod serving;
mod session;
mod session_tls;
mod tls;
mod wake;

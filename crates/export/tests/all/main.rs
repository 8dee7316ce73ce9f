//! Sessions without sockets, servers with sockets, front ends and real clients: one program, so that the code they
//! share is built once.

// In tests a panic reports the failure.
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

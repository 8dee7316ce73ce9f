//! The program as its users meet it: a single test program, so that shared parts are built once. The test `house`, which runs alone, is
//! separate.
#![forbid(unsafe_code)]
// In tests, a panic reports the failure.
#![allow(clippy::unwrap_used)]

mod adopt;
mod alone;
mod analyze;
mod bench;
mod bucket;
mod convert;
mod doctor;
mod doctor_change;
mod face;
mod full_map;
mod guards;
mod habits;
mod log;
mod metrics;
mod mirror;
mod models;
mod outsider;
mod parity;
mod read_cache;
mod reload;
mod replay;
mod report;
mod serving;
mod support;
mod width;

//! Nothing is destroyed by accident: each test does what a new user might do by mistake, over data of others that their own
//! tools made, and then looks whether a byte of it has changed.
#![forbid(unsafe_code)]
// Here a panic is the finding.
#![allow(clippy::unwrap_used)]

#[path = "guards/foreign.rs"]
mod foreign;
#[path = "guards/members.rs"]
mod members;
#[path = "guards/recording.rs"]
mod recording;
#[path = "guards/removal.rs"]
mod removal;
mod support;

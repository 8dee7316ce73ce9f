//! Classes, rules and what data says of itself: one program, so that what these tests share is built once.

// Here a panic is the finding.
#![allow(clippy::unwrap_used)]

mod class_table;
mod classify;
mod opencas;
mod real_filesystems;
mod reclass;
mod rules;
mod xfs;

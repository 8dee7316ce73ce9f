//! Classes, rules, and contents that identify themselves: one program, so that the code these tests share is built
//! once.

// In tests a panic reports the failure.
#![allow(clippy::unwrap_used)]

mod class_table;
mod classify;
mod opencas;
mod real_filesystems;
mod reclass;
mod rules;
mod xfs;

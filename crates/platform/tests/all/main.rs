//! The audit: one program, so that what its tests share is built once.
#![forbid(unsafe_code)]
// Here a panic is the finding.
#![allow(clippy::unwrap_used)]

mod answers;
mod captures;
mod change;
mod change_along;
mod hostile;
mod measured;
mod pool;
mod rules;
mod support;

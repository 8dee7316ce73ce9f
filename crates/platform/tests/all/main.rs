//! The audit: one program, so that the code its tests share is built once.
#![forbid(unsafe_code)]
// In tests a panic reports the failure.
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

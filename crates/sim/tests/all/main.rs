//! Lives, and the simulator that lives them: one program, so that what its tests share is built once.

mod found;
mod sound;

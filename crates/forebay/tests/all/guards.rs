//! Nothing is destroyed by accident: each test makes a likely mistake of a new user over data that other tools made, and checks that no
//! byte has changed.

mod foreign;
mod members;
mod recording;
mod removal;
mod removal_crash;

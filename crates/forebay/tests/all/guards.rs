//! Nothing is destroyed by accident: each test does what a new user might do by mistake, over data of others that their own
//! tools made, and then looks whether a byte of it has changed.

mod foreign;
mod members;
mod recording;
mod removal;
mod removal_crash;

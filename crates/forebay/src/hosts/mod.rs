//! One run on several hosts: a coordinator starts this program on each host by ssh, aligns their clocks, starts the load on all hosts at
//! the same instant, and combines the figures of their workers (`forebay_bench::run::RemoteRun`).

mod clocks;
mod coordinator;
mod follower;
mod line;
mod link;
mod message;
mod name;

pub use coordinator::{Coordinated, OfHost, coordinate};
pub use follower::follow;
pub use link::Command;
pub use message::{DriveCounters, Work};
pub use name::HostName;

//! One run on several hosts: a coordinator starts this program on each by ssh, aligns their clocks, begins the load on all at one
//! instant, and adds up what their workers say (`forebay_bench::run::RemoteRun`).

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

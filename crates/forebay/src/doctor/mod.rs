//! The doctor's actions beyond the audit: changing and restoring settings, keeping CPUs awake, measuring the ladder.

mod apply;
mod asking;
mod climbing;
mod folder;
mod hold;
mod ladder;
mod machine_ladder;
mod measured;
mod model_ladder;
mod pool;
mod restore;

pub use apply::apply;
pub use asking::Asker;
pub use climbing::LadderOptions;
pub use folder::Place;
pub use hold::hold;
pub use ladder::ladder;
pub use measured::measured;
pub use pool::pool;
pub use restore::{restore, verify};

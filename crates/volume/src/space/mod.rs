//! Space on the tiers: slots of the fast device, bands of the capacity devices, and where a location lies.

pub mod bands;
pub mod extents;
pub mod fitting;
mod granted;
pub mod groups;
pub mod kept;
pub(crate) mod open_bands;
pub mod slots;
pub mod spare;
mod victim;

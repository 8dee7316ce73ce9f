//! The settings as they are read, in plain structs: no judgement here.

pub mod activity;
pub mod answers;
pub mod cpu;
pub mod device;
pub mod kernel;
pub mod pci;
pub mod pool;
pub mod power;
pub mod services;
pub mod text;

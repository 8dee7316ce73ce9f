//! Pools with failing devices, and the checks afterwards.

use crate::world::anatomy::bytes;
use crate::world::history::{self, WHOLE};
use crate::world::{Oracle, Shape, Shared, World};
use forebay_block::Random;
use forebay_volume::RequestError;
use forebay_volume::layout::superblock::Superblock;

pub const FAST: usize = 0;
pub const CAPACITY: usize = 1;

pub fn fresh(shape: &Shape) -> World {
    World::open(shape, shape.format(), 1, Oracle::default()).unwrap()
}

pub fn small() -> Shape {
    Shape { fast_bytes: 1696 << 10, ..Shape::default() }
}

pub fn superblock(shape: &Shape) -> Superblock {
    Superblock::decode(&bytes(&shape.format()[0], &(0..4096))).unwrap()
}

/// Heals the devices, cuts the power, and checks the data.
pub fn recover(world: World, random: &mut Random) -> Result<(), String> {
    world.shared.iter().for_each(Shared::heal);
    let shape = world.shape.clone();
    let (images, oracle) = world.cut(random);
    let mut world = World::open(&shape, images, 1, oracle).map_err(|e| format!("not opened: {e}"))?;
    world.check_survivors()?;
    // The pool works as before.
    history::run(&mut world, random, WHOLE, 20, 4)?;
    history::close_window(&mut world)
}

/// The errors so far, by token.
pub fn error_of(world: &World, token: u64) -> Option<&RequestError> {
    world.failures.iter().find(|(failed, _)| *failed == token).map(|(_, error)| error)
}

pub fn is_device_error(error: Option<&RequestError>, name: &str) -> bool {
    matches!(error, Some(RequestError::Device { device, .. }) if device == name)
}

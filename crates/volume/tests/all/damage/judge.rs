//! The outcome of a damaged pool: refused, or served with unreadable blocks.

use crate::world::history::{Aged, quiet, stop};
use crate::world::{Oracle, Shape, World};
use forebay_block::Random;
use forebay_device::Image;
use forebay_volume::RequestError;
use forebay_volume::recovery::OpenError;
use std::collections::BTreeSet;

/// Outcome of a damaged pool.
#[derive(Debug)]
pub enum Verdict {
    Refused(OpenError),
    /// Served with this many unreadable blocks.
    Served {
        damaged: usize,
    },
}

/// Opens the images and reads everything; then overwrites some blocks, stops, and checks again.
pub fn judge(aged: &Aged, images: Vec<Image>) -> Result<Verdict, String> {
    let attempt = || look(&aged.shape, images, aged.oracle.clone());
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(attempt)).map_err(|_| "panic".to_owned())?
}

fn look(shape: &Shape, images: Vec<Image>, oracle: Oracle) -> Result<Verdict, String> {
    let mut world = match World::open(shape, images, 1, oracle) {
        Ok(world) => world,
        Err(error) => return Ok(Verdict::Refused(error)),
    };
    let damaged = survivors(&mut world)?;
    // The pool still works: damaged blocks can be overwritten, and that loses nothing else.
    for &block in damaged.iter().take(3) {
        world.write(block * 8, 8, false, None);
    }
    world.flush();
    world.settle(0)?;
    quiet(&mut world)?;
    stop(&mut world)?;
    let (images, oracle) = world.cut(&mut Random::new(1));
    let mut world = World::open(shape, images, 1, oracle).map_err(|e| format!("not opened again: {e}"))?;
    let again = survivors(&mut world)?;
    let expected: BTreeSet<u64> = damaged.iter().copied().skip(3).collect();
    if !again.is_subset(&expected) {
        return Err(format!("more damage after a restart: {expected:?} became {again:?}"));
    }
    Ok(Verdict::Served { damaged: damaged.len() })
}

/// Reads every block that the oracle knows; returns the damaged ones.
pub fn survivors(world: &mut World) -> Result<BTreeSet<u64>, String> {
    let mut damaged = BTreeSet::new();
    for (_, block) in world.oracle.places() {
        match world.try_read_block(block)? {
            Ok(data) => world.survived(block, &data)?,
            Err(RequestError::Damaged { .. }) => {
                damaged.insert(block);
            }
            Err(other) => return Err(format!("block {block}: {other:?}")),
        }
    }
    Ok(damaged)
}

/// Whether everything was served.
pub fn whole(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Served { damaged: 0 })
}

/// Whether an error names what is wrong.
pub fn is_specific(error: &OpenError) -> bool {
    let message = error.to_string();
    !message.is_empty()
        && matches!(
            error,
            OpenError::Member(_) | OpenError::Root { .. } | OpenError::Index { .. } | OpenError::Journal { .. }
        )
}

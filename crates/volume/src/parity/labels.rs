//! Writes the members' label to all that get writes, and makes it durable.

use super::core::Core;
use super::jobs::Then;
use forebay_block::{IoError, Vectored};

/// Begins to write the next label, where one is wanted and none is on its way. Before that it takes a device that was offered for a
/// member's place.
pub(super) fn step(core: &mut Core) {
    if !core.view.is_begun() || core.roster.broken().is_some() {
        return;
    }
    core.roster.close_left(&mut core.members);
    core.roster.take_offer(&mut core.members, &mut core.upkeep);
    if core.roster.tries_again() || core.roster.begins(&core.members) {
        write(core);
    }
}

fn write(core: &mut Core) {
    let copies = core.roster.copies(&core.members);
    let list = copies.into_iter().map(|(number, at, bytes)| (number, at, Vectored::One(bytes)));
    core.write(list.collect(), (0, false), Then::Labelled);
}

/// The label was written; or it was not, and no member could be left behind for that.
pub(super) fn labelled(core: &mut Core, result: Result<(), IoError>) {
    match result {
        Ok(()) => core.flush(Then::LabelFlushed),
        Err(error) => again(core, error),
    }
}

fn again(core: &mut Core, error: IoError) {
    if core.roster.failed(error) {
        write(core);
    }
}

/// The label is durable; or the flush failed.
pub(super) fn label_flushed(core: &mut Core, result: Result<(), IoError>) {
    match result {
        Err(error) => again(core, error),
        Ok(()) => core.roster.done(&core.members),
    }
}

/// A member holds everything from now on.
pub(super) fn rebuilt(core: &mut Core, number: usize) {
    core.roster.rebuilt(number, &mut core.members, &mut core.upkeep);
}

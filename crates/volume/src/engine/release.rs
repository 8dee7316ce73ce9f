//! Frees space whose last record became durable.

use super::Freed;
use super::checkpoint::Checkpoint;
use super::migrate::Migrate;
use super::outbox::Outbox;
use super::setup::Setup;
use super::space::Space;
use super::summaries::Summaries;

/// Frees what waits for batches up to `durable`: slots at once, bands after their trim.
pub(crate) fn release(
    durable: u64,
    setup: &Setup,
    space: &mut Space,
    migrate: &mut Migrate,
    checkpoint: &mut Checkpoint,
    (summaries, outbox, now_ns): (&mut Summaries, &mut Outbox, u64),
) {
    let durable = if setup.options.faults.reuse_at_once() { u64::MAX } else { durable };
    while let Some(freed) = space.freed.pop(durable) {
        space.changed = true;
        if migrate.holds(freed, &setup.extents) {
            continue;
        }
        match freed {
            Freed::Slots { first, count } => space.slots.clear_run(first, count),
            // A band that the last checkpoint on the capacity tier names waits for the next one.
            Freed::Band(band) if checkpoint.capacity.pins(band, now_ns) => {}
            Freed::Band(band) => summaries.trim(band, &mut space.bands, outbox),
        }
    }
}

//! The second disk, which comes, grows, shrinks and goes; and checkpoints, which make its changes durable.

use super::World;
use super::flights::Flight;
use super::halt::{Halt, broken};
use super::memory::{SECOND, Second};
use forebay_block::DiskId;
use forebay_volume::Op;

impl World<'_> {
    pub(super) fn change_second(&mut self, blocks: u64) -> Result<(), Halt> {
        if self.memory.maybe.is_some() {
            // An earlier change failed to become durable: one at a time.
            return Ok(());
        }
        let before = self.pool.engine.checkpoint_number();
        let engine = &mut self.pool.engine;
        let wanted = match self.memory.second {
            None if blocks == 0 => return Ok(()),
            None => match engine.add_disk(SECOND, blocks * 4096) {
                Ok(id) => Some(Second { id: id.0, blocks }),
                Err(_) => return Ok(()),
            },
            Some(second) if blocks > 0 => match engine.resize_disk(SECOND, blocks * 4096) {
                Ok(()) => Some(Second { blocks, ..second }),
                Err(_) => return Ok(()),
            },
            Some(second) => {
                let made = self.memory.oracle.change(second.id, 0, &vec![0; second.blocks as usize * 8]);
                let flight = Flight::Change { made, fua: true };
                self.submit((DiskId(second.id), 0, second.blocks * 8), Op::Discard, true, None, flight);
                self.settle(0)?;
                self.checkpoint()?;
                if self.pool.engine.remove_disk(SECOND).is_err() {
                    return Ok(());
                }
                None
            }
        };
        let before = before.max(self.pool.engine.checkpoint_number());
        self.note(|| format!("the second disk becomes {wanted:?}"));
        self.memory.maybe = Some(wanted);
        let tries = self.pool.engine.checkpoints_given_up();
        self.until(|world| world.is_checkpoint_over(before, tries))?;
        // One that was in progress already may not have it yet.
        self.checkpoint()?;
        if self.pool.engine.checkpoint_number() > before + 1 {
            self.settle_second(wanted);
        }
        Ok(())
    }

    /// The second disk is made or grown, and nobody waits until that is durable.
    pub(super) fn change_second_now(&mut self, blocks: u64) {
        if self.memory.maybe.is_some() {
            return;
        }
        let at = self.pool.engine.checkpoint_number();
        let engine = &mut self.pool.engine;
        let wanted = match self.memory.second {
            None => engine.add_disk(SECOND, blocks * 4096).map(|id| Second { id: id.0, blocks }),
            Some(second) if blocks > second.blocks => {
                engine.resize_disk(SECOND, blocks * 4096).map(|()| Second { blocks, ..second })
            }
            Some(_) => return,
        };
        let Ok(wanted) = wanted else { return };
        self.note(|| format!("the second disk becomes {wanted:?}, and is used at once"));
        (self.memory.maybe, self.memory.changed_at) = (Some(Some(wanted)), at);
    }

    /// Whether a change that nobody waits for has become durable: a checkpoint that was in progress then may not have it.
    pub(super) fn settle_second_if_durable(&mut self) {
        if let Some(wanted) = self.memory.maybe
            && self.memory.changed_at > 0
            && self.pool.engine.checkpoint_number() > self.memory.changed_at + 1
        {
            self.settle_second(wanted);
        }
    }

    /// What the second disk is, from now on.
    fn settle_second(&mut self, now: Option<Second>) {
        if let (Some(old), None) = (self.memory.second, now) {
            self.memory.oracle.forget_disk(old.id);
        }
        (self.memory.second, self.memory.maybe) = (now, None);
        self.memory.changed_at = 0;
    }

    /// Asks for a checkpoint and waits until it is there or has failed.
    pub(super) fn checkpoint(&mut self) -> Result<(), Halt> {
        let before = self.pool.engine.checkpoint_number();
        self.pool.engine.request_checkpoint(false);
        let tries = self.pool.engine.checkpoints_given_up();
        self.until(|world| world.is_checkpoint_over(before, tries))
    }

    /// Whether there is a checkpoint after number `before`, or an attempt after `tries` was given up.
    pub(super) fn is_checkpoint_over(&self, before: u64, tries: u64) -> bool {
        let engine = &self.pool.engine;
        engine.checkpoint_number() > before
            || engine.checkpoints_given_up() > tries
            || engine.checkpoint_failed()
            || engine.read_only_reason().is_some()
    }

    /// After a restart: the second disk is what it was, or what it was to become.
    ///
    /// # Errors
    /// Where it is neither.
    pub fn find_second(&mut self) -> Result<(), Halt> {
        let found = self.pool.engine.disk_named(SECOND);
        let found = found.map(|disk| Second { id: disk.id.0, blocks: disk.size_bytes / 4096 });
        let known = self.memory.second;
        if found != known && self.memory.maybe != Some(found) {
            let maybe = self.memory.maybe;
            return Err(broken(&format!("the second disk is {found:?}, not {known:?} (or {maybe:?})")));
        }
        // What was flushed on it is a promise, too.
        if let Some(Some(wanted)) = self.memory.maybe.filter(|_| self.memory.changed_at > 0) {
            let blocks = found.map_or(0, |second| second.blocks);
            self.memory.oracle.cut_off(wanted.id, blocks).map_err(|what| broken(&what))?;
        }
        self.settle_second(found);
        Ok(())
    }
}

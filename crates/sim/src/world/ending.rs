//! How a round ends: a clean stop, a rest, or the power fails while something is in progress.

use super::World;
use super::devices::plan_faults;
use super::halt::{Halt, broken};
use crate::scenario::Step;

/// A pool at rest has noted what is durable after so long, in nanoseconds.
const REST_NS: u64 = 5_000_000_000;
/// And so long for what a failed flush covered to be written again.
const MADE_GOOD_NS: u64 = 100_000_000_000;

impl World<'_> {
    /// A clean stop in which the power fails after so many requests.
    ///
    /// # Errors
    /// The power failed, or a promise was broken.
    pub fn stop_until(&mut self, effects: u32) -> Result<(), Halt> {
        self.settle(0)?;
        self.power.fail_after(u64::from(effects));
        self.stop()
    }

    /// Goes on until the devices have carried out so many requests more, or have nothing to do any more.
    ///
    /// # Errors
    /// The power failed, or a promise was broken.
    pub fn run_out(&mut self, effects: u32) -> Result<(), Halt> {
        self.power.fail_after(u64::from(effects));
        self.until(|world| world.flights.len() == 0 && !world.pool.in_flight())
    }

    /// Everything is flushed, and then nobody asks for anything for so long that the pool has noted it.
    ///
    /// # Errors
    /// The power failed, or a promise was broken.
    pub fn rest(&mut self) -> Result<(), Halt> {
        self.settle(0)?;
        self.step(&Step::Flush)?;
        self.settle(0)?;
        self.idle(REST_NS)?;
        self.expect_damage_report()?;
        if self.makes_good && self.pool.engine.status().flush_failed {
            plan_faults(self.devices, &[]);
            self.idle(MADE_GOOD_NS)?;
            if self.pool.engine.read_only_reason().is_some() {
                // Nothing is written again before the next start. It becomes so by a second fault: a write failed while the journal was full.
                self.met("failed flushes that a pool which takes no writes does not make good");
            } else if self.pool.engine.status().flush_failed {
                return Err(self.stalled("a failed flush is not made good"));
            }
        }
        Ok(())
    }

    /// A clean stop.
    ///
    /// # Errors
    /// The power failed, or a promise was broken.
    pub fn stop(&mut self) -> Result<(), Halt> {
        self.end_jobs();
        self.settle(0)?;
        self.pool.engine.begin_stop();
        // Where the pool takes no writes a job may wait in vain for a checkpoint.
        self.until(|world| world.pool.engine.is_at_rest() || world.pool.engine.read_only_reason().is_some())?;
        let before = self.pool.engine.checkpoint_number();
        self.pool.engine.request_checkpoint(true);
        let tries = self.pool.engine.checkpoints_given_up();
        self.until(|world| {
            let engine = &world.pool.engine;
            let is_good = !engine.checkpoint_pending() && !engine.is_busy();
            is_good || world.is_checkpoint_over(u64::MAX, tries)
        })?;
        if self.power.is_off() {
            return Err(Halt::PowerOff);
        }
        let engine = &self.pool.engine;
        if engine.checkpoint_number() == before && !self.may_fail() {
            return Err(broken(&format!("no clean stop: {:?}", engine.status().counters.last_checkpoint_error)));
        }
        Ok(())
    }
}

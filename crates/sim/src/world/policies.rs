//! What a server changes when its configuration is read again, and while clients come and go.

use super::World;
use super::halt::{Halt, broken};
use crate::scenario::CLASSES;
use forebay_prism::{Compress, Place};

impl World<'_> {
    /// A class has another place, is compressed otherwise, and is cached or not.
    pub(super) fn reload(&mut self, class: u8, policy: u8) -> Result<(), Halt> {
        use Place::{Both, Capacity, Fast, Stage};
        let name = CLASSES[usize::from(class) % CLASSES.len()];
        let table = self.pool.engine.prism_mut().table_mut();
        let Some(mut spec) = table.classes().iter().find(|spec| spec.name == name).cloned() else { return Ok(()) };
        spec.place = [Fast, Stage, Capacity, Both][usize::from(policy % 4)];
        spec.compress = [Compress::Off, Compress::Lz4, Compress::Zstd(1)][usize::from(policy / 4 % 3)];
        spec.read_cache = policy / 12 % 2 == 1;
        table.merge(&[spec]).map_err(|error| broken(&error))?;
        self.pool.engine.classes_changed();
        self.note(|| format!("class {name} has policy {policy}"));
        self.met("classes changed while the pool was used");
        Ok(())
    }

    /// What goes past the fast tier is durable from now on when it is answered, or no more.
    pub(super) fn write_through(&mut self, is_on: bool) {
        if self.is_through != is_on {
            self.met("switches of what is written through");
        }
        self.pool.engine.write_through(is_on);
        // Only where the server alone dies is anything promised.
        self.is_through = is_on && self.is_over_bucket;
        if !is_on {
            self.flights.through_no_more();
        }
    }
}

//! A device that answers nothing any more, without an error.

use crate::world::{Oracle, Shape, World};
use forebay_block::{ClassId, Completion, Device, Geometry, Request};
use std::time::Duration;

/// Keeps what it is asked for ever.
struct Silent {
    within: Box<dyn Device>,
    kept: usize,
}

impl Device for Silent {
    fn name(&self) -> &str {
        self.within.name()
    }

    fn geometry(&self) -> &Geometry {
        self.within.geometry()
    }

    fn submit(&mut self, _request: Request) {
        self.kept += 1;
    }

    fn poll(&mut self, _done: &mut Vec<Completion>) {}

    fn wait(&mut self, _timeout_ns: u64) {
        std::thread::sleep(Duration::from_millis(1));
    }

    fn queue_limit(&self) -> usize {
        self.within.queue_limit()
    }

    fn in_flight(&self) -> usize {
        self.kept
    }
}

/// The last checkpoint was waited for without a limit, and nobody read signals any more.
#[test]
fn regression_a_stop_ends_where_a_device_answers_nothing() {
    let shape = Shape::default();
    let mut world = World::open(&shape, shape.format(), 1, Oracle::default()).unwrap();
    world.write(0, 64, false, Some(ClassId(0)));
    world.settle(0).unwrap();
    let devices = std::mem::take(&mut world.pool.devices.list).into_iter();
    world.pool.devices.list = devices.map(|within| Box::new(Silent { within, kept: 0 }) as Box<dyn Device>).collect();
    assert!(!world.pool.close_unless_silent(Duration::from_millis(50)));
}

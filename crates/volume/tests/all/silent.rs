//! A device that stops answering, without an error.

use crate::world::{Oracle, Shape, World};
use forebay_block::{ClassId, Completion, Device, Geometry, IoErrorKind, Request};
use forebay_device::Image;
use forebay_device::image::ImageDevice;
use forebay_volume::Devices;
use std::time::Duration;

/// Holds all requests for ever.
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

/// The last checkpoint was waited for without a limit, during which no signal was handled.
#[test]
fn regression_a_stop_ends_where_a_device_answers_nothing() {
    let shape = Shape::default();
    let mut world = World::open(&shape, shape.format(), 1, Oracle::default()).unwrap();
    world.write(0, 64, false, Some(ClassId(0)));
    world.settle(0).unwrap();
    let devices = std::mem::take(&mut world.pool.devices.list).into_iter();
    world.pool.devices.list = devices.map(|within| Box::new(Silent { within, kept: 0 }) as Box<dyn Device>).collect();
    let mut rounds = 0;
    let mut is_given_up = |has_moved: bool| {
        rounds = if has_moved { 0 } else { rounds + 1 };
        rounds > 20
    };
    assert!(!world.pool.close_unless(&mut is_given_up));
}

/// Answers nothing until the second request, and then everything.
struct Late {
    within: ImageDevice,
    asked: u32,
}

impl Device for Late {
    fn name(&self) -> &str {
        self.within.name()
    }

    fn geometry(&self) -> &Geometry {
        self.within.geometry()
    }

    fn submit(&mut self, request: Request) {
        self.asked += 1;
        self.within.submit(request);
    }

    fn poll(&mut self, done: &mut Vec<Completion>) {
        if self.asked > 1 {
            self.within.poll(done);
        }
    }

    fn wait(&mut self, _timeout_ns: u64) {}

    fn queue_limit(&self) -> usize {
        self.within.queue_limit()
    }

    fn in_flight(&self) -> usize {
        1
    }
}

/// A device being examined was waited for without a limit; a late answer must not count for another request.
#[test]
fn regression_a_device_that_answers_nothing_is_given_up() {
    let late = Late { within: ImageDevice::new(Image::zeroed(1 << 20)), asked: 0 };
    let mut devices = Devices::new(vec![Box::new(late)]).with_limit(20);
    let error = devices.read(0, 0, 4096).unwrap_err();
    assert_eq!((error.kind, error.os_error), (IoErrorKind::Gone, 110));
    assert_eq!(devices.read(0, 4096, 4096).unwrap_err().kind, IoErrorKind::Gone);
}

//! The wrapper against the oracle, which knows for each sector what a power cut may leave.

use super::*;
use crate::reorder::ReorderDevice;
use crate::{RamDevice, blocking};
use forebay_proof::oracle::{Made, Oracle};
use forebay_proof::stamp;
use proptest::prelude::*;

const SECTORS: u64 = 24;

#[derive(Clone, Debug)]
enum Step {
    Write { at: u64, len: u64, fua: bool },
    Discard { at: u64, len: u64 },
    WriteZeroes { at: u64, len: u64 },
    Read { at: u64, len: u64 },
    Flush,
    Poll,
    Cut { seed: u64 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let range = || (0..SECTORS, 1..=8u64).prop_map(|(at, len)| (at, len.min(SECTORS - at)));
    let step = prop_oneof![
        8 => (range(), prop::bool::weighted(0.2)).prop_map(|((at, len), fua)| Step::Write { at, len, fua }),
        1 => range().prop_map(|(at, len)| Step::Discard { at, len }),
        1 => range().prop_map(|(at, len)| Step::WriteZeroes { at, len }),
        3 => range().prop_map(|(at, len)| Step::Read { at, len }),
        2 => Just(Step::Flush),
        6 => Just(Step::Poll),
        1 => any::<u64>().prop_map(|seed| Step::Cut { seed }),
    ];
    prop::collection::vec(step, 1..80)
}

fn bytes_of(tag: u32, len: u64) -> Buf {
    let mut buf = Buf::new((len * 512) as usize);
    buf.chunks_exact_mut(512).for_each(|sector| stamp::fill(tag, sector));
    buf
}

type Volatile = VolatileDevice<ImageDevice>;

/// A device whose power can be cut; `cut` returns the bytes that are left.
trait Cuttable: Device {
    fn cut(&mut self, seed: u64) -> Vec<u8>;
}

impl Cuttable for Volatile {
    fn cut(&mut self, seed: u64) -> Vec<u8> {
        self.power_cut(&mut Random::new(seed)).unwrap();
        self.durable().to_bytes()
    }
}

impl Cuttable for ReorderDevice<Volatile> {
    fn cut(&mut self, seed: u64) -> Vec<u8> {
        self.forget();
        self.inner_mut().cut(seed)
    }
}

/// The meaning of a request in flight for the oracle.
enum Flight {
    Change { made: Vec<Made>, fua: bool },
    Flush { event: u64 },
    Read { at: u64, since: Vec<usize> },
}

/// A history in progress. For the oracle each sector is a block of which only the first sector is used, because a
/// device guarantees no more than whole sectors.
struct History<D> {
    device: D,
    oracle: Oracle,
    /// Requests in flight with their sectors. A device that reorders may carry out overlapping requests in either
    /// order, so its users, and this one, never submit two at once.
    flights: BTreeMap<u64, (Range<u64>, Flight)>,
    overlaps: bool,
}

impl<D: Cuttable> History<D> {
    fn poll(&mut self) {
        let mut done = Vec::new();
        self.device.poll(&mut done);
        for Completion { tag, result, bufs } in done {
            assert_eq!(result, Ok(()));
            match self.flights.remove(&tag).unwrap().1 {
                Flight::Change { made, fua } => made.iter().for_each(|made| self.oracle.acknowledge(made, fua)),
                Flight::Flush { event } => self.oracle.flushed(event),
                Flight::Read { at, since } => {
                    let Some(Vectored::One(buf)) = &bufs else { panic!("a read without its buffer") };
                    for (sector, (bytes, since)) in (at..).zip(buf.chunks(512).zip(since)) {
                        self.oracle.saw((0, sector), 0, stamp::tag_of(bytes), since).unwrap();
                    }
                }
            }
        }
    }

    fn submit(&mut self, tag: u64, at: u64, len: u64, op: Op) {
        let touches = |range: &Range<u64>| range.start < at + len && at < range.end;
        while !self.overlaps && self.flights.values().any(|(range, _)| touches(range)) {
            self.poll();
        }
        let mut change = |tag: u32, fua: bool| {
            let made = (at..at + len).map(|sector| self.oracle.change(0, sector * 8, &[tag])).collect();
            Flight::Change { made, fua }
        };
        let flight = match &op {
            Op::Read { .. } => {
                // Writes take effect when they are submitted.
                Flight::Read { at, since: (at..at + len).map(|sector| self.oracle.newest((0, sector))).collect() }
            }
            Op::Write { fua, .. } => change(tag as u32, *fua),
            Op::Flush => Flight::Flush { event: self.oracle.flush_begins() },
            Op::Discard { .. } | Op::WriteZeroes { .. } => change(0, false),
        };
        self.flights.insert(tag, (at..at + len, flight));
        self.device.submit(Request { tag, offset_bytes: at * 512, stream: 0, op });
    }

    fn step(&mut self, tag: u64, step: &Step) {
        match *step {
            Step::Write { at, len, fua } => {
                let bufs = Vectored::One(bytes_of(tag as u32, len).freeze());
                self.submit(tag, at, len, Op::Write { bufs, fua });
            }
            Step::Discard { at, len } => self.submit(tag, at, len, Op::Discard { len_bytes: len * 512 }),
            Step::WriteZeroes { at, len } => self.submit(tag, at, len, Op::WriteZeroes { len_bytes: len * 512 }),
            Step::Read { at, len } => {
                let bufs = Vectored::One(Buf::new((len * 512) as usize));
                self.submit(tag, at, len, Op::read(bufs));
            }
            Step::Flush => self.submit(tag, 0, 0, Op::Flush),
            Step::Poll => self.poll(),
            Step::Cut { seed } => {
                let image = self.device.cut(seed);
                for (sector, bytes) in (0..).zip(image.chunks(512)) {
                    let content = stamp::tag_of(bytes).map(|tag| [tag, 0, 0, 0, 0, 0, 0, 0]);
                    self.oracle.survived((0, sector), content).unwrap();
                }
                self.oracle.restarted();
                self.flights.clear();
                assert_eq!(self.device.in_flight(), 0);
            }
        }
    }
}

fn run<D: Cuttable>(device: D, overlaps: bool, steps: &[Step]) {
    let mut history = History { device, oracle: Oracle::default(), flights: BTreeMap::new(), overlaps };
    for (index, step) in steps.iter().enumerate() {
        history.step(index as u64 + 1, step);
    }
    // Every history ends with a power cut.
    history.step(0, &Step::Cut { seed: steps.len() as u64 });
}

fn volatile() -> Volatile {
    VolatileDevice::over_image(Image::zeroed(SECTORS * 512))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn a_cut_leaves_allowed_values_only(steps in steps()) {
        run(volatile(), true, &steps);
    }

    #[test]
    fn leaks_stay_within_what_is_allowed(steps in steps(), seed: u64) {
        run(volatile().with_leak(seed), true, &steps);
    }

    #[test]
    fn held_back_and_reordered_requests_stay_within_what_is_allowed(steps in steps(), seed: u64, leak: bool) {
        let device = if leak { volatile().with_leak(seed) } else { volatile() };
        run(ReorderDevice::seeded(device, seed), false, &steps);
    }
}

fn fill(value: u8, sectors: usize) -> Vec<u8> {
    vec![value; sectors * 512]
}

/// The oracle allows much. This test shows that the wrapper actually does it.
#[test]
fn cuts_lose_keep_tear_and_reorder() {
    let mut seen: BTreeSet<(u8, u8)> = BTreeSet::new();
    for seed in 0..400 {
        let mut device = volatile();
        blocking::write(&mut device, 0, &fill(1, 2)).unwrap();
        blocking::write(&mut device, 0, &fill(2, 2)).unwrap();
        let image = device.cut(seed);
        seen.insert((image[0], image[512]));
    }
    let all = [0, 1, 2].into_iter().flat_map(|a| [0, 1, 2].map(|b| (a, b))).collect();
    assert_eq!(seen, all);
}

#[test]
fn a_flush_does_not_cover_a_write_whose_completion_nobody_has_seen() {
    let mut device = volatile();
    let write = Op::Write { bufs: Vectored::One(bytes_of(1, 1).freeze()), fua: false };
    device.submit(Request { tag: 1, offset_bytes: 0, stream: 0, op: write });
    device.submit(Request { tag: 2, offset_bytes: 0, stream: 0, op: Op::Flush });
    let mut done = Vec::new();
    device.poll(&mut done);
    assert_eq!((done.len(), device.unflushed_sectors()), (2, 1));
    blocking::flush(&mut device).unwrap();
    assert_eq!(device.unflushed_sectors(), 0);
}

#[test]
fn an_unacknowledged_fua_write_may_be_lost_and_an_acknowledged_one_not() {
    let mut lost = false;
    for seed in 0..50 {
        let mut device = volatile();
        let write = Op::Write { bufs: Vectored::One(bytes_of(1, 1).freeze()), fua: true };
        device.submit(Request { tag: 1, offset_bytes: 0, stream: 0, op: write });
        lost |= device.cut(seed)[0] == 0;
        let write = Op::Write { bufs: Vectored::One(bytes_of(2, 1).freeze()), fua: true };
        blocking::run(&mut device, 0, write).unwrap();
        assert_eq!(device.cut(seed)[0], 2);
    }
    assert!(lost);
}

#[test]
fn a_leak_reaches_the_inner_device_before_any_flush() {
    let mut partly = false;
    for seed in 0..20 {
        let mut device = volatile().with_leak(seed);
        for value in 1..20 {
            blocking::write(&mut device, u64::from(value) * 512, &fill(value, 4)).unwrap();
        }
        let unflushed = device.unflushed_sectors();
        assert!(unflushed > 0);
        let image = device.into_inner().into_store().to_bytes();
        partly |= image.iter().any(|&byte| byte != 0);
    }
    assert!(partly);
}

#[test]
fn a_long_discard_does_not_undo_newer_writes() {
    let mut device = VolatileDevice::new(RamDevice::new(64 << 20).unwrap()).with_leak(3);
    blocking::write(&mut device, 0, &fill(1, 64)).unwrap();
    let discard = Op::Discard { len_bytes: 32 << 20 };
    device.submit(Request { tag: 1, offset_bytes: 0, stream: 0, op: discard });
    let write = Op::Write { bufs: Vectored::One(Buf::copy_of(&fill(2, 1)).freeze()), fua: false };
    device.submit(Request { tag: 2, offset_bytes: 512, stream: 0, op: write });
    let mut done = Vec::new();
    while device.in_flight() > 0 {
        device.poll(&mut done);
    }
    blocking::flush(&mut device).unwrap();
    let bytes = blocking::read(&mut device, 0, 2048).unwrap();
    assert_eq!([bytes[0], bytes[512], bytes[1024]], [0, 2, 0]);
    assert_eq!(device.unflushed_sectors(), 0);
}

#[test]
fn a_failed_write_back_keeps_the_data_and_fails_the_flush() {
    use crate::faulty::{Fault, FaultyDevice, Target};
    let mut inner = FaultyDevice::new(ImageDevice::new(Image::zeroed(1 << 20)));
    inner.plan(Fault::nth(Target::Writes, 0));
    let mut device = VolatileDevice::new(inner);
    blocking::write(&mut device, 0, &fill(5, 1)).unwrap();
    assert_eq!(blocking::flush(&mut device).unwrap_err().kind, IoErrorKind::Medium);
    assert_eq!(blocking::read(&mut device, 0, 512).unwrap()[0], 5);
    blocking::flush(&mut device).unwrap();
    assert_eq!(device.inner().inner().store().to_bytes()[0], 5);
}

#[test]
fn a_full_cache_is_written_back() {
    let mut device = VolatileDevice::new(RamDevice::new(1 << 30).unwrap());
    let chunk = fill(7, 2048);
    for index in 0..300 {
        blocking::write(&mut device, index << 20, &chunk).unwrap();
    }
    assert!(device.unflushed_sectors() as u64 * 512 <= CACHE_LIMIT_BYTES + (1 << 20));
    assert_eq!(blocking::read(&mut device, 0, 512).unwrap()[0], 7);
}

/// A device of two, each with a descriptor, as a mirror is.
struct Two(RamDevice);

impl Device for Two {
    forebay_block::forward_device!(self => self.0; name geometry submit poll wait queue_limit in_flight);

    fn wake_fds(&self, out: &mut Vec<i32>) {
        out.extend([11, 12]);
    }

    fn completes_unseen(&self) -> bool {
        false
    }
}

#[test]
fn regression_descriptors_of_all_devices_below_are_watched() {
    let mut fds = Vec::new();
    VolatileDevice::new(Two(RamDevice::new(1 << 20).unwrap())).wake_fds(&mut fds);
    assert_eq!(fds, [11, 12]);
}

/// A device whose flush does nothing; the oracle must notice.
struct LyingFlush(Volatile, Vec<Completion>);

impl Device for LyingFlush {
    fn name(&self) -> &str {
        self.0.name()
    }
    fn geometry(&self) -> &Geometry {
        self.0.geometry()
    }
    fn submit(&mut self, request: Request) {
        if matches!(request.op, Op::Flush) {
            self.1.push(finish(request, Ok(())));
        } else {
            self.0.submit(request);
        }
    }
    fn poll(&mut self, done: &mut Vec<Completion>) {
        done.append(&mut self.1);
        self.0.poll(done);
    }
    fn wait(&mut self, _timeout_ns: u64) {}
    fn queue_limit(&self) -> usize {
        self.0.queue_limit()
    }
    fn in_flight(&self) -> usize {
        self.0.in_flight() + self.1.len()
    }
}

impl Cuttable for LyingFlush {
    fn cut(&mut self, seed: u64) -> Vec<u8> {
        self.1.clear();
        self.0.cut(seed)
    }
}

#[test]
fn the_oracle_notices_a_flush_that_lies() {
    let noticed = (0..40).filter(|&seed| {
        let write = Step::Write { at: 3, len: 4, fua: false };
        let steps = [write, Step::Poll, Step::Flush, Step::Poll, Step::Cut { seed }];
        std::panic::catch_unwind(|| run(LyingFlush(volatile(), Vec::new()), true, &steps)).is_err()
    });
    assert!(noticed.count() > 20);
}

//! Verifying on targets that return wrong data.

use super::*;

/// A target that keeps what is written; `wrong` decides the fate of each I/O by its number.
struct Keeping {
    clock: VirtualClock,
    data: Vec<u8>,
    buffers: Vec<Vec<u8>>,
    waiting: Vec<(u64, Io, Fate)>,
    number: u64,
    wrong: fn(u64, &Io) -> Fate,
}

#[derive(Clone, Copy, PartialEq)]
enum Fate {
    Good,
    /// The write fails, and may have written a part.
    Fails,
    /// A bit of the data that is read is flipped.
    Flips,
}

impl Queue for Keeping {
    fn slots(&self) -> u32 {
        self.buffers.len() as u32
    }
    fn buffer_bytes(&self) -> usize {
        self.buffers[0].len()
    }
    fn buffer(&mut self, slot: u32) -> &mut [u8] {
        &mut self.buffers[slot as usize]
    }
    fn submit(&mut self, io: &Io) {
        self.number += 1;
        let fate = (self.wrong)(self.number, io);
        let at = self.clock.0.load(Ordering::SeqCst) + 10_000 + self.number % 7 * 1000;
        let (place, len) = (io.offset_bytes as usize, io.len_bytes as usize);
        if io.kind == OpKind::Write {
            let len = if fate == Fate::Fails { len / 2 } else { len };
            self.data[place..place + len].copy_from_slice(&self.buffers[io.slot as usize][..len]);
        } else {
            self.buffers[io.slot as usize][..len].copy_from_slice(&self.data[place..place + len]);
            self.buffers[io.slot as usize][1000] ^= u8::from(fate == Fate::Flips);
        }
        self.waiting.push((at, *io, fate));
    }
    fn kick(&mut self) {}
    fn reap(&mut self, done: &mut Vec<Done>) {
        let now = self.clock.0.load(Ordering::SeqCst);
        self.waiting.retain(|&(at, io, fate)| {
            if at <= now {
                let error = IoError { kind: IoErrorKind::Medium, operation: "write", offset_bytes: 0, os_error: 5 };
                done.push(Done { slot: io.slot, error: (fate == Fate::Fails).then(|| Box::new(error)) });
            }
            at > now
        });
    }
    fn wait(&mut self, timeout_ns: u64) {
        let now = self.clock.0.load(Ordering::SeqCst);
        let next = self.waiting.iter().map(|&(at, ..)| at).min().unwrap_or(now);
        self.clock.advance_to(next.min(now + timeout_ns));
    }
    fn in_flight(&self) -> u32 {
        self.waiting.len() as u32
    }
}

fn verified(depth: u32, wrong: fn(u64, &Io) -> Fate) -> JobResult {
    let clock = VirtualClock::default();
    let buffers = vec![vec![0; 4096]; depth as usize];
    let queue =
        Keeping { clock: clock.clone(), data: vec![0; 1 << 18], buffers, waiting: Vec::new(), number: 0, wrong };
    let facts = TargetFacts { size_bytes: 1 << 18, logical_block_bytes: 512, ..TargetFacts::default() };
    let job = Job { verify: true, mix: Mix::reads_percent(50), ..job(depth, 0.5) };
    let assignment =
        Assignment { job, opened: Opened { queues: vec![queue], facts }, recorders: Vec::new(), replay: None };
    let stop = Arc::new(AtomicBool::new(false));
    run(vec![assignment], &clock, &Settings::default(), &stop, &mut |_| {}).unwrap().pop().unwrap()
}

#[test]
fn a_sound_target_is_verified_and_not_accused() {
    let result = verified(1, |_, _| Fate::Good);
    assert_eq!(result.failures.count, 0, "{:?}", result.failures.first);
    let judged = result.judged.unwrap();
    assert!(judged.whole > 10_000 && judged.partly == 0 && judged.unjudged < 300, "{judged:?}");
    // Several I/Os in flight may meet at one place; such units are judged in part.
    let result = verified(4, |_, _| Fate::Good);
    assert_eq!(result.failures.count, 0, "{:?}", result.failures.first);
    let judged = result.judged.unwrap();
    assert!(judged.whole > 10 * judged.partly, "{judged:?}");
}

#[test]
fn every_read_that_was_wrong_is_found() {
    let result =
        verified(1, |number, io| if number % 500 == 0 && io.kind == OpKind::Read { Fate::Flips } else { Fate::Good });
    assert!(result.failures.mismatches > 20, "{:?}", result.failures);
    assert_eq!(result.failures.count, result.failures.mismatches);
    assert_eq!(result.failures.first[0].kind, OpKind::Read);
}

#[test]
fn a_write_that_failed_leaves_its_place_unknown_until_the_next() {
    let result =
        verified(1, |number, io| if number % 50 == 0 && io.kind == OpKind::Write { Fate::Fails } else { Fate::Good });
    assert!(result.failures.count > 100);
    assert_eq!(result.failures.mismatches, 0, "{:?}", result.failures.first);
    let judged = result.judged.unwrap();
    assert!(judged.whole > 20 * (judged.partly + judged.unjudged), "{judged:?}");
}

#[test]
fn regression_all_that_was_read_is_in_the_counts_of_verifying() {
    let result =
        verified(1, |number, io| if number % 500 == 0 && io.kind == OpKind::Read { Fate::Flips } else { Fate::Good });
    let judged = result.judged.unwrap();
    assert_eq!(judged.wrong, result.failures.mismatches);
    // Each read is one unit; the count includes the reads of the warm-up.
    let measured = result.kind(OpKind::Read).unwrap().ios;
    assert!((measured..measured + measured / 10).contains(&judged.read()), "{judged:?} of {measured}");
    assert!(!result.has_verified_nothing());
}

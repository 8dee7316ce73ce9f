//! Merging units of many objects, over a bucket in memory.

use super::job::{Answer, Failure, Job};
use super::log::{Limits, Log};
use super::log_world_tests::{LIMITS, Stored, World, bytes_of};
use super::name::{Content, ObjectName};
use forebay_block::{Buf, IoErrorKind, Op, Request, Vectored};
use std::collections::BTreeMap;

/// A log and its bucket. The epoch check always succeeds here.
struct Scene {
    log: Log,
    stored: Stored,
    /// Most bytes requested at once, and count of objects read.
    asked_max_bytes: u64,
    gets: usize,
}

fn sector(at: u64, op: Op) -> Request {
    Request { tag: at, offset_bytes: at * 512, stream: 0, op }
}

fn write(sectors: u64) -> Op {
    Op::Write { bufs: Vectored::One(Buf::copy_of(&bytes_of(7).repeat(sectors as usize)).freeze()), fua: false }
}

fn timed_out() -> Failure {
    Failure { kind: IoErrorKind::Medium, os_error: libc::ETIMEDOUT }
}

impl Scene {
    fn new(limits: Limits) -> Self {
        Self { log: Log::new(limits, 1, &[], &[]), stored: Stored::new(), asked_max_bytes: 0, gets: 0 }
    }

    fn carry_out(&mut self, job: &Job) {
        let answer = match job {
            Job::Look => Answer::Look { result: Ok(()) },
            job => World::carry_out(&mut self.stored, job, 1, &BTreeMap::new()),
        };
        self.log.answer(answer);
    }

    /// Carries out jobs until the log submits no more.
    fn settle(&mut self) {
        let mut jobs = self.log.take_jobs();
        while !jobs.is_empty() {
            let asked = jobs.iter().map(|job| match job {
                Job::Get { range, .. } => range.end - range.start,
                _ => 0,
            });
            self.asked_max_bytes = self.asked_max_bytes.max(asked.sum());
            let job = jobs.remove(0);
            self.gets += usize::from(matches!(job, Job::Get { .. }));
            self.carry_out(&job);
            jobs.extend(self.log.take_jobs());
        }
    }

    /// Flushes after each request, so that each becomes an object.
    fn flushed(&mut self, requests: impl IntoIterator<Item = (u64, Op)>) {
        for (at, op) in requests {
            self.log.submit(sector(at, op));
            self.log.submit(sector(1000, Op::Flush));
            self.settle();
        }
    }
}

/// An object that is visible in several places. The next object over it makes three visible ones, above the limit of
/// two, and causes a merge.
fn one_below_two() -> Scene {
    let mut scene = Scene::new(LIMITS);
    scene.flushed([(0, write(8)), (2, write(1))]);
    scene
}

#[test]
fn regression_objects_are_checked_before_they_are_made_one() {
    let mut scene = one_below_two();
    let (name, content) =
        scene.stored.first_key_value().map(|(name, content)| (name.clone(), content.clone())).unwrap();
    scene.stored.get_mut(&name).unwrap()[4000] ^= 1;
    scene.flushed([(5, write(1))]);
    assert!(scene.gets > 0 && scene.stored.len() == 3, "what was not what it should be was made one with others");
    scene.stored.insert(name, content);
    scene.flushed([(1, write(1)), (3, write(1)), (4, write(1)), (6, write(1))]);
    assert_eq!((scene.stored.len(), scene.log.objects()), (1, (1, 0)), "twice as many, and all are sound");
}

#[test]
fn objects_that_are_made_one_are_read_one_unit_at_a_time() {
    let mut scene = one_below_two();
    scene.flushed([(5, write(1))]);
    assert_eq!(scene.log.objects(), (1, 0));
    assert_eq!(scene.asked_max_bytes, 4096);
}

#[test]
fn regression_a_merge_that_cannot_succeed_is_not_tried_at_each_write() {
    let mut scene = one_below_two();
    let name = scene.stored.keys().next().unwrap().clone();
    scene.stored.remove(&name);
    scene.flushed([(5, write(1))]);
    let gets = scene.gets;
    assert!(gets > 0);
    scene.flushed([(1, write(1)), (3, write(1)), (4, write(1))]);
    assert_eq!(scene.gets, gets, "four to six show");
    scene.flushed([(6, write(1))]);
    assert!(scene.gets > gets, "twice as many as then");
}

#[test]
fn regression_nothing_is_read_to_be_made_one_with_what_is_damaged() {
    let scene = one_below_two();
    let names: Vec<ObjectName> = scene.stored.keys().map(|name| name.parse().unwrap()).collect();
    let log = Log::new(LIMITS, 2, &names, &[]).with_damaged([names[0].sequence].into());
    let mut scene = Scene { log, ..scene };
    scene.flushed([(5, write(1))]);
    assert_eq!((scene.gets, scene.stored.len()), (0, 3));
}

#[test]
fn regression_zeros_beside_the_data_are_made_one_with_it() {
    let zeros = || Op::WriteZeroes { len_bytes: 512 };
    let mut scene = Scene::new(LIMITS);
    scene.flushed([(2, write(1)), (0, zeros()), (4, zeros()), (6, zeros()), (3, write(1))]);
    assert!(scene.log.objects().0 <= 2, "{:?}", scene.stored.keys());
    // A unit of zeros alone becomes one empty object.
    let mut scene = Scene::new(LIMITS);
    scene.flushed([(7, write(1)), (7, zeros()), (0, zeros()), (2, zeros()), (4, zeros())]);
    let names: Vec<ObjectName> = scene.stored.keys().map(|name| name.parse().unwrap()).collect();
    assert!(names.len() <= 2 && names.iter().all(|name| name.content == Content::Zeros), "{names:?}");
}

#[test]
fn regression_writes_go_on_after_the_object_that_many_were_made_could_not_be_sent() {
    let limits = Limits { memory_bytes: 7424, ..LIMITS };
    let mut scene = Scene::new(limits);
    scene.flushed([(0, write(1)), (3, write(1))]);
    scene.log.submit(sector(7, write(1)));
    scene.log.submit(sector(1000, Op::Flush));
    let merged = loop {
        let mut jobs = scene.log.take_jobs();
        let is_merged = |job: &Job| matches!(job, Job::Put { name, .. } if name.len_bytes == 4096);
        if let Some(at) = jobs.iter().position(is_merged) {
            let merged = jobs.remove(at);
            jobs.iter().for_each(|job| scene.carry_out(job));
            break merged;
        }
        assert!(!jobs.is_empty(), "nothing was made one");
        jobs.iter().for_each(|job| scene.carry_out(job));
    };
    scene.settle();
    scene.log.done().clear();
    // These writes wait for the memory of the merged object. Once that has failed, there is room for two of them.
    for at in [8, 16, 24] {
        scene.log.submit(sector(at, write(7)));
    }
    assert!(scene.log.done().is_empty() && scene.log.take_jobs().is_empty());
    let Job::Put { name, .. } = merged else { panic!("{merged:?}") };
    scene.log.answer(Answer::Put { sequence: name.sequence, result: Err(timed_out()), is_repeated: true });
    scene.settle();
    assert_eq!(scene.log.done().len(), 3);
}

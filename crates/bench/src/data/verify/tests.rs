use super::*;
use crate::data::Content;
use crate::job::model::Data;
use forebay_block::Random;
use proptest::prelude::*;
use std::sync::Mutex;

const SEED: u64 = 77;
const SECTOR: usize = 512;
/// The region does not begin at offset 0.
const BASE: u64 = 3 << 20;

/// A map, content and an honest target: it writes sectors atomically, and nothing larger.
struct Bench {
    map: WrittenMap,
    content: Content,
    sectors: Vec<Mutex<[u8; SECTOR]>>,
}

impl Bench {
    fn new(granule_bytes: u64, region_bytes: u64) -> Self {
        let layout = Layout::new(BASE, granule_bytes).unwrap();
        let content = Content::new(&Data::default(), Some(&layout), SEED).unwrap();
        let map = WrittenMap::new(layout, (BASE, region_bytes), SEED).unwrap();
        let sectors = (0..region_bytes / SECTOR as u64).map(|_| Mutex::new([0; SECTOR])).collect();
        Self { map, content, sectors }
    }

    fn index(offset: u64) -> usize {
        (offset - BASE) as usize / SECTOR
    }

    fn store(&self, offset: u64, data: &[u8]) {
        for (place, sector) in self.sectors[Self::index(offset)..].iter().zip(data.chunks_exact(SECTOR)) {
            place.lock().unwrap().copy_from_slice(sector);
        }
    }

    fn load(&self, offset: u64, len: u32) -> Vec<u8> {
        let first = Self::index(offset);
        let sectors = &self.sectors[first..first + len as usize / SECTOR];
        sectors.iter().flat_map(|sector| *sector.lock().unwrap()).collect()
    }

    /// The content of a write, which is announced to the map.
    fn announce(&self, offset: u64, len: u32) -> Vec<u8> {
        let mut data = vec![0; len as usize];
        self.content.fill(&mut data, offset, self.map.before_write(offset, len));
        data
    }

    fn write(&self, offset: u64, len: u32) -> Vec<u8> {
        let data = self.announce(offset, len);
        self.store(offset, &data);
        self.map.after_write(offset, len);
        data
    }

    fn view(&self, offset: u64, len: u32) -> ReadView {
        let mut view = ReadView::default();
        self.map.before_read(offset, len, &mut view);
        view
    }

    fn read(&self, offset: u64, len: u32) -> Result<Judged, MismatchKind> {
        let view = self.view(offset, len);
        check_read(&self.map, &self.load(offset, len), offset, &view).map_err(|mismatch| mismatch.kind)
    }
}

/// The first unit that is not what it must be, if one is not.
fn check_read(map: &WrittenMap, data: &[u8], offset: u64, view: &ReadView) -> Result<Judged, Box<Mismatch>> {
    let (judged, wrong) = map.judge_read(data, offset, view);
    wrong.map_or(Ok(judged), Err)
}

fn judged(whole: u64, partly: u64, unjudged: u64) -> Result<Judged, MismatchKind> {
    Ok(Judged { whole, partly, unjudged, wrong: 0 })
}

#[test]
fn what_was_written_is_judged_whole_and_the_rest_not() {
    let bench = Bench::new(8192, 64 << 10);
    assert_eq!(bench.read(BASE, 65_536), judged(0, 0, 16));
    bench.write(BASE + 8192, 16_384);
    assert_eq!(bench.read(BASE, 65_536), judged(4, 0, 12));
    // Half a granule is not judged.
    assert_eq!(bench.read(BASE + 4096, 8192), judged(0, 0, 4));
    bench.map.before_discard(BASE + 8192, 8192);
    bench.map.after_discard(BASE + 8192, 8192);
    bench.store(BASE + 8192, &[0; 8192]);
    assert_eq!(bench.read(BASE, 65_536), judged(2, 0, 14));
    bench.write(BASE + 8192, 8192);
    assert_eq!(bench.read(BASE, 65_536), judged(4, 0, 12));
}

#[test]
fn each_lie_is_found_and_named() {
    let at = BASE + 4096;
    let lie = |lie: &dyn Fn(&Bench)| {
        let bench = Bench::new(4096, 64 << 10);
        bench.write(at, 8192);
        lie(&bench);
        bench.read(at, 8192).unwrap_err()
    };
    let lost = |bench: &Bench| {
        bench.announce(at, 8192);
        bench.map.after_write(at, 8192);
    };
    assert_eq!(lie(&lost), MismatchKind::Stale);
    let torn_between_units = |bench: &Bench| {
        let data = bench.announce(at, 8192);
        bench.store(at, &data[..4096]);
        bench.map.after_write(at, 8192);
    };
    assert_eq!(lie(&torn_between_units), MismatchKind::Stale);
    let torn_within = |bench: &Bench| {
        let data = bench.announce(at, 8192);
        bench.store(at, &data[..8192 - SECTOR]);
        bench.map.after_write(at, 8192);
    };
    assert_eq!(lie(&torn_within), MismatchKind::DamagedContent);
    let torn_at_the_begin = |bench: &Bench| {
        let data = bench.announce(at, 8192);
        bench.store(at + 512, &data[512..]);
        bench.map.after_write(at, 8192);
    };
    assert!(matches!(lie(&torn_at_the_begin), MismatchKind::DamagedContent | MismatchKind::Stale));
    let misdirected_onto_it = |bench: &Bench| {
        let data = bench.announce(BASE + 32_768, 4096);
        bench.store(at, &data);
        bench.map.after_write(BASE + 32_768, 4096);
    };
    assert_eq!(lie(&misdirected_onto_it), MismatchKind::WrongOffset);
    assert_eq!(lie(&|bench| bench.store(at, &[0; 4096])), MismatchKind::Zeros);
    assert_eq!(lie(&|bench| bench.store(at, &[9; 4096])), MismatchKind::NoHeader);
    let foreign = |bench: &Bench| {
        let mut unit = vec![1; 4096];
        Header::write(&mut unit, at, SEED + 1, 1);
        bench.store(at, &unit);
    };
    assert_eq!(lie(&foreign), MismatchKind::ForeignSeed);
    let other_run_of_the_same_seed = |bench: &Bench| {
        let mut unit = vec![1; 4096];
        Header::write(&mut unit, at, SEED, 900);
        bench.store(at, &unit);
    };
    assert_eq!(lie(&other_run_of_the_same_seed), MismatchKind::NeverWritten);
}

#[test]
fn a_write_that_landed_where_nothing_was_written_is_found() {
    let bench = Bench::new(4096, 64 << 10);
    let data = bench.write(BASE, 4096);
    bench.store(BASE + 8192, &data);
    assert_eq!(bench.read(BASE + 8192, 4096), Err(MismatchKind::WrongOffset));
    // Units of an earlier run must not lie at another offset either.
    let mut unit = vec![1; 4096];
    Header::write(&mut unit, BASE, SEED + 1, 1);
    bench.store(BASE + 8192, &unit);
    assert_eq!(bench.read(BASE + 8192, 4096), Err(MismatchKind::WrongOffset));
}

/// A later process does not know what an earlier one wrote; units with our header can be judged by the header alone.
#[test]
fn regression_units_of_an_earlier_run_are_judged_by_themselves() {
    let bench = Bench::new(4096, 64 << 10);
    let unit = |len: usize, at: u64| {
        let mut unit = vec![5; len];
        Header::write(&mut unit, at, SEED + 1, 9);
        unit
    };
    bench.store(BASE, &unit(4096, BASE));
    // Shorter units of a run with shorter I/Os, and a gap without a header between them.
    (1..3).for_each(|block| {
        (0..8).for_each(|sector| {
            bench.store(BASE + block * 4096 + sector * 512, &unit(512, BASE + block * 4096 + sector * 512))
        });
    });
    bench.store(BASE + 2 * 4096 + 1024, &[3; 512]);
    // A unit longer than the piece that is judged at once, then nothing.
    bench.store(BASE + 3 * 4096, &unit(8192, BASE + 3 * 4096));
    assert_eq!(bench.read(BASE, 7 * 4096), judged(0, 2, 5));
    let damaged = |at: u64, byte: usize| {
        let mut sector = bench.load(at, 512);
        sector[byte] ^= 1;
        bench.store(at, &sector);
    };
    damaged(BASE + 1024, 0);
    damaged(BASE + 4096 + 512, 20);
    let view = bench.view(BASE, 7 * 4096);
    let (found, wrong) = bench.map.judge_read(&bench.load(BASE, 7 * 4096), BASE, &view);
    assert_eq!(found, Judged { whole: 0, partly: 0, unjudged: 5, wrong: 2 });
    let wrong = wrong.unwrap();
    assert_eq!((wrong.kind, wrong.offset_bytes), (MismatchKind::DamagedContent, BASE));
    assert!(wrong.to_string().contains("expected a sound unit of an earlier run"), "{wrong}");
    assert_eq!(bench.read(BASE + 4096, 4096), Err(MismatchKind::DamagedHeader));
}

#[test]
fn regression_all_units_of_a_read_that_was_wrong_are_counted() {
    let bench = Bench::new(4096, 64 << 10);
    bench.write(BASE, 4 * 4096);
    bench.store(BASE + 4096, &[9; 4096]);
    let view = bench.view(BASE, 8 * 4096);
    let (found, wrong) = bench.map.judge_read(&bench.load(BASE, 8 * 4096), BASE, &view);
    assert_eq!(found, Judged { whole: 3, partly: 0, unjudged: 4, wrong: 1 });
    assert_eq!((found.read(), wrong.unwrap().kind), (8, MismatchKind::NoHeader));
}

#[test]
fn a_report_says_what_and_where() {
    let bench = Bench::new(4096, 64 << 10);
    bench.write(BASE, 4096);
    let old = bench.load(BASE, 4096);
    bench.write(BASE, 4096);
    bench.store(BASE, &old);
    let view = bench.view(BASE, 4096);
    let text = check_read(&bench.map, &bench.load(BASE, 4096), BASE, &view).unwrap_err().to_string();
    let expected = "stale: a later write was lost (4096 bytes at byte 3145728; expected generation 2 to 2, found \
                    generation 1 for byte 3145728 of seed 77)";
    assert_eq!(text, expected);
}

#[test]
fn a_read_during_a_write_may_see_either_but_nothing_older() {
    let bench = Bench::new(4096, 64 << 10);
    let first = bench.write(BASE, 4096);
    let second = bench.write(BASE, 4096);
    let judge = |data: &[u8], view: &ReadView| check_read(&bench.map, data, BASE, view).map_err(|found| found.kind);
    let before = bench.view(BASE, 4096);
    let third = bench.announce(BASE, 4096);
    let during = bench.view(BASE, 4096);
    let mixed = [&third[..2048], &second[2048..]].concat();
    for data in [&second, &third, &mixed] {
        assert_eq!(judge(data, &before), judged(0, 1, 0));
        assert_eq!(judge(data, &during), judged(0, 1, 0));
    }
    assert_eq!(judge(&first, &before), Err(MismatchKind::Stale));
    assert_eq!(judge(&[0; 4096], &during), Err(MismatchKind::Zeros));
    bench.store(BASE, &third);
    bench.map.after_write(BASE, 4096);
    assert_eq!(judge(&second, &before), judged(0, 1, 0));
    assert_eq!(judge(&second, &during), judged(0, 1, 0));
    // A read that is submitted from now on must see the third.
    let after = bench.view(BASE, 4096);
    assert_eq!(judge(&third, &after), judged(1, 0, 0));
    assert_eq!(judge(&second, &after), Err(MismatchKind::Stale));
}

#[test]
fn of_overlapping_writes_any_may_be_the_last() {
    let bench = Bench::new(4096, 64 << 10);
    let old = bench.write(BASE, 4096);
    let first = bench.announce(BASE, 4096);
    let second = bench.announce(BASE, 4096);
    bench.map.after_write(BASE, 4096);
    bench.map.after_write(BASE, 4096);
    for (data, expected) in [(&first, judged(0, 1, 0)), (&second, judged(0, 1, 0)), (&old, Err(MismatchKind::Stale))] {
        bench.store(BASE, data);
        assert_eq!(bench.read(BASE, 4096), expected);
    }
    // Only the next write makes the content known again.
    bench.write(BASE, 4096);
    assert_eq!(bench.read(BASE, 4096), judged(1, 0, 0));
}

#[test]
fn after_a_failed_write_nothing_is_demanded_until_the_next() {
    let bench = Bench::new(4096, 64 << 10);
    bench.write(BASE, 4096);
    let before = bench.view(BASE, 4096);
    bench.announce(BASE, 4096);
    bench.map.failed_write(BASE, 4096);
    bench.store(BASE, &[3; 4096]);
    assert_eq!(bench.read(BASE, 4096), judged(0, 0, 1));
    assert_eq!(check_read(&bench.map, &[3; 4096], BASE, &before).map_err(|found| found.kind), judged(0, 0, 1));
    bench.write(BASE, 4096);
    assert_eq!(check_read(&bench.map, &[3; 4096], BASE, &before).map_err(|found| found.kind), judged(0, 0, 1));
    assert_eq!(bench.read(BASE, 4096), judged(1, 0, 0));
}

#[test]
fn more_writes_at_once_than_can_be_counted_are_not_judged() {
    let bench = Bench::new(4096, 8192);
    for _ in 0..20_000 {
        let _ = bench.map.before_write(BASE, 4096);
    }
    for _ in 0..20_000 {
        bench.map.after_write(BASE, 4096);
    }
    assert_eq!(bench.read(BASE, 4096), judged(0, 0, 1));
    bench.write(BASE + 4096, 4096);
    assert_eq!(bench.read(BASE, 8192), judged(1, 0, 1));
}

#[test]
fn a_map_that_is_too_large_is_refused() {
    let layout = Layout::new(0, 4096).unwrap();
    assert!(matches!(
        WrittenMap::new(layout, (0, (128 << 30) + 1), 1),
        Err(VerifyError::TooLarge { region_max_bytes: 137_438_953_472, .. })
    ));
    assert!(WrittenMap::new(layout, (u64::MAX, u64::MAX), 1).is_err());
}

#[test]
fn places_outside_the_region_are_left_alone() {
    let bench = Bench::new(4096, 10 << 10);
    for offset in [0, BASE - 8192, BASE + 12_288, BASE + 65_536, u64::MAX - 100] {
        let _ = bench.map.before_write(offset, 8192);
        bench.map.after_write(offset, 8192);
        let view = bench.view(offset, 8192);
        assert_eq!(check_read(&bench.map, &[0; 8192], offset, &view), Ok(Judged::default()));
    }
    // Half a granule at the beginning, a whole one, and half of one: the halves would hold two writes, so they are not
    // judged.
    let _ = bench.map.before_write(BASE - 2048, 8192);
    bench.map.after_write(BASE - 2048, 8192);
    let view = bench.view(BASE - 2048, 8192);
    let found = check_read(&bench.map, &[0; 8192], BASE - 2048, &view).unwrap_err();
    assert_eq!((found.kind, found.offset_bytes), (MismatchKind::Zeros, BASE));
    let view = bench.view(BASE + 4096, 4096);
    assert_eq!(check_read(&bench.map, &[0; 4096], BASE + 4096, &view).map(|judged| judged.unjudged), Ok(1));
}

/// One random step of a thread of the truth test.
fn step(bench: &Bench, random: &mut Random, view: &mut ReadView, total: &mut Judged) {
    let len = 1024 << random.below(3);
    let places = bench.sectors.len() as u64 * 512 / len;
    let (offset, len) = (BASE + random.below(places) * len, len as u32);
    match random.below(20) {
        0 => {
            bench.map.before_discard(offset, len);
            bench.store(offset, &vec![0; len as usize]);
            bench.map.after_discard(offset, len);
        }
        1 => {
            let data = bench.announce(offset, len);
            let done = random.index(data.len() / SECTOR) * SECTOR;
            bench.store(offset, &data[..done]);
            bench.map.failed_write(offset, len);
        }
        2..10 => {
            let data = bench.announce(offset, len);
            // The target writes the sectors in an order of its own.
            let rotation = random.index(data.len() / SECTOR) * SECTOR;
            bench.store(offset + rotation as u64, &data[rotation..]);
            std::thread::yield_now();
            bench.store(offset, &data[..rotation]);
            bench.map.after_write(offset, len);
        }
        _ => {
            bench.map.before_read(offset, len, view);
            let data = bench.load(offset, len);
            match check_read(&bench.map, &data, offset, view) {
                Ok(judged) => {
                    total.whole += judged.whole;
                    total.partly += judged.partly;
                    total.unjudged += judged.unjudged;
                }
                Err(mismatch) => panic!("a sound target accused: {mismatch}"),
            }
        }
    }
}

#[test]
fn a_sound_target_is_never_accused_by_many_threads() {
    // Few places, so that threads meet often; sectors of one write mix with those of others.
    let bench = Bench::new(1024, 16 << 10);
    let totals: Vec<Judged> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|seed| {
                let bench = &bench;
                scope.spawn(move || {
                    let (mut random, mut view) = (Random::new(seed), ReadView::default());
                    let mut total = Judged::default();
                    for _ in 0..30_000 {
                        step(bench, &mut random, &mut view, &mut total);
                    }
                    total
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(totals.iter().all(|total| total.whole > 1000), "{totals:?}");
}

/// A step of one thread with several I/Os in flight.
#[derive(Clone, Debug)]
enum Step {
    Write {
        place: u64,
        len: u32,
    },
    Read {
        place: u64,
        len: u32,
    },
    /// The target writes one sector of the write with this number.
    Apply(usize),
    /// The I/O with this number ends.
    End {
        which: usize,
        failed: bool,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let io = (0..8_u64, 1..4_u32);
    let step = prop_oneof![
        3 => io.clone().prop_map(|(place, len)| Step::Write { place, len: len * 1024 }),
        3 => io.prop_map(|(place, len)| Step::Read { place, len: len * 1024 }),
        8 => (0..8_usize).prop_map(Step::Apply),
        5 => (0..8_usize, prop::bool::weighted(0.05)).prop_map(|(which, failed)| Step::End { which, failed }),
    ];
    prop::collection::vec(step, 1..120)
}

enum InFlight {
    Write { offset: u64, data: Vec<u8>, applied: usize },
    Read { offset: u64, len: u32, view: ReadView, from: Vec<u8> },
}

proptest! {
    #[test]
    fn a_sound_target_is_never_accused_whatever_the_order(steps in steps()) {
        let bench = Bench::new(1024, 11 << 10);
        let mut flying: Vec<InFlight> = Vec::new();
        for step in steps {
            match step {
                Step::Write { place, len } => {
                    let offset = BASE + place * 1024;
                    flying.push(InFlight::Write { offset, data: bench.announce(offset, len), applied: 0 });
                }
                Step::Read { place, len } => {
                    let offset = BASE + place * 1024;
                    flying.push(InFlight::Read { offset, len, view: bench.view(offset, len), from: Vec::new() });
                }
                Step::Apply(which) => match flying.get_mut(which) {
                    Some(InFlight::Write { offset, data, applied }) if *applied < data.len() => {
                        bench.store(*offset + *applied as u64, &data[*applied..*applied + SECTOR]);
                        *applied += SECTOR;
                    }
                    Some(InFlight::Read { offset, len, from, .. }) if from.len() < *len as usize => {
                        let sector = bench.load(*offset + from.len() as u64, SECTOR as u32);
                        from.extend(sector);
                    }
                    _ => {}
                },
                Step::End { which, failed } if which < flying.len() => match flying.remove(which) {
                    InFlight::Write { offset, data, .. } if failed => bench.map.failed_write(offset, data.len() as u32),
                    InFlight::Write { offset, data, applied } => {
                        bench.store(offset + applied as u64, &data[applied..]);
                        bench.map.after_write(offset, data.len() as u32);
                    }
                    InFlight::Read { offset, len, view, mut from } => {
                        from.extend(bench.load(offset + from.len() as u64, len - from.len() as u32));
                        let result = check_read(&bench.map, &from, offset, &view);
                        prop_assert!(result.is_ok(), "{}", result.unwrap_err());
                    }
                },
                Step::End { .. } => {}
            }
        }
    }

    #[test]
    fn one_lie_among_many_writes_is_found(
        writes in prop::collection::vec((0..16_u64, 1..5_u64), 1..40),
        lie in 0..5_u32,
        which in any::<prop::sample::Index>(),
        bit in any::<prop::sample::Index>(),
    ) {
        let bench = Bench::new(4096, 20 * 4096);
        for &(place, units) in &writes {
            bench.write(BASE + place * 4096, units as u32 * 4096);
        }
        let (place, units) = writes[which.index(writes.len())];
        let (offset, len) = (BASE + place * 4096, units as u32 * 4096);
        prop_assert!(bench.read(offset, len).is_ok());
        let before = bench.load(offset, len);
        let mut now = before.clone();
        match lie {
            // The target loses a write as a whole, from one sector on, or except for its last sector.
            0..3 => {
                let data = bench.announce(offset, len);
                let sectors = len as usize / SECTOR;
                let kept = [0, bit.index(sectors), sectors - 1][lie as usize] * SECTOR;
                now[..kept].copy_from_slice(&data[..kept]);
                bench.map.after_write(offset, len);
            }
            3 => {
                let bit = bit.index(now.len() * 8);
                now[bit / 8] ^= 1 << (bit % 8);
            }
            _ => {
                // The target returns a unit of another place.
                let other = BASE + 19 * 4096 - place * 4096;
                let unit = bench.write(other, 4096);
                if other != offset {
                    now[..4096].copy_from_slice(&unit);
                } else {
                    now[..4096].fill(0);
                }
            }
        }
        bench.store(offset, &now);
        prop_assert!(bench.read(offset, len).is_err());
    }
}

//! The simulator itself: that it is deterministic, that it meets what it is for, and that it shrinks.

use forebay_sim::{Coverage, Kind, Scenario, live, shrink};

/// What these lives of a kind meet, and that they keep every promise.
fn lived(kind: Kind, numbers: std::ops::Range<u64>) -> Coverage {
    let mut coverage = Coverage::default();
    for number in numbers {
        let lived = live(&Scenario::random(kind.seed(number)), false);
        assert_eq!(lived.failure, None, "number {number}");
        coverage.add(&lived.coverage);
    }
    coverage
}

#[test]
fn the_same_seed_lives_the_same_life() {
    for seed in [1, 17, 4711] {
        let [first, second] = [(); 2].map(|()| live(&Scenario::random(seed), true));
        assert_eq!(first.log, second.log, "seed {seed}");
        assert_eq!(first.coverage, second.coverage);
        assert!(first.log.len() > 10);
    }
}

#[test]
fn some_hundred_lives_keep_every_promise_and_meet_nearly_everything() {
    let mut coverage = Coverage::default();
    for number in 100_000..100_400 {
        let lived = live(&Scenario::numbered(number), false);
        assert_eq!(lived.failure, None, "number {number}");
        coverage.add(&lived.coverage);
    }
    assert!(coverage.of("power cuts") > 1_200, "{coverage:?}");
    assert!(coverage.of("power cuts in recovery") > 600, "{coverage:?}");
    assert!(coverage.of("bits that rotted at rest") > 10, "{coverage:?}");
    assert!(coverage.of("recoveries in which devices failed") > 20, "{coverage:?}");
    assert!(coverage.of("openings without what was written last and cannot be read") > 0, "{coverage:?}");
    // What is rare is asked of longer campaigns.
    assert!(coverage.missing().len() <= 4, "{:?}", coverage.missing());
}

#[test]
fn power_that_fails_every_few_requests_meets_as_much_with_each_cut() {
    let coverage = lived(Kind::Flickering, 0..30);
    let cuts = coverage.of("power cuts");
    assert!(cuts > 30 * 35, "{coverage:?}");
    assert!(coverage.of("surveys") >= cuts, "each cut is followed by a reading of everything: {coverage:?}");
    assert!(coverage.of("power cuts in recovery") > cuts / 8, "{coverage:?}");
    let in_progress =
        ["a checkpoint in progress", "destage in progress", "collection in progress", "a flush in flight"];
    let marks =
        in_progress.into_iter().chain(["a trim in flight", "a map page being written", "writes waiting for space"]);
    let missing: Vec<&str> = marks.filter(|mark| coverage.of(&format!("power cuts with {mark}")) == 0).collect();
    assert!(missing.is_empty(), "{missing:?}: {coverage:?}");
    // Other lives meet two pairs with each cut.
    assert!(coverage.pairs().map(|(_, count)| count).sum::<u64>() > cuts * 3 / 2, "{coverage:?}");
}

/// One member of a mirror at a time does whatever devices can do wrong, and no request fails for it.
#[test]
fn a_mirror_loses_nothing_by_one_of_its_members() {
    // A mend waits until the pool waits for nothing, or for ten seconds, and so two met one in 150 to 200 lives.
    let coverage = lived(Kind::Mirrored, 0..300);
    for mark in [
        "members that were left behind",
        "members replaced by blank devices",
        "members that others had been rebuilt from",
        "members that were served alone",
        "blocks of members that were mended",
        "power cuts in a rebuild",
    ] {
        assert!(coverage.of(mark) > 2, "{mark}: {coverage:?}");
    }
    assert!(
        coverage.of("members that were there alone") > coverage.of("members that were served alone"),
        "some are refused: {coverage:?}"
    );
}

/// As many members of an array as there is parity for do what devices can do wrong, and no request fails for it; what goes beyond that is shown.
#[test]
fn an_array_loses_nothing_by_as_many_members_as_it_has_parity_for() {
    let coverage = lived(Kind::Parity, 0..150);
    for mark in [
        "arrays refused with too few members",
        "blocks of members that were mended",
        "members exchanged while the array was used",
        "members replaced by blank devices",
        "members that others had been rebuilt from",
        "members that were left behind",
        "openings that found rows of an array open",
        "power cuts in a rebuild",
        "reads that members of an array failed",
        "rounds that end with all members of an array whole",
        "rounds that end with several members of an array out",
        "rows of an array damaged beyond parity",
    ] {
        assert!(coverage.of(mark) > 1, "{mark}: {coverage:?}");
    }
}

/// Names of compressed blocks on several pages of a summary, over parity of which one member loses blocks, or all of them, in silence: with one block of
/// parity as well, since these blocks are verified.
#[test]
fn small_compressed_blocks_are_mended_when_all_of_a_member_rots() {
    let coverage = lived(Kind::Packed, 0..200);
    assert!(coverage.of("bands with names on several pages") > 200, "{coverage:?}");
    assert!(coverage.of("blocks of members that were mended") > 100, "{coverage:?}");
    assert!(coverage.of("sectors that rotted while the pool was used") > 5_000, "{coverage:?}");
}

/// A mirror, parity, both or none, with rot, scrubs, bases and hosts at once: what redundancy covers is read and mended, and all else reported.
#[test]
fn what_redundancy_covers_is_mended_beside_hosts_and_all_else_is_reported() {
    let has_both = |number: &u64| {
        let shape = Scenario::random(Kind::Redundant.seed(*number)).shape;
        shape.members > 1 && shape.parity.is_some()
    };
    let both = (0..160).filter(has_both).count();
    assert!(both > 25, "{both}");
    let coverage = lived(Kind::Redundant, 0..160);
    for mark in [
        "blocks copied of a base",
        "changes of what a scrub was reading",
        "damaged blocks that a scrub reported",
        "members exchanged while the array was used",
        "members replaced by blank devices",
        "members that others had been rebuilt from",
        "members that were left behind",
        "passes of a scrub",
        "power cuts in a rebuild",
        "power cuts with a scrub in progress",
        "scrubs after which any members may be lost",
        "sectors of members damaged where a scrub looks",
        "sectors that rotted while the pool was used",
    ] {
        assert!(coverage.of(mark) > 0, "{mark}: {coverage:?}");
    }
    // Otherwise errors would be excused.
    assert!(coverage.of("rows of an array in doubt") < 10, "{coverage:?}");
}

/// What an administrator changes while the pool is served, with power cuts between the steps of each change.
#[test]
fn disks_bases_and_policies_change_while_the_pool_is_used() {
    let coverage = lived(Kind::Changing, 0..120);
    for mark in [
        "bases copied after they had been slow or had hung",
        "bases copied after they had failed",
        "bases laid under disks while the pool was served",
        "bases of disks detached that were laid over them while the pool was served",
        "bases that were needed yet",
        "changes that were durable as they were written through",
        "classes changed while the pool was used",
        "disks made larger",
        "disks made of a name that one had before",
        "disks made smaller",
        "disks made while one of their name was being removed",
        "power cuts as a disk is to be made smaller",
        "power cuts as a removal is to be durable",
        "power cuts as a removed disk is to be empty",
        "removals that came to their end",
        "removals that were begun again",
        "requests that failed as a base could not be read",
        "switches of what is written through",
    ] {
        assert!(coverage.of(mark) > 0, "{mark}: {coverage:?}");
    }
}

#[test]
fn a_failing_life_is_made_short() {
    let scenario = Scenario::random(3);
    let steps = scenario.steps();
    // "Fails" where any round discards: that needs one step of one round.
    let mut fails = |scenario: &Scenario| {
        let text = format!("{scenario:?}");
        text.contains("Clear").then(|| forebay_sim::Failure { round: 0, doing: "x".into(), what: "y".into() })
    };
    let first = fails(&scenario).unwrap();
    let (small, _) = shrink::shrink(&scenario, first, &mut fails);
    assert_eq!((small.rounds.len(), small.steps()), (1, 1), "of {steps} steps");
}

/// What devices promise is a field of a life of its own, drawn for the one kind that is about it, and can be shrunk.
#[test]
fn lives_that_forget_draw_what_devices_promise() {
    let (mut lives, mut rounds) = ([0; 2], [0; 2]);
    for number in 0..400 {
        let scenario = Scenario::random(Kind::Forgetting.seed(number));
        lives[usize::from(scenario.shape.durable_writes)] += 1;
        scenario.rounds.iter().for_each(|round| rounds[usize::from(round.stays_on)] += 1);
    }
    // One in two, and one in four, give or take what 400 lives leave to chance.
    assert!(lives.iter().all(|&count| (160..=240).contains(&count)), "{lives:?}");
    assert!((rounds[0] * 2..=rounds[0] * 4).contains(&(rounds[1] * 9)), "{rounds:?}");
    for kind in Kind::ALL.into_iter().filter(|kind| !matches!(kind, Kind::Forgetting | Kind::Flickering)) {
        for scenario in (0..20).map(|number| Scenario::random(kind.seed(number))) {
            let is_usual = scenario.shape.durable_writes && scenario.rounds.iter().all(|round| !round.stays_on);
            assert!(is_usual, "{kind:?}, seed {}", scenario.seed);
        }
    }
}

#[test]
fn a_failing_life_loses_what_devices_need_not_do_for_it() {
    let mut scenario = Scenario::random(Kind::Forgetting.seed(3));
    scenario.shape.durable_writes = false;
    scenario.rounds.iter_mut().for_each(|round| round.stays_on = true);
    let mut fails = |_: &Scenario| Some(forebay_sim::Failure { round: 0, doing: "x".into(), what: "y".into() });
    let first = fails(&scenario).unwrap();
    let (small, _) = shrink::shrink(&scenario, first, &mut fails);
    assert!(small.shape.durable_writes, "{:?}", small.shape);
    assert!(small.rounds.iter().all(|round| !round.stays_on), "{:?}", small.rounds);
}

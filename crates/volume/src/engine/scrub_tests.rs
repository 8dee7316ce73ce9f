use super::*;

/// Blocks that a second reading had right were reported as damaged: those with several copies, and compressed ones that share blocks of the device.
#[test]
fn regression_a_block_is_damaged_that_cannot_be_read_twice() {
    let mut scrub = Scrub::new(ScrubRecord::default(), 1 << 20);
    scrub.start(0);
    let stored = |disk, from| Some(Blocks { disk, range: from..from + 400 });
    let damaged = || Some(RequestError::Damaged { disk: DiskId(0), offset_bytes: 5 * BLOCK });
    scrub.begin_step(0, Some(0), || false, stored).unwrap();
    assert!(!scrub.ended(0, damaged()));
    assert_eq!(scrub.begin_step(0, Some(0), || true, stored), None, "it is being written again");
    assert_eq!(scrub.begin_step(0, Some(0), || false, stored).unwrap().range, 5..6);
    assert_eq!(scrub.record().block, 0, "what comes before it is to be read yet");
    assert!(scrub.ended(0, damaged()));
    assert_eq!((scrub.record.pass.bad_blocks, scrub.found.len()), (1, 1));
    assert_eq!(scrub.begin_step(0, Some(0), || false, stored).unwrap().range, 0..5);
    assert!(!scrub.ended(5, None));
    assert_eq!(scrub.begin_step(0, Some(0), || false, stored).unwrap().range, 6..32);
    assert!(!scrub.ended(0, Some(RequestError::Damaged { disk: DiskId(0), offset_bytes: 9 * BLOCK })));
    assert_eq!(scrub.begin_step(0, Some(0), || false, stored).unwrap().range, 9..10);
    assert!(!scrub.ended(1, None), "it can be read now");
    assert_eq!(scrub.record.pass.bad_blocks, 1);
}

/// A checkpoint kept how far a pass had read while what it had found was being mended: after a power cut the pass went on behind that.
#[test]
fn regression_a_pass_goes_on_where_what_it_found_may_be_lost() {
    let mut scrub = Scrub::new(ScrubRecord::default(), 1 << 20);
    scrub.start(0);
    let stored = |disk, from| (from < 100).then_some(Blocks { disk, range: from..100 });
    for (is_mending, from) in [(false, 0), (true, 0), (true, 0), (false, 96)] {
        scrub.begin_step(0, Some(0), || is_mending, stored).unwrap();
        assert!(!scrub.ended(32, None));
        assert_eq!(scrub.record().block, from);
    }
    assert_eq!(scrub.begin_step(0, Some(0), || true, stored), None);
    assert_eq!((scrub.record().state, scrub.record().block), (ScrubState::Running, 96));
    assert_eq!(scrub.begin_step(0, Some(0), || false, stored), None);
    assert_eq!((scrub.record().state, scrub.record().block), (ScrubState::Idle, 0));
}

/// Members that are gone for good delay a pass by a minute, and it reports what was not compared.
#[test]
fn what_members_never_answer_for_is_counted() {
    let mut scrub = Scrub::new(ScrubRecord::default(), 1 << 30);
    scrub.start(0);
    scrub.leisure.go_on();
    let stored = |_, from| (from < 320).then_some(Blocks { disk: DiskId(u16::MAX), range: from..320 });
    let (mut now_ns, mut steps) = (0, 0);
    while scrub.record.state == ScrubState::Running {
        if scrub.is_due(now_ns) && scrub.begin_step(now_ns, Some(0), || false, stored).is_some() {
            steps += 1;
            assert!(!scrub.compared(Compared::NotAtAll, now_ns));
        }
        now_ns += 10_000_000;
    }
    assert_eq!((steps, scrub.status().uncompared_blocks), (u64::from(AWAY_TRIES_MAX) + 10, 320));
    assert!((60..62).contains(&(now_ns / AGAIN_NS)), "{now_ns}");
    scrub.start(0);
    assert_eq!(scrub.status().uncompared_blocks, 0);
}

/// Members that answered now and then delayed a pass by a minute each time that they did not, however often that was.
#[test]
fn regression_a_pass_ends_where_members_come_and_go() {
    let mut scrub = Scrub::new(ScrubRecord::default(), 1 << 30);
    scrub.start(0);
    scrub.leisure.go_on();
    let end = 32 * 1000;
    let stored = |_, from| (from < end).then_some(Blocks { disk: DiskId(u16::MAX), range: from..end });
    let (mut now_ns, mut tries) = (0, 0);
    while scrub.record.state == ScrubState::Running {
        if scrub.is_due(now_ns) && scrub.begin_step(now_ns, Some(0), || false, stored).is_some() {
            tries += 1;
            scrub.compared(if tries % 50 == 0 { Compared::Well } else { Compared::NotAtAll }, now_ns);
        }
        now_ns += 10_000_000;
    }
    assert!(now_ns / AGAIN_NS < u64::from(WAITS_MAX) + 60, "{now_ns}");
    let uncompared = scrub.status().uncompared_blocks;
    assert!(uncompared > end / 2 && uncompared.is_multiple_of(32), "{uncompared}");
    // The next start reports that as well.
    assert_eq!(Scrub::new(scrub.record(), 1).status().uncompared_blocks, uncompared);
}

/// Bands whose parity does not match are known in memory only until they are emptied: a start forgot those that a pass had found before.
#[test]
fn regression_a_pass_stays_before_bands_that_are_to_be_emptied() {
    let stored = |_, from| (from < 96).then_some(Blocks { disk: DiskId(PARITY), range: from..96 });
    let step = |scrub: &mut Scrub, are_there: bool, now_ns: u64| {
        let waits = scrub.has_suspects(are_there, now_ns);
        scrub.begin_step(now_ns, Some(0), || waits, stored).map(|blocks| blocks.range)
    };
    let found = || {
        let mut scrub = Scrub::new(ScrubRecord::default(), 1 << 30);
        scrub.start(0);
        assert_eq!(step(&mut scrub, false, 0), Some(0..32));
        assert!(!scrub.compared(Compared::Unfit { is_read: true }, 0));
        assert_eq!(step(&mut scrub, false, 0), Some(0..32));
        assert!(scrub.compared(Compared::Unfit { is_read: true }, 0));
        for range in [32..64, 64..96] {
            assert_eq!(step(&mut scrub, true, 1), Some(range));
            assert!(!scrub.compared(Compared::Well, 1));
        }
        assert_eq!(step(&mut scrub, true, 2), None);
        let record = scrub.record();
        assert_eq!((record.state, record.disk, record.block), (ScrubState::Running, PARITY, 0));
        scrub
    };
    let mut scrub = found();
    assert_eq!((step(&mut scrub, false, 3), scrub.record().state), (None, ScrubState::Idle));
    // Bands that cannot be emptied do not delay a pass for ever.
    let mut scrub = found();
    assert_eq!((step(&mut scrub, true, SUSPECTS_NS), scrub.record().state), (None, ScrubState::Running));
    assert_eq!((step(&mut scrub, true, SUSPECTS_NS + 1), scrub.record().state), (None, ScrubState::Idle));
}

#[test]
fn one_step_at_a_time_and_none_before_time_passes() {
    let mut scrub = Scrub::new(ScrubRecord::default(), 1 << 20);
    scrub.start(0);
    assert!(!scrub.is_due(0), "held until time passes");
    scrub.leisure.go_on();
    scrub.begin_step(0, Some(0), || false, |disk, from| Some(Blocks { disk, range: from..from + 400 })).unwrap();
    assert!(!scrub.is_due(u64::MAX), "one at a time");
    assert!(!scrub.ended(32, None));
    assert!(!scrub.is_due(70_000_000) && scrub.is_due(75_000_000));
}

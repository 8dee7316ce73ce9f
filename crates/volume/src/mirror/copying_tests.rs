use super::*;

fn next(copying: &mut Copying) -> Option<Ask> {
    copying.next((0, true), 1 << 30, 1 << 30, |_, _| true)
}

/// What another member had in the place of what one could not read was wrong, and went over good data there, before its reader could say
/// so.
#[test]
fn regression_what_is_read_again_is_not_mended_by_what_was_read_before() {
    let mut copying = Copying::default();
    copying.mend((0, 1), 8 * UNIT_BYTES, 8 * UNIT_BYTES);
    copying.doubt(10 * UNIT_BYTES + 512, 2 * UNIT_BYTES);
    let mut probed = Vec::new();
    while let Some(Ask::Probe { offset_bytes, .. }) = next(&mut copying) {
        probed.push(offset_bytes / UNIT_BYTES);
        let asked = copying.asked();
        copying.ended((0, asked), Ok(()), Some(Buf::zeroed(4096)), |_| true);
    }
    assert_eq!(probed, [8, 9, 13, 14, 15]);
    // The same for a mend in progress, as long as it is not sent.
    for steps in 0..3 {
        copying.mend((0, 1), 0, UNIT_BYTES);
        assert!(matches!(next(&mut copying), Some(Ask::Probe { .. })));
        if steps > 0 {
            copying.ended((0, copying.asked()), Err(failed()), None, |_| true);
            assert!(matches!(next(&mut copying), Some(Ask::Read { .. })));
        }
        let asked = copying.asked();
        if steps > 1 {
            copying.ended((1, asked), Ok(()), Some(Buf::zeroed(4096)), |_| true);
        }
        copying.doubt(0, 512);
        copying.mend((0, 1), UNIT_BYTES, UNIT_BYTES);
        assert!(copying.next((0, true), 1 << 30, 1 << 30, |_, _| false).is_none(), "it waits for a write");
        copying.ended((1, asked), Ok(()), Some(Buf::zeroed(4096)), |_| true);
        assert!(matches!(next(&mut copying), Some(Ask::Probe { offset_bytes: UNIT_BYTES, .. })), "{steps}");
        let asked = copying.asked();
        copying.ended((0, asked), Ok(()), Some(Buf::zeroed(4096)), |_| true);
        assert!(next(&mut copying).is_none(), "{steps}");
    }
}

/// A mend waits as long as somebody may find wrong what was read in its place.
#[test]
fn a_mend_begins_when_nobody_waits_or_after_a_while() {
    let mut copying = Copying::default();
    let next = |copying: &mut Copying, now_ns, is_idle| copying.next((now_ns, is_idle), 1 << 30, 1 << 30, |_, _| true);
    assert!(next(&mut copying, 5, false).is_none());
    copying.mend((0, 1), 0, 2 * UNIT_BYTES);
    assert!(next(&mut copying, 4 + DOUBT_NS, false).is_none());
    assert!(matches!(next(&mut copying, 4 + DOUBT_NS, true), Some(Ask::Probe { offset_bytes: 0, .. })));
    copying.ended((0, copying.asked()), Ok(()), Some(Buf::zeroed(4096)), |_| true);
    assert!(next(&mut copying, 4 + DOUBT_NS, false).is_none());
    assert!(matches!(next(&mut copying, 5 + DOUBT_NS, false), Some(Ask::Probe { offset_bytes: UNIT_BYTES, .. })));
}

/// A member was left behind before it was asked whether it is there. It was asked all the same and never answered, so that writes there
/// were held for ever.
#[test]
fn regression_a_member_that_was_left_behind_is_not_asked_whether_it_is_there() {
    let mut copying = Copying::default();
    copying.rebuild(2, OFFSETS_BYTES[1] + UNIT_BYTES);
    let mut now_ns = 0;
    let mut next = |copying: &mut Copying| {
        now_ns += AWAY_NS;
        copying.next((now_ns, true), 1 << 30, 1 << 30, |_, _| true)
    };
    for _ in 0..4 {
        let Some(Ask::Read { tried, .. }) = next(&mut copying) else { panic!() };
        let member = usize::from(tried & 1);
        copying.reads(member);
        copying.ended((member, copying.asked()), Err(failed()), None, |tried| tried != 7);
    }
    copying.give_up(0);
    assert!(matches!(next(&mut copying), Some(Ask::Read { tried: 7, .. })));
    copying.reads(1);
    copying.ended((1, copying.asked()), Err(failed()), None, |_| false);
    assert!(matches!(next(&mut copying), Some(Ask::Probe { member: 1, .. })));
}

/// What is mended is read from the member that had it: another one may have rotted.
#[test]
fn regression_a_mend_is_of_the_member_that_answered() {
    let mut copying = Copying::default();
    copying.mend((1, 2), 0, UNIT_BYTES);
    assert!(matches!(next(&mut copying), Some(Ask::Probe { member: 1, .. })));
    copying.ended((1, copying.asked()), Err(failed()), None, |_| true);
    assert!(matches!(next(&mut copying), Some(Ask::Read { first: Some(2), tried: 2, .. })));
    copying.reads(2);
    copying.ended((2, copying.asked()), Err(failed()), None, |_| true);
    assert!(matches!(next(&mut copying), Some(Ask::Read { first: None, tried: 6, .. })));
}

fn failed() -> IoError {
    IoError { kind: forebay_block::IoErrorKind::Medium, operation: "read", offset_bytes: 0, os_error: 5 }
}

/// The member to be mended was left behind while another was read for it. That answer came while the rebuild of a third one waited for a
/// write, and was taken for "can be read after all": a piece of the rebuild was left out.
#[test]
fn regression_the_answer_to_a_mend_that_was_given_up_is_no_answer_to_a_rebuild() {
    let mut copying = Copying::default();
    copying.rebuild(2, 0);
    copying.mend((1, 0), 100 * UNIT_BYTES, UNIT_BYTES);
    assert!(matches!(next(&mut copying), Some(Ask::Probe { .. })));
    copying.ended((1, copying.asked()), Err(failed()), None, |_| true);
    assert!(matches!(next(&mut copying), Some(Ask::Read { .. })));
    copying.reads(0);
    let asked = copying.asked();
    copying.give_up(1);
    assert!(copying.next((0, true), 1 << 30, 1 << 30, |_, _| false).is_none(), "it waits for a write");
    copying.ended((0, asked), Ok(()), Some(Buf::zeroed(4096)), |_| true);
    assert!(matches!(next(&mut copying), Some(Ask::Read { offset_bytes: 0, .. })));
}

/// A member that is away is waited for. One of which a label can be read is there, and what it cannot read is left out until the rest is
/// copied.
#[test]
fn what_nobody_reads_is_left_out_where_all_are_there() {
    let mut copying = Copying::default();
    copying.rebuild(2, 0);
    let mut now_ns = 0;
    let mut answer = |copying: &mut Copying, is_good: bool| {
        // After a member was found away, the first call begins the wait.
        let ask = (0..2).find_map(|_| {
            now_ns += 2 * AWAY_NS;
            copying.next((now_ns, true), 1 << 30, 1 << 30, |_, _| true)
        });
        let (result, bytes) = if is_good { (Ok(()), Some(Buf::zeroed(4096))) } else { (Err(failed()), None) };
        let asked = copying.asked();
        match ask {
            Some(Ask::Probe { member, offset_bytes, .. }) => {
                copying.ended((member, asked), result, bytes, |_| false);
                format!("label {offset_bytes} of {member}")
            }
            Some(Ask::Read { tried, offset_bytes, len_bytes, .. }) => {
                let member = usize::from(tried & 1);
                copying.reads(member);
                copying.ended((member, asked), result, bytes, |tried| tried != 7);
                format!("{member}: {offset_bytes}+{len_bytes}")
            }
            _ => panic!(),
        }
    };
    let [first, second] = OFFSETS_BYTES;
    assert_eq!(answer(&mut copying, false), format!("0: 0+{}", first.min(256 << 10)));
    answer(&mut copying, false);
    for _ in 0..3 {
        assert_eq!(answer(&mut copying, false), "0: 0+4096");
        assert_eq!(answer(&mut copying, false), "1: 0+4096");
        assert_eq!(answer(&mut copying, true), format!("label {first} of 0"));
        assert_eq!(answer(&mut copying, false), format!("label {first} of 1"));
        assert_eq!(answer(&mut copying, false), format!("label {second} of 1"));
    }
    answer(&mut copying, false);
    answer(&mut copying, false);
    assert_eq!(answer(&mut copying, false), format!("label {first} of 0"));
    assert_eq!(answer(&mut copying, true), format!("label {second} of 0"));
    assert_eq!(answer(&mut copying, true), format!("label {first} of 1"));
    assert_eq!(answer(&mut copying, false), "0: 4096+4096");
}

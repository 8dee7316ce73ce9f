//! Compares a pass in pieces with one that examines everything at once.

use super::super::*;
use proptest::prelude::*;
use share::Segment;

/// The result of a pass, found at once: all blocks, all groups, and all segments in the order of their gain.
fn shares_at_once(stays: &Stays, now: u64, room_blocks: u64) -> Vec<(Traits, Share)> {
    let mut stays = stays.clone();
    stays.begin_plan(now, room_blocks, 0);
    let oldest = now.saturating_sub(stays.ages.begin(ages::BINS));
    let from = (now, oldest, stays.ages);
    stays.sample.count_some(None, usize::MAX, from, |_| true, &mut stays.lives);
    let known: Vec<usize> = (0..stays.groups.len()).filter(|&at| stays.groups[at].state == State::Known).collect();
    let of_class = |class| {
        let mut sum = Lives::default();
        known.iter().filter(|&&at| stays.groups[at].traits.class == class).for_each(|&at| sum.add(&stays.lives[at]));
        sum
    };
    let all: f64 = known.iter().map(|&at| stays.groups[at].written).sum();
    let (mut hull, mut segments) = (Vec::new(), Vec::new());
    for &at in known.iter().filter(|&&at| stays.groups[at].written > 0.0) {
        let (mut curve, group) = (Vec::new(), &stays.groups[at]);
        stays.lives[at].curve(&of_class(group.traits.class), stays.ages, |point| curve.push(point));
        share::cut(at as u16, group.written / all, stays.price, &curve, &mut hull, &mut segments);
    }
    let mut shares = vec![Share::default(); stays.groups.len()];
    // The segments that save most for each block of the tier come first.
    let order = |a: &Segment, b: &Segment| {
        b.gain.total_cmp(&a.gain).then(a.group.cmp(&b.group)).then(a.from_age.cmp(&b.from_age))
    };
    segments.sort_by(order);
    let mut left = room_blocks as f64 * stays.room_part;
    for Segment { group, takes_blocks, from_age, to_age, dead: saved_long, .. } in segments {
        let share = &mut shares[usize::from(group)];
        if takes_blocks > left {
            let part_long = (left / takes_blocks).max(0.0);
            *share = Share { short_blocks: from_age, long_blocks: to_age, part_long, saved_long };
            break;
        }
        *share = Share { short_blocks: to_age, long_blocks: to_age, part_long: 1.0, saved_long };
        left -= takes_blocks;
    }
    known.iter().map(|&at| (stays.groups[at].traits, shares[at])).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Pieces of any size have the same result as one pass at once, with or without groups that are given up.
    #[test]
    fn pieces_and_whole_agree(
        writes in prop::collection::vec((0u8..40, 0u64..2000, 1u64..40), 50..600),
        (blocks, groups, segments) in (1usize..300, 1usize..40, 1usize..200),
        room in 1u64..2000,
        passes in 1u64..4,
    ) {
        let mut stays = Stays::new(500, 1 << 20, 90_000);
        let mut now = 0;
        for _ in 0..passes {
            for &(class, block, count) in &writes {
                let range = block..block + count;
                let group = stays.group((class, 0), 1, &range, now);
                now += count;
                stays.written(1, range, group, now);
            }
            let expected = shares_at_once(&stays, now, room);
            stays.begin_plan(now, room, 0);
            while !stays.plan_piece(pass::Piece { blocks, groups, segments }) {}
            let known = stays.groups.iter().filter(|group| group.state == State::Known);
            let found: Vec<(Traits, Share)> = known.map(|group| (group.traits, group.share)).collect();
            prop_assert_eq!(found, expected);
        }
    }

    /// Writes between the pieces of a pass are followed as they would be without one, except for those of groups that
    /// are given up.
    #[test]
    fn a_pass_changes_nothing_of_what_is_followed(writes in prop::collection::vec((0u8..4, 0u64..500, 1u64..10), 50..300)) {
        let mut both = [Stays::new(500, 1 << 20, 1 << 20), Stays::new(500, 1 << 20, 1 << 20)];
        for (at, stays) in both.iter_mut().enumerate() {
            let mut now = 0;
            for &(class, block, count) in &writes {
                let range = block..block + count;
                let group = stays.group((class, 0), 1, &range, now);
                now += count;
                stays.written(1, range, group, now);
                if at == 1 {
                    if !stays.is_planning() {
                        stays.begin_plan(now, 300, 0);
                    }
                    stays.plan_piece(pass::Piece { blocks: 3, groups: 1, segments: 2 });
                }
            }
            prop_assert!(at == 0 || stays.planned_at > 0);
        }
        prop_assert_eq!(both[0].sample.len(), both[1].sample.len());
        let living = |stays: &Stays| {
            let mut counts = vec![0; stays.groups.len()];
            stays.sample.count_groups(|group| counts[usize::from(group)] += 1);
            counts
        };
        prop_assert_eq!(living(&both[0]), living(&both[1]));
    }
}

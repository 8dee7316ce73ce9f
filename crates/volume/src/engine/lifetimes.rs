//! Lifetime groups: the group to which the data of a band belongs, by the policy that the operator chose, in the engine's terms.

use super::marks::Marks;
use crate::layout::page::BLOCK_GRAINS;
use crate::layout::root::{BandRoot, BandState};
use crate::layout::stream::{Lifetime, Stream};
use crate::space::bands::Bands;
use forebay_placement::grouping::{Collected, GROUPS_MAX, Grouping, Kind, Move, Version, Write};

/// What is known of data that comes to a band, from a host or from the fast tier.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Arrival {
    /// The group and the age of what it replaced, where that is known.
    pub replaced: Option<(u8, u64)>,
    /// Valid blocks in bands.
    pub valid_blocks: u64,
    /// Blocks that arrive.
    pub blocks: u32,
}

/// What came to the bands of a group since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupCounts {
    /// Blocks from hosts and from the fast tier.
    pub arrived_blocks: u64,
    /// Blocks that collection moved into it.
    pub moved_in_blocks: u64,
    /// Blocks that collection moved out of it.
    pub moved_out_blocks: u64,
}

/// A group as it is now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LifetimeGroup {
    /// Bands that hold its data.
    pub bands: usize,
    /// Of these, open ones.
    pub open_bands: usize,
    /// Valid blocks in these bands.
    pub valid_blocks: u64,
    /// What came to it since the start.
    pub counts: GroupCounts,
}

/// The policy.
pub(crate) struct Lifetimes {
    grouping: Box<dyn Grouping + Send>,
    pub kind: Kind,
    origins: Marks,
    bands_closed: Marks,
    counts: [GroupCounts; GROUPS_MAX as usize],
}

impl Lifetimes {
    /// The policy, for bands of so many blocks, of which the share `spare` is spare. `origin`, `closed` and `now`:
    /// where the pool's sequences, its count of closed bands and its clock stand.
    pub fn new(kind: Kind, (band_blocks, spare): (u64, f64), (origin, closed): (u64, u64), now: u64) -> Self {
        let grouping = kind.build(band_blocks, spare);
        let (origins, bands_closed) = (Marks::new(origin, now), Marks::new(closed, now));
        Self { grouping, kind, origins, bands_closed, counts: Default::default() }
    }

    /// Notes that the pool's clock says `now` at this origin, when so many bands were closed.
    pub fn mark(&mut self, (origin, closed): (u64, u64), now: u64) {
        self.origins.mark(origin, now);
        self.bands_closed.mark(closed, now);
    }

    /// The group of the data in a band, and its age: since the band was closed, or that of the pool where collection moved the data there.
    pub fn of_band(&self, band: BandRoot, now: u64) -> (u8, u64) {
        let came = match band.state {
            _ if band.stream.is_collected => 0,
            BandState::Closed => self.bands_closed.time(band.closed_at),
            _ => now,
        };
        (band.stream.group, now.saturating_sub(came))
    }

    /// The age of a block.
    pub fn age(&self, origin: u64, now: u64) -> u64 {
        now.saturating_sub(self.origins.time(origin))
    }

    /// The lifetime of data that comes to the bands, if it gets space there.
    pub fn arrives(&mut self, arrival: Arrival) -> Lifetime {
        let Arrival { replaced, valid_blocks, blocks } = arrival;
        let over = replaced.map(|(group, age)| Version { group, age, note: None });
        self.grouping.of_write(&Write { over, below: None, dies_after: None, valid_blocks, blocks }).into()
    }

    /// So many blocks got space in a band of a stream that is not one of collection.
    pub fn arrived(&mut self, stream: Stream, blocks: u32) {
        self.counts[usize::from(stream.group)].arrived_blocks += u64::from(blocks);
    }

    /// A block of this age is moved out of a band of this group; `note`: what the band's summary says of it.
    pub fn moves(&mut self, group: u8, age: u64, note: u8) -> Lifetime {
        let version = Version { group, age, note: note.checked_sub(1) };
        let lifetime = Lifetime::from(self.grouping.of_move(&Move { version, dies_after: None }));
        self.counts[usize::from(group)].moved_out_blocks += 1;
        self.counts[usize::from(lifetime.group)].moved_in_blocks += 1;
        lifetime
    }

    /// A host replaced or discarded a block in a band of this group.
    pub fn died(&mut self, group: u8) {
        self.grouping.died(&Version { group, age: 0, note: None });
    }

    /// The collection of a band with so many valid blocks begins. `age`: since the band was opened.
    pub fn collected(&mut self, stream: Stream, age: u64, valid_blocks: u32) {
        self.grouping.collected(&Collected { group: stream.group, age, valid: valid_blocks });
    }

    /// What each group holds, and what came to it since the start.
    pub fn look(&self, bands: &Bands) -> Vec<LifetimeGroup> {
        let mut groups = vec![LifetimeGroup::default(); usize::from(self.grouping.groups().clamp(1, GROUPS_MAX))];
        for band in bands.table().iter().filter(|band| band.state != BandState::Free) {
            // Bands that another policy left in higher groups count with the last group.
            let last = groups.len() - 1;
            let group = &mut groups[usize::from(band.stream.group).min(last)];
            group.bands += 1;
            group.open_bands += usize::from(band.state == BandState::Open);
            group.valid_blocks += u64::from(band.valid) / BLOCK_GRAINS;
        }
        for (group, counts) in groups.iter_mut().zip(self.counts) {
            group.counts = counts;
        }
        groups
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_block::ClassId;

    const NO_NOTE: u8 = 0;

    fn lifetimes(kind: Kind) -> Lifetimes {
        Lifetimes::new(kind, (1024, 0.2), (1000, 10), 50_000)
    }

    /// SepBIT in the engine's terms: short lives, long ones, survivors of the short ones, and three groups by age.
    #[test]
    fn groups_follow_what_was_replaced_and_how_old_what_is_moved_is() {
        let mut lifetimes = lifetimes(Kind::SepBit);
        let arrives = |lifetimes: &mut Lifetimes, replaced| {
            let group = lifetimes.arrives(Arrival { replaced, valid_blocks: 1 << 20, blocks: 2 }).group;
            lifetimes.arrived(Stream { group, ..Stream::default() }, 2);
            group
        };
        let short = Stream { is_collected: false, group: 0, class: ClassId(1) };
        (0..16).for_each(|_| lifetimes.collected(short, 4000, 10));
        assert_eq!(arrives(&mut lifetimes, None), 1, "nothing is known of it");
        assert_eq!(arrives(&mut lifetimes, Some((1, 3999))), 0);
        assert_eq!(arrives(&mut lifetimes, Some((1, 4000))), 1);
        assert_eq!(lifetimes.moves(0, 1 << 30, NO_NOTE).group, 2);
        assert_eq!([15_999, 16_000, 64_000].map(|age| lifetimes.moves(2, age, NO_NOTE).group), [3, 4, 5]);
        let counts = lifetimes.counts;
        assert_eq!((counts[0].arrived_blocks, counts[1].arrived_blocks), (2, 4));
        assert_eq!((counts[0].moved_out_blocks, counts[2].moved_in_blocks, counts[2].moved_out_blocks), (1, 1, 3));
    }

    #[test]
    fn ages_come_from_origins_and_from_when_bands_were_closed() {
        let mut lifetimes = lifetimes(Kind::SepBit);
        lifetimes.mark((2000, 20), 90_000);
        assert_eq!(lifetimes.age(1500, 100_000), 30_000);
        let closed = |closed_at, is_collected| BandRoot {
            state: BandState::Closed,
            stream: Stream { is_collected, group: 3, class: ClassId(0) },
            closed_at,
            ..BandRoot::default()
        };
        assert_eq!(lifetimes.of_band(closed(20, false), 100_000), (3, 10_000));
        assert_eq!(lifetimes.of_band(closed(20, true), 100_000), (3, 100_000), "when it was written is not known");
        let open = BandRoot { state: BandState::Open, ..closed(0, false) };
        assert_eq!(lifetimes.of_band(open, 100_000), (3, 0));
    }

    #[test]
    fn every_policy_takes_whatever_another_one_left() {
        for kind in Kind::ALL {
            let mut lifetimes = lifetimes(kind);
            for group in 0..GROUPS_MAX {
                for note in [NO_NOTE, 1, 32, 255] {
                    assert!(lifetimes.moves(group, u64::MAX, note).group < GROUPS_MAX);
                    lifetimes.died(group);
                    let arrival = Arrival { replaced: Some((group, u64::MAX)), valid_blocks: 0, blocks: 400 };
                    assert!(lifetimes.arrives(arrival).group < GROUPS_MAX);
                }
            }
        }
    }
}

//! What a record does to the map entry of one block: one rule for records that are applied while the pool is served
//! and for those that are replayed.

use crate::layout::moved::Moved;
use crate::layout::page::{Entry, Span};
use forebay_block::ClassId;

/// A change of one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The host wrote, zeroed or discarded it: whatever was there before is gone.
    Set {
        /// The new entry.
        entry: Entry,
        /// Its block checksum; 0 where it names no data.
        checksum: u32,
    },
    /// It was copied from one place to another.
    Move {
        /// Where it was, first grain.
        source: u64,
        /// Its block checksum there.
        checksum: u32,
        /// Where it is now.
        destination: Span,
        /// Its block checksum now: another one where it is stored in another way.
        stored_checksum: u32,
    },
    /// Its data was found unreadable at a place.
    Damage {
        /// The place, first grain.
        source: u64,
        /// The block checksum that the data there does not have.
        checksum: u32,
    },
    /// It belongs to another class; its data stays where it is.
    Reclass {
        /// The class.
        class: ClassId,
    },
}

impl Change {
    /// What a move does to the entry of a block that goes to `destination`.
    #[must_use]
    pub fn of_move(moved: &Moved, destination: u64) -> Self {
        let Moved { source, checksum, stored, .. } = *moved;
        let destination = Span { location: destination, grains: stored.grains };
        Self::Move { source: source.location, checksum, destination, stored_checksum: stored.checksum }
    }

    /// What becomes of the entry of a block that was found unreadable at the source of a move.
    #[must_use]
    pub fn of_damage(moved: &Moved) -> Self {
        Self::Damage { source: moved.source.location, checksum: moved.checksum }
    }

    /// The entry and checksum after the change; `None` where it does not apply. Moves and damage concern the data that was read at the source: they do
    /// not apply to a block that was written since, even where its new data lies at the same place.
    #[must_use]
    pub fn apply(self, (old, old_checksum): (Entry, u32)) -> Option<(Entry, u32)> {
        let names = |source: u64, checksum: u32| match old {
            Entry::Data { span, class } if span.location == source && old_checksum == checksum => Some(class),
            _ => None,
        };
        match self {
            Self::Set { entry, checksum } => Some((entry, checksum)),
            Self::Move { source, checksum, destination, stored_checksum } => {
                let class = names(source, checksum)?;
                Some((Entry::Data { span: destination, class }, stored_checksum))
            }
            Self::Damage { source, checksum } => {
                names(source, checksum)?;
                Some((Entry::Damaged, 0))
            }
            Self::Reclass { class } => match old {
                Entry::Data { span, class: before } if before != class => {
                    Some((Entry::Data { span, class }, old_checksum))
                }
                _ => None,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// The slow model: each place holds the data of the last write there, and a block is where it was put last.
    #[derive(Default)]
    struct Model {
        /// Version of the block that lies at each place.
        places: BTreeMap<u64, u32>,
        /// Place and version of the block, and its class.
        block: Option<(u64, u32, u8)>,
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Write { place: u64, class: u8 },
        Discard,
        Read { place: u64 },
        Move { destination: u64 },
        Damage,
        Reclass { class: u8 },
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0u64..4, 0u8..3).prop_map(|(place, class)| Step::Write { place: place * 128, class }),
            Just(Step::Discard),
            (0u64..4).prop_map(|place| Step::Read { place: place * 128 }),
            (0u64..4).prop_map(|place| Step::Move { destination: 1024 + place * 128 }),
            Just(Step::Damage),
            (0u8..3).prop_map(|class| Step::Reclass { class }),
        ]
    }

    /// Where a block lies: compressed where it was moved to.
    fn stored(location: u64) -> Span {
        Span { location, grains: if location < 1024 { 128 } else { 33 } }
    }

    proptest! {
        /// A move that read a place before the block was written again never brings the old version back.
        #[test]
        fn a_block_is_always_its_newest_version(steps in proptest::collection::vec(step(), 1..60)) {
            let (mut model, mut entry, mut version) = (Model::default(), (Entry::Unmapped, 0), 0);
            // What migration read: place and version.
            let mut read: Option<(u64, u32)> = None;
            for step in steps {
                match step {
                    Step::Write { place, class } => {
                        version += 1;
                        model.places.insert(place, version);
                        model.block = Some((place, version, class));
                        let new = Entry::Data { span: Span::whole(place), class: ClassId(class) };
                        entry = Change::Set { entry: new, checksum: version }.apply(entry).unwrap();
                    }
                    Step::Discard => {
                        model.block = None;
                        entry = Change::Set { entry: Entry::Unmapped, checksum: 0 }.apply(entry).unwrap();
                    }
                    Step::Read { place } => read = model.places.get(&place).map(|&version| (place, version)),
                    Step::Move { destination } => {
                        let Some((source, checksum)) = read else { continue };
                        // Space in which a block lives is never granted.
                        if model.block.is_some_and(|(place, ..)| place == destination) {
                            continue;
                        }
                        model.places.insert(destination, checksum);
                        if let Some((_, newest, class)) = model.block.filter(|b| (b.0, b.1) == (source, checksum)) {
                            model.block = Some((destination, newest, class));
                        }
                        let destination = stored(destination);
                        let moved = Change::Move { source, checksum, destination, stored_checksum: checksum };
                        entry = moved.apply(entry).unwrap_or(entry);
                    }
                    Step::Damage => {
                        let Some((source, checksum)) = read else { continue };
                        let found = Change::Damage { source, checksum };
                        match found.apply(entry) {
                            Some(damaged) => {
                                prop_assert!(model.block.is_some_and(|b| (b.0, b.1) == (source, checksum)));
                                entry = damaged;
                                // A damaged block stays damaged until it is written.
                                model.block = None;
                                entry.0 = Entry::Unmapped;
                            }
                            None => prop_assert!(model.block.is_none_or(|b| (b.0, b.1) != (source, checksum))),
                        }
                    }
                    Step::Reclass { class } => {
                        model.block = model.block.map(|(place, version, _)| (place, version, class));
                        entry = Change::Reclass { class: ClassId(class) }.apply(entry).unwrap_or(entry);
                    }
                }
                let expected = model.block.map_or((Entry::Unmapped, 0), |(location, version, class)| {
                    (Entry::Data { span: stored(location), class: ClassId(class) }, version)
                });
                let found = if entry.0 == Entry::Unmapped { (Entry::Unmapped, 0) } else { entry };
                prop_assert_eq!(found, expected);
                if let Entry::Data { span: Span { location, .. }, .. } = entry.0 {
                    prop_assert_eq!(model.places.get(&location), Some(&entry.1), "the place holds another version");
                }
            }
        }
    }
}

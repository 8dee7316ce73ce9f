//! Leaves that background work reads and nobody else wants: they are dropped again, so that they push out none that hosts use.

use super::map::Map;
use crate::map::index::NO_FRAME;
use forebay_block::DiskId;

/// The leaf that is in memory for one kind of background work alone, if any.
#[derive(Debug, Default)]
pub(crate) struct TransientLeaf {
    leaf: Option<(DiskId, u64)>,
}

impl TransientLeaf {
    /// The next step is in this leaf: the leaf that was brought in before is dropped, unless hosts use it by now.
    pub fn go_on(&mut self, disk: DiskId, leaf: u64, map: &mut Map) {
        let is_resident = map.disk(disk).is_some_and(|disk| disk.frame(leaf) != NO_FRAME);
        if let Some((disk, leaf)) = self.replace((disk, leaf), !is_resident) {
            map.give_up(disk, leaf);
        }
    }

    /// Returns a leaf that was brought in and is not needed any more. `is_new`: `leaf` is not in memory yet.
    fn replace(&mut self, leaf: (DiskId, u64), is_new: bool) -> Option<(DiskId, u64)> {
        if self.leaf == Some(leaf) {
            return None;
        }
        std::mem::replace(&mut self.leaf, is_new.then_some(leaf))
    }

    /// A step has ended: its own look at the leaf does not count as a use.
    pub fn clear_referenced(&self, map: &mut Map) {
        if let Some(frame) = self.leaf.and_then(|(disk, leaf)| Some(map.disk(disk)?.frame(leaf)))
            && frame != NO_FRAME
        {
            map.frames.get_mut(frame).referenced = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leaf_that_was_brought_is_given_up_with_the_next_and_others_are_not() {
        let mut transient = TransientLeaf::default();
        let leaf = |number| (DiskId(1), number);
        assert_eq!(transient.replace(leaf(0), true), None);
        // Later steps find it in memory, where it is for their sake alone.
        assert_eq!(transient.replace(leaf(0), false), None);
        assert_eq!(transient.replace(leaf(1), false), Some(leaf(0)));
        assert_eq!(transient.replace(leaf(2), true), None);
        assert_eq!(transient.replace(leaf(3), true), Some(leaf(2)));
    }
}

//! The section of a root for complete groups of bands whose summary cannot be written to its place: it has their entries, which are nowhere else.

use super::band_summary::{UNWRITTEN_MAX, take_entries};
use super::codec::{Reader, Writer};
use super::root::{BandRoot, RootBounds, UnwrittenGroup};
use std::collections::BTreeSet;

/// Appends groups.
pub(super) fn put(groups: &[UnwrittenGroup], w: &mut Writer) {
    w.u32(groups.len() as u32);
    for UnwrittenGroup { band, generation, group, entries } in groups {
        [*band, *generation, *group, entries.len() as u32].into_iter().for_each(|value| w.u32(value));
        entries.iter().for_each(|entry| entry.put(w));
    }
}

/// Takes groups; `None` where they cannot belong to these bands. A group whose band was used for something else since is left out: a program that does
/// not know the section keeps it.
pub(super) fn take(payload: &[u8], bands: &[BandRoot], bounds: &RootBounds) -> Option<Vec<UnwrittenGroup>> {
    let mut r = Reader::new(payload);
    let (mut groups, mut seen) = (Vec::new(), BTreeSet::new());
    let count = r.u32()? as usize;
    for _ in 0..count.min(UNWRITTEN_MAX) {
        let (band, generation, group, entries) = (r.u32()?, r.u32()?, r.u32()?, r.u32()? as usize);
        let root = bands.get(band as usize)?;
        if group >= bounds.shape.groups() || !seen.insert((band, group)) {
            return None;
        }
        let entries = take_entries(&mut r, entries, bounds.shape.group_grains(group))?;
        if root.generation == generation && group < root.complete_groups(bounds.shape) {
            groups.push(UnwrittenGroup { band, generation, group, entries });
        }
    }
    (r.remaining() == 0 && count <= UNWRITTEN_MAX).then_some(groups)
}

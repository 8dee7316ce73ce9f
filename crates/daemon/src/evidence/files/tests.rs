#![allow(clippy::unwrap_used)]

use super::*;
use forebay_trace::files::FileFacts;
use proptest::prelude::*;

fn change(inode: u64, path: &str, spans: &[(u64, u64)], seen_ns: u64) -> Change {
    let mut at = 0;
    let extents = spans.iter().map(|&(first, blocks)| {
        let extent = Extent {
            disk_offset_bytes: first * 4096,
            file_offset_bytes: at * 4096,
            len_bytes: blocks * 4096,
            is_written: true,
        };
        at += blocks;
        extent
    });
    let extents = Some(extents.collect());
    Change::File { facts: facts(inode, path), extents, seen_ns }
}

fn facts(inode: u64, path: &str) -> FileFacts {
    FileFacts {
        inode,
        generation: 0,
        path: path.to_owned(),
        size_bytes: 0,
        lifetime: None,
        level: None,
        level_written: None,
    }
}

fn class(hints: &Arc<FileHints>) -> ClassId {
    ClassId(u8::from(hints.path.contains("log")))
}

fn corrections(files: &mut Files) -> Vec<(u64, u64, String)> {
    let next = || files.next_correction().map(|found| (found.first, found.blocks, found.file.path.clone()));
    std::iter::from_fn(next).collect()
}

#[test]
fn blocks_are_corrected_once_until_the_class_changes() {
    let mut files = Files::new(100);
    files.take(change(1, "/a", &[(10, 5), (100, 5)], 1), class);
    assert_eq!(corrections(&mut files), [(10, 5, "/a".to_owned()), (100, 5, "/a".to_owned())]);
    files.take(change(1, "/a", &[(10, 8), (100, 5)], 2), class);
    assert_eq!(corrections(&mut files), [(15, 3, "/a".to_owned())], "it has grown");
    files.take(change(1, "/a", &[(10, 8), (100, 5)], 3), class);
    assert_eq!(corrections(&mut files), [], "nothing new");
    files.take(change(1, "/log", &[(10, 8), (100, 5)], 4), class);
    assert_eq!(corrections(&mut files).iter().map(|(_, blocks, _)| blocks).sum::<u64>(), 13);
    files.reconsider(class);
    assert_eq!(corrections(&mut files).iter().map(|(_, blocks, _)| blocks).sum::<u64>(), 13);
    assert_eq!(corrections(&mut files), []);
}

#[test]
fn large_files_are_corrected_in_parts() {
    let mut files = Files::new(100);
    files.take(change(1, "/a", &[(0, 4000)], 1), class);
    let parts = std::iter::from_fn(|| files.next_correction());
    let parts: Vec<_> = parts.map(|part| (part.first, part.blocks, part.file_offset_bytes)).collect();
    let at = |block: u64| Some(block * 4096);
    assert_eq!(parts, [(0, 1600, at(0)), (1600, 1600, at(1600)), (3200, 800, at(3200))]);
    assert_eq!(files.counts().1, 1, "one run again");
}

#[test]
fn parts_of_blocks_are_nobodys() {
    let mut files = Files::new(100);
    let extent = Extent { disk_offset_bytes: 4096 + 512, file_offset_bytes: 0, len_bytes: 3 * 4096, is_written: true };
    files.take(Change::File { facts: facts(1, "/x"), extents: Some(vec![extent]), seen_ns: 1 }, class);
    assert_eq!(files.at(0, 10), (2, None));
    let (until, found) = files.at(2, 10);
    assert_eq!((until, found.map(|(_, offset)| offset)), (4, Some(Some(4096 - 512))));
}

#[test]
fn a_look_that_is_late_does_not_take_back_what_was_given_up() {
    let mut files = Files::new(100);
    // The log reuses the table's blocks. It is written before the late look at the table arrives.
    files.issued(10, 20, (2, 0), 50);
    files.arrived(10, 20, Some((2, 0)), false);
    files.take(change(1, "/table", &[(0, 30)], 40), class);
    assert_eq!(corrections(&mut files), [(0, 10, "/table".to_owned()), (20, 10, "/table".to_owned())]);
    assert_eq!(files.at(12, 30), (20, None), "its owner has no name yet");
    // Facts of the log arrive without a look at its blocks.
    files.take(Change::File { facts: facts(2, "/log"), extents: None, seen_ns: 60 }, class);
    assert_eq!(corrections(&mut files), [(10, 10, "/log".to_owned())]);
    files.issued(10, 15, (2, 0), 70);
    files.arrived(10, 15, Some((2, 0)), true);
    assert_eq!(corrections(&mut files), [], "it was written with its name known");
    files.take(change(1, "/table", &[(0, 30)], 80), class);
    assert_eq!(corrections(&mut files), [(10, 10, "/table".to_owned())], "a newer look");
}

#[test]
fn what_is_on_its_way_is_not_there_yet() {
    let mut files = Files::new(100);
    files.issued(0, 20, (1, 0), 5);
    let named = || Change::File { facts: facts(1, "/a"), extents: None, seen_ns: 0 };
    files.take(named(), class);
    assert_eq!(corrections(&mut files), [], "the blocks hold what was there before");
    files.arrived(0, 5, Some((1, 0)), true);
    files.arrived(5, 10, Some((1, 0)), false);
    files.arrived(10, 15, None, false);
    files.arrived(15, 20, Some((9, 0)), false);
    assert_eq!(corrections(&mut files), [(5, 10, "/a".to_owned())], "classified before its name was known");
    assert_eq!(corrections(&mut files), []);
}

#[test]
fn what_is_only_reserved_is_not_corrected() {
    let mut files = Files::new(100);
    let extents = [(0, false), (10, true)].map(|(first, is_written)| Extent {
        disk_offset_bytes: first * 4096,
        file_offset_bytes: first * 4096,
        len_bytes: 10 * 4096,
        is_written,
    });
    let look = |seen_ns, extents: Vec<Extent>| Change::File { facts: facts(1, "/a"), extents: Some(extents), seen_ns };
    files.take(look(1, extents.to_vec()), class);
    assert_eq!(corrections(&mut files), [(10, 10, "/a".to_owned())]);
    assert_eq!(files.at(3, 10).1.unwrap().1, Some(3 * 4096), "but what is written there is known");
    files.take(look(1, Vec::new()), class);
    files.take(look(1, extents.to_vec()), class);
    assert_eq!(corrections(&mut files), [(10, 10, "/a".to_owned())], "looked at anew");
    files.reconsider(class);
    assert_eq!(corrections(&mut files), [(10, 10, "/a".to_owned())], "also where rules change");
    files.issued(2, 4, (1, 0), 2);
    files.arrived(2, 4, Some((1, 0)), true);
    assert_eq!(files.at(3, 10).1.unwrap().1, Some(3 * 4096));
    files.reconsider(class);
    assert_eq!(corrections(&mut files), [(2, 2, "/a".to_owned()), (10, 10, "/a".to_owned())]);
    files.take(look(3, extents.to_vec()), class);
    files.reconsider(class);
    let both = [(2, 2, "/a".to_owned()), (10, 10, "/a".to_owned())];
    assert_eq!(corrections(&mut files), both, "what is on its way is not reserved again");
    let written = extents.map(|extent| Extent { is_written: true, ..extent });
    files.take(look(4, written.to_vec()), class);
    assert_eq!(corrections(&mut files), [], "it was written as that file's");
}

#[test]
fn what_no_file_has_is_no_files() {
    let mut files = Files::new(100);
    files.take(change(1, "/a", &[(0, 30)], 1), class);
    files.taken(10, 20);
    assert_eq!(corrections(&mut files), [(0, 10, "/a".to_owned()), (20, 10, "/a".to_owned())]);
    assert_eq!(files.at(20, 30).1.unwrap().1, Some(20 * 4096));
}

#[test]
fn hints_are_remembered_within_limits() {
    let mut files = Files::new(10);
    for at in 0..100 {
        files.issued(at * 2, at * 2 + 1, (at, 0), at);
    }
    assert_eq!(files.counts(), (10, 10, 0));
    for at in 0..100 {
        files.taken(at * 2, at * 2 + 1);
    }
    assert_eq!(files.counts(), (0, 0, 0));
}

proptest! {
    #[test]
    fn runs_are_as_if_each_block_had_its_own(
        steps in prop::collection::vec(
            (0u8..4, 1u64..6, prop::collection::vec((0u64..60, 1u64..12), 0..4), 0u64..3), 1..80),
        are_late in any::<bool>(),
    ) {
        let mut files = Files::new(1000);
        let mut model: [Option<(u64, u64)>; 80] = [None; 80];
        let mut now = 10;
        let mut open = [false; 80];
        let mut known = std::collections::BTreeSet::new();
        for (kind, inode, spans, late) in steps {
            now += 1;
            // Merged runs carry the newest time of their parts. The model does not know which of them a late look may
            // still claim.
            let seen_ns = now - if are_late { late * 2 } else { 0 };
            let cover = |spans: &[(u64, u64)]| {
                let blocks = spans.iter().flat_map(|&(first, blocks)| first..first + blocks);
                blocks.map(|block| block as usize).collect::<std::collections::BTreeSet<_>>()
            };
            match kind {
                0 => {
                    let spans: Vec<_> = spans.into_iter().take(1).collect();
                    for block in cover(&spans) {
                        if model[block].is_none_or(|(owner, _)| owner != inode) {
                            model[block] = Some((inode, now));
                        }
                        open[block] = !known.contains(&inode);
                    }
                    for (first, blocks) in spans {
                        files.issued(first, first + blocks, (inode, 0), now);
                        files.arrived(first, first + blocks, Some((inode, 0)), known.contains(&inode));
                    }
                }
                1 => {
                    for block in cover(&spans) {
                        model[block] = None;
                    }
                    spans.iter().for_each(|&(first, blocks)| files.taken(first, first + blocks));
                }
                2 => {
                    known.remove(&inode);
                    model.iter_mut().filter(|block| block.is_some_and(|(owner, _)| owner == inode))
                        .for_each(|block| *block = None);
                    files.take(Change::Gone { inode, generation: 0 }, class);
                }
                _ => {
                    let is_new = known.insert(inode);
                    let new = cover(&spans);
                    for (at, block) in model.iter_mut().enumerate() {
                        let is_own = block.is_some_and(|(owner, _)| owner == inode);
                        open[at] |= is_new && is_own;
                        let may_change = block.is_none_or(|(_, since)| since <= seen_ns);
                        if new.contains(&at) && may_change {
                            open[at] |= !is_own;
                            *block = Some((inode, seen_ns));
                        } else if is_own && may_change {
                            *block = None;
                        }
                    }
                    files.take(change(inode, &format!("/{inode}"), &spans, seen_ns), class);
                }
            }
            let mut at = 0;
            while at < 80 {
                let (until, found) = files.run_at(at, 80);
                prop_assert!(until > at && until <= 80);
                for block in &model[at as usize..until as usize] {
                    prop_assert!(are_late || block.map(|(owner, _)| owner) == found.map(|run| run.key.0));
                }
                at = until;
            }
            let listed: usize = files.files.values().map(|file| file.runs.len()).sum();
            prop_assert_eq!(listed, files.runs.len());
        }
        // Every unchecked block of a known file is corrected with the facts of that file.
        let mut corrected = [false; 80];
        if are_late {
            return Ok(());
        }
        for (first, blocks, path) in corrections(&mut files) {
            for block in first..first + blocks {
                corrected[block as usize] = true;
                prop_assert_eq!(format!("/{}", model[block as usize].unwrap().0), path.clone());
            }
        }
        for (at, block) in model.iter().enumerate() {
            if let Some((owner, _)) = block {
                prop_assert!(corrected[at] || !known.contains(owner) || !open[at], "block {at}");
            }
        }
    }
}

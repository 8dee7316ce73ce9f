#![allow(clippy::unwrap_used)]

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::Path;

fn id(inode: u64) -> Id {
    Id { inode, generation: 1 }
}

fn tree(limit: usize) -> Tree<u32> {
    Tree::new(id(1), limit)
}

#[test]
fn paths_follow_renames_of_files_and_folders() {
    let (mut tree, mut removed) = (tree(10), Vec::new());
    assert_eq!(tree.link(1, b"db", id(2), true, &mut removed), Linked::New);
    assert_eq!(tree.link(2, b"000012.dbtmp", id(3), false, &mut removed), Linked::New);
    assert_eq!(tree.path(3).unwrap(), Path::new("db/000012.dbtmp"));
    // A rename is a new link followed by the removal of the old name.
    assert_eq!(tree.link(2, b"CURRENT", id(3), false, &mut removed), Linked::Known);
    assert_eq!(tree.unlink(2, b"000012.dbtmp", Some(3), &mut removed), Some(3));
    assert_eq!(tree.path(3).unwrap(), Path::new("db/CURRENT"));
    assert_eq!(tree.link(1, b"old", id(2), true, &mut removed), Linked::Known);
    assert_eq!(tree.unlink(1, b"db", Some(2), &mut removed), None);
    assert_eq!(tree.path(3).unwrap(), Path::new("old/CURRENT"));
    assert_eq!(tree.files_below(2), [3]);
    assert_eq!(removed, []);
    tree.unlink(1, b"old", None, &mut removed);
    assert_eq!(removed, [Removed { id: id(3), file: 0 }]);
    assert_eq!((tree.files(), tree.path(3)), (0, None));
}

#[test]
fn another_name_takes_over() {
    let (mut tree, mut removed) = (tree(10), Vec::new());
    tree.link(1, b"a", id(2), false, &mut removed);
    tree.link(1, b"b", id(2), false, &mut removed);
    assert_eq!(tree.path(2).unwrap(), Path::new("a"));
    assert_eq!(tree.unlink(1, b"a", Some(2), &mut removed), Some(2));
    assert_eq!((tree.path(2).unwrap().as_path(), removed.len()), (Path::new("b"), 0));
    tree.unlink(1, b"b", Some(2), &mut removed);
    assert_eq!(removed.len(), 1);
}

#[test]
fn an_inode_used_again_is_another_file() {
    let (mut tree, mut removed) = (tree(10), Vec::new());
    tree.link(1, b"a", id(2), false, &mut removed);
    *tree.file_mut(2).unwrap() = 7;
    let again = Id { inode: 2, generation: 2 };
    assert_eq!(tree.link(1, b"b", again, false, &mut removed), Linked::New);
    assert_eq!(removed, [Removed { id: id(2), file: 7 }]);
    assert_eq!((tree.id(2), tree.path(2).unwrap().as_path()), (Some(again), Path::new("b")));
    // A file overwritten by a rename has no name left.
    tree.link(1, b"c", id(3), false, &mut removed);
    tree.link(1, b"c", again, false, &mut removed);
    tree.unlink(1, b"b", Some(2), &mut removed);
    assert_eq!(removed[1].id, id(3));
    assert_eq!(tree.path(2).unwrap(), Path::new("c"));
}

#[test]
fn a_folder_never_comes_below_itself() {
    let (mut tree, mut removed) = (tree(10), Vec::new());
    tree.link(1, b"a", id(2), true, &mut removed);
    tree.link(2, b"b", id(3), true, &mut removed);
    assert_eq!(tree.link(3, b"c", id(2), true, &mut removed), Linked::Refused);
    assert_eq!(tree.link(3, b"c", id(1), true, &mut removed), Linked::Refused);
    assert_eq!(tree.link(3, b"c", id(3), true, &mut removed), Linked::Refused);
    assert_eq!(tree.path(3).unwrap(), Path::new("a/b"));
}

#[test]
fn limits_hold() {
    let (mut tree, mut removed) = (tree(2), Vec::new());
    for inode in 2..5 {
        tree.link(1, &[inode as u8], id(inode), false, &mut removed);
    }
    assert_eq!((tree.files(), tree.take_left_out(), tree.take_left_out()), (2, 1, 0));
    assert_eq!(tree.link(99, b"x", id(9), false, &mut removed), Linked::Refused);
    let mut deep = super::Tree::<u32>::new(id(1), 1000);
    for inode in 1..300 {
        deep.link(inode, b"d", id(inode + 1), true, &mut removed);
    }
    assert_eq!(deep.path(DEPTH_MAX as u64 + 2).unwrap().components().count(), DEPTH_MAX + 1);
    assert_eq!(deep.id(DEPTH_MAX as u64 + 3), None);
}

#[derive(Clone, Debug)]
enum Step {
    Link { folder: u64, name: u8, inode: u64, generation: u32 },
    Unlink { folder: u64, name: u8 },
}

fn step() -> impl Strategy<Value = Step> {
    let link = (1..6u64, 0..4u8, 1..12u64, 1..3u32).prop_map(|(folder, name, inode, generation)| Step::Link {
        folder,
        name,
        inode,
        generation,
    });
    let unlink = (1..6u64, 0..4u8).prop_map(|(folder, name)| Step::Unlink { folder, name });
    prop_oneof![3 => link, 1 => unlink]
}

proptest! {
    /// For any sequence of events: every file in the tree has a path that leads to it, entries and nodes agree, and each file that was
    /// added and is no longer in the tree was reported as removed exactly once.
    #[test]
    fn nothing_is_lost_between_names(steps in prop::collection::vec(step(), 0..80)) {
        let mut tree = tree(6);
        let mut held: BTreeMap<Id, ()> = BTreeMap::new();
        for step in steps {
            let mut removed = Vec::new();
            match step {
                Step::Link { folder, name, inode, generation } => {
                    // Inodes below six are folders.
                    let id = Id { inode, generation };
                    let linked = tree.link(folder, &[name], id, inode < 6, &mut removed);
                    for gone in removed {
                        prop_assert!(held.remove(&gone.id).is_some(), "{gone:?} was not held");
                    }
                    if linked == Linked::New && inode >= 6 {
                        prop_assert!(held.insert(id, ()).is_none());
                    }
                    if linked != Linked::Refused {
                        prop_assert_eq!(tree.entries(folder).unwrap().get(&[name][..]), Some(&inode));
                    }
                }
                Step::Unlink { folder, name } => {
                    tree.unlink(folder, &[name], None, &mut removed);
                    for gone in removed {
                        prop_assert!(held.remove(&gone.id).is_some(), "{gone:?} was not held");
                    }
                }
            }
            prop_assert_eq!(tree.files(), held.len());
            let mut below: Vec<u64> = tree.files_below(1);
            below.sort_unstable();
            below.dedup();
            let expected: Vec<u64> = held.keys().map(|id| id.inode).collect();
            prop_assert_eq!(below, expected);
            for id in held.keys() {
                prop_assert_eq!(tree.id(id.inode), Some(*id));
                let (folder, name) = tree.name(id.inode).unwrap();
                prop_assert_eq!(tree.entries(folder).unwrap().get(name), Some(&id.inode));
                prop_assert!(tree.path(id.inode).is_some());
            }
        }
    }
}

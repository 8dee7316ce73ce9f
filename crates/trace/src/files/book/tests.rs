#![allow(clippy::unwrap_used)]

use super::super::events::Entry;
use super::*;
use std::collections::BTreeMap;

fn id(inode: u64) -> Id {
    Id { inode, generation: 1 }
}

fn handle(inode: u64) -> Handle {
    Handle { id: id(inode), subvolume: 0 }
}

fn book() -> Book {
    let options = WatchOptions { mount: "/m".into(), with_extents: true, files_max: 1 << 20, extents_max: 1 << 20 };
    Book::new(options, "/m".into(), handle(1))
}

fn entry(name: &str) -> Option<Entry<'_>> {
    Some(Entry { folder: handle(1), name: name.as_bytes() })
}

/// All reported changes, when the taker takes everything that waits.
fn reported(book: &mut Book) -> Vec<(u64, Option<String>)> {
    let mut all = Vec::new();
    book.drain(|changes| {
        all.append(changes);
        (0, 0)
    });
    let change = |change| match change {
        Change::File { facts, .. } => (facts.inode, Some(facts.path)),
        Change::Gone { inode, .. } => (inode, None),
    };
    all.into_iter().map(change).collect()
}

fn path(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[test]
fn files_come_are_renamed_and_go() {
    let (mut book, now, mut todo) = (book(), Instant::now(), Vec::new());
    let create = Event { mask: libc::FAN_CREATE, entry: entry("a"), file: Some(handle(5)), from: None };
    book.event(&create, true, now, &mut todo);
    let rename = Event { mask: libc::FAN_RENAME, entry: entry("b"), from: entry("a"), file: Some(handle(5)) };
    book.event(&rename, true, now, &mut todo);
    let delete = Event { mask: libc::FAN_DELETE, entry: entry("b"), file: Some(handle(5)), from: None };
    book.event(&delete, true, now, &mut todo);
    assert_eq!(reported(&mut book), [(5, path("/m/a")), (5, path("/m/b")), (5, None)]);
    assert_eq!((todo.len(), book.tree.files()), (0, 0));
    // Created and deleted in one event: its name is reported, and a look finds out.
    let both =
        Event { mask: libc::FAN_CREATE | libc::FAN_DELETE, entry: entry("c"), file: Some(handle(6)), from: None };
    book.event(&both, true, now, &mut todo);
    assert_eq!(reported(&mut book), [(6, path("/m/c"))]);
    for _ in 0..MISSES_MAX {
        let later = book.schedule.next().unwrap();
        assert_eq!(book.next_look(later, false), Some(id(6)));
        book.missing(id(6), later, &mut todo);
    }
    assert_eq!(reported(&mut book), [(6, None)]);
    // Writes after the last name is gone are not reported again.
    let write = Event { mask: libc::FAN_MODIFY, entry: entry("b"), file: Some(handle(5)), from: None };
    book.event(&write, true, now, &mut todo);
    assert_eq!((reported(&mut book), book.schedule.next()), (vec![], None));
}

#[test]
fn before_5_17_names_are_read_from_their_folder() {
    let (mut book, now, mut todo) = (book(), Instant::now(), Vec::new());
    let create = Event { mask: libc::FAN_CREATE, entry: entry("a"), ..Event::default() };
    book.event(&create, false, now, &mut todo);
    assert_eq!(todo, [Todo::Scan(1, false)]);
    // A file that was closed after writing is reported.
    let close = Event { mask: libc::FAN_CLOSE_WRITE, entry: entry("a"), file: Some(handle(5)), from: None };
    book.event(&close, false, now, &mut todo);
    let from = Event { mask: libc::FAN_MOVED_FROM, entry: entry("a"), ..Event::default() };
    book.event(&from, false, now, &mut todo);
    assert_eq!(reported(&mut book), [(5, path("/m/a")), (5, None)]);
}

#[test]
fn lost_events_and_unknown_links_ask_for_a_walk() {
    let (mut book, now, mut todo) = (book(), Instant::now(), Vec::new());
    book.event(&Event { mask: libc::FAN_Q_OVERFLOW, ..Event::default() }, true, now, &mut todo);
    assert_eq!((std::mem::take(&mut todo), book.lost), (vec![Todo::Walk], 1));
    book.link(1, b"a", id(5), false, &mut todo);
    book.found(id(5), Found { links: 2, ..Found::default() }, now, now);
    book.not_there(1, b"a", &mut todo);
    assert_eq!(todo, [Todo::Walk], "its other name is not known here");
}

/// If the taker is slow, memory stays bounded, and it gets everything later.
#[test]
fn a_slow_taker_learns_all_of_it_later() {
    let (mut book, mut todo) = (book(), Vec::new());
    let count = CHANGES_MAX as u64 + 5000;
    let mut waiting = Vec::new();
    for inode in 2..2 + count {
        book.link(1, format!("{inode}").as_bytes(), id(inode), false, &mut todo);
        if inode % 1000 == 0 {
            book.drain(|changes| {
                waiting.append(changes);
                (waiting.len(), 0)
            });
        }
    }
    assert!(!book.has_room() && waiting.len() <= CHANGES_MAX + 1000, "{}", waiting.len());
    let mut known = BTreeMap::new();
    for change in waiting {
        if let Change::File { facts, .. } = change {
            known.insert(facts.inode, facts.path);
        }
    }
    for _ in 0..3 {
        known.extend(reported(&mut book).into_iter().map(|(inode, path)| (inode, path.unwrap())));
    }
    assert_eq!(known.len() as u64, count);
}

#[test]
fn extents_are_reported_when_they_change_and_bounded() {
    let (mut book, now, mut todo) = (book(), Instant::now(), Vec::new());
    book.link(1, b"a", id(5), false, &mut todo);
    reported(&mut book);
    let extent =
        super::super::Extent { disk_offset_bytes: 4096, file_offset_bytes: 0, len_bytes: 4096, is_written: true };
    let layout = Layout { extents: vec![extent], left_out: 3, is_pending: true, ..Layout::default() };
    let found = Found { size_bytes: 9, layout: Some(layout), ..Found::default() };
    book.found(id(5), found.clone(), now, now);
    assert_eq!((reported(&mut book).len(), book.extents, book.cut_files), (1, 1, 1));
    book.found(id(5), found.clone(), now, now);
    assert_eq!((reported(&mut book).len(), book.extents), (0, 1), "nothing new");
    assert!(book.schedule.next().is_some(), "some of it has no place yet");
    assert_eq!(book.extents_limit(5), 1 << 20);
    assert_eq!(book.extents_limit(6), (1 << 20) - 1);
    book.not_there(1, b"a", &mut todo);
    assert_eq!((book.extents, book.cut_files, book.schedule.next()), (0, 0, None));
}

#[test]
fn a_table_that_goes_before_its_level_is_known_is_remembered_by_who_names_files() {
    let events = |book: &mut Book| {
        let mut todo = Vec::new();
        let of = |mask, name, file| Event { mask, entry: entry(name), file: Some(handle(file)), from: None };
        for event in [
            of(libc::FAN_CREATE, "000012.sst", 5),
            of(libc::FAN_CREATE, "000013.sst", 6),
            of(libc::FAN_CREATE, "000014.log", 7),
        ] {
            book.event(&event, true, Instant::now(), &mut todo);
        }
        book.set_levels(6, Levels { now: Some(0), written: Some(0) });
        reported(book);
        for event in [
            of(libc::FAN_DELETE, "000012.sst", 5),
            of(libc::FAN_DELETE, "000013.sst", 6),
            of(libc::FAN_DELETE, "000014.log", 7),
        ] {
            book.event(&event, true, Instant::now(), &mut todo);
        }
        assert_eq!(reported(book), [(5, None), (6, None), (7, None)]);
    };
    let mut mapping = book();
    events(&mut mapping);
    assert_eq!(mapping.take_late().count(), 0);
    let options = WatchOptions { with_extents: false, ..mapping.options };
    let mut naming = Book::new(options, "/m".into(), handle(1));
    events(&mut naming);
    let late: Vec<LateTable> = naming.take_late().collect();
    let [LateTable { folder: 1, number: 12, facts }] = late.as_slice() else { panic!("{late:?}") };
    // A table with a second name still exists; without a generation, its number may belong to another file.
    let mut todo = Vec::new();
    let of = |mask, name, file| Event { mask, entry: entry(name), file: Some(file), from: None };
    let plain = Handle { id: Id { inode: 9, generation: 0 }, subvolume: 0 };
    for event in [
        of(libc::FAN_CREATE, "000020.sst", handle(8)),
        of(libc::FAN_CREATE, "linked", handle(8)),
        of(libc::FAN_DELETE, "000020.sst", handle(8)),
        of(libc::FAN_CREATE, "000021.sst", plain),
        of(libc::FAN_DELETE, "000021.sst", plain),
    ] {
        naming.event(&event, true, Instant::now(), &mut todo);
    }
    assert_eq!(naming.take_late().count(), 0);
    reported(&mut naming);
    naming.tell_late(FileFacts { level_written: Some(0), ..facts.clone() });
    assert_eq!(reported(&mut naming), [(5, path("/m/000012.sst")), (5, None)]);
}

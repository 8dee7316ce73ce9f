#![allow(clippy::unwrap_used)]

use super::*;
use forebay_prism::{ClassSpec, Lifetime, Place};
use forebay_trace::files::{Change, Extent, FileFacts};

const DISK: DiskId = DiskId(1);

/// Evidence with one source that looks for nothing. The tests fill in what it knows.
fn evidence() -> Evidence {
    let mut evidence = Evidence::new(1 << 20);
    let wanted = Wanted { disk: "db".to_owned(), device: None, mount: None, hints: false, files: false };
    evidence.attach(wanted, DISK, 1 << 30).unwrap();
    let source = &mut evidence.sources[0];
    source.files = files::Files::new(1000);
    source.file_system = Some(7);
    evidence
}

fn hint(inode: u64, flags: Flags) -> Hint {
    Hint {
        lifetime: Lifetime::Short,
        flags,
        file_system: 7,
        inode,
        generation: 3,
        pid: 42,
        comm: *b"postgres\0\0\0\0\0\0\0\0",
        cgroup: 0,
    }
}

fn look(evidence: &mut Evidence, inode: u64, generation: u32, path: &str, first: u64) {
    let facts = FileFacts {
        inode,
        generation,
        path: path.to_owned(),
        size_bytes: 1,
        lifetime: None,
        level: None,
        level_written: None,
    };
    let extent =
        Extent { disk_offset_bytes: first * 4096, file_offset_bytes: 0, len_bytes: 10 * 4096, is_written: true };
    let change = Change::File { facts, extents: Some(vec![extent]), seen_ns: 1 };
    evidence.sources[0].files.take(change, |_| ClassId(0));
}

fn paths(parts: &HintParts) -> Vec<(u64, Option<String>, bool)> {
    let path = |hints: &HostHints| hints.file.as_ref().map(|file| file.path.clone());
    parts.iter().map(|part| (part.blocks, path(&part.hints), part.hints.is_by_map)).collect()
}

#[test]
fn a_write_has_hints_part_by_part() {
    let mut evidence = evidence();
    look(&mut evidence, 5, 3, "/a", 100);
    evidence.sources[0].hints.add(95, 103, hint(5, Flags::SYNC));
    let parts = evidence.hints(DISK, 90 * 4096, 25 * 4096).unwrap();
    let a = Some("/a".to_owned());
    assert_eq!(
        paths(&parts),
        [(5, None, false), (5, a.clone(), false), (3, a.clone(), false), (7, a, true), (5, None, false)],
        "nothing, the hint, the hint and the map, the map, nothing"
    );
    let (hinted, mapped) = (&parts[1].hints, &parts[3].hints);
    assert_eq!((hinted.lifetime, hinted.pid, hinted.meta), (Some(Lifetime::Short), Some(42), Some(false)));
    assert_eq!(hinted.process.as_deref(), Some("postgres"));
    assert_eq!((parts[2].hints.file_offset_bytes, mapped.file_offset_bytes), (Some(0), Some(3 * 4096)));
    assert_eq!((mapped.lifetime, mapped.pid, mapped.process.as_deref()), (None, None, None));
    let again = evidence.hints(DISK, 95 * 4096, 8 * 4096).unwrap();
    assert!(again.iter().all(|part| part.hints.pid.is_none()), "a hint is for one write");
    assert!(evidence.hints(DiskId(2), 0, 4096).is_none(), "another disk");
}

#[test]
fn a_hint_names_its_file_and_no_other() {
    let mut evidence = evidence();
    look(&mut evidence, 5, 2, "/former", 200);
    look(&mut evidence, 9, 3, "/mapped", 100);
    for (inode, flags, path, is_by_map) in [
        (5, Flags::SYNC, None, false),
        (0, Flags::SYNC, Some("/mapped"), true),
        (0, Flags::META, None, false),
        (9, Flags::SYNC, Some("/mapped"), false),
    ] {
        evidence.sources[0].hints.add(100, 101, hint(inode, flags));
        let parts = evidence.hints(DISK, 100 * 4096, 4096).unwrap();
        let path = path.map(str::to_owned);
        assert_eq!(paths(&parts), [(1, path, is_by_map)], "inode {inode} {flags:?}");
    }
}

#[test]
fn what_nothing_tells_is_named() {
    let of = |name: &str, rule: &str| ClassSpec { rules: vec![rule.to_owned()], ..ClassSpec::new(name, Place::Fast) };
    let classes = [of("a", "path:/x & process:y"), of("b", "hint.lifetime:short | fs.journal"), of("c", "io_class:3")];
    let table = ClassTable::from_configured(&classes).unwrap();
    let count = |hints, files| unknown(&table, hints, files).len();
    assert_eq!([count(false, false), count(true, false), count(false, true), count(true, true)], [4, 2, 2, 1]);
}

#[test]
fn sources_share_the_memory() {
    let mut evidence = evidence();
    let wanted = |disk: &str| Wanted {
        disk: disk.to_owned(),
        device: Some("/dev/no-such-device".into()),
        mount: None,
        hints: false,
        files: true,
    };
    for (number, disk) in ["a", "b", "c"].iter().enumerate() {
        evidence.attach(wanted(disk), DiskId(number as u16 + 2), 4096).unwrap();
    }
    let shares: Vec<u64> = evidence.sources.iter().map(|source| source.memory_bytes).collect();
    assert_eq!(shares, [0, 1 << 19, 1 << 18, 1 << 17]);
    assert!(evidence.attach(wanted("a"), DiskId(2), 4096).unwrap_err().contains("attached already"));
    assert_eq!((evidence.detach(DiskId(2)), evidence.detach(DiskId(2))), (1, 0));
}

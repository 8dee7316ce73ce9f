//! Classes of data about which the host provides facts only after it was written.

use forebay_block::{ClassId, DiskId};
use forebay_prism::{
    ClassSpec, ClassTable, Direction, FileHints, HostFacts, HostHints, Intent, Lifetime, Place, Prism,
};
use std::sync::Arc;

const COLD: ClassId = ClassId(0);
const METADATA: ClassId = ClassId(1);
const TEMP: ClassId = ClassId(3);
const TABLES: ClassId = ClassId(5);
const PLAIN: ClassId = ClassId(6);

fn prism() -> Prism {
    let of = |name: &str, rule: &str| ClassSpec { rules: vec![rule.to_owned()], ..ClassSpec::new(name, Place::Fast) };
    let classes =
        [of("tables", "path:**/db/*.sst & file.size<1MiB"), of("plain", "offset:1GiB..2GiB & request_size<1MiB")];
    Prism::new(ClassTable::from_configured(&classes).unwrap())
}

fn intent(host: HostFacts<'_>) -> Intent<'_> {
    Intent {
        disk: DiskId(1),
        disk_size_bytes: 1 << 40,
        offset_bytes: 0,
        direction: Direction::Write,
        len_bytes: 4096,
        request_bytes: 4096,
        rest_bytes: 0,
        data: &[],
        export: 0,
        tag: None,
        host,
    }
}

fn file(path: &str, size_bytes: u64, lifetime: Option<Lifetime>) -> HostHints {
    let file = FileHints { path: path.to_owned(), size_bytes: Some(size_bytes), lifetime, sst_level: None };
    HostHints { file: Some(Arc::new(file)), ..HostHints::default() }
}

#[test]
fn a_rule_claims_and_lets_go() {
    let prism = prism();
    let (small, large) = (file("/mnt/db/1.sst", 4096, None), file("/mnt/db/1.sst", 1 << 20, None));
    for before in [COLD, METADATA, TEMP, TABLES] {
        assert_eq!(prism.reclass(&intent(small.facts()), before), TABLES, "{before:?}");
    }
    assert_eq!(prism.reclass(&intent(large.facts()), TABLES), COLD, "its rule holds no longer");
    assert_eq!(prism.reclass(&intent(large.facts()), METADATA), METADATA, "contents said so");
    assert_eq!(prism.reclass(&intent(large.facts()), PLAIN), PLAIN, "nothing the host tells decides of this class");
    let in_range = Intent { offset_bytes: 1 << 30, ..intent(large.facts()) };
    assert_eq!(prism.reclass(&in_range, COLD), COLD, "the size of its request is not known");
}

#[test]
fn a_hint_counts_where_nothing_else_does() {
    let prism = prism();
    let short = file("/x", 1, Some(Lifetime::Short));
    assert_eq!(prism.reclass(&intent(short.facts()), COLD), TEMP);
    assert_eq!(prism.reclass(&intent(short.facts()), METADATA), METADATA);
    let long = file("/x", 1, Some(Lifetime::Long));
    assert_eq!(prism.reclass(&intent(long.facts()), COLD), COLD);
    let own = HostHints { lifetime: Some(Lifetime::Long), ..short };
    assert_eq!(own.facts().lifetime, Some(Lifetime::Long), "that of the request comes before that of the file");
}

#[test]
fn the_class_of_the_export_stays() {
    let tagged = file("/mnt/db/1.sst", 1, None);
    let intent = Intent { tag: Some(PLAIN), ..intent(tagged.facts()) };
    assert_eq!(prism().reclass(&intent, COLD), PLAIN);
}

/// Classes with these rules, in this order; the first has id 5.
fn ruled(rules: &[&str]) -> Prism {
    let of = |(at, rule): (usize, &&str)| ClassSpec {
        rules: vec![(*rule).to_owned()],
        ..ClassSpec::new(&format!("class{at}"), Place::Fast)
    };
    let classes: Vec<ClassSpec> = rules.iter().enumerate().map(of).collect();
    Prism::new(ClassTable::from_configured(&classes).unwrap())
}

#[test]
fn regression_what_the_map_cannot_tell_keeps_its_class() {
    let mapped = HostHints { is_by_map: true, ..file("/mnt/db/x", 1 << 30, None) };
    assert!(mapped.facts().is_by_map);
    for rule in ["process:postgres*", "request_size<=16KiB", "export:1 & path:/mnt/**", "direct", "hint.meta", "pid=3"]
    {
        let prism = ruled(&[rule, "path:/mnt/**"]);
        assert_eq!(prism.reclass(&intent(mapped.facts()), ClassId(5)), ClassId(5), "{rule}");
        assert_eq!(prism.reclass(&intent(mapped.facts()), COLD), ClassId(6), "{rule}");
    }
    let prism = ruled(&["path:/mnt/**", "process:postgres*"]);
    assert_eq!(prism.reclass(&intent(mapped.facts()), ClassId(6)), ClassId(5), "a rule before it is sure");
    let prism = ruled(&["process:postgres* & path:/other/**"]);
    assert_eq!(prism.reclass(&intent(mapped.facts()), ClassId(5)), COLD, "surely not, whoever wrote it");
    assert_eq!(prism.reclass(&intent(mapped.facts()), METADATA), METADATA);
    let prism = ruled(&["path:/mnt/**"]);
    assert_eq!(prism.reclass(&intent(mapped.facts()), METADATA), METADATA, "the map lags behind");
}

#[test]
fn places_count_block_by_block() {
    let prism = ruled(&["file_offset<4KiB & path:/mnt/**"]);
    assert!(prism.reclass_uses_place());
    assert!(!ruled(&["path:/mnt/**"]).reclass_uses_place());
    let mut hints = file("/mnt/x", 1, None);
    for (offset, class) in [(Some(0), ClassId(5)), (Some(4096), COLD), (None, COLD)] {
        hints.file_offset_bytes = offset;
        assert_eq!(prism.reclass(&intent(hints.facts()), COLD), class, "{offset:?}");
    }
    let prism = ruled(&["offset:0..4KiB & path:/mnt/**"]);
    for (offset_bytes, class) in [(0, ClassId(5)), (4096, COLD)] {
        assert_eq!(prism.reclass(&Intent { offset_bytes, ..intent(hints.facts()) }, COLD), class);
    }
}

#[test]
fn data_of_a_file_lies_in_its_file_system() {
    let block = crate::xfs::superblock();
    let mut prism = ruled(&["fs.xfs & path:/mnt/**"]);
    let hints = file("/mnt/x", 1, None);
    let at = |offset_bytes| Intent { offset_bytes, ..intent(hints.facts()) };
    assert_eq!(prism.reclass(&at(1 << 20), COLD), COLD, "nothing is known of a file system");
    let write = Intent { data: &block, ..intent(HostFacts::default()) };
    prism.classify(&write, &mut Vec::new());
    assert_eq!(prism.reclass(&at(1 << 20), COLD), ClassId(5));
    assert_eq!(prism.reclass(&at(1 << 30), COLD), COLD, "behind its end");
}

#[test]
fn a_file_that_is_no_table_is_on_no_level() {
    let prism = ruled(&["rocksdb.level<=3"]);
    for (path, level, class) in [
        ("/mnt/db/1.sst", Some(2), ClassId(5)),
        ("/mnt/db/1.sst", Some(4), COLD),
        ("/mnt/db/1.sst", None, ClassId(5)),
        ("/mnt/db/1.log", None, COLD),
    ] {
        let file = FileHints { path: path.to_owned(), sst_level: level, ..FileHints::default() };
        let hints = HostHints { file: Some(Arc::new(file)), is_by_map: true, ..HostHints::default() };
        assert_eq!(prism.reclass(&intent(hints.facts()), ClassId(5)), class, "{path} {level:?}");
    }
}

//! Classes of data about which the host tells something only after it was written.
#![allow(clippy::unwrap_used)]

use forebay_block::{ClassId, DiskId};
use forebay_prism::{ClassSpec, ClassTable, Direction, FileTold, HostFacts, Intent, Lifetime, Place, Prism, Told};
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
        data: &[],
        export: 0,
        tag: None,
        host,
    }
}

fn file(path: &str, size_bytes: u64, lifetime: Option<Lifetime>) -> Told {
    let file = FileTold { path: path.to_owned(), size_bytes, lifetime, sst_level: None };
    Told { file: Some(Arc::new(file)), ..Told::default() }
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
    let own = Told { lifetime: Some(Lifetime::Long), ..short };
    assert_eq!(own.facts().lifetime, Some(Lifetime::Long), "that of the request comes before that of the file");
}

#[test]
fn the_class_of_the_export_stays() {
    let tagged = file("/mnt/db/1.sst", 1, None);
    let intent = Intent { tag: Some(PLAIN), ..intent(tagged.facts()) };
    assert_eq!(prism().reclass(&intent, COLD), PLAIN);
}

//! The class table: merging, stable ids, changes during service, stored form.

use forebay_block::ClassId;
use forebay_prism::{ClassChange, ClassError, ClassSpec, ClassTable, Compress, Need, Place};
use proptest::prelude::*;

fn names(table: &ClassTable) -> Vec<&str> {
    table.classes().iter().map(|class| class.name.as_str()).collect()
}

fn with_rules(name: &str, rules: &[&str]) -> ClassSpec {
    ClassSpec { rules: rules.iter().map(|&rule| rule.into()).collect(), ..ClassSpec::new(name, Place::Fast) }
}

#[test]
fn built_in_classes_and_the_operators_own_merge_by_name() {
    let log = ClassSpec { share: 0.25, place: Place::Both, ..with_rules("log", &["fs.journal", "path:**/WAL/**"]) };
    let table = ClassTable::from_configured(&[log.clone(), ClassSpec::new("backup", Place::Capacity)]).unwrap();
    assert_eq!(names(&table), ["cold", "metadata", "log", "temp", "hot", "backup"]);
    assert_eq!(table.get(ClassId(2)), Some(&log));
    assert_eq!(table.id_of("backup"), Some(ClassId(5)));
    let unknown = table.unknown(|need| need != Need::Path);
    assert_eq!(unknown, [("log".to_owned(), "path:**/WAL/**".to_owned())]);
    assert_eq!(table.default_class(), ClassId(0));
    assert_eq!(ClassTable::from_configured(&[]).unwrap(), ClassTable::default());
}

#[test]
fn stored_names_keep_their_ids_and_retired_classes_stay() {
    let stored: Vec<String> = ["cold", "metadata", "log", "temp", "hot", "old", "mine"].map(Into::into).into();
    let table = ClassTable::with_stored_names(
        &stored,
        &[ClassSpec::new("new", Place::Fast), ClassSpec::new("mine", Place::Fast)],
    )
    .unwrap();
    assert_eq!(names(&table), ["cold", "metadata", "log", "temp", "hot", "old", "mine", "new"]);
    assert_eq!(table.get(ClassId(5)).unwrap().place, Place::Stage);
    assert_eq!(table.get(ClassId(6)).unwrap().place, Place::Fast);
    // A pool of a release that had fewer classes.
    let table = ClassTable::with_stored_names(&["cold".into(), "log".into()], &[]).unwrap();
    assert_eq!(names(&table), ["cold", "log", "metadata", "temp", "hot"]);
    assert_eq!(table.get(ClassId(1)).unwrap().place, Place::Fast);
    let error = ClassTable::with_stored_names(&["log".into()], &[]).unwrap_err();
    assert!(matches!(error, ClassError::BadStored { .. }));
}

#[test]
fn bad_configurations_are_refused_by_name() {
    let refused = |specs: &[ClassSpec]| ClassTable::from_configured(specs).unwrap_err();
    let class = |name: &str| ClassSpec::new(name, Place::Fast);
    assert!(matches!(refused(&[class("a"), class("a")]), ClassError::Duplicate { name } if name == "a"));
    assert!(matches!(refused(&[class("a b")]), ClassError::BadName { .. }));
    assert!(matches!(refused(&[class("")]), ClassError::BadName { .. }));
    for share in [-0.1, 1.5, f64::NAN] {
        assert!(matches!(refused(&[ClassSpec { share, ..class("a") }]), ClassError::BadShare { .. }));
    }
    let many: Vec<ClassSpec> = (0..116).map(|i| class(&format!("c{i}"))).collect();
    assert_eq!(ClassTable::from_configured(&many[..115]).unwrap().classes().len(), ClassId::LIMIT);
    assert!(matches!(refused(&many), ClassError::TooMany { count: 121 }));
    match refused(&[with_rules("a", &["done", "fs.jurnal"])]) {
        ClassError::BadRule { name, rule, source } => {
            assert_eq!((name.as_str(), rule.as_str(), source.position), ("a", "fs.jurnal", 1));
            assert!(source.to_string().contains("fs.journal"), "{source}");
        }
        other => panic!("{other}"),
    }
    assert!(matches!(refused(&[with_rules("a", &["done"; 65])]), ClassError::TooManyRules { .. }));
    let long = "done|".repeat(200) + "done";
    let lots: Vec<ClassSpec> = (0..10).map(|i| with_rules(&format!("c{i}"), &[long.as_str(); 64])).collect();
    assert!(matches!(refused(&lots), ClassError::TooManyRules { .. }));
}

#[test]
fn changes_apply_live_or_not_at_all() {
    let mut table = ClassTable::default();
    let change = ClassChange {
        place: Some(Place::Both),
        share: Some(0.5),
        priority: Some(3),
        read_cache: Some(true),
        compress: Some(Compress::Zstd(7)),
        rules: Some(vec!["done".into()]),
    };
    table.set("temp", change).unwrap();
    let temp = table.get(ClassId(3)).unwrap().clone();
    assert_eq!((temp.place, temp.share, temp.priority), (Place::Both, 0.5, 3));
    assert_eq!((temp.read_cache, temp.compress), (true, Compress::Zstd(7)));
    assert_eq!(table.rules().len(), 1);
    let before = table.clone();
    assert!(
        table.set("temp", ClassChange { place: Some(Place::Fast), share: Some(2.0), ..Default::default() }).is_err()
    );
    let error = table.set("nothing", ClassChange::default()).unwrap_err();
    assert_eq!(error.to_string(), "no class named `nothing`; the classes are cold, metadata, log, temp, hot");
    assert_eq!(table, before);
}

/// A large write bypasses the fast tier only if no later fact from the host can assign it to a class that stays
/// there.
#[test]
fn what_a_host_may_still_say_keeps_blocks_on_the_fast_tier() {
    let keeps = |specs: &[ClassSpec]| ClassTable::from_configured(specs).unwrap().host_facts_keep_fast();
    assert!(!keeps(&[]));
    for rule in ["path:**/wal/**", "hint.lifetime:short"] {
        assert!(keeps(&[with_rules("mine", &[rule])]), "{rule}");
        assert!(!keeps(&[ClassSpec { place: Place::Stage, ..with_rules("mine", &[rule]) }]), "{rule}");
    }
    assert!(!keeps(&[with_rules("mine", &["fs.journal"])]));
    // Data that a hint says will die soon becomes temporary without a rule.
    assert!(keeps(&[ClassSpec::new("temp", Place::Fast)]));
    let mut table = ClassTable::default();
    table.set("temp", ClassChange { place: Some(Place::Fast), ..Default::default() }).unwrap();
    assert!(table.host_facts_keep_fast());
}

#[test]
fn rules_are_tried_by_priority_then_by_id() {
    let class = |name: &str, priority| ClassSpec { priority, ..with_rules(name, &["done"]) };
    let table = ClassTable::from_configured(&[class("a", 7), class("b", 5), class("c", 5)]).unwrap();
    let order: Vec<u8> = table.rules().iter().map(|(id, _)| id.0).collect();
    assert_eq!(order, [6, 7, 5]);
}

fn rich() -> ClassTable {
    ClassTable::from_configured(&[
        ClassSpec {
            share: 0.125,
            priority: 9,
            read_cache: true,
            compress: Compress::Lz4,
            ..with_rules("log", &["fs.journal & disk:db", "path:\"a b\""])
        },
        ClassSpec::new("bulk", Place::Capacity),
        ClassSpec::new("both", Place::Both),
    ])
    .unwrap()
}

#[test]
fn the_stored_form_round_trips() {
    for table in [ClassTable::default(), rich()] {
        let read = ClassTable::decode(&table.encode()).unwrap();
        assert_eq!(read, table);
        assert_eq!(read.rules(), table.rules());
    }
}

/// A table in the format of pools from before compression.
#[test]
fn a_table_without_compression_is_read_as_off() {
    let table = ClassTable::default();
    let bytes = table.encode();
    let (mut old, mut at) = (bytes[..4].to_vec(), 7);
    old.extend([1, 0, table.classes().len() as u8]);
    for class in table.classes() {
        let compress = at + 1 + class.name.len() + 2;
        let end = compress + 1 + 8 + 2 + 1 + class.rules.iter().map(|rule| 2 + rule.len()).sum::<usize>();
        old.extend(bytes[at..compress].iter().chain(&bytes[compress + 1..end]));
        at = end;
    }
    assert_eq!(at + 4, bytes.len());
    assert_eq!(ClassTable::decode(&seal(old)), Ok(table));
}

/// Corrects the checksum, so that damage reaches the parser.
fn seal(mut body: Vec<u8>) -> Vec<u8> {
    let sum = forebay_block::checksum::crc32c(&body);
    body.extend_from_slice(&sum.to_le_bytes());
    body
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn damaged_tables_are_refused(at in 0..10_000usize, flip in 1..=255u8) {
        let mut bytes = rich().encode();
        let at = at % bytes.len();
        bytes[at] ^= flip;
        prop_assert!(ClassTable::decode(&bytes).is_err());
    }

    #[test]
    fn hostile_tables_do_not_panic(at in 0..10_000usize, flip in 1..=255u8, cut in 0..10_000usize) {
        let mut body = rich().encode();
        body.truncate(body.len() - 4);
        let at = at % body.len();
        body[at] ^= flip;
        body.truncate(body.len() - (cut % 200).min(body.len()));
        if let Ok(table) = ClassTable::decode(&seal(body)) {
            prop_assert_eq!(ClassTable::decode(&table.encode()).unwrap(), table);
        }
    }

    #[test]
    fn noise_does_not_panic(body in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = ClassTable::decode(&body);
        let _ = ClassTable::decode(&seal([b"FBCT\x01\0".to_vec(), body].concat()));
    }
}

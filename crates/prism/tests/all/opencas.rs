//! Import of Open CAS io-class files.

use forebay_prism::opencas::{ImportErrorKind, import};
use forebay_prism::{ClassTable, Need, Place};
use proptest::prelude::*;

const HEADER: &str = "IO class id,IO class name,Eviction priority,Allocation\n";

/// `utils/ioclass-config.csv` of Open CAS Linux (BSD-3-Clause), from which its users start.
const SHIPPED: &str = "IO class id,IO class name,Eviction priority,Allocation
0,unclassified,22,1
1,metadata&done,0,1
11,file_size:le:4096&done,9,1
12,file_size:le:16384&done,10,1
21,file_size:gt:1073741824&done,19,1
22,direct&done,20,1
33,prefetch,21,1
";

#[test]
fn the_shipped_file_is_understood() {
    let import = import(SHIPPED).unwrap();
    let names: Vec<&str> = import.classes.iter().map(|class| class.name.as_str()).collect();
    assert_eq!(names, ["cold", "cas-1", "cas-11", "cas-12", "cas-21", "cas-22"]);
    assert_eq!(import.classes[1].rules, ["metadata&done"]);
    assert!(import.classes.iter().all(|class| class.place == Place::Stage && class.share == 1.0));
    let notes: Vec<(usize, bool)> =
        import.notes.iter().map(|note| (note.line, note.text.contains("cannot be known"))).collect();
    assert_eq!(notes, [(4, true), (5, true), (6, true), (7, true), (8, false)]);
    let mut table = ClassTable::default();
    table.merge(&import.classes).unwrap();
    assert_eq!(table.classes().len(), 10);
    assert_eq!(table.unknown(|need| matches!(need, Need::Contents | Need::Metadata | Need::Sequence)).len(), 4);
}

#[test]
fn allocation_and_pinning_become_places() {
    let text = format!("{HEADER}0,unclassified,22,0\n1,metadata,,1.0\n2,lba:lt:100,3,0.00\n3,lba:ge:100,3,0.25\n");
    let import = import(&text).unwrap();
    let of = |name: &str| import.classes.iter().find(|class| class.name == name).unwrap();
    assert_eq!((of("cold").place, of("cold").share), (Place::Capacity, 0.0));
    assert_eq!(of("cas-1").place, Place::Fast);
    assert_eq!(of("cas-2").place, Place::Capacity);
    assert_eq!((of("cas-3").place, of("cas-3").share), (Place::Stage, 0.25));
}

#[test]
fn left_to_right_reading_gets_its_parentheses() {
    let text = format!(
        "{HEADER}1,lba:lt:9|metadata&request_size:le:4096|io_direction:read&done&direct,1,1\n2,directory:/a (b)/c,1,1\n"
    );
    let import = import(&text).unwrap();
    assert_eq!(import.classes[0].rules, ["(lba:lt:9|metadata)&(request_size:le:4096|io_direction:read)&done"]);
    assert_eq!(import.classes[1].rules, ["directory:\"/a (b)/c\""]);
}

#[test]
fn the_last_match_wins_unless_done_ends_the_walk() {
    // In the order in which they must be tried here: the rules with `done` in order, then the others in reverse.
    let text =
        format!("{HEADER}1,lba:lt:1,1,1\n3,lba:lt:3&done,1,1\n2,lba:lt:2,1,1\n5,lba:lt:5&done,1,1\n4,lba:lt:4,1,1\n");
    let import = import(&text).unwrap();
    let mut classes = import.classes;
    classes.sort_by_key(|class| class.priority);
    let order: Vec<&str> = classes.iter().map(|class| class.name.as_str()).collect();
    assert_eq!(order, ["cas-3", "cas-5", "cas-4", "cas-2", "cas-1"]);
}

#[test]
fn columns_may_come_in_any_order() {
    let import = import("Allocation,IO class name,IO class id,Eviction priority\n\n0.5,metadata,4,7\n").unwrap();
    assert_eq!((import.classes[0].name.as_str(), import.classes[0].share), ("cas-4", 0.5));
}

#[test]
fn mistakes_are_refused_with_their_line() {
    let refused = |body: &str| import(&format!("{HEADER}{body}")).unwrap_err();
    let line = |body: &str| refused(body).line;
    assert_eq!(import("").unwrap_err().kind, ImportErrorKind::Empty);
    assert_eq!(import(HEADER).unwrap_err().kind, ImportErrorKind::Empty);
    assert_eq!(import("IO class id,Name\n").unwrap_err().line, 1);
    assert_eq!(line("0,unclassified,22,1\n1,metadata,1\n"), 3);
    assert_eq!(refused("1,metadata,1\n").kind, ImportErrorKind::Columns { found: 3 });
    for bad in [
        "34,metadata,1,1",
        "x,metadata,1,1",
        "+1,metadata,1,1",
        "1,metadata,256,1",
        "1,metadata,1,1.5",
        "1,metadata,1,",
        "1,metadata,1,0.125",
        "1,metadata,1,inf",
        "0,metadata,1,1",
        "1,unclassified,1,1",
        "1,,1,1",
    ] {
        assert!(matches!(refused(bad).kind, ImportErrorKind::Value { .. }), "{bad}");
    }
    assert_eq!(refused("1,metadata,1,1\n1,direct,1,1\n").kind, ImportErrorKind::Duplicate { id: 1 });
    let error = refused("1,metadata&requst_size:lt:1,1,1\n");
    let ImportErrorKind::Rule { source, .. } = &error.kind else { panic!("{error}") };
    assert_eq!((error.line, source.position), (2, 10));
    assert_eq!(line("1,metadata,1,1\n2,metadata&,1,1\n"), 3);
}

proptest! {
    #[test]
    fn no_text_makes_the_import_panic(text in "[ -~\\n]{0,200}", lines in "([0-9]{0,2},[a-z_:&|0-9]{0,20},[0-9]{0,3},[0-9.]{0,4}\\n){0,5}") {
        let _ = import(&text);
        if let Ok(import) = import(&format!("{HEADER}{lines}")) {
            let mut table = ClassTable::default();
            table.merge(&import.classes).unwrap();
        }
    }
}

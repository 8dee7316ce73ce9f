//! The rule language: which rules can be parsed, what they mean, and which are refused with which error.

use forebay_prism::evidence::{Evidence, Role, System};
use forebay_prism::rules::{PREDICATES, RuleErrorKind};
use forebay_prism::{Direction, Facts, HostFacts, Lifetime, Need, Rule};
use proptest::prelude::*;

fn facts() -> Facts<'static> {
    Facts {
        disk_name: "db",
        export: Some(2),
        export_name: "main",
        direction: Direction::Write,
        request_size_bytes: Some(8192),
        sequential_bytes: Some(2 << 20),
        offset_bytes: 1 << 30,
        evidence: Some(Evidence { system: System::Xfs, role: Role::Journal }),
        contents_known: true,
        host: HostFacts::default(),
    }
}

fn holds(rule: &str) -> bool {
    Rule::parse(rule).unwrap_or_else(|error| panic!("{rule}: {error}")).matches(&facts())
}

#[test]
fn every_predicate_means_what_it_says() {
    for rule in [
        "disk:db",
        "disk=db",
        "disk:\"db\"",
        "export:2",
        "export:main",
        "direction:write",
        "io_direction:write",
        "request_size:8192",
        "request_size:eq:8192",
        "request_size:ge:8KiB",
        "request_size <= 8KiB",
        "request_size=8192",
        "request_size!=4096",
        "request_size:ne:1",
        "request_size:lt:8193",
        "request_size > 8191",
        "request_size:8192..8193",
        "sequential>=1MiB",
        "lba:ge:2097152",
        "lba:2097152",
        "offset:1GiB..2GiB",
        "offset=1gib",
        "fs.journal",
        "fs.xfs",
        "metadata",
        "done",
        "!fs.metadata",
        "!(disk:other|fs.ext4)",
        "disk:other | export:2 & fs.journal",
        " ( disk : db ) ",
        "!!done",
    ] {
        assert!(holds(rule), "{rule}");
    }
    for rule in [
        "disk:other",
        "disk:DB",
        "export:3",
        "export:\"2\"",
        "direction:read",
        "request_size:lt:8192",
        "offset:0..1GiB",
        "fs.metadata",
        "fs.superblock",
        "fs.swap",
        "fs.ext4",
        "fs.btrfs",
        "!done",
        "disk:db & !fs.journal",
        // & binds tighter than |
        "disk:other & done | disk:other",
    ] {
        assert!(!holds(rule), "{rule}");
    }
}

#[test]
fn what_cannot_be_known_is_unknown_not_false() {
    let rule =
        Rule::parse("hint.lifetime:short | path:**/WAL/** & !extension:sst | wlth:ge:2 | pid=7 | direct").unwrap();
    assert_eq!(
        rule.pending(),
        ["hint.lifetime:short", "path:**/WAL/**", "extension:sst", "wlth:ge:2", "pid:eq:7", "direct"]
    );
    assert!(!rule.matches(&facts()));
    assert_eq!(Rule::parse("rocksdb.level < 4").unwrap().pending(), ["rocksdb.level:lt:4"]);
    assert!(!holds("rocksdb.level<4 | rocksdb.level>=4") && !holds("!rocksdb.level:4"), "whatever it is");
    assert!(!holds("!path:/x"), "the negation of the unknown claims nothing");
    assert!(!holds("done & path:/x") && !holds("!(done & path:/x)"));
    assert!(holds("done | path:/x") && holds("!(path:/x & !done)"), "but what is sure either way is sure");
}

#[test]
fn what_the_host_tells_is_known() {
    let host = HostFacts {
        lifetime: Some(Lifetime::Short),
        meta: Some(false),
        swap: Some(false),
        direct: Some(true),
        path: Some("/db/WAL/000012.log"),
        file_size_bytes: Some(64 << 20),
        file_offset_bytes: Some(4096),
        is_by_map: false,
        sst_level: Some(2),
        process: Some("rocksdb:low0"),
        pid: Some(7),
        cgroup: Some("/system.slice/db.service"),
        io_class: Some(3),
    };
    let holds = |rule: &str| Rule::parse(rule).unwrap().matches(&Facts { host, ..facts() });
    for rule in [
        "hint.lifetime:short",
        "hint.lifetime:2",
        "wlth:2",
        "wlth:ge:2",
        "!hint.meta & !hint.swap & direct",
        "path:**/WAL/**",
        "directory:/db",
        "directory:db/WAL/",
        "ext:.log",
        "extension:log",
        "file_name_prefix:0000",
        "file.size>=64MiB",
        "file_size:64MiB",
        "file_offset:0..8KiB",
        "rocksdb.level:2",
        "rocksdb.level<=3",
        "rocksdb.level:0..4",
        "!rocksdb.level>2",
        "process:rocksdb:*",
        "process_name:rocksdb:low0",
        "pid=7",
        "cgroup:**/db.service",
        "io_class:3",
        "!path:**/*.sst",
        "!metadata | done",
    ] {
        assert!(holds(rule), "{rule}");
        let again = Rule::parse(rule).unwrap().to_string();
        assert!(holds(&again), "{rule} as {again}");
    }
    for rule in [
        "hint.lifetime:long",
        "directory:d",
        "directory:db/WAL/000012.log",
        "ext:lo",
        "pid=8",
        "rocksdb.level:ge:3",
        "rocksdb.level:0..2",
        "core_id:1",
        "hint.meta",
    ] {
        assert!(!holds(rule), "{rule}");
    }
    // The part after the last dot; and data that the file system marks as metadata is metadata.
    let holds = |host: HostFacts<'_>, rule: &str| {
        Rule::parse(rule).unwrap().matches(&Facts { host, evidence: None, ..facts() })
    };
    let path = |path| HostFacts { path: Some(path), ..HostFacts::default() };
    assert!(holds(path("a.b/c.tar.gz"), "ext:gz") && !holds(path("a.b/c.tar.gz"), "ext:tar.gz"));
    assert!(!holds(path("a.b/c"), "ext:b/c") && !holds(path("dbs/x"), "directory:db"));
    let meta = HostFacts { meta: Some(true), ..HostFacts::default() };
    assert!(holds(meta, "metadata") && !holds(HostFacts::default(), "metadata") && !holds(meta, "fs.metadata"));
    let error = Rule::parse("hint.lifetime:brief").unwrap_err().to_string();
    assert!(error.contains("character 14") && error.contains("`extreme`"), "{error}");
}

#[test]
fn mistakes_are_refused_with_their_place_and_what_was_meant() {
    let position = |text: &str| Rule::parse(text).unwrap_err().position;
    assert_eq!(position(""), 1);
    assert_eq!(position("disk:db & "), 11);
    assert_eq!(position("(disk:db"), 9);
    assert_eq!(position("disk:db done"), 9);
    assert_eq!(position("fs.journal:x"), 11);
    assert_eq!(position("request_size:lt:x"), 14);
    assert_eq!(position("request_size:18446744073709551616"), 14);
    assert_eq!(position("offset:16777216TiB"), 8);
    assert_eq!(position("path:\"unclosed"), 15);
    assert_eq!(position("disk:"), 6);
    let error = Rule::parse("done & requst_size:lt:4096").unwrap_err();
    assert_eq!(
        error.to_string(),
        "at character 8: unknown predicate `requst_size`; the nearest known one is `request_size`"
    );
    let error = Rule::parse("io_direction:sideways").unwrap_err();
    assert_eq!(error.to_string(), "at character 13: `io_direction` needs `read` or `write`, not `sideways`");
    assert!(PREDICATES.contains(&"fs.journal"));
}

#[test]
fn depth_and_length_are_limited() {
    let nested = |depth: usize| format!("{}done{}", "(".repeat(depth), ")".repeat(depth));
    assert!(Rule::parse(&nested(31)).is_ok());
    assert_eq!(Rule::parse(&nested(32)).unwrap_err().kind, RuleErrorKind::TooDeep);
    assert_eq!(Rule::parse(&"!".repeat(1000)).unwrap_err().kind, RuleErrorKind::TooDeep);
    assert_eq!(Rule::parse(&"(".repeat(1 << 20)).unwrap_err().kind, RuleErrorKind::TooLong);
}

/// Expressions as an operator might write them, with odd values.
fn expression() -> impl Strategy<Value = String> {
    let value = prop_oneof!["[a-z*/._-]{1,8}", "[ -~é]{1,8}".prop_map(|text| format!("\"{}\"", escape(&text)))];
    let leaf = prop_oneof![
        Just("fs.journal".to_owned()),
        Just("done".to_owned()),
        Just("direct".to_owned()),
        value.clone().prop_map(|value| format!("disk:{value}")),
        value.clone().prop_map(|value| format!("export:{value}")),
        any::<u16>().prop_map(|value| format!("export={value}")),
        value.prop_map(|value| format!("path:{value}")),
        any::<u64>().prop_map(|value| format!("offset >= {value}")),
        (0..1u64 << 40, any::<u64>()).prop_map(|(a, b)| format!("lba:{a}KiB..{b}")),
    ];
    leaf.prop_recursive(5, 24, 3, |inner| {
        prop_oneof![
            inner.clone().prop_map(|inner| format!("!({inner})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{a} & {b}")),
            (inner.clone(), inner).prop_map(|(a, b)| format!("({a} | {b})")),
        ]
    })
}

#[test]
fn what_a_source_does_not_tell_is_unknown_and_named() {
    // The facts from a trace of addresses alone.
    let bare = Facts { export: None, sequential_bytes: None, evidence: None, contents_known: false, ..facts() };
    for (test, need) in [
        ("sequential:ge:1", Need::Sequence),
        ("fs.journal", Need::Contents),
        ("fs.xfs", Need::Contents),
        ("metadata", Need::Metadata),
        ("export:2", Need::Export),
        ("export:main", Need::Export),
        ("hint.lifetime:short", Need::Lifetime),
        ("wlth:ge:2", Need::Lifetime),
        ("hint.meta", Need::Meta),
        ("hint.swap", Need::Swap),
        ("direct", Need::Direct),
        ("path:a", Need::Path),
        ("directory:a", Need::Path),
        ("extension:a", Need::Path),
        ("file_name_prefix:a", Need::Path),
        ("file_size:lt:1", Need::FileSize),
        ("file_offset:0..1", Need::FileOffset),
        ("rocksdb.level:lt:1", Need::SstLevel),
        ("process_name:a", Need::Process),
        ("pid:eq:1", Need::Pid),
        ("cgroup:a", Need::Cgroup),
        ("io_class:eq:1", Need::IoClass),
        ("core_id:eq:1", Need::Never),
    ] {
        let rule = Rule::parse(test).unwrap();
        assert_eq!(rule.needs(), [(need, test.to_owned())]);
        let either = Rule::parse(&format!("{test} | !{test}")).unwrap();
        assert_eq!(either.needs().len(), 1);
        assert!(!either.matches(&bare) && !bare.tell(need), "{test}");
    }
    assert_eq!(
        Rule::parse("disk:db & offset<1 | request_size>1 & !done | lba:3 & direction:read").unwrap().needs(),
        []
    );
    // Contents that prove nothing are known all the same; so is the mark.
    let seen = Facts { contents_known: true, ..bare };
    assert!(Rule::parse("!fs.journal & !metadata").unwrap().matches(&seen) && seen.tell(Need::Contents));
    let marked = Facts { host: HostFacts { meta: Some(true), ..HostFacts::default() }, ..bare };
    assert!(
        Rule::parse("metadata").unwrap().matches(&marked) && marked.tell(Need::Meta) && marked.tell(Need::Metadata)
    );
    // `metadata` was listed as a predicate that matches nothing where the kernel gives no marks, and matched by contents.
    assert!(seen.tell(Need::Metadata) && !seen.tell(Need::Meta));
}

/// Requests with the same file, process and hint get the same answer from the second list of rules, and may get
/// different ones from the first.
#[test]
fn rules_that_need_each_request_say_so() {
    for rule in [
        "offset>=1GiB",
        "offset:0..1GiB",
        "lba:8",
        "request_size<=16KiB",
        "sequential>=1MiB",
        "file.size<1MiB",
        "file_offset:0..4KiB",
        "fs.journal",
        "fs.metadata",
        "fs.xfs",
        "metadata",
        "done & (path:a | !offset<4096)",
    ] {
        assert!(Rule::parse(rule).unwrap().uses_request(), "{rule}");
    }
    for rule in [
        "disk:db",
        "export:0",
        "direction:read",
        "done",
        "hint.lifetime:short",
        "wlth>=2",
        "hint.meta",
        "hint.swap",
        "direct",
        "path:**/WAL/**",
        "directory:a",
        "ext:log",
        "file_name_prefix:x",
        "rocksdb.level:0..4",
        "process:a*",
        "pid=7",
        "cgroup:a",
        "io_class:3",
        "core_id:1",
    ] {
        assert!(!Rule::parse(rule).unwrap().uses_request(), "{rule}");
    }
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn printing_and_parsing_again_gives_the_same_rule(text in expression()) {
        // Generated rules may exceed the limits; everything within them must be parsed.
        match Rule::parse(&text) {
            Ok(rule) => {
                let printed = rule.to_string();
                if printed.len() <= forebay_prism::rules::RULE_LIMIT_BYTES {
                    prop_assert_eq!(Rule::parse(&printed), Ok(rule), "printed as {}", printed);
                }
            }
            Err(error) => prop_assert!(
                matches!(error.kind, RuleErrorKind::TooLong | RuleErrorKind::TooDeep), "{}: {}", text, error
            ),
        }
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in "\\PC{0,80}") {
        if let Ok(rule) = Rule::parse(&text) {
            prop_assert_eq!(Rule::parse(&rule.to_string()), Ok(rule));
        }
    }

    #[test]
    fn no_soup_of_tokens_makes_the_parser_panic(
        tokens in prop::collection::vec(prop::sample::select(vec![
            "disk", ":", "=", "!=", "<", ">=", "..", "&", "|", "!", "(", ")", "\"", "\\", "request_size", "eq", "4096", "MiB",
            "fs.journal", "path", "done", " ", "é", "18446744073709551615", "export",
        ]), 0..40)
    ) {
        let text = tokens.concat();
        if let Ok(rule) = Rule::parse(&text) {
            let _ = rule.matches(&facts());
            prop_assert_eq!(Rule::parse(&rule.to_string()), Ok(rule), "{}", text);
        }
    }
}

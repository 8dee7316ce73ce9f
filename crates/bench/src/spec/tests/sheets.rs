//! Reading sheets.

use crate::job::model::{Arrival, Pattern};
use crate::spec::library::BUILTIN;
use crate::spec::{Before, Bound, Measure, Spec, SpecError};
use proptest::prelude::*;
use std::path::Path;

const SHEET: &str = r#"
[drive]
name = "Drive"

[[promise]]
name = "read"
source = "page 1"
job = { rw = "randread", size = "4KiB" }
measure = "mean"
at_most = "10us"
"#;

fn refused(text: &str) -> String {
    Spec::parse(text, "s.toml").unwrap_err().to_string()
}

/// The sheet with one line replaced.
fn with(line: &str, other: &str) -> String {
    assert!(SHEET.contains(line), "{line}");
    SHEET.replace(line, other)
}

#[test]
fn every_built_in_sheet_is_good() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("specs");
    let mut files: Vec<String> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    files.sort();
    let mut names = Spec::builtin();
    names.sort_unstable();
    assert_eq!(files, names, "each file is built in");
    for name in names {
        let spec = Spec::load(name).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(spec.name, name);
        let capacity = spec.drive.capacity_bytes.unwrap();
        assert!((58_000_000_000..8_000_000_000_000).contains(&capacity), "{name}");
        for promise in &spec.promises {
            assert!(promise.source.len() > 10, "{name}: {}", promise.name);
            // Only the two sheets that say so have numbers from memory, and there all numbers are.
            assert_eq!(promise.from_memory, name.starts_with("p4510") || name.starts_with("p4610"), "{name}");
            assert_eq!(promise.job.arrival, Arrival::Closed);
        }
        assert_eq!(spec.promises.is_empty(), name.starts_with("800p"), "{name}");
        let flash = spec.drive.kind.as_deref() != Some("xpoint");
        assert_eq!(!spec.conditions.is_empty(), flash, "{name}");
    }
}

#[test]
fn the_p4800x_promises_what_the_review_lists() {
    let spec = Spec::load("p4800x").unwrap();
    assert_eq!(spec.name, "p4800x-375gb");
    let promised = |name: &str| {
        let promise = spec.promises.iter().find(|promise| promise.name == name).unwrap();
        (promise.measure.to_string(), promise.bound, promise.job.threads * promise.job.depth)
    };
    let us = |us: f64| Bound::AtMost(us * 1000.0);
    assert_eq!(promised("4K random read QD1, typical"), ("mean".into(), us(10.0), 1));
    assert_eq!(promised("4K random read QD1, p99.999"), ("p99.999".into(), us(60.0), 1));
    assert_eq!(promised("4K random write QD1, p99.999"), ("p99.999".into(), us(100.0), 1));
    assert_eq!(promised("4K random read QD16, p99.999"), ("p99.999".into(), us(150.0), 16));
    assert_eq!(promised("4K random write QD16, p99.999"), ("p99.999".into(), us(200.0), 16));
    assert_eq!(promised("4K random read QD16, IOPS"), ("iops".into(), Bound::AtLeast(550_000.0), 16));
    assert_eq!(promised("4K random 70/30 QD16, IOPS"), ("iops".into(), Bound::AtLeast(500_000.0), 16));
    // The published rows: nine of the review, fourteen and twelve of the guide.
    assert_eq!(spec.rows.len(), 9 + 14 + 12);
    let first = &spec.rows[0];
    assert_eq!((first.drive.as_str(), first.figures.p99_999_ns), ("Intel Optane SSD DC P4800X 375GB", Some(37_000)));
    assert_eq!(first.job.name, "4 KiB random read QD1");
}

#[test]
fn the_flash_rows_at_qd16_stay_out() {
    // The predictions of the models are compared with these rows.
    for name in Spec::builtin() {
        let spec = Spec::load(name).unwrap();
        let left = spec.rows.iter().filter(|row| !row.drive.contains("P4800X"));
        assert!(left.into_iter().all(|row| row.job.threads * row.job.depth == 1), "{name}");
    }
}

#[test]
fn names_before_the_dash_find_the_only_sheet() {
    for name in ["p4800x", "p3700", "micron9100", "p4500", "p4510", "p4610", "p4320"] {
        assert!(Spec::load(name).is_ok(), "{name}");
    }
    for (name, near) in [("960evo", "960evo-1tb"), ("p4800", "p4500-4tb"), ("800p", "800p-58gb")] {
        let error = Spec::load(name).unwrap_err().to_string();
        assert!(error.contains("no built-in sheet") && error.contains(near), "{error}");
    }
    assert!(matches!(Spec::load("./none.toml"), Err(SpecError::Read { .. })));
    assert!(matches!(Spec::load("/dev/zero"), Err(SpecError::NotAFile { .. })));
    assert!(matches!(Spec::load("/"), Err(SpecError::NotAFile { .. })));
    assert!(Spec::load("").is_err());
}

#[test]
fn files_are_read_and_bounded() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("mine.toml");
    std::fs::write(&path, SHEET).unwrap();
    let spec = Spec::load(path.to_str().unwrap()).unwrap();
    assert_eq!((spec.promises.len(), spec.promises[0].own_end), (1, false));
    assert_eq!(spec.promises[0].measure, Measure::Mean);
    std::fs::write(&path, vec![b'#'; (256 << 10) + 1]).unwrap();
    assert!(matches!(Spec::load(path.to_str().unwrap()), Err(SpecError::TooLarge { .. })));
    std::fs::write(&path, b"[drive]\nname = \"\xff\"\n").unwrap();
    assert!(Spec::load(path.to_str().unwrap()).unwrap_err().to_string().contains("UTF-8"));
}

#[test]
fn errors_name_line_key_and_the_nearest_word() {
    let error = refused(&with("at_most", "at_mots"));
    assert!(error.contains("s.toml:10:1") && error.contains("`at_mots`") && error.contains("`at_most`"), "{error}");
    // An error within a job: the job's own parser reports it with the sheet's line and column.
    let error = refused(&with("size = \"4KiB\"", "sise = \"4KiB\""));
    assert!(error.contains("s.toml:8:26") && error.contains("`sise`") && error.contains("`size`"), "{error}");
    let error = refused(&with("randread", "randred"));
    assert!(error.contains("s.toml:8:") && error.contains("`randread`"), "{error}");
    let error = refused(&with("size = \"4KiB\"", "depth = 0"));
    assert!(error.contains("s.toml:8") && error.contains("depth"), "{error}");
    let error = refused(&with("\"10us\"", "\"10\""));
    assert!(error.contains("s.toml:5: at_most") && error.contains("time"), "{error}");
    assert!(refused(&with("\"10us\"", "10")).contains("time"));
    assert!(refused(&with("\"10us\"", "\"0us\"")).contains("above 0"));
    let error = refused(&with("\"mean\"", "\"p100\""));
    assert!(error.contains("measure") && error.contains("p99.999"), "{error}");
    assert!(refused(&with("\"mean\"", "\"max\"")).contains("no number of samples"));
    assert!(refused(&with("\"mean\"", "\"iops\"")).contains("I/Os a second"));
    assert!(refused(&with("\"mean\"", "\"bytes_per_second\"")).contains("throughput"));
    assert!(refused(&with("at_most = \"10us\"", "")).contains("exactly one"));
    assert!(refused(&with("at_most = \"10us\"", "at_most = \"1us\"\nat_least = \"1us\"")).contains("exactly one"));
    assert!(refused(&with("at_most", "op = \"write\"\nat_most")).contains("no such I/O"));
    assert!(refused(&with("{ rw", "{ name = \"x\", rw")).contains("`name`"));
    assert!(refused(&with("source = \"page 1\"", "")).contains("source"));
    assert!(refused(&with("\"page 1\"", "\" \"")).contains("source"));
    assert!(refused(&with("[drive]", "[drve]")).contains("`drive`"));
    let twice = format!("{SHEET}\n[[promise]]{}", SHEET.split_once("[[promise]]").unwrap().1);
    assert!(refused(&twice).contains("two promises"));
    assert!(refused("").contains("drive"));
    let empty = refused(&with("name = \"Drive\"", "name = \"Drive\"\ncapacity = \"0\""));
    assert!(empty.contains("drive.capacity") && empty.contains("more than 0"), "{empty}");
    let row = "\n[[row]]\nsource = \"x\"\njob = { rw = \"randread\" }\n";
    assert!(refused(&format!("{SHEET}{row}")).contains("without figures"));
    let endless = "\n[[condition]]\nname = \"fill\"\njob = { rw = \"write\" }\n";
    assert!(refused(&format!("{SHEET}{endless}")).contains("says when it ends"));
    let many = format!("{SHEET}{}", "\n[[row]]\nsource = \"x\"\njob = {}\niops = 1\n".repeat(257));
    assert!(refused(&many).contains("at most 256"));
}

#[test]
fn jobs_may_be_tables_of_their_own_and_end_by_themselves() {
    let text = "[drive]\nname = \"d\"\n[[condition]]\nname = \"fill\"\nbefore = \"writes\"\n[condition.job]\nrw = \"write\"\n\
                passes = 2\n[[promise]]\nname = \"a\"\nsource = \"b\"\nmeasure = \"p99.9\"\nat_most = \"1ms\"\n\
                [promise.job]\nrw = \"read\"\nruntime = \"5s\"\n";
    let spec = Spec::parse(text, "s").unwrap();
    let promise = &spec.promises[0];
    assert_eq!((promise.own_end, promise.job.end.after_ns), (true, Some(5_000_000_000)));
    assert_eq!(promise.job.pattern, Pattern::Sequential { per_thread: false });
    let condition = &spec.conditions[0];
    assert_eq!((condition.before, condition.job.end.after_passes), (Before::Writes, Some(2.0)));
    assert!(refused(&text.replace("rw = \"read\"", "rwx = 1")).contains("`rwx`"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn no_text_panics(text in "\\PC{0,200}") {
        let _ = Spec::parse(&text, "p");
    }

    /// A valid sheet with a piece cut out, doubled or overwritten.
    #[test]
    fn no_damage_panics(at in 0_usize..4000, len in 0_usize..60, what in 0_u8..3, junk in "\\PC{0,12}") {
        let text = BUILTIN.iter().find(|(name, _)| *name == "960evo-1tb").unwrap().1;
        let bound = |at: usize| (0..=at.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap();
        let (from, to) = (bound(at), bound(at + len));
        let middle = match what {
            0 => String::new(),
            1 => text[from..to].repeat(2),
            _ => junk,
        };
        let _ = Spec::parse(&format!("{}{middle}{}", &text[..from], &text[to..]), "p");
    }

    #[test]
    fn measures_come_back(whole in 1_u32..100, decimals in 0_u32..100_000) {
        let text = format!("p{whole}.{decimals:05}");
        let measure: Measure = text.parse().unwrap();
        prop_assert_eq!(measure.to_string().parse::<Measure>().unwrap(), measure);
    }
}

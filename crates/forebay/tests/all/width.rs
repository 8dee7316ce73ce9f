//! Text output fits 80 columns and uses more columns where the terminal has them.

use crate::support::*;
use std::process::Command;

fn at(columns: Option<&str>, args: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    command.args(args).env_remove("COLUMNS");
    command.envs(columns.map(|columns| ("COLUMNS", columns)));
    let output = command.output().unwrap();
    assert!(matches!(output.status.code(), Some(0 | 1)), "{args:?}: {}", err(&output));
    String::from_utf8(output.stdout).unwrap()
}

fn widest(text: &str) -> usize {
    text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
}

#[test]
fn everything_for_people_fits_80_columns() {
    let scene = Scene::new().created();
    let server = scene.serve();
    let config = scene.config();
    let model = "model:p4800x?size=64MiB";
    let (check, bench, replay) = (
        [
            "check",
            "p4800x-375gb",
            "--target",
            model,
            "--skip-conditioning",
            "--runtime",
            "50ms",
            "--destroy-data",
            "--rows",
        ],
        ["bench", "--target", model, "--set", "rw=randrw", "--set", "ios=5000", "--destroy-data"],
        ["replay", "zipf:?size=4MiB", "--target", model, "--destroy-data"],
    );
    let laptop = concat!(env!("CARGO_MANIFEST_DIR"), "/../../contrib/machines/laptop");
    let said: [&[&str]; 17] = [
        &check,
        &bench,
        &replay,
        &["analyze", "zipf:?size=4MiB"],
        &["analyze", "zipf:?size=4MiB", "--by", "process"],
        &["size", "zipf:?size=4MiB"],
        &["models"],
        &["conformance", "p4800x", "--ios", "2000"],
        &["status", config],
        &["top", config, "--count", "1"],
        &["disk", config, "list"],
        &["class", config, "list"],
        &["check", "--list"],
        &["doctor", "--root", laptop, "--device", "nvme0n1"],
        &["doctor", "--root", laptop, "--device", "nvme0n1", "--apply", "measure", "--dry-run"],
        &["doctor", "--ladder", "--target", "model:p4800x", "--rounds", "3", "--runtime", "5ms"],
        &["--help"],
    ];
    for args in said {
        let text = at(None, args);
        let line = text.lines().find(|line| line.chars().count() > 80 && line.trim().contains(' '));
        assert_eq!(line, None, "{args:?}\n{text}");
    }
    for verb in [
        "bench",
        "check",
        "record",
        "analyze",
        "replay",
        "size",
        "create",
        "serve",
        "conformance",
        "simulate",
        "disk",
        "doctor",
        "class",
    ] {
        let text = at(None, &[verb, "--help"]);
        assert!(widest(&text) <= 80, "{verb} --help\n{text}");
    }
    assert_eq!(server.stop(), 0);
}

#[test]
fn more_columns_show_more_of_a_table_side_by_side() {
    let args =
        ["check", "p4800x-375gb", "--target", "model:p4800x?size=64MiB", "--skip-conditioning", "--runtime", "50ms"];
    let heads = |text: &str| text.lines().filter(|line| line.starts_with("promise ")).count();
    let (narrow, wide) = (at(Some("80"), &args), at(Some("200"), &args));
    assert!(heads(&narrow) > 1 && heads(&wide) == 1, "{narrow}\n{wide}");
    assert!(widest(&wide) > 80);
}

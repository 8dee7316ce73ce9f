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
    assert_eq!(server.stop(), 0);
}

/// Prose that was broken in the source was broken again, so that every second line was a stub, and examples were broken
/// where they cannot be.
#[test]
fn regression_help_is_wrapped_once() {
    let examples = |text: &str| -> Vec<String> {
        let lines = text.lines().skip_while(|line| !line.starts_with("Example"));
        lines.filter(|line| line.starts_with(' ')).map(str::to_owned).collect()
    };
    let indent = |line: &str| line.len() - line.trim_start().len();
    for verb in std::iter::once(Vec::new()).chain(command_lines()) {
        let arguments: Vec<_> = verb.iter().map(String::as_str).chain(["--help"]).collect();
        let (narrow, wide) = (at(None, &arguments), at(Some("2000"), &arguments));
        assert!(widest(&narrow) <= 80, "{verb:?} --help\n{narrow}");
        assert_eq!(examples(&narrow), examples(&wide), "{verb:?}");
        for (line, next) in narrow.lines().zip(narrow.lines().skip(1)) {
            // Lists are indented by less than 10.
            let is_prose = indent(line) == indent(next) && !(1..10).contains(&indent(line)) && !line.contains(" - ");
            let word = next.split_whitespace().next().unwrap_or_default();
            let fits = line.chars().count() + 1 + word.chars().count() <= 80;
            let is_text = is_prose && !line.trim().is_empty() && !word.is_empty();
            let is_short = is_text && fits && !line.ends_with(['.', ':']);
            assert!(!is_short, "{verb:?} --help: {line:?} ends early\n{narrow}");
        }
    }
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

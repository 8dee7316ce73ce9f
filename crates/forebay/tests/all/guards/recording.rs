//! A recording that cannot begin leaves no file.

use crate::support::*;

#[test]
fn a_command_that_cannot_run_leaves_no_file() {
    let directory = tempfile::TempDir::new().unwrap();
    let text = directory.path().join("no-program");
    std::fs::write(&text, "text").unwrap();
    for program in ["forebay-no-such-program", "/no/such/program", text.to_str().unwrap()] {
        let file = directory.path().join("x.fbr");
        let output = forebay(&["record", file.to_str().unwrap(), "--", program]);
        refused(&output, 2, &[program, "no file was made"]);
        assert!(!file.exists(), "{program}");
    }
}

/// It succeeded with an empty capture.
#[test]
fn no_time_is_refused_before_a_file_is_made() {
    let directory = tempfile::TempDir::new().unwrap();
    let file = directory.path().join("x.fbr");
    let words = ["record", file.to_str().unwrap(), "--mount", directory.path().to_str().unwrap(), "--for", "0s"];
    refused(&forebay(&words), 2, &["--for 0s", "more than 0"]);
    assert!(!file.exists());
}

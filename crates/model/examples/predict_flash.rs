//! Recomputes the predictions of `predictions/flash-qd16.toml` and compares: exit 1 where the models no longer give what the file says.
//! With `--write`, run from the directory of the crate, it writes the file instead.

use forebay_model::conformance::{Options, prediction};
use std::process::ExitCode;

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let text = prediction::text(Options { ios: 4_000_000, seed: 1 })?;
    print!("{text}");
    if std::env::args().any(|word| word == "--write") {
        std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/predictions/flash-qd16.toml"), text)?;
        return Ok(ExitCode::SUCCESS);
    }
    if text == prediction::WRITTEN {
        eprintln!("as written down");
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("not as written down in predictions/flash-qd16.toml");
    Ok(ExitCode::from(1))
}

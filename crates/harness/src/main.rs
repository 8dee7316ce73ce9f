//! Tests on the real server that acknowledged data is kept: killed under load, and with a map far larger than its
//! memory.
//!
//! Runs the program `forebay` as a separate process, over NBD, and knows nothing else about it.
//!
//! `crash` and `scale` print a table and exit with 0 (good), 1 (a promise was broken) or 2 (the test could not be
//! run).
#![forbid(unsafe_code)]

mod crash;
mod images;
mod liar;
mod load;
mod part;
mod scale;
mod server;
mod setting;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[derive(Debug, Parser)]
#[command(about = "Crash and scale tests of the real server")]
struct Arguments {
    #[command(subcommand)]
    test: Test,
}

#[derive(Debug, Subcommand)]
enum Test {
    /// Kills the server under load and checks every block after each recovery.
    Crash(crash::Options),
    /// Writes all over a pool of 4 TiB with little memory, kills the server and measures its recovery.
    Scale(scale::Options),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().test {
        Test::Crash(options) => crash::run(&options),
        Test::Scale(options) => scale::run(&options),
    };
    let Err(error) = outcome else { return ExitCode::SUCCESS };
    match error.downcast_ref::<load::Finding>() {
        Some(_) => {
            eprintln!("FOUND: {error:#}");
            ExitCode::from(1)
        }
        None => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

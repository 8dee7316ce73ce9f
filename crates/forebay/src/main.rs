//! The command line of Forebay: thin, each verb one file. Exit codes: 0 good, 1 a finding, 2 could not do it.
#![forbid(unsafe_code)]

mod arguments;
mod cli;
mod cli_record;
mod demo;
mod doctor;
mod hosts;
mod measure;
mod output;
mod parallel;
mod read_cache;
mod status;
mod traces;
mod use_cases;
mod verbs;
mod write_amplification;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    if let Some(schema) = verbs::schema_asked(&arguments) {
        return ended(output::line(schema));
    }
    let cli = match cli::Cli::try_parse_from(arguments::config_first(measure::rewrite(arguments))) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are no errors; clap writes them to stdout, with colours where these are for a terminal.
            if !error.use_stderr() {
                return ended(output::by_itself(|| error.print()));
            }
            // Nobody is left to tell where even stderr is closed.
            let _ = error.print();
            return ExitCode::from(2);
        }
    };
    forebay_daemon::log::start();
    ended(verbs::run(cli))
}

/// Says what went wrong, and how the exit code shows it.
fn ended(result: anyhow::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // Who reads it has gone: no error of ours.
        Err(error) if output::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            let found = error.downcast_ref::<forebay_daemon::finding::Finding>().is_some();
            output::complain(output::chain(&error));
            ExitCode::from(if found { 1 } else { 2 })
        }
    }
}

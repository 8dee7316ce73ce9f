//! Forebay's command line: thin, one file per verb. Exit codes: 0 success, 1 a finding, 2 failure.
#![forbid(unsafe_code)]

mod arguments;
mod cli;
mod demo;
mod doctor;
mod hosts;
mod mean;
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
            // Help and version are not errors; clap writes them to stdout, in colour on a terminal.
            if !error.use_stderr() {
                return ended(output::by_itself(|| error.print()));
            }
            // Where stderr is closed too, the error cannot be shown.
            let _ = error.print();
            return ExitCode::from(2);
        }
    };
    forebay_daemon::log::start();
    ended(verbs::run(cli))
}

/// Reports an error and maps the result to the exit code.
fn ended(result: anyhow::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // The reader has closed the pipe: not an error of this program.
        Err(error) if output::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            let found = error.downcast_ref::<forebay_daemon::finding::Finding>().is_some();
            output::complain(output::chain(&error));
            ExitCode::from(if found { 1 } else { 2 })
        }
    }
}

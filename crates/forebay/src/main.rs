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
        return ExitCode::from(u8::from(output::line(schema).is_err()) * 2);
    }
    let cli = match cli::Cli::try_parse_from(arguments::config_first(measure::rewrite(arguments))) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are no errors; clap writes them to stdout.
            let code = u8::from(error.use_stderr()) * 2;
            // Nobody is left to tell where even stderr is closed.
            let _ = error.print();
            return ExitCode::from(code);
        }
    };
    forebay_daemon::log::start();
    match verbs::run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if output::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            let found = error.downcast_ref::<forebay_daemon::finding::Finding>().is_some();
            output::complain(output::chain(&error));
            ExitCode::from(if found { 1 } else { 2 })
        }
    }
}

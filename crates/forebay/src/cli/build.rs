//! Verbs for those who build, package and test Forebay.

use clap::Subcommand;
use clap_complete::Shell;
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub enum BuildVerb {
    /// Simulate lives of pools until one breaks a promise
    ///
    /// Run pools in virtual time over devices that lose power, lie and die. A life follows from its seed: a tiny pool of
    /// random geometry and settings, and rounds of use, each ended by a power cut or a clean stop. --seed shrinks a life
    /// that fails and shows its log.
    #[command(after_help = "Example:
  forebay simulate --count 5000
  forebay simulate --minutes 60 --from 1000000
  forebay simulate --seed 4711

Exit 0: all promises were kept; 1: one was broken; 2: it could not be done.")]
    Simulate(SimulateOptions),
    /// Print completions for a shell
    #[command(after_help = "Example:
  forebay completions bash > /usr/share/bash-completion/completions/forebay")]
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Write manual pages, one for each verb
    #[command(after_help = "Example:
  forebay man /usr/local/share/man/man1 && man forebay-serve")]
    Man {
        /// Folder for the pages; it is made where it is not there
        folder: PathBuf,
    },
}

/// Options of `forebay simulate`.
#[derive(Debug, clap::Args)]
pub struct SimulateOptions {
    /// Number of lives
    #[arg(long, default_value_t = 2000, value_name = "N", conflicts_with = "minutes")]
    pub count: u64,
    /// Simulate as many lives as fit into this time
    #[arg(long, value_name = "MINUTES")]
    pub minutes: Option<f64>,
    /// Number of the first life; each number has a seed of its own, which a failure is reported with
    #[arg(long, default_value_t = 0, value_name = "NUMBER")]
    pub from: u64,
    /// Simulate only this life; shrink it where it fails, and show its log
    #[arg(long, value_name = "SEED", conflicts_with_all = ["count", "minutes", "from"])]
    pub seed: Option<u64>,
    /// Lives at a time (default: the number of cores)
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
    /// Print the JSON schema of results; needs nothing else
    #[arg(long)]
    pub schema: bool,
}

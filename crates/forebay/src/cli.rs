//! Verbs and options. Every verb has an example in its help.

use crate::config::Place;
use crate::output::Format;
use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

/// A tiered block device: a small fast SSD in front of a large cheap one, the right data on the right tier.
#[derive(Debug, Parser)]
#[command(
    name = "forebay",
    version,
    about,
    propagate_version = true,
    after_help = "Examples:
  forebay demo                         see it work: no devices, no root
  forebay create pool.toml             format the pool that pool.toml describes
  forebay serve pool.toml              serve its disks by NBD until SIGINT or SIGTERM
  forebay status pool.toml             what lies where, per class

Exit codes: 0 good, 1 a finding (a failed check, a damaged pool), 2 could not do it."
)]
pub struct Cli {
    #[command(subcommand)]
    pub verb: Verb,
    /// How results are written; logs and progress go to stderr in any case
    #[arg(long, global = true, value_enum, default_value_t = Format::Table, value_name = "FORMAT")]
    pub output: Format,
}

#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Shows everything on an embedded pool: load, power cut, recovery, proof, figures
    #[command(after_help = "Example:
  forebay demo
  forebay demo --quick --output json

Builds a pool over two files in a temporary directory, drives a database-shaped load through NBD, kills the server in
the middle while its devices hold unflushed writes, recovers, and checks every flushed byte. Exit 1 if one is wrong.")]
    Demo(DemoOptions),
    /// Formats the pool that CONFIG describes; refuses where anything lies on its devices
    #[command(after_help = "Example:
  truncate -s 1G fast.img && truncate -s 8G capacity.img
  forebay create pool.toml

Relative paths of targets in CONFIG are relative to the current directory.")]
    Create {
        /// Configuration file
        config: PathBuf,
        /// Format although signatures were found; what they are is still listed
        #[arg(long)]
        destroy_data: bool,
    },
    /// Serves the pool until SIGINT or SIGTERM; prints `ready URI` for each export
    #[command(after_help = "Example:
  forebay serve pool.toml
  nbdinfo 'nbd+unix:///db?socket=/run/forebay/db.sock'

--salvage opens a pool whose journal is damaged, for reading only: nothing is written, and what the lost part of the
journal had changed may show an older state. Copy what can be saved, then restore from a backup.
A pool of ram: targets is formatted at each start. FOREBAY_LOG=debug logs more; FOREBAY_NO_IO_URING=1 avoids io_uring.")]
    Serve {
        /// Configuration file
        config: PathBuf,
        /// Read only, in spite of a damaged journal; may show older data
        #[arg(long)]
        salvage: bool,
    },
    /// What a running server tells: tiers, classes, exports, recovery, latencies
    #[command(after_help = "Example:
  forebay status pool.toml --output json | jq '.classes[] | {name, alpha, beta}'")]
    Status {
        /// Configuration file
        config: PathBuf,
    },
    /// The status, refreshed until Ctrl-C
    #[command(after_help = "Example:
  forebay top pool.toml --interval 2
  forebay top pool.toml --count 1")]
    Top {
        /// Configuration file
        config: PathBuf,
        /// Seconds between two looks
        #[arg(long, default_value_t = 1.0, value_name = "SECONDS")]
        interval: f64,
        /// Stop after so many looks
        #[arg(long, value_name = "N")]
        count: Option<u64>,
    },
    /// Classes of a running pool: list, change, import
    #[command(after_help = "Example:
  forebay class pool.toml list
  forebay class pool.toml set log --place fast --share 0.25
  forebay class pool.toml import ioclass-config.csv

Changes are stored in the pool. What CONFIG says of a class replaces them at the next start.")]
    Class {
        /// Configuration file
        config: PathBuf,
        #[command(subcommand)]
        action: ClassAction,
    },
    /// Disks of a running pool: list, add, remove, resize
    #[command(after_help = "Example:
  forebay disk pool.toml list
  forebay disk pool.toml add logs 4GiB --export
  forebay disk pool.toml resize db 128GiB
  forebay disk pool.toml remove logs --destroy-data")]
    Disk {
        /// Configuration file
        config: PathBuf,
        #[command(subcommand)]
        action: DiskAction,
    },
    /// What is on a device: superblock, geometry, state, or a foreign signature
    #[command(after_help = "Example:
  forebay inspect /dev/nvme0n1")]
    Inspect {
        /// Path or URI of a device; it must not be in use
        path: String,
    },
    /// Checks every structure and checksum of a pool that is not being served
    #[command(after_help = "Example:
  forebay verify pool.toml && echo sound")]
    Verify {
        /// Configuration file
        config: PathBuf,
    },
    /// Looks at a configuration without touching a device
    #[command(after_help = "Example:
  forebay config check pool.toml
  forebay config schema > forebay.schema.json")]
    Config {
        #[command(subcommand)]
        action: ConfigAction,
    },
}

#[derive(Clone, Debug, Args)]
pub struct DemoOptions {
    /// A smaller load, for tests
    #[arg(long)]
    pub quick: bool,
    /// Directory for the pool's files; a new temporary one by default
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Seed of load and power cut
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
}

#[derive(Debug, Subcommand)]
pub enum ClassAction {
    /// Policies and rules
    #[command(after_help = "Example:\n  forebay class pool.toml list")]
    List,
    /// Changes a class; what is not named stays
    #[command(after_help = "Example:\n  forebay class pool.toml set temp --place stage --match 'disk:scratch'")]
    Set {
        /// Name of the class
        name: String,
        /// Where its writes go
        #[arg(long, value_enum)]
        place: Option<Place>,
        /// Share of the fast tier that it may hold, 0.0 to 1.0
        #[arg(long)]
        share: Option<f64>,
        /// Rules with smaller numbers are tried first
        #[arg(long)]
        priority: Option<u16>,
        /// Keep what is read on the fast tier (stored, without effect in this release)
        #[arg(long, value_name = "BOOL")]
        read_cache: Option<bool>,
        /// A rule, in place of the old ones; may be given several times
        #[arg(long = "match", value_name = "RULE")]
        rules: Option<Vec<String>>,
    },
    /// Reads an Open CAS io-class file
    #[command(after_help = "Example:\n  forebay class pool.toml import /etc/opencas/ioclass-config.csv")]
    Import {
        /// The CSV file
        file: PathBuf,
    },
}

#[derive(Debug, Subcommand)]
pub enum DiskAction {
    /// Names, sizes and what they hold
    #[command(after_help = "Example:\n  forebay disk pool.toml list")]
    List,
    /// Adds a thin disk
    #[command(after_help = "Example:\n  forebay disk pool.toml add logs 4GiB --export")]
    Add {
        /// Name of the disk
        name: String,
        /// Size, e.g. 64GiB
        size: String,
        /// Export it under its name at the addresses already served, until the next restart
        #[arg(long)]
        export: bool,
    },
    /// Discards a disk's data and removes it
    #[command(after_help = "Example:\n  forebay disk pool.toml remove logs --destroy-data")]
    Remove {
        /// Name of the disk
        name: String,
        /// Needed: all data of the disk is lost
        #[arg(long)]
        destroy_data: bool,
    },
    /// Changes the size of a disk; shrinking needs its end to be discarded
    #[command(after_help = "Example:\n  forebay disk pool.toml resize db 128GiB")]
    Resize {
        /// Name of the disk
        name: String,
        /// New size
        size: String,
    },
}

#[derive(Debug, Subcommand)]
pub enum ConfigAction {
    /// Checks a configuration
    #[command(after_help = "Example:\n  forebay config check pool.toml")]
    Check {
        /// Configuration file
        config: PathBuf,
    },
    /// Prints the JSON schema of configurations
    #[command(after_help = "Example:\n  forebay config schema > forebay.schema.json")]
    Schema,
}

//! Options of `forebay record`.

use clap::Args;
use std::path::PathBuf;

/// How requests are observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Source {
    /// eBPF; where that is refused, ftrace.
    Auto,
    /// eBPF probes.
    Ebpf,
    /// The kernel's blk tracer, which knows neither hints nor files.
    Ftrace,
}

/// Options of `record`.
#[derive(Debug, Args)]
pub struct RecordOptions {
    /// File to write (NAME.fbr); may be left out with --live
    pub file: Option<PathBuf>,
    /// Record this disk, partition or loop device; may be repeated
    #[arg(long, value_name = "PATH")]
    pub device: Vec<PathBuf>,
    /// Record the device that holds this file or directory; may be repeated
    #[arg(long, value_name = "PATH")]
    pub mount: Vec<PathBuf>,
    /// Record only what this process and its children ask for, and requests of files that they have open; may be repeated
    #[arg(long, value_name = "PID")]
    pub pid: Vec<u32>,
    /// Record only what this control group and those below it are charged for (a directory of cgroup2); may be repeated
    #[arg(long, value_name = "DIR")]
    pub cgroup: Vec<PathBuf>,
    /// End after this time, such as 10s or 5m
    #[arg(long = "for", value_name = "TIME")]
    pub duration: Option<String>,
    /// Begin a new file (NAME.1.fbr and so on) when one has this size, such as 1GiB
    #[arg(long, value_name = "SIZE")]
    pub rotate_size: Option<String>,
    /// Begin a new file after this time, such as 1h
    #[arg(long, value_name = "TIME")]
    pub rotate_every: Option<String>,
    /// At the end, also write the recording to this Parquet file, the files of a rotation as one
    #[arg(long, value_name = "FILE", requires = "file")]
    pub parquet: Option<PathBuf>,
    /// Show every second what the device is asked to do
    #[arg(long)]
    pub live: bool,
    /// With --live: show one line a second instead of a table
    #[arg(long, requires = "live")]
    pub line: bool,
    /// With --live: tell classes by rules: rocksdb, mongodb, postgresql, mysql, sqlite, or a file with `[[class]]` sections
    #[arg(long, value_name = "RULES", requires = "live")]
    pub rules: Option<String>,
    /// How requests are observed
    #[arg(long, value_enum, default_value_t = Source::Auto, value_name = "SOURCE")]
    pub source: Source,
    /// Measure what the probes cost
    #[arg(long)]
    pub cost: bool,
    /// Record while this command runs, on the device of the working directory unless others are named
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<std::ffi::OsString>,
}

//! Options of `forebay record`.

use clap::Args;
use std::path::PathBuf;

/// What tells of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Source {
    /// eBPF; where that is refused, ftrace.
    Auto,
    /// Probes.
    Ebpf,
    /// The kernel's blk tracer.
    Ftrace,
}

/// Options of `record`.
#[derive(Debug, Args)]
pub struct RecordOptions {
    /// Capture file to write (NAME.fbr); may be left out with --live
    pub file: Option<PathBuf>,
    /// Disk, partition or loop device; may be repeated
    #[arg(long, value_name = "PATH")]
    pub device: Vec<PathBuf>,
    /// The device that holds this file or directory; may be repeated
    #[arg(long, value_name = "PATH")]
    pub mount: Vec<PathBuf>,
    /// Only what this process and its children ask for, and requests of files that they have open; may be repeated
    #[arg(long, value_name = "PID")]
    pub pid: Vec<u32>,
    /// Only what this control group and those below it pay for (a directory of cgroup2)
    #[arg(long, value_name = "DIR")]
    pub cgroup: Vec<PathBuf>,
    /// End after so long, such as 10s or 5m
    #[arg(long = "for", value_name = "TIME")]
    pub duration: Option<String>,
    /// Begin a new file (NAME.1.fbr, ...) when one has this size, such as 1GiB
    #[arg(long, value_name = "SIZE")]
    pub rotate_size: Option<String>,
    /// Begin a new file after so long, such as 1h
    #[arg(long, value_name = "TIME")]
    pub rotate_every: Option<String>,
    /// At the end write what was captured to this Parquet file as well, the files of a rotation as one
    #[arg(long, value_name = "FILE", requires = "file")]
    pub parquet: Option<PathBuf>,
    /// Show each second what is going on
    #[arg(long)]
    pub live: bool,
    /// With --live: one line a second instead of a table
    #[arg(long, requires = "live")]
    pub line: bool,
    /// With --live: classes by rules: rocksdb, mongodb, postgresql, mysql, sqlite, or a file of `[[class]]` parts
    #[arg(long, value_name = "RULES", requires = "live")]
    pub rules: Option<String>,
    /// What tells of requests: eBPF probes, or the kernel's blk tracer (ftrace), which knows neither hints nor files; auto
    /// takes it where eBPF is refused
    #[arg(long, value_enum, default_value_t = Source::Auto, value_name = "SOURCE")]
    pub source: Source,
    /// Measure what the probes cost
    #[arg(long)]
    pub cost: bool,
    /// Record while this command runs, on the device of the working directory unless others are named
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<std::ffi::OsString>,
}

//! Verbs that measure drives, machines and applications.

use crate::measure::BenchOptions;
use crate::verbs::{
    AnalyzeOptions, CheckOptions, ConvertOptions, DoctorOptions, ReplayOptions, ReportOptions, SizeOptions,
};
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub enum MeasureVerb {
    /// Run a load and measure every I/O
    ///
    /// Percentiles have intervals, and are withheld where samples are too few.
    ///
    /// JOB is a file (TOML with the keys of --set, or fio's job file) or an experiment; --list names these. Without JOB,
    /// --set makes a job, or DiskSpd's options after --target do: they have one dash, those of Forebay two, and #1 never
    /// selects a disk. Without any of these: 4 KiB random reads at depth 1 for 10 s.
    ///
    /// A load that writes needs --destroy-data on a block device, on a file that is not empty (all zeros, or written by
    /// bench alone), and wherever something is recognised on the target.
    ///
    /// --host runs the jobs on other machines by ssh, on all at one instant. They need the same version of forebay; --ssh
    /// and --host-program say how to reach it, and docs/jobs.md has more. --records and --parquet without a target convert
    /// the records of an earlier run, also of one that was killed.
    ///
    /// Ctrl-C ends the run with the result so far, marked as partial (in JSON: partial, not_started). A second one, a
    /// second later, kills; so does the first that comes a second or more after the run.
    #[command(after_help = "Example:
  forebay bench --target null:?size=1GiB -b4k -w30 -r -o4 -t8 -d10 -h -L
  forebay bench job.toml --target /dev/nvme0n1 --destroy-data
  forebay bench job.fio --target nbd://127.0.0.1:10809/db --output json
  forebay bench --target ram:?size=1GiB --set rw=randwrite --runtime 5s
  forebay bench qd-sweep --target /dev/nvme0n1 --read-percent 100
  forebay bench --target /dev/nvme0n1 --against /dev/nvme1n1 --set depth=4
  forebay bench --host db1 --host admin@db2 --target /dev/nvme0n1 --set depth=16
  forebay bench --target /dev/nvme0n1 --block-layer
  forebay bench --records run.fbt --parquet run.parquet

Exit 0: measured, also in part; 1: I/Os failed, nothing was measured or nothing verified; 2: it could not be done.")]
    Bench(Box<BenchOptions>),
    /// Hold a drive to its spec sheet: pass, fail, or too few samples
    ///
    /// SPEC is a file (docs/check.md) or one of the built-in sheets. Promises of writes need --destroy-data on a block
    /// device and on a file that is not empty.
    #[command(after_help = "Example:
  forebay check --list
  forebay check p4800x --target /dev/nvme0n1 --only read
  forebay check my.toml --target /dev/nvme0n1 --destroy-data --runtime 60s

Exit 0: no promise is broken (too few samples are no pass, and no fail); 1: one is; 2: there is nothing to check, or it \
could not be done.")]
    Check(CheckOptions),
    /// Audit settings of the machine, change them, measure their cost
    ///
    /// Without --apply or --ladder it changes nothing: it reads files of the kernel below /sys and /proc, and names of
    /// services below /etc and /usr/lib. Costs are those of the sources that are named. What cannot be read is unknown,
    /// not good. --capture copies what the rules read, for use elsewhere.
    ///
    /// Profiles, each with those before it: default-safe, latency, measure. The old settings are recorded before the first
    /// change; --restore puts them back, also after a crash. --ladder puts them back by itself. docs/doctor.md lists the
    /// rules and the settings.
    #[command(after_help = "Example:
  forebay doctor
  forebay doctor --device /dev/nvme0n1
  forebay doctor pool.toml
  forebay doctor --capture machine.tree
  forebay doctor --root machine.tree --device nvme0n1 --output json
  forebay doctor --apply latency --device /dev/nvme0n1 --dry-run
  forebay doctor --restore
  forebay doctor --hold -- forebay bench --target /dev/nvme0n1
  forebay doctor --ladder --target /dev/nvme0n1 --rounds 7
  forebay doctor --ladder --target model:p4800x

Exit 0: nothing but notes; 1: a setting costs latency, throughput or safety, was refused by the kernel or has not held, \
COMMAND or an I/O failed; 2: it could not be done.")]
    Doctor(Box<DoctorOptions>),
    /// Record every request that a block device gets
    ///
    /// Each request is recorded with its time, depth, hint, file and process. It needs root, or CAP_BPF and CAP_PERFMON,
    /// and a kernel with BTF. A command is recorded with everything else that happens on its device meanwhile, and until
    /// what it left in the page cache is written. docs/record.md explains each attribute.
    #[command(after_help = "Example:
  forebay record --device /dev/nvme0n1 trace.fbr
  forebay record --mount /var/lib/postgresql --for 60s trace.fbr
  forebay record trace.fbr -- db_bench --benchmarks=fillrandom
  forebay record --device /dev/nvme0n1 --live

Exit 0: recorded; 1: requests are missing, or the command failed; 2: it could not be done.")]
    Record(Box<super::RecordOptions>),
    /// Analyze the workload of a trace, class by class
    ///
    /// Show occupancy, writes, lives, miss ratios and queue depths. Rows are classes by the evidence: rules, the kernel's
    /// marks and hints, behaviour. alpha is the share of the writes; beta is bytes written over bytes occupied. T is
    /// temporary data, M metadata, L log, H hot, and X is for the capacity tier.
    #[command(after_help = "Example:
  forebay analyze trace.vscsi.gz
  forebay analyze trace.parquet --rules postgresql --output json
  forebay analyze rocksdb:?scale=0.01 --rules rocksdb
  forebay analyze fleet/ --sample 64")]
    Analyze(AnalyzeOptions),
    /// Say how large a fast tier pays, and for which classes
    ///
    /// Show which alpha, endurance and hit ratio each size buys. Rows of the analysis are pinned in the order of their
    /// beta, and the rest is staged in what is left. The knee is where more space begins to buy little.
    #[command(after_help = "Example:
  forebay size trace.vscsi.gz
  forebay size rocksdb:?scale=0.001 --rules rocksdb --fast-size 100MiB
  forebay size trace.parquet --capacity p4320 --config classes.toml")]
    Size(SizeOptions),
    /// Replay a trace on a target and measure every I/O
    ///
    /// TRACE is a file in any format that `analyze` reads. It is read twice: what does not fit the target is reported
    /// before anything runs. At recorded times the latency of an I/O counts from its recorded time, and the drift from the
    /// times is reported.
    ///
    /// A replay that writes needs --destroy-data on a block device, on a file that is not empty, and wherever something is
    /// recognised on the target. Ctrl-C ends it with the result so far.
    #[command(after_help = "Example:
  forebay replay trace.vscsi.gz --target null:?size=64GiB --from 0s --to 60s
  forebay replay trace.vscsi.gz --target /dev/nvme0n1 --destroy-data --wrap
  forebay replay trace.vscsi.gz --target 'model:p4610?fill=90' --scale 10
  forebay replay trace.vscsi.gz --target pool:pool.toml --as-fast-as-possible

Exit 0: replayed, also in part; 1: I/Os failed; 2: it could not be done.")]
    Replay(Box<ReplayOptions>),
    /// Convert a trace to Parquet, CSV, fio's log or blktrace's binary
    ///
    /// The format of the input is found out from its contents; docs/traces.md lists those that are read. The extension of
    /// the output selects what is written.
    #[command(after_help = "Example:
  forebay convert trace.vscsi.gz trace.parquet
  forebay convert rocksdb:?scale=0.001 rocksdb.log
  forebay convert trace.fbr trace.csv
  forebay convert trace.csv.gz fleet --to-format parquet-by-volume")]
    Convert(ConvertOptions),
    /// Make one HTML file of results: pictures, tables, commands
    ///
    /// The page needs no network. RESULT is what bench, check, replay, conformance, analyze, size, simulate, doctor or
    /// status write with --output json, or the records of bench --records: single I/Os, of which the slowest and some
    /// windows are shown. - is standard input.
    ///
    /// Without -o the page goes to standard output, unless that is a terminal. A file is only overwritten if it is such a
    /// page.
    #[command(after_help = "Example:
  forebay bench qd-sweep --target /dev/nvme0n1 --output json > sweep.json
  forebay report sweep.json -o sweep.html
  # The depths of a trace below the sweep:
  forebay report sweep.json trace.json -o both.html
  # Two runs beside each other:
  forebay report a.json b.json -o runs.html
  forebay status pool.toml --output json | forebay report - -o pool.html

Exit 0: written; 2: it could not be done.")]
    Report(ReportOptions),
    /// List the SSDs and hosts that can be modelled
    #[command(after_help = "Example:
  forebay models
  forebay bench qd-sweep --target 'model:p4610?fill=90' --read-percent 70")]
    Models,
    /// Compare models and policies with published figures
    ///
    /// Show the published tables beside what the models give, with the error of each figure.
    #[command(after_help = "Example:
  forebay conformance p4800x
  # With the curves; also surface, mixed, endurance, pair:
  forebay conformance queue-depth
  # A published use case of two tiers; also oq-mongodb:
  forebay conformance oq-rocksdb
  # Write amplification of policies of placement:
  forebay conformance wa --trace trace.vscsi.gz
  # Hit ratios of policies of the read cache:
  forebay conformance cache --trace trace.vscsi.gz
  forebay conformance --ios 20000000 --output json")]
    Conformance(ConformanceOptions),
}

/// Options of `forebay conformance`.
#[derive(Debug, clap::Args)]
pub struct ConformanceOptions {
    /// What to compare (default: the tests of all drives)
    ///
    /// Only tests with this in their drive, name, host or source; or an experiment (queue-depth, surface, mixed,
    /// endurance, pair), whose data are shown too; or a use case of two tiers (oq-rocksdb, oq-mongodb); or wa, the write
    /// amplification of policies of placement; or cache, the hit ratios of policies of the read cache.
    pub part: Option<String>,
    /// I/Os of each test; a tenth of them for each point of an experiment (default: 2000000)
    #[arg(long, value_name = "N")]
    pub ios: Option<u64>,
    /// Run all points of curves and surfaces, which takes a few times as long
    #[arg(long)]
    pub full: bool,
    /// Exit 1 where a figure is outside its limits
    #[arg(long)]
    pub strict: bool,
    /// Size of everything, 1 for the published run (default: 0.001, for oq-mongodb 0.0005)
    #[arg(long, value_name = "X", help_heading = "Use cases")]
    pub scale: Option<f64>,
    /// Number of seeds, with a run of each set-up for each, 1 to 99 (default: 5)
    #[arg(long, value_name = "N", help_heading = "Use cases")]
    pub seeds: Option<u32>,
    /// Size of the fast tier (default: the published one at that scale)
    #[arg(
        long,
        value_name = "SIZE",
        value_parser = forebay_block::size::parse_size_bytes,
        help_heading = "Use cases"
    )]
    pub fast_size: Option<u64>,
    /// Add a trace or a generator to the built-in ones; may be repeated
    #[arg(long, value_name = "TRACE", help_heading = "Write amplification and read cache (wa, cache)")]
    pub trace: Vec<String>,
    /// Use only what --trace names, without the built-in ones
    #[arg(long, requires = "trace", help_heading = "Write amplification and read cache (wa, cache)")]
    pub only: bool,
    /// wa: use only bands of this size, such as 4MiB; may be repeated
    #[arg(
        long,
        value_name = "SIZE",
        value_parser = forebay_block::size::parse_size_bytes,
        help_heading = "Write amplification and read cache (wa, cache)"
    )]
    pub band: Vec<u64>,
    /// wa: use only this much spare space, in percent; may be repeated
    #[arg(long, value_name = "PERCENT", help_heading = "Write amplification and read cache (wa, cache)")]
    pub spare: Vec<u32>,
    /// cache: use only caches of this many percent of the blocks that are read; may be repeated
    #[arg(long, value_name = "PERCENT", help_heading = "Write amplification and read cache (wa, cache)")]
    pub cache_percent: Vec<f64>,
    /// Print the JSON schema of results; needs nothing else
    #[arg(long)]
    pub schema: bool,
}

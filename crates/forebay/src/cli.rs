//! Verbs and options. Every verb has an example in its help.

use crate::measure::BenchOptions;
use crate::output::Format;
use crate::verbs::{
    AnalyzeOptions, CheckOptions, ClassAction, ConvertOptions, DiskAction, DoctorOptions, EvidenceAction,
    ReportOptions, ScrubVerb, SizeOptions,
};
use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use std::path::PathBuf;

/// The configuration file where the command line names none.
pub const DEFAULT_CONFIG: &str = "/etc/forebay/pool.toml";

/// A tiered block device: a small fast SSD in front of a large cheap one, the right data on the right tier.
#[derive(Debug, Parser)]
#[command(
    name = "forebay",
    // As wide as results.
    term_width = crate::output::width(),
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
    /// How results are written; logs, progress and why there is no result (exit code 2) go to stderr in any case
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
    /// Formats the pool that CONFIG describes; refuses where anything lies on its devices, known or not
    #[command(after_help = "Example:
  truncate -s 1G fast.img && truncate -s 8G capacity.img
  forebay create pool.toml

Relative paths of targets in CONFIG are relative to the current directory.")]
    Create {
        /// Configuration file
        #[arg(default_value = DEFAULT_CONFIG)]
        config: PathBuf,
        /// Format although something was found; what it is is still listed
        #[arg(long)]
        destroy_data: bool,
    },
    /// Serves the pool until SIGINT or SIGTERM; prints `ready URI` for each export
    #[command(after_help = "Example:
  forebay serve pool.toml
  nbdinfo 'nbd+unix:///db?socket=/run/forebay/db.sock'

--salvage opens a pool whose journal is damaged, for reading only: nothing is written, and what the lost part of the
journal had changed may show an older state. Copy what can be saved, then restore from a backup.
--without-fast opens the capacity tier alone, where the fast tier is lost: what was only there cannot be read. --degraded does
without capacity devices that are missing. Both write nothing, and say what is gone before the first `ready`. --accept-loss goes on
without pages of the map that a start is refused for: they cannot be read, or of a mirror's missing member alone, which is lost for ever;
without what cannot be read of the journal; and without what was there before blocks that were written last and cannot be read.
--drop-members takes members of the mirrored fast tier that are not there out of it for good: take their [[fast]] sections out of
CONFIG first.
With --output json each line is an object of its own: event (ready), uri, text.
A pool of ram: targets is formatted at each start. SIGHUP reads CONFIG again: classes, limits, exports, evidence; what needs a
restart is logged. FOREBAY_LOG=debug logs more, FOREBAY_LOG_FORMAT=json for programs; FOREBAY_NO_IO_URING=1 avoids io_uring.")]
    Serve {
        /// Configuration file
        #[arg(default_value = DEFAULT_CONFIG)]
        config: PathBuf,
        /// Read only, in spite of a damaged journal; may show older data
        #[arg(long)]
        salvage: bool,
        /// Read only, of the capacity tier alone: the last checkpoint and what reached the capacity tier later
        #[arg(long, conflicts_with = "salvage")]
        without_fast: bool,
        /// Read only, without capacity devices that are missing
        #[arg(long, conflicts_with_all = ["salvage", "without_fast"])]
        degraded: bool,
        /// Served although a part of the journal, what was written last or pages of the map cannot be read, or only of a member of the mirrored fast tier that is missing: what was there is lost for good
        #[arg(long, conflicts_with_all = ["salvage", "without_fast", "degraded"])]
        accept_loss: bool,
        /// Served; members of the mirrored fast tier that are not there are none any more
        #[arg(long, conflicts_with_all = ["salvage", "without_fast", "degraded", "accept_loss"])]
        drop_members: bool,
        /// Waits so many seconds for devices that are not there yet, as while a machine boots
        #[arg(long, value_name = "SECONDS", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=3600))]
        wait: u64,
    },
    /// What a running server tells: tiers, classes, exports, recovery, latencies
    #[command(after_help = "Example:
  forebay status pool.toml --output json | jq '.classes[] | {name, alpha, beta}'")]
    Status {
        /// Configuration file
        #[arg(default_value = DEFAULT_CONFIG)]
        config: PathBuf,
    },
    /// The status, refreshed until Ctrl-C
    #[command(after_help = "Example:
  forebay top pool.toml --interval 2
  forebay top pool.toml --count 1")]
    Top {
        /// Configuration file
        #[arg(default_value = DEFAULT_CONFIG)]
        config: PathBuf,
        /// Seconds between two looks
        #[arg(long, default_value_t = 1.0, value_name = "SECONDS")]
        interval: f64,
        /// Stop after so many looks
        #[arg(long, value_name = "N")]
        count: Option<u64>,
    },
    /// Classes of a running pool: list, add, change, import
    #[command(after_help = "Example:
  forebay class pool.toml list
  forebay class pool.toml add wal --place fast --match 'path:**/pg_wal/**'
  forebay class pool.toml set log --place fast --share 0.25
  forebay class pool.toml import ioclass-config.csv

Changes are stored in the pool. What CONFIG says of a class replaces them at the next start.")]
    Class {
        /// Configuration file
        config: PathBuf,
        #[command(subcommand)]
        action: ClassAction,
    },
    /// What the host tells a running pool of its data: hints of the kernel, a map of files
    #[command(after_help = "Example:
  forebay evidence pool.toml attach --mount /mnt/db
  forebay evidence pool.toml attach --disk db --device /dev/nbd0 --no-files
  forebay evidence pool.toml list
  forebay evidence pool.toml detach --disk db

The block device is the one above the export (nbd, loop, ublk), on this machine; it is looked for until it is there. With it
rules such as path:**/WAL/**, ext:sst, hint.lifetime:short, process:postgres or rocksdb.level<=3 hold in the pool. Needs the
rights of `forebay record`. What [[evidence]] in CONFIG names is attached at each start.")]
    Evidence {
        /// Configuration file
        config: PathBuf,
        #[command(subcommand)]
        action: EvidenceAction,
    },
    /// Disks of a running pool: list, add, remove, resize, end an adoption
    #[command(after_help = "Example:
  forebay disk pool.toml list
  forebay disk pool.toml add logs 4GiB --export
  forebay disk pool.toml resize db 128GiB
  forebay disk pool.toml remove logs --destroy-data logs")]
    Disk {
        /// Configuration file
        config: PathBuf,
        #[command(subcommand)]
        action: DiskAction,
    },
    /// Reads everything that a running pool stores, in idle time, to find damage
    #[command(after_help = "Example:
  forebay scrub pool.toml start
  forebay scrub pool.toml status
  forebay scrub pool.toml pause

It goes on after a restart of the server. [scrub] rate in CONFIG bounds it; while hosts ask for something it is eight times slower.
Exit 1 where damage was found.")]
    Scrub {
        /// Configuration file
        config: PathBuf,
        /// What is to be done
        action: ScrubVerb,
    },
    /// Makes a disk of a running pool a block device of this machine, and prints its path; needs root
    #[command(after_help = "Example:
  forebay attach pool.toml db
  mkfs.xfs $(forebay attach db)

The device is /dev/ublkbN where the kernel has ublk, else /dev/nbdN by nbd-client. It is there until it is detached or the server
is stopped while nobody uses it; a server that is started again goes on with the ublk device that is in use. For a device at
every start, write `ublk = \"auto\"` into the [[export]].")]
    Attach {
        /// Configuration file
        config: PathBuf,
        /// The disk; the only one where left out
        disk: Option<String>,
    },
    /// Takes the block device of a disk away, unless it is in use; needs root
    #[command(after_help = "Example:
  umount /srv/db && forebay detach pool.toml db")]
    Detach {
        /// Configuration file
        config: PathBuf,
        /// The disk; the only one where left out
        disk: Option<String>,
    },
    /// What is on a device: superblock, geometry, state, or a foreign signature
    #[command(after_help = "Example:
  forebay inspect /dev/nvme0n1")]
    Inspect {
        /// Path or URI of a device; where a server has it what is shown may be of several moments
        path: String,
    },
    /// Checks every structure and checksum of a pool that is not being served
    #[command(after_help = "Example:
  forebay verify pool.toml && echo sound")]
    Verify {
        /// Configuration file
        #[arg(default_value = DEFAULT_CONFIG)]
        config: PathBuf,
        /// Checks what the capacity tier holds alone
        #[arg(long)]
        without_fast: bool,
    },
    /// Runs a load and measures every I/O: percentiles with intervals, withheld where samples are too few
    #[command(after_help = "Example:
  forebay bench --target null:?size=1GiB -b4k -w30 -r -o4 -t8 -d10 -h -L
  forebay bench job.toml --target /dev/nvme0n1 --destroy-data
  forebay bench job.fio --target nbd+unix:///db?socket=/run/forebay/db.sock --output json
  forebay bench --target ram:?size=1GiB --set rw=randwrite --set depth=16 --runtime 5s
  forebay bench qd-sweep --target /dev/nvme0n1 --read-percent 100
  forebay bench --target /dev/nvme0n1 --against /dev/nvme1n1 --rounds 5 --set depth=4
  forebay bench --host db1 --host admin@db2 --target /dev/nvme0n1 --set depth=16
  forebay bench --target /dev/nvme0n1 --block-layer
  forebay bench --records run.fbt --parquet run.parquet

JOB is a file (TOML with the keys of --set, or fio's job file) or an experiment; --list names these. Without one, --set makes a job, or DiskSpd's options after
--target do: they have one dash, ours two; #1 never selects a disk. Without anything: 4 KiB random reads, depth 1, 10 s.
A load that writes needs --destroy-data on a block device, on a file that is not empty (all zeros, or written by bench alone),
and wherever something is recognised on the target.
--host runs the jobs on other machines by ssh, on all at one instant: forebay must be there, of the same version. --ssh and --host-program say
how it is reached; docs/jobs.md has more.
--records and --parquet without a target convert the records of an earlier run, also of one that was killed.
Ctrl-C ends the run with the result so far, marked as partial (in JSON: partial, not_started); a second one, a second later, kills; so does
the first that comes a second or more after the run.
Exit 0: measured, also in part; 1: I/Os failed, nothing was measured or nothing verified; 2: it could not be done.")]
    Bench(Box<BenchOptions>),
    /// Replays a trace on any target, at recorded times or as fast as possible, and measures every I/O
    #[command(after_help = "Example:
  forebay replay trace.vscsi.gz --target null:?size=64GiB --from 0s --to 60s
  forebay replay trace.vscsi.gz --target /dev/nvme0n1 --destroy-data --wrap --scale 10
  forebay replay trace.vscsi.gz --target 'model:p4610?fill=90' --wrap
  forebay replay trace.vscsi.gz --target pool:pool.toml --as-fast-as-possible --depth 8

TRACE is a file in any format that `analyze` reads; it is read twice: what does not fit the target is reported before anything runs.
At recorded times the latency of an I/O counts from its recorded time, and the drift from the times is reported.
A replay that writes needs --destroy-data on a block device, on a file that is not empty, and wherever something is recognised.
Ctrl-C ends it with the result so far. Exit 0: replayed, also in part; 1: I/Os failed; 2: it could not be done.")]
    Replay(Box<crate::verbs::ReplayOptions>),
    /// Holds a drive to its spec sheet: measured beside promised, pass, fail or too few samples
    #[command(after_help = "Example:
  forebay check --list
  forebay check p4800x --target /dev/nvme0n1 --only read
  forebay check my-drive.toml --target /dev/nvme0n1 --destroy-data --runtime 60s

SPEC is a file (docs/check.md) or one of the sheets that are built in. Promises of writes need --destroy-data on a block
device and on a file that is not empty. Exit 1 where a promise is broken, 2 where there is nothing to check; too few samples are no pass, and no fail.")]
    Check(CheckOptions),
    /// Audits the machine's settings: what costs latency or throughput, and why; changes them for now and puts them back; measures what each costs here
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

Without --apply or --ladder it changes nothing: it reads files of the kernel below /sys and /proc, and names of services below /etc and
/usr/lib. Costs are those of the sources that are named. What cannot be read is unknown, not good. --capture takes what rules look at, to be
read elsewhere.
Profiles, each with those before it: default-safe, latency, measure. What was there is recorded before the first change; --restore puts it
back, also after a crash. --ladder puts it back itself.
docs/doctor.md lists the rules and the settings.
Exit 0: nothing but notes; 1: a setting costs latency, throughput or safety, was refused by the kernel or has not held, COMMAND or an I/O
failed; 2: it could not be done.")]
    Doctor(Box<DoctorOptions>),
    /// Lists the SSDs and hosts that can be modelled
    #[command(after_help = "Example:
  forebay models
  forebay bench qd-sweep --target 'model:p4610?fill=90' --read-percent 70")]
    Models,
    /// The published tables beside what the models give, with the error of each figure
    #[command(after_help = "Example:
  forebay conformance p4800x
  forebay conformance queue-depth            # with the curves; also surface, mixed, endurance, pair
  forebay conformance oq-rocksdb             # a published use case of two tiers; also oq-mongodb
  forebay conformance wa --trace trace.vscsi.gz      # write amplification of policies of placement
  forebay conformance cache --trace trace.vscsi.gz   # hit ratios of policies of the read cache
  forebay conformance --ios 20000000 --output json")]
    Conformance(ConformanceOptions),
    /// Lives of pools in virtual time over devices that lose power, lie and die, until one breaks a promise
    #[command(after_help = "Example:
  forebay simulate --count 5000
  forebay simulate --minutes 60 --from 1000000
  forebay simulate --seed 4711

A life follows from its seed: a tiny pool of random geometry and settings, and rounds of use, each ended by a power cut or a
clean stop. Exit 1 where a promise is broken; --seed shrinks that life and shows its log.")]
    Simulate(SimulateOptions),
    /// The workload of a trace through the PRISM: classes, alpha and beta, miss ratios, queue depths
    #[command(after_help = "Example:
  forebay analyze trace.vscsi.gz
  forebay analyze trace.parquet --rules postgresql --output json
  forebay analyze rocksdb:?scale=0.01 --rules rocksdb
  forebay analyze fleet/ --sample 64

Rows are classes by the evidence: rules, the kernel's marks and hints, behaviour. alpha: share of the writes; beta: bytes
written over bytes occupied; T temporary, M metadata, L log, H hot, X for the capacity tier.")]
    Analyze(AnalyzeOptions),
    /// How big a fast tier, for which classes, buys which alpha, endurance and hit ratio
    #[command(after_help = "Example:
  forebay size trace.vscsi.gz
  forebay size rocksdb:?scale=0.001 --rules rocksdb --fast-size 100MiB
  forebay size trace.parquet --capacity p4320 --config classes.toml

Rows of the analysis are pinned in the order of their beta, the rest is staged in what is left. The knee is where more space
begins to buy little.")]
    Size(SizeOptions),
    /// Results as one HTML file: pictures, tables, and the command that made each; it needs no network
    #[command(after_help = "Example:
  forebay bench qd-sweep --target /dev/nvme0n1 --output json > sweep.json
  forebay report sweep.json -o sweep.html
  forebay report sweep.json trace.json -o both.html      # the depths of the trace below the sweep
  forebay report a.json b.json -o runs.html              # beside each other
  forebay bench --target ram:?size=1GiB --output json | forebay report - -o run.html

RESULT is what bench, check, replay, conformance, analyze, size, simulate, doctor or status write with --output json, or the records of
bench --records: single I/Os, of which the slowest and some windows are shown. - is standard input.
Without -o the page goes to standard output, unless that is a terminal. A file is only written over if it is such a page.
Exit 0: written; 2: it could not be done.")]
    Report(ReportOptions),
    /// A trace in another format: Parquet, fio's log, blktrace's binary, CSV
    #[command(after_help = "Example:
  forebay convert trace.vscsi.gz trace.parquet
  forebay convert rocksdb:?scale=0.001 rocksdb.log
  forebay convert trace.fbr trace.csv
  forebay convert trace.csv.gz fleet --to-format parquet-by-volume

Formats that are read are in docs/traces.md; they are found out from the contents. What is written follows the file's extension.")]
    Convert(ConvertOptions),
    /// Records what a block device is really asked to do: every request with its time, depth, hint, file and process
    #[command(after_help = "Example:
  forebay record --device /dev/nvme0n1 trace.fbr
  forebay record --mount /var/lib/postgresql --for 60s trace.fbr
  forebay record trace.fbr -- db_bench --benchmarks=fillrandom
  forebay record --device /dev/nvme0n1 --live

Needs root, or CAP_BPF and CAP_PERFMON, and a kernel with BTF. A command is recorded with everything else that happens on
its device meanwhile, and until what it left in the page cache is written. docs/record.md tells what each attribute means.
Exit 0: recorded; 1: requests are missing, or the command failed; 2: it could not be done.")]
    Record(Box<crate::cli_record::RecordOptions>),
    /// Looks at a configuration without touching a device
    #[command(after_help = "Example:
  forebay config check pool.toml
  forebay config schema > forebay.schema.json")]
    Config {
        #[command(subcommand)]
        action: ConfigAction,
    },
    /// Prints completions for a shell
    #[command(after_help = "Example:
  forebay completions bash > /usr/share/bash-completion/completions/forebay")]
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Writes manual pages, one for each verb
    #[command(after_help = "Example:
  forebay man /usr/local/share/man/man1 && man forebay-serve")]
    Man {
        /// Folder, made where it is not there
        folder: PathBuf,
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
pub enum ConfigAction {
    /// Checks a configuration
    #[command(after_help = "Example:\n  forebay config check pool.toml")]
    Check {
        /// Configuration file
        #[arg(default_value = DEFAULT_CONFIG)]
        config: PathBuf,
    },
    /// Prints the JSON schema of configurations
    #[command(after_help = "Example:\n  forebay config schema > forebay.schema.json")]
    Schema,
}

/// Options of `forebay conformance`.
#[derive(Debug, clap::Args)]
pub struct ConformanceOptions {
    /// Only tests with this in their drive, name, host or source; or an experiment (queue-depth, surface, mixed, endurance,
    /// pair), whose data are shown too; or a use case of two tiers (oq-rocksdb, oq-mongodb); or wa, the write amplification of
    /// policies of placement; or cache, the hit ratios of policies of the read cache
    pub part: Option<String>,
    /// I/Os of each test; a tenth of them for each point of an experiment (default 2000000)
    #[arg(long, value_name = "N")]
    pub ios: Option<u64>,
    /// All points of curves and surfaces; takes a few times as long
    #[arg(long)]
    pub full: bool,
    /// Exit 1 where a figure is outside its limits
    #[arg(long)]
    pub strict: bool,
    /// Of a use case: size of everything, 1 for the published run (default 0.001, of oq-mongodb 0.0005)
    #[arg(long, value_name = "X")]
    pub scale: Option<f64>,
    /// Of a use case: seeds, a run of each set-up for each, 1 to 99 (default 5)
    #[arg(long, value_name = "N")]
    pub seeds: Option<u32>,
    /// Of a use case: size of the fast tier (default: the published one at that scale)
    #[arg(long, value_name = "SIZE", value_parser = forebay_block::size::parse_size_bytes)]
    pub fast_size: Option<u64>,
    /// Of wa and cache: a trace or a generator beside the built-in ones; may be repeated
    #[arg(long, value_name = "TRACE")]
    pub trace: Vec<String>,
    /// Of wa and cache: only what --trace names, without the built-in ones
    #[arg(long, requires = "trace")]
    pub only: bool,
    /// Of wa: only bands of so much data, such as 4MiB; may be repeated
    #[arg(long, value_name = "SIZE", value_parser = forebay_block::size::parse_size_bytes)]
    pub band: Vec<u64>,
    /// Of wa: only that much spare space, in percent; may be repeated
    #[arg(long, value_name = "PERCENT")]
    pub spare: Vec<u32>,
    /// Of cache: only caches of so many percent of the blocks that are read; may be repeated
    #[arg(long, value_name = "PERCENT")]
    pub cache_percent: Vec<f64>,
    /// Prints the JSON schema of results; needs nothing else
    #[arg(long)]
    pub schema: bool,
}

/// Options of `forebay simulate`.
#[derive(Debug, clap::Args)]
pub struct SimulateOptions {
    /// Lives
    #[arg(long, default_value_t = 2000, value_name = "N", conflicts_with = "minutes")]
    pub count: u64,
    /// As many lives as fit into this time
    #[arg(long, value_name = "MINUTES")]
    pub minutes: Option<f64>,
    /// Number of the first; each number has a seed of its own, which a failure is reported with
    #[arg(long, default_value_t = 0, value_name = "NUMBER")]
    pub from: u64,
    /// This life only; a failing one is shrunk and shown with its log
    #[arg(long, value_name = "SEED", conflicts_with_all = ["count", "minutes", "from"])]
    pub seed: Option<u64>,
    /// Lives at once; all cores where left out
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
    /// Prints the JSON schema of results; needs nothing else
    #[arg(long)]
    pub schema: bool,
}

//! Command-line options of a measurement.

use clap::Args;
use std::path::PathBuf;

/// What is kept of the I/Os of a load.
#[derive(Clone, Debug, Args)]
pub struct TelemetryOptions {
    /// Percentiles, e.g. 50,99,99.999
    #[arg(long, value_name = "LIST")]
    pub percentiles: Option<String>,
    /// Length of an interval of the log; a fortieth of the run by default, 10ms to 1s
    #[arg(long, value_name = "TIME")]
    pub interval: Option<String>,
    /// Write the time series as CSV to this file: a row for each interval and direction
    #[arg(long, value_name = "FILE")]
    pub series: Option<PathBuf>,
    /// Write a record of every I/O to this file
    #[arg(long, value_name = "FILE")]
    pub records: Option<PathBuf>,
    /// Convert the records to this Parquet file
    #[arg(long, value_name = "FILE", requires = "records")]
    pub parquet: Option<PathBuf>,
}

/// Options of `forebay bench`.
#[derive(Clone, Debug, Args)]
pub struct BenchOptions {
    /// Job file, name of an experiment, or a generator such as ycsb:?workload=b
    pub job: Option<PathBuf>,
    /// What is measured: a path or a URI; for application-shaped loads a directory. Given several times, all at the same time
    #[arg(long, value_name = "URI")]
    pub target: Vec<String>,
    /// Run on this host too, as ssh takes it; with =URI its own target. Given several times, on all at one instant
    #[arg(long, value_name = "[USER@]HOST[=URI]")]
    pub host: Vec<String>,
    /// How hosts are reached, options parted by spaces (default: ssh -o BatchMode=yes -o ConnectTimeout=10)
    #[arg(long, value_name = "COMMAND", requires = "host")]
    pub ssh: Option<String>,
    /// forebay on the hosts, as "sudo -n forebay" (default: forebay)
    #[arg(long, value_name = "COMMAND", requires = "host")]
    pub host_program: Option<String>,
    /// What --host starts on a host: follows a coordinator at standard input
    #[arg(long, conflicts_with = "host")]
    pub follow: bool,
    /// Names the experiments and generators
    #[arg(long)]
    pub list: bool,
    /// Prints the JSON schema of results
    #[arg(long)]
    pub schema: bool,
    /// A key of the job, as in a TOML job file; may be given several times
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// DiskSpd's options, distinguished before
    #[arg(long, hide = true, allow_hyphen_values = true)]
    pub diskspd: Vec<String>,
    /// What the target holds may be lost
    #[arg(long)]
    pub destroy_data: bool,
    /// Time of measurement of every job, e.g. 30s
    #[arg(long, value_name = "TIME")]
    pub runtime: Option<String>,
    /// Time before measurement begins, e.g. 2s
    #[arg(long, value_name = "TIME")]
    pub warmup: Option<String>,
    /// Seed of places, kinds, sizes and times; content differs from run to run, so that no drive recognises it
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    #[command(flatten)]
    pub telemetry: TelemetryOptions,
    /// Also look at the requests of one job at the block layer, by probes in the kernel: needs root, and takes a microsecond or two each
    #[arg(long)]
    pub block_layer: bool,
    /// Compare with this target: interleaved rounds, ratio with its interval
    #[arg(long, value_name = "URI")]
    pub against: Option<String>,
    /// Compare with these settings on the same target, as --set has them, in their place or beside them
    #[arg(long, value_name = "KEY=VALUE", conflicts_with = "against")]
    pub against_set: Vec<String>,
    /// Rounds of a comparison or of an interleaved experiment; 5 by default
    #[arg(long, value_name = "N")]
    pub rounds: Option<u32>,
    /// Comparisons: say how many rounds it takes to show this difference; 5 by default
    #[arg(long, value_name = "PERCENT")]
    pub difference: Option<f64>,
    /// Before anything: purge, sequential=PASSES, random=PASSES, fill=PERCENT, with commas between
    #[arg(long, value_name = "WHAT")]
    pub condition: Option<String>,
    /// Experiments: a look in minutes instead of a measurement
    #[arg(long)]
    pub quick: bool,
    /// Experiments: share of reads in percent
    #[arg(long, value_name = "PERCENT")]
    pub read_percent: Option<u32>,
    /// Experiments: deepest depth of a sweep
    #[arg(long, value_name = "N")]
    pub depth_max: Option<u32>,
    /// qd-sweep: weigh the curve by the depths of an application (JSON: {"depths": [{"depth": 1, "share": 0.6}]})
    #[arg(long, value_name = "FILE")]
    pub application: Option<PathBuf>,
    /// write-saturation: capacities to write
    #[arg(long, value_name = "N")]
    pub capacities: Option<f64>,
    /// qos: I/Os a second; half of the peak by default
    #[arg(long, value_name = "IOPS")]
    pub rate: Option<f64>,
    /// Application-shaped loads: number of files
    #[arg(long, value_name = "N")]
    pub files: Option<u64>,
    /// Application-shaped loads: mean size of a file
    #[arg(long, value_name = "SIZE")]
    pub file_size: Option<String>,
    /// Write the result as fio's json+ to this file
    #[arg(long, value_name = "FILE")]
    pub fio_json: Option<PathBuf>,
    /// Write fio's log files with this begin of their names
    #[arg(long, value_name = "PREFIX")]
    pub fio_logs: Option<PathBuf>,
}

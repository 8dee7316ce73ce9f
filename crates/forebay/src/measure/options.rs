//! Command-line options of a measurement.

use clap::Args;
use std::path::PathBuf;

/// What is kept of the I/Os of a load.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Output")]
pub struct TelemetryOptions {
    /// Percentiles to report, such as 50,99,99.999
    #[arg(long, value_name = "LIST")]
    pub percentiles: Option<String>,
    /// Length of an interval of the time series (default: a fortieth of the run, from 10ms to 1s)
    #[arg(long, value_name = "TIME")]
    pub interval: Option<String>,
    /// Write the time series to this CSV file: a row for each interval and direction
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
    /// Name the experiments and generators
    #[arg(long)]
    pub list: bool,
    /// Print the JSON schema of results; needs nothing else
    #[arg(long)]
    pub schema: bool,
    /// What to measure: a path or a URI, for application-shaped loads a directory; several are measured at the same time
    #[arg(long, value_name = "URI", help_heading = "Job")]
    pub target: Vec<String>,
    /// Set a key of the job, as in a TOML job file; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE", help_heading = "Job")]
    pub set: Vec<String>,
    /// DiskSpd's options, distinguished before
    #[arg(long, hide = true, allow_hyphen_values = true)]
    pub diskspd: Vec<String>,
    /// Allow overwriting data on the target
    #[arg(long, help_heading = "Job")]
    pub destroy_data: bool,
    /// Measure every job for this time, such as 30s
    #[arg(long, value_name = "TIME", help_heading = "Job")]
    pub runtime: Option<String>,
    /// Run the load for this time before measurement begins, such as 2s
    #[arg(long, value_name = "TIME", help_heading = "Job")]
    pub warmup: Option<String>,
    /// Condition the drive first: purge, sequential=PASSES, random=PASSES, fill=PERCENT, with commas between
    #[arg(long, value_name = "WHAT", help_heading = "Job")]
    pub condition: Option<String>,
    /// Seed of places, kinds, sizes and times; content differs from run to run, so that no drive recognises it
    #[arg(long, value_name = "N", help_heading = "Job")]
    pub seed: Option<u64>,
    /// Number of files of an application-shaped load
    #[arg(long, value_name = "N", help_heading = "Job")]
    pub files: Option<u64>,
    /// Mean size of a file of an application-shaped load
    #[arg(long, value_name = "SIZE", help_heading = "Job")]
    pub file_size: Option<String>,
    /// Also observe the requests of one job at the block layer, by probes in the kernel
    ///
    /// It needs root, and takes a microsecond or two for each request.
    #[arg(long, help_heading = "Job")]
    pub block_layer: bool,
    /// Compare with this target: interleaved rounds, and the ratio with its interval
    #[arg(long, value_name = "URI", help_heading = "Comparison")]
    pub against: Option<String>,
    /// Compare with these settings on the same target: as --set has them, in their place or beside them
    #[arg(long, value_name = "KEY=VALUE", conflicts_with = "against", help_heading = "Comparison")]
    pub against_set: Vec<String>,
    /// Number of rounds of a comparison or of an interleaved experiment (default: 5)
    #[arg(long, value_name = "N", help_heading = "Comparison")]
    pub rounds: Option<u32>,
    /// Say how many rounds it takes to show a difference of this size (default: 5)
    #[arg(long, value_name = "PERCENT", help_heading = "Comparison")]
    pub difference: Option<f64>,
    /// Run for minutes, for a first look instead of a measurement
    #[arg(long, help_heading = "Experiment")]
    pub quick: bool,
    /// Share of reads
    #[arg(long, value_name = "PERCENT", help_heading = "Experiment")]
    pub read_percent: Option<u32>,
    /// Deepest depth of a sweep
    #[arg(long, value_name = "N", help_heading = "Experiment")]
    pub depth_max: Option<u32>,
    /// qd-sweep: weigh the curve by the depths of an application (JSON: {"depths": [{"depth": 1, "share": 0.6}]})
    #[arg(long, value_name = "FILE", help_heading = "Experiment")]
    pub application: Option<PathBuf>,
    /// write-saturation: write this many times the capacity
    #[arg(long, value_name = "N", help_heading = "Experiment")]
    pub capacities: Option<f64>,
    /// qos: I/Os a second (default: half of the peak)
    #[arg(long, value_name = "IOPS", help_heading = "Experiment")]
    pub rate: Option<f64>,
    /// Run on this host too, as ssh takes it; several run at one instant. With =URI it has its own target
    #[arg(long, value_name = "[USER@]HOST[=URI]", help_heading = "Hosts")]
    pub host: Vec<String>,
    /// Command that reaches a host, with spaces between its options (default: ssh -o BatchMode=yes -o ConnectTimeout=10)
    #[arg(long, value_name = "COMMAND", requires = "host", help_heading = "Hosts")]
    pub ssh: Option<String>,
    /// Command that runs forebay on a host, such as "sudo -n forebay" (default: forebay)
    #[arg(long, value_name = "COMMAND", requires = "host", help_heading = "Hosts")]
    pub host_program: Option<String>,
    /// Follow a coordinator at standard input, as a host that --host names: it starts this by ssh
    #[arg(long, conflicts_with = "host", help_heading = "Hosts")]
    pub follow: bool,
    #[command(flatten)]
    pub telemetry: TelemetryOptions,
    /// Write the result as fio's json+ to this file
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub fio_json: Option<PathBuf>,
    /// Write fio's log files; their names begin with PREFIX
    #[arg(long, value_name = "PREFIX", help_heading = "Output")]
    pub fio_logs: Option<PathBuf>,
}

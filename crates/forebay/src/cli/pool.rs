//! Verbs that make, serve, change and inspect a pool.

use crate::verbs::{ClassAction, DiskAction, EvidenceAction, ScrubVerb};
use clap::{Args, Subcommand};
use forebay_daemon::pool::Opening;
use std::path::PathBuf;

/// The configuration file where the command line names none.
pub const DEFAULT_CONFIG: &str = "/etc/forebay/pool.toml";

#[derive(Debug, Subcommand)]
pub enum PoolVerb {
    /// Run everything on two files: load, power cut, recovery, proof
    ///
    /// Build a pool over two files in a temporary directory, drive a database-shaped load through NBD, kill the server
    /// while its devices hold unflushed writes, recover, and check every flushed byte. It needs no device and no root.
    #[command(after_help = "Example:
  forebay demo
  forebay demo --quick --output json

Exit 0: every flushed byte is right; 1: one is wrong; 2: it could not be done.")]
    Demo(DemoOptions),
    /// Format the pool that CONFIG describes
    ///
    /// Refuse where a device holds anything, known or not, and list what was found there. Relative paths of targets in
    /// CONFIG are relative to the current directory.
    #[command(after_help = "Example:
  truncate -s 1G fast.img && truncate -s 8G capacity.img
  forebay create pool.toml")]
    Create {
        /// Configuration file
        #[arg(default_value = DEFAULT_CONFIG)]
        config: PathBuf,
        /// Format although something was found, and still list it
        #[arg(long)]
        destroy_data: bool,
    },
    /// Serve the disks of a pool until SIGINT or SIGTERM
    ///
    /// Print `ready URI` for each export once clients can connect; with --output json each line is an object: event
    /// (ready), uri, text.
    ///
    /// On SIGHUP, read CONFIG again: changes of classes, limits, exports and evidence take effect, and the log names
    /// what needs a restart. A pool of ram: targets is formatted at each start.
    ///
    /// FOREBAY_LOG=debug logs more, FOREBAY_LOG_FORMAT=json logs for programs, and FOREBAY_NO_IO_URING=1 avoids io_uring.
    #[command(after_help = "Example:
  forebay serve pool.toml
  nbdinfo 'nbd+unix:///db?socket=/run/forebay/db.sock'

To open a damaged or incomplete pool, give one of these:
  OPTION          WHEN                       WRITES  WHAT IS MISSING
  --salvage       the journal is damaged     no      changes of its lost part:
                                                     older data may be shown
  --without-fast  the fast tier is lost      no      what was only there
  --degraded      a capacity device is lost  no      what was only there
  --accept-loss   the start is refused as    yes     that data, for good
                  durable data would be lost
  --drop-members  a member of the mirrored   yes     no data, but the mirror has
                  fast tier is lost                  fewer members, for good

What is missing is printed before the first `ready`. Those that write nothing mend nothing: copy what can be saved, then \
restore the rest from a backup.")]
    Serve {
        /// Configuration file
        #[arg(default_value = DEFAULT_CONFIG)]
        config: PathBuf,
        #[command(flatten)]
        opening: OpeningOptions,
        /// Wait up to this many seconds for devices that are not there yet, as while a machine boots
        #[arg(long, value_name = "SECONDS", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=3600))]
        wait: u64,
    },
    /// Show a running server: tiers, classes, exports, latencies
    #[command(after_help = "Example:
  forebay status pool.toml
  forebay status pool.toml --output json | jq '.classes[] | {name, alpha, beta}'")]
    Status {
        /// Configuration file
        #[arg(default_value = DEFAULT_CONFIG)]
        config: PathBuf,
    },
    /// Show the status again and again until Ctrl-C
    #[command(after_help = "Example:
  forebay top pool.toml --interval 2
  forebay top pool.toml --count 1")]
    Top {
        /// Configuration file
        #[arg(default_value = DEFAULT_CONFIG)]
        config: PathBuf,
        /// Seconds from one refresh to the next
        #[arg(long, default_value_t = 1.0, value_name = "SECONDS")]
        interval: f64,
        /// Stop after this many refreshes
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
        count: Option<u64>,
    },
    /// List, add, change or import classes of a running pool
    ///
    /// Changes are stored in the pool. What CONFIG says of a class replaces them at the next start.
    #[command(after_help = "Example:
  forebay class pool.toml list
  forebay class pool.toml add wal --place fast --match 'path:**/pg_wal/**'
  forebay class pool.toml set log --place fast --share 0.25
  forebay class pool.toml import ioclass-config.csv")]
    Class {
        /// Configuration file; where it is left out, /etc/forebay/pool.toml
        config: PathBuf,
        #[command(subcommand)]
        action: ClassAction,
    },
    /// Show or change what the host tells a running pool of its data
    ///
    /// Evidence is hints that the kernel has for writes, and a map of files. With it, rules such as path:**/WAL/**,
    /// ext:sst, hint.lifetime:short, process:postgres or `rocksdb.level<=3` work in the pool.
    ///
    /// Name the block device above the export (nbd, loop, ublk), on this machine; the server looks for it until it is
    /// there. It needs the rights of `forebay record`. What `[[evidence]]` in CONFIG names is attached at each start.
    #[command(after_help = "Example:
  forebay evidence pool.toml attach --mount /mnt/db
  forebay evidence pool.toml attach --disk db --device /dev/nbd0 --no-files
  forebay evidence pool.toml list
  forebay evidence pool.toml detach --disk db")]
    Evidence {
        /// Configuration file; where it is left out, /etc/forebay/pool.toml
        config: PathBuf,
        #[command(subcommand)]
        action: EvidenceAction,
    },
    /// List, add, resize or remove disks of a running pool
    #[command(after_help = "Example:
  forebay disk pool.toml list
  forebay disk pool.toml add logs 4GiB --export
  forebay disk pool.toml resize db 128GiB
  forebay disk pool.toml remove logs --destroy-data logs
  forebay disk pool.toml detach-base db")]
    Disk {
        /// Configuration file; where it is left out, /etc/forebay/pool.toml
        config: PathBuf,
        #[command(subcommand)]
        action: DiskAction,
    },
    /// Read everything that a running pool stores, to find damage
    ///
    /// The scrub reads in idle time, mends what redundancy can mend, and goes on after a restart of the server.
    /// `[scrub] rate` in CONFIG bounds it; while hosts are active it is eight times slower.
    #[command(after_help = "Example:
  forebay scrub pool.toml start
  forebay scrub pool.toml status
  forebay scrub pool.toml pause

Exit 0: no damage was found; 1: damage was found; 2: it could not be done.")]
    Scrub {
        /// Configuration file; where it is left out, /etc/forebay/pool.toml
        config: PathBuf,
        /// What to do
        action: ScrubVerb,
    },
    /// Make a disk a block device of this machine; needs root
    ///
    /// Print the path of the device: /dev/ublkbN where the kernel has ublk, else /dev/nbdN by nbd-client. It stays until
    /// it is detached, or until the server is stopped while nobody uses it. A server that is started again goes on with
    /// a ublk device that is in use. For a device at every start, write `ublk = "auto"` into the `[[export]]`.
    #[command(after_help = "Example:
  forebay attach pool.toml db
  mkfs.xfs $(forebay attach db)")]
    Attach {
        /// Configuration file; where it is left out, /etc/forebay/pool.toml
        config: PathBuf,
        /// The disk; may be left out where there is only one
        disk: Option<String>,
    },
    /// Remove the block device of a disk, unless in use; needs root
    #[command(after_help = "Example:
  umount /srv/db && forebay detach pool.toml db")]
    Detach {
        /// Configuration file; where it is left out, /etc/forebay/pool.toml
        config: PathBuf,
        /// The disk; may be left out where there is only one
        disk: Option<String>,
    },
    /// Show what is on a device: superblock, geometry, signatures
    #[command(after_help = "Example:
  forebay inspect /dev/nvme0n1")]
    Inspect {
        /// Path or URI of a device; of one that a server uses, parts may be of different moments
        path: String,
    },
    /// Check all structures and checksums of a pool that is not served
    #[command(after_help = "Example:
  forebay verify pool.toml && echo sound")]
    Verify {
        /// Configuration file
        #[arg(default_value = DEFAULT_CONFIG)]
        config: PathBuf,
        /// Check only what the capacity tier holds by itself
        #[arg(long)]
        without_fast: bool,
    },
    /// Check a configuration, or print the schema of configurations
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
    /// Run a smaller load, for tests
    #[arg(long)]
    pub quick: bool,
    /// Directory for the pool's files (default: a new temporary one)
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Seed of load and power cut
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
}

/// Ways to open a pool that is damaged or incomplete.
#[derive(Clone, Debug, Args)]
#[group(multiple = false)]
pub struct OpeningOptions {
    /// Serve read-only in spite of a damaged journal; may show older data
    #[arg(long)]
    salvage: bool,
    /// Serve read-only without the fast tier
    ///
    /// Show the last checkpoint, and what reached the capacity tier after it.
    #[arg(long)]
    without_fast: bool,
    /// Serve read-only without capacity devices that are missing
    #[arg(long)]
    degraded: bool,
    /// Serve although durable data is lost for good
    ///
    /// Go on without unreadable parts of the journal; without pages of the map that cannot be read, or that only a missing
    /// member of the mirrored fast tier holds; and without what was in the blocks that were written last and cannot be
    /// read.
    #[arg(long)]
    accept_loss: bool,
    /// Serve, and remove missing members of the mirrored fast tier for good
    ///
    /// Take their `[[fast]]` sections out of CONFIG first.
    #[arg(long)]
    drop_members: bool,
}

impl OpeningOptions {
    /// The way of opening that is selected.
    pub fn opening(&self) -> Opening {
        let ways = [
            (self.salvage, Opening::Salvage),
            (self.without_fast, Opening::WithoutFast),
            (self.degraded, Opening::Degraded),
            (self.accept_loss, Opening::AcceptLoss),
            (self.drop_members, Opening::DropMembers),
        ];
        ways.into_iter().find(|(is_selected, _)| *is_selected).map_or(Opening::Recover, |(_, opening)| opening)
    }
}

#[derive(Debug, Subcommand)]
pub enum ConfigAction {
    /// Check a configuration, without touching a device
    #[command(after_help = "Example:\n  forebay config check pool.toml")]
    Check {
        /// Configuration file
        #[arg(default_value = DEFAULT_CONFIG)]
        config: PathBuf,
    },
    /// Print the JSON schema of configurations
    #[command(after_help = "Example:\n  forebay config schema > forebay.schema.json")]
    Schema,
}

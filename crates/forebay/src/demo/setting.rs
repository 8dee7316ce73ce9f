//! The pool of the demo: its files, its configuration, and the parts of its disk.

use super::line::Line;
use crate::cli::DemoOptions;
use anyhow::{Context, Result, bail};
use forebay_daemon::config::{self, Config};
use forebay_daemon::pool;
use forebay_device::{FileDevice, OpenMode};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

const MIB: u64 = 1 << 20;

/// Sizes in MiB.
struct Sizes {
    fast: u64,
    capacity: u64,
    log: u64,
    metadata: u64,
    temp: u64,
    cold: u64,
    seconds: f64,
}

const FULL: Sizes = Sizes { fast: 160, capacity: 1024, log: 16, metadata: 16, temp: 64, cold: 480, seconds: 10.0 };
const QUICK: Sizes = Sizes { fast: 96, capacity: 384, log: 8, metadata: 8, temp: 48, cold: 128, seconds: 1.5 };

/// The demo's files and parameters.
pub struct Setting {
    /// The configuration.
    pub config: Config,
    /// The configuration file.
    pub config_file: PathBuf,
    /// The server's log.
    pub log: PathBuf,
    /// How long each load runs.
    pub phase: Duration,
    sizes: &'static Sizes,
    directory: PathBuf,
    temporary: Option<TempDir>,
}

impl Setting {
    /// Creates the files and formats the pool.
    pub fn prepare(options: &DemoOptions) -> Result<Self> {
        let sizes = if options.quick { &QUICK } else { &FULL };
        let (directory, temporary) = match &options.dir {
            Some(directory) => {
                std::fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
                (directory.clone(), None)
            }
            None => {
                let temporary = tempfile::Builder::new()
                    .prefix("forebay-demo-")
                    .tempdir()
                    .context("cannot make a temporary directory: name one by --dir")?;
                (temporary.path().to_owned(), Some(temporary))
            }
        };
        let directory = std::fs::canonicalize(&directory)?;
        let Some(text) = directory.to_str().filter(|text| !text.contains(['"', '\\', '?', '%'])) else {
            bail!("the path {} has characters that the demo's configuration cannot hold", directory.display());
        };
        for (name, mib) in [("fast.img", sizes.fast), ("capacity.img", sizes.capacity)] {
            let path = directory.join(name);
            FileDevice::create_file(&path, mib * MIB)
                .with_context(|| format!("cannot make {}: the demo wants an empty directory", path.display()))?;
        }
        let config_file = directory.join("demo.toml");
        std::fs::write(&config_file, configuration(text, sizes, options.seed))?;
        let config = config::load(&config_file)?;
        let mut devices = pool::open_devices(&config, OpenMode::ReadWrite)?;
        pool::format(&config, &mut devices, &mut pool::Ids::Random)?;
        drop(devices);
        Ok(Self {
            config,
            config_file,
            log: directory.join("server.log"),
            phase: Duration::from_secs_f64(sizes.seconds),
            sizes,
            directory,
            temporary,
        })
    }

    /// A line for each part of the disk.
    pub fn lines(&self) -> Vec<Line> {
        let Sizes { log, metadata, temp, cold, .. } = self.sizes;
        let mut first = 0;
        let parts = [("log", log), ("metadata", metadata), ("temp", temp), ("cold", cold)];
        parts
            .into_iter()
            .map(|(class, mib)| {
                let blocks = mib * MIB / forebay_block::BLOCK_BYTES as u64;
                let start = first;
                first += blocks;
                Line::new(class, start..first)
            })
            .collect()
    }

    /// Keeps the files for inspection; returns their directory.
    pub fn keep(mut self) -> PathBuf {
        match self.temporary.take() {
            Some(temporary) => temporary.keep(),
            None => Path::new(&self.directory).to_owned(),
        }
    }
}

/// The configuration as a user would write it. The `volatile:` targets lose unflushed data when the process dies.
fn configuration(directory: &str, sizes: &Sizes, seed: u64) -> String {
    let Sizes { log, metadata, temp, cold, .. } = sizes;
    let (a, b, c) = (*log, log + metadata, log + metadata + temp);
    let size = c + cold;
    format!(
        r#"[pool]
name = "demo"

[[fast]]
target = "volatile:{directory}/fast.img?seed={seed}"

[[capacity]]
target = "volatile:{directory}/capacity.img?seed={seed}"
band = "4MiB"

[[disk]]
name = "db"
size = "{size}MiB"

[memory]
limit = "128MiB"

[[export]]
disk = "db"
nbd = "unix:{directory}/db.sock"

[[class]]
name = "log"
place = "fast"
match = ["disk:db & offset:0..{a}MiB"]

[[class]]
name = "metadata"
place = "fast"
match = ["disk:db & offset:{a}MiB..{b}MiB"]

[[class]]
name = "temp"
place = "stage"
match = ["disk:db & offset:{b}MiB..{c}MiB"]
"#
    )
}

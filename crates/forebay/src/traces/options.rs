//! Options of verbs that read traces, and of those that analyze them.

use super::Named;
use super::levels::Levels;
use super::rules::{Loaded, load as load_rules};
use crate::output;
use crate::parallel::processors;
use anyhow::{Result, anyhow, bail};
use forebay_block::size::parse_size_bytes;
use forebay_prism::Need;
use forebay_trace::analysis::{By, Options};
use forebay_trace::format::parquet::Wanted;
use std::path::PathBuf;
use std::sync::Arc;

/// How traces are read, for all verbs that read one.
#[derive(Clone, Debug, clap::Args)]
pub struct ReadingOptions {
    /// Format of the trace (default: found out from its contents)
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<String>,
    /// Tell classes by rules: rocksdb, mongodb, postgresql, mysql, sqlite, or a file with `[[class]]` sections
    #[arg(long, value_name = "RULES")]
    pub rules: Option<String>,
    /// LOG file of the RocksDB database that wrote the trace, for the levels of its tables (rocksdb.level, --by level);
    /// of several databases, with commas between
    #[arg(long, value_name = "LOG", value_delimiter = ',')]
    pub rocksdb_log: Vec<PathBuf>,
    /// Read only this volume of the trace
    #[arg(long, value_name = "NAME")]
    pub volume: Option<String>,
}

impl ReadingOptions {
    /// The traces that `text` names, with these options.
    ///
    /// # Errors
    /// Nothing exists under this name, or a LOG file cannot be read.
    pub fn named(&self, text: &str) -> Result<Vec<Named>> {
        let mut list = super::named(text, self.volume.as_deref())?;
        if !self.rocksdb_log.is_empty() {
            let levels = Arc::new(Levels::read(&self.rocksdb_log)?);
            levels.faults().iter().for_each(output::complain);
            list.iter_mut().for_each(|trace| trace.levels = Some(levels.clone()));
        }
        Ok(list)
    }

    /// Loads the rules of the options.
    ///
    /// # Errors
    /// As [`load_rules`].
    pub fn rules(&self) -> Result<Loaded> {
        Ok(self.rules.as_deref().map(load_rules).transpose()?.unwrap_or_default())
    }
}

/// What an analysis follows.
#[derive(Clone, Debug, clap::Args)]
pub struct FollowingOptions {
    /// What the rows stand for: class, hint, directory, extension, process, io-class, volume, level
    #[arg(long, default_value = "class", value_name = "WHAT")]
    pub by: String,
    /// Memory for what is known of each block; where it does not suffice, blocks are sampled
    #[arg(long, default_value = "1GiB", value_name = "SIZE", value_parser = parse_size_bytes)]
    pub memory: u64,
    /// Follow one block in N, a power of two, from the first on: faster, and nearly as exact
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub sample: u64,
}

impl FollowingOptions {
    /// Refuses impossible values.
    ///
    /// # Errors
    /// A sample that is no power of two, or too little memory.
    pub fn check(&self) -> Result<()> {
        if !self.sample.is_power_of_two() || self.sample > 1 << 30 {
            bail!("--sample {}: a power of two up to 2^30, such as 64", self.sample);
        }
        if self.memory < 1 << 20 {
            bail!("--memory: at least 1MiB");
        }
        Ok(())
    }

    /// What the rows stand for.
    ///
    /// # Errors
    /// An unknown name; the error lists the known ones.
    pub fn by(&self) -> Result<By> {
        let found = By::ALL.iter().find(|(_, known)| *known == self.by).map(|(by, _)| *by);
        found.ok_or_else(|| {
            let known: Vec<&str> = By::ALL.iter().map(|(_, name)| *name).collect();
            anyhow!("--by {}: one of {}", self.by, known.join(", "))
        })
    }

    /// Options of the analysis of each of `at_a_time` traces, with these rules.
    pub fn analysis(&self, by: By, Loaded { rules, bypassed }: Loaded, at_a_time: usize) -> Options {
        Options {
            memory_bytes: self.memory / at_a_time as u64,
            sample_halvings: self.sample.trailing_zeros(),
            by,
            rules,
            bypassed,
            processors: processors() / at_a_time,
        }
    }
}

/// The columns that the rows and rules need.
pub fn wanted_columns(how: &Options) -> Wanted {
    let asked: Vec<Need> = how.rules.iter().flat_map(|(_, rule)| rule.needs()).map(|(need, _)| need).collect();
    let has = |need| asked.contains(&need);
    Wanted {
        latency: true,
        queued: false,
        volume: true,
        lifetime: true,
        flags: true,
        depth: true,
        io_class: how.by == By::IoClass || has(Need::IoClass),
        process: true,
        pid: has(Need::Pid),
        cgroup: has(Need::Cgroup),
        inode: false,
        path: matches!(how.by, By::Directory | By::Extension | By::Level) || has(Need::Path) || has(Need::SstLevel),
    }
}

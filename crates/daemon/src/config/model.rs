//! The sections and keys of the file.

use super::tls::Tls;
use super::ublk::{Ublk, UblkForms};
use super::values::{
    Address, Compression, Grouping, HttpAddress, LogTime, Place, Poll, PollForms, Redundancy, Share, ShareForms, Size,
    SizeForms, SocketMode, TargetText, TlsWord,
};
use forebay_export::Listen;
use forebay_prism::ClassSpec;
use schemars::JsonSchema;
use serde::Deserialize;
use std::path::PathBuf;

/// Connections at a time where the configuration sets no limit.
const CONNECTIONS_DEFAULT: u16 = 64;

/// A pool: its devices, its disks, the exports that serve them, and the classes that decide where data is placed.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The pool itself.
    pub pool: Pool,
    /// The fast device. Two or three fast devices form a mirror and hold the same data.
    #[serde(default)]
    pub fast: Vec<Fast>,
    /// Capacity devices.
    #[serde(default)]
    pub capacity: Vec<Capacity>,
    /// Thin disks, made by `forebay create`.
    #[serde(default)]
    pub disk: Vec<Disk>,
    /// Memory limits of the server.
    #[serde(default)]
    pub memory: Memory,
    /// The scrub, which reads all data to find damage.
    #[serde(default)]
    pub scrub: Scrub,
    /// Adoption: copying the data of disks' bases into the pool.
    #[serde(default)]
    pub adopt: Adopt,
    /// Copies on the fast tier of data read from the capacity tier, for classes with `read_cache`.
    #[serde(default)]
    pub read_cache: ReadCache,
    /// Where disks are served.
    #[serde(default)]
    pub export: Vec<Export>,
    /// Evidence: what the hosts of disks report of their data.
    #[serde(default)]
    pub evidence: Vec<Evidence>,
    /// Classes of data. A built-in class that is not listed here keeps its built-in policy.
    #[serde(default)]
    pub class: Vec<Class>,
    /// The server process.
    #[serde(default)]
    pub server: Server,
    /// Thresholds from which on the server logs.
    #[serde(default)]
    pub log: Log,
    /// Metrics over HTTP.
    #[serde(default)]
    pub metrics: Metrics,
    /// TLS for exports.
    pub tls: Option<Tls>,
}

/// `[pool]`
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pool {
    /// Name of the pool, at most 64 bytes.
    pub name: String,
    /// Allows the disks' sizes to exceed the pool. Writes fail once the pool is full.
    #[serde(default)]
    pub overcommit: bool,
    /// How data on the capacity tier is grouped by lifetime, so that the blocks of a band become free together.
    #[schemars(with = "String")]
    #[serde(default)]
    pub grouping: Grouping,
    /// Parity over the capacity devices, as `data+parity`. Up to `parity` devices may be lost. Cannot be changed
    /// after `create`.
    #[schemars(with = "Option<String>")]
    pub redundancy: Option<Redundancy>,
}

/// `[[fast]]`
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fast {
    /// Path or URI of the device.
    #[schemars(with = "String")]
    pub target: TargetText,
    /// Bytes that may be written to the device over its life, as its data sheet rates it. Models know theirs.
    #[schemars(with = "Option<SizeForms>")]
    pub endurance: Option<Size>,
}

/// `[[capacity]]`
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Capacity {
    /// Path or URI of the device.
    #[schemars(with = "String")]
    pub target: TargetText,
    /// Unit in which the device is written and freed. By default the device's own unit where it reports one, else
    /// derived from its size.
    #[schemars(with = "Option<SizeForms>")]
    pub band: Option<Size>,
    /// Bytes that may be written to the device sequentially over its life, as its data sheet rates it. Models know
    /// theirs.
    #[schemars(with = "Option<SizeForms>")]
    pub endurance: Option<Size>,
}

/// `[[disk]]`
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Disk {
    /// Name: letters, digits, `-`, `_`, `.`.
    pub name: String,
    /// Size; a multiple of 4 KiB.
    #[schemars(with = "SizeForms")]
    pub size: Size,
    /// Path or URI of a device whose data becomes the disk's first contents (its base). The base is never written.
    /// All of it is copied into the pool while the disk is served, until `forebay disk CONFIG detach-base`.
    #[schemars(with = "Option<String>")]
    pub base: Option<TargetText>,
}

/// `[memory]`
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// Limit for all memory of the server, except the contents of `ram:` targets.
    #[schemars(with = "SizeForms")]
    #[serde(default = "Memory::default_limit")]
    pub limit: Size,
}

impl Memory {
    fn default_limit() -> Size {
        Size(1 << 30)
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self { limit: Self::default_limit() }
    }
}

/// `[adopt]`
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Adopt {
    /// Highest rate of copying from bases, in bytes per second, while hosts are idle; an eighth of it while they are
    /// not.
    #[schemars(with = "SizeForms")]
    #[serde(default = "Adopt::default_rate")]
    pub rate: Size,
}

impl Adopt {
    fn default_rate() -> Size {
        Size(256 << 20)
    }
}

impl Default for Adopt {
    fn default() -> Self {
        Self { rate: Self::default_rate() }
    }
}

/// `[scrub]`
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Scrub {
    /// Highest rate of a scrub, in bytes per second, while hosts are idle; an eighth of it while they are not.
    #[schemars(with = "SizeForms")]
    #[serde(default = "Scrub::default_rate")]
    pub rate: Size,
}

impl Scrub {
    fn default_rate() -> Size {
        Size(64 << 20)
    }
}

impl Default for Scrub {
    fn default() -> Self {
        Self { rate: Self::default_rate() }
    }
}

/// `[read_cache]`
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadCache {
    /// Highest rate of copying to the fast tier, in bytes per second.
    #[schemars(with = "SizeForms")]
    #[serde(default = "ReadCache::default_rate")]
    pub rate: Size,
    /// Part of `memory.limit` that holds data read from the capacity tier before it is copied to the fast tier. By
    /// default a sixteenth where any class has a read cache, else a sixty-fourth.
    #[schemars(with = "Option<SizeForms>")]
    pub memory: Option<Size>,
}

impl ReadCache {
    fn default_rate() -> Size {
        Size(64 << 20)
    }
}

impl Default for ReadCache {
    fn default() -> Self {
        Self { rate: Self::default_rate(), memory: None }
    }
}

/// `[[export]]`
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Export {
    /// The disk; may be left out where there is only one.
    pub disk: Option<String>,
    /// Where to listen for NBD: `unix:/path` or `tcp:127.0.0.1:10809`.
    #[schemars(with = "Option<String>")]
    pub nbd: Option<Address>,
    /// Serves the disk as a block device of this machine's kernel: "auto", or N for /dev/ublkbN.
    #[schemars(with = "Option<UblkForms>")]
    pub ublk: Option<Ublk>,
    /// Serves the disk as a block device of virtual machines (vhost-user-blk) at the socket `unix:/path`.
    pub vhost: Option<String>,
    /// Name of the export; the disk's by default.
    pub name: Option<String>,
    /// Refuses writes.
    #[serde(default)]
    pub read_only: bool,
    /// Class of every write through this export; overrides the rules.
    pub class: Option<String>,
    /// Turns on polling for the whole server; see `server.poll`.
    #[schemars(with = "Option<PollForms>")]
    pub poll: Option<Poll>,
    /// Which connections must use TLS: "required" (all), "network" (TCP only), "optional" (none). With `[tls]` the
    /// default is "network", and "required" where `allow` is set.
    pub tls: Option<TlsWord>,
    /// Clients that may see the export, each by a name in its certificate or by the identity of its pre-shared key.
    /// By default every client that `[tls]` admits.
    pub allow: Option<Vec<String>>,
}

/// `[[evidence]]`: what the host that uses a disk reports of its data, where that host is this machine.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Evidence {
    /// The disk; may be left out where there is only one.
    pub disk: Option<String>,
    /// Block device above the disk's export: nbd, loop, ublk.
    pub device: Option<PathBuf>,
    /// Where the disk's file system is mounted.
    pub mount: Option<PathBuf>,
    /// Whether kernel probes report the writes to the device.
    #[serde(default = "Evidence::yes")]
    pub hints: bool,
    /// Whether the files of its file system are mapped to blocks.
    #[serde(default = "Evidence::yes")]
    pub files: bool,
}

impl Evidence {
    fn yes() -> bool {
        true
    }
}

/// `[[class]]`
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Class {
    /// Name; `cold` (the default class), `metadata`, `log`, `temp` and `hot` are built in.
    pub name: String,
    /// Where writes of this class go.
    pub place: Place,
    /// Whether data of this class that is read from the capacity tier is copied to the fast tier.
    #[serde(default)]
    pub read_cache: bool,
    /// How its data is compressed on the capacity tier: "off", "lz4", or "zstd:LEVEL" with a level from 1 to 19.
    #[schemars(with = "String")]
    #[serde(default)]
    pub compress: Compression,
    /// Largest share of the fast tier that this class may occupy: 0.0 to 1.0, or such as "25%".
    #[schemars(with = "ShareForms")]
    #[serde(default = "Class::default_share")]
    pub share: Share,
    /// Order in which classes' rules are tried: smaller numbers first.
    #[serde(default = "Class::default_priority")]
    pub priority: u16,
    /// Rules; a write belongs to the class if any of them holds.
    #[serde(default, rename = "match")]
    pub rules: Vec<String>,
}

impl Class {
    fn default_share() -> Share {
        Share(1.0)
    }

    fn default_priority() -> u16 {
        100
    }

    /// The class in the form that the classifier reads.
    pub fn spec(&self) -> ClassSpec {
        ClassSpec {
            name: self.name.clone(),
            place: self.place.into(),
            read_cache: self.read_cache,
            compress: self.compress.0,
            share: self.share.0,
            priority: self.priority,
            rules: self.rules.clone(),
        }
    }
}

/// `[server]`
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// How long the event loop polls for new requests before it sleeps: `false`, `true` (100us) or a duration.
    /// Polling saves wake-ups at low queue depth and costs up to a whole core while clients are busy.
    #[schemars(with = "Option<PollForms>")]
    pub poll: Option<Poll>,
    /// Connections at a time, 1 to 16384; 64 by default.
    pub max_connections: Option<u16>,
    /// Allows TCP exports to listen beyond loopback where `[tls]` protects them.
    #[serde(default)]
    pub allow_remote: bool,
    /// Allows them to listen there without TLS too. Anybody who can reach the port, or is on the network path, can
    /// then read and write.
    #[serde(default)]
    pub allow_remote_without_tls: bool,
    /// Path of the control socket. By default derived from CONFIG; docs/configuration.md says how.
    pub control: Option<String>,
    /// Mode of all Unix sockets, such as "0660". By default the umask decides for exports, and the control socket is
    /// open to this user alone.
    #[schemars(with = "Option<String>")]
    pub socket_mode: Option<SocketMode>,
    /// Group of all Unix sockets, by name or number.
    pub socket_group: Option<String>,
}

/// `[metrics]`: metrics for Prometheus, a live page and a health check over HTTP, all read-only.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Metrics {
    /// Address and port to listen at, such as `127.0.0.1:9650`. Without it there are no metrics.
    #[schemars(with = "Option<String>")]
    pub listen: Option<HttpAddress>,
    /// Allows metrics beyond loopback. There is neither authentication nor encryption.
    #[serde(default)]
    pub allow_remote: bool,
}

/// `[log]`
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Log {
    /// Share of the pool's usable space from which on the pool is logged as nearly full; 85% by default.
    #[schemars(with = "Option<ShareForms>")]
    pub nearly_full: Option<Share>,
    /// Share from which on the pool is logged as full; 95% by default.
    #[schemars(with = "Option<ShareForms>")]
    pub full: Option<Share>,
    /// Latency of one request, such as 500ms or 2s, from which on its device is logged as slow; 1s by default.
    #[schemars(with = "Option<String>")]
    pub slow_device: Option<LogTime>,
}

/// Thresholds of the log.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogLimits {
    /// Share of the usable space, 0.0 to 1.0, from which on the pool counts as nearly full.
    pub nearly_full: f64,
    /// Share of the usable space, 0.0 to 1.0, from which on the pool counts as full.
    pub full: f64,
    /// Latency of one request from which on its device counts as slow, in nanoseconds.
    pub slow_device_ns: u64,
}

impl Log {
    /// The configured thresholds, with defaults for those that are absent.
    pub fn limits(&self) -> LogLimits {
        LogLimits {
            nearly_full: self.nearly_full.map_or(0.85, |share| share.0),
            full: self.full.map_or(0.95, |share| share.0),
            slow_device_ns: self.slow_device.map_or(1_000_000_000, |time| time.0),
        }
    }
}

impl Export {
    /// Address at which the export listens for NBD; `None` where it has no NBD address.
    pub fn listen(&self) -> Option<Listen> {
        self.nbd.as_ref().map(|address| address.at.clone())
    }

    /// Path of the vhost-user socket; `None` where the export has none.
    pub fn vhost_path(&self) -> Option<PathBuf> {
        match self.vhost.as_deref()?.parse().ok()? {
            Listen::Unix(path) => Some(path),
            Listen::Tcp(_) => None,
        }
    }

    /// Address of the export as messages name it.
    pub fn door(&self) -> &str {
        let other = if self.ublk.is_some() { "ublk" } else { "no address" };
        let nbd = self.nbd.as_ref().map(|address| address.text.as_str());
        nbd.or(self.vhost.as_deref()).unwrap_or(other)
    }
}

impl Config {
    /// Targets in the order of the pool: fast, then capacity.
    pub fn targets(&self) -> impl Iterator<Item = &forebay_device::Target> {
        let fast = self.fast.iter().map(|device| &device.target.0);
        fast.chain(self.capacity.iter().map(|device| &device.target.0))
    }

    /// The first tier that is a model in virtual time. Either all tiers are models or none is.
    pub fn modelled(&self) -> Option<&forebay_device::Target> {
        self.targets().find(|target| matches!(target, forebay_device::Target::Model(_)))
    }

    /// The configured band size in bytes; `None` where the file sets none.
    pub fn band_bytes(&self) -> Option<u64> {
        self.capacity.iter().find_map(|device| device.band).map(|size| size.0)
    }

    /// All configured classes in the form that the classifier reads.
    pub fn class_specs(&self) -> Vec<ClassSpec> {
        self.class.iter().map(Class::spec).collect()
    }

    /// Limit of connections at a time.
    pub fn connections_max(&self) -> u16 {
        self.server.max_connections.unwrap_or(CONNECTIONS_DEFAULT)
    }

    /// Longest polling time of any export or of the server, in nanoseconds; 0 where nothing polls.
    pub fn poll_ns(&self) -> u64 {
        let exports = self.export.iter().filter_map(|export| export.poll);
        exports.chain(self.server.poll).map(|poll| poll.ns).max().unwrap_or(0)
    }
}

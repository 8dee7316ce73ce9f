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

/// Connections at a time where the configuration does not say.
const CONNECTIONS_DEFAULT: u16 = 64;

/// A pool: its devices, its disks, where they are exported, and the classes that decide what lies where.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The pool itself.
    pub pool: Pool,
    /// The fast device; two or three of them are a mirror, and hold the same.
    #[serde(default)]
    pub fast: Vec<Fast>,
    /// Capacity devices.
    #[serde(default)]
    pub capacity: Vec<Capacity>,
    /// Thin disks, made by `forebay create`.
    #[serde(default)]
    pub disk: Vec<Disk>,
    /// Memory.
    #[serde(default)]
    pub memory: Memory,
    /// Reading everything to find damage.
    #[serde(default)]
    pub scrub: Scrub,
    /// Copying what disks have in their bases.
    #[serde(default)]
    pub adopt: Adopt,
    /// Copies of what is read of the capacity tier, of classes with `read_cache`.
    #[serde(default)]
    pub read_cache: ReadCache,
    /// Where disks are served.
    #[serde(default)]
    pub export: Vec<Export>,
    /// What the hosts of disks say of their data.
    #[serde(default)]
    pub evidence: Vec<Evidence>,
    /// Classes of data; those not named keep their built-in policy.
    #[serde(default)]
    pub class: Vec<Class>,
    /// The server process.
    #[serde(default)]
    pub server: Server,
    /// What the server logs, and from when on.
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
    /// Lets the disks' sizes exceed the pool: writes may then fail when it is full.
    #[serde(default)]
    pub overcommit: bool,
    /// How data of the capacity tier is grouped by its lifetime, so that what shares a band dies together.
    #[schemars(with = "String")]
    #[serde(default)]
    pub grouping: Grouping,
    /// Parity over the capacity devices, `data+parity` of them: as many may be lost as there are of parity. Cannot be changed after `create`.
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
    /// What may be written to it over its life, as its data sheet rates it; known of models.
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
    /// Unit in which the device is written and freed; from the device where it tells, else from its size.
    #[schemars(with = "Option<SizeForms>")]
    pub band: Option<Size>,
    /// What may be written to it over its life in sequence, as its data sheet rates it; known of models.
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
    /// Path or URI of a device with data that the disk is laid over when it is made: nothing is written there, and all of it is copied into the
    /// pool while the disk is served, until `forebay disk CONFIG detach-base`.
    #[schemars(with = "Option<String>")]
    pub base: Option<TargetText>,
}

/// `[memory]`
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// Limit for everything the server holds in memory, contents of `ram:` targets excepted.
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
    /// Most bytes a second that are copied of bases while hosts ask for nothing; an eighth of it while they do.
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
    /// Most bytes a second, while hosts ask for nothing; an eighth of that while they do.
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
    /// Most bytes a second that are copied to the fast tier.
    #[schemars(with = "SizeForms")]
    #[serde(default = "ReadCache::default_rate")]
    pub rate: Size,
    /// Memory for what was read, before the fast tier, of `memory.limit`: a sixteenth of it where any class has a read cache, a sixty-fourth
    /// otherwise.
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
    /// As a block device of this machine's kernel: "auto", or N for /dev/ublkbN.
    #[schemars(with = "Option<UblkForms>")]
    pub ublk: Option<Ublk>,
    /// As a block device of virtual machines (vhost-user-blk), which find it at `unix:/path`.
    pub vhost: Option<String>,
    /// Name of the export; the disk's by default.
    pub name: Option<String>,
    /// Refuses writes.
    #[serde(default)]
    pub read_only: bool,
    /// Class of everything written through this export, whatever the rules say.
    pub class: Option<String>,
    /// Turns on polling for the whole server; see `server.poll`.
    #[schemars(with = "Option<PollForms>")]
    pub poll: Option<Poll>,
    /// Which connections must be in TLS: "required" (all), "network" (those by TCP), "optional". By default, with `[tls]`,
    /// "network"; "required" where there is `allow`.
    pub tls: Option<TlsWord>,
    /// Clients that see the export, by a name of their certificate or the identity of their pre-shared key; by default all
    /// that `[tls]` lets in.
    pub allow: Option<Vec<String>>,
}

/// `[[evidence]]`: what the host that uses a disk says of its data, where that host is this machine.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Evidence {
    /// The disk; may be left out where there is only one.
    pub disk: Option<String>,
    /// Block device above the disk's export: nbd, loop, ublk.
    pub device: Option<PathBuf>,
    /// Where the disk's file system is mounted.
    pub mount: Option<PathBuf>,
    /// Whether the kernel is asked about writes to the device.
    #[serde(default = "Evidence::yes")]
    pub hints: bool,
    /// Whether files of its file system are mapped.
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
    /// Where its writes go.
    pub place: Place,
    /// Whether what is read of it on the capacity tier gets copies on the fast one.
    #[serde(default)]
    pub read_cache: bool,
    /// How its data is compressed on the capacity tier: "off", "lz4", or "zstd:LEVEL" with a level from 1 to 19.
    #[schemars(with = "String")]
    #[serde(default)]
    pub compress: Compression,
    /// Share of the fast tier that it may hold, 0.0 to 1.0, or such as "25%".
    #[schemars(with = "ShareForms")]
    #[serde(default = "Class::default_share")]
    pub share: Share,
    /// Rules with smaller numbers are tried first.
    #[serde(default = "Class::default_priority")]
    pub priority: u16,
    /// Rules; one that holds suffices.
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

    /// As the classifier takes it.
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
    /// How long to look for new requests before sleeping: `false`, `true` (100us) or a duration. Saves wake-ups at
    /// low queue depth for up to a whole core while clients are busy.
    #[schemars(with = "Option<PollForms>")]
    pub poll: Option<Poll>,
    /// Connections at a time, 1 to 16384; 64 by default.
    pub max_connections: Option<u16>,
    /// Lets TCP exports listen beyond loopback, where `[tls]` protects them.
    #[serde(default)]
    pub allow_remote: bool,
    /// Lets them listen there without TLS too: anybody who can reach the port can read and write, and so can who is on the way.
    #[serde(default)]
    pub allow_remote_without_tls: bool,
    /// Path of the control socket; by default derived, see the guide.
    pub control: Option<String>,
    /// Mode of all Unix sockets, such as "0660". By default exports are as the umask says, and the control socket is this
    /// user's alone.
    #[schemars(with = "Option<String>")]
    pub socket_mode: Option<SocketMode>,
    /// Group of all Unix sockets, by name or number.
    pub socket_group: Option<String>,
}

/// `[metrics]`: metrics for Prometheus, a live page and a health check over HTTP, to read only.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Metrics {
    /// Where to listen, such as `127.0.0.1:9650`; nowhere by default.
    #[schemars(with = "Option<String>")]
    pub listen: Option<HttpAddress>,
    /// Lets it listen beyond loopback. It has neither authentication nor encryption.
    #[serde(default)]
    pub allow_remote: bool,
}

/// `[log]`
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Log {
    /// Share of the pool's usable space from which on it counts as nearly full; 85% by default.
    #[schemars(with = "Option<ShareForms>")]
    pub nearly_full: Option<Share>,
    /// The same for full; 95% by default.
    #[schemars(with = "Option<ShareForms>")]
    pub full: Option<Share>,
    /// Time of one request, such as 500ms or 2s, from which on a device is called slow; 1s by default.
    #[schemars(with = "Option<String>")]
    pub slow_device: Option<LogTime>,
}

/// Thresholds of the log.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogLimits {
    /// Share of the usable space, 0.0 to 1.0.
    pub nearly_full: f64,
    /// The same.
    pub full: f64,
    /// Nanoseconds.
    pub slow_device_ns: u64,
}

impl Log {
    /// With the defaults of what is not there.
    pub fn limits(&self) -> LogLimits {
        LogLimits {
            nearly_full: self.nearly_full.map_or(0.85, |share| share.0),
            full: self.full.map_or(0.95, |share| share.0),
            slow_device_ns: self.slow_device.map_or(1_000_000_000, |time| time.0),
        }
    }
}

impl Export {
    /// Where it listens for NBD, where it does.
    pub fn listen(&self) -> Option<Listen> {
        self.nbd.as_ref().map(|address| address.at.clone())
    }

    /// Where virtual machines find it, where they do.
    pub fn vhost_path(&self) -> Option<PathBuf> {
        match self.vhost.as_deref()?.parse().ok()? {
            Listen::Unix(path) => Some(path),
            Listen::Tcp(_) => None,
        }
    }

    /// Where its clients find it, for messages.
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

    /// The first tier that is a model in virtual time: then all are.
    pub fn modelled(&self) -> Option<&forebay_device::Target> {
        self.targets().find(|target| matches!(target, forebay_device::Target::Model(_)))
    }

    /// The band size asked for.
    pub fn band_bytes(&self) -> Option<u64> {
        self.capacity.iter().find_map(|device| device.band).map(|size| size.0)
    }

    /// Classes as the classifier takes them.
    pub fn class_specs(&self) -> Vec<ClassSpec> {
        self.class.iter().map(Class::spec).collect()
    }

    /// Connections at a time.
    pub fn connections_max(&self) -> u16 {
        self.server.max_connections.unwrap_or(CONNECTIONS_DEFAULT)
    }

    /// How long the server polls, in nanoseconds.
    pub fn poll_ns(&self) -> u64 {
        let exports = self.export.iter().filter_map(|export| export.poll);
        exports.chain(self.server.poll).map(|poll| poll.ns).max().unwrap_or(0)
    }
}

//! Checks of a parsed configuration that its types do not express.

use super::model::Config;
use super::rules::explain_rule;
use super::values::SOCKET_PATH_MAX;
use anyhow::{Context, Result, bail, ensure};
use forebay_block::Geometry;
use forebay_block::mistakes::{Hint, nearest};
use forebay_block::size::format_size;
use forebay_device::Target;
use forebay_export::Listen;
use forebay_prism::ClassTable;
use forebay_volume::layout::Id;
use forebay_volume::layout::member_label::MEMBERS_MAX;
use forebay_volume::layout::plan::{PoolOptions, plan};
use forebay_volume::layout::superblock::{BAND_BYTES_MAX, DEVICES_MAX};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::{Component, Path, PathBuf};

/// Smallest memory limit, in bytes: the program, its buffers and the least that the map needs.
const MEMORY_MIN_BYTES: u64 = 48 << 20;
/// Longest pool name, in bytes.
const POOL_NAME_MAX: usize = 64;

/// Allowed rates of a scrub, in bytes per second.
const SCRUB_RATES: RangeInclusive<u64> = 64 << 10..=16 << 30;

/// Allowed rates at which read data is copied to the fast tier, in bytes per second.
const FILL_RATES: RangeInclusive<u64> = SCRUB_RATES;

impl Config {
    /// Checks everything that can be known without touching a device.
    ///
    /// # Errors
    /// The first mistake found, with its key.
    pub fn check(&self) -> Result<()> {
        let name = &self.pool.name;
        ensure!(
            !name.is_empty() && name.len() <= POOL_NAME_MAX && !name.contains(char::is_control),
            "pool.name has 1 to {POOL_NAME_MAX} bytes without control characters, not {name:?}"
        );
        self.check_devices()?;
        self.check_disks()?;
        let rate = self.scrub.rate.0;
        ensure!(
            SCRUB_RATES.contains(&rate),
            "scrub.rate is {rate} bytes a second; it is from 64KiB to 16GiB (`forebay scrub CONFIG pause` stops one)"
        );
        let rate = self.adopt.rate.0;
        ensure!(SCRUB_RATES.contains(&rate), "adopt.rate is {rate} bytes a second; it is from 64KiB to 16GiB");
        let rate = self.read_cache.rate.0;
        ensure!(
            FILL_RATES.contains(&rate),
            "read_cache.rate is {rate} bytes a second; it is from 64KiB to 16GiB (`read_cache = false` of a class ends its copies)"
        );
        let limit = self.memory.limit.0;
        ensure!(
            limit >= MEMORY_MIN_BYTES,
            "memory.limit is {limit} bytes; at least {MEMORY_MIN_BYTES} (48MiB) are needed"
        );
        let memory = self.read_cache.memory.map_or(0, |memory| memory.0);
        ensure!(
            memory <= limit / 2,
            "read_cache.memory is {memory} bytes; it is at most half of memory.limit, {} bytes here, as the map needs memory, too",
            limit / 2
        );
        let table = ClassTable::from_configured(&self.class_specs())
            .map_err(|why| explain_rule(anyhow::Error::new(why).context("in [[class]]")))?;
        self.check_exports(&table)?;
        self.check_sockets()?;
        self.check_network()?;
        self.check_evidence()?;
        let limits = self.log.limits();
        ensure!(
            0.0 < limits.nearly_full && limits.nearly_full <= limits.full && limits.full <= 1.0,
            "log.nearly_full is {} and log.full {}: the first is at most the second, both between 0% and 100%",
            limits.nearly_full,
            limits.full
        );
        if let Some(connections) = self.server.max_connections {
            ensure!(
                (1..=16_384).contains(&connections),
                "server.max_connections is {connections}; it goes from 1 to 16384"
            );
        }
        if let Some(address) = self.metrics.listen.map(|listen| listen.0) {
            ensure!(
                address.ip().is_loopback() || self.metrics.allow_remote,
                "metrics.listen {address} can be reached by others, and it has neither authentication nor encryption: use 127.0.0.1, \
                 or set metrics.allow_remote = true if that is meant"
            );
        }
        Ok(())
    }

    fn check_redundancy(&self) -> Result<()> {
        let Some(redundancy) = self.pool.redundancy.map(|redundancy| redundancy.0) else { return Ok(()) };
        let (needed, given) = (redundancy.data + redundancy.parity, self.capacity.len());
        ensure!(
            needed == given,
            "pool.redundancy {redundancy} takes {needed} [[capacity]] sections, and there are {given}"
        );
        if let Some(device) = self.capacity.iter().find(|device| device.target.0.bucket().is_some()) {
            bail!(
                "{}: a bucket keeps its own copies, and is no member of a capacity tier with parity",
                device.target.0
            );
        }
        if let Some(band) = self.band_bytes() {
            let row = redundancy.data as u64 * 4096;
            ensure!(
                band.is_multiple_of(row),
                "capacity.band is {band} bytes: with redundancy {redundancy} it is over all devices, and a multiple of {row}"
            );
        }
        Ok(())
    }

    fn check_devices(&self) -> Result<()> {
        ensure!(
            !self.fast.is_empty(),
            "there is no [[fast]] section: add one with `target = \"/dev/...\"`, the small fast device"
        );
        ensure!(
            self.fast.len() <= MEMBERS_MAX,
            "{} [[fast]] sections: all of them hold the same, and {MEMBERS_MAX} is the most",
            self.fast.len()
        );
        ensure!(
            !self.capacity.is_empty(),
            "there is no [[capacity]] section: add one with `target = \"/dev/...\"`, the large device"
        );
        ensure!(
            self.capacity.len() < DEVICES_MAX,
            "{} [[capacity]] sections: {} is the most",
            self.capacity.len(),
            DEVICES_MAX - 1
        );
        if let Some(fast) = self.fast.iter().find(|fast| fast.target.0.bucket().is_some()) {
            bail!(
                "the [[fast]] device is {}: a bucket is for capacity; a fast device answers in microseconds",
                fast.target.0
            );
        }
        let mut seen: Vec<&Target> = Vec::new();
        for target in self.targets() {
            let bare = without_cache(target);
            if matches!(bare, Target::Null { .. }) {
                bail!("target {target} keeps nothing: a pool needs targets that give back what was written");
            }
            let is_volatile_model = matches!(bare, Target::Model(_)) && !matches!(target, Target::Model(_));
            if matches!(bare, Target::Nbd(_)) || is_volatile_model {
                return Err(target.only_measured().into());
            }
            check_model(bare).with_context(|| format!("target {target}"))?;
            let place = |target: &Target| target.bucket().map(|uri| (uri.bucket.clone(), uri.prefix.clone()));
            let again = seen.iter().any(|other| {
                (target.path().is_some() && other.path().map(plain) == target.path().map(plain))
                    || (target.bucket().is_some() && place(other) == place(target))
            });
            ensure!(!again, "target {target} is configured twice");
            seen.push(target);
        }
        self.check_redundancy()?;
        let fast = self.fast.iter().map(|device| ("fast", device.endurance));
        let capacity = self.capacity.iter().map(|device| ("capacity", device.endurance));
        if let Some((tier, _)) = fast.chain(capacity).find(|(_, endurance)| endurance.is_some_and(|size| size.0 == 0)) {
            bail!(
                "{tier}.endurance is 0: give what the data sheet says may be written over the drive's life, as \"20PB\", or leave it out"
            );
        }
        let bands: Vec<u64> = self.capacity.iter().filter_map(|device| device.band).map(|size| size.0).collect();
        ensure!(
            bands.windows(2).all(|pair| pair[0] == pair[1]),
            "capacity.band differs between devices: a pool has one band size"
        );
        if let Some(band) = bands.first() {
            ensure!(
                (8192..=BAND_BYTES_MAX).contains(band) && band.is_multiple_of(4096),
                "capacity.band is {band} bytes: use a multiple of 4KiB, from 8KiB to {}",
                format_size(BAND_BYTES_MAX)
            );
        }
        if let Some(model) = self.modelled() {
            let other = self.targets().find(|target| !matches!(target, Target::Model(_)));
            ensure!(
                other.is_none(),
                "tier {model} lives in virtual time and tier {} in real time: make all tiers model:, for a measurement in \
                 virtual time, or write emulated: in place of model:, for real time",
                other.map(ToString::to_string).unwrap_or_default()
            );
        }
        self.check_memory()?;
        let lasting = self.targets().filter(|target| target.is_persistent()).count();
        ensure!(
            lasting == 0 || lasting == self.targets().count(),
            "some targets are memory and some are not: after a restart the pool would be in pieces; \
             use ram: for all of them or for none"
        );
        Ok(())
    }

    /// A `ram:` target states its size in the file, so the layout of the pool is checked without opening a device.
    fn check_memory(&self) -> Result<()> {
        let tiers = |devices: Vec<&Target>| devices.into_iter().map(memory_geometry).collect::<Option<Vec<_>>>();
        let fast = tiers(self.fast.iter().map(|device| &device.target.0).collect());
        let capacity = tiers(self.capacity.iter().map(|device| &device.target.0).collect());
        let (Some(fast), Some(capacity)) = (fast, capacity) else { return Ok(()) };
        // A mirror and a parity array reserve space for themselves; their layout is known only when they are made.
        let ([fast], None) = (fast.as_slice(), &self.pool.redundancy) else { return Ok(()) };
        let options = PoolOptions {
            name: self.pool.name.clone(),
            band_bytes: self.band_bytes(),
            journal_bytes: None,
            is_mirrored: false,
            bands_offset_bytes: None,
        };
        let ids = vec![Id::default(); capacity.len() + 1];
        plan(&options, fast, &capacity, Id::default(), &ids).context("the pool cannot be laid out on these devices")?;
        let there: u64 = std::iter::once(fast).chain(&capacity).map(|geometry| geometry.size_bytes).sum();
        let wanted = self.disk.iter().fold(0, |sum: u64, disk| sum.saturating_add(disk.size.0));
        ensure!(
            self.pool.overcommit || wanted <= there,
            "the disks have {wanted} bytes, and all devices together {there}: make disks smaller, or set pool.overcommit"
        );
        Ok(())
    }

    fn check_disks(&self) -> Result<()> {
        ensure!(!self.disk.is_empty(), "there is no [[disk]] section: add one with `name` and `size`");
        let mut seen = Vec::new();
        for disk in &self.disk {
            let name = &disk.name;
            ensure!(!seen.contains(&name), "disk {name:?} is configured twice");
            seen.push(name);
            let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
            ensure!(
                (1..=64).contains(&name.len()) && name.chars().all(good),
                "disk.name {name:?}: use 1 to 64 letters, digits, '-', '_' and '.'"
            );
            let size = disk.size.0;
            ensure!(
                size > 0 && size.is_multiple_of(4096) && size <= 1 << 58,
                "the size of disk {name:?} is {size} bytes: use a multiple of 4KiB"
            );
            ensure!(
                disk.base.is_none() || self.modelled().is_none(),
                "disk {name:?} has a base, and the pool's devices are models in virtual time: a base is read in real time"
            );
            if let Some(why) = disk.base.as_ref().and_then(|base| base.0.not_a_base()) {
                return Err(why).with_context(|| format!("the base of disk {name:?}"));
            }
            if let Some(base) = &disk.base {
                check_model(without_cache(&base.0)).with_context(|| format!("the base of disk {name:?}"))?;
            }
            if let Some(base) = disk.base.as_ref().and_then(|base| memory_geometry(&base.0)) {
                ensure!(
                    base.size_bytes <= size,
                    "the base of disk {name:?} has {} bytes, and the disk {size}: make it as large at least",
                    base.size_bytes
                );
            }
        }
        Ok(())
    }

    fn check_exports(&self, table: &ClassTable) -> Result<()> {
        let disks: Vec<&str> = self.disk.iter().map(|disk| disk.name.as_str()).collect();
        let mut by_name = BTreeMap::new();
        let mut block_devices = Vec::new();
        let mut doors: Vec<(&str, Listen)> = Vec::new();
        for export in &self.export {
            let disk = match &export.disk {
                Some(disk) => disk.as_str(),
                None if disks.len() == 1 => disks[0],
                None => bail!(
                    "the export at {} does not say which disk: add `disk = \"...\"`, one of {}",
                    export.door(),
                    disks.join(", ")
                ),
            };
            if !disks.contains(&disk) {
                let near = Hint(nearest(disk, disks.iter().copied()));
                bail!("export.disk {disk:?} at {} is no [[disk]] here{near}", export.door());
            }
            if export.nbd.is_none() && export.ublk.is_none() && export.vhost.is_none() {
                bail!(
                    "an [[export]] of disk {disk:?} says nowhere to listen: add `nbd = \"unix:/path/to/socket\"`, \
                     `ublk = \"auto\"` for a block device, or `vhost = \"unix:/path/to/socket\"` for a virtual machine"
                );
            }
            if let Some(vhost) = &export.vhost {
                ensure!(
                    export.vhost_path().is_some(),
                    "export.vhost is {vhost:?}, which is no Unix socket: write unix:/path/to/socket"
                );
            }
            if let Some(class) = &export.class
                && table.id_of(class).is_none()
            {
                let near = Hint(nearest(class, table.classes().iter().map(|c| c.name.as_str())));
                bail!("export.class {class:?} at {} is no class{near}", export.door());
            }
            // The same export may be served at a second address. Two exports of different disks under one name are
            // refused.
            let name = export.name.as_deref().unwrap_or(disk);
            if let Some(door) = export.listen() {
                ensure!(
                    !doors.contains(&(name, door.clone())),
                    "export {name:?} at {} is configured twice: take one of them out",
                    export.door()
                );
                doors.push((name, door));
            }
            ensure!(
                export.ublk.is_none() || !block_devices.contains(&name),
                "export {name:?} is two block devices: one is enough, take `ublk` out of one [[export]]"
            );
            block_devices.extend(export.ublk.map(|_| name));
            let meaning = (disk, export.read_only, export.class.as_deref(), export.tls, export.allow.as_ref());
            if *by_name.entry(name).or_insert(meaning) != meaning {
                bail!("two exports are named {name:?} but differ: give one of them another `name`");
            }
        }
        self.check_machine_devices()
    }

    /// Refuses socket paths that are too long, and one path used both for control and for an export.
    fn check_sockets(&self) -> Result<()> {
        let control = self.server.control.as_deref().map(Path::new);
        let is_short = |path: &Path| path.as_os_str().len() <= SOCKET_PATH_MAX;
        ensure!(
            control.is_none_or(is_short),
            "server.control is longer than {SOCKET_PATH_MAX} bytes, the most a socket's path may have"
        );
        for export in &self.export {
            let nbd = export.listen().and_then(|door| if let Listen::Unix(path) = door { Some(path) } else { None });
            for path in nbd.into_iter().chain(export.vhost_path()) {
                ensure!(
                    is_short(&path),
                    "the socket {} has a longer path than the {SOCKET_PATH_MAX} bytes that the system allows",
                    path.display()
                );
                ensure!(
                    control != Some(path.as_path()),
                    "{} is server.control and a socket of an [[export]]: give each one of its own",
                    path.display()
                );
            }
        }
        Ok(())
    }

    /// Each vhost socket serves one export, and each export has at most one vhost socket.
    fn check_machine_devices(&self) -> Result<()> {
        let mut seen = Vec::new();
        for export in &self.export {
            let Some(path) = export.vhost_path() else { continue };
            let name = self.export_name(export);
            ensure!(
                seen.iter().all(|(other, _)| *other != name),
                "export {name:?} has `vhost` twice: one machine at a time may use it, so one socket is enough; take `vhost` out \
                 of one [[export]], or give that another `name`"
            );
            ensure!(
                seen.iter().all(|(_, other)| *other != path),
                "two exports have vhost = \"unix:{}\": give each a socket of its own",
                path.display()
            );
            let is_nbd = |other: &super::Export| other.listen().is_some_and(|at| at == Listen::Unix(path.clone()));
            ensure!(
                !self.export.iter().any(is_nbd),
                "unix:{} is both `nbd` and `vhost`: give each a socket of its own",
                path.display()
            );
            seen.push((name, path));
        }
        Ok(())
    }

    fn check_evidence(&self) -> Result<()> {
        let disks: Vec<&str> = self.disk.iter().map(|disk| disk.name.as_str()).collect();
        for evidence in &self.evidence {
            ensure!(
                evidence.device.is_some() || evidence.mount.is_some(),
                "an [[evidence]] section names neither `device` nor `mount`: add the block device above the export, or \
                 where its file system is mounted"
            );
            ensure!(
                evidence.hints || evidence.files,
                "an [[evidence]] section with neither hints nor files does nothing"
            );
            for path in [&evidence.device, &evidence.mount].into_iter().flatten() {
                ensure!(path.is_absolute(), "in [[evidence]] {} is not an absolute path", path.display());
            }
            match &evidence.disk {
                Some(disk) if !disks.contains(&disk.as_str()) => {
                    let near = Hint(nearest(disk, disks.iter().copied()));
                    bail!("evidence.disk {disk:?} is no [[disk]] here{near}");
                }
                None if disks.len() > 1 => {
                    bail!("an [[evidence]] section does not say which disk: add `disk`, one of {}", disks.join(", "))
                }
                _ => {}
            }
            let disk = self.evidence_disk(evidence);
            let tagged = |export: &&super::Export| export.class.is_some() && self.export_disk(export) == disk;
            if let Some(export) = self.export.iter().find(tagged) {
                bail!(
                    "[[evidence]] of disk {disk:?} and its export at {} do not go together: that gives what is written \
                     through it a class of its own, whatever it is; take `class` out of that [[export]], or the \
                     [[evidence]] away",
                    export.door()
                );
            }
        }
        Ok(())
    }

    /// Name of the disk that this evidence belongs to. Without `evidence.disk` this is the first disk; empty where
    /// there are no disks.
    pub fn evidence_disk<'a>(&'a self, evidence: &'a super::Evidence) -> &'a str {
        let only = || self.disk.first().map_or("", |disk| disk.name.as_str());
        evidence.disk.as_deref().unwrap_or_else(only)
    }

    /// Name of an export; without `export.name` the name of its disk.
    pub fn export_name<'a>(&'a self, export: &'a super::Export) -> &'a str {
        export.name.as_deref().unwrap_or_else(|| self.export_disk(export))
    }

    /// The first section of an export; others may be more of its doors.
    pub fn export_named(&self, name: &str) -> Option<&super::Export> {
        self.export.iter().find(|export| self.export_name(export) == name)
    }

    /// Name of the disk that an export serves. Without `export.disk` this is the first disk; empty where there are no
    /// disks.
    pub fn export_disk<'a>(&'a self, export: &'a super::Export) -> &'a str {
        let only = || self.disk.first().map_or("", |disk| disk.name.as_str());
        export.disk.as_deref().unwrap_or_else(only)
    }
}

/// Whether there are the drive and the host of a model, and the drive in that size.
fn check_model(target: &Target) -> Result<()> {
    let (Target::Model(uri) | Target::Emulated(uri)) = target else { return Ok(()) };
    uri.drive()?;
    uri.profile()?;
    Ok(())
}

/// The target itself, without a volatile cache before it.
fn without_cache(target: &Target) -> &Target {
    match target {
        Target::Volatile { inner, .. } => without_cache(inner),
        bare => bare,
    }
}

/// The path without its `.` components, so that two spellings of one path compare equal.
fn plain(path: &Path) -> PathBuf {
    path.components().filter(|part| *part != Component::CurDir).collect()
}

/// Geometry of a `ram:` target; `None` for every other target, whose geometry is known only once it is opened.
fn memory_geometry(target: &Target) -> Option<Geometry> {
    let Target::Ram { size_bytes } = *without_cache(target) else { return None };
    Some(Geometry {
        size_bytes,
        logical_block_bytes: 512,
        optimal_band_bytes: None,
        volatile_cache: false,
        durable_writes: true,
        discards: true,
    })
}

#[cfg(test)]
mod tests {
    use super::Config;

    /// Regression: `config check` accepted all of these configurations, and `serve` refused them before it opened a
    /// device.
    #[test]
    fn regression_what_serve_refuses_without_a_look_at_a_device_is_found() {
        let of = |fast: &str, capacity: &str, size: &str, more: &str| {
            let text = format!(
                "[pool]\nname = \"a\"\n[[fast]]\ntarget = \"{fast}\"\n[[capacity]]\ntarget = \"{capacity}\"\n\
                 [[disk]]\nname = \"db\"\nsize = \"{size}\"\n{more}"
            );
            let config: Config = toml::from_str(&text).unwrap();
            config.check().map_or_else(|why| format!("{why:#}"), |()| String::new())
        };
        let ram = |mib: u32| format!("ram:?size={mib}MiB");
        assert_eq!(of(&ram(64), &ram(256), "64MiB", ""), "");
        assert_eq!(of("qd/f", "volatile:./qd/c", "64MiB", ""), "");
        for (fast, capacity, size, what) in [
            ("volatile:nbd+unix:///x?socket=/s".to_owned(), "/c".to_owned(), "64MiB", "nbd+unix:///x"),
            ("qd/f".to_owned(), "volatile:./qd/f".to_owned(), "64MiB", "is configured twice"),
            (ram(1), ram(256), "64MiB", "are needed"),
            (
                "model:p4800y".to_owned(),
                "model:p4510".to_owned(),
                "64MiB",
                "there is no model \"p4800y\"; did you mean \"p4800x\"",
            ),
            ("model:p4800x".to_owned(), "model:floppy".to_owned(), "64MiB", "p4510"),
            ("model:p4800x?host=linx".to_owned(), "model:p4510".to_owned(), "64MiB", "linx"),
            (ram(64), "emulated:floppy?size=1GiB".to_owned(), "64MiB", "target emulated:floppy"),
            (ram(64), "volatile:emulated:floppy?size=1GiB".to_owned(), "64MiB", "p4510"),
            (ram(64), "volatile:".to_owned() + &ram(128), "64GiB", "the disks have 68719476736 bytes"),
        ] {
            let why = of(&fast, &capacity, size, "");
            assert!(why.contains(what), "{fast} {capacity}: {why}");
        }
        let band = of(&ram(64), &format!("{}\"\nband = \"512MiB", ram(256)), "64MiB", "");
        assert!(band.contains("are needed"), "{band}");
        for (band, is_good) in [("64GiB", true), ("65GiB", false), ("4KiB", false), ("10KiB", false)] {
            let why = of("/f", &format!("/c\"\nband = \"{band}"), "64MiB", "");
            assert_eq!(why.is_empty(), is_good, "{why}");
            assert!(is_good || why.contains("from 8KiB to 64GiB"), "{why}");
        }
        // A device with an endurance of 0 counted as worn out from the start.
        let worn = of("/f\"\nendurance = \"0PB", "/c", "64MiB", "");
        assert!(worn.contains("fast.endurance is 0"), "{worn}");
        let base = of(&ram(64), &ram(256), "64MiB", "base = \"ram:?size=128MiB\"");
        assert!(base.contains("the base of disk \"db\" has 134217728 bytes"), "{base}");
    }

    /// Regression: a base that is an NBD export was refused with a message about tiers of a pool, not about bases.
    #[test]
    fn regression_what_cannot_be_a_base_is_refused_with_what_can() {
        let checked = |base: &str| {
            let text = format!(
                "[pool]\nname = \"a\"\n[[fast]]\ntarget = \"/f\"\n[[capacity]]\ntarget = \"/c\"\n\
                 [[disk]]\nname = \"db\"\nsize = \"64MiB\"\nbase = \"{base}\"\n"
            );
            let config: Config = toml::from_str(&text).unwrap();
            config.check().map_or_else(|why| format!("{why:#}"), |()| String::new())
        };
        assert_eq!(checked("/dev/bcache0"), "");
        for base in ["nbd://127.0.0.1:10809/x", "volatile:nbd://127.0.0.1:10809/x"] {
            let why = checked(base);
            let parts = ["the base of disk \"db\"", "a file or a block device", "nbd-client"];
            assert!(parts.iter().all(|part| why.contains(part)) && !why.contains("pool"), "{why}");
        }
    }

    fn checked(exports: &str) -> String {
        let text = format!(
            "[pool]\nname = \"a\"\n[[fast]]\ntarget = \"ram:?size=64MiB\"\n[[capacity]]\ntarget = \"ram:?size=256MiB\"\n\
             [[disk]]\nname = \"db\"\nsize = \"64MiB\"\n{exports}"
        );
        let config: Config = toml::from_str(&text).unwrap();
        config.check().map_or_else(|why| format!("{why:#}"), |()| String::new())
    }

    /// Regression: two identical exports were accepted, served and announced twice.
    #[test]
    fn regression_an_export_that_is_there_twice_is_refused() {
        let export = |name: &str, at: &str| format!("[[export]]\nname = \"{name}\"\nnbd = \"unix:/run/{at}\"\n");
        assert_eq!(checked(&(export("a", "one") + &export("a", "other") + &export("b", "one"))), "");
        let twice = checked(&(export("a", "one") + &export("a", "one")));
        assert!(twice.contains("export \"a\" at unix:/run/one is configured twice"), "{twice}");
    }

    #[test]
    fn sockets_of_machines_are_for_one_export_each() {
        let export = |name: &str, place: &str| format!("[[export]]\nname = \"{name}\"\n{place}\n");
        let (one, other) = ("vhost = \"unix:/run/one\"", "vhost = \"unix:/run/other\"");
        assert_eq!(checked(&(export("a", one) + &export("b", other))), "");
        assert_eq!(checked(&(export("a", one) + &export("a", "nbd = \"unix:/run/nbd\""))), "");
        for two in [one, other] {
            let twice = checked(&(export("a", one) + &export("a", two)));
            assert!(twice.contains("export \"a\" has `vhost` twice"), "{twice}");
        }
        let shared = checked(&(export("a", one) + &export("b", one)));
        assert!(shared.contains("two exports have vhost = \"unix:/run/one\""), "{shared}");
        for (first, second) in [(one, "nbd = \"unix:/run/one\""), ("nbd = \"unix:/run/one\"", one)] {
            let both = checked(&(export("a", first) + &export("b", second)));
            assert!(both.contains("unix:/run/one is both `nbd` and `vhost`"), "{both}");
        }
    }
}

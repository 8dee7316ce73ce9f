//! SIGHUP reads the configuration again and applies what can change while clients are connected: classes, limits,
//! exports, evidence, thresholds of the log. Changes that need a restart are logged. No connection is ended.

use super::access::SocketAccess;
use super::answer::attach_evidence;
use super::beside::Beside;
use super::clients::Clients;
use super::configured::{compare_disks, name_exports, wanted};
use super::exporting::warn_of_classes;
use super::reload_exports::{AsDevices, ExportChanges, Outcome, exports_in_force};
use super::service_manager;
use super::snapshot::Fixed;
use super::tls;
use super::watch::Watch;
use crate::config::{self, Config, ReadCache, Server};
use crate::control::control_path;
use crate::pool::{Offers, PoolBackend, capacity, fast};
use crate::text::chain;
use anyhow::{Context, Result};
use forebay_export::{Listen, ServerControl, TlsContext};
use std::path::{Path, PathBuf};
use tracing::{error, info, warn};

/// The configuration in force, and where it was read from.
pub struct Reloader {
    /// Path of the configuration file.
    pub file: PathBuf,
    /// The configuration in force.
    pub config: Config,
    /// The block devices since the start.
    devices: AsDevices,
    /// Addresses as configured, each with the one that was actually bound.
    pub addresses: Vec<(Listen, Listen)>,
    reading: Option<Beside<Result<Read>>>,
    /// Another reload was requested while this one reads.
    read_again: bool,
    /// Examination of configured devices. It has a thread of its own, so that a silent device does not hold up the
    /// reading of certificates.
    looking: Option<Beside<Vec<Offers>>>,
    look_again: bool,
}

/// What a reload reads. It has a thread of its own, because the file system or a name server may block.
struct Read {
    config: Config,
    tls: Option<TlsContext>,
    access: SocketAccess,
    /// Path of the control socket by this configuration.
    control: PathBuf,
}

impl Reloader {
    /// For the configuration in force, with its addresses as configured and as bound.
    pub fn new(file: PathBuf, config: Config, addresses: Vec<(Listen, Listen)>) -> Self {
        let devices = AsDevices::of(&config);
        Self { file, config, devices, addresses, reading: None, read_again: false, looking: None, look_again: false }
    }

    /// Begins to read the file again; [`Self::advance`] applies it. The service manager is notified only where the
    /// server `is_ready`: it would take the end of a reload for readiness, and start the units that depend on it.
    pub fn begin(&mut self, is_ready: bool) {
        if self.reading.is_some() {
            self.read_again = true;
            return;
        }
        if is_ready {
            service_manager::notify_reloading();
        }
        // Sockets keep the mode and group of the start until the next start.
        let (file, addresses, server) = (self.file.clone(), self.addresses.clone(), self.config.server.clone());
        match Beside::begin("reload", move || read(&file, &addresses, &server)) {
            Ok(reading) => self.reading = Some(reading),
            Err(why) => {
                say_not_reloaded(&why);
                if is_ready {
                    service_manager::notify_reloaded();
                }
            }
        }
    }

    /// Applies a configuration that was read, and adopts devices that were examined.
    pub fn advance(
        &mut self,
        backend: &mut PoolBackend,
        (server, clients): (&mut ServerControl<'_>, &mut Clients),
        (fixed, leaving): (&mut Fixed, impl FnOnce() -> Vec<String>),
        watch: &mut Watch,
        is_ready: bool,
    ) {
        if let Some(ended) = self.reading.as_ref().and_then(Beside::ended) {
            self.reading = None;
            match ended.and_then(|read| read) {
                Ok(Read { config, tls, access, control }) => {
                    server.set_tls(tls);
                    self.follow_control(clients, &control, &access);
                    self.change_to((config, &access), backend, server, (fixed, &leaving()), watch);
                    self.look(backend);
                }
                Err(why) => say_not_reloaded(&why),
            }
            if is_ready {
                service_manager::notify_reloaded();
            }
            if std::mem::take(&mut self.read_again) {
                self.begin(is_ready);
            }
        }
        if let Some(ended) = self.looking.as_ref().and_then(Beside::ended) {
            self.looking = None;
            match ended {
                // The devices were examined for a configuration that is not in force any more.
                Ok(_) if self.look_again => {}
                Ok(offers) => give(offers, fixed),
                Err(why) => warn!(cause = "reload", "devices could not be looked at: {}", chain(&why)),
            }
            if std::mem::take(&mut self.look_again) {
                self.look(backend);
            }
        }
    }

    /// Listens at the control path of the new configuration, too.
    fn follow_control(&self, clients: &mut Clients, path: &Path, access: &SocketAccess) {
        let first = clients.first_path().unwrap_or(path).to_owned();
        match clients.follow(path, access) {
            Ok(false) => {}
            Ok(true) => info!(
                cause = "reload",
                "the control socket is at {} now, and until the next start at {} as well",
                path.display(),
                first.display()
            ),
            Err(why) => warn!(
                cause = "reload",
                advice = "Set server.control to where it is, or have it made there and send SIGHUP again",
                "by {} the control socket is looked for at {}, and it is at {}: {}",
                self.file.display(),
                path.display(),
                first.display(),
                chain(&why)
            ),
        }
    }

    /// Examines configured devices that could replace members that are out.
    fn look(&mut self, backend: &PoolBackend) {
        let devices = &backend.pool.devices;
        let (mirror, array) = (devices.mirror().cloned(), devices.array().cloned());
        if mirror.is_none() && array.is_none() {
            return;
        }
        if self.looking.is_some() {
            info!(
                cause = "reload",
                "devices are still looked at since the last reload: they are looked at again after that"
            );
            self.look_again = true;
            return;
        }
        let config = self.config.clone();
        let look = move || {
            let mirror = mirror.map(|view| fast::look(&config, &view));
            mirror.into_iter().chain(array.map(|view| capacity::look(&config, &view))).collect()
        };
        match Beside::begin("look", look) {
            Ok(looking) => self.looking = Some(looking),
            Err(why) => warn!(cause = "reload", "devices could not be looked at: {}", chain(&why)),
        }
    }

    fn change_to(
        &mut self,
        (new, access): (Config, &SocketAccess),
        backend: &mut PoolBackend,
        server: &mut ServerControl<'_>,
        (fixed, leaving): (&mut Fixed, &[String]),
        watch: &mut Watch,
    ) {
        let mut outcome = Outcome::default();
        self.classes(&new, backend, &mut outcome);
        self.limits(&new, server, (fixed, watch), &mut outcome);
        if self.config.scrub != new.scrub {
            backend.pool.engine.set_scrub_rate(new.scrub.rate.0);
            outcome.done.push("the rate of scrubs was changed".to_owned());
        }
        if self.config.adopt != new.adopt {
            backend.pool.engine.set_adoption_rate(new.adopt.rate.0);
            outcome.done.push("the rate at which bases are copied was changed".to_owned());
        }
        if self.config.read_cache.rate != new.read_cache.rate {
            backend.pool.engine.set_fill_rate(new.read_cache.rate.0);
            outcome.done.push("the rate at which the read cache is filled was changed".to_owned());
        }
        // These devices are examined when everything else is done.
        if backend.pool.devices.mirror().is_some() {
            self.config.fast = new.fast.clone();
        }
        if backend.pool.devices.array().is_some() {
            self.config.capacity = new.capacity.clone();
        }
        let wanted = AsDevices::of(&new);
        let devices = [&self.devices, &wanted];
        let mut exports = ExportChanges { before: &self.config, new: &new, devices, outcome: &mut outcome };
        exports.end(&backend.pool.engine, server);
        exports.change_access(server);
        exports.keep_from_others(&self.addresses, server);
        exports.begin(access, &mut self.addresses, (backend, leaving), server, fixed);
        self.evidence(&new, backend, server, &mut outcome);
        name_exports(server.exports(), &mut backend.pool.engine);
        warn_of_classes(&backend.pool.engine, server.exports());
        let restart = self.needs_restart(&new, &wanted);
        compare_disks(&new, &backend.pool.engine);
        for why in &outcome.refused {
            warn!(cause = "reload", "{why}");
        }
        if !restart.is_empty() {
            warn!(
                cause = "reload",
                advice = "Restart the server for that",
                "changed in {}, but in force from the next start on: {}",
                self.file.display(),
                restart.join(", ")
            );
        }
        let done = match (outcome.done.as_slice(), restart.is_empty() && outcome.refused.is_empty()) {
            ([], true) => "nothing has changed".to_owned(),
            ([], false) => "nothing else has changed".to_owned(),
            (done, _) => done.join("; "),
        };
        info!(cause = "reload", "reloaded {}: {done}", self.file.display());
        // Keys that need a restart keep their old value here, so that the next reload reports them again.
        let read_cache = ReadCache { memory: self.config.read_cache.memory, ..new.read_cache.clone() };
        let (pool, fast, capacity, memory, metrics) = (
            self.config.pool.clone(),
            self.config.fast.clone(),
            self.config.capacity.clone(),
            self.config.memory.clone(),
            self.config.metrics.clone(),
        );
        let Server { poll, max_connections, control, .. } = new.server.clone();
        let server = Server { poll, max_connections, control, ..self.config.server.clone() };
        let export = exports_in_force(&self.config, &new, &outcome.kept);
        self.config = Config { pool, fast, capacity, memory, read_cache, server, metrics, export, ..new };
    }

    fn classes(&self, new: &Config, backend: &mut PoolBackend, outcome: &mut Outcome) {
        let (before, now) = (self.config.class_specs(), new.class_specs());
        let changed: Vec<_> = now.iter().filter(|spec| !before.contains(spec)).cloned().collect();
        let gone = before.iter().filter(|old| !now.iter().any(|spec| spec.name == old.name));
        outcome.refused.extend(gone.map(|old| {
            format!("class {} is not configured any more; the pool keeps it as it is (`forebay class CONFIG set` changes it)", old.name)
        }));
        if changed.is_empty() {
            return;
        }
        let names: Vec<&str> = changed.iter().map(|spec| spec.name.as_str()).collect();
        let names = names.join(", ");
        let engine = &mut backend.pool.engine;
        if let Err(why) = engine.prism_mut().table_mut().merge(&changed) {
            outcome.refused.push(format!("classes {names} stay as they were: {}", chain(&why.into())));
            return;
        }
        engine.classes_changed();
        backend.evidence.reconsider(engine.prism());
        let (there, new): (Vec<&str>, Vec<&str>) =
            changed.iter().map(|spec| spec.name.as_str()).partition(|name| before.iter().any(|old| old.name == *name));
        outcome.done.extend(classes_done(&there, "changed"));
        outcome.done.extend(classes_done(&new, "added"));
    }

    fn limits(
        &self,
        new: &Config,
        server: &mut ServerControl<'_>,
        (fixed, watch): (&mut Fixed, &mut Watch),
        outcome: &mut Outcome,
    ) {
        let (before, now) = (&self.config, new);
        if before.connections_max() != now.connections_max() {
            match server.set_connections_max(now.connections_max()) {
                Ok(()) => outcome.done.push(format!("up to {} connections are taken", now.connections_max())),
                Err(why) => outcome.refused.push(why.to_string()),
            }
        }
        if before.poll_ns() != now.poll_ns() {
            server.set_poll_ns(now.poll_ns());
            outcome.done.push("server.poll was changed".to_owned());
        }
        if before.log.limits() != now.log.limits() {
            watch.set_limits(now.log.limits());
            fixed.limits = now.log.limits();
            outcome.done.push("thresholds of the log were changed".to_owned());
        }
    }

    fn evidence(&self, new: &Config, backend: &mut PoolBackend, server: &mut ServerControl<'_>, outcome: &mut Outcome) {
        let before: Vec<_> = self.config.evidence.iter().map(|part| wanted(&self.config, part)).collect();
        let now: Vec<_> = new.evidence.iter().map(|part| wanted(new, part)).collect();
        for gone in before.iter().filter(|part| !now.contains(part)) {
            if backend.evidence.detach_one(gone) {
                outcome.done.push(format!("evidence for disk {} was detached", gone.disk));
            }
        }
        for part in now.into_iter().filter(|part| !before.contains(part)) {
            let disk = part.disk.clone();
            match attach_evidence(part, backend, server.exports()) {
                Ok(()) => outcome.done.push(format!("evidence for disk {disk} was attached")),
                Err(why) => outcome.refused.push(format!("evidence for disk {disk} was not attached: {why}")),
            }
        }
    }

    /// Names of changed keys that are read only at the start.
    fn needs_restart(&self, new: &Config, devices: &AsDevices) -> Vec<&'static str> {
        let old = &self.config;
        let changed = [
            ("pool.name", old.pool.name != new.pool.name),
            ("pool.overcommit", old.pool.overcommit != new.pool.overcommit),
            ("pool.grouping", old.pool.grouping != new.pool.grouping),
            ("export.ublk", self.devices.of_kernel != devices.of_kernel),
            ("export.vhost", self.devices.of_machines != devices.of_machines),
            ("[[fast]]", old.fast != new.fast),
            ("[[capacity]]", old.capacity != new.capacity),
            ("memory.limit", old.memory.limit != new.memory.limit),
            ("read_cache.memory", old.read_cache.memory != new.read_cache.memory),
            ("server.socket_mode", old.server.socket_mode != new.server.socket_mode),
            ("server.socket_group", old.server.socket_group != new.server.socket_group),
            ("server.allow_remote", old.server.allow_remote != new.server.allow_remote),
            ("[metrics]", old.metrics != new.metrics),
        ];
        changed.into_iter().filter(|(_, is_changed)| *is_changed).map(|(key, _)| key).collect()
    }
}

/// The message on changed classes; `None` where there are none.
fn classes_done(names: &[&str], what: &str) -> Option<String> {
    match names {
        [] => None,
        [one] => Some(format!("class {one} was {what}")),
        several => Some(format!("classes {} were {what}", several.join(", "))),
    }
}

fn say_not_reloaded(why: &anyhow::Error) {
    error!(
        cause = "reload",
        advice = "Correct it (`forebay config check CONFIG`) and send SIGHUP again",
        "the configuration was not reloaded, and nothing has changed: {}",
        chain(why)
    );
}

/// Reads the configuration file, and the files of TLS, whose contents may have changed under the same names.
fn read(file: &Path, addresses: &[(Listen, Listen)], in_force: &Server) -> Result<Read> {
    let config = config::load_real(file)?;
    // The server listens at its addresses until the next start, whatever the new file says.
    let remote = |(_, bound): &&(Listen, Listen)| matches!(bound, Listen::Tcp(at) if !at.ip().is_loopback());
    if let Some((_, bound)) = addresses.iter().find(remote) {
        config.check_reached_at(&bound.to_string()).context("for that a restart is needed")?;
    }
    // With those of the file the next start must be possible.
    SocketAccess::of(&config.server)?;
    let (tls, access) = (tls::load(&config)?, SocketAccess::of(in_force)?);
    let control = control_path(&config, file)?;
    Ok(Read { config, tls, access, control })
}

/// Passes examined devices to tiers that miss members.
fn give(offers: Vec<Offers>, fixed: &mut Fixed) {
    for offers in offers {
        let (done, refused) = offers.give(&mut fixed.watched);
        for done in done {
            info!(cause = "reload", "{done}");
        }
        for why in refused {
            warn!(cause = "reload", "{why}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: the log said of an added class that it was changed.
    #[test]
    fn regression_classes_that_are_added_are_not_called_changed() {
        assert_eq!(classes_done(&[], "changed"), None);
        assert_eq!(classes_done(&["wal"], "added").unwrap(), "class wal was added");
        assert_eq!(classes_done(&["wal", "logs"], "changed").unwrap(), "classes wal, logs were changed");
    }
}

//! From a configuration to a served pool, and to its clean end.

use super::access::SocketAccess;
use super::answer::{Answerer, attach_evidence};
use super::clients::Clients;
use super::configured::{compare_disks, name_exports, new_export, wanted};
use super::hooks::Daemon;
use super::reload::Reloader;
use super::snapshot::Fixed;
use super::tls;
use super::ublk::BlockDevices;
use super::vhost::MachineDevices;
use super::watch::Watch;
use crate::config::Config;
use crate::control::{control_path, is_own_folder};
use crate::evidence::{Evidence, unknown};
use crate::metrics;
use crate::output;
use crate::pool::{self, Budget, Opened, Opening, PoolBackend};
use anyhow::{Context, Result, anyhow, bail, ensure};
use forebay_block::Device;
use forebay_device::{WatchedCounts, WatchedDevice};
use forebay_export::{Exports, Listen, Reactor};
use forebay_volume::recovery::PolicyState;
use forebay_volume::{Devices, Engine, Pool};
use rustix::fs::Mode;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Instant;
use tracing::{info, warn};

/// Set to 1 where the server is to end with the process that started it, as the demo's does.
pub const STOP_WITH_PARENT: &str = "FOREBAY_STOP_WITH_PARENT";

/// A control socket; its file goes with it.
struct ControlSocket(PathBuf);

impl Drop for ControlSocket {
    fn drop(&mut self) {
        // It may have been removed by hand.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Serves until a signal comes.
///
/// # Errors
/// What could not be done; a finding where the pool is damaged.
pub fn serve(config: &Config, file: &Path, opening: Opening) -> Result<()> {
    let signals = watch_signals(&[signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM])?;
    let hangups = watch_signals(&[signal_hook::consts::SIGHUP])?;
    if std::env::var_os(STOP_WITH_PARENT).is_some_and(|value| value == "1") {
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM))
            .context("cannot ask to be notified of the parent's end")?;
    }
    let mut devices = pool::open_all(config, opening)?;
    if config.targets().all(|target| !target.is_persistent()) {
        pool::format(config, &mut devices, &mut pool::Ids::Random)?;
        info!("the targets are memory: a new pool was formatted, and is gone when the server ends");
    }
    let control = control_path(config, file)?;
    let access = SocketAccess::of(config)?;
    let (listener, _socket) = listen_control(&control, &access)?;
    let started = Instant::now();
    let Opened { engine, devices, recovery: report, superblock, left } = pool::open_as(config, devices, opening)?;
    let recovery_time = started.elapsed();
    if opening == Opening::Recover {
        let notes = pool::backing_notes(config);
        notes.iter().for_each(|note| warn!(cause = "sparse member", "{note}"));
    }
    if opening == Opening::WithoutFast {
        info!(
            "pool {:?} opened without its fast tier in {:.3} s: a checkpoint of epoch {}, {} read, no journal replayed",
            superblock.name,
            recovery_time.as_secs_f64(),
            report.epoch,
            output::size(report.read_bytes),
        );
    } else {
        info!(
            "pool {:?} recovered in {:.3} s: {}, epoch {}, {} read, {} records, {} blocks dropped that were never durable",
            superblock.name,
            recovery_time.as_secs_f64(),
            if report.clean { "it had been stopped cleanly" } else { "it had not been stopped cleanly" },
            report.epoch,
            output::size(report.read_bytes),
            report.records,
            report.dropped_blocks,
        );
    }
    if opening == Opening::Salvage {
        warn!("salvage: {} journal batches are gone; what they changed may show an OLDER state", report.holes);
    }
    if report.is_capacity_root_lost && left.is_none() {
        warn!(
            "the capacity-side checkpoint cannot be read, and the map is too large to make all of it anew at once: until the other \
             blocks are written again, what they are is unknown should the fast tier be lost"
        );
    }
    if report.policy_state == PolicyState::Ignored {
        warn!(
            "what was learned of how long data stays on the fast tier cannot be used (damaged, or of another version): it is learned \
             anew, which takes the writes of a few times that tier"
        );
    }
    if let Some(left) = &left {
        warn!("READ-ONLY: {}", left.label);
        left.lines().iter().for_each(|line| warn!("{line}"));
    }
    if report.damaged_leaves > 0 {
        warn!("{} map leaves are damaged: reads of what they mapped fail", report.damaged_leaves);
    }
    let mut reactor = Reactor::new(Budget::of(config.memory.limit.0).server(config))?;
    reactor.set_tls(tls::load(config)?);
    let mut engine = engine;
    let (devices, watched) = watched(devices);
    let exports = exports(config, &mut engine, reactor.exports())?;
    compare_disks(config, &engine);
    let is_whole = opening == Opening::Recover && left.is_none();
    let mut block_devices = BlockDevices::new(&superblock.pool, is_whole);
    block_devices.make(config, &mut reactor)?;
    let mut addresses = Vec::new();
    let mut uris = Vec::new();
    let machine_devices = MachineDevices::open(config, &access, &mut reactor, &mut uris)?;
    for (name, address) in exports {
        let known = addresses.iter().find(|(asked, _)| *asked == address).map(|(_, bound)| bound);
        let bound: Listen = match known {
            Some(bound) => Listen::clone(bound),
            None => {
                let bound = reactor.listen(&address)?;
                if let Listen::Unix(path) = &bound {
                    access.apply(path)?;
                }
                addresses.push((address, bound.clone()));
                bound
            }
        };
        let export = reactor.exports().find(&name).map(|(_, export)| export);
        uris.extend(export.and_then(|export| bound.uri_of(export)));
    }
    let (publisher, metrics_server) = serve_metrics(config)?.unzip();
    let fixed = Fixed {
        superblock,
        recovery: report,
        recovery_time,
        addresses: addresses.iter().map(|(_, bound): &(Listen, Listen)| bound.clone()).collect(),
        memory_limit_bytes: config.memory.limit.0,
        started_ns: pool::now_ns(),
        left,
        limits: config.log.limits(),
        devices: watched.clone(),
        metrics: metrics_server.as_ref().map(metrics::Server::address),
        access: config.access_by_default(),
    };
    let label = fixed.left.as_ref().map(|left| left.label.clone());
    let mut daemon = Daemon {
        signals,
        clients: Clients::new(listener),
        answerer: Answerer::new(fixed, config.pool.overcommit),
        hangups,
        block_devices,
        machine_devices,
        is_ready: false,
        reloader: Reloader { file: std::path::absolute(file)?, config: config.clone(), addresses },
        watch: Watch::new(config.log.limits(), watched),
        publisher,
    };
    let evidence = Evidence::new(Budget::of(config.memory.limit.0).evidence_bytes);
    let mut backend = PoolBackend::new(Pool::new(engine, devices), evidence);
    for part in &config.evidence {
        attach_evidence(wanted(config, part), &mut backend, reactor.exports())
            .map_err(|why| anyhow!("[[evidence]]: {why}"))?;
    }
    if let Some(label) = label {
        output::line(&format!("read-only {label}"))?;
    }
    for uri in &uris {
        // Who waits for this line must not take silence for success: no quiet end here.
        output::line(&format!("ready {uri}"))
            .map_err(|error| anyhow!("cannot say that the server is ready: {error:#}"))?;
    }
    if uris.is_empty() && config.export.iter().all(|export| export.ublk.is_none()) {
        output::line(&format!("ready without exports, control socket {}", control.display()))
            .map_err(|error| anyhow!("cannot say that the server is ready: {error:#}"))?;
        warn!(
            cause = "no exports",
            advice = "Add an [[export]] with `nbd = \"unix:/path/to/socket\"` to the configuration and send SIGHUP",
            "no disk is exported"
        );
    }
    daemon.block_devices.take_over(config, &mut reactor)?;
    let ended = reactor.run(&mut backend, &mut daemon);
    // Devices that are still there wait for the next server from here on.
    drop(reactor);
    let clean = backend.pool.close();
    daemon.machine_devices.release();
    ended?;
    if !clean {
        let status = backend.pool.engine.status();
        let reason = status.counters.last_checkpoint_error.or(status.counters.last_flush_error);
        bail!(
            "the pool was not stopped cleanly ({}): the next start recovers it from its journal",
            reason.unwrap_or_else(|| "the last checkpoint did not end".to_owned())
        );
    }
    info!("stopped cleanly");
    Ok(())
}

/// Begins to serve metrics, where that is configured.
fn serve_metrics(config: &Config) -> Result<Option<(metrics::Publisher, metrics::Server)>> {
    let Some(listen) = config.metrics.listen else { return Ok(None) };
    let (publisher, source) = metrics::channel();
    let server = metrics::Server::start(listen.0, source)?;
    info!("metrics, health and a live page at http://{}/", server.address());
    Ok(Some((publisher, server)))
}

/// A socket that becomes readable when one of these signals comes.
fn watch_signals(signals: &[i32]) -> Result<UnixStream> {
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    // A signal that finds the socket full has been noticed already.
    theirs.set_nonblocking(true)?;
    for &signal in signals {
        signal_hook::low_level::pipe::register(signal, theirs.try_clone()?).context("cannot watch for signals")?;
    }
    Ok(ours)
}

/// A folder for sockets that belongs to this user alone.
fn make_own_folder(path: &Path) -> Result<()> {
    if let Err(error) = std::fs::DirBuilder::new().mode(0o755).recursive(true).create(path) {
        bail!("{error}");
    }
    let metadata = std::fs::symlink_metadata(path)?;
    let own = rustix::process::geteuid().as_raw();
    // In a folder where all may write, another user could have made it first.
    ensure!(metadata.is_dir() && metadata.uid() == own, "{} belongs to another user", path.display());
    Ok(())
}

/// Listens where nobody else does; who may connect is [`SocketAccess`]'s, by default this user only.
fn listen_control(path: &Path, access: &SocketAccess) -> Result<(UnixListener, ControlSocket)> {
    if let Ok(kind) = std::fs::symlink_metadata(path).map(|metadata| metadata.file_type()) {
        if !kind.is_socket() {
            bail!("the control socket {} exists and is no socket: remove it, or set server.control", path.display());
        }
        if UnixStream::connect(path).is_ok() {
            bail!("another server has the control socket {}: stop it first, or set server.control", path.display());
        }
        // Left behind by a server that was killed.
        std::fs::remove_file(path).with_context(|| format!("cannot remove the stale {}", path.display()))?;
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    if let Some(parent) = parent.filter(|parent| is_own_folder(parent)) {
        make_own_folder(parent)
            .with_context(|| format!("cannot make {} for the control socket: set server.control", parent.display()))?;
    }
    // One thread so far: nobody else creates files under this mask.
    let before = rustix::process::umask(Mode::from_raw_mode(0o177));
    let bound = UnixListener::bind(path);
    rustix::process::umask(before);
    let listener = bound.with_context(|| {
        format!(
            "cannot listen on the control socket {}: its directory must exist, or set server.control",
            path.display()
        )
    })?;
    listener.set_nonblocking(true)?;
    let socket = ControlSocket(path.to_owned());
    access.apply(path)?;
    Ok((listener, socket))
}

/// The devices, counted and timed, and where that is read.
fn watched(devices: Devices) -> (Devices, Vec<(String, WatchedCounts)>) {
    let mut counts = Vec::new();
    let list = devices.list.into_iter().map(|device| {
        let name = device.name().to_owned();
        let (device, counted) = WatchedDevice::new(device);
        counts.push((name, counted));
        Box::new(device) as Box<dyn Device>
    });
    let devices = Devices::new(list.collect());
    (devices, counts)
}

/// Puts the exports into the table; gives the name and address of each.
fn exports(config: &Config, engine: &mut Engine, table: &mut Exports) -> Result<Vec<(String, Listen)>> {
    let mut listed = Vec::new();
    for export in &config.export {
        let name = config.export_name(export).to_owned();
        let made = new_export(config, export, engine)?;
        if table.find(&name).is_none_or(|(_, known)| known.name != name) {
            table.add(made)?;
        }
        if let Some(address) = export.listen() {
            listed.push((name, address));
        }
    }
    name_exports(table, engine);
    let (hints, files) = (config.evidence.iter().any(|e| e.hints), config.evidence.iter().any(|e| e.files));
    for (class, predicate) in unknown(engine.prism().table(), hints, files) {
        warn!("class {class}: {predicate:?} cannot be known without [[evidence]] and matches nothing");
    }
    Ok(listed)
}

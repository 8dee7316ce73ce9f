//! Makes a served pool from a configuration, and closes it cleanly.

use super::access::SocketAccess;
use super::answer::{Answerer, attach_evidence};
use super::before_ready::{Stopping, unless_stopped};
use super::clients::Clients;
use super::configured::{compare_disks, name_unfinished_removals, wanted};
use super::exporting::{Listening, exports, listen, ready_lines, removal_was_begun, say};
use super::handle::{Announce, Asked};
use super::hooks::Daemon;
use super::listen::ControlSocket;
use super::reload::Reloader;
use super::snapshot::Fixed;
use super::tls;
use super::ublk::BlockDevices;
use super::vhost::{MachineDevices, not_offered};
use super::watch::Watch;
use crate::config::Config;
use crate::control::control_path;
use crate::evidence::Evidence;
use crate::metrics;
use crate::pool::{self, Budget, Left, Opened, Opening, PoolBackend, Watched, base};
use crate::text;
use anyhow::{Result, anyhow, bail, ensure};
use forebay_device::{OpenMode, Target};
use forebay_export::{Listen, Reactor, ServerError};
use forebay_volume::layout::page::{INDEX_ENTRIES, LEAF_ENTRIES};
use forebay_volume::layout::superblock::Superblock;
use forebay_volume::recovery::{PolicyState, RecoveryReport};
use forebay_volume::{Devices, Pool};
use std::path::Path;
use std::time::{Duration, Instant};
use tracing::{info, warn};

/// At a stop, how long devices may be silent before the last checkpoint is given up. Together with the longest time
/// that stopping the reactor takes, it must end before the service manager kills the process.
const CLOSE_SILENCE: Duration = Duration::from_secs(45);

/// Interval at which missing devices are looked for.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// An open pool whose exports clients can reach. [`Self::run`] answers them.
pub struct Server {
    config: Config,
    reactor: Reactor,
    backend: PoolBackend,
    daemon: Daemon,
    lines: Vec<String>,
    /// Metrics are served until this is dropped.
    _metrics: Option<metrics::Server>,
}

impl Server {
    /// Opens the pool of a configuration that was read from `file`, and listens for clients. Waits at most `wait` for
    /// missing devices. `announce` receives a line for each export that can be used, in the form of `forebay serve`.
    /// The [`super::Handle`] of `asked` stops the server. Returns `None` where a stop was requested before the server
    /// was ready; a device or store that does not answer may then keep its thread until the process ends.
    ///
    /// # Errors
    /// The step that failed. A [`crate::finding::Finding`] where the pool is damaged.
    pub fn open(
        config: Config,
        file: &Path,
        opening: Opening,
        wait: Duration,
        asked: Asked,
        announce: Announce,
    ) -> Result<Option<Self>> {
        // Everything that needs no device is checked before a device is opened.
        let control = control_path(&config, file)?;
        let access = SocketAccess::of(&config.server)?;
        let tls = tls::load(&config)?;
        let for_devices = config.clone();
        let work = move |stopping: &Stopping| devices_of(&for_devices, opening, wait, stopping);
        let Some((devices, watched)) = unless_stopped(&asked, "devices", work)? else { return Ok(None) };
        // A server that is just ending releases its devices last. Once the devices are open here, its sockets are
        // free.
        let socket = ControlSocket::open(&control, &access)?;
        refuse_where_nobody_could_listen(&config, opening)?;
        let for_pool = config.clone();
        let work = move |_: &Stopping| pool_of(&for_pool, opening, devices, watched);
        let Some(of_pool) = unless_stopped(&asked, "pool", work)? else { return Ok(None) };
        let OfPool { mut pool, watched, recovery, recovery_time, superblock, left } = of_pool;
        warn_of_configuration(&config, opening, &superblock);
        let mut reactor = Reactor::new(Budget::of(config.memory.limit.0).server(&config))?;
        reactor.set_tls(tls);
        let exports = exports(&config, &mut pool.engine, reactor.exports())?;
        compare_disks(&config, &pool.engine);
        name_unfinished_removals(&pool.engine);
        let is_whole = opening.is_for_service() && left.is_none();
        let mut block_devices = BlockDevices::new(&superblock.pool, is_whole);
        block_devices.make(&config, &mut reactor)?;
        let machine_devices = machine_devices(&config, &access, &mut reactor, is_whole)?;
        let machine_uris = machine_devices.uris();
        let Listening { addresses, of_exports, uris } = listen(exports, &mut reactor, &access)?;
        let uris = machine_uris.iter().map(|(_, uri)| uri.clone()).chain(uris);
        let lines = ready_lines(uris, &config, reactor.exports(), &control);
        let (publisher, metrics_server) = serve_metrics(&config)?.unzip();
        let fixed = Fixed {
            superblock,
            recovery,
            recovery_time,
            addresses: addresses.iter().map(|(_, bound)| bound.clone()).collect(),
            own_addresses: of_exports,
            machine_uris,
            memory_limit_bytes: config.memory.limit.0,
            started_ns: pool::now_ns(),
            left,
            is_for_service: opening.is_for_service(),
            limits: config.log.limits(),
            watched,
            metrics: metrics_server.as_ref().map(metrics::Server::address),
        };
        let daemon = Daemon {
            asked,
            announce,
            clients: Clients::new(socket),
            answerer: Answerer::new(fixed),
            block_devices,
            machine_devices,
            is_over_bucket: config.capacity.iter().any(|device| device.target.0.bucket().is_some()),
            is_ready: false,
            reloader: Reloader::new(std::path::absolute(file)?, config.clone(), addresses),
            watch: Watch::new(config.log.limits()),
            publisher,
        };
        let evidence = Evidence::new(Budget::of(config.memory.limit.0).evidence_bytes);
        let mut backend = PoolBackend::new(pool, evidence);
        take_evidence(&config, &mut backend, &mut reactor)?;
        Ok(Some(Self { config, reactor, backend, daemon, lines, _metrics: metrics_server }))
    }

    /// Serves on this thread until a stop is requested.
    ///
    /// # Errors
    /// `announce` refuses the first line, the system fails the event loop, or the pool could not be closed cleanly.
    /// Devices that do not answer stay open until the process ends.
    pub fn run(self) -> Result<()> {
        let Self { config, mut reactor, mut backend, mut daemon, lines, _metrics } = self;
        let ended = say(&lines, &mut daemon.announce)
            .and_then(|()| daemon.block_devices.take_over(&config, &mut reactor))
            .and_then(|()| {
                daemon.write_through(&mut backend);
                Ok(reactor.run(&mut backend, &mut daemon)?)
            });
        // From here on the block devices that are left wait for the next server.
        drop(reactor);
        // A device that kept the reactor from stopping would keep the last checkpoint from ending, too. The next
        // start recovers from the journal.
        let hangs = |error: &anyhow::Error| matches!(error.downcast_ref(), Some(ServerError::StopTimedOut { .. }));
        let mut is_silent = ended.as_ref().is_err_and(hangs);
        let mut heard = Instant::now();
        let clean = !is_silent
            && backend.pool.close_unless(&mut |has_moved| {
                heard = if has_moved { Instant::now() } else { heard };
                is_silent = heard.elapsed() > CLOSE_SILENCE;
                is_silent
            });
        if !clean {
            let why = ended.as_ref().err().map(|why| format!(": {}", text::chain(why))).unwrap_or_default();
            warn!(
                cause = "stop",
                "stopped without a last checkpoint{why}: the next start recovers the pool from its journal"
            );
        }
        daemon.machine_devices.release();
        let counters = backend.pool.engine.status().counters;
        if is_silent {
            // A silent device is not waited for, and may still write to the buffers of its requests in flight. These
            // buffers and the device must stay until the process ends.
            std::mem::forget(backend);
        }
        ended?;
        if !clean {
            let reason = counters.last_checkpoint_error.or(counters.last_flush_error);
            bail!(
                "the pool was not stopped cleanly ({}): the next start recovers it from its journal",
                reason.unwrap_or_else(|| "the last checkpoint did not end".to_owned())
            );
        }
        info!("stopped cleanly");
        Ok(())
    }
}

/// Warns of what the configuration has that is not as it should be, though the pool can be served.
fn warn_of_configuration(config: &Config, opening: Opening, superblock: &Superblock) {
    if opening.is_for_service() {
        let notes = pool::backing_notes(config);
        notes.iter().for_each(|note| warn!(cause = "sparse member", "{note}"));
    }
    if superblock.name != config.pool.name {
        warn!(
            cause = "pool name",
            "the devices are of pool {:?}, the configuration says {:?}: make sure that its targets are those that are meant, and name it alike",
            superblock.name,
            config.pool.name
        );
    }
}

/// Offers disks to virtual machines, where the whole pool is served.
fn machine_devices(
    config: &Config,
    access: &SocketAccess,
    reactor: &mut Reactor,
    is_whole: bool,
) -> Result<MachineDevices> {
    if is_whole {
        return MachineDevices::open(config, access, reactor);
    }
    for export in not_offered(config, reactor.exports()) {
        warn!(
            cause = "vhost",
            advice = "Read it by NBD; machines that wait for it go on once the whole pool is served again",
            "export {export:?} is not offered to virtual machines, which may have seen newer data than what a part of the pool holds"
        );
    }
    Ok(MachineDevices::default())
}

/// Attaches the evidence that the configuration asks for.
fn take_evidence(config: &Config, backend: &mut PoolBackend, reactor: &mut Reactor) -> Result<()> {
    for part in &config.evidence {
        let wanted = wanted(config, part);
        if removal_was_begun(&backend.pool.engine, &wanted.disk) {
            warn!(
                "no evidence is taken of disk {:?}: its removal was begun; take it out of the configuration",
                wanted.disk
            );
            continue;
        }
        attach_evidence(wanted, backend, reactor.exports()).map_err(|why| anyhow!("[[evidence]]: {why}"))?;
    }
    Ok(())
}

/// Logs what the opening found, and warns of what is not as it should be.
fn log_opening(
    opening: Opening,
    superblock: &Superblock,
    report: &RecoveryReport,
    took: Duration,
    left: Option<&Left>,
) {
    let (name, seconds, read) = (&superblock.name, took.as_secs_f64(), text::size(report.read_bytes));
    if opening == Opening::WithoutFast {
        info!(
            "pool {name:?} opened without its fast tier in {seconds:.3} s: a checkpoint of epoch {}, {read} read, no journal replayed",
            report.epoch,
        );
    } else {
        info!(
            "pool {name:?} recovered in {seconds:.3} s: {}, epoch {}, {read} read, {}, {} dropped that were never durable",
            if report.clean { "it had been stopped cleanly" } else { "it had not been stopped cleanly" },
            report.epoch,
            text::count(report.records, "record"),
            text::count(report.dropped_blocks, "block"),
        );
    }
    if opening == Opening::Salvage {
        let gone = text::count(report.holes, "journal batch");
        warn!("salvage: {gone} gone; what they changed may show an OLDER state");
    }
    for (disk, page) in &report.lost_pages {
        let len = (LEAF_ENTRIES * INDEX_ENTRIES * 4096) as u64;
        let begin = u64::from(*page) * len;
        warn!(
            "salvage: index page {page} of disk {disk} is lost: bytes {begin} to {} of it cannot be read",
            begin + len - 1
        );
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
    match left {
        Some(left) => {
            warn!("READ-ONLY: {}", left.label);
            left.lines().iter().for_each(|line| warn!("{line}"));
        }
        None if opening.is_for_service() => {}
        None => warn!("READ-ONLY: opened by --salvage to be read; nothing of the pool is changed"),
    }
    if report.is_journal_unread {
        warn!(
            "a part of the journal could not be read and was given up, as --accept-loss says: changes that were durable may be lost. Start \
             without that from now on"
        );
    }
    if report.unread_blocks > 0 {
        warn!(
            "of what was written last {} cannot be read, and what was there before was given up for them, as --accept-loss says: reads of them \
             fail until they are written again. Start without that from now on",
            text::count(report.unread_blocks, "block")
        );
    }
    if report.damaged_leaves > 0 {
        warn!("{} damaged: reads of what they mapped fail", text::count(report.damaged_leaves, "map leaf"));
    }
}

/// Waits at most `limit` for devices that are missing, as while a machine boots: a mirror should not be opened
/// without a member that appears late.
///
/// # Errors
/// A stop was requested while a device was missing; the message names it.
fn wait_for_devices(config: &Config, limit: Duration, stopping: &Stopping) -> Result<()> {
    let begin = Instant::now();
    let mut has_said = false;
    let bases = || config.disk.iter().filter_map(|disk| Some(&disk.base.as_ref()?.0));
    while let Some(target) = config.targets().chain(bases()).find(|target| pool::is_missing(target)) {
        if begin.elapsed() >= limit {
            break;
        }
        ensure!(!stopping.is_asked(), "{target} is not there yet");
        if !std::mem::replace(&mut has_said, true) {
            info!("waiting up to {} s for {target}, which is not there yet", limit.as_secs());
        }
        std::thread::sleep(LOOK_AGAIN);
    }
    Ok(())
}

/// Opens the devices of a pool. Where all of them are memory, formats a new pool on them.
fn devices_of(config: &Config, opening: Opening, wait: Duration, stopping: &Stopping) -> Result<(Devices, Watched)> {
    wait_for_devices(config, wait, stopping)?;
    let mut watched = Watched::default();
    if config.targets().any(Target::is_persistent) {
        let devices = pool::open_all(config, opening, &mut watched)?;
        return Ok((devices, watched));
    }
    let mut devices = pool::open_devices(config, OpenMode::ReadWrite)?;
    pool::format(config, &mut devices, &mut pool::Ids::Random)?;
    info!("the targets are memory: a new pool was formatted, and is gone when the server ends");
    Ok((devices, watched))
}

/// An open pool and the report of its recovery.
struct OfPool {
    pool: Pool,
    watched: Watched,
    recovery: RecoveryReport,
    recovery_time: Duration,
    superblock: Superblock,
    left: Option<Left>,
}

/// Opens the pool on its devices, and attaches the bases of its disks.
fn pool_of(config: &Config, opening: Opening, devices: Devices, mut watched: Watched) -> Result<OfPool> {
    let started = Instant::now();
    let Opened { engine, devices, recovery, superblock, left } = pool::open_as(config, devices, opening)?;
    let recovery_time = started.elapsed();
    log_opening(opening, &superblock, &recovery, recovery_time, left.as_ref());
    let mut pool = Pool::new(engine, watched.devices(devices));
    if let Err(error) = base::attach_all(config, &mut pool, opening) {
        pool.close();
        return Err(error);
    }
    Ok(OfPool { pool, watched, recovery, recovery_time, superblock, left })
}

/// Checks that every address could be listened at, before the pool is opened and thereby changed. Nothing listens
/// yet, because a client would then wait for the whole recovery.
fn refuse_where_nobody_could_listen(config: &Config, opening: Opening) -> Result<()> {
    let machines = config.export.iter().filter(|_| opening.is_for_service());
    let machines = machines.filter_map(|export| Some((export, Listen::Unix(export.vhost_path()?))));
    let doors = config.export.iter().filter_map(|export| Some((export, export.listen()?)));
    let mut tried: Vec<Listen> = Vec::new();
    for (export, address) in doors.chain(machines) {
        if tried.contains(&address) {
            continue;
        }
        let name = config.export_name(export);
        forebay_export::server::can_listen(&address, config.server.allow_remote)
            .map_err(|why| anyhow!("export {name:?}: {}; the pool was not opened", text::chain(&why.into())))?;
        tried.push(address);
    }
    config.metrics.listen.iter().try_for_each(|listen| metrics::Server::can_start(listen.0))
}

/// Starts the metrics server, where one is configured.
fn serve_metrics(config: &Config) -> Result<Option<(metrics::Publisher, metrics::Server)>> {
    let Some(listen) = config.metrics.listen else { return Ok(None) };
    let (publisher, source) = metrics::channel();
    let server = metrics::Server::start(listen.0, source)?;
    info!("metrics, health and a live page at http://{}/", server.address());
    Ok(Some((publisher, server)))
}

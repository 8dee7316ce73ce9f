//! One source of evidence: kernel probes on the block device above an export, and a watch of the file system mounted
//! on it. The source looks for either until it is there, uses it, and looks again when it has gone.

use super::files::Files;
use super::find::{Place, is_there};
use super::hints::{Hint, Hints};
use crate::text::chain;
use forebay_block::{BLOCK_BYTES_U64 as BLOCK_BYTES, ClassId, DiskId};
use forebay_prism::FileHints;
use forebay_trace::Flags;
use forebay_trace::capture::{Event, Probes, Target, Watch};
use forebay_trace::files::{Change, Watch as FileWatch, WatchOptions, WatchState, Watching, own_descriptors};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, TrySendError, sync_channel};
use std::time::Duration;
use tracing::{info, warn};

/// Interval between two attempts to find a missing part.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Most events taken from the ring in one pass.
const EVENTS_MAX: usize = 4096;
/// Most changes of files, and most extents, applied in one tick.
const CHANGES_MAX: usize = 256;
const EXTENTS_MAX: usize = 8192;

/// What to look for, as configured or requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Name of the disk that the evidence belongs to.
    pub disk: String,
    /// Block device above the disk's export; `None` where the mount point names it.
    pub device: Option<PathBuf>,
    /// Mount point of its file system; `None` where it is to be found.
    pub mount: Option<PathBuf>,
    /// Whether kernel probes report writes.
    pub hints: bool,
    /// Whether files are mapped to blocks.
    pub files: bool,
}

/// A part of a source: either in use, or looked for by a thread, because the search may block.
enum Part<T> {
    Off,
    Looking { found: Receiver<Result<T, String>>, why: String },
    On(T),
}

/// The kernel probes on a device.
struct Plane {
    target: Target,
    probes: Probes,
}

/// The watch of a mounted file system.
struct Mounted {
    mount: PathBuf,
    file_system: u32,
    watch: FileWatch,
}

/// One source of evidence of one disk.
pub struct Source {
    /// What it looks for.
    pub wanted: Wanted,
    /// The disk that it belongs to.
    pub disk: DiskId,
    disk_size_bytes: u64,
    /// Limit of its memory, in bytes.
    pub memory_bytes: u64,
    limits: (usize, usize),
    plane: Part<Plane>,
    mounted: Part<Mounted>,
    /// The mounted file system's device number, as the kernel has it.
    pub file_system: Option<u32>,
    /// Hints whose writes have not arrived yet.
    pub hints: Hints,
    /// The map of blocks to files.
    pub files: Files,
    /// Written blocks: those that the kernel reported, those that only the map of files knew, and all others.
    pub written: [u64; 3],
    events: u64,
    /// Files that were left out of the map, and such as are in it in part only, when that was said last.
    left_out_said: u64,
    /// What was lost, as pairs of kind and explanation; at most one of each kind between two ticks.
    pub losses: Vec<(String, String)>,
}

fn look<T: Send + 'static>(name: &str, mut find: impl FnMut() -> Result<T, String> + Send + 'static) -> Part<T> {
    let (tell, found) = sync_channel(1);
    let body = move || {
        loop {
            let result = find();
            let is_there = result.is_ok();
            match tell.try_send(result) {
                // The source has ended.
                Err(TrySendError::Disconnected(_)) => return,
                // The earlier result has not been read yet.
                Err(TrySendError::Full(result)) if is_there => {
                    // Waits until the result is read. Where the source ends meanwhile, the result is dropped.
                    let _ = tell.send(result);
                    return;
                }
                _ if is_there => return,
                _ => std::thread::sleep(LOOK_EVERY),
            }
        }
    };
    match std::thread::Builder::new().name(format!("look-{name}")).spawn(body) {
        Ok(_) => Part::Looking { found, why: "looking".to_owned() },
        Err(error) => {
            warn!("no thread to look for evidence: {error}");
            Part::Off
        }
    }
}

impl<T> Part<T> {
    /// Takes the result of the search. Returns true where the part was just found.
    fn advance(&mut self) -> bool {
        loop {
            let Self::Looking { found, why } = self else { return false };
            match found.try_recv() {
                Ok(Ok(there)) => {
                    *self = Self::On(there);
                    return true;
                }
                Ok(Err(reason)) => *why = reason,
                Err(TryRecvError::Empty) => return false,
                Err(TryRecvError::Disconnected) => {
                    *why = "the thread that looked for it has ended".to_owned();
                    return false;
                }
            }
        }
    }

    fn state(&self) -> (&'static str, Option<&str>) {
        match self {
            Self::Off => ("off", None),
            Self::Looking { why, .. } => ("waiting", Some(why)),
            Self::On(_) => ("on", None),
        }
    }
}

impl Source {
    /// A source that begins to look. `limits` holds the most files and the most runs of blocks that it remembers.
    pub fn new(
        wanted: Wanted,
        (disk, disk_size_bytes): (DiskId, u64),
        memory_bytes: u64,
        limits: (usize, usize),
    ) -> Self {
        let mut source = Self {
            wanted,
            disk,
            disk_size_bytes,
            memory_bytes,
            limits,
            plane: Part::Off,
            mounted: Part::Off,
            file_system: None,
            hints: Hints::default(),
            files: Files::new(limits.1),
            written: [0; 3],
            events: 0,
            left_out_said: 0,
            losses: Vec::new(),
        };
        source.look_for_device();
        source.look_for_mount();
        source
    }

    fn place(&self) -> Place {
        Place { device: self.wanted.device.clone(), mount: self.wanted.mount.clone(), size_bytes: self.disk_size_bytes }
    }

    fn look_for_device(&mut self) {
        if !self.wanted.hints {
            return;
        }
        let place = self.place();
        self.plane = look("hints", move || {
            let target = place.device()?;
            let watch = Watch {
                disks: vec![target.disk.kernel_number()],
                has_request_based: target.disk.has_requests,
                has_bio_based: !target.disk.has_requests,
                writes_only: true,
                ..Watch::default()
            };
            let probes = Probes::attach(&watch, || {}).map_err(|error| chain(&error.into()))?;
            Ok(Plane { target, probes })
        });
    }

    fn look_for_mount(&mut self) {
        if !self.wanted.files {
            return;
        }
        let (place, (files_max, extents_max)) = (self.place(), self.limits);
        let mut is_apart = false;
        self.mounted = look("files", move || {
            // These threads may block on a disk of this very server. They must not keep its sockets open when the
            // server is killed.
            if !std::mem::replace(&mut is_apart, true)
                && let Err(error) = own_descriptors()
            {
                return Err(format!("the map of files cannot be kept apart from the server (Linux 5.9): {error}"));
            }
            let (mount, file_system) = place.mount()?;
            let options = WatchOptions { mount: mount.clone(), with_extents: true, files_max, extents_max };
            let watch = FileWatch::start(options).map_err(|error| chain(&error.into()))?;
            Ok(Mounted { mount, file_system, watch })
        });
    }

    /// Takes the events that the kernel has reported since the last call. This needs no system call: the ring lies in
    /// shared memory.
    pub fn drain(&mut self) {
        let Part::On(plane) = &mut self.plane else { return };
        let file_system = self.file_system;
        let (hints, events, files) = (&mut self.hints, &mut self.events, &mut self.files);
        plane.probes.read(EVENTS_MAX, |event| {
            let Event::Issue(issue) = event else { return };
            *events += 1;
            let begin = issue.sector.saturating_mul(512);
            let end = begin.saturating_add(u64::from(issue.len_bytes));
            let hint = Hint {
                lifetime: issue.lifetime,
                flags: issue.flags,
                file_system: issue.file_system,
                inode: issue.inode,
                generation: issue.generation,
                pid: issue.issuer.pid,
                comm: issue.issuer.comm,
                cgroup: issue.cgroup,
            };
            let (first, end) = (begin / BLOCK_BYTES, end.div_ceil(BLOCK_BYTES));
            hints.add(first, end, hint);
            if issue.inode != 0 && Some(issue.file_system) == file_system {
                files.issued(first, end, (issue.inode, issue.generation), issue.time_ns);
            } else if issue.flags.has(Flags::META) {
                files.taken(first, end);
            }
        });
    }

    /// Whether kernel hints, and a map of files, are available now.
    pub fn tells(&self) -> (bool, bool) {
        (matches!(self.plane, Part::On(_)), matches!(self.mounted, Part::On(_)))
    }

    /// Continues the search, notices lost parts, and applies changes of files.
    pub fn tick(&mut self, class: impl Fn(&Arc<FileHints>) -> ClassId) {
        if self.plane.advance()
            && let Part::On(plane) = &self.plane
        {
            info!("disk {}: the kernel tells of writes to {}", self.wanted.disk, plane.target.disk.name);
        }
        if self.mounted.advance()
            && let Part::On(mounted) = &self.mounted
        {
            self.file_system = Some(mounted.file_system);
            info!("disk {}: files of {} are being mapped", self.wanted.disk, mounted.mount.display());
        }
        if let Part::On(plane) = &self.plane
            && !is_there(&plane.target, self.disk_size_bytes)
        {
            let name = plane.target.disk.name.clone();
            self.losses.push((
                name.clone(),
                format!("disk {}: {name} has gone, the kernel tells nothing of its writes", self.wanted.disk),
            ));
            self.lose_plane();
            self.look_for_device();
        }
        let mut changes = Vec::new();
        let mut ended = None;
        if let Part::On(mounted) = &mut self.mounted {
            let mut extents = 0;
            // Changes and extents are limited so that a tick stays short.
            while changes.len() < CHANGES_MAX && extents < EXTENTS_MAX {
                let before = changes.len();
                mounted.watch.changes(1, &mut changes);
                match changes.get(before) {
                    Some(Change::File { extents: Some(list), .. }) => extents += list.len(),
                    Some(_) => {}
                    None => break,
                }
            }
            let state = mounted.watch.state();
            if let Some(why) = left_out(&mut self.left_out_said, &state) {
                let mount = mounted.mount.display().to_string();
                self.losses.push((mount, format!("disk {}: {why}", self.wanted.disk)));
            }
            ended = state.ended;
        }
        for change in changes {
            self.files.take(change, &class);
        }
        if let Some(why) = ended {
            let about = self.wanted.mount.as_ref().map_or_else(String::new, |mount| mount.display().to_string());
            self.losses.push((about, format!("disk {}: its files are not known any more: {why}", self.wanted.disk)));
            self.lose_mount();
            self.look_for_mount();
        }
    }

    fn lose_plane(&mut self) {
        self.hints.clear();
        if let Part::On(plane) = std::mem::replace(&mut self.plane, Part::Off) {
            drop_aside(plane);
        }
    }

    fn lose_mount(&mut self) {
        // Blocks keep their classes, but the files that they belong to are not known any more.
        self.files = Files::new(self.limits.1);
        self.left_out_said = 0;
        self.file_system = None;
        if let Part::On(mounted) = std::mem::replace(&mut self.mounted, Part::Off) {
            drop_aside(mounted);
        }
    }

    /// The disk has a new size.
    pub fn resized(&mut self, disk_size_bytes: u64) {
        self.disk_size_bytes = disk_size_bytes;
        if matches!(self.plane, Part::Looking { .. }) {
            self.look_for_device();
        }
        if matches!(self.mounted, Part::Looking { .. }) {
            self.look_for_mount();
        }
    }

    /// Ends the source, its probes and its watch.
    pub fn end(mut self) {
        self.lose_plane();
        self.lose_mount();
    }

    /// State of the source and its counters, as JSON for the status.
    pub fn describe(&self) -> Value {
        let (plane_state, plane_why) = self.plane.state();
        let (files_state, files_why) = self.mounted.state();
        let (device, lost) = match &self.plane {
            Part::On(plane) => (Some(plane.target.disk.name.clone()), plane.probes.lost().0),
            _ => (None, 0),
        };
        let (known, runs, waiting) = self.files.counts();
        let mut files = json!({
            "state": files_state,
            "why": files_why,
            "files": known,
            "extents": runs,
            "files_to_correct": waiting,
        });
        if let Part::On(mounted) = &self.mounted {
            let state = mounted.watch.state();
            files["mount"] = json!(mounted.mount);
            files["is_walked"] = json!(state.is_walked);
            files["no_extents"] = json!(state.no_extents);
            files["by_walks"] = match state.watching {
                Watching::ByEvents => Value::Null,
                Watching::ByWalks { why } => json!(why),
            };
            files["left_out_files"] = json!(state.left_out_files);
            files["cut_files"] = json!(state.cut_files);
            files["overflows"] = json!(state.lost);
            files["last_error"] = json!(state.last_error);
        }
        let bytes = |at: usize| self.written.get(at).map_or(0, |blocks| blocks * BLOCK_BYTES);
        json!({
            "disk": self.wanted.disk,
            "device": self.wanted.device,
            "mount": self.wanted.mount,
            "hints": {
                "state": plane_state,
                "why": plane_why,
                "device": device,
                "events": self.events,
                "lost": lost,
                "expired": self.hints.expired,
            },
            "files": files,
            "hinted_bytes": bytes(0),
            "mapped_bytes": bytes(1),
            "unknown_bytes": bytes(2),
        })
    }
}

/// What to say of files that the map leaves out, where there are more than when that was said last.
fn left_out(said: &mut u64, state: &WatchState) -> Option<String> {
    let now = state.left_out_files + state.cut_files as u64;
    if now <= std::mem::replace(said, now) {
        return None;
    }
    Some(format!(
        "files were left out of the map {} times and {} are in it in part only, because of its limits (docs/limits.md): rules by path do not claim what they write",
        state.left_out_files, state.cut_files
    ))
}

/// Drops a value on a thread of its own. Removing probes from the kernel waits until none of them runs, and a watch's
/// thread may be busy: the server must not wait for either.
fn drop_aside<T: Send + 'static>(what: T) {
    // Where no thread can be started, the value is dropped here, and the server waits.
    let _ = std::thread::Builder::new().name("evidence-end".to_owned()).spawn(move || drop(what));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: files that did not fit into the map were counted, and the log never had a line about them.
    #[test]
    fn regression_files_that_are_left_out_are_said_once_until_there_are_more() {
        let mut said = 0;
        assert_eq!(left_out(&mut said, &WatchState::default()), None);
        let some = WatchState { left_out_files: 3, cut_files: 1, ..WatchState::default() };
        assert!(left_out(&mut said, &some).is_some_and(|why| why.contains("3 times and 1 are in it in part")));
        assert_eq!(left_out(&mut said, &some), None);
        let fewer = WatchState { left_out_files: 3, ..WatchState::default() };
        assert_eq!(left_out(&mut said, &fewer), None);
        assert!(left_out(&mut said, &some).is_some(), "the extents of another file were cut");
    }
}

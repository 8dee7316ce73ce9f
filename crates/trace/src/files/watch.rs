//! The watch: a thread that handles the events of a mount, reads folders, looks at files, and reports changes.

use super::book::Book;
use super::error::FilesError;
use super::events::events;
use super::kernel::{self, Fiemap};
use super::look::{Ask, Look, look};
use super::place::{MOUNTS_PATH, OnDisk, Place};
use super::rocksdb::Databases;
use super::scan::{Root, Scans, Step};
use super::shared::Shared;
use super::{Change, WatchOptions, WatchState, Watching};
use crate::files::book::Todo;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::time::{ClockId, clock_gettime};
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Shortest interval between reads of events; in between, the kernel merges events of one file.
const EVENTS_EVERY: Duration = Duration::from_millis(20);
/// Longest sleep before the thread checks whether it shall end.
const SLEEP_MAX: Duration = Duration::from_millis(250);
/// Longest work on the mount without a rest.
const SLICE: Duration = Duration::from_millis(10);
/// Rests are this many times as long as the work: while new things are to be found, and in routine walks.
const REST_FACTOR: u32 = 3;
const REST_FACTOR_IDLE: u32 = 19;
/// Shortest and longest interval between routine walks: no event reports writes through a mapping or by io_submit(2), and moves by the file
/// system. In between, the interval is this many times the duration of the walk.
const WALK_EVERY: [Duration; 2] = [Duration::from_secs(30), Duration::from_secs(600)];
const WALK_FACTOR: u32 = 20;
/// Shortest interval between walks if there are no events.
const WALK_EVERY_MIN: Duration = Duration::from_secs(2);
/// Bytes of events read at once, and most reads in one iteration.
const EVENT_BYTES: usize = 256 << 10;
const READS_MAX: usize = 64;
/// How many files a walk may be ahead of the looks at them.
const AHEAD_MAX: usize = 1024;

/// Watches one mounted file system. After this is dropped its thread ends by itself: it is not waited for, since its disk may be served by
/// the thread that drops this.
#[derive(Debug)]
pub struct Watch {
    shared: Arc<Shared>,
    place: Place,
}

/// fanotify's group, and whether it reports the file of every event.
struct Group {
    fd: OwnedFd,
    tells_files: bool,
}

impl Watch {
    /// Begins to watch the file system mounted at `options.mount`. Does no I/O on the device.
    ///
    /// # Errors
    /// Nothing is mounted there, or the system refuses.
    pub fn start(options: WatchOptions) -> Result<Self, FilesError> {
        let place = Place::of(&options.mount)?;
        let point = place.mount.point.clone();
        let refused = |source| FilesError::Read { path: point.clone(), source };
        let root = place.root().map_err(refused)?;
        let mounts = File::open(MOUNTS_PATH).map_err(|source| FilesError::Read { path: MOUNTS_PATH.into(), source })?;
        let path = CString::new(point.as_os_str().as_bytes()).map_err(|_| FilesError::Path { path: point.clone() })?;
        let group = match root.mount {
            Some(_) => group(&path, options.with_extents).map_err(|error| format!("fanotify: {error}")),
            None => Err(format!("{} has no file handles that tell the inode", place.mount.kind)),
        };
        let state = WatchState {
            watching: match &group {
                Ok(_) => Watching::ByEvents,
                Err(why) => Watching::ByWalks { why: why.clone() },
            },
            no_extents: match &place.device {
                Err(why) if options.with_extents => Some(why.clone()),
                _ => None,
            },
            ..WatchState::default()
        };
        let shared = Arc::new(Shared::default());
        shared.publish(&state);
        let watcher = Watcher {
            device: place.device.clone().ok().filter(|_| options.with_extents),
            limit: options.files_max,
            book: Book::new(options, point, root.handle),
            place: place.clone(),
            root,
            group: group.ok(),
            mounts,
            scans: Scans::default(),
            databases: Databases::default(),
            shared: Arc::clone(&shared),
            room: Fiemap::new(),
            todo: vec![Todo::Walk],
            state,
            walk_at: None,
        };
        std::thread::Builder::new()
            .name("files".to_owned())
            .spawn(move || watcher.run())
            .map_err(FilesError::Thread)?;
        Ok(Self { shared, place })
    }

    /// Appends at most `limit` changes. Never blocks.
    pub fn changes(&mut self, limit: usize, out: &mut Vec<Change>) {
        self.shared.take(limit, out);
    }

    /// The state, at most some tens of milliseconds old while the thread works.
    #[must_use]
    pub fn state(&self) -> WatchState {
        self.shared.state()
    }

    /// The place of the file system.
    #[must_use]
    pub fn place(&self) -> &Place {
        &self.place
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.shared.stop();
    }
}

fn group(path: &std::ffi::CStr, with_extents: bool) -> io::Result<Group> {
    let flags = libc::FAN_CLASS_NOTIF | libc::FAN_CLOEXEC | libc::FAN_NONBLOCK;
    let names = libc::FAN_REPORT_FID | libc::FAN_REPORT_DIR_FID | libc::FAN_REPORT_NAME;
    let mut mask = libc::FAN_CREATE | libc::FAN_DELETE | libc::FAN_CLOSE_WRITE | libc::FAN_ONDIR;
    if with_extents {
        mask |= libc::FAN_MODIFY;
    }
    // From 5.17 on, events with names also report the file, and renames are one event.
    if let Ok(fd) = kernel::fanotify(flags | names | libc::FAN_REPORT_TARGET_FID) {
        match kernel::mark_file_system(fd.as_fd(), mask | libc::FAN_RENAME, path) {
            Ok(()) => return Ok(Group { fd, tells_files: true }),
            Err(error) if error.kind() != io::ErrorKind::InvalidInput => return Err(error),
            Err(_) => {}
        }
    }
    let fd = kernel::fanotify(flags | names)?;
    kernel::mark_file_system(fd.as_fd(), mask | libc::FAN_MOVED_FROM | libc::FAN_MOVED_TO, path)?;
    Ok(Group { fd, tells_files: false })
}

struct Watcher {
    place: Place,
    device: Option<OnDisk>,
    limit: usize,
    root: Root,
    group: Option<Group>,
    /// Becomes ready when something is mounted or unmounted (proc_pid_mountinfo(5)).
    mounts: File,
    book: Book,
    scans: Scans,
    databases: Databases,
    shared: Arc<Shared>,
    room: Box<Fiemap>,
    todo: Vec<Todo>,
    state: WatchState,
    /// When the next routine walk begins.
    walk_at: Option<Instant>,
}

impl Watcher {
    fn run(mut self) {
        let mut buffer = vec![0; EVENT_BYTES];
        let (mut events_at, mut work_at) = (Instant::now(), Instant::now());
        // It may have been unmounted before the mounts were watched.
        let mut is_checked = false;
        while !self.shared.is_stopped() {
            let now = Instant::now();
            let wake = [self.next_work().map(|at| at.max(work_at)), self.group.as_ref().map(|_| events_at.max(now))];
            // Events wake the thread by themselves once it may read them again.
            let takes_events = self.group.is_some() && now >= events_at;
            let until = match wake {
                [Some(work), _] if takes_events => Some(work),
                [work, Some(events)] if !takes_events => Some(work.map_or(events, |work| work.min(events))),
                [work, _] => work,
            };
            let sleep = until.map_or(SLEEP_MAX, |at| at.saturating_duration_since(now).min(SLEEP_MAX));
            let sleep = if is_checked { sleep } else { Duration::ZERO };
            let has_changed = self.wait(sleep, takes_events);
            if (has_changed || !std::mem::replace(&mut is_checked, true)) && !self.place.is_mounted() {
                self.state.ended = Some(format!("{} was unmounted", self.place.mount.point.display()));
                break;
            }
            let now = Instant::now();
            if now >= events_at && self.take_events(&mut buffer) {
                events_at = now + EVENTS_EVERY;
            }
            if self.walk_at.is_some_and(|at| at <= now) {
                self.walk_at = None;
                self.todo.push(Todo::Walk);
            }
            self.take_todo(now);
            if now >= work_at {
                let is_urgent = self.work(now);
                let ended = Instant::now();
                let factor = if is_urgent { REST_FACTOR } else { REST_FACTOR_IDLE };
                work_at = ended + ended.saturating_duration_since(now) * factor;
            }
            self.publish();
        }
        // No more events come, and none are requested.
        self.group = None;
        self.publish();
    }

    /// Handles the work that events, folders and looks have left.
    fn take_todo(&mut self, now: Instant) {
        for todo in self.todo.drain(..) {
            match todo {
                Todo::Scan(folder, is_deep) => self.scans.folder(folder, is_deep),
                Todo::Walk => self.scans.walk(self.root.handle.id.inode, now),
                Todo::Notice(folder) => self.databases.noticed(&self.book, folder, now),
                Todo::Table(folder, number) => self.databases.table(folder, number, now),
            }
        }
    }

    /// When there is work on the mount; `None` while there is none.
    fn next_work(&self) -> Option<Instant> {
        let has_work = self.scans.is_busy() || self.book.schedule.bulk() > 0;
        let now = (has_work && self.book.has_room()).then(Instant::now);
        let looks = self.book.schedule.next().filter(|_| self.book.has_room());
        [now, looks, self.walk_at, self.databases.next().filter(|_| self.book.has_room())].into_iter().flatten().min()
    }

    /// Waits for events, a change of mounts, or the end of `sleep`; returns whether mounts have changed.
    fn wait(&self, sleep: Duration, takes_events: bool) -> bool {
        let mut fds = vec![PollFd::new(&self.mounts, PollFlags::PRI)];
        if let Some(group) = self.group.as_ref().filter(|_| takes_events) {
            fds.push(PollFd::new(&group.fd, PollFlags::IN));
        }
        let timeout = Timespec { tv_sec: sleep.as_secs() as i64, tv_nsec: i64::from(sleep.subsec_nanos()) };
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) => fds.first().is_some_and(|fd| fd.revents().intersects(PollFlags::PRI | PollFlags::ERR)),
            Err(_) => false,
        }
    }

    /// Handles the events that have arrived; returns whether there were any.
    fn take_events(&mut self, buffer: &mut [u8]) -> bool {
        let Some(group) = &self.group else { return false };
        let is_whole = group.tells_files && self.state.walks > 0;
        let mut any = false;
        for _ in 0..READS_MAX {
            match rustix::io::read(&group.fd, &mut *buffer) {
                Ok(0) | Err(rustix::io::Errno::AGAIN) => break,
                Ok(len) => {
                    any = true;
                    let now = Instant::now();
                    for event in events(&buffer[..len.min(buffer.len())]) {
                        self.state.events += 1;
                        self.book.event(&event, is_whole, now, &mut self.todo);
                    }
                }
                Err(error) => {
                    self.state.last_error = Some(format!("fanotify: {error}"));
                    break;
                }
            }
        }
        any
    }

    /// Works on the mount for a slice; returns whether the work was for something new.
    fn work(&mut self, begun: Instant) -> bool {
        let until = begun + SLICE;
        let mut is_urgent = self.state.walks == 0;
        while Instant::now() < until && self.book.has_room() {
            if let Some(id) = self.book.next_look(Instant::now(), false) {
                is_urgent = true;
                self.look(id);
                continue;
            }
            self.take_todo(begun);
            match self.databases.step(&mut self.book, self.root.mount.is_some(), Instant::now()) {
                Ok(true) => continue,
                Ok(false) => {}
                Err(error) => self.state.last_error = Some(format!("reading a LOG: {error}")),
            }
            let bulk = self.book.schedule.bulk();
            if bulk > 0 && (bulk > AHEAD_MAX || !self.scans.is_busy()) {
                if let Some(id) = self.book.next_look(Instant::now(), true) {
                    self.look(id);
                }
            } else if self.scans.is_busy() {
                let (step, error) = self.scans.step(&mut self.book, &self.root, until, self.limit, &mut self.todo);
                if let Some(error) = error {
                    self.state.last_error = Some(format!("reading a folder: {error}"));
                }
                if let Step::Done(Some(walk_begun)) = step {
                    self.walked(walk_begun);
                }
            } else {
                break;
            }
        }
        is_urgent
    }

    fn walked(&mut self, begun: Instant) {
        self.state.walks += 1;
        let now = Instant::now();
        let took = now.saturating_duration_since(begun);
        let rest = if self.group.is_some() {
            let [least, most] = WALK_EVERY;
            self.device.is_some().then(|| (took * WALK_FACTOR).clamp(least, most))
        } else {
            Some(WALK_EVERY_MIN.max(took * REST_FACTOR_IDLE))
        };
        self.walk_at = rest.map(|rest| now + rest);
    }

    fn look(&mut self, id: super::Id) {
        let Some(path) = self.book.path(id.inode) else { return };
        let limit = self.book.extents_limit(id.inode);
        let ask =
            self.device.as_ref().map(|device| Ask { begin_bytes: device.begin_bytes, limit, room: &mut self.room });
        let begun = Instant::now();
        let seen = look(&path, id, self.root.mount.is_some(), ask);
        let ended = Instant::now();
        self.state.looks += 1;
        match seen {
            Look::Found(found) => self.book.found(id, found, begun, ended),
            Look::Missing => self.book.missing(id, ended, &mut self.todo),
            Look::Other => self.book.other(id, &mut self.todo),
            Look::Failed(error) => {
                self.state.last_error = Some(format!("{}: {error}", path.display()));
                self.book.failed(id, begun, ended);
            }
        }
    }

    fn publish(&mut self) {
        let shared = &self.shared;
        self.book.drain(|changes| shared.put(changes));
        let state = &mut self.state;
        state.files = self.book.tree.files();
        state.extents = self.book.extents;
        state.lost = self.book.lost;
        state.left_out_files = self.book.left_out_files;
        state.cut_files = self.book.cut_files;
        state.is_walked = state.walks > 0 && self.book.schedule.bulk() == 0;
        let time = clock_gettime(ClockId::ThreadCPUTime);
        state.cpu = Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0));
        shared.publish(state);
    }
}

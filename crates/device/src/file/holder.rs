//! Who holds a lock of flock(2) on a file, as far as the system tells, and how long it is waited for.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

/// How long a file is waited for that is held by what a process that is gone has begun: the kernel closes the files of its rings when their last request
/// has ended, behind other work of a busy machine.
pub(crate) const GONE_TIMEOUT: Duration = Duration::from_secs(30);
/// The same where it is not known who holds it, and it may be such a process.
const UNKNOWN_TIMEOUT: Duration = Duration::from_secs(10);
/// `PF_EXITING` of linux/sched.h in the flags of `/proc/PID/stat`.
const EXITING: u64 = 4;

/// Who keeps others away from a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// A process that runs.
    Process {
        /// Its number.
        pid: u32,
        /// The name of its program; empty where the system does not tell.
        name: String,
    },
    /// A process that has ended: the kernel has not closed all that it had open yet.
    Ended {
        /// Its number.
        pid: u32,
    },
    /// No lock on this machine: a mount or another user of a block device, or it is free again.
    NoLock,
    /// The system does not tell.
    Unknown,
}

impl Holder {
    /// How long it is waited for where one that runs is waited for so long. A time of zero is nothing for everyone.
    pub(crate) fn timeout(&self, of_process: Duration) -> Duration {
        match self {
            _ if of_process.is_zero() => of_process,
            Self::Process { .. } | Self::NoLock => of_process,
            Self::Ended { .. } => of_process.max(GONE_TIMEOUT),
            Self::Unknown => of_process.max(UNKNOWN_TIMEOUT),
        }
    }

    /// The process, where one is known that runs.
    #[must_use]
    pub fn process(&self) -> Option<String> {
        match self {
            Self::Process { pid, name } if name.is_empty() => Some(format!("process {pid}")),
            Self::Process { pid, name } => Some(format!("process {pid} ({name})")),
            _ => None,
        }
    }

    /// Of a file that is open.
    pub(crate) fn of_file(file: BorrowedFd<'_>) -> Self {
        holder(file).unwrap_or(Self::Unknown)
    }

    /// Of a path, which is not opened for anything: an open block device would be in use.
    pub(crate) fn of_path(path: &Path) -> Self {
        let opened = File::options().read(true).custom_flags(libc::O_PATH).open(path);
        opened.map_or(Self::Unknown, |file| Self::of_file(file.as_fd()))
    }
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(process) = self.process() {
            return write!(f, "is in use by {process}; stop that first");
        }
        match self {
            Self::Ended { pid } => write!(
                f,
                "is in use: process {pid}, which has ended, had it, and either the kernel has not closed it yet, or a process that it began has it; \
                 look at `lsof` or `fuser`, or try again later"
            ),
            _ => f.write_str("is in use: another process, a mount or another pool holds it; stop that first"),
        }
    }
}

fn holder(file: BorrowedFd<'_>) -> io::Result<Holder> {
    let place = Place::of(file)?;
    let locks = std::fs::read_to_string("/proc/locks")?;
    let pids: Vec<u32> = pids_in(&locks, &place).collect();
    // We may hold a shared one beside another's.
    let others = || pids.iter().copied().filter(|&pid| pid != std::process::id());
    if let Some(pid) = others().find(|&pid| is_running(pid)) {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        return Ok(Holder::Process { pid, name: name.trim().to_owned() });
    }
    if let Some(pid) = others().next() {
        return Ok(Holder::Ended { pid });
    }
    if let Some(&pid) = pids.first() {
        return Ok(Holder::Process { pid, name: "this one".to_owned() });
    }
    Ok(if lists_all_locks() { Holder::NoLock } else { Holder::Unknown })
}

/// A file as /proc/locks names it: by the device of its file system and its inode. That of stat(2) is another on Btrfs and overlays.
struct Place {
    major: u32,
    minor: u32,
    inode: u64,
}

impl Place {
    fn of(file: BorrowedFd<'_>) -> io::Result<Self> {
        let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", file.as_raw_fd()))?;
        let mounts = std::fs::read_to_string("/proc/self/mountinfo")?;
        if let Some(place) = Self::in_texts(&info, &mounts) {
            return Ok(place);
        }
        // Kernels before 5.14 do not say the inode there.
        let metadata = File::from(file.try_clone_to_owned()?).metadata()?;
        let device = metadata.dev();
        Ok(Self { major: libc::major(device), minor: libc::minor(device), inode: metadata.ino() })
    }

    fn in_texts(info: &str, mounts: &str) -> Option<Self> {
        let field = |name: &str| {
            let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
            value.trim().parse::<u64>().ok()
        };
        let (mount, inode) = (field("mnt_id")?.to_string(), field("ino")?);
        // `36 35 98:0 /mnt1 /mnt2 rw,noatime ...`: the mount, the one that it is in, the device.
        let device = mounts.lines().find_map(|line| {
            let mut words = line.split(' ');
            (words.next()? == mount).then(|| words.nth(1))?
        })?;
        let (major, minor) = device.split_once(':')?;
        Some(Self { major: major.parse().ok()?, minor: minor.parse().ok()?, inode })
    }
}

/// The processes that took the locks of flock(2) on a file, in the text of /proc/locks.
fn pids_in<'a>(locks: &'a str, place: &Place) -> impl Iterator<Item = u32> + 'a {
    let place = format!("{:02x}:{:02x}:{}", place.major, place.minor, place.inode);
    locks.lines().filter_map(move |line| {
        // `1: FLOCK  ADVISORY  WRITE 4711 08:01:393225 0 EOF`; one that waits has an arrow before its kind.
        let mut words = line.split_whitespace().skip(1);
        let (kind, pid, of) = (words.next()?, words.nth(2)?, words.next()?);
        (kind == "FLOCK" && of == place).then(|| pid.parse().ok().filter(|&pid: &u32| pid > 0))?
    })
}

/// Whether a process is there, and not about to end.
fn is_running(pid: u32) -> bool {
    let Ok(signed) = libc::pid_t::try_from(pid) else { return false };
    // SAFETY: signal 0 is none; it is asked only whether there is such a process.
    let is_there =
        unsafe { libc::kill(signed, 0) } == 0 || io::Error::last_os_error().raw_os_error() == Some(libc::EPERM);
    // Where it is there and nothing more is to be read it is another user's.
    let read = |what: &str| std::fs::read_to_string(format!("/proc/{pid}/{what}")).unwrap_or_default();
    is_there && !is_ending(&read("stat"), &read("status"))
}

/// Whether a process has ended, is just ending, or was killed and has not noticed it yet (proc_pid_stat(5), proc_pid_status(5)).
fn is_ending(stat: &str, status: &str) -> bool {
    // The name, in parentheses, may hold anything.
    let behind_name = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
    let mut fields = behind_name.split(' ');
    let state = fields.next().unwrap_or_default();
    let flags: u64 = fields.nth(5).and_then(|flags| flags.parse().ok()).unwrap_or(0);
    let is_killed = ["SigPnd:", "ShdPnd:"].into_iter().any(|name| {
        let pending = status.lines().find_map(|line| line.strip_prefix(name));
        let pending = pending.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        pending.is_some_and(|mask| mask >> (libc::SIGKILL - 1) & 1 == 1)
    });
    matches!(state, "Z" | "X") || flags & EXITING != 0 || is_killed
}

/// Locks of processes that another namespace has, or that have ended, are listed in the first one only.
fn lists_all_locks() -> bool {
    // PROC_PID_INIT_INO of linux/proc_ns.h.
    std::fs::read_link("/proc/self/ns/pid").is_ok_and(|name| name.as_os_str() == "pid:[4026531836]")
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Place = Place { major: 8, minor: 1, inode: 42 };

    #[test]
    fn the_locks_of_a_file_are_found() {
        let text = "1: POSIX  ADVISORY  WRITE 7 08:01:42 0 EOF\n1: FLOCK  ADVISORY  READ 9 08:01:42 0 EOF\n2: FLOCK  ADVISORY  WRITE 4711 08:01:42 0 EOF\n\
                    2: -> FLOCK  ADVISORY  WRITE 5 08:01:43 0 EOF\n3: FLOCK  ADVISORY  READ -1 08:01:44 0 EOF\n";
        assert_eq!(pids_in(text, &FIRST).collect::<Vec<_>>(), [9, 4711]);
        for inode in [43, 44, 45] {
            assert_eq!(pids_in(text, &Place { inode, ..FIRST }).next(), None, "{inode}");
        }
    }

    #[test]
    fn a_file_is_found_as_the_kernel_names_it() {
        let mounts =
            "21 1 0:20 / / rw - overlay overlay rw\n24 21 254:1 /x /y rw,noatime shared:1 - ext4 /dev/vda1 rw\n";
        let place = Place::in_texts("pos:\t0\nflags:\t0100000\nmnt_id:\t24\nino:\t7\n", mounts).unwrap();
        assert_eq!((place.major, place.minor, place.inode), (254, 1, 7));
        assert!(Place::in_texts("pos:\t0\nmnt_id:\t24\n", mounts).is_none());
        assert!(Place::in_texts("mnt_id:\t25\nino:\t7\n", mounts).is_none());
    }

    #[test]
    fn a_process_that_was_killed_is_not_waited_for_as_one_that_runs() {
        let stat = |state: &str, flags: u64| format!("7 (a) b) {state} 1 7 7 0 -1 {flags} 0 0");
        let status = "Name:\ta\nSigPnd:\t0000000000000000\nShdPnd:\t0000000000000000\n";
        assert!(!is_ending(&stat("S", 0x0040_0000), status) && !is_ending("", ""));
        assert!(is_ending(&stat("Z", 0), status) && is_ending(&stat("X", 0), status));
        assert!(is_ending(&stat("D", 0x0040_0004), status));
        assert!(is_ending(&stat("D", 0), "SigPnd:\t0000000000000100\n"));
        assert!(is_running(std::process::id()));
    }

    #[test]
    fn who_holds_it_decides_how_long_it_is_waited_for() {
        let (second, pid) = (Duration::from_secs(1), 7);
        let process = Holder::Process { pid, name: "x".to_owned() };
        assert_eq!((process.timeout(second), Holder::NoLock.timeout(second)), (second, second));
        assert_eq!(Holder::Ended { pid }.timeout(second), GONE_TIMEOUT);
        assert_eq!(Holder::Unknown.timeout(second), UNKNOWN_TIMEOUT);
        assert_eq!(Holder::Ended { pid }.timeout(Duration::ZERO), Duration::ZERO);
        assert!(process.to_string().contains("by process 7 (x)"), "{process}");
    }
}

//! Waits for descriptors and maps each to its meaning. Level-triggered: an event that is not handled now is reported
//! again.
//!
//! A few connections are waited for by poll(2). Everything else is in an epoll set, whose descriptor is one of those
//! polled. The reason is the client's CPU time. A socket in an epoll set calls back on every message that its peer
//! sends or receives, even while the server is awake, and the peer pays for it. poll(2) leaves the socket alone
//! except while the server sleeps. Clients with many small requests at once are limited by just that time. The rings
//! of devices and front ends are polled as well: the server examines all of them in every iteration, and need not ask
//! epoll which one was ready.

#![allow(unsafe_code)]

use super::config::ServerError;
use super::interest::Interest;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::mem::MaybeUninit;

/// Most events taken per iteration.
const EVENTS_MAX: usize = 64;
/// Most connections waited for by poll(2).
pub const DIRECT_MAX: usize = 8;
/// Most descriptors of backend and front ends waited for by poll(2).
const RINGS_MAX: usize = 8;

/// The owner of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A connection, by its place and the place's generation.
    Connection {
        /// The place.
        index: u16,
        /// The generation of the place.
        generation: u32,
    },
    /// A listener, by its index.
    Listener(u16),
    /// The backend: completions wait.
    Backend,
    /// A front end other than NBD: requests wait.
    Frontend,
    /// The thread of handshakes: steps are done.
    Handshakes,
    /// A descriptor of the hooks.
    Hook(i32),
}

impl Source {
    fn to_data(self) -> EventData {
        EventData::new_u64(match self {
            Self::Connection { index, generation } => u64::from(generation) << 16 | u64::from(index),
            Self::Listener(index) => 1 << 60 | u64::from(index),
            Self::Backend => 2 << 60,
            Self::Frontend => 4 << 60,
            Self::Handshakes => 5 << 60,
            Self::Hook(fd) => 3 << 60 | u64::from(fd.cast_unsigned()),
        })
    }

    fn from_data(data: u64) -> Self {
        match data >> 60 {
            0 => Self::Connection { index: data as u16, generation: (data >> 16) as u32 },
            1 => Self::Listener(data as u16),
            2 => Self::Backend,
            4 => Self::Frontend,
            5 => Self::Handshakes,
            _ => Self::Hook((data as u32).cast_signed()),
        }
    }
}

/// An event: the owner of the descriptor, and what happened.
#[derive(Clone, Copy, Debug)]
pub struct Ready {
    /// Owner of the descriptor.
    pub source: Source,
    /// Whether the descriptor was hung up or failed.
    pub hung_up: bool,
}

/// A connection's descriptor that is waited for by poll(2).
#[derive(Debug)]
struct Direct {
    fd: i32,
    source: Source,
    flags: PollFlags,
}

/// All watched descriptors.
pub struct Poller {
    epoll: OwnedFd,
    direct: Vec<Direct>,
    /// Descriptors of backend and front ends that are polled.
    rings: Vec<i32>,
    /// The server's own descriptors in the epoll set.
    own: BTreeSet<i32>,
    /// Other descriptors in the epoll set, with owner and events.
    foreign: BTreeMap<i32, (Source, EventFlags)>,
}

impl std::fmt::Debug for Poller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Poller").field("epoll", &self.epoll).field("foreign", &self.foreign).finish_non_exhaustive()
    }
}

fn system(operation: &'static str) -> impl Fn(Errno) -> ServerError {
    move |source| ServerError::System { operation, source }
}

/// What is reported of a descriptor. Hang-ups and errors are reported in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Events {
    /// That it can be read.
    pub read: bool,
    /// That it can be written.
    pub write: bool,
}

impl Events {
    /// That it can be read, alone.
    pub const READ: Self = Self { read: true, write: false };

    fn epoll(self) -> EventFlags {
        let mut flags = EventFlags::empty();
        flags.set(EventFlags::IN, self.read);
        flags.set(EventFlags::OUT, self.write);
        flags
    }

    fn poll(self) -> PollFlags {
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, self.read);
        flags.set(PollFlags::OUT, self.write);
        flags
    }
}

impl Poller {
    /// A poller without descriptors.
    pub fn new() -> Result<Self, ServerError> {
        let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(system("epoll_create"))?;
        Ok(Self { epoll, direct: Vec::new(), rings: Vec::new(), own: BTreeSet::new(), foreign: BTreeMap::new() })
    }

    /// Watches one of the server's own descriptors. It must be [removed](Poller::remove) before it is closed.
    pub fn add(&mut self, fd: impl AsFd, source: Source, events: Events) -> Result<(), ServerError> {
        if matches!(source, Source::Connection { .. }) && self.direct.len() < DIRECT_MAX {
            self.direct.push(Direct { fd: fd.as_fd().as_raw_fd(), source, flags: events.poll() });
            return Ok(());
        }
        let number = fd.as_fd().as_raw_fd();
        epoll::add(&self.epoll, fd, source.to_data(), events.epoll()).map_err(system("epoll_ctl"))?;
        self.own.insert(number);
        Ok(())
    }

    /// Changes the events of a descriptor.
    pub fn modify(&mut self, fd: impl AsFd, source: Source, events: Events) -> Result<(), ServerError> {
        if let Some(direct) = self.direct.iter_mut().find(|direct| direct.source == source) {
            direct.flags = events.poll();
            return Ok(());
        }
        epoll::modify(&self.epoll, fd, source.to_data(), events.epoll()).map_err(system("epoll_ctl"))
    }

    /// Stops watching one of the server's own descriptors.
    pub fn remove(&mut self, fd: impl AsFd, source: Source) -> Result<(), ServerError> {
        if let Some(place) = self.direct.iter().position(|direct| direct.source == source) {
            self.direct.swap_remove(place);
            return Ok(());
        }
        self.own.remove(&fd.as_fd().as_raw_fd());
        epoll::delete(&self.epoll, fd).map_err(system("epoll_ctl"))
    }

    /// Moves a connection from epoll to poll(2), where there is room.
    pub fn promote(&mut self, fd: impl AsFd, source: Source, events: Events) {
        if self.direct.len() < DIRECT_MAX
            && !self.direct.iter().any(|direct| direct.source == source)
            && epoll::delete(&self.epoll, &fd).is_ok()
        {
            self.own.remove(&fd.as_fd().as_raw_fd());
            self.direct.push(Direct { fd: fd.as_fd().as_raw_fd(), source, flags: events.poll() });
        }
    }

    /// Moves a connection from poll(2) to epoll; it stays where the kernel refuses.
    pub fn demote(&mut self, fd: impl AsFd, source: Source, events: Events) {
        if let Some(place) = self.direct.iter().position(|direct| direct.source == source)
            && epoll::add(&self.epoll, &fd, source.to_data(), events.epoll()).is_ok()
        {
            self.own.insert(fd.as_fd().as_raw_fd());
            self.direct.swap_remove(place);
        }
    }

    /// Watches exactly these descriptors of backend, front ends, handshake thread and hooks, beside the server's own.
    /// Descriptors that cannot be watched (closed, or a regular file) are left out: their owner misses a wake-up, but
    /// clients are not affected.
    pub fn set_foreign(&mut self, backend: &[i32], frontends: &[i32], handshakes: Option<i32>, hooks: &[Interest]) {
        let mut wanted = BTreeMap::new();
        self.rings.clear();
        let backend = backend.iter().map(|&fd| (fd, Source::Backend));
        for (fd, source) in backend.chain(frontends.iter().map(|&fd| (fd, Source::Frontend))) {
            if self.rings.len() < RINGS_MAX && self.can_be_watched(fd, source) {
                self.rings.push(fd);
            } else {
                wanted.insert(fd, (source, EventFlags::IN));
            }
        }
        wanted.extend(handshakes.map(|fd| (fd, (Source::Handshakes, EventFlags::IN))));
        for interest in hooks {
            wanted.insert(
                interest.fd,
                (Source::Hook(interest.fd), Events { read: interest.read, write: interest.write }.epoll()),
            );
        }
        for (&fd, (source, _)) in &self.foreign {
            // A descriptor that was closed meanwhile may have become one of the server's own, with the same number.
            if wanted.get(&fd).is_none_or(|(now, _)| now != source) && !self.own.contains(&fd) {
                // Fails where the descriptor was closed, which has removed it already.
                let _ = epoll::delete(&self.epoll, borrow(fd));
            }
        }
        // Registered again each time: a descriptor that was closed and opened again under the same number looks the
        // same here, but is unknown to the kernel.
        wanted.retain(|&fd, &mut (source, flags)| {
            epoll::modify(&self.epoll, borrow(fd), source.to_data(), flags).is_ok()
                || epoll::add(&self.epoll, borrow(fd), source.to_data(), flags).is_ok()
        });
        self.foreign = wanted;
    }

    /// Whether epoll accepts the descriptor. poll(2) would report a closed descriptor or a regular file as ready for
    /// ever.
    fn can_be_watched(&self, fd: i32, source: Source) -> bool {
        if self.foreign.contains_key(&fd) {
            // Fails where the descriptor was closed, which has removed it already.
            let _ = epoll::delete(&self.epoll, borrow(fd));
        }
        let added = epoll::add(&self.epoll, borrow(fd), source.to_data(), EventFlags::IN);
        added.is_ok() && epoll::delete(&self.epoll, borrow(fd)).is_ok()
    }

    /// Waits up to `timeout_ns` and appends ready descriptors, except those that are examined in every iteration
    /// anyway.
    pub fn wait(&mut self, timeout_ns: u64, ready: &mut Vec<Ready>) -> Result<(), ServerError> {
        let timeout =
            Timespec { tv_sec: (timeout_ns / 1_000_000_000) as i64, tv_nsec: (timeout_ns % 1_000_000_000) as _ };
        let direct = self.direct.iter().map(|direct| (direct.fd, direct.flags));
        let rings = self.rings.iter().map(|&fd| (fd, PollFlags::IN));
        let mut others = direct.chain(rings);
        let mut polled: [PollFd<'_>; 1 + DIRECT_MAX + RINGS_MAX] =
            std::array::from_fn(|place| match place.checked_sub(1).and_then(|_| others.next()) {
                Some((fd, flags)) => PollFd::from_borrowed_fd(borrow(fd), flags),
                None => PollFd::from_borrowed_fd(self.epoll.as_fd(), PollFlags::IN),
            });
        let polled = &mut polled[..1 + self.direct.len() + self.rings.len()];
        match rustix::event::poll(polled, Some(&timeout)) {
            Ok(0) | Err(Errno::INTR) => return Ok(()),
            Ok(_) => {}
            Err(error) => return Err(system("poll")(error)),
        }
        for (slot, direct) in polled[1..].iter().zip(&self.direct) {
            let events = slot.revents();
            if !events.is_empty() {
                let hung_up = events.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL);
                ready.push(Ready { source: direct.source, hung_up });
            }
        }
        if !polled[0].revents().is_empty() {
            self.ask_epoll(ready)?;
        }
        let mut of_rings = polled[1 + self.direct.len()..].iter();
        // A closed descriptor would be ready for ever, until its owner returns its descriptors at the next tick.
        self.rings.retain(|_| of_rings.next().is_some_and(|slot| !slot.revents().contains(PollFlags::NVAL)));
        Ok(())
    }

    fn ask_epoll(&self, ready: &mut Vec<Ready>) -> Result<(), ServerError> {
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut events = [const { MaybeUninit::uninit() }; EVENTS_MAX];
        let events = match epoll::wait(&self.epoll, &mut events[..], Some(&at_once)) {
            Ok((events, _)) => &*events,
            Err(Errno::INTR) => return Ok(()),
            Err(error) => return Err(system("epoll_wait")(error)),
        };
        ready.extend(events.iter().map(|&Event { flags, data }| Ready {
            source: Source::from_data(data.u64()),
            hung_up: flags.intersects(EventFlags::HUP | EventFlags::ERR),
        }));
        Ok(())
    }
}

fn borrow<'a>(fd: i32) -> BorrowedFd<'a> {
    // SAFETY: the borrow lives for one epoll_ctl or poll call. Owners keep the descriptor open while it is watched;
    // were it closed nonetheless, the call reports it and touches no memory of ours. -1, which a `BorrowedFd` must
    // not hold, is mapped to a descriptor that does not exist.
    unsafe { BorrowedFd::borrow_raw(if fd < 0 { i32::MAX } else { fd }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;
    use std::time::{Duration, Instant};

    const MS: u64 = 1_000_000;

    fn waits(poller: &mut Poller) -> bool {
        let begun = Instant::now();
        poller.wait(20 * MS, &mut Vec::new()).unwrap();
        begun.elapsed() >= Duration::from_millis(20)
    }

    #[test]
    fn rings_end_a_wait_without_epoll_and_what_cannot_be_waited_for_does_not() {
        let mut poller = Poller::new().unwrap();
        let (ours, theirs) = UnixStream::pair().unwrap();
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        poller.set_foreign(&[ours.as_raw_fd(), file.as_raw_fd(), -1], &[], None, &[]);
        assert_eq!(poller.rings, [ours.as_raw_fd()]);
        assert!(waits(&mut poller));
        std::io::Write::write(&mut &theirs, &[1]).unwrap();
        let mut ready = Vec::new();
        poller.wait(10_000 * MS, &mut ready).unwrap();
        assert!(ready.is_empty(), "{ready:?}");
        drop(ours);
        poller.wait(10_000 * MS, &mut ready).unwrap();
        assert!(poller.rings.is_empty() && waits(&mut poller));
    }

    #[test]
    fn rings_beyond_the_polled_ones_are_waited_for_by_epoll() {
        let mut poller = Poller::new().unwrap();
        let pairs: Vec<_> = (0..RINGS_MAX + 2).map(|_| UnixStream::pair().unwrap()).collect();
        let fds: Vec<i32> = pairs.iter().map(|(ours, _)| ours.as_raw_fd()).collect();
        for (backend, frontends) in [(fds.as_slice(), [].as_slice()), (&[], fds.as_slice()), (&fds[..3], &fds[3..])] {
            // Twice, because the same descriptors come with every tick.
            poller.set_foreign(backend, frontends, None, &[]);
            poller.set_foreign(backend, frontends, None, &[]);
            assert!(waits(&mut poller));
            for (ours, theirs) in &pairs {
                std::io::Write::write(&mut &*theirs, &[1]).unwrap();
                assert!(!waits(&mut poller));
                std::io::Read::read(&mut &*ours, &mut [0]).unwrap();
            }
        }
    }

    /// Regression: a descriptor of a device that was not named any more was removed from epoll by its number. Where
    /// it had been closed and a connection had got that number, the connection was never served again.
    #[test]
    fn regression_a_connection_with_the_number_of_a_closed_descriptor_is_heard() {
        let mut poller = Poller::new().unwrap();
        let connection = |index| Source::Connection { index, generation: 1 };
        let polled: Vec<_> = (0..DIRECT_MAX).map(|_| UnixStream::pair().unwrap()).collect();
        for (index, (ours, _)) in polled.iter().enumerate() {
            poller.add(ours, connection(index as u16), Events::READ).unwrap();
        }
        let rings: Vec<_> = (0..RINGS_MAX).map(|_| UnixStream::pair().unwrap()).collect();
        let mut fds: Vec<i32> = rings.iter().map(|(ours, _)| ours.as_raw_fd()).collect();
        let (ring, _other) = UnixStream::pair().unwrap();
        let mut number = OwnedFd::from(ring);
        fds.push(number.as_raw_fd());
        poller.set_foreign(&fds, &[], None, &[]);
        let (ours, theirs) = UnixStream::pair().unwrap();
        rustix::io::dup2(&ours, &mut number).unwrap();
        poller.add(&number, connection(100), Events::READ).unwrap();
        poller.set_foreign(&fds[..RINGS_MAX], &[], None, &[]);
        std::io::Write::write(&mut &theirs, &[1]).unwrap();
        let mut ready = Vec::new();
        poller.wait(100 * MS, &mut ready).unwrap();
        assert_eq!(ready.iter().map(|ready| ready.source).collect::<Vec<_>>(), [connection(100)]);
    }

    #[test]
    fn sources_survive_the_trip_through_the_kernel() {
        for source in [
            Source::Connection { index: 16_000, generation: u32::MAX },
            Source::Connection { index: 0, generation: 0 },
            Source::Listener(3),
            Source::Backend,
            Source::Frontend,
            Source::Handshakes,
            Source::Hook(1_000_000),
        ] {
            assert_eq!(Source::from_data(source.to_data().u64()), source);
        }
    }
}

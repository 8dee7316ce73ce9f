//! How many descriptors a client of vhost-user can make the server hold. This test program is a process of its own,
//! since it counts all descriptors of the process.

#![allow(clippy::unwrap_used)]

use forebay_block::lock;
use forebay_export::frontend::Frontend;
use forebay_export::vhost::{Vhost, VhostEvent, Wanted};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::net::{
    self, AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketType, sendmsg,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::{IoSlice, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Queues of the device: the server has to hold a kick and a call for each.
const QUEUES: u64 = 16;
const REGION_BYTES: u64 = 4096;

/// Tests here count all descriptors of the process, or use them up: they run one at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// A client that sends arbitrary messages.
struct Hostile(UnixStream);

impl Hostile {
    fn send(&self, code: u32, body: &[u64], fds: &[BorrowedFd<'_>]) -> bool {
        let header = [code, 1, body.len() as u32 * 8].map(u32::to_le_bytes).concat();
        let body: Vec<u8> = body.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(32))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(fds.is_empty() || control.push(SendAncillaryMessage::ScmRights(fds)));
        sendmsg(&self.0, &[IoSlice::new(&header), IoSlice::new(&body)], &mut control, SendFlags::NOSIGNAL).is_ok()
    }

    /// Sends a message that requires an answer, which arrives after the server has processed everything sent before.
    fn answer(&mut self, code: u32) -> bool {
        self.send(code, &[], &[]) && self.0.read_exact(&mut [0; 20]).is_ok()
    }
}

/// Number of descriptors of this process.
fn held() -> usize {
    // One of them belongs to the directory being read.
    std::fs::read_dir("/proc/self/fd").unwrap().count() - 1
}

fn awaited(mut is_so: impl FnMut() -> bool, what: &str) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_client_cannot_use_up_the_server_s_descriptors() {
    let _alone = lock(&ALONE);
    let dir = std::env::temp_dir().join(format!("forebay-vhost-descriptors-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let path = dir.join("s");
    let wanted =
        Wanted { path: path.clone(), name: "db".to_owned(), size_bytes: 1 << 20, read_only: false, private: false };
    let (vhost, mut door) = Vhost::open(&wanted).unwrap();
    let file = memfd_create("memory", MemfdFlags::ALLOW_SEALING).unwrap();
    ftruncate(&file, REGION_BYTES * 64).unwrap();
    let event = eventfd(0, EventfdFlags::NONBLOCK).unwrap();
    let before = held();
    let mut client = Hostile(UnixStream::connect(&path).unwrap());
    client.0.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    assert!(client.answer(1) && client.send(2, &[1 << 30 | 1 << 32], &[]));
    // Memory may be added region by region.
    assert!(client.answer(15) && client.send(16, &[1 << 15], &[]) && client.answer(1));
    // The two ends of the connection, and the watchdog's copy.
    let connected = held();
    assert!(connected - before <= 4, "{before} to {connected}");

    let region = |at: u64| [at * REGION_BYTES, REGION_BYTES, at * REGION_BYTES, at * REGION_BYTES];
    for _ in 0..50 {
        for ring in 0..QUEUES {
            // Each replaces the one before; the server does not keep eventfds for errors.
            assert!(client.send(13, &[ring], &[event.as_fd()]) && client.send(14, &[ring], &[event.as_fd()]));
        }
        let table: Vec<u64> = [32].into_iter().chain((0..32).flat_map(region)).collect();
        assert!(client.send(5, &table, &[file.as_fd(); 32]));
        assert!(client.answer(1), "nothing of that is forbidden");
        assert!(held() - connected <= QUEUES as usize, "{connected} to {}", held());
    }
    for at in 32..64 {
        assert!(client.send(37, &[[0].as_slice(), &region(at)].concat(), &[file.as_fd()]));
    }
    assert!(client.answer(1));
    assert!(held() - connected <= QUEUES as usize, "{connected} to {}", held());

    // One region more than the limit, and more descriptors than belong to a message: that ends the connection, and
    // frees all of them.
    assert!(client.send(37, &[[0].as_slice(), &region(64)].concat(), &[file.as_fd()]));
    let mut reasons = Vec::new();
    awaited(
        || {
            let _ = door.receive(&mut Vec::new());
            reasons.extend(vhost.take_events());
            reasons.iter().any(|event| matches!(event, VhostEvent::Closed(_, Some(_))))
        },
        "the client is still there",
    );
    drop(client);
    awaited(|| held() <= before, "descriptors are left");
    // The server accepts clients again after a second.
    let surplus = Hostile(UnixStream::connect(&path).unwrap());
    assert!(surplus.send(1, &[], &[file.as_fd(); 32]));
    awaited(
        || vhost.take_events().iter().any(|event| matches!(event, VhostEvent::Closed(_, Some(_)))),
        "descriptors with a question are taken",
    );
    drop(surplus);
    awaited(|| held() <= before, "descriptors are left");
    drop(door);
    assert!(vhost.has_ended(Instant::now()));
    std::fs::remove_dir_all(dir).unwrap();
}

/// When the server could not accept a second client, as no descriptors were left, the machine being served waited for
/// a second in each iteration.
#[test]
fn regression_a_client_that_cannot_be_let_in_keeps_no_machine_waiting() {
    let _alone = lock(&ALONE);
    let dir = std::env::temp_dir().join(format!("forebay-vhost-second-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let path = dir.join("s");
    let wanted =
        Wanted { path: path.clone(), name: "db".to_owned(), size_bytes: 1 << 20, read_only: false, private: false };
    let (vhost, door) = Vhost::open(&wanted).unwrap();
    let mut client = Hostile(UnixStream::connect(&path).unwrap());
    client.0.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    assert!(client.answer(1));
    let second = net::socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
    let before = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(256), ..before }).unwrap();
    let fill: Vec<_> = std::iter::from_fn(|| rustix::io::dup(&second).ok()).collect();
    net::connect(&second, &SocketAddrUnix::new(&path).unwrap()).unwrap();
    let begun = Instant::now();
    let answered = (0..5).all(|_| client.answer(1));
    let took = begun.elapsed();
    drop(fill);
    setrlimit(Resource::Nofile, before).unwrap();
    assert!(answered && took < Duration::from_millis(2500), "{took:?}");
    let mut events = Vec::new();
    awaited(
        || {
            events.extend(vhost.take_events());
            events.iter().any(|event| matches!(event, VhostEvent::Refused(_)))
        },
        "it is refused in the end",
    );
    // The owner was not informed that the client had waited, and why.
    assert!(
        events.iter().any(|event| matches!(event, VhostEvent::NotAccepted(rustix::io::Errno::MFILE))),
        "{events:?}"
    );
    drop(door);
    assert!(vhost.has_ended(Instant::now()));
    std::fs::remove_dir_all(dir).unwrap();
}

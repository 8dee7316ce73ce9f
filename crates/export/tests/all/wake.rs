//! A backend that announces completions by a descriptor: the server sleeps meanwhile, and wakes for them.

use crate::client::*;
use forebay_block::DiskId;
use forebay_export::server::Interest;
use forebay_export::{Access, Backend, Export, Hooks, Listen, MemoryBackend, Reactor, ServerConfig, ServerControl};
use forebay_volume::{Completion, Request};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Passes requests to a thread, which returns them after a delay, with a byte that wakes the server.
struct Distant {
    disks: MemoryBackend,
    away: std::sync::mpsc::Sender<Request>,
    back: std::sync::mpsc::Receiver<Request>,
    bell: UnixStream,
    polls: u64,
}

impl Distant {
    fn new(delay: Duration) -> Self {
        let (away, out) = std::sync::mpsc::channel::<Request>();
        let (home, back) = std::sync::mpsc::channel();
        let (bell, mut ringer) = UnixStream::pair().unwrap();
        bell.set_nonblocking(true).unwrap();
        std::thread::spawn(move || {
            for request in out {
                std::thread::sleep(delay);
                if home.send(request).is_err() || ringer.write_all(&[1]).is_err() {
                    return;
                }
            }
        });
        let mut disks = MemoryBackend::new();
        disks.add_disk(DiskId(1), 1 << 20);
        Self { disks, away, back, bell, polls: 0 }
    }
}

impl Backend for Distant {
    fn submit(&mut self, request: Request) {
        self.away.send(request).unwrap();
    }

    fn poll(&mut self, done: &mut Vec<Completion>) {
        self.polls += 1;
        let _ = self.bell.read(&mut [0; 64]);
        while let Ok(request) = self.back.try_recv() {
            self.disks.submit(request);
        }
        self.disks.poll(done);
    }

    fn wake_fds(&self, out: &mut Vec<i32>) {
        out.push(self.bell.as_raw_fd());
    }

    fn tick(&mut self, _now_ns: u64) {}

    fn in_flight(&self) -> bool {
        false
    }
}

struct StopWhen(Arc<AtomicBool>);

impl Hooks<Distant> for StopWhen {
    fn watch(&self, _fds: &mut Vec<Interest>) {}
    fn ready(&mut self, _fd: i32, _backend: &mut Distant, _server: &mut ServerControl<'_>) {}
    fn tick(&mut self, _now_ns: u64, _backend: &mut Distant, server: &mut ServerControl<'_>) {
        if self.0.load(Ordering::Relaxed) {
            server.stop();
        }
    }
}

#[test]
fn completions_wake_the_server_and_nothing_else_does() {
    for poll_ns in [0, 100_000] {
        let path = std::env::temp_dir().join(format!("forebay-wake-{}-{poll_ns}", std::process::id()));
        let mut server = Reactor::new(ServerConfig { poll_ns, ..ServerConfig::default() }).unwrap();
        let export = Export {
            name: "disk".into(),
            disk: DiskId(1),
            size_bytes: 1 << 20,
            read_only: false,
            tag: None,
            description: String::new(),
            access: Access::default(),
        };
        server.exports().add(export).unwrap();
        server.listen(&Listen::Unix(path.clone())).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let thread = std::thread::spawn({
            let mut hooks = StopWhen(Arc::clone(&stop));
            move || {
                let mut backend = Distant::new(Duration::from_millis(4));
                server.run(&mut backend, &mut hooks).unwrap();
                backend.polls
            }
        });
        let mut socket = UnixStream::connect(&path).unwrap();
        socket.write_all(&opening("disk", Shape::Structured)).unwrap();
        read_opening(&mut socket, Shape::Structured);
        let since = Instant::now();
        for i in 0..50u64 {
            let payload = [i as u8; 512];
            socket.write_all(&request(Shape::Structured, WRITE, 0, i, i * 512, 512, &payload)).unwrap();
            assert_eq!(read_reply(&mut socket, |_| 0).error, 0);
        }
        let took = since.elapsed();
        assert!(took < Duration::from_millis(50 * 40), "woken by ticks alone this takes 2.5 s: {took:?}");
        stop.store(true, Ordering::Relaxed);
        let polls = thread.join().unwrap();
        if poll_ns == 0 {
            assert!(polls < 2000, "{polls} turns for 50 requests: it did not sleep");
        }
    }
}

//! A server in a thread, for tests with real sockets.
#![allow(clippy::expect_used)]

use forebay_block::DiskId;
use forebay_export::server::{CloseReason, Interest, Peer};
use forebay_export::{
    Access, Backend, Export, Hooks, Listen, MemoryBackend, Reactor, ServerConfig, ServerControl, ServerError,
};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread::JoinHandle;

/// A function that a test has the server's thread run.
pub type Errand = Box<dyn FnOnce(&mut MemoryBackend, &mut ServerControl<'_>) + Send>;

/// Runs errands when their socket becomes readable.
struct Errands {
    bell: UnixStream,
    errands: mpsc::Receiver<Errand>,
    ends: mpsc::Sender<String>,
}

impl Hooks<MemoryBackend> for Errands {
    fn watch(&self, fds: &mut Vec<Interest>) {
        fds.push(Interest { fd: self.bell.as_raw_fd(), read: true, write: false });
    }

    fn ready(&mut self, fd: i32, backend: &mut MemoryBackend, server: &mut ServerControl<'_>) {
        assert_eq!(fd, self.bell.as_raw_fd());
        let mut byte = [0];
        self.bell.read_exact(&mut byte).unwrap();
        if let Ok(errand) = self.errands.recv() {
            errand(backend, server);
        }
    }

    fn tick(&mut self, _now_ns: u64, _backend: &mut MemoryBackend, _server: &mut ServerControl<'_>) {}

    fn closed(&mut self, reason: &CloseReason, _peer: Peer) {
        // Most tests do not receive this.
        let _ = self.ends.send(reason.to_string());
    }
}

/// A running server.
pub struct Serving {
    pub address: Listen,
    dir: PathBuf,
    bell: UnixStream,
    errands: mpsc::Sender<Errand>,
    ends: mpsc::Receiver<String>,
    thread: Option<JoinHandle<(Result<(), ServerError>, MemoryBackend)>>,
}

pub fn export(name: &str, disk: u16, size_bytes: u64) -> Export {
    Export {
        name: name.into(),
        disk: DiskId(disk),
        size_bytes,
        read_only: false,
        tag: None,
        description: String::new(),
        access: Access::default(),
    }
}

pub fn scratch(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("forebay-export-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

impl Serving {
    /// Serves `exports` from memory on a Unix socket, or on TCP.
    pub fn start(name: &str, config: ServerConfig, exports: Vec<Export>, tcp: bool) -> Self {
        let dir = scratch(name);
        let address = if tcp { "tcp:127.0.0.1:0".parse().unwrap() } else { Listen::Unix(dir.join("socket")) };
        let (bell, ear) = UnixStream::pair().unwrap();
        let (errands, receiver) = mpsc::channel();
        let (bound, address_of) = mpsc::channel();
        let (ended, ends) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let mut server = Reactor::new(config).unwrap();
            let mut backend = MemoryBackend::new();
            for export in exports {
                backend.add_disk(export.disk, export.size_bytes);
                server.exports().add(export).unwrap();
            }
            bound.send(server.listen(&address).unwrap()).unwrap();
            let mut hooks = Errands { bell: ear, errands: receiver, ends: ended };
            let result = server.run(&mut backend, &mut hooks);
            (result, backend)
        });
        let address = address_of.recv().unwrap();
        Self { address, dir, bell, errands, ends, thread: Some(thread) }
    }

    pub fn uri(&self, export: &str) -> String {
        self.address.uri(export)
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub fn socket(&self) -> &Path {
        match &self.address {
            Listen::Unix(path) => path,
            Listen::Tcp(_) => panic!("not a Unix socket"),
        }
    }

    pub fn connect(&self) -> UnixStream {
        let socket = UnixStream::connect(self.socket()).unwrap();
        socket.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
        socket
    }

    /// Waits until the next connection ends; returns the reason.
    pub fn end(&self) -> String {
        self.ends.recv_timeout(std::time::Duration::from_secs(20)).expect("no connection ended")
    }

    /// Has the server's thread run a function, and returns its result.
    pub fn ask<T: Send + 'static>(
        &mut self,
        errand: impl FnOnce(&mut MemoryBackend, &mut ServerControl<'_>) -> T + Send + 'static,
    ) -> T {
        let (answer, answered) = mpsc::channel();
        self.errands
            .send(Box::new(move |backend, server| {
                let _ = answer.send(errand(backend, server));
            }))
            .unwrap();
        self.bell.write_all(&[1]).unwrap();
        answered.recv().unwrap()
    }

    /// Stops cleanly; returns the result of the run, and the backend.
    pub fn stop(&mut self) -> (Result<(), ServerError>, MemoryBackend) {
        self.ask(|_, server| server.stop());
        self.ended()
    }

    /// Waits for the end of a server that was stopped.
    pub fn ended(&mut self) -> (Result<(), ServerError>, MemoryBackend) {
        let ended = self.thread.take().unwrap().join().unwrap();
        let _ = std::fs::remove_dir_all(&self.dir);
        ended
    }

    /// Like [`Serving::stop`], for servers that must end without an error; returns the number of flushes performed.
    pub fn stop_well(&mut self) -> u64 {
        let (result, backend) = self.stop();
        result.unwrap();
        assert!(!backend.in_flight());
        backend.flushes()
    }
}

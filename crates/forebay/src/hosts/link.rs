//! The link to a host: its ssh process, its messages, and its end. One thread each sends messages, receives messages, and reads the host's
//! errors, because each of these can block.

use super::clocks::Clocks;
use super::line;
use super::message::{FromHost, ToHost};
use super::name::HostName;
use crate::output;
use anyhow::{Context, Result};
use forebay_block::lock;
use forebay_daemon::text::{chain, harmless};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Stdio};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::Builder;
use std::time::{Duration, Instant};

/// Maximum number of queued messages to a host.
const WAITING_MAX: usize = 64;
/// Time limit for a host's ssh to end after its output has closed.
const END: Duration = Duration::from_secs(10);
/// Maximum number of error lines that are passed on, and their length in bytes.
const COMPLAINTS_MAX: usize = 100;
const COMPLAINT_BYTES_MAX: u64 = 1000;

/// How hosts are reached.
#[derive(Clone, Debug)]
pub struct Command {
    /// ssh with its options, split at spaces.
    pub ssh: String,
    /// Path of this program on the host.
    pub program: String,
}

/// Events of a host.
#[derive(Debug)]
pub enum Event {
    /// A message.
    Said(Box<FromHost>),
    /// The host's output has ended, with the reason.
    Closed(String),
}

/// Messages to send.
enum Outgoing {
    Message(Box<ToHost>),
    /// A ping; its time is taken when it is sent.
    Ping,
}

/// A host.
pub struct Link {
    /// Its name and target.
    pub name: HostName,
    /// The host's clocks.
    pub clocks: Arc<Clocks>,
    child: Child,
    to: Option<SyncSender<Outgoing>>,
    complaint: Arc<Mutex<String>>,
}

impl Link {
    /// Starts ssh. Events of the host go to `events` with its number.
    ///
    /// # Errors
    /// The ssh program cannot be started, or the system gives no more threads.
    pub fn start(
        name: HostName,
        number: usize,
        command: &Command,
        clocks: Clocks,
        events: &SyncSender<(usize, Event)>,
    ) -> Result<Self> {
        let mut words = command.ssh.split_whitespace();
        let ssh = words.next().context("--ssh names no program")?;
        let mut child = std::process::Command::new(ssh)
            .args(words)
            .arg(&name.host)
            .arg(format!("{} bench --follow", command.program))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Ctrl-C must reach only this process, which ends the hosts and keeps their results.
            .process_group(0)
            .spawn()
            .with_context(|| {
                format!("cannot start {ssh}, which leads there: install it, or name another program by --ssh")
            })?;
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (to, outgoing) = sync_channel(WAITING_MAX);
        let clocks = Arc::new(clocks);
        let link = Self { name, clocks, child, to: Some(to), complaint: Arc::default() };
        let (stdin, stdout, stderr) =
            (stdin.context("no pipe")?, stdout.context("no pipe")?, stderr.context("no pipe")?);
        let thread = |role: &str| Builder::new().name(format!("{role}-{number}"));
        let of_writer = link.clocks.clone();
        thread("to-host").spawn(move || write(stdin, &outgoing, &of_writer)).context("no more threads")?;
        let (of_reader, events) = (link.clocks.clone(), events.clone());
        thread("from-host").spawn(move || listen(stdout, number, &of_reader, &events)).context("no more threads")?;
        let (host, complaint) = (link.name.host.clone(), link.complaint.clone());
        thread("complaints").spawn(move || pass_on(stderr, &host, &complaint)).context("no more threads")?;
        Ok(link)
    }

    /// Queues a message; true where there was room. A host that accepts none also stays silent, which is detected.
    pub fn send(&self, message: ToHost) -> bool {
        self.put(Outgoing::Message(Box::new(message)))
    }

    /// Queues a ping.
    pub fn ping(&self) -> bool {
        self.put(Outgoing::Ping)
    }

    fn put(&self, outgoing: Outgoing) -> bool {
        self.to.as_ref().is_some_and(|to| to.try_send(outgoing).is_ok())
    }

    /// The last error line of the host, where there was any.
    pub fn complaint(&self) -> Option<String> {
        let complaint = lock(&self.complaint).clone();
        (!complaint.is_empty()).then_some(complaint)
    }

    /// Stops sending, which ends the host.
    pub fn hang_up(&mut self) {
        self.to = None;
    }

    /// Stops sending and receiving: kills ssh with all its child processes here. The host ends when its input closes.
    pub fn cut(&mut self) {
        self.hang_up();
        if matches!(self.child.try_wait(), Ok(None)) {
            let group = rustix::process::Pid::from_child(&self.child);
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
    }
}

impl Drop for Link {
    /// The host ends when its input closes; an ssh process that does not end is killed.
    fn drop(&mut self) {
        self.hang_up();
        let until = Instant::now() + END;
        while Instant::now() < until {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        self.cut();
        let _ = self.child.wait();
    }
}

/// Sends until the queue is closed or the host does not read.
fn write(mut stdin: ChildStdin, outgoing: &Receiver<Outgoing>, clocks: &Clocks) {
    while let Ok(next) = outgoing.recv() {
        let sent = match next {
            Outgoing::Message(message) => line::write(&mut stdin, &message),
            Outgoing::Ping => match clocks.send() {
                Some(number) => line::write(&mut stdin, &ToHost::Ping(number)),
                None => Ok(()),
            },
        };
        if sent.is_err() {
            return;
        }
    }
}

/// Receives the host's messages until its output ends or an invalid line comes.
fn listen(stdout: ChildStdout, number: usize, clocks: &Clocks, events: &SyncSender<(usize, Event)>) {
    let mut input = BufReader::new(stdout);
    let why = loop {
        let line = match line::read(&mut input) {
            Ok(Some(line)) => line,
            Ok(None) => break "it has ended".to_owned(),
            Err(error) => break chain(&error),
        };
        let received_ns = clocks.hear();
        let message = match line::parse::<FromHost>(&line) {
            Ok(message) => message,
            Err(error) => break chain(&error),
        };
        if let FromHost::Pong(pong) = &message
            && let Err(error) = clocks.answer(pong, received_ns)
        {
            break chain(&error);
        }
        // Nobody receives events any more: the run is over.
        if events.send((number, Event::Said(Box::new(message)))).is_err() {
            return;
        }
    };
    let _ = events.send((number, Event::Closed(why)));
}

/// Passes on the host's error lines, and keeps the last.
fn pass_on(stderr: ChildStderr, host: &str, last: &Mutex<String>) {
    let mut input = BufReader::new(stderr);
    for number in 0.. {
        let mut line = Vec::new();
        if !matches!((&mut input).take(COMPLAINT_BYTES_MAX).read_until(b'\n', &mut line), Ok(1..)) {
            return;
        }
        let text = String::from_utf8_lossy(&line);
        let text = harmless(text.trim_end()).into_owned();
        if number < COMPLAINTS_MAX && !text.is_empty() {
            let text = text.strip_prefix("forebay: ").unwrap_or(&text);
            output::complain(format!("{host}: {text}"));
            *lock(last) = text.to_owned();
        }
    }
}

//! An NBD server that stores nothing and answers at once: what client and socket can do at most, and thereby the
//! measure of every other server. Reads are zeros; one thread a connection; simple replies only.
#![forbid(unsafe_code)]

mod serve;
mod wire;

use serve::Wait;
use std::os::unix::net::UnixListener;
use std::process::ExitCode;

const USAGE: &str = "usage: null-nbd [--poll] [--size-mib N] SOCKET
Serves a null export on the Unix socket SOCKET until killed. --poll spins on the socket instead of sleeping.";
/// Connections served at a time; the next one is closed at once.
const CONNECTION_LIMIT: usize = 64;

struct Options {
    socket: String,
    size_bytes: u64,
    wait: Wait,
}

fn options(mut args: impl Iterator<Item = String>) -> Option<Options> {
    let (mut socket, mut size_mib, mut wait) = (None, 1024u64, Wait::Sleep);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--poll" => wait = Wait::Spin,
            "--size-mib" => size_mib = args.next()?.parse().ok().filter(|mib| (1..=1 << 30).contains(mib))?,
            _ if arg.starts_with('-') || socket.is_some() => return None,
            _ => socket = Some(arg),
        }
    }
    Some(Options { socket: socket?, size_bytes: size_mib << 20, wait })
}

fn main() -> ExitCode {
    let Some(options) = options(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match listen(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("null-nbd: {}: {error}", options.socket);
            ExitCode::from(2)
        }
    }
}

fn listen(options: &Options) -> std::io::Result<()> {
    let listener = UnixListener::bind(&options.socket)?;
    println!("ready nbd+unix:///?socket={}", options.socket);
    let alive = std::sync::Arc::new(());
    for stream in listener.incoming() {
        let stream = stream?;
        if std::sync::Arc::strong_count(&alive) > CONNECTION_LIMIT {
            continue;
        }
        stream.set_nonblocking(options.wait == Wait::Spin)?;
        let (size_bytes, wait, token) = (options.size_bytes, options.wait, alive.clone());
        std::thread::spawn(move || {
            if let Err(error) = serve::connection(stream, size_bytes, wait) {
                eprintln!("null-nbd: connection: {error}");
            }
            drop(token);
        });
    }
    Ok(())
}

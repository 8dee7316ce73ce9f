//! Measures how long a client's reads take while others perform TLS handshakes without end. Ignored by default, since
//! it measures time; on a quiet machine:
//!
//!     cargo test --release -p forebay-export --test all flood -- --ignored --nocapture
//!
//! The flood comes from threads of this process with a lower priority than the others, as if it came from other
//! machines. The comparison accounts for the processor time that it takes on this machine all the same: the same
//! flood is sent to a second server. If the machine is not quiet, run the built program by `chrt -f 10`, which
//! applies to everything but the flood.

use crate::certificates::{Issued, issue, issue_for};
use crate::client::*;
use crate::serving::{Serving, export, scratch};
use forebay_export::{Access, Export, Listen, ServerConfig, TlsContext, TlsFiles, TlsNeed};
use openssl::pkey::PKey;
use openssl::rsa::Rsa;
use openssl::ssl::{Ssl, SslContext, SslMethod, SslStream, SslVerifyMode};
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const YEAR: (i64, i64) = (-60, 365 * 86_400);
const READS_FOR: Duration = Duration::from_secs(8);
const FLOODING_THREADS: usize = 2;

struct World {
    serving: Serving,
    client: SslContext,
}

/// A server with an RSA key of 2,048 bits, the slowest kind in common use.
fn world(name: &str) -> World {
    let authority = issue("authority", None, YEAR);
    let rsa = PKey::from_rsa(Rsa::generate(2048).unwrap()).unwrap();
    let server = issue_for(rsa, "server", Some(&authority), YEAR);
    let bob = issue("bob", Some(&authority), YEAR);
    let folder = scratch(&format!("{name}-files"));
    for (file, content) in
        [("pem", server.certificate_pem()), ("key", server.key_pem()), ("ca", authority.certificate_pem())]
    {
        std::fs::write(folder.join(file), content).unwrap();
    }
    let path = |file: &str| Some(folder.join(file));
    let files = TlsFiles { certificate: path("pem"), key: path("key"), client_ca: path("ca"), psk_file: None };
    let tls = TlsContext::load(&files).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let access = Access { tls: TlsNeed::Always, ..Access::default() };
    let disk = Export { access, ..export("disk", 1, 64 << 20) };
    let mut serving = Serving::start(name, ServerConfig::default(), vec![disk], true);
    serving.ask(move |_, server| server.set_tls(Some(tls)));
    World { serving, client: client_of(&authority, &bob) }
}

fn client_of(authority: &Issued, who: &Issued) -> SslContext {
    let mut builder = SslContext::builder(SslMethod::tls_client()).unwrap();
    builder.cert_store_mut().add_cert(authority.certificate.clone()).unwrap();
    builder.set_verify(SslVerifyMode::PEER);
    builder.set_certificate(&who.certificate).unwrap();
    builder.set_private_key(&who.key).unwrap();
    builder.build()
}

fn address(world: &World) -> SocketAddr {
    let Listen::Tcp(address) = world.serving.address else { panic!("not TCP") };
    address
}

fn shaken(address: SocketAddr, client: &SslContext) -> Option<SslStream<TcpStream>> {
    let mut socket = TcpStream::connect(address).ok()?;
    socket.set_nodelay(true).ok()?;
    read_greeting(&mut socket);
    socket.write_all(&[&3u32.to_be_bytes()[..], &option(OPT_STARTTLS, &[])].concat()).ok()?;
    assert_eq!(read_option_reply(&mut socket).kind, ACK);
    let mut stream = SslStream::new(Ssl::new(client).unwrap(), socket).unwrap();
    stream.connect().ok()?;
    Some(stream)
}

/// Latencies of single reads of 4 KiB, sorted.
fn reads(world: &World) -> Vec<Duration> {
    let mut stream = shaken(address(world), &world.client).unwrap();
    stream.write_all(&option(OPT_GO, &go_data("disk", &[]))).unwrap();
    assert_eq!(read_option_replies(&mut stream).last().unwrap().kind, ACK);
    let begun = Instant::now();
    let mut latencies = Vec::new();
    while begun.elapsed() < READS_FOR {
        let at = Instant::now();
        stream.write_all(&request(Shape::Simple, READ, 0, 1, 0, 4096, &[])).unwrap();
        assert_eq!(read_reply(&mut stream, |_| 4096).data.len(), 4096);
        latencies.push(at.elapsed());
        // Single reads: a few thousand a second at most, as from a database that waits for each.
        std::thread::sleep(Duration::from_micros(200));
    }
    latencies.sort_unstable();
    latencies
}

/// Lets this thread run only when no other wants to, whichever scheduling the process was started with.
fn yield_to_all() {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: the system reads from a local variable of this function.
    assert_eq!(unsafe { libc::sched_setscheduler(0, libc::SCHED_OTHER, &raw const parameters) }, 0);
    rustix::process::setpriority_process(None, 19).unwrap();
}

/// The same while others perform handshakes with a server, possibly the one that is read from. Also returns the
/// number of handshakes.
fn reads_in_flood(world: &World, flooded: &World) -> (Vec<Duration>, u64) {
    let (is_over, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let threads: Vec<_> = (0..FLOODING_THREADS)
        .map(|_| {
            let (is_over, count, client) = (Arc::clone(&is_over), Arc::clone(&count), flooded.client.clone());
            let address = address(flooded);
            std::thread::spawn(move || {
                yield_to_all();
                while !is_over.load(Ordering::Relaxed) {
                    count.fetch_add(u64::from(shaken(address, &client).is_some()), Ordering::Relaxed);
                }
            })
        })
        .collect();
    let latencies = reads(world);
    is_over.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    (latencies, count.load(Ordering::Relaxed))
}

fn show(what: &str, latencies: &[Duration], handshakes: u64) -> Duration {
    let at = |per_mille: usize| latencies[latencies.len() * per_mille / 1000];
    println!(
        "{what}: {} reads, p50 {:?}, p99 {:?}, p99.9 {:?}; {} handshakes a second",
        latencies.len(),
        at(500),
        at(990),
        at(999),
        handshakes / READS_FOR.as_secs()
    );
    at(990)
}

#[test]
#[ignore = "measures time: see above"]
fn a_flood_of_handshakes_does_not_double_the_latency_of_others() {
    let (mut world, mut other) = (world("flood"), world("flood-other"));
    show("alone", &reads(&world), 0);
    let (latencies, handshakes) = reads_in_flood(&world, &other);
    let without = show("another server flooded", &latencies, handshakes);
    let (latencies, handshakes) = reads_in_flood(&world, &world);
    let with = show("flooded", &latencies, handshakes);
    world.serving.stop_well();
    other.serving.stop_well();
    assert!(with <= without * 2, "{with:?} is more than twice {without:?}");
}

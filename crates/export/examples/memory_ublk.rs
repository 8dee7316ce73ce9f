//! Serves a disk in memory as a block device: the cost of driver and server without a pool behind them.
//!
//! `cargo run --release -p forebay-export --example memory_ublk -- 256`

use forebay_block::DiskId;
use forebay_export::ublk::{Ublk, Wanted};
use forebay_export::{Access, Export, MemoryBackend, NoHooks, Reactor, ServerConfig};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mib: u64 = std::env::args().nth(1).ok_or("usage: memory_ublk MIB")?.parse()?;
    let size_bytes = mib << 20;
    let mut server = Reactor::new(ServerConfig::default())?;
    let (name, description) = ("memory".to_owned(), String::new());
    let export = Export {
        name,
        disk: DiskId(0),
        size_bytes,
        read_only: false,
        tag: None,
        description,
        access: Access::default(),
    };
    let index = server.exports().add(export)?;
    let ublk = Ublk::open(Wanted { number: None, marker: 1, size_bytes, read_only: false })?;
    println!("/dev/ublkb{}", ublk.state().number);
    server.attach(Box::new(ublk), index)?;
    let mut backend = MemoryBackend::new();
    backend.add_disk(DiskId(0), size_bytes);
    server.run(&mut backend, &mut NoHooks)?;
    Ok(())
}

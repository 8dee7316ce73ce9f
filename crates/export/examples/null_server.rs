//! Serves a null disk on a Unix socket: the upper limit of this server's speed with any volume behind it.
//!
//! `cargo run --release -p forebay-export --example null_server -- /tmp/null.sock [POLL_US]`

use forebay_block::DiskId;
use forebay_export::{Access, Export, Listen, NoHooks, NullBackend, Reactor, ServerConfig};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or("usage: null_server SOCKET [POLL_US]")?;
    let poll_ns = args.next().map_or(Ok(0), |us| us.parse::<u64>().map(|us| us * 1000))?;
    let mut server = Reactor::new(ServerConfig { poll_ns, ..ServerConfig::default() })?;
    server.exports().add(Export {
        name: "null".to_owned(),
        disk: DiskId(0),
        size_bytes: 64 << 30,
        read_only: false,
        tag: None,
        description: "completes at once, reads zeros".to_owned(),
        access: Access::default(),
    })?;
    let address = server.listen(&Listen::Unix(path.into()))?;
    println!("ready {}", address.uri("null"));
    server.run(&mut NullBackend::new(), &mut NoHooks)?;
    Ok(())
}

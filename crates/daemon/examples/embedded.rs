//! An example program that serves a pool from its own process. Both tiers are memory. A second thread asks for the
//! status and then stops the server.
//!
//! ```text
//! cargo run --release -p forebay-daemon --example embedded
//! ```
#![forbid(unsafe_code)]

use anyhow::{Context, Result};
use forebay_daemon::config;
use forebay_daemon::control::{Question, ask};
use forebay_daemon::pool::Opening;
use forebay_daemon::server::{Handle, Server};
use std::fs;
use std::sync::mpsc::channel;
use std::time::Duration;

const CONFIG: &str = r#"
[pool]
name = "embedded"

[[fast]]
target = "ram:?size=64MiB"

[[capacity]]
target = "ram:?size=512MiB"

[[disk]]
name = "db"
size = "256MiB"

[[export]]
nbd = "tcp:127.0.0.1:0"
"#;

fn main() -> Result<()> {
    let folder = std::env::temp_dir().join(format!("forebay-embedded-{}", std::process::id()));
    fs::create_dir(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let file = folder.join("pool.toml");
    let control = folder.join("control.sock");
    fs::write(&file, format!("{CONFIG}\n[server]\ncontrol = {control:?}\n"))?;
    let config = config::load_real(&file)?;

    let (handle, asked) = Handle::new()?;
    let (say, said) = channel();
    let announce = Box::new(move |line: &str| Ok(say.send(line.to_owned())?));
    let server = Server::open(config.clone(), &file, Opening::Recover, Duration::ZERO, asked, announce)?;
    let server = server.context("it was asked to stop before it was ready")?;
    let other = std::thread::spawn(move || -> Result<()> {
        println!("{}", said.recv()?);
        let status = ask(&config, &file, &Question::Status)?;
        println!("pool {}, {} promised to disks", status["pool"]["name"], status["pool"]["promised_bytes"]);
        handle.stop();
        Ok(())
    });
    server.run()?;
    let asked = other.join();
    fs::remove_dir_all(&folder)?;
    asked.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

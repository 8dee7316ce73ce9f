//! The pools of the crash test: what each is meant to exercise.

use crate::part::Part;
use crate::server::{Pool, sparse_file};
use anyhow::{Context, Result};
use forebay_proof::oracle::Oracle;
use std::path::Path;
use std::sync::Mutex;

/// Number of connections, and of parts of the disk.
pub const CONNECTIONS: u64 = 4;

/// A kind of pool; sizes in MiB.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// Name.
    pub name: &'static str,
    fast: u64,
    capacity: u64,
    /// Size of the disk.
    pub disk: u64,
    memory: u64,
    /// Whether its load must have moved data to the capacity tier and collected bands there.
    pub must_move: bool,
}

/// A fast tier that is always full, so that destage and collection are in progress at every kill; a map that does not
/// fit memory, so that leaves are loaded and evicted; and a pool with room for everything.
pub const KINDS: [Kind; 3] = [
    Kind { name: "tiny", fast: 8, capacity: 36, disk: 24, memory: 64, must_move: true },
    Kind { name: "paged", fast: 64, capacity: 640, disk: 384, memory: 48, must_move: false },
    Kind { name: "roomy", fast: 256, capacity: 1024, disk: 256, memory: 1024, must_move: false },
];

/// A pool of one kind, and the expected contents of its disk.
pub struct Setting {
    /// Its kind.
    pub kind: Kind,
    /// Its server.
    pub pool: Pool,
    /// The parts of the disk, one for each connection.
    pub parts: Vec<Part>,
    /// Knows the contents that the disk may have.
    pub oracle: Mutex<Oracle>,
}

impl Setting {
    /// Creates files and configuration, and formats the pool.
    pub fn create(kind: Kind, program: &Path, directory: &Path, seed: u64, capacity: Option<&str>) -> Result<Self> {
        // A load of a second or two moves little to a store that is not always reachable.
        let kind = Kind { must_move: kind.must_move && capacity.is_none(), ..kind };
        let directory = directory.join(kind.name);
        std::fs::create_dir_all(&directory)?;
        sparse_file(&directory.join("fast.img"), kind.fast << 20)?;
        if capacity.is_none() {
            sparse_file(&directory.join("capacity.img"), kind.capacity << 20)?;
        }
        let config = directory.join("pool.toml");
        let text = directory.to_str().context("the directory's name is not UTF-8")?;
        std::fs::write(&config, configuration(&kind, text, seed, capacity))?;
        let pool = Pool { program: program.to_owned(), config, log: directory.join("server.log") };
        pool.run("create", &[])?;
        let disk_bytes = kind.disk << 20;
        let parts = (0..CONNECTIONS).map(|index| Part::new(index, CONNECTIONS, disk_bytes)).collect();
        Ok(Self { kind, pool, parts, oracle: Mutex::default() })
    }
}

/// Four placements by address. Both devices lose unflushed data when the process dies.
fn configuration(kind: &Kind, directory: &str, seed: u64, capacity: Option<&str>) -> String {
    let Kind { name, fast, disk, memory, .. } = kind;
    let capacity = match capacity {
        Some(target) => target.replace("{pool}", name).replace("{size}", &format!("{}MiB", kind.capacity)),
        None => format!("volatile:{directory}/capacity.img?seed={seed}"),
    };
    let (a, b, c) = (fast / 4, disk / 3, disk * 2 / 3);
    let mut text = format!(
        r#"[pool]
name = "crash"

[[fast]]
target = "volatile:{directory}/fast.img?seed={seed}"

[[capacity]]
target = "{capacity}"
band = "1MiB"

[[disk]]
name = "db"
size = "{disk}MiB"

[memory]
limit = "{memory}MiB"

[[export]]
disk = "db"
nbd = "unix:{directory}/db.sock"

[server]
control = "{directory}/control.sock"
"#
    );
    let classes =
        [("log", "fast", 0, a), ("temp", "stage", a, b), ("bulk", "capacity", b, c), ("twice", "both", c, *disk)];
    for (name, place, from, to) in classes {
        text.push_str(&format!(
            "\n[[class]]\nname = \"{name}\"\nplace = \"{place}\"\npriority = 1\nmatch = [\"disk:db & offset:{from}MiB..{to}MiB\"]\n"
        ));
    }
    text
}

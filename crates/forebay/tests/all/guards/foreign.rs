//! Foreign data, made by its own tools: create, bench, check and replay name it and leave it alone.

use crate::support::*;
use std::fs::{File, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A file with its original content.
pub struct Untouched {
    path: PathBuf,
    hash: u64,
}

fn hash(path: &Path) -> u64 {
    let mut hasher = DefaultHasher::new();
    std::fs::read(path).unwrap().hash(&mut hasher);
    hasher.finish()
}

impl Untouched {
    pub fn of(path: &Path) -> Self {
        Self { path: path.to_owned(), hash: hash(path) }
    }

    #[track_caller]
    pub fn check(&self) {
        assert_eq!(hash(&self.path), self.hash, "{} was changed", self.path.display());
    }
}

/// Runs a tool, which must exist: a test that cannot make its data proves nothing.
fn tool(program: &str, arguments: &[&str], input: &[u8]) {
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let child = Command::new(program)
        .args(arguments)
        .env("PATH", path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = child.unwrap_or_else(|error| panic!("{program}: {error}; ./check installs what tests need"));
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), input).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{program}: {}{}", err(&output), out(&output));
}

fn sqlite(path: &str) {
    tool("sqlite3", &[path, "create table t(a); insert into t values ('worth keeping');"], b"");
}

fn qcow2(path: &str) {
    tool("qemu-img", &["create", "-q", "-f", "qcow2", path, "64M"], b"");
}

fn tar(path: &str) {
    tool("tar", &["-cf", path, "-C", "/etc", "hostname"], b"");
}

fn text(path: &str) {
    std::fs::write(path, "Dear diary, nobody has a copy of this.\n".repeat(200)).unwrap();
}

/// The first 8 KiB that `pvcreate` wrote to a loop device; it does not write to files.
fn lvm(path: &str) {
    std::fs::write(path, include_bytes!("lvm2-head.bin")).unwrap();
}

fn luks(path: &str, kind: &str) {
    File::create(path).unwrap().set_len(32 * MIB).unwrap();
    let fast = ["-q", "luksFormat", "--type", kind, "--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000", path, "-"];
    tool("cryptsetup", &fast, b"password");
}

fn luks1(path: &str) {
    luks(path, "luks1");
}

fn luks2(path: &str) {
    luks(path, "luks2");
}

/// A superblock of version 1.2 (linux, include/uapi/linux/raid/md_p.h), which `mdadm` confirms; it makes arrays on devices only.
fn mdraid(path: &str) {
    let mut superblock = [0u8; 256 + 2 * 2];
    let mut put = |at: usize, bytes: &[u8]| superblock[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &0xa92b_4efc_u32.to_le_bytes());
    put(4, &1u32.to_le_bytes());
    put(16, &[0x11; 16]);
    put(32, b"host:0");
    put(72, &1u32.to_le_bytes());
    put(80, &16384u64.to_le_bytes());
    put(92, &2u32.to_le_bytes());
    put(128, &2048u64.to_le_bytes());
    put(136, &16384u64.to_le_bytes());
    put(144, &8u64.to_le_bytes());
    put(168, &[0x22; 16]);
    put(220, &2u32.to_le_bytes());
    put(256, &[0, 0, 1, 0]);
    // The sum of all words with the carries added, computed with a checksum field of zero.
    let mut sum = 0u64;
    for word in superblock.chunks(4) {
        sum += u64::from(u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
    }
    let sum = (sum as u32).wrapping_add((sum >> 32) as u32);
    superblock[216..220].copy_from_slice(&sum.to_le_bytes());
    let file = File::create(path).unwrap();
    file.set_len(16 * MIB).unwrap();
    file.write_all_at(&superblock, 4096).unwrap();
    tool("mdadm", &["--examine", path], b"");
}

/// Uberblocks in the first label of a pool member (OpenZFS, include/sys/uberblock_impl.h); its tools need its kernel module.
fn zfs(path: &str) {
    let file = File::create(path).unwrap();
    file.set_len(64 * MIB).unwrap();
    for slot in 0..4u64 {
        let uberblock = [0x00ba_b10c_u64, 5000, slot + 4].map(u64::to_le_bytes).concat();
        file.write_all_at(&uberblock, (128 << 10) + slot * 1024).unwrap();
    }
}

type Make = fn(&str);

const FOREIGN: [(&str, Make, &str); 9] = [
    ("sqlite", sqlite, "SQLite database"),
    ("qcow2", qcow2, "qcow2 image"),
    ("tar", tar, "tar archive"),
    ("text", text, "content that is not known"),
    ("lvm", lvm, "LVM physical volume"),
    ("luks1", luks1, "LUKS1 encrypted volume"),
    ("luks2", luks2, "LUKS2 encrypted volume"),
    ("mdraid", mdraid, "Linux RAID member (1.2)"),
    ("zfs", zfs, "ZFS pool member"),
];

/// The data as its tool left it, in a file long enough for a pool member.
fn made(directory: &Path, name: &str, make: Make) -> PathBuf {
    let path = directory.join(name);
    make(path.to_str().unwrap());
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    let len = file.metadata().unwrap().len();
    file.set_len(len.max(64 * MIB)).unwrap();
    path
}

#[test]
fn create_leaves_the_data_of_others_alone() {
    for (name, make, known_as) in FOREIGN {
        for member in ["fast.img", "capacity.img"] {
            let scene = Scene::new();
            let path = made(scene.directory.path(), name, make);
            scene.edit(scene.path(member).to_str().unwrap(), path.to_str().unwrap());
            let kept = Untouched::of(&path);
            refused(
                &forebay(&["create", scene.config()]),
                2,
                &[name, known_as, "nothing was written", "--destroy-data"],
            );
            kept.check();
        }
    }
}

#[test]
fn loads_that_write_leave_the_files_of_others_alone() {
    let directory = tempfile::TempDir::new().unwrap();
    for (name, make, known_as) in FOREIGN {
        let path = made(directory.path(), name, make);
        let target = path.to_str().unwrap();
        let kept = Untouched::of(&path);
        let load = ["--set", "rw=randwrite", "--set", "ios=10"];
        for target in [target.to_owned(), format!("file://{target}"), format!("volatile:{target}")] {
            let output = forebay(&[&["bench", "--target", &target][..], &load[..]].concat());
            refused(&output, 2, &[known_as, "nothing was written", "--destroy-data"]);
            let output = forebay(&["bench", "--target", &target, "-b4k", "-w30", "-r", "-d1"]);
            refused(&output, 2, &[known_as, "--destroy-data"]);
        }
        let sheet = ["check", "p4800x", "--target", target, "--only", "write", "--runtime", "100ms"];
        refused(&forebay(&sheet), 2, &[known_as, "--destroy-data"]);
        let trace = directory.path().join("trace.csv");
        std::fs::write(&trace, "128166372003061629,host,0,Write,0,4096,100\n").unwrap();
        let replay = ["replay", trace.to_str().unwrap(), "--target", target, "--as-fast-as-possible"];
        refused(&forebay(&replay), 2, &[known_as, "--destroy-data"]);
        kept.check();
    }
}

#[test]
fn what_bench_filled_itself_needs_no_asking_until_others_write() {
    let directory = tempfile::TempDir::new().unwrap();
    let path = directory.path().join("disk.img");
    File::create(&path).unwrap().set_len(16 * MIB).unwrap();
    let target = path.to_str().unwrap();
    let bench = || forebay(&["bench", "--target", target, "--set", "rw=randwrite", "--set", "ios=10"]);
    good(&bench());
    good(&bench());
    std::thread::sleep(std::time::Duration::from_millis(20));
    OpenOptions::new().write(true).open(&path).unwrap().write_all_at(b"a note", 0).unwrap();
    let kept = Untouched::of(&path);
    refused(&bench(), 2, &["content that is not known", "--destroy-data"]);
    kept.check();
}

//! Measures the cost of classification on the data path: `cargo run --release -p forebay-prism --example data_path`.
//!
//! The 4 KiB blocks are ordinary data that no rule or content claims, at random addresses of a disk with a known file
//! system: this cost applies to every write.

use forebay_block::{DiskId, checksum::crc32c};
use forebay_prism::{ClassSpec, ClassTable, Direction, HostFacts, Intent, Place, Prism, Run};
use std::time::Instant;

const BLOCK: usize = 4096;
const DISK_BYTES: u64 = 1 << 40;
const ROUNDS: u64 = 2_000_000;

fn xfs() -> Vec<u8> {
    let mut block = vec![0u8; BLOCK];
    let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, b"XFSB");
    put(4, &4096u32.to_be_bytes());
    put(8, &(DISK_BYTES / 4096).to_be_bytes());
    put(32, b"uuid of this xfs");
    put(48, &(2u64 << 26 | 1000).to_be_bytes());
    put(84, &(1u32 << 26).to_be_bytes());
    put(96, &521_728u32.to_be_bytes());
    put(100, &0xb4a5u16.to_be_bytes());
    put(102, &512u16.to_be_bytes());
    put(104, &512u16.to_be_bytes());
    put(124, &[26]);
    let sum = crc32c(&block[..512]);
    block[224..228].copy_from_slice(&sum.to_le_bytes());
    block
}

fn ext4() -> Vec<u8> {
    let mut block = vec![0u8; BLOCK];
    let sb = &mut block[1024..];
    let fields = [
        (0, 67_108_864u32),
        (4, 1 << 28),
        (0x18, 2),
        (0x20, 32_768),
        (0x28, 8192),
        (0x4c, 1),
        (0x5c, 4),
        (0x60, 0x2c0),
        (0x64, 1),
    ];
    for (at, value) in fields {
        sb[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }
    sb[0x38..0x3a].copy_from_slice(&[0x53, 0xef]);
    sb[0x58..0x5a].copy_from_slice(&256u16.to_le_bytes());
    sb[0xfd] = 1;
    sb[0xfe] = 64;
    sb[0x10c..0x118].copy_from_slice(&[0x0a, 0xf3, 1, 0, 4, 0, 0, 0, 0, 0, 0, 0]);
    sb[0x118..0x124].copy_from_slice(&[0, 0, 0, 0, 0, 0x80, 0, 0, 0, 0, 0, 8]);
    sb[0x174] = 4;
    block
}

fn intent(offset_bytes: u64, data: &[u8]) -> Intent<'_> {
    let disk_size_bytes = DISK_BYTES;
    Intent {
        disk: DiskId(1),
        disk_size_bytes,
        offset_bytes,
        direction: Direction::Write,
        len_bytes: data.len() as u64,
        request_bytes: data.len() as u64,
        rest_bytes: 0,
        data,
        export: 0,
        tag: None,
        host: HostFacts::default(),
    }
}

fn measure(name: &str, superblock: Option<Vec<u8>>, rules: &[&str], blocks: usize) {
    let class = |rule: &&str| ClassSpec {
        rules: vec![(*rule).into()],
        ..ClassSpec::new(&format!("c{}", rule.len()), Place::Stage)
    };
    let table = match ClassTable::from_configured(&rules.iter().map(class).collect::<Vec<_>>()) {
        Ok(table) => table,
        Err(error) => return eprintln!("{name}: {error}"),
    };
    let mut prism = Prism::new(table);
    let mut runs: Vec<Run> = Vec::with_capacity(64);
    if let Some(block) = superblock {
        prism.classify(&intent(0, &block), &mut runs);
        assert_eq!(prism.known_systems().len(), 1);
    }
    let mut state = 88_172_645_463_325_252u64;
    let data: Vec<u8> = (0..blocks * BLOCK)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        })
        .collect();
    let rounds = ROUNDS / blocks as u64;
    let mut best_ns = f64::MAX;
    for _ in 0..5 {
        let start = Instant::now();
        for _ in 0..rounds {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            runs.clear();
            prism.classify(&intent((state >> 8) % (DISK_BYTES / 4096 - 1024) * 4096, &data), &mut runs);
        }
        best_ns = best_ns.min(start.elapsed().as_nanos() as f64 / (rounds * blocks as u64) as f64);
    }
    println!("{name:<46} {blocks:>3} blocks a request: {best_ns:6.1} ns a block (best of 5)");
}

fn main() {
    for blocks in [1, 32] {
        measure("no file system known", None, &[], blocks);
        measure("XFS", Some(xfs()), &[], blocks);
        measure("ext4 (64 K groups, tables by prediction)", Some(ext4()), &[], blocks);
        measure(
            "XFS, four rules that do not hold",
            Some(xfs()),
            &["disk:other", "fs.journal & export:3", "request_size:gt:1MiB", "offset:0..1MiB"],
            blocks,
        );
    }
}

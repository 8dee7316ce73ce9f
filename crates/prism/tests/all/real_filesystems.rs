//! Images made by the real mkfs tools, written block by block through the classifier. The strongest assertion is
//! about all blocks: each block that is not zero and has no file contents must be classified as metadata or journal,
//! and blocks with file contents must not be, although these begin with the magic numbers of all file systems.

use forebay_block::DiskId;
use forebay_prism::evidence::System;
use forebay_prism::{ClassTable, Direction, HostFacts, Intent, Prism, Run};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const BLOCK: usize = 4096;
const DISK: DiskId = DiskId(7);
/// Marks every block of file contents, at an offset that no structure uses.
const MARK: &[u8] = b"contents of a file, not of the file system";

fn run(program: &str, args: &[&str]) -> Output {
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let output = Command::new(program).args(args).env("PATH", path).output().unwrap_or_else(|error| {
        panic!("{program}: {error}; run ./check, which installs xfsprogs, e2fsprogs, btrfs-progs")
    });
    assert!(output.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

fn text(program: &str, args: &[&str]) -> String {
    String::from_utf8_lossy(&run(program, args).stdout).into_owned()
}

/// A directory for one test, removed at its end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("prism-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    fn image(&self, size_bytes: u64) -> String {
        let path = self.path("image");
        fs::File::create(&path).unwrap().set_len(size_bytes).unwrap();
        path
    }

    /// A tree with small and large files, a directory of many blocks, and long symbolic links.
    fn tree(&self) -> String {
        let root = self.path("tree");
        fs::create_dir_all(format!("{root}/many")).unwrap();
        for i in 0..1500 {
            fs::write(format!("{root}/many/an-entry-with-quite-a-long-name-{i:05}"), b"").unwrap();
        }
        for (i, size) in [1, 3, 64, 700].into_iter().enumerate() {
            fs::write(format!("{root}/file-{i}"), contents(size)).unwrap();
        }
        std::os::unix::fs::symlink("x/".repeat(400), format!("{root}/link")).unwrap();
        root
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// File contents whose blocks start with the magic numbers of all structures.
fn contents(blocks: usize) -> Vec<u8> {
    let magics: [&[u8]; 12] = [
        b"XFSB",
        b"XAGF",
        b"XAGI",
        b"XAFL",
        b"IN\x81\xa4\x03\x02",
        b"XDB3",
        b"AB3B",
        b"BMA3",
        b"\xfe\xed\xba\xbe",
        b"\xc0\x3b\x39\x98\0\0\0\x01",
        b"\x0a\xf3\x01\0\x54\x01\0\0",
        b"\0\0\x02\xea\x01\0\0\0\x01\0\0\0",
    ];
    let mut bytes = vec![0x5a; blocks * BLOCK];
    for (i, block) in bytes.chunks_exact_mut(BLOCK).enumerate() {
        let magic = magics[i % magics.len()];
        block[..magic.len()].copy_from_slice(magic);
        block[0x40..0x48].copy_from_slice(b"_BHRfS_M");
        block[1024 + 0x38..1024 + 0x3a].copy_from_slice(&[0x53, 0xef]);
        for part in block.chunks_exact_mut(1024) {
            part[600..600 + MARK.len()].copy_from_slice(MARK);
        }
        block[3000..3008].copy_from_slice(&(i as u64).to_le_bytes());
    }
    bytes
}

/// How many of the four KiB of a block belong to a file: with small file-system blocks several owners share one.
fn contents_of(block: &[u8]) -> usize {
    block.chunks_exact(1024).filter(|part| part[600..600 + MARK.len()] == *MARK).count()
}

/// The target of a long symbolic link: a block without any header on ext4 (and in XFS as its mkfs copies it).
fn is_link(block: &[u8]) -> bool {
    block.chunks_exact(1024).any(|part| part.starts_with(b"x/x/x/"))
}

/// The class of each block of the whole image, written in order of addresses.
fn classes(prism: &mut Prism, image: &[u8], request_blocks: usize) -> Vec<String> {
    let mut runs: Vec<Run> = Vec::new();
    let mut classes = Vec::new();
    for (i, data) in image.chunks(request_blocks * BLOCK).enumerate() {
        runs.clear();
        prism.classify(&intent(image.len(), (i * request_blocks * BLOCK) as u64, data), &mut runs);
        assert_eq!(runs.iter().map(|run| run.blocks as usize).sum::<usize>() * BLOCK, data.len());
        assert!(runs.windows(2).all(|pair| pair[0].class != pair[1].class), "neighbours are merged");
        for run in &runs {
            let name = &prism.table().get(run.class).unwrap().name;
            classes.extend((0..run.blocks).map(|_| name.clone()));
        }
    }
    classes
}

fn intent(disk_size: usize, offset_bytes: u64, data: &[u8]) -> Intent<'_> {
    let disk_size_bytes = disk_size as u64;
    Intent {
        disk: DISK,
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

/// Blocks that violate the rule "metadata or log if and only if not zero and not file contents".
fn misjudged(image: &[u8], classes: &[String]) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut seen_contents = 0;
    for (i, (block, class)) in image.chunks(BLOCK).zip(classes).enumerate() {
        let claimed = matches!(class.as_str(), "metadata" | "log");
        let contents = contents_of(block);
        seen_contents += contents;
        if contents == 4 && claimed {
            wrong.push(format!("block {i}: contents taken for {class}"));
        } else if contents == 0 && !claimed && !is_link(block) && block.iter().any(|&byte| byte != 0) {
            wrong.push(format!("block {i}: not recognised: {:02x?}", &block[..48]));
        }
    }
    assert!(seen_contents > 4 * 700, "the tree was not put into the image: {seen_contents}");
    wrong
}

fn field(text: &str, name: &str) -> u64 {
    let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name} in {text}"));
    line.rsplit(['=', ':']).next().unwrap().trim().split(' ').next().unwrap().parse().unwrap()
}

fn known(prism: &Prism) -> Vec<(System, u64)> {
    prism.known_systems().iter().map(|known| (known.system, known.offset_bytes)).collect()
}

/// An XFS prototype file for the tree (mkfs.xfs of 6.1 cannot copy a directory).
fn xfs_prototype(scratch: &Scratch, tree: &str) -> String {
    let mut prototype = "/\n0 0\nd--755 0 0\n".to_owned();
    for entry in fs::read_dir(tree).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        let kind = entry.file_type().unwrap();
        if kind.is_file() {
            prototype += &format!("{name} ---644 0 0 {tree}/{name}\n");
        } else if kind.is_symlink() {
            prototype += &format!("{name} l--777 0 0 {}\n", "x/".repeat(400));
        }
    }
    prototype += "many d--755 0 0\n";
    for entry in fs::read_dir(format!("{tree}/many")).unwrap().flatten() {
        prototype += &format!("{} ---644 0 0 /dev/null\n", entry.file_name().to_str().unwrap());
    }
    prototype += "$\n$\n";
    let path = scratch.path("prototype");
    fs::write(&path, prototype).unwrap();
    path
}

fn check_xfs(name: &str, options: &[&str]) {
    let scratch = Scratch::new(name);
    let image = scratch.image(320 << 20);
    let prototype = xfs_prototype(&scratch, &scratch.tree());
    run("mkfs.xfs", &[&["-q", "-p", &prototype], options, &[&image]].concat());
    let numbers = text("xfs_db", &["-r", "-c", "sb 0", "-c", "p", &image]);
    let get = |name: &str| field(&numbers, &format!("{name} "));
    let block_bytes = get("blocksize");
    let linear = |number: u64| {
        let log = get("agblklog");
        ((number >> log) * get("agblocks") + (number & ((1 << log) - 1))) * block_bytes
    };
    let bytes = fs::read(&image).unwrap();
    for request_blocks in [1, 32] {
        let mut prism = Prism::new(ClassTable::default());
        let classes = classes(&mut prism, &bytes, request_blocks);
        assert_eq!(known(&prism), [(System::Xfs, 0)]);
        let class_at = |byte: u64| classes[(byte / BLOCK as u64) as usize].as_str();
        for group in 0..get("agcount") {
            assert_eq!(class_at(group * get("agblocks") * block_bytes), "metadata", "headers of group {group}");
        }
        let (log_start, log_len) = (linear(get("logstart")), get("logblocks") * block_bytes);
        assert_eq!(class_at(log_start), "log");
        assert_eq!(class_at(log_start + log_len - 1), "log");
        let logs = classes.iter().filter(|class| *class == "log").count() as u64;
        let covering = (log_start + log_len).div_ceil(4096) - log_start / 4096;
        assert_eq!(logs, covering, "nothing but the log is log");
        let inodes_per_block_log = get("inopblog");
        assert_eq!(class_at(linear(get("rootino") >> inodes_per_block_log)), "metadata", "root inode");
        let wrong = misjudged(&bytes, &classes);
        assert!(wrong.is_empty(), "{name}, {request_blocks} blocks a request: {} wrong: {wrong:#?}", wrong.len());
    }
}

#[test]
fn xfs() {
    check_xfs("xfs", &[]);
}

#[test]
fn xfs_with_reverse_map_and_large_directory_blocks() {
    check_xfs("xfs-rmap", &["-m", "rmapbt=1,reflink=1", "-n", "size=16384", "-i", "size=1024"]);
}

#[test]
fn xfs_with_small_blocks() {
    check_xfs("xfs-1k", &["-b", "size=1024"]);
}

#[test]
fn xfs_with_4k_sectors() {
    check_xfs("xfs-4k", &["-s", "size=4096"]);
}

fn check_ext4(name: &str, size_bytes: u64, options: &[&str]) {
    let scratch = Scratch::new(name);
    let image = scratch.image(size_bytes);
    let tree = scratch.tree();
    run("mkfs.ext4", &[&["-q", "-F", "-d", &tree], options, &[&image]].concat());
    let bytes = fs::read(&image).unwrap();
    let numbers = text("dumpe2fs", &[&image]);
    let block_bytes = field(&numbers, "Block size:");
    for request_blocks in [1, 32] {
        let mut prism = Prism::new(ClassTable::default());
        let classes = classes(&mut prism, &bytes, request_blocks);
        assert_eq!(known(&prism), [(System::Ext4, 0)]);
        let class_at = |block: u64| classes[(block * block_bytes / BLOCK as u64) as usize].as_str();
        let mut checked = 0;
        for line in numbers.lines().filter(|line| line.starts_with("  ")) {
            // "Block bitmap at 385 (+385), csum ...", "Inode table at 417-928 (+417)", "Primary superblock at 0, ..."
            for part in
                ["superblock at ", "Group descriptors at ", "Reserved GDT blocks at ", "bitmap at ", "Inode table at "]
            {
                let Some((_, place)) = line.split_once(part) else {
                    continue;
                };
                let place = place.split([' ', ',']).next().unwrap();
                let (first, last) = place.split_once('-').unwrap_or((place, place));
                for block in [first, last] {
                    let class = class_at(block.parse().unwrap());
                    assert!(class == "metadata" || (class == "log" && block_bytes < 4096), "{part}{block}: {class}");
                    checked += 1;
                }
            }
        }
        assert!(checked > 20);
        let mut journal_blocks = 0;
        let journal = text("debugfs", &["-R", "stat <8>", &image]);
        let extents = journal.split("EXTENTS:").nth(1).or_else(|| journal.split("BLOCKS:").nth(1)).unwrap();
        for part in extents.split("):").skip(1) {
            let place = part.split(['\n', ',', ' ']).next().unwrap();
            let (first, last) = place.split_once('-').unwrap_or((place, place));
            for block in first.parse::<u64>().unwrap()..=last.parse().unwrap() {
                assert_eq!(class_at(block), "log", "journal block {block}");
                journal_blocks += 1;
            }
        }
        assert!(journal_blocks >= 1024);
        let logs = classes.iter().filter(|class| *class == "log").count() as u64;
        assert!(
            logs <= (journal_blocks + 8) * block_bytes / 4096 + 2,
            "{logs} blocks of log, {journal_blocks} of journal"
        );
        let mut wrong = misjudged(&bytes, &classes);
        // The pointer block of the resize inode contains plain numbers; only resize2fs writes it.
        let map = text("debugfs", &["-R", "stat <7>", &image]);
        if let Some((_, pointer)) = map.split_once("(DIND):") {
            let block: u64 = pointer.split([',', '\n']).next().unwrap().parse().unwrap();
            wrong.retain(|line| !line.starts_with(&format!("block {}:", block * block_bytes / BLOCK as u64)));
        }
        assert!(wrong.is_empty(), "{name}, {request_blocks} blocks a request: {} wrong: {wrong:#?}", wrong.len());
    }
}

#[test]
fn ext4() {
    check_ext4("ext4", 320 << 20, &[]);
}

#[test]
fn ext4_without_flex_groups_or_checksums() {
    check_ext4("ext4-plain", 320 << 20, &["-O", "^flex_bg,^metadata_csum,^64bit,^resize_inode"]);
}

#[test]
fn ext4_with_meta_groups_and_seeded_checksums() {
    check_ext4("ext4-meta-bg", 320 << 20, &["-O", "meta_bg,^resize_inode,metadata_csum_seed"]);
}

#[test]
fn ext4_with_small_blocks() {
    check_ext4("ext4-1k", 192 << 20, &["-b", "1024"]);
}

#[test]
fn ext3() {
    check_ext4("ext3", 256 << 20, &["-t", "ext3"]);
}

#[test]
fn ext4_with_an_external_journal() {
    let scratch = Scratch::new("journal-dev");
    let image = scratch.image(64 << 20);
    run("mke2fs", &["-q", "-F", "-b", "4096", "-O", "journal_dev", &image]);
    let bytes = fs::read(&image).unwrap();
    let mut prism = Prism::new(ClassTable::default());
    let classes = classes(&mut prism, &bytes, 32);
    assert_eq!(known(&prism), [(System::Ext4, 0)]);
    assert_eq!(classes[0], "metadata");
    assert!(classes[1..].iter().all(|class| class == "log"));
}

/// A journal of a gigabyte has more extents than its inode can contain, so that its map is a tree. Until the tree's
/// leaf is seen, the journal is recognised by its own blocks.
#[test]
fn ext4_with_a_journal_mapped_by_a_tree() {
    use std::os::unix::fs::FileExt;
    let scratch = Scratch::new("journal-tree");
    let image = scratch.image(24 << 30);
    run("mkfs.ext4", &["-q", "-F", "-J", "size=1024", "-E", "lazy_journal_init=1,lazy_itable_init=1", &image]);
    let file = fs::File::open(&image).unwrap();
    let read = |block: u64| {
        let mut bytes = vec![0u8; BLOCK];
        file.read_exact_at(&mut bytes, block * 4096).unwrap();
        bytes
    };
    let map = text("debugfs", &["-R", "stat <8>", &image]);
    let extents = map.split("EXTENTS:").nth(1).unwrap();
    let place = |part: &str| -> (u64, u64) {
        let place = part.split_once("):").unwrap().1.split(['\n', ',', ' ']).next().unwrap();
        let (first, last) = place.split_once('-').unwrap_or((place, place));
        (first.parse().unwrap(), last.parse().unwrap())
    };
    let parts: Vec<&str> = extents.split(", ").map(str::trim).collect();
    let leaf = parts.iter().find(|part| part.starts_with("(ETB0)")).map(|part| place(part).0).unwrap();
    let pieces: Vec<(u64, u64)> =
        parts.iter().filter(|part| !part.starts_with("(ETB")).map(|part| place(part)).collect();
    assert!(pieces.len() > 4, "{map}");

    let mut prism = Prism::new(ClassTable::default());
    let mut class_of = |block: u64, data: &[u8]| {
        let mut runs = Vec::new();
        prism.classify(&intent(24 << 30, block * 4096, data), &mut runs);
        assert_eq!(runs.len(), 1);
        prism.table().get(runs[0].class).unwrap().name.clone()
    };
    let jbd2 = |kind: u8| {
        let mut block = vec![0x33; BLOCK];
        block[..8].copy_from_slice(&[0xc0, 0x3b, 0x39, 0x98, 0, 0, 0, kind]);
        block
    };
    class_of(0, &read(0));
    let (start, payload) = (pieces[0].0 + 500, [0x44; BLOCK]);
    assert_eq!(class_of(start, &payload), "cold");
    for (step, expected) in [
        (jbd2(1), "log"),
        (payload.to_vec(), "log"),
        (payload.to_vec(), "log"),
        (jbd2(2), "log"),
        (payload.to_vec(), "cold"),
    ]
    .iter()
    .enumerate()
    .map(|(step, (data, expected))| ((step as u64, data), expected))
    {
        assert_eq!(&class_of(start + step.0, step.1), expected, "step {}", step.0);
    }
    assert_eq!(class_of(leaf, &read(leaf)), "metadata");
    for (first, last) in pieces {
        for block in [first, (first + last) / 2, last] {
            assert_eq!(class_of(block, &payload), "log", "block {block}");
        }
    }
}

fn check_btrfs(name: &str, options: &[&str]) {
    let scratch = Scratch::new(name);
    let image = scratch.image(256 << 20);
    let tree = scratch.tree();
    run("mkfs.btrfs", &[&["-q", "-f", "--rootdir", &tree], options, &[&image]].concat());
    let bytes = fs::read(&image).unwrap();
    for request_blocks in [1, 3, 32] {
        let mut prism = Prism::new(ClassTable::default());
        let classes = classes(&mut prism, &bytes, request_blocks);
        assert_eq!(known(&prism), [(System::Btrfs, 0)]);
        assert_eq!(classes[16], "metadata", "superblock");
        assert_eq!(classes[16 << 10], "metadata", "copy of the superblock at 64 MiB");
        let wrong = misjudged(&bytes, &classes);
        assert!(wrong.is_empty(), "{name}, {request_blocks} blocks a request: {} wrong: {wrong:#?}", wrong.len());
    }
}

#[test]
fn btrfs() {
    check_btrfs("btrfs", &[]);
}

#[test]
fn btrfs_with_another_checksum() {
    check_btrfs("btrfs-xxhash", &["--csum", "xxhash", "-n", "4096"]);
}

#[test]
fn file_systems_in_partitions_and_what_becomes_of_them() {
    let scratch = Scratch::new("partitions");
    let part = |name: &str| {
        let path = scratch.path(name);
        fs::File::create(&path).unwrap().set_len(320 << 20).unwrap();
        path
    };
    let (xfs, ext4) = (part("xfs"), part("ext4"));
    run("mkfs.xfs", &["-q", &xfs]);
    run("mkfs.ext4", &["-q", "-F", &ext4]);
    let (first, second, size) = (1u64 << 20, 322u64 << 20, 643usize << 20);
    let sectors = |bytes: u64| bytes / 512;
    let mbr = {
        let mut block = vec![0u8; BLOCK];
        for (i, start) in [first, second].into_iter().enumerate() {
            let entry = &mut block[446 + i * 16..][..16];
            entry[4] = 0x83;
            entry[8..12].copy_from_slice(&(sectors(start) as u32).to_le_bytes());
            entry[12..16].copy_from_slice(&(sectors(320 << 20) as u32).to_le_bytes());
        }
        block[510..512].copy_from_slice(&[0x55, 0xaa]);
        block
    };
    let mut disk = vec![0u8; size];
    disk[..BLOCK].copy_from_slice(&mbr);
    disk[first as usize..][..320 << 20].copy_from_slice(&fs::read(&xfs).unwrap());
    disk[second as usize..][..320 << 20].copy_from_slice(&fs::read(&ext4).unwrap());

    let mut prism = Prism::new(ClassTable::default());
    let before = classes(&mut prism, &disk, 32);
    assert_eq!(known(&prism), [(System::Xfs, first), (System::Ext4, second)]);
    assert_eq!(before[0], "metadata", "partition table");

    // A restored classifier knows the same facts and returns the same verdicts.
    let saved = prism.save();
    assert!(saved.len() <= 64 << 10);
    let mut restored = Prism::new(ClassTable::default());
    restored.restore(&saved);
    assert_eq!(restored.known_systems(), prism.known_systems());
    assert_eq!(restored.save(), saved);
    let mut runs = Vec::new();
    let log = before.iter().position(|class| class == "log").unwrap();
    restored.classify(&intent(size, (log * BLOCK) as u64, &[0x77; BLOCK]), &mut runs);
    assert_eq!(restored.table().get(runs[0].class).unwrap().name, "log");

    // The same from reads alone.
    let mut reader = Prism::new(ClassTable::default());
    for (i, data) in disk.chunks(32 * BLOCK).enumerate() {
        reader.observe_read(&Intent { direction: Direction::Read, ..intent(size, (i * 32 * BLOCK) as u64, data) });
    }
    assert_eq!(reader.save(), saved);

    // Overwritten, discarded or repartitioned: the facts are forgotten.
    runs.clear();
    prism.classify(&intent(size, first, &[0; BLOCK]), &mut runs);
    assert_eq!(known(&prism), [(System::Ext4, second)]);
    prism.observe_discard(DISK, second, 1 << 20);
    assert_eq!(known(&prism), []);
    runs.clear();
    restored.classify(&intent(size, 0, &[0; BLOCK]), &mut runs);
    assert_eq!(known(&restored), []);
}

#[test]
fn gpt_with_both_sector_sizes() {
    let scratch = Scratch::new("gpt");
    let xfs = scratch.path("xfs");
    fs::File::create(&xfs).unwrap().set_len(320 << 20).unwrap();
    run("mkfs.xfs", &["-q", &xfs]);
    let contents = fs::read(&xfs).unwrap();
    for sector in [512u64, 4096] {
        let start = 2u64 << 20;
        let size = 324usize << 20;
        let mut disk = vec![0u8; size];
        disk[450] = 0xee;
        disk[510..512].copy_from_slice(&[0x55, 0xaa]);
        let mut header = [0u8; 92];
        header[..8].copy_from_slice(b"EFI PART");
        header[12] = 92;
        header[72] = 2;
        header[80] = 128;
        header[84] = 128;
        let crc = crc32(&header);
        header[16..20].copy_from_slice(&crc.to_le_bytes());
        disk[sector as usize..][..92].copy_from_slice(&header);
        // The 40th entry, which is not in the first block.
        let entry = &mut disk[2 * sector as usize + 39 * 128..][..128];
        entry[..16].fill(9);
        entry[32..40].copy_from_slice(&(start / sector).to_le_bytes());
        entry[40..48].copy_from_slice(&((start + (320 << 20)) / sector - 1).to_le_bytes());
        disk[start as usize..][..320 << 20].copy_from_slice(&contents);
        for request_blocks in [1, 64] {
            let mut prism = Prism::new(ClassTable::default());
            let classes = classes(&mut prism, &disk, request_blocks);
            assert_eq!(known(&prism), [(System::Xfs, start)], "sector {sector}");
            assert!(classes[..4].iter().all(|class| class == "metadata"), "table, sector {sector}");
            assert!(classes.iter().any(|class| class == "log"));
        }
    }
}

/// CRC-32 bit by bit, independent of the implementation under test.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg()))
    })
}

#[test]
fn swap_is_temporary() {
    let scratch = Scratch::new("swap");
    let image = scratch.image(64 << 20);
    run("mkswap", &[&image]);
    let bytes = fs::read(&image).unwrap();
    let mut prism = Prism::new(ClassTable::default());
    let classes = classes(&mut prism, &bytes, 16);
    assert_eq!(known(&prism), [(System::Swap, 0)]);
    assert_eq!(classes[0], "metadata");
    assert!(classes[1..].iter().all(|class| class == "temp"));
}

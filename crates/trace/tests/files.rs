//! `files::Watch` on real file systems on loop devices. Needs root, so it is a separate step of `./check`:
//! `cargo test -p forebay-trace --test files -- --ignored --test-threads=1`
#![forbid(unsafe_code)]
// In tests, a panic reports the failure.
#![allow(clippy::unwrap_used)]

use forebay_trace::Lifetime;
use forebay_trace::files::{Change, Extent, FileFacts, FilesError, Watch, WatchOptions, WatchState, Watching};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(30);

fn run(command: &str, arguments: &[&str]) -> String {
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap());
    let output = Command::new(command).args(arguments).env("PATH", path).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{command} {arguments:?}: {}{text}", String::from_utf8_lossy(&output.stderr));
    text
}

/// A file system with image, loop device and mount, which are all removed when this is dropped.
struct Disk {
    folder: tempfile::TempDir,
    /// The loop device, and the part of it that is mounted.
    device: String,
    part: String,
    begin_bytes: u64,
    is_mounted: bool,
}

impl Disk {
    fn new(kind: &str, size_bytes: u64) -> Self {
        let mut disk = Self::unformatted(size_bytes);
        run(&format!("mkfs.{kind}"), &["-q", &disk.part.clone()]);
        disk.mount();
        disk
    }

    /// With the file system on a partition that begins at 64 MiB.
    fn partitioned(kind: &str, size_bytes: u64) -> Self {
        let mut disk = Self::unformatted(size_bytes);
        disk.begin_bytes = 64 << 20;
        let (begin, sectors) = (disk.begin_bytes / 512, (size_bytes - disk.begin_bytes) / 512);
        run("addpart", &[&disk.device, "2", &begin.to_string(), &sectors.to_string()]);
        let name = disk.device.trim_start_matches("/dev/").to_owned();
        let number = fs::read_to_string(format!("/sys/block/{name}/{name}p2/dev")).unwrap();
        let (major, minor) = number.trim().split_once(':').unwrap();
        // Not every system creates device nodes in /dev by itself.
        disk.part = disk.folder.path().join("part").to_str().unwrap().to_owned();
        run("mknod", &[&disk.part, "b", major, minor]);
        run(&format!("mkfs.{kind}"), &["-q", &disk.part]);
        disk.mount();
        disk
    }

    fn unformatted(size_bytes: u64) -> Self {
        let folder = tempfile::Builder::new().prefix("forebay-files.").tempdir_in("/dev/shm").unwrap();
        let image = folder.path().join("image");
        File::create(&image).unwrap().set_len(size_bytes).unwrap();
        fs::create_dir(folder.path().join("mount")).unwrap();
        let device = run("losetup", &["-f", "-P", "--show", image.to_str().unwrap()]).trim().to_owned();
        Self { folder, part: device.clone(), device, begin_bytes: 0, is_mounted: false }
    }

    fn mount(&mut self) {
        run("mount", &[&self.part, self.point().to_str().unwrap()]);
        self.is_mounted = true;
    }

    fn unmount(&mut self) {
        run("umount", &[self.point().to_str().unwrap()]);
        self.is_mounted = false;
    }

    fn point(&self) -> PathBuf {
        self.folder.path().join("mount")
    }

    fn watch(&self) -> Watched {
        Watched::start(&self.point(), 1 << 20, 1 << 20)
    }

    /// The bytes of the disk, as the loop device wrote them into its image.
    fn read(&self, offset_bytes: u64, len_bytes: usize) -> Vec<u8> {
        let mut bytes = vec![0; len_bytes];
        File::open(self.folder.path().join("image")).unwrap().read_exact_at(&mut bytes, offset_bytes).unwrap();
        bytes
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if self.is_mounted {
            run("umount", &["-l", self.point().to_str().unwrap()]);
        }
        run("losetup", &["-d", &self.device]);
    }
}

/// A watch, with everything that it has reported.
struct Watched {
    watch: Watch,
    files: BTreeMap<(u64, u32), (FileFacts, Vec<Extent>)>,
    /// Every path that was ever reported.
    paths: Vec<String>,
}

impl Watched {
    fn start(point: &Path, files_max: usize, extents_max: usize) -> Self {
        let options = WatchOptions { mount: point.to_owned(), with_extents: true, files_max, extents_max };
        Self { watch: Watch::start(options).unwrap(), files: BTreeMap::new(), paths: Vec::new() }
    }

    fn take(&mut self) {
        let mut changes = Vec::new();
        self.watch.changes(usize::MAX, &mut changes);
        for change in changes {
            match change {
                Change::File { facts, extents, .. } => {
                    self.paths.push(facts.path.clone());
                    let file = self
                        .files
                        .entry((facts.inode, facts.generation))
                        .or_insert_with(|| (facts.clone(), Vec::new()));
                    file.0 = facts;
                    if let Some(extents) = extents {
                        file.1 = extents;
                    }
                }
                Change::Gone { inode, generation } => {
                    assert!(self.files.remove(&(inode, generation)).is_some(), "{inode} was not reported before");
                }
            }
        }
    }

    #[track_caller]
    fn until(&mut self, what: &str, holds: impl Fn(&Self) -> bool) {
        let begun = Instant::now();
        loop {
            self.take();
            if holds(self) {
                return;
            }
            let state = self.watch.state();
            assert!(begun.elapsed() < LONG, "not within {LONG:?}: {what}; {state:#?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    #[track_caller]
    fn walked(&mut self) -> WatchState {
        self.until("the first walk", |watched| {
            let state = watched.watch.state();
            state.is_walked && state.waiting == 0
        });
        self.watch.state()
    }

    fn at(&self, path: &Path) -> Option<&(FileFacts, Vec<Extent>)> {
        let metadata = fs::symlink_metadata(path).ok()?;
        let same = |facts: &FileFacts| facts.inode == metadata.ino() && facts.path == path.to_str().unwrap();
        self.files.values().find(|(facts, _)| same(facts))
    }

    /// Whether the report about a file agrees with the file system, and the disk holds its bytes there.
    fn is_right(&self, disk: &Disk, path: &Path) -> bool {
        let Some((facts, extents)) = self.at(path) else { return false };
        if facts.size_bytes != fs::metadata(path).unwrap().len() || *extents != filefrag(path, disk.begin_bytes) {
            return false;
        }
        let mut content = Vec::new();
        File::open(path).unwrap().read_to_end(&mut content).unwrap();
        extents.iter().all(|extent| {
            let begin = (extent.file_offset_bytes as usize).min(content.len());
            let end = (begin + extent.len_bytes as usize).min(content.len());
            // Preallocated blocks may hold anything.
            let expected = &content[begin..end];
            expected.iter().all(|&byte| byte == 0) || disk.read(extent.disk_offset_bytes, end - begin) == expected
        })
    }
}

/// The extents by e2fsprogs' tool, in bytes, adjacent ones joined; those without a place are left out.
fn filefrag(path: &Path, begin_bytes: u64) -> Vec<Extent> {
    let text = run("filefrag", &["-v", "-b512", path.to_str().unwrap()]);
    let mut found: Vec<Extent> = Vec::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split([':', ' ', '.']).filter(|field| !field.is_empty()).collect();
        let [index, begin, _, physical, _, len, ..] = fields[..] else { continue };
        let (Ok(_), Ok(begin), Ok(physical), Ok(len)) =
            (index.parse::<u64>(), begin.parse::<u64>(), physical.parse::<u64>(), len.parse::<u64>())
        else {
            continue;
        };
        if line.contains("delalloc") || line.contains("unknown") {
            continue;
        }
        let extent = Extent {
            disk_offset_bytes: begin_bytes + physical * 512,
            file_offset_bytes: begin * 512,
            len_bytes: len * 512,
            is_written: !line.contains("unwritten"),
        };
        match found.last_mut() {
            Some(before)
                if before.disk_offset_bytes + before.len_bytes == extent.disk_offset_bytes
                    && before.file_offset_bytes + before.len_bytes == extent.file_offset_bytes
                    && before.is_written == extent.is_written =>
            {
                before.len_bytes += extent.len_bytes;
            }
            _ => found.push(extent),
        }
    }
    found
}

fn pattern(seed: u64, len_bytes: usize) -> Vec<u8> {
    let mut state = seed | 1;
    let mut step = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as u8
    };
    (0..len_bytes).map(|_| step()).collect()
}

fn write(path: &Path, at: u64, bytes: &[u8]) {
    let mut file = OpenOptions::new().create(true).truncate(false).write(true).open(path).unwrap();
    file.seek(SeekFrom::Start(at)).unwrap();
    file.write_all(bytes).unwrap();
}

fn sync(path: &Path) {
    File::open(path).unwrap().sync_all().unwrap();
}

fn xfs_io(path: &Path, command: &str) {
    run("xfs_io", &["-c", command, path.to_str().unwrap()]);
}

fn what_happens_is_reported(kind: &str) {
    let disk = Disk::new(kind, 400 << 20);
    let point = disk.point();
    fs::create_dir(point.join("old")).unwrap();
    write(&point.join("old/before"), 0, &pattern(1, 300_000));
    sync(&point.join("old/before"));
    let mut watched = disk.watch();
    let state = watched.walked();
    assert_eq!((&state.watching, &state.no_extents, state.files), (&Watching::ByEvents, &None, 1), "{state:#?}");
    assert!(watched.is_right(&disk, &point.join("old/before")), "what was there before");

    // Created and appended without a sync: the places are reported once the data is written back.
    let file = point.join("new file\nwith a line");
    write(&file, 0, &pattern(2, 70_000));
    watched.until("the name of a new file", |watched| {
        watched.at(&file).is_some_and(|(facts, _)| facts.size_bytes == 70_000)
    });
    sync(&file);
    watched.until("the places of a new file", |watched| watched.is_right(&disk, &file));
    write(&file, 70_000, &pattern(3, 3_000_000));
    sync(&file);
    watched.until("what was appended", |watched| watched.is_right(&disk, &file));
    write(&file, 100_000, &pattern(4, 50_000));
    sync(&file);
    watched.until("what was overwritten", |watched| watched.is_right(&disk, &file));
    xfs_io(&file, "fpunch 1m 512k");
    watched.until("a hole", |watched| watched.is_right(&disk, &file) && watched.at(&file).unwrap().1.len() > 1);
    xfs_io(&file, "falloc 4m 8m");
    watched.until("preallocation", |watched| {
        let reported: u64 =
            watched.at(&file).map_or(0, |(_, extents)| extents.iter().map(|extent| extent.len_bytes).sum());
        watched.is_right(&disk, &file) && reported > 10 << 20
    });
    xfs_io(&file, "truncate 4k");
    watched.until("truncation", |watched| watched.is_right(&disk, &file));

    // Hints belong to the inode.
    let hinted = point.join("hinted");
    write(&hinted, 0, b"x");
    let hint = "import fcntl, struct, sys; fcntl.fcntl(open(sys.argv[1], 'ab'), 1036, struct.pack('Q', 2))";
    run("python3", &["-c", hint, hinted.to_str().unwrap()]);
    watched.until("a hint", |watched| {
        watched.at(&hinted).is_some_and(|(facts, _)| facts.lifetime == Some(Lifetime::Short))
    });

    // Renames: of a file, over a file, of a folder.
    let key = |watched: &Watched, path: &Path| watched.at(path).map(|(facts, _)| (facts.inode, facts.generation));
    let before = key(&watched, &file);
    let renamed = point.join("old/CURRENT");
    write(&renamed, 0, b"overwritten soon");
    watched.until("a file to be overwritten", |watched| watched.at(&renamed).is_some());
    let overwritten = key(&watched, &renamed).unwrap();
    fs::rename(&file, &renamed).unwrap();
    watched.until("a rename", |watched| key(watched, &renamed) == before && !watched.files.contains_key(&overwritten));
    fs::rename(point.join("old"), point.join("new")).unwrap();
    watched.until("the rename of a folder", |watched| {
        key(watched, &point.join("new/CURRENT")) == before && watched.is_right(&disk, &point.join("new/before"))
    });

    // A second name is added, and the first is removed.
    fs::hard_link(point.join("new/before"), point.join("second")).unwrap();
    fs::remove_file(point.join("new/before")).unwrap();
    watched.until("the second name", |watched| watched.is_right(&disk, &point.join("second")));

    // Short-lived files.
    for index in 0..200 {
        let path = point.join(format!("{index:06}.dbtmp"));
        write(&path, 0, b"short");
        fs::remove_file(&path).unwrap();
    }
    let last = point.join("000199.dbtmp");
    watched.until("what lived for a moment", |watched| watched.paths.iter().any(|path| Path::new(path) == last));
    for index in 0..200 {
        let path = point.join(format!("{index:06}.dbtmp"));
        assert!(watched.paths.iter().any(|known| Path::new(known) == path), "{index} was not reported");
    }
    fs::create_dir_all(point.join("a/b/c")).unwrap();
    write(&point.join("a/b/c/deep"), 0, b"x");
    watched.until("a file in new folders", |watched| watched.at(&point.join("a/b/c/deep")).is_some());
    fs::remove_dir_all(point.join("a")).unwrap();
    std::os::unix::fs::symlink("second", point.join("link")).unwrap();
    watched.until("that all else is gone", |watched| {
        let mut paths: Vec<&str> = watched.files.values().map(|(facts, _)| facts.path.as_str()).collect();
        paths.sort_unstable();
        let expected: Vec<PathBuf> = ["hinted", "new/CURRENT", "second"].iter().map(|name| point.join(name)).collect();
        paths == expected.iter().map(|path| path.to_str().unwrap()).collect::<Vec<_>>()
    });
    let state = watched.watch.state();
    assert_eq!((state.lost, state.walks > 0, &state.last_error, &state.ended), (0, true, &None, &None), "{state:#?}");
}

#[test]
#[ignore = "needs root"]
fn what_happens_is_reported_on_xfs() {
    what_happens_is_reported("xfs");
}

#[test]
#[ignore = "needs root"]
fn what_happens_is_reported_on_ext4() {
    what_happens_is_reported("ext4");
}

#[test]
#[ignore = "needs root"]
fn inodes_used_again_are_other_files() {
    let disk = Disk::new("xfs", 400 << 20);
    let point = disk.point();
    let mut watched = disk.watch();
    watched.walked();
    let mut seen: BTreeMap<u64, u32> = BTreeMap::new();
    let mut again = 0;
    for index in 0..300 {
        let path = point.join(format!("{index:06}.sst"));
        write(&path, 0, &pattern(index, 5000));
        let inode = fs::metadata(&path).unwrap().ino();
        again += u32::from(seen.contains_key(&inode));
        *seen.entry(inode).or_default() += 1;
        if index % 3 == 0 {
            watched.until("its name", |watched| watched.at(&path).is_some());
        }
        fs::remove_file(&path).unwrap();
    }
    assert!(again > 100, "hardly any inode was used again: nothing was checked");
    watched.until("all names", |watched| {
        (0..300).all(|index| watched.paths.iter().any(|path| path.ends_with(&format!("/{index:06}.sst"))))
    });
    watched.until("that all is gone", |watched| watched.files.is_empty());
}

#[test]
#[ignore = "needs root"]
fn twenty_thousand_files_and_a_lost_event() {
    let disk = Disk::new("xfs", 600 << 20);
    let point = disk.point();
    for folder in 0..20 {
        fs::create_dir(point.join(folder.to_string())).unwrap();
        for index in 0..1000 {
            write(&point.join(format!("{folder}/{index}")), 0, &[folder as u8; 5000]);
        }
    }
    run("sync", &["-f", point.to_str().unwrap()]);
    // The length of the group's queue is fixed at its creation: a short one overflows.
    let limit = "/proc/sys/fs/fanotify/max_queued_events";
    let before = fs::read_to_string(limit).unwrap();
    fs::write(limit, "100").unwrap();
    let begun = Instant::now();
    let watch = std::panic::catch_unwind(|| disk.watch());
    fs::write(limit, before.trim()).unwrap();
    let mut watched = watch.unwrap();
    let state = watched.walked();
    println!("walked in {:?}: {state:#?}", begun.elapsed());
    assert_eq!((state.files, watched.files.len(), state.left_out_files), (20_000, 20_000, 0));
    for folder in 0..20 {
        assert!(watched.is_right(&disk, &point.join(format!("{folder}/999"))), "{folder}");
    }
    for index in 0..3000 {
        fs::remove_file(point.join(format!("{}/{index}", index / 1000, index = index % 1000))).unwrap();
        write(&point.join(format!("7/new{index}")), 0, b"x");
    }
    fs::rename(point.join("8"), point.join("9/folder")).unwrap();
    watched.until("another walk", |watched| watched.watch.state().lost > 0 && watched.watch.state().walks > 1);
    watched.until("what was missed", |watched| {
        watched.files.len() == 20_000 && watched.at(&point.join("9/folder/5")).is_some()
    });
    for index in [0, 1500, 2999] {
        assert!(watched.at(&point.join(format!("7/new{index}"))).is_some(), "{index}");
    }
}

#[test]
#[ignore = "needs root"]
fn it_can_be_unmounted_and_the_watch_ends() {
    let mut disk = Disk::new("ext4", 200 << 20);
    let point = disk.point();
    let mut watched = disk.watch();
    watched.walked();
    write(&point.join("file"), 0, &pattern(1, 1 << 20));
    watched.until("a file", |watched| watched.at(&point.join("file")).is_some());
    std::thread::sleep(Duration::from_millis(600));
    disk.unmount();
    watched.until("its end", |watched| watched.watch.state().ended.is_some());
    // Nothing holds the device.
    run("e2fsck", &["-fn", &disk.device]);
    let error = Watch::start(WatchOptions { mount: point, with_extents: true, files_max: 1, extents_max: 1 });
    assert!(matches!(error, Err(FilesError::NoMount { .. })), "{error:?}");
    // After another mount it can be watched again.
    disk.mount();
    let mut watched = disk.watch();
    watched.walked();
    assert!(watched.is_right(&disk, &disk.point().join("file")));
}

#[test]
#[ignore = "needs root"]
fn bounds_hold() {
    let disk = Disk::new("xfs", 400 << 20);
    let point = disk.point();
    for index in 0..50 {
        write(&point.join(format!("{index}")), 0, b"x");
    }
    let mut watched = Watched::start(&point, 30, 5);
    watched.walked();
    let file = point.join("pieces");
    for index in 0..20 {
        write(&file, index << 20, &[1; 4096]);
    }
    run("sync", &["-f", point.to_str().unwrap()]);
    watched.until("what is left out", |watched| watched.watch.state().left_out_files >= 20);
    assert_eq!(watched.watch.state().files, 30);
    assert!(watched.watch.state().extents <= 5);
}

#[test]
#[ignore = "needs root"]
fn what_has_no_places_has_names() {
    let disk = Disk::new("btrfs", 400 << 20);
    let point = disk.point();
    let mut watched = disk.watch();
    let state = watched.walked();
    assert!(state.no_extents.as_ref().is_some_and(|why| why.contains("btrfs")), "{state:#?}");
    let file = point.join("file");
    write(&file, 0, &pattern(1, 100_000));
    sync(&file);
    watched.until("its size", |watched| watched.at(&file).is_some_and(|(facts, _)| facts.size_bytes == 100_000));
    assert_eq!(watched.at(&file).unwrap().1, []);
    fs::remove_file(&file).unwrap();
    watched.until("its end", |watched| watched.files.is_empty());
}

#[test]
#[ignore = "needs root"]
fn a_partition_begins_where_it_does() {
    let disk = Disk::partitioned("ext4", 300 << 20);
    let point = disk.point();
    let mut watched = disk.watch();
    watched.walked();
    let on = watched.watch.place().device.clone().unwrap();
    assert_eq!((on.begin_bytes, format!("/dev/{}", on.disk)), (64 << 20, disk.device.clone()));
    let file = point.join("file");
    write(&file, 0, &pattern(9, 500_000));
    sync(&file);
    watched.until("its places on the disk", |watched| {
        watched.is_right(&disk, &file) && !watched.at(&file).unwrap().1.is_empty()
    });
}

#[test]
#[ignore = "needs root"]
fn levels_of_tables_are_reported() {
    let disk = Disk::new("xfs", 600 << 20);
    let mut watched = disk.watch();
    watched.walked();
    let db = disk.point().join("db");
    let argument = format!("--db={}", db.display());
    let fill = |benchmarks: &str| {
        let shape = "--num=200000 --value_size=200 --write_buffer_size=1000000 --target_file_size_base=1000000 \
                     --max_bytes_for_level_base=4000000 --max_bytes_for_level_multiplier=4 --compression_type=none";
        let mut arguments = vec![benchmarks, &argument];
        arguments.extend(shape.split_whitespace());
        run("db_bench", &arguments);
    };
    fill("--benchmarks=fillrandom,waitforcompaction");
    // The database is opened again, so the LOG is another file now.
    fill("--benchmarks=overwrite,waitforcompaction");
    let metadata = run("ldb", &[&argument, "list_live_files_metadata"]);
    let (mut expected, mut level) = (BTreeMap::new(), None);
    for line in metadata.lines() {
        if let Some(rest) = line.strip_prefix("---------- level ") {
            level = rest.split(' ').next().and_then(|level| level.parse::<u8>().ok());
        } else if line.ends_with(".sst") {
            expected.insert(line.to_owned(), level);
        }
    }
    let levels: std::collections::BTreeSet<_> = expected.values().collect();
    assert!(levels.len() >= 3 && !levels.contains(&None), "hardly a level: {metadata}");
    let levels = |watched: &Watched| -> BTreeMap<String, Option<u8>> {
        let tables = watched.files.values().filter(|(facts, _)| facts.path.ends_with(".sst"));
        tables.map(|(facts, _)| (facts.path.clone(), facts.level)).collect()
    };
    watched.until("the levels of all tables", |watched| levels(watched) == expected);
    // A watch that starts later learns the levels from the LOGs alone.
    let mut later = disk.watch();
    later.until("the levels of all tables, afterwards", |watched| levels(watched) == expected);
}

#[test]
#[ignore = "needs root"]
fn without_events_it_walks() {
    // tmpfs's handles do not contain its inodes as requests name them.
    let mut disk = Disk::unformatted(1 << 20);
    run("mount", &["-t", "tmpfs", "none", disk.point().to_str().unwrap()]);
    disk.is_mounted = true;
    let point = disk.point();
    write(&point.join("before"), 0, b"x");
    let mut watched = disk.watch();
    let state = watched.walked();
    assert!(matches!(&state.watching, Watching::ByWalks { why } if why.contains("tmpfs")), "{state:#?}");
    fs::rename(point.join("before"), point.join("after")).unwrap();
    fs::create_dir(point.join("folder")).unwrap();
    write(&point.join("folder/new"), 0, b"xyz");
    watched.until("what is new", |watched| {
        watched.files.len() == 2
            && watched.at(&point.join("after")).is_some()
            && watched.at(&point.join("folder/new")).is_some_and(|(facts, _)| facts.size_bytes == 3)
    });
    drop(watched);
    disk.unmount();
}

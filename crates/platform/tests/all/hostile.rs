//! Malicious trees: nothing outside the root is read, nothing that could block is opened, and all amounts are
//! bounded.

use crate::support::*;
use forebay_platform::{Lack, Machine, Tree, Wanted, audit, capture, text};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};

const SCHEDULER: &str = "/sys/class/block/sda/queue/scheduler";

fn why(lack: Result<String, Lack>) -> String {
    lack.unwrap_err().to_string()
}

#[test]
fn links_never_lead_out() {
    let outside = Small::new(&[("/secret", "nothing for others")]);
    let secret = outside.path("/secret");
    let small = Small::new(&[
        ("/a/absolute", &format!("->{}", secret.display())),
        ("/a/passwd", "->/etc/passwd"),
        ("/a/up", "->../../../../../../../../etc/passwd"),
        ("/a/folder", "->/proc/self/root"),
        ("/a/good", "->../b/../b/file"),
        ("/a/from-root", "->/b/file"),
        ("/b/file", "inside\n"),
    ]);
    // A link whose path leads outside and back inside.
    let name = small.folder.path().file_name().unwrap().to_str().unwrap().to_owned();
    small.put("/a/out-and-in", &format!("->../../{name}/b/file"));
    let tree = small.tree();
    assert_eq!(tree.read("/a/good").unwrap(), "inside");
    assert_eq!(tree.read("/a/from-root").unwrap(), "inside");
    assert!(why(tree.read("/a/absolute")).ends_with("is not there"));
    assert!(why(tree.read("/a/passwd")).ends_with("is not there"));
    assert!(why(tree.read("/a/up")).contains("leads out of the tree"));
    assert!(why(tree.read("/a/out-and-in")).contains("leads out of the tree"));
    assert!(why(tree.read("/a/folder/etc/passwd")).ends_with("is not there"));
    assert!(why(tree.read("/../etc/passwd")).contains("leads out of the tree"));
    assert!(tree.link("/a/passwd").unwrap() == "/etc/passwd", "a link itself may be looked at");
}

#[test]
fn loops_and_long_ways_end() {
    let small = Small::new(&[("/a", "->b"), ("/b", "->a"), ("/self", "->self"), ("/deep/x", "y")]);
    small.put("/wide", &format!("->{}deep/x", "deep/../".repeat(400)));
    for number in 0..60 {
        small.put(&format!("/chain{number}"), &format!("->chain{}", number + 1));
    }
    small.put("/chain60", "end");
    let tree = small.tree();
    for path in ["/a", "/b/c", "/self", "/chain0"] {
        assert!(why(tree.read(path)).contains("more than 40 links"), "{path}");
    }
    assert!(why(tree.read("/wide")).contains("names on the way"));
    assert_eq!(tree.read("/chain30").unwrap(), "end");
}

#[test]
fn what_is_no_file_is_not_opened() {
    let small = Small::new(&[("/folder/x", "")]);
    let fifo = small.path("/fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let _socket = std::os::unix::net::UnixListener::bind(small.path("/socket")).unwrap();
    small.put("/to-fifo", "->fifo");
    let tree = small.tree();
    for path in ["/fifo", "/socket", "/to-fifo"] {
        assert!(why(tree.read(path)).contains("neither a file nor a directory"), "{path}");
        assert!(tree.list(path, |_| true).is_err());
    }
    assert!(why(tree.read("/folder")).contains("a directory"));
    assert!(tree.list("/folder/x", |_| true).is_err());
    // A device of the real system is not opened either.
    let real = Tree::open("/".as_ref()).unwrap();
    assert!(why(real.read("/dev/zero")).contains("neither a file nor a directory"));
}

#[test]
fn sizes_are_bounded() {
    let small = Small::new(&[("/small", "x")]);
    fs::File::create(small.path("/huge")).unwrap().set_len(1 << 40).unwrap();
    fs::write(small.path("/limit"), vec![b'x'; 64 << 10]).unwrap();
    fs::write(small.path("/above"), vec![b'x'; (64 << 10) + 1]).unwrap();
    let tree = small.tree();
    assert!(why(tree.read("/huge")).contains("longer than 65536 bytes"));
    assert!(why(tree.read("/above")).contains("longer than 65536 bytes"));
    assert_eq!(tree.read("/limit").unwrap().len(), 64 << 10);
}

#[test]
fn directories_are_bounded_and_said_to_be() {
    let small = Small::new(&[("/proc/1/comm", "systemd")]);
    for number in 0..100_000_u32 {
        fs::write(small.path(&format!("/proc/x{number}")), "").unwrap();
    }
    let tree = small.tree();
    let all = tree.list("/proc", |_| true).unwrap();
    assert!(!all.is_whole && all.names.len() == 4096, "{}", all.names.len());
    let few = tree.list("/proc", |name| name == "none").unwrap();
    assert!(!few.is_whole && few.names.is_empty());
    let report = small.report();
    assert_ne!(verdict(&report, "scanners"), "good", "not all processes were looked at");
}

#[test]
fn garbage_is_unknown_and_not_a_crash() {
    let garbage: Vec<u8> = (0..=255).cycle().take(3000).collect();
    for name in ["intel-server", "amd-server", "laptop"] {
        let small = Small::new(&[]);
        let mut waiting = vec![shipped(name)];
        while let Some(folder) = waiting.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let inside = small.path(path.strip_prefix(shipped(name)).unwrap().to_str().unwrap());
                fs::create_dir_all(inside.parent().unwrap()).unwrap();
                if path.is_symlink() {
                    symlink(fs::read_link(&path).unwrap(), inside).unwrap();
                } else if path.is_dir() {
                    waiting.push(path);
                } else {
                    fs::write(inside, &garbage).unwrap();
                }
            }
        }
        let report = small.report_with("nvme0n1");
        assert!(report.unknown.len() > 15, "{}", text(&report));
        assert!(text(&report).len() < 50_000, "long values are cut");
    }
}

#[test]
fn names_that_are_no_text_are_left_out() {
    let small = Small::new(&[("/sys/class/block/sda/size", "8")]);
    let strange = OsStr::from_bytes(b"sd\xff\xfe\x1b[2J");
    fs::create_dir(small.path("/sys/class/block").join(strange)).unwrap();
    symlink(OsStr::from_bytes(b"\xff\xfe"), small.path("/sys/class/block/sdb")).unwrap();
    let tree = small.tree();
    assert_eq!(Machine::disks(&tree), ["sda", "sdb"]);
    assert!(why(tree.resolved("/sys/class/block/sdb")).contains("not UTF-8"));
    assert!(why(tree.link("/sys/class/block/sdb")).contains("not UTF-8"));
    assert!(Machine::read(&tree, Wanted::Device("sdb")).is_err());
    assert_eq!(Machine::read(&tree, Wanted::All).unwrap().devices.len(), 1);
}

#[test]
fn what_may_not_be_read_is_said_to_be_unreadable() {
    let small = Small::new(&[(SCHEDULER, "[none]"), ("/closed/file", "x")]);
    fs::set_permissions(small.path(SCHEDULER), PermissionsExt::from_mode(0o000)).unwrap();
    fs::set_permissions(small.path("/closed"), PermissionsExt::from_mode(0o000)).unwrap();
    let tree = small.tree();
    // Root can read it all the same.
    if fs::read(small.path(SCHEDULER)).is_err() {
        assert!(why(tree.read(SCHEDULER)).contains("no permission"));
        assert!(why(tree.read("/closed/file")).contains("no permission"));
        assert_eq!(verdict(&small.report_with("sda"), "scheduler"), "unknown");
    }
    fs::set_permissions(small.path("/closed"), PermissionsExt::from_mode(0o700)).unwrap();
}

#[test]
fn lists_of_numbers_are_bounded() {
    for list in ["0-99999999999", "5-1", "a", "0-18446744073709551615", "-", "1--2", "99999"] {
        let small = Small::new(&[("/sys/devices/system/cpu/online", list)]);
        let small_report = Machine::read(&small.tree(), Wanted::Machine).unwrap();
        assert!(small_report.cpu.online.is_err(), "{list}");
    }
}

#[test]
fn an_empty_tree_is_all_unknown() {
    let small = Small::new(&[]);
    let report = small.report();
    assert!(report.findings.is_empty(), "{}", text(&report));
    assert!(report.unknown.len() > 10);
    assert!(report.good.iter().all(|entry| matches!(entry.name, "numa" | "array-check")), "{}", text(&report));
    assert!(Tree::open(&small.path("/none")).is_err());
    small.put("/file", "x");
    assert!(Tree::open(&small.path("/file")).unwrap_err().to_string().contains("cannot be opened as a directory"));
}

#[test]
fn a_capture_of_a_hostile_tree_stays_in_its_folder() {
    let outside = Small::new(&[]);
    let target = outside.path("/written");
    let small = Small::new(&[
        ("/sys/class/block/sda", "->../../devices/sda"),
        ("/sys/devices/sda/queue/scheduler", "[none]"),
        ("/sys/class/block/sdb", &format!("->{}", target.display())),
        ("/proc/swaps", &format!("->{}", target.display())),
    ]);
    let tree = small.tree();
    audit(&Machine::read(&tree, Wanted::All).unwrap());
    let to = Small::new(&[]);
    capture(&tree, &to.path("/new")).unwrap();
    assert!(!target.exists());
    assert!(fs::symlink_metadata(to.path("/new/proc/swaps")).unwrap().is_symlink());
    assert_eq!(fs::read_to_string(to.path("/new/sys/devices/sda/queue/scheduler")).unwrap(), "[none]\n");
}

//! Habitual command lines are understood, or answered with the correct command.

use crate::support::*;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

#[test]
fn config_may_stand_before_or_behind_the_action() {
    let scene = Scene::new().created();
    let server = scene.serve();
    let config = scene.config();
    assert_eq!(good(&forebay(&["disk", config, "list"])), good(&forebay(&["disk", "list", config])));
    good(&forebay(&["disk", "add", config, "logs", "4MiB"]));
    good(&forebay(&["class", "add", config, "wal", "--place", "fast", "--share", "25%", "--match", "disk:logs"]));
    let classes = good(&forebay(&["class", "list", config]));
    assert!(classes.contains("wal") && classes.contains("0.25"), "{classes}");
    refused(
        &forebay(&["class", config, "add", "wal", "--place", "fast"]),
        2,
        &["there already", "class CONFIG set wal"],
    );
    refused(&forebay(&["class", config, "set", "wal", "--share", "250%"]), 2, &["0.0 to 1.0"]);
    assert_eq!(server.stop(), 0);
}

/// Of concurrent changes, some failed with `Broken pipe` or a request to repeat.
#[test]
fn regression_changes_at_the_same_time_are_all_done() {
    let scene = Scene::new().created();
    let server = scene.serve();
    let config = scene.config();
    std::thread::scope(|scope| {
        for number in 0..32 {
            scope.spawn(move || good(&forebay(&["disk", config, "add", &format!("d{number}"), "64KiB"])));
            scope.spawn(move || good(&forebay(&["status", config, "--output", "json"])));
        }
    });
    let disks = good(&forebay(&["disk", config, "list"]));
    assert_eq!(disks.lines().filter(|line| line.starts_with('d')).count(), 33, "{disks}");
    assert_eq!(server.stop(), 0);
}

#[test]
fn what_cannot_be_a_block_device_is_said() {
    let scene = Scene::new().created();
    let config = scene.config();
    refused(&forebay(&["attach", config]), 2, &["no server answers", "forebay serve"]);
    let server = scene.serve();
    refused(&forebay(&["attach", config, "other"]), 2, &["there is no disk \"other\"; the pool has "]);
    refused(&forebay(&["detach", config]), 2, &["has no block device"]);
    good(&forebay(&["disk", "add", config, "bare", "4MiB"]));
    refused(&forebay(&["attach", config]), 2, &["say which disk", "bare"]);
    refused(&forebay(&["attach", "bare", config]), 2, &["is not exported: add an [[export]]", "SIGHUP"]);
    assert_eq!(server.stop(), 0);
}

#[test]
fn without_config_the_usual_file_is_meant() {
    let verbs = ["serve", "status", "verify", "disk list", "attach db", "scrub status", "config check", "create"];
    for verb in verbs.map(|verb| verb.split(' ').collect::<Vec<_>>()) {
        // A test machine may have a pool there: it is not formatted.
        if verb == ["create"] && std::path::Path::new("/etc/forebay/pool.toml").exists() {
            continue;
        }
        let output = forebay(&verb);
        assert!(code(&output) != 0 && err(&output).contains("/etc/forebay/pool.toml"), "{verb:?}: {}", err(&output));
    }
}

#[test]
fn a_size_that_does_not_fit_is_answered_with_the_largest_that_does() {
    let scene = Scene::new().created();
    let server = scene.serve();
    let output = forebay(&["disk", scene.config(), "add", "huge", "1TiB"]);
    refused(&output, 2, &["the largest size that does is "]);
    let text = err(&output);
    let size = text.split("does is ").nth(1).unwrap().split(' ').next().unwrap();
    good(&forebay(&["disk", scene.config(), "add", "largest", size]));
    assert_eq!(server.stop(), 0);
    let scene = Scene::new();
    scene.edit("size = \"64MiB\"", "size = \"1TiB\"");
    refused(&forebay(&["create", scene.config()]), 2, &["the largest size that does is "]);
}

#[test]
fn keys_and_units_of_other_tools_are_answered_with_ours() {
    let bench = |set: &str| forebay(&["bench", "--target", "null:?size=1GiB", "--set", set, "--set", "ios=10"]);
    for (set, ours) in [
        ("bs=4KiB", "`size`"),
        ("iodepth=4", "`depth`"),
        ("numjobs=2", "`threads`"),
        ("rwmixread=70", "`read_percent`"),
    ] {
        refused(&bench(set), 2, &[ours]);
    }
    refused(&bench("size=4k"), 2, &["4KiB", "4KB"]);
    refused(&forebay(&["bench", "--target", "null:?size=1GiB", "--runtime", "5"]), 2, &["--runtime", "5s"]);
}

#[test]
fn a_server_without_exports_serves_its_control_socket() {
    let scene = Scene::new();
    let text = std::fs::read_to_string(&scene.config).unwrap();
    let text = text.split("[[export]]").next().unwrap().to_owned();
    let control = scene.path("control");
    std::fs::write(
        &scene.config,
        format!("{text}\n[server]\ncontrol = \"{}\"\nsocket_mode = \"0660\"\n", control.display()),
    )
    .unwrap();
    let scene = scene.created();
    let mut child = Command::new(env!("CARGO_BIN_EXE_forebay"))
        .args(["serve", scene.config()])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("ready ") && line.contains("control"), "{line}");
    assert_eq!(control.metadata().unwrap().permissions().mode() & 0o777, 0o660);
    let status: Value = serde_json::from_str(&good(&forebay(&["status", scene.config(), "--output", "json"]))).unwrap();
    assert_eq!(status["exports"], serde_json::json!([]));
    assert!(status["devices"][0]["writes"]["requests"].is_u64(), "{status}");
    refused(&forebay(&["disk", scene.config(), "add", "x", "4MiB", "--export"]), 2, &["listens nowhere", "SIGHUP"]);
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::TERM).unwrap();
    assert!(child.wait().unwrap().success());
}

#[test]
fn the_mode_of_sockets_is_as_configured() {
    let scene = Scene::with("\n[server]\nsocket_mode = \"0666\"\n").created();
    let server = scene.serve();
    for socket in ["s", "s.control"] {
        assert_eq!(scene.path(socket).metadata().unwrap().permissions().mode() & 0o777, 0o666, "{socket}");
    }
    assert_eq!(server.stop(), 0);
    let wrong = Scene::with("\n[server]\nsocket_mode = \"0999\"\n");
    refused(&forebay(&["config", "check", wrong.config()]), 1, &["octal", "0660"]);
    let wrong = Scene::with("\n[server]\nsocket_group = \"no-such-group\"\n").created();
    refused(&forebay(&["serve", wrong.config()]), 2, &["socket_group", "no-such-group"]);
}

#[test]
fn convert_follows_the_extension_and_knows_plain_csv() {
    let directory = tempfile::TempDir::new().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("mine.csv"), "time_us,op,offset,size\n1,write,0,4096\n2.5,read,4096,512\n").unwrap();
    for (name, begins) in [
        ("t.parquet", &b"PAR1"[..]),
        ("t.log", b"fio version 3"),
        ("t.csv", b"time_ns,op,"),
        ("t.blktrace.0", b"\x07\x74\x61\x65"),
    ] {
        good(&forebay(&["convert", &path("mine.csv"), &path(name)]));
        let bytes = std::fs::read(path(name)).unwrap();
        assert!(bytes.starts_with(begins), "{name}: {:?}", &bytes[..16]);
        let again = good(&forebay(&["analyze", &path(name)]));
        assert!(!again.is_empty());
    }
    let text = std::fs::read_to_string(path("t.csv")).unwrap();
    assert!(text.contains("1500,read,4096,512"), "{text}");
}

#[test]
fn completions_and_manual_pages_come_from_the_same_source_as_help() {
    let script = good(&forebay(&["completions", "bash"]));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("forebay.bash");
    std::fs::write(&path, &script).unwrap();
    // bash(1): -n reads commands and does not execute them.
    assert!(Command::new("bash").arg("-n").arg(&path).status().unwrap().success());
    let json: Value = serde_json::from_str(&good(&forebay(&["completions", "bash", "--output", "json"]))).unwrap();
    assert_eq!(json["script"].as_str().unwrap(), script);
    let pages = folder.path().join("man");
    good(&forebay(&["man", pages.to_str().unwrap()]));
    for page in ["forebay.1", "forebay-serve.1", "forebay-bench.1", "forebay-disk-add.1"] {
        let text = std::fs::read_to_string(pages.join(page)).unwrap();
        assert!(text.contains(".TH") && text.contains("Example") || page == "forebay-disk-add.1", "{page}: {text}");
    }
    refused(&forebay(&["man", "/dev/null/man"]), 2, &["cannot make the folder /dev/null/man"]);
    refused(&forebay(&["completions", "cmd"]), 2, &["bash", "zsh", "fish"]);
}

/// Ctrl-C, the usual end of `top`, was reported as an error (130).
#[test]
fn regression_top_ends_well_by_ctrl_c() {
    let scene = Scene::new().created();
    let server = scene.serve();
    for signal in [rustix::process::Signal::INT, rustix::process::Signal::TERM] {
        let mut top = Command::new(env!("CARGO_BIN_EXE_forebay"))
            .args(["top", scene.config(), "--interval", "3600"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut out = BufReader::new(top.stdout.take().unwrap());
        out.read_line(&mut line).unwrap();
        rustix::process::kill_process(rustix::process::Pid::from_child(&top), signal).unwrap();
        std::io::Read::read_to_string(&mut out, &mut line).unwrap();
        assert_eq!(top.wait().unwrap().code(), Some(0), "{signal:?}: {line}");
    }
    assert_eq!(server.stop(), 0);
}

//! Findings of a sceptical external user, each test named after the expected behaviour.

use crate::support::*;
use forebay_device::nbd_client::{ClientOptions, NbdClient, NbdUri};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The number of MiB that an error gives after `memory.limit`.
fn limit_mib(error: &str) -> u64 {
    let behind = error.split_once("memory.limit to ").unwrap_or_else(|| panic!("{error}")).1;
    behind.split(' ').next().unwrap().parse().unwrap()
}

/// The limit that an error recommended was refused with the same error.
#[test]
fn regression_the_memory_limit_that_an_error_names_is_enough() {
    let scene = Scene::new().created();
    scene.edit("[pool]", "[pool]\novercommit = true");
    let server = scene.serve();
    let add = ["disk", scene.config(), "add", "huge", "2TiB"];
    let refusal = forebay(&add);
    refused(&refusal, 2, &["memory.limit"]);
    let named_mib = limit_mib(&err(&refusal));
    assert_eq!(server.stop(), 0);
    scene.edit("limit = \"64MiB\"", &format!("limit = \"{named_mib}MiB\""));
    let server = scene.serve();
    good(&forebay(&add));
    assert_eq!(server.stop(), 0);
    // The same at a start.
    scene.edit(&format!("limit = \"{named_mib}MiB\""), "limit = \"64MiB\"");
    let refusal = forebay(&["serve", scene.config()]);
    refused(&refusal, 2, &["memory.limit"]);
    assert_eq!(limit_mib(&err(&refusal)), named_mib);
}

/// When the reader of its log went away, the server ended at the next log line.
#[test]
fn a_log_that_nobody_reads_does_not_end_the_server() {
    let scene = Scene::new().created();
    let mut server = Command::new(env!("CARGO_BIN_EXE_forebay"))
        .args(["serve", scene.config()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut out = BufReader::new(server.stdout.take().unwrap());
    out.read_line(&mut line).unwrap();
    assert!(line.starts_with("ready "), "{line}");
    drop(server.stderr.take());
    let pid = Pid::from_child(&server);
    for _ in 0..3 {
        kill_process(pid, Signal::HUP).unwrap();
        good(&forebay(&["status", scene.config()]));
    }
    kill_process(pid, Signal::TERM).unwrap();
    assert_eq!(server.wait().unwrap().code(), Some(0));
}

/// Where stderr has no reader, results and exit code are unchanged.
#[test]
fn an_error_that_cannot_be_said_has_its_exit_code() {
    let scene = Scene::new();
    let full = || File::options().write(true).open("/dev/full").unwrap();
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
        command.args(arguments).stdout(Stdio::null()).stderr(full()).status().unwrap().code()
    };
    assert_eq!(run(&["status", scene.config()]), Some(2));
    assert_eq!(run(&["create", scene.config()]), Some(0));
    assert_eq!(run(&["create", scene.config()]), Some(2));
}

/// Lost results had exit code 0: with standard output closed, and help and schemas also with it full.
#[test]
fn regression_results_that_cannot_be_written_have_an_exit_code() {
    let program = env!("CARGO_BIN_EXE_forebay");
    for arguments in ["models", "models --output json", "--help", "--version", "bench --schema", "completions bash"] {
        for (to, why) in [(">&-", "it is closed"), ("> /dev/full", "No space left")] {
            let line = format!("{program} {arguments} {to}");
            let output = Command::new("sh").args(["-c", &line]).output().unwrap();
            refused(&output, 2, &["cannot write to standard output", why]);
        }
        // A reader that has read enough and closes the pipe causes no error.
        let line = format!("{{ {program} {arguments}; echo $? >&2; }} | true");
        let output = Command::new("sh").args(["-c", &line]).output().unwrap();
        assert_eq!(err(&output), "0\n", "{arguments}");
        let line = format!("{program} {arguments} > /dev/null");
        assert!(Command::new("sh").args(["-c", &line]).status().unwrap().success(), "{arguments}");
    }
}

/// A virtual machine's disk could be written through another export's socket.
#[test]
fn an_export_without_nbd_is_not_seen_by_clients_of_nbd() {
    let scene = Scene::new();
    let guest = format!(
        "\n[[disk]]\nname = \"vm\"\nsize = \"32MiB\"\n\n[[export]]\ndisk = \"vm\"\nvhost = \"unix:{}\"\n",
        scene.path("v").display()
    );
    let text = fs::read_to_string(&scene.config).unwrap() + &guest;
    fs::write(&scene.config, text).unwrap();
    let scene = scene.created();
    let server = scene.serve();
    let socket = scene.path("s");
    let connect = |name: &str| {
        let uri: NbdUri = format!("nbd+unix:///{name}?socket={}", socket.display()).parse().unwrap();
        NbdClient::connect(&uri.endpoint, &uri.export, &ClientOptions::default()).map(drop)
    };
    connect("db").unwrap();
    assert!(connect("vm").is_err());
    // The status shows the address of each export.
    let status = json(&["status", scene.config()]);
    let uri = |at: usize| status["exports"][at]["uri"].as_str().unwrap().to_owned();
    assert!(uri(0).starts_with("nbd+unix:///db?") && uri(1).starts_with("vhost+unix:///vm?"), "{status}");
    assert_eq!(server.stop(), 0);
}

/// Samples missed data in the middle of gigabytes.
#[test]
fn an_island_of_data_in_a_large_file_is_not_written_over() {
    let scene = Scene::new();
    let path = scene.path("island");
    let file = File::create(&path).unwrap();
    file.set_len(8 << 30).unwrap();
    file.write_all_at(&[9; 100], 3_000_000_123).unwrap();
    let name = path.to_str().unwrap();
    let bench = || forebay(&["bench", "--target", name, "--set", "rw=randwrite", "--runtime", "0.2s"]);
    refused(&bench(), 2, &["not zero at byte 3000000123", "--destroy-data"]);
    let capacity = format!("{}/capacity.img", scene.directory.path().display());
    scene.edit(&capacity, name);
    refused(&forebay(&["create", scene.config()]), 2, &["not zero at byte 3000000123"]);
}

/// Results were written over any existing file of the name.
#[test]
fn results_for_fio_are_written_over_nothing() {
    let scene = Scene::new();
    let (json, logs) = (scene.path("x.json"), scene.path("x"));
    let bench = |option: &str, path: &std::path::Path| {
        forebay(&["bench", "--target", "null:?size=1GiB", "--runtime", "0.1s", option, path.to_str().unwrap()])
    };
    good(&bench("--fio-json", &json));
    refused(&bench("--fio-json", &json), 2, &["x.json exists, and is never overwritten"]);
    good(&bench("--fio-logs", &logs));
    fs::remove_file(scene.path("x_bw.1.log")).unwrap();
    refused(&bench("--fio-logs", &logs), 2, &["x_iops.1.log exists, and is never overwritten"]);
}

/// A member that was enlarged counted as damaged for ever.
#[test]
fn a_member_that_has_grown_is_whole() {
    let scene = Scene::new().created();
    for name in ["fast.img", "capacity.img"] {
        let file = File::options().write(true).open(scene.path(name)).unwrap();
        let len = file.metadata().unwrap().len();
        file.set_len(2 * len).unwrap();
    }
    assert_eq!(scene.serve().stop(), 0);
    good(&forebay(&["verify", scene.config()]));
    for name in ["fast.img", "capacity.img"] {
        let text = good(&forebay(&["inspect", scene.path(name).to_str().unwrap()]));
        assert_eq!(text.matches(": good").count(), 3, "{text}");
    }
}

/// A scrub whose start was acknowledged was forgotten when the server was killed.
#[test]
fn a_scrub_that_has_begun_goes_on_after_a_crash() {
    let scene = Scene::with("\n[scrub]\nrate = \"64KiB\"\n").created();
    let server = scene.serve();
    let uri: NbdUri = server.uri.parse().unwrap();
    let mut client = NbdClient::connect(&uri.endpoint, &uri.export, &ClientOptions::default()).unwrap();
    let cookie = client.submit_write(0, &[3; 1 << 20], true).unwrap();
    client.wait_for(cookie).unwrap().result.unwrap();
    good(&forebay(&["scrub", scene.config(), "start"]));
    server.kill();
    let server = scene.serve();
    assert_eq!(json(&["scrub", scene.config(), "status"])["state"], "running");
    assert_eq!(server.stop(), 0);
}

/// A health check that closed its sending side after the request got no answer.
#[test]
fn who_asks_for_health_and_says_no_more_is_answered() {
    let scene = Scene::with("\n[metrics]\nlisten = \"127.0.0.1:0\"\n").created();
    let server = scene.serve();
    let address = json(&["status", scene.config()])["metrics"].as_str().unwrap().to_owned();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(b"GET /healthz HTTP/1.0\r\n\r\n").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains(" 200 OK\r\n") && answer.ends_with("\r\n\r\nok\n"), "{answer:?}");
    assert_eq!(server.stop(), 0);
}

/// Socket paths that no server could use passed the check.
#[test]
fn sockets_that_cannot_be_are_found_by_config_check() {
    let check = |from: &str, to: &str, parts: &[&str]| {
        let scene = Scene::new();
        scene.edit(from, to);
        refused(&forebay(&["config", "check", scene.config()]), 1, parts);
    };
    let long = "x".repeat(120);
    check("/s\"\n", &format!("/{long}\"\n"), &["longer path than the 107 bytes"]);
    check("[memory]", "[server]\nsocket_group = \"nobody-has-this\"\n[memory]", &["socket_group", "nobody-has-this"]);
    let scene = Scene::new();
    let socket = scene.path("s").display().to_string();
    scene.edit("[memory]", &format!("[server]\ncontrol = \"{socket}\"\n[memory]"));
    refused(&forebay(&["config", "check", scene.config()]), 1, &["is server.control and a socket of an [[export]]"]);
}

/// An unknown file extension produced a Parquet file.
#[test]
fn convert_asks_what_to_write_where_the_name_does_not_say() {
    let scene = Scene::new();
    let csv = scene.path("a.csv");
    good(&forebay(&["convert", "zipf:?writes=100", csv.to_str().unwrap()]));
    let convert = |name: &str| forebay(&["convert", csv.to_str().unwrap(), scene.path(name).to_str().unwrap()]);
    refused(&convert("out.foo"), 2, &["--to-format", ".parquet"]);
    refused(&convert("a.csv"), 2, &["a.csv exists, and is never overwritten"]);
    assert!(!scene.path("out.foo").exists());
}

/// A file called `-` was created, a limit of 0 reported an empty trace, and a parameter of `pool:` was taken as part of the file name.
#[test]
fn regression_what_is_meant_otherwise_is_refused_in_plain_words() {
    let scene = Scene::new();
    let csv = scene.path("a.csv");
    let (csv, out) = (csv.to_str().unwrap(), scene.path("b.csv"));
    good(&forebay(&["convert", "zipf:?writes=100", csv]));
    refused(&forebay(&["convert", csv, "-", "--to-format", "csv"]), 2, &["-: a trace is written to a file"]);
    refused(&forebay(&["convert", csv, out.to_str().unwrap(), "--limit", "0"]), 2, &["--limit 0: at least 1"]);
    let pool = format!("pool:{}?foo=1", scene.config());
    refused(&forebay(&["bench", "--target", &pool]), 2, &["has the parameter \"foo\"; known here: disk"]);
    assert!(!std::path::Path::new("-").exists() && !out.exists());
}

/// A missing file was named twice without advice, a part of a model was named instead of its size, and a number was reported as text.
#[test]
fn regression_what_is_not_there_or_too_small_or_too_large_is_answered_with_what_to_do() {
    let scene = Scene::new();
    let gone = scene.path("gone");
    let gone = gone.to_str().unwrap();
    let out = scene.path("b.csv");
    for words in [
        &["analyze", gone][..],
        &["size", gone],
        &["convert", gone, out.to_str().unwrap()],
        &["replay", gone, "--target", "null:?size=1GiB"],
        &["inspect", gone],
        &["report", gone, "-o", out.to_str().unwrap()],
    ] {
        let output = forebay(words);
        refused(&output, 2, &["there is no "]);
        let said = err(&output);
        let is_report = words[0] == "report";
        assert_eq!(said.matches(gone).count(), if is_report { 2 } else { 1 }, "{said}");
        assert!(said.contains("forebay ") || said.contains("configuration"), "{said}");
    }
    let bench = |words: &[&str]| forebay(&[&["bench", "--target"][..], words].concat());
    let small = bench(&["model:p4610?size=16MiB", "--runtime", "10ms"]);
    refused(&small, 2, &["size=16MiB is too small for the parts of p4610: give it at least size="]);
    assert!(!err(&small).contains("geometry"), "{}", err(&small));
    let large = bench(&["null:?size=1GiB", "--set", "ios=18446744073709551615"]);
    refused(&large, 2, &["--set ios: 18446744073709551615 is too large"]);
}

/// Each document spanned many lines, so that line readers could not parse it.
#[test]
fn regression_top_writes_a_document_a_line() {
    let scene = Scene::new().created();
    let server = scene.serve();
    let shown = good(&forebay(&["top", scene.config(), "--output", "json", "--count", "2", "--interval", "0.1"]));
    let documents = shown.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    assert_eq!(documents.filter(|document| document["tiers"].is_array()).count(), 2, "{shown}");
    assert_eq!(server.stop(), 0);
}

/// Where one of two capacity devices was missing, both were named.
#[test]
fn of_several_devices_only_the_missing_one_is_named() {
    let scene = Scene::new();
    let other = scene.path("other.img");
    File::create(&other).unwrap().set_len(256 << 20).unwrap();
    let section = format!("[[capacity]]\ntarget = \"{}\"\n\n[[disk]]", other.display());
    scene.edit("[[disk]]", &section);
    let scene = scene.created();
    let id = |name: &str| {
        let shown = json(&["inspect", scene.path(name).to_str().unwrap()]);
        shown["device"]["id"].as_str().unwrap_or_else(|| panic!("{shown}")).to_owned()
    };
    let (there, gone) = (id("capacity.img"), id("other.img"));
    fs::remove_file(&other).unwrap();
    let said = err(&forebay(&["serve", scene.config()]));
    assert!(said.contains(&gone) && !said.contains(&there), "{there} {gone}: {said}");
}

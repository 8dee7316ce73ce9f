//! Several hosts: a stand-in for ssh that runs the command locally, host failures, and a real sshd.

use super::schema::differences;
use super::*;

/// A stand-in for ssh: skips options and treats the rest of the command as the host's name says.
const STAND_IN: &str = r#"#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
host=$1
shift
echo $$ >> "$(dirname "$0")/$host.pids"
follow() { sh -c "exec $*" <&3 & }
exec 3<&0
case $host in
older) sh -c "$*" | sed -u 's/"version":"[^"]*"/"version":"0.0.0-old"/' ;;
dies)
    follow "$@"
    while [ ! -e "$(dirname "$0")/now" ]; do sleep 0.05; done
    kill -KILL $! ;;
hangs)
    follow "$@"
    while [ ! -e "$(dirname "$0")/now" ]; do sleep 0.05; done
    echo $! >> "$(dirname "$0")/$host.pids"
    kill -STOP $!
    wait ;;
welcomes) echo "Welcome to $host"; exec sh -c "$*" ;;
talks) yes '{"pong":{"number":0,"run_ns":0,"unix_ns":0}}' ;;
wrong) yes '"accepted"' ;;
endless) yes | tr -d '\n' ;;
silent) exec sleep 100 ;;
nobody) echo "ssh: connect to host nobody port 22: Connection refused" >&2; exit 255 ;;
*) exec sh -c "$*" ;;
esac
"#;

/// A place with the stand-in.
struct Hosts(Place);

impl Hosts {
    fn new() -> Self {
        use std::os::unix::fs::PermissionsExt;
        let place = Place::new();
        let ssh = place.write("ssh", STAND_IN);
        std::fs::set_permissions(&ssh, std::fs::Permissions::from_mode(0o755)).unwrap();
        Self(place)
    }

    fn arguments(&self, more: &[&str]) -> Vec<String> {
        let ssh = self.0.text("ssh");
        let program = env!("CARGO_BIN_EXE_forebay");
        let head = ["bench", "--output", "json", "--ssh", &ssh, "--host-program", program];
        head.iter().chain(more).map(|&word| word.to_owned()).collect()
    }

    fn bench(&self, more: &[&str]) -> Output {
        let arguments = self.arguments(more);
        forebay(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
    }

    fn start(&self, more: &[&str]) -> Running {
        let arguments = self.arguments(more);
        Running::start(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// Process ids that the stand-in has recorded.
    fn pids(&self, host: &str) -> Vec<u32> {
        let text = std::fs::read_to_string(self.0.path(&format!("{host}.pids"))).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    }
}

/// Whether a process exists and is not a zombie; it may be stopped.
fn lives(pid: u32) -> bool {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The state follows the name, which may contain anything but a line feed.
    text.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

#[track_caller]
fn has_schema(result: &Value) {
    let schema = json(&good(&forebay(&["bench", "--schema"])));
    let mut found = Vec::new();
    differences(&schema, &schema, result, "$", &mut found);
    assert!(found.is_empty(), "{found:#?}");
}

/// A copy of the target in memory, where files there take O_DIRECT (tmpfs since Linux 6.6): a rate is not kept on a disk that stands still for seconds.
fn in_memory(place: &Place) -> (Option<TempDir>, String) {
    use std::os::unix::fs::OpenOptionsExt;
    let copied = TempDir::new_in("/dev/shm").ok().and_then(|folder| {
        let file = folder.path().join("target.img");
        std::fs::copy(place.target(), &file).ok()?;
        let flags = rustix::fs::OFlags::DIRECT.bits().cast_signed();
        std::fs::OpenOptions::new().read(true).custom_flags(flags).open(&file).ok()?;
        Some((file.to_str()?.to_owned(), folder))
    });
    match copied {
        Some((file, folder)) => (Some(folder), file),
        None => (None, place.target()),
    }
}

#[test]
fn hosts_run_at_the_same_time_and_are_added_up() {
    let hosts = Hosts::new();
    let (_memory, file) = in_memory(&hosts.0);
    let fio = hosts.0.text("fio.json");
    let jobs = hosts.0.write(
        "jobs.toml",
        "[defaults]\nruntime = \"1s\"\nwarmup = \"0s\"\nrate = 500\ndepth = 64\n[[job]]\nname = \"a\"\nthreads = 2\n[[job]]\nname = \"b\"\nrw = \"randrw\"\nafter = \"a\"\n",
    );
    let own = format!("one={file}");
    let result = json(&good(&hosts.bench(&[
        &jobs,
        "--host",
        &own,
        "--host",
        "me@two",
        "--target",
        RAM,
        "--destroy-data",
        "--fio-json",
        &fio,
    ])));
    has_schema(&result);
    let jobs = jobs_of(&result);
    let names: Vec<_> =
        jobs.iter().map(|job| (job["name"].as_str().unwrap(), job["target"]["name"].as_str().unwrap())).collect();
    let (one, two) = (format!("one:{file}"), format!("me@two:{RAM}"));
    assert_eq!(names, [("a", one.as_str()), ("a", two.as_str()), ("b", one.as_str()), ("b", two.as_str())]);
    let together = result["together"].as_array().unwrap();
    let scheduled = |job: &Value| job["open_loop"]["scheduled"].as_u64().unwrap();
    let ios = |job: &Value| job["ios"].as_u64().unwrap();
    for (all, each) in together.iter().zip(jobs.chunks(2)) {
        // 500 I/Os a second on each host, whatever the machine's load.
        assert_eq!((scheduled(&each[0]), scheduled(&each[1]), scheduled(all)), (500, 500, 1000));
        assert_eq!(ios(all), ios(&each[0]) + ios(&each[1]));
        let samples = |job: &Value| latency(job)["samples"].as_u64().unwrap();
        assert_eq!(samples(all), samples(&each[0]) + samples(&each[1]));
        let greatest = |job: &Value| latency(job)["max"].as_u64().unwrap();
        assert_eq!(greatest(all), greatest(&each[0]).max(greatest(&each[1])));
        assert!(all["all_ran"]["duration_s"].as_f64().unwrap() > 0.5, "{}", all["all_ran"]);
        assert_eq!(all["littles_law"]["verdict"], "holds", "{}", all["littles_law"]);
    }
    for host in result["hosts"].as_array().unwrap() {
        let clock = &host["clock"];
        // Both sides use the same clock, so the offset is zero within its bound.
        let (ahead, bound) = (clock["ahead_s"].as_f64().unwrap(), clock["bound_s"].as_f64().unwrap());
        assert!(ahead.abs() <= bound + 0.001 && clock["round_trips"].as_u64().unwrap() >= 16, "{clock}");
        assert!(host["failure"].is_null() && clock["drift_ppm"].is_number(), "{host}");
    }
    assert_eq!(result["targets"][1]["name"], two);
    let fio: Value = json(&std::fs::read_to_string(&fio).unwrap());
    assert_eq!((fio["jobs"].as_array().unwrap().len(), &fio["jobs"][0]["read"]["total_ios"]), (2, &together[0]["ios"]));
    let (file, page) = (hosts.0.write("result.json", &result.to_string()), hosts.0.text("page.html"));
    good(&forebay(&["report", &file, "-o", &page]));
    let page = std::fs::read_to_string(&page).unwrap();
    for part in ["Hosts and their clocks", "me@two", "b on all targets"] {
        assert!(page.contains(part), "{part}");
    }
    let pids = ["one", "me@two"].iter().flat_map(|host| hosts.pids(host)).collect::<Vec<_>>();
    assert!(pids.len() == 2 && !pids.iter().any(|&pid| lives(pid)), "{pids:?}");
}

#[test]
fn the_table_names_hosts_and_one_host_has_nothing_together() {
    let hosts = Hosts::new();
    let (ssh, program) = (hosts.0.text("ssh"), env!("CARGO_BIN_EXE_forebay"));
    let short = ["--ssh", &ssh, "--host-program", program, "--runtime", "200ms", "--warmup", "0s"];
    let table = good(&forebay(&[&["bench", "--host", "one", "--host", "two", "--target", NULL], &short[..]].concat()));
    for part in [
        "on one:null:?size=1GiB",
        "on all 2 hosts together",
        "all ran for the first",
        "clock ahead (ms)",
        "drift (ppm)",
    ] {
        assert!(table.contains(part), "{part}: {table}");
    }
    let result =
        json(&good(&hosts.bench(&["--host", "one", "--target", NULL, "--runtime", "200ms", "--warmup", "0s"])));
    has_schema(&result);
    assert!(result["together"].is_null() && result["hosts"].as_array().unwrap().len() == 1);
    assert!(result["jobs"][0]["own_cost_ns_per_io"].as_f64().unwrap() > 0.0);
}

#[test]
fn rules_about_data_hold_on_each_host() {
    let hosts = Hosts::new();
    let file = hosts.0.target();
    let before = std::fs::read(&file).unwrap();
    let own = format!("two={file}");
    let writes = ["--host", "one=ram:?size=1MiB", "--host", &own, "--set", "rw=randwrite", "--runtime", "200ms"];
    refused(&hosts.bench(&writes), 2, &["host two", "target.img", "--destroy-data"]);
    assert!(std::fs::read(&file).unwrap() == before, "it was written to");
    good(&hosts.bench(&[&writes[..], &["--destroy-data", "--warmup", "0s"]].concat()));
    assert!(std::fs::read(&file).unwrap() != before);
}

#[test]
fn hosts_that_are_none_are_refused_by_name() {
    let hosts = Hosts::new();
    let refuse = |host: &str, parts: &[&str]| {
        let begun = Instant::now();
        let named = format!("host {host}");
        let all: Vec<&str> = parts.iter().copied().chain([named.as_str()]).collect();
        refused(&hosts.bench(&["--host", "one", "--host", host, "--target", NULL, "--runtime", "20s"]), 2, &all);
        assert!(begun.elapsed() < TIMEOUT, "{host}: {:?}", begun.elapsed());
    };
    refuse("older", &["0.0.0-old", env!("CARGO_PKG_VERSION"), "install the same"]);
    refuse("nobody", &["Connection refused", "by hand, `", "HOST", "--version` must print"]);
    refuse("welcomes", &["nothing that forebay says", "Welcome to welcomes"]);
    refuse("endless", &["a line of more than"]);
    refuse("talks", &["an answer to what nobody asked"]);
    refuse("wrong", &["something else"]);
    refuse("silent", &["it has said nothing for"]);
    let none = ["--host", "one", "--target", NULL];
    let output = forebay(&[&["bench", "--ssh", "/nowhere/ssh"], &none[..]].concat());
    refused(&output, 2, &["host one", "cannot start /nowhere/ssh", "by --ssh"]);
    let (ssh, program) = (hosts.0.text("ssh"), "/nowhere/forebay");
    let output = forebay(&[&["bench", "--ssh", &ssh, "--host-program", program], &none[..]].concat());
    refused(&output, 2, &["host one", "/nowhere/forebay"]);
}

#[test]
fn what_cannot_run_on_hosts_is_refused_beforehand() {
    let hosts = Hosts::new();
    let refuse = |more: &[&str], parts: &[&str]| refused(&hosts.bench(more), 2, parts);
    refuse(&["--host", "one"], &["--target URI"]);
    refuse(&["--host=-oProxyCommand=x"], &["as ssh takes it"]);
    refuse(&["--host", "one", "--target", MODEL, "--runtime", "100ms"], &["host one", "virtual time", "emulated:"]);
    let two = ["--host", "one", "--host", "two", "--target", RAM];
    for (more, what) in [
        // The refusal of one host said that it takes one host.
        (&["qd-sweep"][..], "an experiment does not go with --host"),
        (&["--against", RAM], "--against does not go with --host"),
        (&["--condition", "purge"], "--condition does not go with --host"),
        (&["--records", "x.fbrec"], "--records does not go with --host"),
        (&["ycsb"], "a generator fits"),
        (&["--set", "steadystate=iops:5%", "--set", "steadystate_duration=5s"], "steadystate is judged"),
    ] {
        refuse(&[more, &two].concat(), &[what]);
    }
    refused(&forebay(&["bench", "--target", RAM, "--ssh", "ssh"]), 2, &["--host"]);
    let pids = ["one", "two"].iter().flat_map(|host| hosts.pids(host)).filter(|&pid| lives(pid)).collect::<Vec<_>>();
    assert!(pids.is_empty(), "{pids:?}");
}

/// A run that continues until a host is lost, which happens at `now`.
const LONG: [&str; 10] =
    ["--target", NULL, "--set", "rate=1000", "--set", "depth=64", "--warmup", "0s", "--runtime", "300s"];

/// The output of a run that loses `host`; the file that the stand-in waits for is created while it runs.
fn losing(hosts: &Hosts, host: &str) -> Output {
    let running = hosts.start(&[&["--host", "one", "--host", host], &LONG[..]].concat());
    wait_until("its host", || !hosts.pids(host).is_empty());
    // The host must have produced some results.
    std::thread::sleep(Duration::from_secs(6));
    hosts.0.write("now", "");
    ended(running, 2 * TIMEOUT)
}

/// The output of a run that must end; it may exceed a pipe's buffer.
fn ended(running: Running, limit: Duration) -> Output {
    running.end_within(limit)
}

fn is_known_in_part(hosts: &Hosts, output: &Output, host: &str) {
    assert_eq!(code(output), 2, "{}", err(output));
    let result = json(&out(output));
    has_schema(&result);
    assert!(err(output).contains(&format!("host {host}")), "{}", err(output));
    assert!(
        result["hosts"][1]["failure"].is_string() && result["hosts"][0]["failure"].is_null(),
        "{}",
        result["hosts"]
    );
    let jobs = jobs_of(&result);
    assert_eq!((&jobs[0]["partial"], &jobs[1]["partial"]), (&"interrupted".into(), &"a host was lost".into()));
    assert_eq!(result["together"][0]["partial"], "a host was lost");
    assert!(jobs.iter().all(|job| job["ios"].as_u64().unwrap() > 0), "{}", err(output));
    assert!(jobs[1]["duration_s"].as_f64().unwrap() < 60.0);
    let pids: Vec<u32> = ["one", host].iter().flat_map(|host| hosts.pids(host)).filter(|&pid| lives(pid)).collect();
    assert!(pids.is_empty(), "{pids:?}");
}

#[test]
fn a_host_that_is_killed_ends_the_others_with_what_is_known() {
    let hosts = Hosts::new();
    is_known_in_part(&hosts, &losing(&hosts, "dies"), "dies");
}

#[test]
fn a_host_that_hangs_ends_the_others_with_what_is_known() {
    let hosts = Hosts::new();
    is_known_in_part(&hosts, &losing(&hosts, "hangs"), "hangs");
}

#[test]
fn the_user_ends_a_run_on_hosts_with_what_is_known() {
    let hosts = Hosts::new();
    let running = hosts.start(&[&["--host", "one", "--host", "two"], &LONG[..]].concat());
    wait_until("a host", || !hosts.pids("two").is_empty());
    std::thread::sleep(Duration::from_secs(6));
    running.signal(rustix::process::Signal::INT);
    let output = ended(running, TIMEOUT);
    let result = json(&good(&output));
    has_schema(&result);
    for job in jobs_of(&result) {
        assert_eq!(job["partial"], "interrupted");
        assert!(job["ios"].as_u64().unwrap() > 0, "{}", err(&output));
    }
}

#[test]
fn no_host_outlives_its_coordinator() {
    let hosts = Hosts::new();
    let mut running = hosts.start(&[&["--host", "one", "--host", "two"], &LONG[..]].concat());
    wait_until("two hosts", || !hosts.pids("one").is_empty() && !hosts.pids("two").is_empty());
    std::thread::sleep(Duration::from_secs(3));
    running.0.kill().unwrap();
    running.0.wait().unwrap();
    let pids: Vec<u32> = ["one", "two"].iter().flat_map(|host| hosts.pids(host)).collect();
    wait_until("the end of hosts", || !pids.iter().any(|&pid| lives(pid)));
}

/// An sshd of this user on its own port.
struct Sshd(Child);

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Sshd {
    /// Starts the sshd; returns the ssh options for connecting.
    fn start(place: &Place) -> (Self, String) {
        for key in ["host_key", "user_key"] {
            let path = place.text(key);
            let made = Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f", &path]).output();
            assert!(made.expect("ssh-keygen (Debian: openssh-client)").status.success());
        }
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let config = place.write(
            "sshd_config",
            &format!(
                "ListenAddress 127.0.0.1\nPort {port}\nHostKey {0}/host_key\nAuthorizedKeysFile {0}/user_key.pub\nStrictModes no\n\
                 PidFile none\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin yes\n",
                place.directory.path().display()
            ),
        );
        if rustix::process::geteuid().is_root() {
            // As root, sshd needs this directory, which systemd would have created.
            std::fs::create_dir_all("/run/sshd").unwrap();
        }
        let log = std::fs::File::create(place.path("sshd.log")).unwrap();
        let sshd = Command::new("/usr/sbin/sshd").args(["-D", "-e", "-f", &config]).stderr(log).spawn();
        let sshd = Self(sshd.expect("sshd (Debian: openssh-server)"));
        wait_until("sshd", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
        let known = place.text("known_hosts");
        let ssh = format!(
            "ssh -F none -p {port} -i {} -o BatchMode=yes -o IdentitiesOnly=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile={known}",
            place.text("user_key")
        );
        (sshd, ssh)
    }
}

#[test]
fn a_real_sshd_leads_to_a_host() {
    let place = Place::new();
    let (_sshd, ssh) = Sshd::start(&place);
    let program = env!("CARGO_BIN_EXE_forebay");
    let target = format!("127.0.0.1={}", place.target());
    let arguments = [
        "bench",
        "--output",
        "json",
        "--ssh",
        &ssh,
        "--host-program",
        program,
        "--host",
        &target,
        "--host",
        "localhost=ram:?size=64MiB",
        "--set",
        "rate=500",
        "--set",
        "depth=64",
        "--runtime",
        "1s",
        "--warmup",
        "0s",
    ];
    let output = forebay(&arguments);
    let log = || std::fs::read_to_string(place.path("sshd.log")).unwrap_or_default();
    assert_eq!(code(&output), 0, "{}\n{}", err(&output), log());
    let result = json(&out(&output));
    has_schema(&result);
    assert_eq!(result["together"][0]["open_loop"]["scheduled"], 1000);
    assert!(result["hosts"][0]["clock"]["bound_s"].as_f64().unwrap() > 0.0);
    // A killed coordinator leaves no process on the host: the connection closes, and with it the host's input.
    let long = [&arguments[..], &["--set", "ios=100000000"]].concat();
    let long: Vec<&str> = long.iter().map(|&word| if word == "1s" { "300s" } else { word }).collect();
    let mut running = Running::start(&long);
    let followers = || -> Vec<u32> {
        let all =
            std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
        let of_sshd = |pid: &u32| {
            let words = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            let words = String::from_utf8_lossy(&words).into_owned();
            let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let port = ssh.split(' ').nth(4).unwrap();
            String::from_utf8_lossy(&command).starts_with(program) && words.contains(&format!("127.0.0.1 {port}"))
        };
        all.filter(of_sshd).collect()
    };
    wait_until("two followers", || followers().len() == 2);
    running.0.kill().unwrap();
    running.0.wait().unwrap();
    wait_until("the end of followers", || followers().is_empty());
}

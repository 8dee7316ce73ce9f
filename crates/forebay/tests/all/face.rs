//! Output and refusals of the command line without a server: exit codes, help, configuration errors, create, inspect.

use crate::support::*;
use std::os::unix::fs::FileExt;

#[test]
fn every_verb_has_help_with_an_example() {
    for verb in command_lines() {
        let arguments: Vec<_> = verb.iter().map(String::as_str).chain(["--help"]).collect();
        let text = good(&forebay(&arguments));
        // The page is this one's, not that of the verb above it.
        let has_words = |line: &str| verb.iter().all(|word| line.split(' ').any(|one| one == word));
        assert!(text.lines().any(|line| line.starts_with("Usage: forebay ") && has_words(line)), "{verb:?}: {text}");
        let examples = text.split("\nExample:\n").nth(1).unwrap_or_default();
        assert!(examples.lines().any(|line| line.contains("forebay ") && has_words(line)), "{verb:?}: {text}");
    }
}

/// `help --help` was an unknown subcommand.
#[test]
fn regression_help_has_help() {
    let text = good(&forebay(&["help", "help"]));
    for arguments in [&["help", "--help"][..], &["help", "-h"], &["--output", "json", "help", "--help"]] {
        assert_eq!(good(&forebay(arguments)), text);
    }
    let text = good(&forebay(&["help", "serve"]));
    assert_eq!(good(&forebay(&["serve", "--help"])), text);
    assert_eq!(good(&forebay(&["help", "serve", "--help"])), text);
    assert_eq!(good(&forebay(&["config", "help", "--help"])), good(&forebay(&["config", "help", "help"])));
    refused(&forebay(&["help", "sevre"]), 2, &["sevre"]);
}

/// The ways to open a pool exclude each other; the configuration is not even looked at.
#[test]
fn a_pool_is_served_in_one_way() {
    let ways = ["--salvage", "--without-fast", "--degraded", "--accept-loss", "--drop-members"];
    for (at, one) in ways.iter().enumerate() {
        for other in &ways[at + 1..] {
            refused(&forebay(&["serve", "/nonexistent.toml", one, other]), 2, &[one, other, "cannot be used with"]);
            refused(&forebay(&["serve", other, one, "--wait", "1"]), 2, &[one, other, "cannot be used with"]);
        }
        refused(&forebay(&["serve", one, one]), 2, &[one, "multiple times"]);
        let alone = forebay(&["serve", "/nonexistent.toml", one, "--wait", "1", "--output", "json"]);
        refused(&alone, 2, &["cannot read the configuration"]);
    }
}

#[test]
fn wrong_usage_is_2_and_help_is_0() {
    assert_eq!(code(&forebay(&["--help"])), 0);
    assert_eq!(code(&forebay(&["--version"])), 0);
    refused(&forebay(&["crate", "x.toml"]), 2, &["create"]);
    refused(&forebay(&[]), 2, &["Usage"]);
    refused(&forebay(&["status", "x.toml", "--output", "yaml"]), 2, &["json"]);
}

/// What is not known was a part of a path, megabits were megabytes, and a redundancy had zeros before it.
#[test]
fn regression_slips_in_values_are_refused_by_what_is_right() {
    for (from, to, parts) in [
        ("fast.img\"", "fast.img?sed=1\"", &["fast.img?sed=1", "the parameter \"sed\"", "known here: seed"][..]),
        ("64MiB", "64Mb", &["pool.toml:13:8", "would be Mbit", "64MiB"]),
        ("name = \"test\"", "name = \"test\"\nredundancy = \"02+1\"", &["pool.toml:3:14", "\"02+1\"", "\"2+1\""]),
    ] {
        let scene = Scene::new();
        scene.edit("target = \"", "target = \"volatile:");
        scene.edit(from, to);
        refused(&forebay(&["config", "check", scene.config()]), 1, parts);
    }
}

/// A rule of 200 kB was repeated as a whole.
#[test]
fn regression_an_error_repeats_no_page_of_what_was_written() {
    let class = |rule: &str| format!("\n[[class]]\nname = \"x\"\nplace = \"stage\"\nmatch = [\"{rule}\"]\n");
    let scene = Scene::with(&class(&"a".repeat(200_000)));
    for more in [&[][..], &["--output", "json"]] {
        let output = forebay(&[&["config", "check", scene.config()][..], more].concat());
        let said = err(&output) + &out(&output);
        assert_eq!(code(&output), 1);
        assert!(said.contains("class `x`") && said.contains("longer than 1024 bytes"), "{said:.2000}");
        assert!(said.contains("(200000 characters)") && said.len() < 3000, "{} bytes", said.len());
    }
}

#[test]
fn a_configuration_error_says_where_and_what_instead() {
    let scene = Scene::new();
    let text = good(&forebay(&["config", "check", scene.config()]));
    assert!(text.contains("good"), "{text}");
    for (from, to, parts) in [
        ("name = \"db\"", "nmae = \"db\"", &["pool.toml:12:1", "`nmae`", "`name`"][..]),
        ("[[capacity]]", "[[capcity]]", &["pool.toml:7:", "`capcity`", "`capacity`"]),
        ("64MiB", "64 bananas", &["pool.toml:13:8", "bananas", "MiB"]),
        ("band = \"4MiB\"", "band = \"5000\"", &["capacity.band", "4KiB"]),
        ("disk = \"db\"", "disk = \"bd\"", &["\"bd\"", "`db`"]),
        ("unix:", "unx:", &["unix:/path/to/socket"]),
        ("limit = \"64MiB\"", "limit = \"1MiB\"", &["memory.limit", "48MiB"]),
        (
            "[[fast]]\ntarget = \"",
            "[[fast]]\ntarget = \"emulated:p4800y?size=64MiB&store=",
            &["no model \"p4800y\"", "p4800x", "p4510"],
        ),
    ] {
        let scene = Scene::new();
        scene.edit(from, to);
        for verb in [&["config", "check"][..], &["create"], &["serve"], &["status"], &["verify"]] {
            let mut arguments = verb.to_vec();
            arguments.push(scene.config());
            // For the check this is its finding, for the other verbs the reason why they cannot continue.
            let expected_code = if verb[0] == "config" { 1 } else { 2 };
            refused(&forebay(&arguments), expected_code, parts);
        }
    }
    refused(&forebay(&["config", "check", "/nonexistent.toml"]), 2, &["/nonexistent.toml"]);
    let text = std::fs::read(scene.config()).unwrap();
    std::fs::write(scene.config(), [&text[..], b"# caf\xe9\n"].concat()).unwrap();
    let place =
        format!("pool.toml:{}: byte {} ", text.iter().filter(|&&byte| byte == b'\n').count() + 1, text.len() + 5);
    refused(&forebay(&["config", "check", scene.config()]), 2, &[&place, "no UTF-8"]);
}

/// The check passed, but `create` or `serve` refused the same file without opening a device.
#[test]
fn regression_config_check_refuses_what_no_pool_can_be_made_over() {
    for target in ["nbd+unix:///db?socket=/s", "nbd://127.0.0.1:10809/x"] {
        for image in ["fast.img", "capacity.img"] {
            let scene = Scene::new();
            let path = scene.path(image);
            scene.edit(path.to_str().unwrap(), target);
            let parts = [target, "can only be measured", "attach the export as a block device"];
            refused(&forebay(&["config", "check", scene.config()]), 1, &parts);
        }
    }
    let capacities = |count: usize| -> String {
        (0..count).map(|at| format!("[[capacity]]\ntarget = \"/nonexistent/c{at}\"\n")).collect()
    };
    // The scene already has one.
    good(&forebay(&["config", "check", Scene::with(&capacities(30)).config()]));
    let parts = ["32 [[capacity]] sections", "31 is the most"];
    refused(&forebay(&["config", "check", Scene::with(&capacities(31)).config()]), 1, &parts);
}

/// A wrong device path led to advice about the URI of an NBD export, over which no pool can be made; and for a model, about attaching an
/// export.
#[test]
fn regression_what_is_no_device_of_a_pool_is_answered_with_what_is() {
    let check = |target: &str| {
        let scene = Scene::new();
        scene.edit(scene.path("fast.img").to_str().unwrap(), target);
        let output = forebay(&["config", "check", scene.config()]);
        assert_eq!(code(&output), 1, "{target}");
        err(&output)
    };
    for (target, part) in
        [("foo:x", "unknown kind of device \"foo\""), ("", "a device is missing"), ("nbd:x", "attach the export")]
    {
        let text = check(target);
        assert!(text.contains(part) && text.contains("pool.toml:5:10"), "{text}");
        assert!(!text.contains("nbd+unix") && !text.contains("nbd://"), "{text}");
    }
    let model = check("volatile:model:p4800x");
    assert!(model.contains("emulated:NAME") && !model.contains("export"), "{model}");
    let scene = Scene::new();
    scene.edit("size = \"64MiB\"", "size = \"64MiB\"\nbase = \"model:p4800x\"");
    refused(
        &forebay(&["config", "check", scene.config()]),
        1,
        &["base", "model:p4800x", "cannot be the base of a disk", "emulated:NAME"],
    );
}

/// Standard output was empty, and the finding was only on stderr.
#[test]
fn regression_a_finding_of_config_check_is_a_document() {
    let scene = Scene::new();
    scene.edit("name = \"db\"", "nmae = \"db\"");
    let output = forebay(&["config", "check", scene.config(), "--output", "json"]);
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((code(&output), &found["schema_version"]), (1, &1.into()));
    assert_eq!((&found["good"], &found["config"]), (&false.into(), &scene.config().into()), "{found}");
    assert!(found["finding"].as_str().unwrap().contains("pool.toml:12:1: unknown key `nmae`"), "{found}");
    let scene = Scene::new();
    let found: serde_json::Value =
        serde_json::from_str(&good(&forebay(&["config", "check", scene.config(), "--output", "json"]))).unwrap();
    assert_eq!((&found["good"], &found["finding"]), (&true.into(), &serde_json::Value::Null));
    // A file that cannot be read was not checked.
    for path in [scene.directory.path().to_str().unwrap(), "/nonexistent.toml"] {
        for arguments in [&["config", "check", path][..], &["config", "check", path, "--output", "json"]] {
            refused(&forebay(arguments), 2, &[path]);
            assert_eq!(out(&forebay(arguments)), "");
        }
    }
}

/// They waited for ever for a writer of the pipe, silently.
#[test]
fn regression_a_named_pipe_is_refused_at_once() {
    let directory = tempfile::TempDir::new().unwrap();
    let path = directory.path().join("pipe");
    let path = path.to_str().unwrap();
    assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
    let to = directory.path().join("x.parquet");
    for arguments in [
        &["config", "check", path][..],
        &["create", path],
        &["analyze", path],
        &["analyze", path, "--format", "record"],
        &["analyze", path, "--format", "blktrace"],
        &["size", path],
        &["convert", path, to.to_str().unwrap()],
        &["report", path],
        &["bench", "qd-sweep", "--target", "model:p4800x", "--read-percent", "100", "--application", path],
        &["bench", "--target", "null:?size=1GiB", "--set", &format!("trace={{file={path:?}}}")],
    ] {
        let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_forebay"))
            .args(arguments)
            .env("COLUMNS", "400")
            .stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let begun = std::time::Instant::now();
        while child.try_wait().unwrap().is_none() && begun.elapsed() < std::time::Duration::from_secs(20) {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        if child.try_wait().unwrap().is_none() {
            child.kill().unwrap();
            panic!("{arguments:?} waits");
        }
        let output = child.wait_with_output().unwrap();
        assert_eq!(code(&output), 2, "{arguments:?}: {}", err(&output));
        assert!(err(&output).contains("named pipe"), "{arguments:?}: {}", err(&output));
    }
}

#[test]
fn a_pipe_that_was_meant_is_read() {
    let script =
        "printf 'time_us,op,offset,size\\n1,write,0,4096\\n' | \"$0\" analyze /dev/stdin --format csv --output json";
    let output = std::process::Command::new("sh").args(["-c", script, env!("CARGO_BIN_EXE_forebay")]).output().unwrap();
    let found: serde_json::Value = serde_json::from_str(&good(&output)).unwrap();
    assert_eq!(found["report"]["block_accesses"], 1, "{found}");
    let scene = Scene::new();
    let script =
        format!("\"$0\" config check /dev/stdin < {0}; cat {0} | \"$0\" config check /dev/stdin", scene.config());
    let output =
        std::process::Command::new("sh").args(["-c", &script, env!("CARGO_BIN_EXE_forebay")]).output().unwrap();
    assert_eq!(good(&output).matches("good").count(), 2, "{}", err(&output));
}

#[test]
fn a_class_of_one_export_says_nothing_of_another_disks_evidence() {
    let more = "[[disk]]\nname = \"wal\"\nsize = \"16MiB\"\n[[export]]\ndisk = \"wal\"\nclass = \"temp\"\nnbd = \"unix:/x\"\n\
                [[evidence]]\ndisk = \"db\"\ndevice = \"/dev/nbd0\"\n";
    good(&forebay(&["config", "check", Scene::with(more).config()]));
}

#[test]
fn what_cannot_work_is_refused_before_a_device_is_touched() {
    for (more, parts) in [
        (
            "[[fast]]\ntarget = \"/x\"\n[[fast]]\ntarget = \"/y\"\n[[fast]]\ntarget = \"/z\"\n",
            &["4 [[fast]] sections", "3 is the most"][..],
        ),
        ("[[export]]\nnbd = \"tcp:0.0.0.0:10809\"\n", &["can be reached by others", "allow_remote", "[tls]"]),
        // What `allow_remote` alone meant before TLS is answered with both alternatives.
        (
            "[[export]]\nnbd = \"tcp:0.0.0.0:10809\"\n[server]\nallow_remote = true\n",
            &["tcp:0.0.0.0:10809", "[tls]", "allow_remote_without_tls"],
        ),
        (
            "[[export]]\nname = \"db\"\nnbd = \"tcp:127.0.0.1:1\"\ntls = \"optional\"\n[[export]]\nname = \"x\"\n\
             nbd = \"tcp:[::]:2\"\n[server]\nallow_remote = true\n[tls]\npsk_file = \"/k\"\n",
            &["two exports are named \"db\""],
        ),
        (
            "[[export]]\nname = \"y\"\nnbd = \"tcp:127.0.0.1:1\"\ntls = \"optional\"\n[[export]]\nname = \"x\"\n\
             nbd = \"tcp:[::]:2\"\n[server]\nallow_remote = true\n[tls]\npsk_file = \"/k\"\n",
            &["\"y\"", "optional", "tcp:[::]:2"],
        ),
        ("[[export]]\nname = \"x\"\nnbd = \"unix:/x\"\nallow = [\"a\"]\n", &["unix:/x", "no [tls] section"]),
        (
            "[[export]]\nname = \"x\"\nnbd = \"unix:/x\"\nallow = [\"a\"]\ntls = \"network\"\n[tls]\npsk_file = \"/k\"\n",
            &["only in TLS", "\"required\""],
        ),
        ("[[export]]\nname = \"x\"\nnbd = \"unix:/x\"\nallow = []\n[tls]\npsk_file = \"/k\"\n", &["0 names"]),
        ("[tls]\ncertificate = \"/c\"\nkey = \"/k\"\n", &["client_ca", "must prove"]),
        ("[tls]\n", &["psk_file"]),
        ("[tls]\npsk_file = \"keys\"\n", &["not an absolute path"]),
        ("[[class]]\nname = \"log\"\nplace = \"fast\"\nmatch = [\"fs.jurnal\"]\n", &["fs.journal", "log"]),
        ("[[class]]\nname = \"log\"\nplace = \"fats\"\n", &["`fats`", "`fast`"]),
        ("[[class]]\nname = \"log\"\nplace = \"fast\"\nshare = 1.5\n", &["share 1.5"]),
        ("[[export]]\nname = \"db\"\nread_only = true\nnbd = \"unix:/x\"\n", &["two exports are named \"db\""]),
        ("[[capacity]]\ntarget = \"ram:?size=64MiB\"\n", &["memory"]),
        ("[[capacity]]\ntarget = \"null:?size=64MiB\"\n", &["keeps nothing"]),
        (
            "[[evidence]]\ndevice = \"/dev/nbd0\"\n[[export]]\nname = \"log\"\nclass = \"temp\"\nnbd = \"unix:/x\"\n",
            &["[[evidence]] of disk \"db\"", "unix:/x", "`class`"],
        ),
        ("[server]\nmax_connections = 0\n", &["max_connections"]),
        ("[server]\npoll = \"5 parsecs\"\n", &["poll"]),
    ] {
        let scene = Scene::with(more);
        refused(&forebay(&["config", "check", scene.config()]), 1, parts);
    }
}

#[test]
fn addresses_for_other_machines_go_with_tls_or_with_two_words() {
    let export = "[[export]]\nname = \"x\"\nnbd = \"tcp:0.0.0.0:10809\"\n";
    for more in [
        "[server]\nallow_remote = true\nallow_remote_without_tls = true\n",
        "[server]\nallow_remote = true\n[tls]\npsk_file = \"/k\"\n",
        // The scene's own export has only a Unix socket, which other hosts cannot reach.
        "tls = \"required\"\nallow = [\"a\"]\n[server]\nallow_remote = true\n[tls]\npsk_file = \"/k\"\n",
    ] {
        good(&forebay(&["config", "check", Scene::with(&format!("{export}{more}")).config()]));
    }
}

#[test]
fn the_schema_is_json_and_knows_the_sections() {
    let schema: serde_json::Value = serde_json::from_str(&good(&forebay(&["config", "schema"]))).unwrap();
    for section in ["pool", "fast", "capacity", "disk", "memory", "export", "class", "server"] {
        assert!(schema["properties"][section].is_object(), "{section}");
    }
    assert_eq!(schema["additionalProperties"], false);
}

/// The schema lacked the types of `export.poll` durations and of sizes given as numbers.
#[test]
fn regression_the_schema_takes_what_is_documented() {
    let schema: serde_json::Value = serde_json::from_str(&good(&forebay(&["config", "schema"]))).unwrap();
    let at = |path: &[&str]| -> serde_json::Value {
        let mut value = &schema;
        for key in path {
            value = &value[*key];
            if let Some(name) = value["$ref"].as_str() {
                value = schema.pointer(name.trim_start_matches('#')).unwrap();
            }
            value = if value["items"].is_object() { &value["items"] } else { value };
            if let Some(name) = value["$ref"].as_str() {
                value = schema.pointer(name.trim_start_matches('#')).unwrap();
            }
        }
        value.clone()
    };
    /// Whether a schema, or one of its alternatives, allows a JSON type.
    fn takes(schema: &serde_json::Value, all: &serde_json::Value, kind: &str) -> bool {
        let is = |value: &serde_json::Value| value == kind || (kind == "integer" && value == "number");
        let here = is(&schema["type"]) || schema["type"].as_array().is_some_and(|kinds| kinds.iter().any(is));
        let named = schema["$ref"].as_str().and_then(|name| all.pointer(name.trim_start_matches('#')));
        let ways = schema["anyOf"].as_array().into_iter().flatten();
        here || named.into_iter().chain(ways).any(|way| takes(way, all, kind))
    }
    let sizes: [&[&str]; 11] = [
        &["fast", "endurance"],
        &["capacity", "endurance"],
        &["capacity", "band"],
        &["disk", "size"],
        &["memory", "limit"],
        &["adopt", "rate"],
        &["scrub", "rate"],
        &["read_cache", "rate"],
        &["read_cache", "memory"],
        &["class", "share"],
        &["log", "full"],
    ];
    for path in sizes {
        let part = at(&["properties", path[0]])["properties"][path[1]].clone();
        for kind in ["integer", "string"] {
            assert!(takes(&part, &schema, kind), "{path:?} {kind}: {part}");
        }
    }
    for section in ["server", "export"] {
        let part = at(&["properties", section])["properties"]["poll"].clone();
        for kind in ["boolean", "string"] {
            assert!(takes(&part, &schema, kind), "{section}.poll {kind}: {part}");
        }
    }
}

#[test]
fn json_carries_its_version() {
    let scene = Scene::new();
    for arguments in [
        &["config", "check", scene.config(), "--output", "json"][..],
        &["create", scene.config(), "--output", "json"],
        &["inspect", scene.path("fast.img").to_str().unwrap(), "--output", "json"],
    ] {
        let value: serde_json::Value = serde_json::from_str(&good(&forebay(arguments))).unwrap();
        assert_eq!(value["schema_version"], 1, "{arguments:?}");
    }
}

#[test]
fn create_refuses_over_an_xfs_and_leaves_it_alone() {
    let scene = Scene::new();
    let image = std::fs::File::options().write(true).read(true).open(scene.path("capacity.img")).unwrap();
    image.write_all_at(b"XFSB", 0).unwrap();
    let before = std::fs::read(scene.path("fast.img")).unwrap();
    refused(&forebay(&["create", scene.config()]), 2, &["capacity.img", "XFS", "nothing was written"]);
    assert!(std::fs::read(scene.path("fast.img")).unwrap() == before, "the other device was written");
    let mut magic = [0; 4];
    image.read_exact_at(&mut magic, 0).unwrap();
    assert_eq!(&magic, b"XFSB");
    let again = forebay(&["create", scene.config(), "--destroy-data"]);
    assert!(err(&again).contains("XFS"), "what is destroyed is named all the same");
    good(&again);
}

#[test]
fn create_refuses_over_a_pool() {
    let scene = Scene::new().created();
    refused(&forebay(&["create", scene.config()]), 2, &["fast.img", "Forebay pool"]);
}

#[test]
fn create_says_what_to_do_about_missing_empty_and_small_files() {
    let scene = Scene::new();
    std::fs::remove_file(scene.path("fast.img")).unwrap();
    refused(&forebay(&["create", scene.config()]), 2, &["fast.img", "truncate -s"]);
    std::fs::File::create(scene.path("fast.img")).unwrap();
    refused(&forebay(&["create", scene.config()]), 2, &["fast.img", "truncate -s"]);
    std::fs::File::create(scene.path("fast.img")).unwrap().set_len(128 << 10).unwrap();
    refused(&forebay(&["create", scene.config()]), 2, &["fast device", "are needed"]);
    let scene = Scene::new();
    scene.edit("size = \"64MiB\"", "size = \"1GiB\"");
    refused(&forebay(&["create", scene.config()]), 2, &["\"db\"", "do not fit"]);
}

#[test]
fn create_of_memory_points_to_serve() {
    let scene = Scene::new();
    scene.edit(scene.path("fast.img").to_str().unwrap(), "ram:?size=64MiB");
    scene.edit(scene.path("capacity.img").to_str().unwrap(), "ram:?size=256MiB");
    refused(&forebay(&["create", scene.config()]), 2, &["memory", "forebay serve"]);
}

#[test]
fn inspect_tells_pools_strangers_and_damage() {
    let scene = Scene::new();
    let fast = scene.path("fast.img");
    let inspect = || forebay(&["inspect", fast.to_str().unwrap()]);
    assert!(good(&inspect()).contains("nothing known"));
    good(&forebay(&["create", scene.config()]));
    let text = good(&inspect());
    assert!(text.contains("pool \"test\"") && text.contains("fast") && text.contains("root header"), "{text}");
    let image = std::fs::File::options().write(true).open(&fast).unwrap();
    image.write_all_at(&[0xff], 100).unwrap();
    let damaged = inspect();
    assert_eq!(code(&damaged), 1);
    assert!(err(&damaged).contains("superblock copy at 0") && out(&damaged).contains("pool \"test\""));
    image.set_len(32 * MIB).unwrap();
    refused_with_output(&inspect(), "it has 33554432 bytes");
    refused(&forebay(&["inspect", "/nonexistent"]), 2, &["/nonexistent"]);
}

/// A new pool was reported as served, and the advice for a file that is too small was to truncate it.
#[test]
fn regression_inspect_says_what_is_true_of_new_pools_and_small_files() {
    let scene = Scene::new().created();
    let inspect = |name: &str| forebay(&["inspect", scene.path(name).to_str().unwrap()]);
    let of_pool = || good(&inspect("fast.img"));
    assert!(of_pool().contains("epoch 1 (as created, "), "{}", of_pool());
    assert_eq!(scene.serve().stop(), 0);
    assert!(of_pool().contains("epoch 2 (its opening was completed, "), "{}", of_pool());
    std::fs::write(scene.path("small"), "some").unwrap();
    let small = inspect("small");
    refused(&small, 2, &["4 bytes", "whether it is the file that is meant", "restored from a backup"]);
    assert!(!err(&small).contains("truncate"), "{}", err(&small));
}

/// Errors are on stderr only, for programs and people alike, in every verb, as documented.
#[test]
fn regression_what_could_not_be_done_has_no_result() {
    let scene = Scene::new();
    let config = scene.config();
    let verbs: [&[&str]; 5] = [
        &["status", config],
        &["scrub", config, "status"],
        &["inspect", "/none"],
        &["analyze", "/none"],
        &["serve", "/none"],
    ];
    for verb in verbs {
        let output = forebay(&[verb, &["--output", "json"]].concat());
        assert_eq!((code(&output), out(&output).as_str()), (2, ""), "{verb:?}");
        assert!(err(&output).starts_with("forebay: "), "{verb:?}: {}", err(&output));
    }
}

/// A file without room for a superblock was reported as damaged.
#[test]
fn regression_a_file_that_is_too_small_to_be_a_pools_is_not_called_damaged() {
    let scene = Scene::new();
    for (name, bytes) in [("note", 1024), ("odd", 5000)] {
        std::fs::write(scene.path(name), vec![b'a'; bytes]).unwrap();
        let text = good(&forebay(&["inspect", scene.path(name).to_str().unwrap()]));
        assert!(text.contains("nothing known is on it"), "{text}");
    }
}

/// The answer to the change did not show the new value.
#[test]
fn regression_the_read_cache_of_a_class_is_shown() {
    let scene = Scene::new().created();
    let server = scene.serve();
    let shown = |arguments: &[&str]| {
        let text = good(&forebay(&[&["class", scene.config()], arguments].concat()));
        let at = text.lines().next().unwrap().find("READ CACHE").unwrap();
        let line = text.lines().find(|line| line.starts_with("cold ")).unwrap().to_owned();
        line[at..].split_whitespace().next().unwrap().to_owned()
    };
    assert_eq!(shown(&["list"]), "no");
    assert_eq!(shown(&["set", "cold", "--read-cache", "true"]), "yes");
    assert_eq!(server.stop(), 0);
}

#[track_caller]
fn refused_with_output(output: &std::process::Output, part: &str) {
    assert_eq!(code(output), 1);
    assert!(err(output).contains(part), "{}", err(output));
}

#[test]
fn serving_what_is_no_pool_says_why() {
    let scene = Scene::new();
    refused(&forebay(&["serve", scene.config()]), 2, &["no Forebay superblock", "forebay create"]);
    // Swapped devices.
    let scene = Scene::new().created();
    scene.edit("fast.img", "other.img");
    scene.edit("capacity.img", "fast.img");
    scene.edit("other.img", "capacity.img");
    refused(&forebay(&["serve", scene.config()]), 2, &["swap them", "capacity.img"]);
    // A truncated image is a damaged pool.
    let scene = Scene::new().created();
    std::fs::File::options().write(true).open(scene.path("capacity.img")).unwrap().set_len(200 * MIB).unwrap();
    refused(&forebay(&["serve", scene.config()]), 1, &["capacity.img", "truncated"]);
    // A device of another pool.
    let (scene, other) = (Scene::new().created(), Scene::new().created());
    std::fs::copy(other.path("capacity.img"), scene.path("capacity.img")).unwrap();
    refused(&forebay(&["serve", scene.config()]), 2, &["capacity.img", "belongs to pool"]);
    // Superblocks gone.
    let scene = Scene::new().created();
    let image = std::fs::File::options().write(true).open(scene.path("fast.img")).unwrap();
    for offset in [0, 65536, 64 * MIB - 4096] {
        image.write_all_at(&[0xee; 64], offset + 20).unwrap();
    }
    refused(&forebay(&["serve", scene.config()]), 1, &["fast.img", "damaged superblock"]);
}

#[test]
fn asking_a_server_that_is_not_there_says_how_to_start_it() {
    let scene = Scene::new().created();
    for arguments in [
        &["status", scene.config()][..],
        &["top", scene.config()],
        &["class", scene.config(), "list"],
        &["disk", scene.config(), "list"],
    ] {
        refused(&forebay(arguments), 2, &["forebay serve", "s.control"]);
    }
}

/// A filter of the log that cannot be read was ignored, and nothing said so.
#[test]
fn regression_a_log_filter_that_cannot_be_read_is_named() {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_forebay"))
        .args(["bench", "--target", "null:?size=1GiB", "--set", "ios=1000", "--set", "warmup=0s"])
        .env("FOREBAY_LOG", "bogus===")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("FOREBAY_LOG=bogus===") && said.contains("info"), "{said}");
}

//! Common NBD clients against a server over memory: libnbd's tools, QEMU's and fio.

use crate::serving::{Serving, export};
use forebay_block::{ClassId, DiskId};
use forebay_export::{Export, ServerConfig};
use std::path::Path;
use std::process::{Command, Output};

const MIB: u64 = 1 << 20;

/// Runs a tool to its end. A missing tool is a failure: these tests are the evidence that real clients work.
fn run(program: &str, args: &[&str]) -> Output {
    // nbdsh runs the first `python3` in the path; only the system's has libnbd's module.
    let path = format!("/usr/bin:/bin:{}", std::env::var("PATH").unwrap_or_default());
    match Command::new(program).args(args).env("PATH", path).output() {
        Ok(output) => output,
        Err(error) => panic!("cannot run {program} ({error}): run ./check, which installs fio, libnbd and qemu tools"),
    }
}

/// Runs a tool that must succeed and returns what it printed.
fn good(program: &str, args: &[&str]) -> String {
    let output = run(program, args);
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {args:?}: {}\n{stdout}\n{stderr}", output.status);
    stdout
}

fn serve(name: &str, size_bytes: u64) -> Serving {
    Serving::start(name, ServerConfig::default(), vec![export("disk", 1, size_bytes)], false)
}

/// Writes a file of data with holes and zeros in between.
fn write_image(path: &Path, size_bytes: u64) {
    let mut bytes = vec![0u8; size_bytes as usize];
    let mut state = 0x2545_f491_4f6c_dd1du64;
    for (number, chunk) in bytes.chunks_mut(96 << 10).enumerate() {
        if number % 3 != 1 {
            for word in chunk.chunks_mut(8) {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                word.copy_from_slice(&state.to_le_bytes()[..word.len()]);
            }
        }
    }
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn nbdinfo_sees_what_is_offered() {
    let frozen = Export { read_only: true, description: "does not change".into(), ..export("frozen", 2, 8 * MIB) };
    let exports = vec![export("disk", 1, 64 * MIB), frozen];
    let mut server = Serving::start("nbdinfo", ServerConfig::default(), exports, false);
    let info = good("nbdinfo", &["--json", &server.uri("disk")]);
    for expected in [
        "\"export-name\": \"disk\"",
        "\"export-size\": 67108864",
        "\"structured\": true",
        "\"is_read_only\": false",
        "\"can_multi_conn\": true",
        "\"can_flush\": true",
        "\"can_fua\": true",
        "\"can_trim\": true",
        "\"can_zero\": true",
        "\"can_fast_zero\": true",
        "\"can_cache\": true",
        "\"can_df\": true",
        "\"block_size_minimum\": 512",
        "\"block_size_preferred\": 4096",
        "\"block_size_maximum\": 33554432",
        "base:allocation",
        "forebay:placement",
    ] {
        assert!(info.contains(expected), "{expected} is not in {info}");
    }
    let list = good("nbdinfo", &["--list", &server.uri("")]);
    assert!(list.contains("export=\"disk\"") && list.contains("export=\"frozen\"") && list.contains("does not change"));
    good("nbdinfo", &["--is", "read-only", &server.uri("frozen")]);
    assert!(!run("nbdinfo", &[&server.uri("nowhere")]).status.success());
    server.stop_well();
}

#[test]
fn nbdinfo_maps_allocation_and_placement() {
    let exports = vec![Export { tag: Some(ClassId(5)), ..export("disk", 1, 4 * MIB) }];
    let mut server = Serving::start("map", ServerConfig::default(), exports, false);
    let uri = server.uri("disk");
    good("qemu-io", &["-f", "raw", "-c", "write -P 1 1M 1M", &uri]);
    let map = good("nbdinfo", &["--map", &uri]);
    let lines: Vec<Vec<&str>> = map.lines().map(|line| line.split_whitespace().take(3).collect()).collect();
    assert_eq!(lines, [["0", "1048576", "3"], ["1048576", "1048576", "0"], ["2097152", "2097152", "3"]]);
    let map = good("nbdinfo", &["--map=forebay:placement", &uri]);
    let lines: Vec<Vec<&str>> = map.lines().map(|line| line.split_whitespace().take(3).collect()).collect();
    let data = (0x100 | 5).to_string();
    let hole = 0x6ff.to_string();
    assert_eq!(
        lines,
        [["0", "1048576", hole.as_str()], ["1048576", "1048576", data.as_str()], ["2097152", "2097152", hole.as_str()]]
    );
    server.stop_well();
}

#[test]
fn nbdcopy_copies_both_ways() {
    let mut server = serve("nbdcopy", 48 * MIB);
    let (image, copy) = (server.dir().join("image"), server.dir().join("copy"));
    write_image(&image, 48 * MIB);
    let (image_arg, copy_arg) = (image.to_str().unwrap(), copy.to_str().unwrap());
    good("nbdcopy", &["--flush", image_arg, &server.uri("disk")]);
    good("nbdcopy", &["--connections=4", "--requests=64", &server.uri("disk"), copy_arg]);
    assert!(std::fs::read(&image).unwrap() == std::fs::read(&copy).unwrap());
    good("nbdcopy", &["--synchronous", "--request-size=1048576", &server.uri("disk"), copy_arg]);
    assert!(std::fs::read(&image).unwrap() == std::fs::read(&copy).unwrap());
    assert!(server.stop_well() >= 2);
}

#[test]
fn qemu_img_converts_compares_and_benches() {
    let mut server = serve("qemu-img", 32 * MIB);
    let (image, qcow) = (server.dir().join("image"), server.dir().join("copy.qcow2"));
    write_image(&image, 32 * MIB);
    let (image, qcow) = (image.to_str().unwrap(), qcow.to_str().unwrap());
    let uri = server.uri("disk");
    good("qemu-img", &["convert", "-n", "-f", "raw", "-O", "raw", "-W", "-m", "8", image, &uri]);
    good("qemu-img", &["compare", "-f", "raw", "-F", "raw", image, &uri]);
    good("qemu-img", &["convert", "-f", "raw", "-O", "qcow2", &uri, qcow]);
    good("qemu-img", &["compare", "-f", "qcow2", "-F", "raw", qcow, &uri]);
    good(
        "qemu-img",
        &["bench", "-f", "raw", "-w", "-c", "5000", "-d", "32", "-s", "4096", "--flush-interval=100", &uri],
    );
    good("qemu-img", &["bench", "-f", "raw", "-c", "5000", "-d", "32", "-s", "65536", &uri]);
    assert!(server.stop_well() >= 50, "the flushes of qemu-img bench arrived");
}

#[test]
fn qemu_io_verifies_patterns_zeros_and_discards() {
    let mut server = serve("qemu-io", 16 * MIB);
    let uri = server.uri("disk");
    let commands = [
        "write -P 0x11 0 1M",
        "write -f -P 0x22 512k 64k",
        "write -z 256k 128k",
        "write -z -u 384k 64k",
        "discard 640k 64k",
        "flush",
        "read -P 0x11 0 256k",
        "read -P 0 256k 192k",
        "read -P 0x11 448k 64k",
        "read -P 0x22 512k 64k",
        "read -P 0 640k 64k",
        "aio_write -P 0x33 2M 4M",
        "aio_flush",
        "read -P 0x33 2M 4M",
        "write -P 0x44 16776704 512",
        "read -P 0x44 16776704 512",
        "map",
    ];
    let mut args = vec!["-f", "raw", "-d", "unmap"];
    commands.iter().for_each(|command| args.extend(["-c", command]));
    args.push(&uri);
    let said = good("qemu-io", &args);
    assert!(!said.contains("verification failed") && !said.contains("error"), "{said}");
    server.stop_well();
}

#[test]
fn nbdsh_finds_errors_and_edges_as_specified() {
    let mut server = serve("nbdsh", 8 * MIB);
    server.ask(|backend, _| backend.damage(DiskId(1), 4 * MIB, 4096));
    let script = r#"
import errno
size = h.get_size()
assert size == 8 << 20
h.set_strict_mode(0)

def fails(code, action):
    try:
        action()
    except nbd.Error as error:
        assert error.errnum == code, (error.errnum, code, str(error))
    else:
        raise AssertionError("it did not fail")

fails(errno.EINVAL, lambda: h.pread(512, size))
fails(errno.EINVAL, lambda: h.pread(512, 1))
fails(errno.ENOSPC, lambda: h.pwrite(bytes(1024), size - 512))
fails(errno.ENOSPC, lambda: h.zero(1024, size - 512))
fails(errno.EINVAL, lambda: h.trim(1024, size - 512))
fails(errno.EIO, lambda: h.pread(8192, 4 << 20))
h.pwrite(b"\x05" * 4096, 0, nbd.CMD_FLAG_FUA)
h.zero(2048, 0, nbd.CMD_FLAG_FAST_ZERO | nbd.CMD_FLAG_NO_HOLE)
assert h.pread(4096, 0, nbd.CMD_FLAG_DF) == bytes(2048) + b"\x05" * 2048
h.cache(1 << 20, 0)
h.trim(size, 0, nbd.CMD_FLAG_FUA)
assert h.pread(4096, 0) == bytes(4096)
h.flush()
chunks = []
h.block_status(size, 0, lambda context, offset, entries, err: chunks.append((context, entries)) or 0)
assert [context for context, _ in chunks] == ["base:allocation", "forebay:placement"], chunks
h.shutdown()
"#;
    let uri = server.uri("disk");
    let connect = format!(
        "h.add_meta_context('forebay:placement'); h.add_meta_context('base:allocation'); h.connect_uri('{uri}')"
    );
    good("nbdsh", &["-c", &connect, "-c", script]);
    server.stop_well();
}

/// Older ways to connect: without GO, without structured replies.
#[test]
fn nbdsh_speaks_the_older_dialects() {
    let mut server = serve("dialects", MIB);
    let uri = server.uri("disk");
    for setup in ["h.set_request_structured_replies(False)", "h.set_handshake_flags(0)", "h.set_handshake_flags(1)"] {
        let connect = format!("{setup}; h.connect_uri('{uri}')");
        let script = "h.pwrite(b'x' * 512, 512); assert h.pread(1024, 0) == bytes(512) + b'x' * 512; h.shutdown()";
        good("nbdsh", &["-c", &connect, "-c", script]);
    }
    server.stop_well();
}

fn fio(server: &Serving, name: &str, args: &[&str]) {
    let uri = format!("--uri={}", server.uri("disk"));
    let name = format!("--name={name}");
    let dir = server.dir().to_str().unwrap();
    let mut all = vec![&name[..], "--ioengine=nbd", &uri, "--aux-path", dir, "--verify_fatal=1", "--exitall_on_error"];
    all.extend(args);
    let said = good("fio", &all);
    assert!(!said.contains("verify:"), "{said}");
}

#[test]
fn fio_verifies_every_depth_and_size() {
    let mut server = serve("fio-sizes", 64 * MIB);
    server.ask(|backend, _| backend.delay_polls(2));
    for (bs, depth, size) in
        [("512", "1", "1M"), ("512", "256", "4M"), ("4k", "16", "32M"), ("64k", "32", "64M"), ("4M", "8", "64M")]
    {
        let (bs, depth, size) = (format!("--bs={bs}"), format!("--iodepth={depth}"), format!("--size={size}"));
        fio(&server, "sizes", &["--rw=randwrite", "--verify=crc32c", &bs, &depth, &size]);
    }
    fio(
        &server,
        "split",
        &[
            "--rw=randrw",
            "--verify=crc32c",
            "--bsrange=512-256k",
            "--bs_unaligned=0",
            "--blockalign=512",
            "--iodepth=32",
            "--size=48M",
        ],
    );
    server.stop_well();
}

#[test]
fn fio_verifies_overlapping_writes_flushes_and_trims() {
    let mut server = serve("fio-overlap", 64 * MIB);
    fio(
        &server,
        "overlap",
        &[
            "--rw=randwrite",
            "--verify=crc32c",
            "--bs=4k",
            "--iodepth=64",
            "--size=4M",
            "--io_size=32M",
            "--norandommap",
            "--serialize_overlap=1",
            "--verify_backlog=512",
            "--fsync=37",
        ],
    );
    fio(&server, "trim", &["--rw=randtrimwrite", "--bs=16k", "--iodepth=16", "--size=32M"]);
    assert!(server.stop_well() > 10);
}

#[test]
fn fio_verifies_over_several_connections() {
    let mut server = serve("fio-connections", 64 * MIB);
    fio(
        &server,
        "connections",
        &[
            "--rw=randwrite",
            "--verify=crc32c",
            "--bs=4k",
            "--iodepth=16",
            "--numjobs=6",
            "--thread",
            "--size=8M",
            "--offset_increment=8M",
        ],
    );
    server.stop_well();
}

//! `forebay attach` and `detach`: a disk of a running pool as a block device of this machine's kernel.

use crate::output::{self, Format};
use anyhow::{Context, Result, anyhow, bail};
use forebay_daemon::config::{self, Config};
use forebay_daemon::control::{Question, ask};
use forebay_export::Listen;
use forebay_export::ublk::release;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Time limit for a device to appear: the kernel first looks for partitions.
const START_LIMIT: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Makes the disk a block device and prints its path once it is usable. An existing device is kept.
///
/// # Errors
/// No server answers, or neither ublk nor nbd-client is available.
pub fn attach(file: &Path, disk: Option<String>, format: Format) -> Result<()> {
    let config = config::load_real(file)?;
    if let (_, Some(device)) = by_nbd(&config, file, disk.clone())? {
        return print(&device, format);
    }
    let begun = Instant::now();
    let question = Question::DeviceAttach { disk };
    loop {
        let answer = ask(&config, file, &question)?;
        let device = answer["device"].as_str().unwrap_or_default().to_owned();
        match answer["state"].as_str() {
            Some("live") => return print(&device, format),
            Some("starting") if begun.elapsed() < START_LIMIT => std::thread::sleep(LOOK_EVERY),
            Some("starting") => {
                bail!("{device} did not start within {} s: look at `dmesg`", START_LIMIT.as_secs())
            }
            Some(_) => bail!("the kernel did not start {device}: look at `dmesg`, then restart the server"),
            None => return print(&attach_by_nbd(&answer)?, format),
        }
    }
}

/// Removes the disk's block device.
///
/// # Errors
/// There is no device, it is in use, or the kernel refuses.
pub fn detach(file: &Path, disk: Option<String>, format: Format) -> Result<()> {
    let config = config::load_real(file)?;
    let (answer, by_nbd) = by_nbd(&config, file, disk)?;
    let device = match (answer["device"].as_str(), by_nbd) {
        (Some(device), _) => {
            // Writes the page cache now: the kernel creates no other device while it removes one.
            claim(Path::new(device))?.sync_all().with_context(|| format!("cannot write all to {device}"))?;
            let number = device.strip_prefix("/dev/ublkb").and_then(|number| number.parse().ok());
            let number = number.with_context(|| format!("{device} is no ublk device"))?;
            let is_gone = release(number).with_context(|| {
                format!("cannot take {device} away; it needs root, and the right to open /dev/ublk-control")
            })?;
            if !is_gone {
                bail!("{}", in_use(Path::new(device)));
            }
            device.to_owned()
        }
        (None, Some(device)) => {
            claim(&device)?.sync_all().with_context(|| format!("cannot write all to {}", device.display()))?;
            run("nbd-client", &["-d".into(), device.clone().into()])?;
            // The process that owns the device ends after the command has returned.
            wait_until(|| server_of_nbd(&device).is_none())
                .with_context(|| format!("nbd-client does not leave {}: look at `dmesg`", device.display()))?;
            device.display().to_string()
        }
        (None, None) if answer["state"] == "starting" => {
            bail!("the device of disk {} is starting: try again", answer["disk"])
        }
        (None, None) => bail!("disk {} has no block device", answer["disk"]),
    };
    match format {
        Format::Json => output::json(json!({ "detached": device })),
        Format::Table => output::line(&format!("{device} was taken away")),
    }
}

fn print(device: impl AsRef<Path>, format: Format) -> Result<()> {
    let device = device.as_ref().display();
    match format {
        Format::Json => output::json(json!({ "device": device.to_string() })),
        Format::Table => output::line(&device.to_string()),
    }
}

fn in_use(device: &Path) -> String {
    let device = device.display();
    format!("{device} is in use: unmount it, or stop what has it open (`findmnt {device}`, `fuser -v {device}`)")
}

/// Opens a device exclusively; fails where it is in use.
fn claim(device: &Path) -> Result<File> {
    // O_EXCL on a block device fails while it is mounted or otherwise claimed (open(2)).
    let opened = OpenOptions::new().read(true).custom_flags(rustix::fs::OFlags::EXCL.bits().cast_signed()).open(device);
    opened.map_err(|error| match error.kind() {
        ErrorKind::ResourceBusy => anyhow!("{}", in_use(device)),
        _ => anyhow!("cannot open {}: {error}; it needs root", device.display()),
    })
}

/// The server's data about the disk, and the device that nbd-client made of it.
fn by_nbd(config: &Config, file: &Path, disk: Option<String>) -> Result<(Value, Option<PathBuf>)> {
    let answer = ask(config, file, &Question::Device { disk })?;
    let exports: Vec<&str> = answer["exports"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let addresses: Vec<Vec<OsString>> = places(&answer).collect();
    let is_ours = |words: &[OsString]| {
        words.first().is_some_and(|program| Path::new(program).file_name().is_some_and(|name| name == "nbd-client"))
            && addresses.iter().any(|address| words.windows(address.len()).any(|some| some == address))
            && words.windows(2).any(|pair| pair[0] == "-N" && exports.iter().any(|name| pair[1] == *name))
    };
    let device = nbd_devices().find(|device| server_of_nbd(device).is_some_and(|words| is_ours(&words)));
    Ok((answer, device))
}

/// NBD devices of the kernel.
fn nbd_devices() -> impl Iterator<Item = PathBuf> {
    let numbers = (0..).map(|number| PathBuf::from(format!("/dev/nbd{number}")));
    numbers.take_while(|device| in_sysfs(device).exists())
}

fn in_sysfs(device: &Path) -> PathBuf {
    Path::new("/sys/block").join(device.file_name().unwrap_or_default())
}

/// Command line of the process that serves an NBD device; none where there is none.
fn server_of_nbd(device: &Path) -> Option<Vec<OsString>> {
    use std::os::unix::ffi::OsStringExt;
    let pid = fs::read_to_string(in_sysfs(device).join("pid")).ok()?;
    let line = fs::read(format!("/proc/{}/cmdline", pid.trim())).unwrap_or_default();
    Some(line.split(|&byte| byte == 0).map(|word| OsString::from_vec(word.to_vec())).collect())
}

/// Addresses of the server as arguments of nbd-client.
fn places(answer: &Value) -> impl Iterator<Item = Vec<OsString>> {
    let addresses = answer["addresses"].as_array().into_iter().flatten();
    addresses.filter_map(|address| match address.as_str()?.parse().ok()? {
        Listen::Unix(path) => Some(vec!["-unix".into(), path.into()]),
        Listen::Tcp(address) => Some(vec![address.ip().to_string().into(), address.port().to_string().into()]),
    })
}

fn attach_by_nbd(answer: &Value) -> Result<PathBuf> {
    let without_ublk = answer["without_ublk"].as_str().unwrap_or("the kernel has no ublk");
    let how = "load ublk (`modprobe ublk_drv`, Linux 6.12 or later), or nbd (`modprobe nbd`) and install nbd-client";
    let export = answer["exports"][0].as_str().context("the disk is not exported")?;
    let Some(place) = places(answer).next() else {
        bail!("{without_ublk}; and no [[export]] has `nbd` for nbd-client: {how}");
    };
    if nbd_devices().next().is_none() {
        bail!("{without_ublk}, and no nbd (there is no /dev/nbd0): {how}");
    }
    let free = nbd_devices().find(|device| server_of_nbd(device).is_none() && claim(device).is_ok());
    let Some(device) = free else {
        bail!("{without_ublk}; and every /dev/nbdN is in use: `forebay detach` or `nbd-client -d` frees one");
    };
    let mut words = place;
    // Not by netlink, so that a process stays by which `detach` finds the device.
    words.extend([device.clone().into(), "-N".into(), export.into(), "-b".into(), "512".into(), "-nonetlink".into()]);
    run("nbd-client", &words)?;
    // The process that serves the device, by which `detach` finds it, starts after the command has returned.
    wait_until(|| server_of_nbd(&device).is_some())
        .with_context(|| format!("nbd-client did not start {}: look at `dmesg`", device.display()))?;
    Ok(device)
}

fn wait_until(is_so: impl Fn() -> bool) -> Result<()> {
    let begun = Instant::now();
    while !is_so() {
        if begun.elapsed() >= START_LIMIT {
            bail!("waited for {} s", START_LIMIT.as_secs());
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(())
}

fn run(program: &str, words: &[OsString]) -> Result<()> {
    let ran = Command::new(program).args(words).output();
    let ran = ran.with_context(|| format!("cannot run {program}: install the package nbd-client"))?;
    if !ran.status.success() {
        bail!("{program} failed: {}", String::from_utf8_lossy(&ran.stderr).trim());
    }
    Ok(())
}

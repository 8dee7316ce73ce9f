//! `forebay doctor`.

use super::schema;
use crate::doctor::{self, LadderOptions, Place};
use crate::output::{self, Format};
use anyhow::{Context, Result, ensure};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use forebay_daemon::finding::finding;
use forebay_device::Target;
use forebay_device::counters::drive_below;
use forebay_platform::answers::Ask;
use forebay_platform::change::Profile;
use forebay_platform::{Fingerprint, Machine, Report, Tree, Wanted, audit, capture, text};
use serde_json::json;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// What is audited, changed or measured.
#[derive(Clone, Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("act").args(["capture", "apply", "restore", "verify", "hold", "ladder"]))]
pub struct DoctorOptions {
    /// Also audit this pool: its members, its memory, what its rules need
    #[arg(conflicts_with = "act")]
    pub config: Option<PathBuf>,
    /// Also audit this block device: its queue, interrupts, link and power
    #[arg(long, value_name = "DEVICE")]
    pub device: Option<String>,
    /// Audit another machine by the folder that --capture wrote there, instead of this one
    #[arg(long, value_name = "FOLDER")]
    pub root: Option<PathBuf>,
    /// Show measured costs beside those of the sources, from a result of --ladder --output json on this machine
    #[arg(long, value_name = "FILE", conflicts_with = "act")]
    pub measured: Option<PathBuf>,
    /// Copy what the rules read, of all disks or of --device, into a new folder, and judge nothing
    #[arg(long, value_name = "FOLDER")]
    pub capture: Option<PathBuf>,
    /// Show and change the settings of a profile until the next start of the machine, and record the old ones
    #[arg(long, value_name = "PROFILE", value_parser = profiles())]
    pub apply: Option<Profile>,
    /// With --apply: only show what would change
    #[arg(long, requires = "apply")]
    pub dry_run: bool,
    /// Put back what --apply or --ladder changed, also after a crash
    #[arg(long)]
    pub restore: bool,
    /// Check whether what --apply changed has held, and what may have changed it
    #[arg(long)]
    pub verify: bool,
    /// Folder for the record of old settings [default: $STATE_DIRECTORY, or /var/lib/forebay/doctor]
    #[arg(long, value_name = "FOLDER")]
    pub state: Option<PathBuf>,
    /// Keep CPUs out of deep idle states while COMMAND runs, or until Ctrl-C
    #[arg(long, conflicts_with = "root")]
    pub hold: bool,
    /// Measure the cost of each setting here: one load, setting by setting, in interleaved rounds, then put all back
    #[arg(long)]
    pub ladder: bool,
    #[command(flatten)]
    pub climbing: LadderOptions,
    /// With --hold: the command to run meanwhile
    #[arg(last = true, value_name = "COMMAND", requires = "hold")]
    pub command: Vec<OsString>,
    /// Print the JSON schema of results; needs nothing else
    #[arg(long)]
    pub schema: bool,
}

/// Names of the profiles.
fn profiles() -> impl TypedValueParser<Value = Profile> {
    PossibleValuesParser::new(Profile::ALL.map(|(_, name, _)| name)).map(|name| {
        let named = Profile::ALL.into_iter().find(|(_, known, _)| *known == name);
        named.map_or(Profile::DefaultSafe, |(profile, ..)| profile)
    })
}

/// Audits a machine, or a captured one, and one of its devices; or captures it, changes it, or measures what settings cost.
///
/// # Errors
/// What could not be read or written; a finding where a setting costs performance.
pub fn run(options: &DoctorOptions, format: Format) -> Result<()> {
    if options.schema {
        return schema::print("doctor");
    }
    if options.hold {
        return doctor::hold(&options.command, format);
    }
    let root = options.root.as_deref().unwrap_or(Path::new("/"));
    let tree = Tree::open(root)?;
    let device = options.device.clone().or_else(|| of_target(options));
    let device = device.map(|name| if options.root.is_some() { name } else { real(&name) });
    let wanted = match (&device, &options.capture) {
        (Some(name), _) => Wanted::Device(name),
        (None, Some(_)) => Wanted::All,
        (None, None) => Wanted::Machine,
    };
    // An audit also queries the drives; a captured tree contains the drives' answers.
    let is_change = options.apply.is_some() || options.restore || options.verify || options.ladder;
    let asker = (tree.is_machine() && !is_change).then_some(&doctor::Asker as &dyn Ask);
    let machine = Machine::read_asking(&tree, wanted, asker).with_context(|| format!("in {}", root.display()))?;
    ensure!(
        options.root.is_none() || !tree.is_blank(),
        "{}: holds no file that is looked at, so it is no tree of a machine: name the folder that `forebay doctor --capture` wrote, in \
         which sys and proc are",
        root.display()
    );
    if let Some(folder) = &options.capture {
        return captured(&tree, folder, format);
    }
    if is_change {
        let place = Place::new(&tree, root, options.state.as_deref())?;
        let device = machine.devices.first();
        return match options.apply {
            Some(profile) => doctor::apply(&place, profile, device, options.dry_run, format),
            None if options.restore => doctor::restore(&place, format),
            None if options.verify => doctor::verify(&place, format),
            None => doctor::ladder(&options.climbing, &place, &machine, format),
        };
    }
    let mut report = audit(&machine);
    if let Some(config) = &options.config {
        let name = |name: &str| if options.root.is_some() { name.to_owned() } else { real(name) };
        report = report.with_pool(&doctor::pool(config, &tree, &name)?);
    }
    if let Some(file) = &options.measured {
        report = report.with_measured(&doctor::measured(file, &Fingerprint::of(&tree, &machine))?);
    }
    let others = if device.is_none() { Machine::disks(&tree) } else { Vec::new() };
    match format {
        Format::Json => output::json(json!({
            "root": root,
            "config": options.config,
            "device": machine.devices.first().map(|device| &device.name),
            "measured": report.measured() > 0,
            "measured_place": report.place,
            "findings": report.findings,
            "unknown": report.unknown,
            "good": report.good,
        }))?,
        Format::Table => output::text(&format!("{}{}", text(&report), hint(&others)))?,
    }
    judged(&report)
}

/// The drive under the ladder's target, or under its file: the ladder changes its settings too.
fn of_target(options: &DoctorOptions) -> Option<String> {
    use std::os::unix::fs::FileTypeExt;
    if options.root.is_some() {
        return None;
    }
    let target: Target = options.climbing.target.as_deref()?.parse().ok()?;
    let path = target.path()?;
    if std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_block_device()) {
        return path.to_str().map(str::to_owned);
    }
    drive_below(path).ok().map(|name| format!("/dev/{name}"))
}

/// Devices that the user could name.
fn hint(disks: &[String]) -> String {
    if disks.is_empty() {
        String::new()
    } else {
        format!("\nSettings of a drive: --device, one of {}", disks.join(", "))
    }
}

fn judged(report: &Report) -> Result<()> {
    match report.costs() {
        0 => Ok(()),
        count => Err(finding(format!("settings that cost latency, throughput or safety: {count}"))),
    }
}

fn captured(tree: &Tree, folder: &Path, format: Format) -> Result<()> {
    let files = capture(tree, folder)?;
    let place = folder.display();
    match format {
        Format::Json => output::json(json!({ "captured": folder, "files": files })),
        Format::Table => output::text(&format!(
            "{} in {place}\nto read it: forebay doctor --root {place}",
            output::count(files as u64, "file")
        )),
    }
}

/// Resolves a link such as `/dev/disk/by-id/...` on this machine.
fn real(name: &str) -> String {
    let path = std::fs::canonicalize(name).ok().filter(|path| path.starts_with("/dev"));
    path.and_then(|path| path.to_str().map(str::to_owned)).unwrap_or_else(|| name.to_owned())
}

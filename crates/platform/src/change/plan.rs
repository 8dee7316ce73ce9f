//! Determines the changes, by reading alone.

use super::files::{Files, Place};
use super::setting::{Form, Profile, SETTINGS, Setting, Want};
use super::step::Step;
use crate::lack::{Lack, Reading, shown};
use crate::settings::device::Device;
use crate::tree::Tree;

/// A setting that will not be changed, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// Name of the setting.
    pub name: &'static str,
    /// Name of the device; `None` for a setting of the machine.
    pub device: Option<String>,
    /// The obstacle, or the present value if it is good already.
    pub why: String,
    /// Whether the setting already has the wanted value.
    pub is_good: bool,
}

/// The changes of a profile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Files in the order in which they are written.
    pub steps: Vec<Step>,
    /// Settings that will not be changed.
    pub left: Vec<Left>,
}

impl Plan {
    /// The plan of a profile for a machine and one of its devices.
    pub fn of(profile: Profile, tree: &Tree, device: Option<&Device>) -> Self {
        Self::with(tree, device, |setting| setting.profile.is_some_and(|least| least <= profile))
    }

    /// The plan for all settings for which `is_wanted` returns true.
    pub fn with(tree: &Tree, device: Option<&Device>, is_wanted: impl Fn(&Setting) -> bool) -> Self {
        let mut plan = Self::default();
        let mut unreadable = Vec::new();
        for setting in SETTINGS {
            let causes: Vec<usize> = plan.causes_of(setting);
            let is_wanted = setting.want != Want::Nothing && is_wanted(setting);
            if !is_wanted && causes.is_empty() {
                continue;
            }
            let name = device.filter(|_| setting.files.is_of_device()).map(|device| device.name.clone());
            match found(setting, tree, device, is_wanted) {
                Ok((files, unread)) => {
                    let device = name.clone();
                    unreadable.extend(unread.filter(|_| is_wanted).map(|why| Left {
                        name: setting.name,
                        device,
                        why: why.to_string(),
                        is_good: false,
                    }));
                    plan.add(setting, name.as_ref(), files, is_wanted, &causes)
                }
                Err(why) if is_wanted => plan.leave(setting, name, why.to_string(), false),
                // There is nothing to restore.
                Err(_) => {}
            }
        }
        plan.one_reason_each();
        plan.left.extend(unreadable);
        plan
    }

    /// Whether the plan changes nothing.
    pub fn is_empty(&self) -> bool {
        !self.steps.iter().any(Step::is_change)
    }

    /// Names of the settings that the plan changes, each once.
    pub fn changed(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for step in self.steps.iter().filter(|step| step.is_change()) {
            if !names.contains(&step.setting.as_str()) {
                names.push(&step.setting);
            }
        }
        names
    }

    fn causes_of(&self, setting: &Setting) -> Vec<usize> {
        let moves = |step: &Step| step.known().is_some_and(|cause| cause.moves.contains(&setting.name));
        self.steps.iter().enumerate().filter(|(_, step)| step.is_change() && moves(step)).map(|(at, _)| at).collect()
    }

    fn leave(&mut self, setting: &Setting, device: Option<String>, why: String, is_good: bool) {
        self.left.push(Left { name: setting.name, device, why, is_good });
    }

    fn add(
        &mut self,
        setting: &'static Setting,
        device: Option<&String>,
        files: Vec<Found>,
        is_wanted: bool,
        causes: &[usize],
    ) {
        let before = self.steps.len();
        let mut said = Vec::new();
        for file in files {
            let cause = causes.iter().copied().find(|&at| Files::go_together(&self.steps[at].path, &file.path));
            let wanted = if is_wanted { file.wanted.clone() } else { None };
            if !said.contains(&file.value) {
                said.push(file.value.clone());
            }
            // A file with the wanted value is written again if the kernel changes it meanwhile; for a bound, the
            // kernel's own choice is as good, and the kernel may refuse the old value.
            let is_exact = matches!(setting.want, Want::Value(_));
            let again = (is_wanted && is_exact && cause.is_some()).then(|| file.value.clone());
            if wanted.is_some() || cause.is_some() {
                self.steps.push(Step {
                    setting: setting.name.to_owned(),
                    device: device.cloned(),
                    path: file.path,
                    text: file.text,
                    from: file.value,
                    to: wanted.or(again),
                    moved_by: cause,
                });
            }
        }
        let is_changed = self.steps[before..].iter().any(Step::is_change);
        if is_wanted && !is_changed {
            self.leave(setting, device.cloned(), format!("already {}", shown(&said.join(", "))), true);
        }
    }

    /// A setting with two places (turbo) exists if one of them does; if none does, it is reported missing only once.
    fn one_reason_each(&mut self) {
        let mut kept: Vec<Left> = Vec::new();
        for left in std::mem::take(&mut self.left) {
            let is_elsewhere = self.steps.iter().any(|step| step.setting == left.name)
                || kept.iter().any(|other| other.name == left.name && (other.is_good || !left.is_good));
            if !is_elsewhere || left.is_good {
                kept.retain(|other| other.name != left.name);
                kept.push(left);
            }
        }
        self.left = kept;
    }
}

/// A file of a setting.
struct Found {
    path: String,
    text: String,
    value: String,
    wanted: Option<String>,
}

/// The values of a setting's files, and why the first unreadable one stays as it is: an offline group of CPUs does
/// not prevent the others from being changed.
fn found(
    setting: &Setting,
    tree: &Tree,
    device: Option<&Device>,
    is_wanted: bool,
) -> Reading<(Vec<Found>, Option<Lack>)> {
    let places = setting.files.places(tree, device)?;
    if setting.is_for_flash && device.is_some_and(Device::is_rotational) {
        let path = places.first().map_or("", |place| place.path.as_str());
        return Err(Lack::unreadable(path, "the device says that it turns"));
    }
    let (mut files, mut first) = (Vec::new(), None);
    for place in places {
        match one(setting, tree, place, is_wanted) {
            Ok(file) => files.push(file),
            Err(lack) => first = first.or(Some(lack)),
        }
    }
    match first {
        Some(lack) if files.is_empty() => Err(lack),
        first => Ok((files, first)),
    }
}

fn one(setting: &Setting, tree: &Tree, Place { path, own }: Place, is_wanted: bool) -> Reading<Found> {
    if !setting.files.has(&path) {
        return Err(Lack::unreadable(&path, "a link leads to an unknown place"));
    }
    let text = tree.content(&path)?.text;
    let value = setting.value(&path, &text)?;
    let wanted = setting.wanted(&value, own.as_deref());
    if let (true, Some(wanted)) = (is_wanted, &wanted) {
        possible(setting, tree, &path, &text, wanted)?;
    }
    Ok(Found { path, text, value, wanted })
}

/// Checks that a value is among those that the kernel lists, if it lists any.
fn possible(setting: &Setting, tree: &Tree, path: &str, text: &str, wanted: &str) -> Reading<()> {
    let listed = match setting.form {
        Form::Marked => text.replace(['[', ']'], " "),
        Form::Word { among: Some(file) } => {
            let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
            match tree.read(&format!("{folder}/{file}")) {
                Err(Lack::Absent { .. }) => return Ok(()),
                other => other?,
            }
        }
        _ => return Ok(()),
    };
    if listed.split_whitespace().any(|word| word == wanted) {
        return Ok(());
    }
    Err(Lack::unreadable(path, format!("{wanted} is not among what the kernel offers: {}", shown(listed.trim()))))
}

//! `forebay doctor --apply`.

use super::folder::Place;
use crate::output::{self, Format};
use anyhow::{Result, bail};
use forebay_daemon::finding::finding;
use forebay_platform::change::{Left, Plan, Profile, Side, Step, put, put_back};
use forebay_platform::{Device, Lack};
use serde_json::{Value, json};

/// A step and its result; `None` where it was not tried.
type Outcome<'a> = (&'a Step, Option<Result<(), Lack>>);

/// Shows and then makes the changes of a profile; `is_dry` only shows them.
///
/// # Errors
/// Errors that prevent recording the previous settings; a finding where the kernel refused some changes.
pub fn apply(place: &Place<'_>, profile: Profile, device: Option<&Device>, is_dry: bool, format: Format) -> Result<()> {
    // Begun before any setting is read: a concurrent restore could otherwise change the settings after they were recorded.
    let store = if is_dry { None } else { Some(place.begin()?) };
    let plan = Plan::of(profile, place.tree, device);
    let changes: Vec<&Step> = plan.steps.iter().filter(|step| step.is_change()).collect();
    if format == Format::Table {
        match output::text(&difference(profile, device, &changes, &plan.left)) {
            // A reader that takes only the first lines (`| head`) still asked for the change, and exit code 0 reports that it was made.
            Err(error) if output::is_broken_pipe(&error) => {}
            shown => shown?,
        }
    }
    let mut outcomes: Vec<Outcome<'_>> = changes.iter().map(|&step| (step, None)).collect();
    let mut record = None;
    if let Some(store) = store.filter(|_| !plan.is_empty()) {
        place.record(&store, profile.name(), &plan.steps)?;
        let written: Vec<_> = plan.steps.iter().map(|step| put(place.tree, step, Side::After).map(|_| ())).collect();
        for (step, outcome) in &mut outcomes {
            let number = plan.steps.iter().position(|other| std::ptr::eq(other, *step));
            *outcome = number.map(|number| written[number].clone());
        }
        let first = outcomes.iter().find_map(|(_, outcome)| outcome.as_ref()?.as_ref().err());
        if let (Some(first), true) = (first, outcomes.iter().all(|(_, outcome)| matches!(outcome, Some(Err(_))))) {
            let first = first.clone();
            // A failed write may have changed the setting all the same.
            if put_back(place.tree, &plan.steps).iter().any(Result::is_err) {
                bail!("{first}; not all is as it was, and the record stays. Repeat: {}", place.restore_command());
            }
            store.remove()?;
            bail!("{first}; nothing was changed. Settings of the kernel are root's to change: run it as root");
        }
        record = Some(store.place());
    }
    let refused = outcomes.iter().filter(|(_, outcome)| matches!(outcome, Some(Err(_)))).count();
    let shown = match format {
        Format::Json => output::json(json!({
            "profile": profile.name(),
            "root": place.root,
            "device": device.map(|device| &device.name),
            "dry_run": is_dry,
            "changes": outcomes.iter().map(change_json).collect::<Vec<_>>(),
            "left": plan.left.iter().map(left_json).collect::<Vec<_>>(),
            "refused": refused,
            "record": record,
        })),
        Format::Table => {
            let done = outcomes.len() - refused;
            let mut lines = Vec::new();
            for (step, outcome) in &outcomes {
                if let Some(Err(why)) = outcome {
                    lines.push(format!("REFUSED: {}: {why}", step.setting));
                }
            }
            lines.push(match (is_dry, record.is_some()) {
                (true, _) => "Nothing was changed: --dry-run.".to_owned(),
                (false, false) => "There is nothing to change.".to_owned(),
                (false, true) => format!(
                    "Files changed: {done}. To put them back: {}\nTo see whether they hold: the same with --verify",
                    place.restore_command()
                ),
            });
            output::text(&format!("\n{}", lines.join("\n")))
        }
    };
    // Also where the output has no reader: the exit code reports it.
    if refused > 0 {
        return Err(finding(format!(
            "files that the kernel did not let be changed: {refused}; the others are changed"
        )));
    }
    shown
}

/// Steps that change one setting from one value to another, with their count, in order.
fn alike<'a>(changes: &[&'a Step]) -> Vec<(&'a Step, usize)> {
    let mut groups: Vec<(&Step, usize)> = Vec::new();
    for step in changes {
        let key = |step: &Step| (step.setting.clone(), step.from.clone(), step.to.clone());
        match groups.iter_mut().find(|(first, _)| key(first) == key(step)) {
            Some((_, count)) => *count += 1,
            None => groups.push((step, 1)),
        }
    }
    groups
}

fn difference(profile: Profile, device: Option<&Device>, changes: &[&Step], left: &[Left]) -> String {
    let of = device.map_or_else(String::new, |device| format!(" and of {}", device.name));
    let about = Profile::ALL.iter().find(|(known, ..)| *known == profile).map_or("", |(_, _, about)| about);
    let mut lines = vec![format!("Profile {}, on settings of the machine{of}: {about}", profile.name())];
    let groups = alike(changes);
    if !groups.is_empty() {
        let row = |(step, count): &(&Step, usize)| {
            let more = if *count > 1 { format!(" and {} more", count - 1) } else { String::new() };
            let to = step.to.clone().unwrap_or_default();
            vec![step.setting.clone(), step.from.clone(), to, format!("{}{more}", step.path)]
        };
        let rows: Vec<Vec<String>> = groups.iter().map(row).collect();
        lines.push(String::new());
        lines.push(output::table(&["setting", "now", "after", "file"], 4, &rows));
        lines.push(String::new());
    }
    let mut said: Vec<&str> = Vec::new();
    for (step, _) in &groups {
        let Some(setting) = step.known().filter(|setting| !said.contains(&setting.name)) else { continue };
        said.push(setting.name);
        lines.push(format!("{}: {}", setting.name, setting.what));
        lines.extend(
            [("costs", setting.cost), ("source", setting.source), ("price", setting.price)]
                .map(|(key, text)| format!("  {key}: {text}")),
        );
    }
    if !left.is_empty() {
        lines.push(format!("\nLEFT AS IT IS ({})", left.len()));
        lines.extend(left.iter().map(|left| format!("  {}: {}", left.name, left.why)));
    }
    lines.join("\n")
}

fn change_json((step, outcome): &Outcome<'_>) -> Value {
    let setting = step.known();
    json!({
        "name": step.setting,
        "device": step.device,
        "file": step.path,
        "from": step.from,
        "to": step.to,
        "what": setting.map(|setting| setting.what),
        "cost": setting.map(|setting| setting.cost),
        "source": setting.map(|setting| setting.source),
        "price": setting.map(|setting| setting.price),
        "is_changed": outcome.as_ref().map(Result::is_ok),
        "refused": outcome.as_ref().and_then(|outcome| outcome.as_ref().err()).map(ToString::to_string),
    })
}

fn left_json(left: &Left) -> Value {
    json!({ "name": left.name, "device": left.device, "why": left.why, "is_good": left.is_good })
}

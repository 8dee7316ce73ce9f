//! `forebay doctor --restore` and `--verify`.

use super::folder::Place;
use crate::output::{self, Format};
use anyhow::{Result, bail};
use forebay_daemon::finding::finding;
use forebay_platform::Lack;
use forebay_platform::change::{Done, Step, put_back, verify as held};
use serde_json::json;

/// Restores the changed settings, also those of a process that was killed.
///
/// # Errors
/// There is no record, or it is of another boot, or the kernel refuses a value: then the record stays.
pub fn restore(place: &Place<'_>, format: Format) -> Result<()> {
    let (store, record) = place.current()?;
    let back: Vec<(&Step, Result<Done, Lack>)> = record.steps.iter().zip(put_back(place.tree, &record.steps)).collect();
    // A removed device took its settings along; a missing file of the machine itself may come back.
    let is_gone = |(step, outcome): &(&Step, Result<Done, Lack>)| {
        let folder = step.path.rsplit_once('/').map_or("/", |(folder, _)| folder);
        let is_missing = || matches!(place.tree.list(folder, |_| false), Err(Lack::Absent { .. }));
        step.device.is_some() && matches!(outcome, Err(Lack::Absent { .. })) && is_missing()
    };
    let refused: Vec<String> = back
        .iter()
        .filter(|back| !is_gone(back))
        .filter_map(|(step, outcome)| outcome.as_ref().err().map(|why| format!("{}: {why}", step.setting)))
        .collect();
    if refused.is_empty() {
        store.remove()?;
    }
    let written = back.iter().filter(|(_, outcome)| outcome.as_ref().is_ok_and(|done| done.is_written)).count();
    let changed: Vec<(&Step, &Done)> =
        back.iter().filter_map(|(step, outcome)| Some((*step, outcome.as_ref().ok()?))).filter(changed_since).collect();
    let gone: Vec<&Step> = back.iter().filter(|back| is_gone(back)).map(|(step, _)| *step).collect();
    match format {
        Format::Json => output::json(json!({
            "profile": record.profile,
            "root": place.root,
            "put_back": written,
            "already_so": back.len() - written - refused.len() - gone.len(),
            "changed_since": changed.iter().map(|(step, done)| json!({
                "name": step.setting, "device": step.device, "file": step.path,
                "left_as": step.to, "found": done.found, "put_back_to": step.from,
            })).collect::<Vec<_>>(),
            "gone": gone.iter().map(|step| &step.path).collect::<Vec<_>>(),
            "refused": refused,
        }))?,
        Format::Table => {
            let mut lines = Vec::new();
            for (step, done) in &changed {
                lines.push(format!(
                    "{}: {} was left as {}, and somebody else made it {}: it is {} again",
                    step.setting,
                    step.path,
                    step.to.as_deref().unwrap_or("it was"),
                    done.found,
                    step.from
                ));
            }
            lines.extend(
                gone.iter().map(|step| format!("{}: {} is gone, with what was set there", step.setting, step.path)),
            );
            lines.extend(refused.iter().map(|why| format!("REFUSED: {why}")));
            let so = back.len() - written - refused.len() - gone.len();
            lines.push(format!("Files put back: {written} of {}; {so} were so already.", back.len()));
            output::text(&lines.join("\n"))?;
        }
    }
    if refused.is_empty() {
        return Ok(());
    }
    bail!(
        "{}: files that were not put back: {}; the record stays. Settings of the kernel are root's to change; then repeat: {}",
        store.place().display(),
        refused.len(),
        place.restore_command()
    )
}

/// Whether a setting has neither the applied nor the previous value.
fn changed_since((step, done): &(&Step, &Done)) -> bool {
    step.to.as_ref().is_some_and(|to| *to != done.found && step.from != done.found)
}

/// Checks whether the applied settings are still in force.
///
/// # Errors
/// There is no record, or it is of another boot; a finding where a setting was changed since.
pub fn verify(place: &Place<'_>, format: Format) -> Result<()> {
    let (_store, record) = place.current()?;
    if record.profile == "ladder" {
        bail!("a ladder was killed, and what it changed is partly in force: put it back: {}", place.restore_command());
    }
    let looked: Vec<_> = record.steps.iter().filter_map(|step| Some((step, held(place.tree, step)?))).collect();
    let lost: Vec<_> = looked.iter().filter(|(_, held)| !held.has_held).collect();
    let running = forebay_platform::meddlers(place.tree);
    let suspects = |step: &Step| -> Vec<&String> {
        let is_interrupt = step.setting == "interrupts";
        running.iter().filter(|name| (name.as_str() == "irqbalance") == is_interrupt).collect()
    };
    let now = |held: &forebay_platform::change::Held| match &held.now {
        Ok(now) => now.clone(),
        Err(lack) => lack.to_string(),
    };
    match format {
        Format::Json => output::json(json!({
            "profile": record.profile,
            "root": place.root,
            "held": looked.len() - lost.len(),
            "lost": lost.iter().map(|(step, held)| json!({
                "name": step.setting, "device": step.device, "file": step.path,
                "left_as": step.to, "now": now(held), "suspects": suspects(step),
            })).collect::<Vec<_>>(),
            "running": running,
        }))?,
        Format::Table => {
            let mut lines = Vec::new();
            for (step, held) in &lost {
                let by = match suspects(step).as_slice() {
                    [] => "none of the services that are known to do that runs".to_owned(),
                    names => {
                        let names: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
                        format!("{} runs here and sets such things: stop it, or have it set this", names.join(", "))
                    }
                };
                lines.push(format!(
                    "{}: {} was set to {} and says {}; {by}",
                    step.setting,
                    step.path,
                    step.to.as_deref().unwrap_or("-"),
                    now(held)
                ));
            }
            lines.push(format!(
                "Profile {}: {} of {} files hold.",
                record.profile,
                looked.len() - lost.len(),
                looked.len()
            ));
            output::text(&lines.join("\n"))?;
        }
    }
    if lost.is_empty() { Ok(()) } else { Err(finding(format!("settings that did not hold: {}", lost.len()))) }
}

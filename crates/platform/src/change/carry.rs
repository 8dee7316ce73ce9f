//! Performs single steps: writes a file, reads it back, and reports the value that was there.

use super::process;
use super::setting::{Form, Want};
use super::step::Step;
use crate::lack::{Lack, Reading};
use crate::tree::Tree;

/// The direction of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Back to the value before.
    Before,
    /// To the value of the plan.
    After,
}

/// The result of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// The value that the file had.
    pub found: String,
    /// Whether the file was written.
    pub is_written: bool,
}

/// Whether a file still has the value that was written to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// Its present value.
    pub now: Reading<String>,
    /// Whether this is the value that was written.
    pub has_held: bool,
}

fn unknown(step: &Step) -> Lack {
    Lack::unreadable(&step.path, format!("no file of the setting {:?} that is known here", step.setting))
}

/// Brings one file to the value of `side`, and reads it back.
///
/// # Errors
/// The step belongs to no known setting, the kernel refuses the value, or the file has another value afterwards.
pub fn put(tree: &Tree, step: &Step, side: Side) -> Reading<Done> {
    let setting = step.known().ok_or_else(|| unknown(step))?;
    // A file that is only restored may be missing meanwhile.
    if side == Side::After && step.to.is_none() {
        return Ok(Done { found: String::new(), is_written: false });
    }
    if setting.form == Form::Process {
        let wanted = if side == Side::After { step.to.as_ref().unwrap_or(&step.from) } else { &step.from };
        let (found, is_written) = process::bring(tree, &step.path, &step.text, wanted)?;
        return Ok(Done { found, is_written });
    }
    let content = tree.content(&step.path)?;
    // Text that cannot be parsed was written by another program, or only half: it is overwritten, and returned as it
    // is.
    let found = setting.value(&step.path, &content.text).unwrap_or_else(|_| content.text.trim_end().to_owned());
    let (value, text) = match (side, &step.to) {
        (Side::After, Some(to)) => (to, setting.text_with(&content.text, to)),
        (_, _) => (&step.from, step.text.clone()),
    };
    let is_so = |content: &crate::tree::Content| {
        if content.is_kernel {
            setting.value(&step.path, &content.text).is_ok_and(|found| found == *value)
        } else {
            content.text == text
        }
    };
    // A value beyond a bound is as good as the bound.
    let is_bound = matches!(setting.want, Want::Least(_) | Want::Most(_));
    if is_so(&content) || side == Side::After && is_bound && setting.wanted(&found, None).is_none() {
        return Ok(Done { found, is_written: false });
    }
    tree.write(&step.path, value, &text)?;
    let after = tree.content(&step.path)?;
    if !is_so(&after) {
        let said = setting.value(&step.path, &after.text).unwrap_or(after.text);
        return Err(Lack::unreadable(&step.path, format!("{value} was written, and it says {said}")));
    }
    Ok(Done { found, is_written: true })
}

/// Restores all files. A value that the kernel refuses is tried once more after all others are restored: the kernel
/// accepts some values only if others allow them (of a governor's two thresholds, the lower one must stay below the
/// upper).
pub fn put_back(tree: &Tree, steps: &[Step]) -> Vec<Reading<Done>> {
    let mut back: Vec<Reading<Done>> = steps.iter().map(|step| put(tree, step, Side::Before)).collect();
    for (step, outcome) in steps.iter().zip(&mut back) {
        if matches!(outcome, Err(Lack::Unreadable { .. })) {
            *outcome = put(tree, step, Side::Before);
        }
    }
    back
}

/// Checks whether a file still has the value that a plan wrote to it; `None` for a file that is only restored.
pub fn verify(tree: &Tree, step: &Step) -> Option<Held> {
    let to = step.to.as_ref()?;
    let now = step.known().ok_or_else(|| unknown(step)).and_then(|setting| {
        let content = tree.content(&step.path)?;
        setting.value(&step.path, &content.text)
    });
    let is_bound = |now: &str| {
        let bound = step.known().filter(|setting| matches!(setting.want, Want::Least(_) | Want::Most(_)));
        bound.is_some_and(|setting| setting.wanted(now, None).is_none())
    };
    let has_held = now.as_ref().is_ok_and(|now| now == to || is_bound(now));
    Some(Held { now, has_held })
}

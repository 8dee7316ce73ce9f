//! Carrying out single steps: writing, reading back, and saying what was found.

use super::process;
use super::setting::{Form, Want};
use super::step::Step;
use crate::lack::{Lack, Reading};
use crate::tree::Tree;

/// Which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// As it was before.
    Before,
    /// As the plan wants it.
    After,
}

/// What came of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// The value that was found.
    pub found: String,
    /// It was written.
    pub is_written: bool,
}

/// Whether a file says what was written to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// What it says.
    pub now: Reading<String>,
    /// That is what was written.
    pub has_held: bool,
}

fn unknown(step: &Step) -> Lack {
    Lack::unreadable(&step.path, format!("no file of the setting {:?} that is known here", step.setting))
}

/// Brings one file to where it belongs, and reads it back.
///
/// # Errors
/// What is no step of a setting that is known, what the kernel refuses, and what says something else afterwards.
pub fn put(tree: &Tree, step: &Step, side: Side) -> Reading<Done> {
    let setting = step.known().ok_or_else(|| unknown(step))?;
    // What is only put back need not even be there meanwhile.
    if side == Side::After && step.to.is_none() {
        return Ok(Done { found: String::new(), is_written: false });
    }
    if setting.form == Form::Process {
        let wanted = if side == Side::After { step.to.as_ref().unwrap_or(&step.from) } else { &step.from };
        let (found, is_written) = process::bring(tree, &step.path, &step.text, wanted)?;
        return Ok(Done { found, is_written });
    }
    let content = tree.content(&step.path)?;
    // What cannot be understood was written by somebody else, or half: it is written over, and shown as it is.
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
    // Of a bound what is beyond it is as good.
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

/// Brings all files to where they were. What was refused is tried once more when all others are back: the kernel takes some values only where
/// others allow them (of a governor's two thresholds the lower one stays below the upper).
pub fn put_back(tree: &Tree, steps: &[Step]) -> Vec<Reading<Done>> {
    let mut back: Vec<Reading<Done>> = steps.iter().map(|step| put(tree, step, Side::Before)).collect();
    for (step, outcome) in steps.iter().zip(&mut back) {
        if matches!(outcome, Err(Lack::Unreadable { .. })) {
            *outcome = put(tree, step, Side::Before);
        }
    }
    back
}

/// Looks whether a file still says what a plan wrote to it; nothing of those that are only put back.
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

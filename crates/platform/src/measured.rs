//! Effects of settings that a ladder has measured on this machine, to be shown beside the costs that sources quote.

use crate::change::boot_id;
use crate::machine::Machine;
use crate::tree::Tree;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The facts that distinguish machines, as far as a measurement of settings depends on them. Contains neither names
/// nor serial numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    /// The boot; `None` if a copy of a tree has no boot id.
    pub boot_id: Option<String>,
    /// The CPU's vendor and model.
    pub cpu: Option<String>,
    /// The kernel's release.
    pub kernel: Option<String>,
}

impl Fingerprint {
    /// The fingerprint of a machine.
    pub fn of(tree: &Tree, machine: &Machine) -> Self {
        let cpu = machine.cpu.identity.as_ref().ok();
        let cpu = cpu.map(|cpu| format!("{} {}", cpu.vendor, cpu.model).trim().to_owned());
        Self {
            boot_id: boot_id(tree).unwrap_or_default(),
            cpu: cpu.filter(|cpu| !cpu.is_empty()),
            kernel: machine.kernel.release.clone().ok(),
        }
    }

    fn said(&self) -> String {
        let or = |part: &Option<String>, what| part.clone().unwrap_or_else(|| format!("unknown {what}"));
        format!("{}, {}", or(&self.cpu, "CPU"), or(&self.kernel, "kernel"))
    }
}

/// How certain it is that a ladder was measured on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// In this boot.
    ThisBoot,
    /// With the same model of CPU and the same kernel, in another boot, or on an identical machine.
    Alike,
}

impl Place {
    /// A description in words.
    pub fn name(self) -> &'static str {
        match self {
            Self::ThisBoot => "in this boot",
            Self::Alike => "with this model of CPU and this kernel, in another boot",
        }
    }
}

/// The effect of a rung on one figure of a load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Effect {
    /// Name of the rung.
    pub rung: String,
    /// Name of the load.
    pub job: String,
    /// Name of the figure.
    pub figure: String,
    /// The figure on this rung divided by the figure on the rung of comparison.
    pub ratio: f64,
    /// Lower end of the ratio's interval.
    pub ratio_low: f64,
    /// Upper end of the ratio's interval.
    pub ratio_high: f64,
    /// Joint confidence of all intervals of the ladder, in percent.
    pub confidence_percent: f64,
    /// Name of the rung of comparison.
    pub against: String,
    /// `slower`, `faster` or `no difference shown`, for the changed setting.
    pub verdict: &'static str,
    /// The smallest factor that the measurement would have shown.
    pub would_show: f64,
}

/// Why a ladder cannot be shown beside an audit.
#[derive(Debug, Error)]
pub enum MeasuredError {
    /// The text is not the result of a ladder.
    #[error("no result of forebay doctor --ladder --output json: {0}")]
    Garbage(String),
    /// The result does not say where it was measured.
    #[error("it does not say on which machine it was measured: a model's, a tree's, or one of an older version")]
    Nowhere,
    /// The result is from another machine.
    #[error("it was measured on another machine or kernel ({was}); this is {is}")]
    Elsewhere {
        /// The machine of the measurement.
        was: String,
        /// This machine.
        is: String,
    },
}

#[derive(Debug, Deserialize)]
struct File {
    result: Ladder,
}

#[derive(Debug, Deserialize)]
struct Ladder {
    experiment: String,
    machine: Option<Fingerprint>,
    device: Option<String>,
    confidence_percent: f64,
    rungs: Vec<Rung>,
}

#[derive(Debug, Deserialize)]
struct Rung {
    name: String,
    against: Option<String>,
    jobs: Vec<Job>,
}

#[derive(Debug, Deserialize)]
struct Job {
    job: String,
    effects: Vec<OfFigure>,
}

#[derive(Debug, Deserialize)]
struct OfFigure {
    figure: String,
    comparison: Option<Comparison>,
}

#[derive(Debug, Deserialize)]
struct Comparison {
    ratio: f64,
    ratio_low: f64,
    ratio_high: f64,
    verdict: String,
    would_show: f64,
}

/// The effects that a ladder has measured.
#[derive(Debug)]
pub struct Measured {
    /// How certain it is that they were measured here.
    pub place: Place,
    ladder: Ladder,
}

impl Measured {
    /// Parses the result of a ladder in JSON, which must be from this machine.
    ///
    /// # Errors
    /// The text is no such result, or is from another machine.
    pub fn read(text: &str, here: &Fingerprint) -> Result<Self, MeasuredError> {
        let file: File = serde_json::from_str(text).map_err(|error| MeasuredError::Garbage(error.to_string()))?;
        if file.result.experiment != "ladder" {
            return Err(MeasuredError::Garbage(format!("its experiment is {:.40?}", file.result.experiment)));
        }
        let Some(was) = &file.result.machine else { return Err(MeasuredError::Nowhere) };
        let is_alike = |was: &Option<String>, is: &Option<String>| was.is_some() && was == is;
        let place = if is_alike(&was.boot_id, &here.boot_id) {
            Place::ThisBoot
        } else if is_alike(&was.cpu, &here.cpu) && is_alike(&was.kernel, &here.kernel) {
            Place::Alike
        } else {
            return Err(MeasuredError::Elsewhere { was: was.said(), is: here.said() });
        };
        Ok(Self { place, ladder: file.result })
    }

    /// The effects for a setting of the machine or of one of its devices.
    pub fn of(&self, setting: &str, device: Option<&str>) -> Vec<Effect> {
        let ladder = &self.ladder;
        if device.is_some() && device != ladder.device.as_deref() {
            return Vec::new();
        }
        // The ladder's fixed frequencies belong to the rule about the base frequency.
        let is_fixed = |rung: &Rung| setting == "base-frequency" && rung.name.starts_with("fixed-");
        let rungs = ladder.rungs.iter().filter(|rung| rung.name == setting || is_fixed(rung));
        let jobs = rungs.flat_map(|rung| rung.jobs.iter().map(move |job| (rung, job)));
        let figures = jobs.flat_map(|(rung, job)| job.effects.iter().map(move |figure| (rung, job, figure)));
        let effect = |(rung, job, figure): (&Rung, &Job, &OfFigure)| {
            let found = figure.comparison.as_ref()?;
            Some(Effect {
                rung: rung.name.clone(),
                job: job.job.clone(),
                figure: figure.figure.clone(),
                ratio: found.ratio,
                ratio_low: found.ratio_low,
                ratio_high: found.ratio_high,
                confidence_percent: ladder.confidence_percent,
                against: rung.against.clone()?,
                // A is the rung of comparison.
                verdict: match found.verdict.as_str() {
                    "a better" => "slower",
                    "b better" => "faster",
                    _ => "no difference shown",
                },
                would_show: found.would_show,
            })
        };
        figures.filter_map(effect).collect()
    }
}

impl Effect {
    /// A description in words.
    pub fn text(&self) -> String {
        let would = match self.verdict {
            "no difference shown" => format!(" ({:.3} x would have been)", self.would_show),
            _ => String::new(),
        };
        format!(
            "{} on rung {:?} is {:.3} ({:.3} - {:.3}) times that on {:?}: {}{would}",
            self.figure_of_job(),
            self.rung,
            self.ratio,
            self.ratio_low,
            self.ratio_high,
            self.against,
            self.verdict
        )
    }

    fn figure_of_job(&self) -> String {
        if self.figure.contains(&self.job) { self.figure.clone() } else { format!("{}: {}", self.job, self.figure) }
    }
}

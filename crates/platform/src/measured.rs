//! What a ladder has measured of settings, on this machine: it stands beside what sources say that they cost.

use crate::change::boot_id;
use crate::machine::Machine;
use crate::tree::Tree;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// What tells one machine from another, as far as a measurement of settings goes. It says neither names nor serial numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    /// The boot; none where a copy of a tree has none.
    pub boot_id: Option<String>,
    /// The CPU's vendor and model.
    pub cpu: Option<String>,
    /// The kernel's release.
    pub kernel: Option<String>,
}

impl Fingerprint {
    /// That of a machine.
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

/// How sure it is that a ladder was climbed on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// In this very boot.
    ThisBoot,
    /// With this model of CPU and this kernel, in another boot, or on a twin of the machine.
    Alike,
}

impl Place {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::ThisBoot => "in this boot",
            Self::Alike => "with this model of CPU and this kernel, in another boot",
        }
    }
}

/// What a rung changed in a figure of a load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Effect {
    /// The rung.
    pub rung: String,
    /// The load.
    pub job: String,
    /// The figure.
    pub figure: String,
    /// The figure on the rung over that on the one that it is held against.
    pub ratio: f64,
    /// Lower end of its interval.
    pub ratio_low: f64,
    /// Upper end.
    pub ratio_high: f64,
    /// Confidence of all intervals of the ladder together, in percent.
    pub confidence_percent: f64,
    /// The rung that it is held against.
    pub against: String,
    /// `slower`, `faster` or `no difference shown`, of what is with the setting changed.
    pub verdict: &'static str,
    /// The smallest factor that would have been shown.
    pub would_show: f64,
}

/// A ladder that cannot stand beside an audit.
#[derive(Debug, Error)]
pub enum MeasuredError {
    /// It is none.
    #[error("no result of forebay doctor --ladder --output json: {0}")]
    Garbage(String),
    /// It does not say where it was measured.
    #[error("it does not say on which machine it was measured: a model's, a tree's, or one of an older version")]
    Nowhere,
    /// It is another machine's.
    #[error("it was measured on another machine or kernel ({was}); this is {is}")]
    Elsewhere {
        /// Where it was measured.
        was: String,
        /// What this is.
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

/// What a ladder has measured.
#[derive(Debug)]
pub struct Measured {
    /// Where.
    pub place: Place,
    ladder: Ladder,
}

impl Measured {
    /// Reads the result of a ladder in JSON, which is to be of this machine.
    ///
    /// # Errors
    /// What is no such result, and what is of another machine.
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

    /// What it says of a setting, of the machine or of one of its devices.
    pub fn of(&self, setting: &str, device: Option<&str>) -> Vec<Effect> {
        let ladder = &self.ladder;
        if device.is_some() && device != ladder.device.as_deref() {
            return Vec::new();
        }
        // The ladder's fixed frequencies are about what the rule of the base frequency says.
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
                // A is the rung below.
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
    /// In words.
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

//! Results of a use case beside the published figures.

use super::published::Figure;
use super::run::{Figures, Findings, OfSeed, Through};
use crate::output;
use serde_json::{Value, json};

/// Ratios over a single drive, and the figure of each.
const RATIOS: [(&str, &str); 9] = [
    ("EPBW", "epbw_pb"),
    ("EDPWD", "edpwd"),
    ("write bandwidth", "write_mb_per_s"),
    ("requests a second", "requests_per_s"),
    ("read p50", "read_p50_us"),
    ("read p75", "read_p75_us"),
    ("read p99", "read_p99_us"),
    ("read p99.9", "read_p99_9_us"),
    ("read p99.99", "read_p99_99_us"),
];

/// Absolute figures with their decimals.
const ROWS: [(&str, &str, usize); 17] = [
    ("EPBW, PB", "epbw_pb", 4),
    ("EDPWD", "edpwd", 3),
    ("alpha", "alpha", 3),
    ("fast bytes a byte", "fast_bytes_per_host_byte", 3),
    ("capacity drive's WAF", "waf", 3),
    ("written, MB/s", "write_mb_per_s", 1),
    ("requests a second", "requests_per_s", 0),
    ("read p50, us", "read_p50_us", 0),
    ("read p75, us", "read_p75_us", 0),
    ("read p99, us", "read_p99_us", 0),
    ("read p99.9, us", "read_p99_9_us", 0),
    ("read p99.99, us", "read_p99_99_us", 0),
    ("write p50, us", "write_p50_us", 0),
    ("write p75, us", "write_p75_us", 0),
    ("write p99, us", "write_p99_us", 0),
    ("write p99.9, us", "write_p99_9_us", 0),
    ("write p99.99, us", "write_p99_99_us", 0),
];

/// Median, least and greatest over the seeds. The range of n runs covers the median of all possible runs with probability 1 - 2^(1-n)
/// (order statistics).
#[derive(Clone, Copy, Debug, PartialEq)]
struct Spread {
    median: f64,
    least: f64,
    greatest: f64,
}

impl Spread {
    /// `None` where a seed has no value.
    fn of(values: impl Iterator<Item = Option<f64>>) -> Option<Self> {
        let mut values: Vec<f64> = values.collect::<Option<_>>()?;
        values.sort_by(f64::total_cmp);
        let (least, greatest) = (*values.first()?, *values.last()?);
        let half = values.len() / 2;
        let median = if values.len() % 2 == 1 { values[half] } else { (values[half - 1] + values[half]) / 2.0 };
        Some(Self { median, least, greatest })
    }

    fn json(self, seeds: usize) -> Value {
        json!({ "median": self.median, "least": self.least, "greatest": self.greatest, "seeds": seeds })
    }

    /// Range in percent of the median.
    fn percent(self) -> f64 {
        if self.median == 0.0 { 0.0 } else { (self.greatest - self.least) / self.median.abs() * 100.0 }
    }
}

/// A table row: medians, then their widest range; `None` where no value is known.
fn row(name: &str, before: Option<String>, values: &[Option<Spread>], decimals: usize) -> Option<Vec<String>> {
    let widest = values.iter().flatten().map(|value| value.percent()).reduce(f64::max)?;
    let medians = values.iter().map(|value| or_dash(*value, |value| seen(value.median, decimals)));
    let cells = std::iter::once(name.to_owned()).chain(before).chain(medians);
    Some(cells.chain([format!("{widest:.1} %")]).collect())
}

fn seen(value: f64, decimals: usize) -> String {
    format!("{value:.decimals$}")
}

fn or_dash<T>(value: Option<T>, text: impl Fn(T) -> String) -> String {
    value.map_or_else(|| "-".to_owned(), text)
}

impl Findings {
    fn figure(&self, setting: &str, key: &str) -> Option<Spread> {
        Spread::of(self.seeds.iter().map(|seed| seed.value(setting, key)))
    }

    /// Ratio of a set-up's figure to that of a single drive, seed by seed.
    fn ratio(&self, setting: &str, over: &str, key: &str) -> Option<Spread> {
        Spread::of(self.seeds.iter().map(|seed| {
            let over = seed.value(over, key).filter(|value| *value > 0.0)?;
            Some(seed.value(setting, key)? / over)
        }))
    }

    fn published(&self, key: &str) -> Option<&'static Figure> {
        self.plan.case.figures.iter().find(|figure| figure.key == key)
    }

    fn published_ratio(&self, over: &str, key: &str) -> Option<f64> {
        let figure = self.published(key)?;
        Some(figure.tiered? / if over == "qlc" { figure.qlc? } else { figure.tlc? })
    }

    /// A column of the PRISM table; `of` selects the figure.
    fn through(&self, of: fn(&Through) -> Option<f64>, row: usize) -> Option<Spread> {
        Spread::of(self.seeds.iter().map(|seed| seed.workload.get(row).and_then(of)))
    }
}

impl OfSeed {
    fn value(&self, setting: &str, key: &str) -> Option<f64> {
        self.settings.get(setting).and_then(|figures: &Figures| figures.get(key)).copied()
    }
}

/// As JSON.
pub fn json(found: &Findings) -> Value {
    let count = found.seeds.len();
    let case = found.plan.case;
    let spread = |value: Option<Spread>| value.map(|value| value.json(count));
    let workload: Vec<Value> = case
        .classes
        .iter()
        .enumerate()
        .map(|(row, class)| {
            json!({
                "class": class.name,
                "published": { "occupancy_gb": class.occupancy_gb, "written_gb": class.written_gb,
                               "beta": class.written_gb / class.occupancy_gb },
                "ours_at_scale_1": {
                    "occupancy_gb": spread(found.through(|row| Some(row.occupancy_gb), row)),
                    "written_gb": spread(found.through(|row| Some(row.written_gb), row)),
                    "alpha": spread(found.through(|row| row.alpha, row)),
                    "beta": spread(found.through(|row| row.beta, row)),
                },
            })
        })
        .collect();
    let settings: Vec<Value> = case
        .settings()
        .iter()
        .map(|setting| {
            let figures: serde_json::Map<String, Value> = ROWS
                .iter()
                .filter_map(|(_, key, _)| Some(((*key).to_owned(), found.figure(setting.name, key)?.json(count))))
                .collect();
            json!({ "name": setting.name, "about": setting.about, "figures": figures })
        })
        .collect();
    let ratios: Vec<Value> = ["qlc", "tlc"]
        .iter()
        .flat_map(|over| RATIOS.iter().map(move |(name, key)| (over, name, key)))
        .map(|(over, name, key)| {
            let ours: serde_json::Map<String, Value> = case.settings()[2..]
                .iter()
                .map(|setting| (setting.name.to_owned(), json!(spread(found.ratio(setting.name, over, key)))))
                .collect();
            json!({ "figure": name, "key": key, "over": over, "published": found.published_ratio(over, key), "ours": ours })
        })
        .collect();
    let seeds: Vec<Value> = found
        .seeds
        .iter()
        .map(|seed| json!({ "seed": seed.seed, "figures": seed.settings, "classes": seed.classes }))
        .collect();
    let published: serde_json::Map<String, Value> = case
        .figures
        .iter()
        .map(|figure| {
            let of = json!({ "tlc": figure.tlc, "qlc": figure.qlc, "tiered": figure.tiered });
            (figure.key.to_owned(), of)
        })
        .collect();
    json!({
        "use_case": case.name,
        "about": case.about,
        "generator": case.generator,
        "depth": case.depth,
        "scale": found.plan.scale,
        "seeds": count,
        "fast_tier_bytes": found.plan.fast_bytes,
        "workload": workload,
        "published": published,
        "settings": settings,
        "ratios": ratios,
        "runs": seeds,
    })
}

/// As text.
pub fn text(found: &Findings) -> String {
    let case = found.plan.case;
    let rows: Vec<Vec<String>> = case
        .classes
        .iter()
        .enumerate()
        .map(|(row, class)| {
            let ours = |of: fn(&Through) -> Option<f64>, decimals| {
                or_dash(found.through(of, row), |value| seen(value.median, decimals))
            };
            vec![
                class.name.to_owned(),
                seen(class.occupancy_gb, 1),
                ours(|row| Some(row.occupancy_gb), 1),
                seen(class.written_gb, 1),
                ours(|row| Some(row.written_gb), 1),
                ours(|row| row.alpha, 3),
                seen(class.written_gb / class.occupancy_gb, 0),
                ours(|row| row.beta, 0),
            ]
        })
        .collect();
    let head = ["CLASS", "GB HELD", "OURS", "WRITTEN", "OURS", "ALPHA", "BETA", "OURS"];
    let workload = output::table(&head, 1, &rows);
    let rows: Vec<Vec<String>> = ROWS
        .iter()
        .filter_map(|(name, key, decimals)| {
            let values: Vec<_> = case.settings().iter().map(|setting| found.figure(setting.name, key)).collect();
            row(name, None, &values, *decimals)
        })
        .collect();
    let heads: Vec<&str> = case.settings().iter().map(|setting| setting.head).collect();
    let figures = output::table(&[&["MEDIAN"], &heads[..], &["SPREAD"]].concat(), 1, &rows);
    let mut rows = Vec::new();
    for (over, of) in [("qlc", "QLC"), ("tlc", "TLC")] {
        for (name, key) in RATIOS {
            let published = or_dash(found.published_ratio(over, key), |value| seen(value, 2));
            let ratios: Vec<_> =
                case.settings()[2..].iter().map(|setting| found.ratio(setting.name, over, key)).collect();
            rows.extend(row(&format!("{name} over {of}"), Some(published), &ratios, 2));
        }
    }
    let ratios = output::table(&[&["RATIO", "PUBLISHED"], &heads[2..], &["SPREAD"]].concat(), 1, &rows);
    let compressed = match case.compressible_percent {
        Some(percent) => {
            format!(" LZ4: the same, {percent} % of the data\ncompressible, and compressed on the capacity tier.")
        }
        None => String::new(),
    };
    format!(
        "{}: {}\nscale {} (GB as at scale 1), {}, depth {}, virtual time\n{} of {} before {}, beside {} and {} alone\n\n\
         The workload through the PRISM, published and ours\n{workload}\n\n{figures}\n\n{ratios}\n\n\
         RULES: the published classifier, with all evidence. HINTS: write-lifetime hints and\n\
         marks alone. NOTHING: places alone.{compressed}\nSPREAD: least to greatest of the seeds over the\n\
         median, the widest of the row; JSON has each.",
        case.name,
        case.about,
        found.plan.scale,
        output::count(found.seeds.len() as u64, "seed"),
        case.depth,
        output::size(found.plan.fast_bytes),
        case.fast.0,
        case.qlc.0,
        case.qlc.0,
        case.tlc.0,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_median_least_and_greatest_of_all_seeds_or_nothing() {
        let spread = |values: &[f64]| Spread::of(values.iter().map(|value| Some(*value)));
        assert_eq!(spread(&[3.0, 1.0, 2.0]), Some(Spread { median: 2.0, least: 1.0, greatest: 3.0 }));
        assert_eq!(spread(&[4.0, 1.0, 2.0, 3.0]).map(|found| found.median), Some(2.5));
        assert_eq!(spread(&[]), None);
        assert_eq!(
            Spread::of([Some(1.0), None].into_iter()),
            None,
            "a seed without a value is not left out in silence"
        );
        assert_eq!(spread(&[1.0, 3.0]).map(Spread::percent), Some(100.0));
        let cells = row("x", Some("9".to_owned()), &[spread(&[1.0, 2.0]), None], 1).unwrap();
        assert_eq!(cells, ["x", "9", "1.5", "-", "66.7 %"]);
        assert_eq!(row("x", None, &[None], 1), None);
    }
}

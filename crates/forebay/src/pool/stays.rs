//! What decides how long data stays on the fast tier, and which tier will be worn first: for programs and for people.

use crate::output;
use forebay_prism::Lifetime;
use forebay_volume::Engine;
use forebay_volume::engine::TierWear;
use serde_json::{Value, json};

/// Groups that people are shown: those that are written and collected most.
const SHOWN_GROUPS: usize = 8;
const DAY_SECONDS: f64 = 86_400.0;

/// Groups of writes: what they are known by, how long their data lives, and what was decided of them.
pub fn json(engine: &Engine) -> Value {
    let classes = engine.prism().table().classes();
    let groups = engine.stays().into_iter().map(|group| {
        let (discarded, overwritten) = group.traits.history.octaves();
        let class = classes.get(usize::from(group.traits.class)).map(|spec| spec.name.as_str());
        let blocks = |blocks: u64| blocks * 4096;
        json!({
            // None: the classes that behaviour decides between.
            "class": class,
            "hint": Lifetime::from_number(u64::from(group.traits.hint)).name(),
            "discarded_at_octave": discarded,
            "overwritten_at_octave": overwritten,
            "read_octaves": group.traits.read_ages.map(|age| age.checked_sub(1)),
            "written_share": group.written_part,
            "living_bytes": blocks(group.living_blocks),
            "half_dies_by_bytes": group.median_life_blocks.map(blocks),
            "stays_bytes": blocks(group.share.long_blocks),
            "others_stay_bytes": blocks(group.share.short_blocks),
            "stays_share": group.share.part_long,
            "saved_share": group.saved_part,
            "came_to_capacity_bytes": blocks(group.costs.came_blocks),
            "collected_bytes": blocks(group.costs.collected_blocks),
            "write_amplification": group.write_amplification,
        })
    });
    let groups: Vec<Value> = groups.collect();
    let others = engine.costs_of_others();
    let others = json!({
        "came_to_capacity_bytes": others.came_blocks * 4096,
        "collected_bytes": others.collected_blocks * 4096,
    });
    json!({ "price": engine.price_of_staging(), "groups": groups, "others": others })
}

/// What the tiers were written since `seconds` ago, and how long they last at that rate.
pub fn wear(engine: &Engine, seconds: f64) -> Value {
    let days = seconds / DAY_SECONDS;
    let tier = |name: &str, wear: TierWear| {
        let per_day = if days > 0.0 { wear.since_start_bytes as f64 / days } else { 0.0 };
        let left = wear.endurance_bytes.map(|rated| rated.saturating_sub(wear.written_bytes) as f64);
        let years = left.filter(|_| per_day > 0.0).map(|left| left / per_day / 365.0);
        json!({
            "name": name,
            "written_bytes": wear.written_bytes,
            "written_since_start_bytes": wear.since_start_bytes,
            "endurance_bytes": wear.endurance_bytes,
            "years_left": years,
        })
    };
    let [fast, capacity] = engine.wear();
    Value::Array(vec![tier("fast", fast), tier("capacity", capacity)])
}

/// The groups that are written and collected most, as a table.
pub fn table(stays: &Value) -> Option<String> {
    let size = |value: &Value| value.as_u64().map_or_else(|| "-".to_owned(), output::size);
    let share =
        |value: &Value| value.as_f64().map_or_else(|| "-".to_owned(), |share| format!("{:.0} %", share * 100.0));
    let octave = |value: &Value| value.as_u64().map(|octave| octave.to_string());
    let rows: Vec<Vec<String>> = stays["groups"]
        .as_array()
        .into_iter()
        .flatten()
        .take(SHOWN_GROUPS)
        .map(|group| {
            let was = octave(&group["discarded_at_octave"]).map(|octave| format!("gone at {octave}"));
            let was = was.or_else(|| octave(&group["overwritten_at_octave"]).map(|octave| format!("age {octave}")));
            let read = group["read_octaves"].as_array().into_iter().flatten().filter_map(octave).collect::<Vec<_>>();
            vec![
                group["class"].as_str().unwrap_or("(any)").to_owned(),
                was.unwrap_or_else(|| "-".to_owned()),
                if read.is_empty() { "-".to_owned() } else { read.join(",") },
                share(&group["written_share"]),
                size(&group["living_bytes"]),
                size(&group["half_dies_by_bytes"]),
                size(&group["stays_bytes"]),
                share(&group["saved_share"]),
                group["write_amplification"].as_f64().map_or_else(|| "-".to_owned(), |waf| format!("{waf:.2}")),
            ]
        })
        .collect();
    let head = ["WRITES OF", "BEFORE", "READ", "SHARE", "LIVING", "HALF DEAD", "STAYS", "SAVED", "WAF"];
    (!rows.is_empty()).then(|| output::table(&head, 3, &rows))
}

/// One line on wear: which tier ends the pool's life, where that is known.
pub fn wear_line(wear: &Value) -> Option<String> {
    let years = |tier: &Value| tier["years_left"].as_f64();
    let [fast, capacity] = wear.as_array()?.as_slice() else { return None };
    let (fast, capacity) = (years(fast)?, years(capacity)?);
    let first = if fast < capacity { "fast" } else { "capacity" };
    let (least, other) = (fast.min(capacity), fast.max(capacity));
    let time = |years: f64| match years {
        0.0..1.0 => format!("{:.1} days", years * 365.0),
        _ => format!("{years:.1} years"),
    };
    Some(format!(
        "at the rate since the start the {first} tier is worn first, in {}; the other in {}",
        time(least),
        time(other)
    ))
}

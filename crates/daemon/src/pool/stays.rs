//! How long data stays on the fast tier, and which tier wears out first, as JSON for the status.

use forebay_prism::Lifetime;
use forebay_volume::Engine;
use forebay_volume::engine::TierWear;
use serde_json::{Value, json};

const DAY_SECONDS: f64 = 86_400.0;

/// Groups of writes: their traits, the lifetimes of their data, and the planned stay.
pub fn json(engine: &Engine) -> Value {
    let classes = engine.prism().table().classes();
    let groups = engine.stays().into_iter().map(|group| {
        let (discarded, overwritten) = group.traits.history.octaves();
        let class = classes.get(usize::from(group.traits.class)).map(|spec| spec.name.as_str());
        let blocks = |blocks: u64| blocks * 4096;
        json!({
            // Null: the classes that only behaviour distinguishes, which share one group.
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

/// Bytes written to each tier within the last `seconds`, and how long the tier lasts at that rate.
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

//! Disks over a base, as text.

use crate::output;
use serde_json::Value;

/// Progress of copying the base; `-` where there is none.
pub fn cell(base: &Value) -> String {
    let Some((copied, all)) = base["copied_bytes"].as_u64().zip(base["size_bytes"].as_u64()) else {
        return "-".to_owned();
    };
    let is = |key: &str| base[key].as_bool() == Some(true);
    match () {
        () if is("detaching") => "being detached".to_owned(),
        () if is("missing") => "MISSING".to_owned(),
        () if is("complete") => "copied: detach-base".to_owned(),
        _ => format!("{} % of {}", (copied.saturating_mul(100) / all.max(1)).min(99), output::size(all)),
    }
}

/// One line for each disk over a base; `None` where there is none.
pub fn lines(disks: &Value) -> Option<String> {
    let over = disks.as_array()?.iter().filter(|disk| disk["base"].is_object());
    let lines: Vec<String> = over
        .map(|disk| {
            let (name, why) = (disk["name"].as_str().unwrap_or("-"), disk["base"]["why"].as_str());
            let why = why.map(|why| format!("; CANNOT BE COPIED: {why}")).unwrap_or_default();
            format!("disk {name} lies over a base: {}{why}", cell(&disk["base"]))
        })
        .collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

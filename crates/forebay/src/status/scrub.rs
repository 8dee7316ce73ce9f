//! A scrub, as text.

use crate::output;
use serde_json::Value;
use std::time::SystemTime;

fn bytes(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

fn ago(unix_seconds: &Value) -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let Some(seconds) = unix_seconds.as_u64().map(|then| now.saturating_sub(then)) else {
        return "at an unknown time".to_owned();
    };
    match seconds {
        0..120 => format!("{seconds} s ago"),
        120..7200 => format!("{} min ago", seconds / 60),
        7200..172_800 => format!("{} h ago", seconds / 3600),
        _ => format!("{} days ago", seconds / 86_400),
    }
}

fn damage(pass: &Value) -> String {
    match bytes(&pass["damaged_bytes"]) {
        0 => "nothing damaged".to_owned(),
        damaged => format!("{} DAMAGED", output::size(damaged)),
    }
}

/// One or two lines; `None` where no scrub was ever started.
pub fn lines(scrub: &Value) -> Option<String> {
    let mut lines = Vec::new();
    let pass = &scrub["pass"];
    if pass.is_object() {
        let read = bytes(&pass["good_bytes"]) + bytes(&pass["damaged_bytes"]);
        let stored = bytes(&scrub["stored_bytes"]);
        // Writes and discards during the scrub change the total, so the share stays below 100 until the end.
        let percent = (read.saturating_mul(100) / stored.max(1)).min(99);
        let at = output::size(bytes(&scrub["offset_bytes"]));
        let at = match scrub["compares_parity"] == true {
            true => format!("parity is compared at {at} of the bands"),
            false => format!("at disk {}, {at}", scrub["disk"].as_str().unwrap_or("-")),
        };
        lines.push(format!(
            "scrub {}: {} read, {percent} % of {}; {at}; {}",
            scrub["state"].as_str().unwrap_or("-"),
            output::size(read),
            output::size(stored),
            damage(pass)
        ));
    }
    let last = &scrub["last_pass"];
    if last.is_object() {
        let read = bytes(&last["good_bytes"]) + bytes(&last["damaged_bytes"]);
        let (when, read) = (ago(&last["ended_unix_seconds"]), output::size(read));
        lines.push(format!("last full scrub ended {when}: {read} read, {}", damage(last)));
    }
    let uncompared = bytes(&scrub["uncompared_bytes"]);
    if let Some(line) = lines.last_mut().filter(|_| uncompared > 0) {
        line.push_str(&format!("; {} NOT COMPARED with parity, as members did not answer", output::size(uncompared)));
    }
    let mended = bytes(&scrub["mended_bytes"]);
    if let Some(line) = lines.last_mut().filter(|_| mended > 0) {
        line.push_str(&format!(
            "; since the server's start {} were wrong on one of several devices, and mended",
            output::size(mended)
        ));
    }
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// The whole text.
pub fn render(scrub: &Value) -> String {
    let mut parts =
        vec![lines(scrub).unwrap_or_else(|| "there was no scrub yet: `forebay scrub CONFIG start`".to_owned())];
    let found = || scrub["found"].as_array().into_iter().flatten();
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let rows: Vec<Vec<String>> = found()
        .map(|found| {
            let (offset, len) = (found["offset_bytes"].to_string(), output::size(bytes(&found["len_bytes"])));
            vec![text(&found["disk"]), offset, len, text(&found["why"])]
        })
        .collect();
    if !rows.is_empty() {
        parts.push(output::table(&["DISK", "OFFSET", "LENGTH", "WHY"], 1, &rows));
    }
    if found().map(|found| bytes(&found["len_bytes"])).sum::<u64>() < bytes(&scrub["damaged_bytes"]) {
        parts.push(
            "note: damage from before this server's start, and beyond 64 ranges, is not listed: scrub again to see it"
                .to_owned(),
        );
    }
    parts.join("\n\n")
}

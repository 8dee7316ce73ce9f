//! Judges whether a pool serves as it should.

use crate::pool::UNANSWERED;
use crate::text::{count, size};
use serde_json::Value;
use std::time::Duration;

/// For how many seconds after a failed write a device counts as failing.
const FAILING_SECONDS: u64 = 60;

/// What is wrong with the pool, in one line; `None` where it is healthy.
pub fn trouble(status: &Value) -> Option<String> {
    let pool = &status["pool"];
    let text = |value: &Value| value.as_str().map(str::to_owned);
    if let Some(label) = text(&status["left"]["label"]) {
        return Some(format!("degraded: {label}"));
    }
    if pool["read_only"] == true {
        return Some(format!("read-only: {}", text(&pool["read_only_reason"]).unwrap_or_default()));
    }
    if let Some(why) = text(&status["mirror"]["broken"]) {
        return Some(format!("read-only: {why}"));
    }
    if status["mirror"]["degraded"] == true {
        let out = status["mirror"]["members_out"].as_u64().unwrap_or(0);
        return Some(format!("degraded: {} of the fast tier's mirror without everything", count(out, "member")));
    }
    if let Some(why) = text(&status["parity"]["broken"]) {
        return Some(format!("read-only: {why}"));
    }
    if status["parity"]["degraded"] == true {
        let out = status["parity"]["members_out"].as_u64().unwrap_or(0);
        return Some(format!("degraded: {} of the capacity tier with parity without everything", count(out, "member")));
    }
    let overwritten = |device: &Value| Some((text(&device["name"])?, text(&device["overwritten"])?));
    if let Some((name, why)) = status["devices"].as_array().into_iter().flatten().find_map(overwritten) {
        return Some(format!("damaged: {name} is not what it was when the pool was opened: {why}"));
    }
    if let Some(device) = status["devices"].as_array().into_iter().flatten().find(|device| fails_writes(device)) {
        let (name, why) = (text(&device["name"]).unwrap_or_default(), text(&device["last_error"]).unwrap_or_default());
        return Some(format!("degraded: writes to {name} fail: {why}"));
    }
    if let Some((name, seconds)) = status["devices"].as_array().into_iter().flatten().find_map(silent) {
        return Some(format!("degraded: {name} has not answered a request for {seconds} s"));
    }
    let damaged_bytes = status["scrub"]["damaged_bytes"].as_u64().unwrap_or(0);
    if damaged_bytes > 0 {
        return Some(format!("damaged: a scrub found {} that cannot be read", size(damaged_bytes)));
    }
    let rewriting = "degraded: a device flush failed, and what it covered is being written again";
    (pool["flush_failed"] == true).then(|| rewriting.to_owned())
}

/// Whether a write to the device failed within the last `FAILING_SECONDS`. On a full device other writes may have
/// succeeded since.
fn fails_writes(device: &Value) -> bool {
    device["write_failed_seconds_ago"].as_u64().is_some_and(|seconds| seconds < FAILING_SECONDS)
}

/// Name of a device that has stopped answering, and for how many seconds.
fn silent(device: &Value) -> Option<(&str, u64)> {
    let age = device["unanswered_ns"].as_u64().map(Duration::from_nanos).filter(|&age| age >= UNANSWERED)?;
    Some((device["name"].as_str().unwrap_or_default(), age.as_secs()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Regression: with a full file system below the capacity device, each write past the fast tier failed, and the
    /// pool was reported healthy.
    #[test]
    fn regression_a_device_that_fails_writes_is_trouble() {
        let status = |ago: Option<u64>| {
            let device = json!({ "name": "c.img", "last_error": "write failed", "write_failed_seconds_ago": ago });
            json!({ "pool": { "read_only": false, "flush_failed": false }, "devices": [{ "name": "f.img" }, device] })
        };
        assert_eq!(trouble(&status(Some(2))).unwrap(), "degraded: writes to c.img fail: write failed");
        assert_eq!((trouble(&status(Some(3600))), trouble(&status(None))), (None, None));
    }

    /// Regression: a device that answers nothing fails no request. Hosts waited, and the pool was reported healthy.
    #[test]
    fn regression_a_device_that_does_not_answer_is_trouble() {
        let status = |age_ns: Option<u64>| {
            let device = json!({ "name": "c.img", "unanswered_ns": age_ns });
            json!({ "pool": { "read_only": false, "flush_failed": false }, "devices": [{ "name": "f.img" }, device] })
        };
        assert_eq!(
            trouble(&status(Some(61_500_000_000))).unwrap(),
            "degraded: c.img has not answered a request for 61 s"
        );
        assert_eq!((trouble(&status(Some(3_000_000_000))), trouble(&status(None))), (None, None));
    }

    /// Regression: a device that is overwritten while it is served still answers, and the pool was reported healthy
    /// until the next start.
    #[test]
    fn regression_a_device_that_was_overwritten_is_trouble() {
        let status = |overwritten: Option<&str>| {
            let device = json!({ "name": "c.img", "overwritten": overwritten });
            json!({ "pool": { "read_only": false, "flush_failed": false }, "devices": [{ "name": "f.img" }, device] })
        };
        let said = "damaged: c.img is not what it was when the pool was opened: it is shorter";
        assert_eq!(trouble(&status(Some("it is shorter"))).as_deref(), Some(said));
        assert_eq!(trouble(&status(None)), None);
    }

    #[test]
    fn each_trouble_is_named_and_a_sound_pool_has_none() {
        let pool = json!({ "read_only": false, "read_only_reason": null, "flush_failed": false });
        assert_eq!(trouble(&json!({ "pool": pool, "left": null })), None);
        let left = json!({ "pool": pool, "left": { "label": "without its fast tier" } });
        assert_eq!(trouble(&left).unwrap(), "degraded: without its fast tier");
        let refused = json!({ "pool": { "read_only": true, "read_only_reason": "journal full" } });
        assert_eq!(trouble(&refused).unwrap(), "read-only: journal full");
        let found = json!({ "pool": pool, "scrub": { "damaged_bytes": 16384 } });
        assert_eq!(trouble(&found).unwrap(), "damaged: a scrub found 16 KiB that cannot be read");
        let degraded = json!({ "pool": pool, "mirror": { "degraded": true, "members_out": 1 } });
        assert!(trouble(&degraded).unwrap().starts_with("degraded: 1 member of"));
        assert!(trouble(&json!({ "pool": { "flush_failed": true } })).unwrap().contains("flush failed"));
    }
}

//! Multi-device tiers as text: a mirrored fast tier, and a capacity tier with parity.

use crate::output;
use serde_json::Value;

/// Lines of a capacity tier with parity; none without parity.
pub fn parity_lines(array: &Value) -> Option<String> {
    let redundancy = array["redundancy"].as_str()?;
    let mut lines = lines_of(array, &format!("capacity tier with parity {redundancy}"))?;
    let count = |key: &str| array[key].as_u64().unwrap_or(0);
    let waits_for: Vec<&str> =
        array["rebuild_waits_for"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if !waits_for.is_empty() {
        lines.push_str(&format!("\n  its rebuild WAITS for {}: nothing is read there", waits_for.join(" and ")));
    }
    if array["settling"] == true && array["broken"].is_null() {
        lines.push_str("\n  its log is being made good: writes to it wait");
    }
    if count("unreadable_blocks") > 0 {
        let unreadable = output::size(count("unreadable_blocks") * 4096);
        lines.push_str(&format!("\n  {unreadable} UNREADABLE: neither a member nor parity gives it"));
    }
    if count("rows_in_doubt") > 0 {
        lines
            .push_str(&format!("\n  {} IN DOUBT: parity says otherwise", output::count(count("rows_in_doubt"), "row")));
    }
    Some(lines)
}

/// A line for the mirror, and one for each incomplete member; none where the fast tier is one device.
pub fn lines(mirror: &Value) -> Option<String> {
    lines_of(mirror, "fast tier mirrored")
}

fn lines_of(mirror: &Value, what: &str) -> Option<String> {
    let members = mirror["members"].as_array()?;
    let of = |member: &Value| {
        let (name, id) = (member["name"].as_str().unwrap_or(""), member["id"].as_str().unwrap_or("-"));
        match (name, member["state"].as_str()) {
            ("", _) => id.to_owned(),
            // What shows the others (`forebay inspect`) knows it by its id.
            (name, Some("out")) => format!("{name} ({id})"),
            _ => name.to_owned(),
        }
    };
    let count = |state: &str| members.iter().filter(|member| member["state"] == state).count();
    let mended = mirror["mended_blocks"].as_u64().unwrap_or(0);
    let mut lines = vec![format!(
        "{what}: {} of {} members hold everything{}",
        count("in sync"),
        members.len(),
        if mended > 0 { format!("; {} mended", output::size(mended * 4096)) } else { String::new() }
    )];
    for member in members.iter().filter(|member| member["state"] != "in sync") {
        let state = member["state"].as_str().unwrap_or("-");
        let detail = match state {
            "rebuilding" => {
                let of = |key: &str| output::size(mirror[key].as_u64().unwrap_or(0));
                format!("{} of {} copied", of("rebuilt_bytes"), of("size_bytes"))
            }
            _ => member["why"].as_str().unwrap_or("-").to_owned(),
        };
        lines.push(format!("  {} is {}: {detail}", of(member), state.to_uppercase()));
    }
    if let Some(why) = mirror["broken"].as_str() {
        lines.push(format!("  TAKES NO WRITES: {why}"));
    }
    Some(lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_a_tier_with_parity_waits_for_or_lacks_is_shown() {
        let array = |settling: bool, unreadable: u64, in_doubt: u64| {
            json!({
                "redundancy": "2+1", "members": [], "settling": settling, "unreadable_blocks": unreadable,
                "rows_in_doubt": in_doubt, "broken": null,
                "rebuild_waits_for": if settling { vec!["/dev/a"] } else { Vec::new() },
            })
        };
        let head = "capacity tier with parity 2+1: 0 of 0 members hold everything";
        assert_eq!(parity_lines(&array(false, 0, 0)).unwrap(), head);
        let shown = parity_lines(&array(true, 2, 3)).unwrap();
        let lines: Vec<&str> = shown.lines().skip(1).map(str::trim).collect();
        assert_eq!(
            lines,
            [
                "its rebuild WAITS for /dev/a: nothing is read there",
                "its log is being made good: writes to it wait",
                "8 KiB UNREADABLE: neither a member nor parity gives it",
                "3 rows IN DOUBT: parity says otherwise"
            ]
        );
    }

    #[test]
    fn members_that_do_not_hold_everything_are_named() {
        assert_eq!(lines(&Value::Null), None);
        let member =
            |name: &str, state: &str, why: Option<&str>| json!({ "name": name, "id": "1", "state": state, "why": why });
        let mirror = json!({
            "members": [member("/dev/a", "in sync", None), member("/dev/b", "rebuilding", None), member("", "out", Some("it is not there")), member("/dev/d", "out", Some("it is not there"))],
            "rebuilt_bytes": 1 << 20, "size_bytes": 4 << 20, "mended_blocks": 2,
        });
        assert_eq!(
            lines(&mirror).unwrap(),
            "fast tier mirrored: 1 of 4 members hold everything; 8 KiB mended\n  /dev/b is REBUILDING: 1 MiB of 4 MiB copied\n  1 is OUT: it is not there\n  /dev/d (1) is OUT: it is not there"
        );
    }
}

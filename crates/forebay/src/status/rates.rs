//! Changes between two status queries of a server, per second: requests, disks, devices, classes, and the pool's own data movement.

use crate::output;
use serde_json::Value;

/// Maximum length of a device name in a table; longer names show their end, which distinguishes them better.
const NAME_CHARS: usize = 14;

fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or(0)
}

fn list<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value[key].as_array().into_iter().flatten()
}

/// The entry with the same name in another status.
fn same<'a>(look: &'a Value, key: &str, name: &Value) -> &'a Value {
    list(look, key).find(|other| other["name"] == *name).unwrap_or(&Value::Null)
}

/// The last `chars` characters of a longer name.
fn short(name: &str, chars: usize) -> String {
    let count = name.chars().count();
    if count <= chars {
        return name.to_owned();
    }
    format!("..{}", name.chars().skip(count + 2 - chars).collect::<String>())
}

/// Label of a device: the end of its name. For several devices that act as one (`A + B`), the label of the first with the number of the
/// others.
fn label(name: &str) -> String {
    match name.split_once(" + ") {
        Some((first, others)) if name.chars().count() > NAME_CHARS => {
            let others = format!(" +{}", others.split(" + ").count());
            let file = first.rsplit('/').next().unwrap_or(first);
            format!("{}{others}", short(file, NAME_CHARS - others.len()))
        }
        _ => short(name, NAME_CHARS),
    }
}

/// A distinct label for each device: where labels are equal, the second and later ones get a number.
pub fn labels(names: &[&str]) -> Vec<String> {
    let mut given: Vec<String> = Vec::new();
    for name in names {
        let mut one = label(name);
        for number in 2.. {
            if !given.contains(&one) {
                break;
            }
            let number = format!("#{number}");
            one = format!("{}{number}", short(name, NAME_CHARS - number.len()));
        }
        given.push(one);
    }
    given
}

/// A byte rate; the text above the table says "a second".
fn bytes_per_s(bytes: u64, seconds: f64) -> String {
    output::size((bytes as f64 / seconds) as u64)
}

/// Increase of a counter.
fn more(old: &Value, new: &Value, key: &str) -> u64 {
    number(new, key).saturating_sub(number(old, key))
}

/// Requests of a device or disk between two status queries, by kind.
struct Asked<'a> {
    old: &'a Value,
    now: &'a Value,
    seconds: f64,
}

impl Asked<'_> {
    fn more(&self, kind: &str, key: &str) -> u64 {
        more(&self.old[kind], &self.now[kind], key)
    }

    fn rate(&self, kind: &str) -> String {
        format!("{:.0}", self.more(kind, "requests") as f64 / self.seconds)
    }

    fn bytes(&self, kind: &str) -> String {
        bytes_per_s(self.more(kind, "bytes"), self.seconds)
    }

    /// Mean number of requests in flight (Little's law).
    fn depth(&self) -> String {
        let busy_ns: u64 =
            ["reads", "writes", "flushes", "discards"].iter().map(|kind| self.more(kind, "busy_ns")).sum();
        format!("{:.1}", busy_ns as f64 / 1e9 / self.seconds)
    }

    fn mean(&self, kind: &str) -> String {
        let mean = self.more(kind, "busy_ns").checked_div(self.more(kind, "requests"));
        mean.map_or_else(|| "-".to_owned(), output::time)
    }
}

/// The power of two of nanoseconds below which `percent` of a kind's requests stayed between the two queries.
fn below_ns(old: &Value, new: &Value, percent: u64) -> Option<u64> {
    let counts = |look: &Value| -> Vec<(u64, u64)> {
        let pairs = look["below_ns"].as_array().into_iter().flatten();
        pairs.filter_map(|pair| Some((pair[0].as_u64()?, pair[1].as_u64()?))).collect()
    };
    let earlier = counts(old);
    let count = more(old, new, "count");
    let mut below = 0;
    counts(new).into_iter().enumerate().find_map(|(at, (bound_ns, now))| {
        below += now.saturating_sub(earlier.get(at).map_or(0, |&(_, before)| before));
        (below * 100 >= count * percent).then_some(bound_ns)
    })
}

/// Rows of the list's entries that had requests between the two queries.
fn requests(before: &Value, now: &Value, key: &str, seconds: f64) -> Vec<Vec<String>> {
    let rows = list(now, key).filter_map(|entry| {
        let asked = Asked { old: same(before, key, &entry["name"]), now: entry, seconds };
        let is_busy = ["reads", "writes", "flushes", "discards"].iter().any(|kind| asked.more(kind, "requests") > 0);
        is_busy.then(|| {
            vec![
                entry["name"].as_str().unwrap_or("-").to_owned(),
                asked.rate("reads"),
                asked.bytes("reads"),
                asked.rate("writes"),
                asked.bytes("writes"),
                asked.rate("flushes"),
                asked.rate("discards"),
            ]
        })
    });
    rows.collect()
}

/// The earlier status, where it is of the same server process: counters of another process are no starting point.
fn of_same_server<'a>(before: &'a Value, now: &Value) -> &'a Value {
    let uptime = |look: &Value| look["uptime_seconds"].as_f64().unwrap_or(0.0);
    if uptime(before) > uptime(now) { &Value::Null } else { before }
}

/// Tables of requests by kind, disks, exports, devices, active classes, and the pool's own data movement. With an empty `before` the
/// counters since the server's start are used; classes, which count over the pool's life, are then left out.
pub fn tables(before: &Value, now: &Value) -> Vec<String> {
    let before = of_same_server(before, now);
    let since = before["uptime_seconds"].as_f64().unwrap_or(0.0);
    let seconds = (now["uptime_seconds"].as_f64().unwrap_or(0.0) - since).max(1e-3);
    let names: Vec<&str> = list(now, "devices").map(|device| device["name"].as_str().unwrap_or("-")).collect();
    let devices: Vec<Vec<String>> = list(now, "devices")
        .zip(labels(&names))
        .map(|(device, label)| {
            let asked = Asked { old: same(before, "devices", &device["name"]), now: device, seconds };
            vec![
                label,
                asked.rate("reads"),
                asked.bytes("reads"),
                asked.mean("reads"),
                asked.rate("writes"),
                asked.bytes("writes"),
                asked.mean("writes"),
                asked.rate("flushes"),
                asked.depth(),
            ]
        })
        .collect();
    let classes: Vec<Vec<String>> = list(now, "classes")
        .filter(|_| !before.is_null())
        .filter_map(|class| {
            let old = same(before, "classes", &class["name"]);
            let moved =
                ["host_read_bytes", "host_written_bytes", "bypassed_bytes", "destaged_bytes", "collected_bytes"]
                    .map(|key| more(old, class, key));
            let name = class["name"].as_str().unwrap_or("-").to_owned();
            let cells = moved.iter().map(|&bytes| bytes_per_s(bytes, seconds));
            moved.iter().any(|&bytes| bytes > 0).then(|| std::iter::once(name).chain(cells).collect())
        })
        .collect();
    let (disks, exports) = (requests(before, now, "disks", seconds), requests(before, now, "exports", seconds));
    let kinds: Vec<Vec<String>> = list(now, "latency_by_kind")
        .filter_map(|kind| {
            let old =
                list(before, "latency_by_kind").find(|other| other["kind"] == kind["kind"]).unwrap_or(&Value::Null);
            let count = more(old, kind, "count");
            let bound = |percent| below_ns(old, kind, percent).map_or_else(|| "-".to_owned(), output::time);
            (count > 0).then(|| {
                vec![
                    kind["kind"].as_str().unwrap_or("-").to_owned(),
                    format!("{:.0}", count as f64 / seconds),
                    output::time(more(old, kind, "sum_ns") / count),
                    bound(50),
                    bound(99),
                ]
            })
        })
        .collect();
    let heads = [
        (&["REQUESTS", "PER S", "MEAN", "HALF BELOW", "99 % BELOW"][..], kinds),
        (&["DISK", "READS", "READ", "WRITES", "WRITTEN", "FLUSHES", "DISCARDS"][..], disks),
        (&["EXPORT", "READS", "READ", "WRITES", "WRITTEN", "FLUSHES", "DISCARDS"][..], exports),
        (&["DEVICE", "READS", "READ", "MEAN", "WRITES", "WRITTEN", "MEAN", "FLUSHES", "DEPTH"][..], devices),
        (&["CLASS", "READ", "WRITTEN", "PAST FAST", "DESTAGED", "COLLECTED"][..], classes),
    ];
    let tables =
        heads.into_iter().filter(|(_, rows)| !rows.is_empty()).map(|(head, rows)| output::table(head, 1, &rows));
    let stalls = more(&before["counters"], &now["counters"], "stalls");
    let held_back =
        (stalls > 0).then(|| format!("writes waited for space or for the journal {}", output::count(stalls, "time")));
    tables.chain(held_back).collect()
}

/// A line with the period of the rates.
pub fn head(before: &Value, now: &Value) -> String {
    let before = of_same_server(before, now);
    let (since, until) = (before["uptime_seconds"].as_f64(), now["uptime_seconds"].as_f64().unwrap_or(0.0));
    match since {
        Some(since) => format!("by the second, over the last {:.1} s", until - since),
        None => format!("by the second, since the start {until:.0} s ago; of classes from the next look on"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A mirror and its second member had the same label.
    #[test]
    fn regression_devices_have_labels_of_their_own() {
        let (a, b) = ("/srv/pools/a21/fast0.img", "/srv/pools/a21/fast1.img");
        let mirror = format!("{a} + {b}");
        let shown = labels(&[&mirror, a, b, "ram"]);
        assert_eq!(shown, ["fast0.img +1", "..21/fast0.img", "..21/fast1.img", "ram"]);
        let alike = labels(&["/mnt/a/long-name/c.img", "/mnt/b/long-name/c.img", "/mnt/c/long-name/c.img"]);
        assert_eq!(alike, ["..g-name/c.img", "..name/c.img#2", "..name/c.img#3"]);
        let long = labels(&["/dev/disk/by-id/nvme-INTEL_SSDPED1K375GA_1 + /dev/sdb + /dev/sdc"]);
        assert!(long[0].ends_with("375GA_1 +2") && long[0].chars().count() == NAME_CHARS, "{long:?}");
    }

    /// Class counters, which cover the pool's life, were divided by the time since the server's start, and by zero after a restart between
    /// two queries.
    #[test]
    fn regression_the_first_look_has_no_rates_of_classes() {
        let look = |uptime: f64, written: u64| json!({ "uptime_seconds": uptime, "classes": [{ "name": "cold", "host_written_bytes": written }] });
        let shown = |before: &Value, now: &Value| tables(before, now).join("\n");
        assert_eq!(shown(&Value::Null, &look(0.9, 10 << 40)), "");
        assert_eq!(shown(&look(500.0, 10 << 40), &look(0.9, 11 << 40)), "");
        assert!(head(&look(500.0, 0), &look(0.9, 0)).contains("since the start 1 s ago"));
        assert!(shown(&look(1.0, 10 << 40), &look(3.0, (10 << 40) + (4 << 20))).contains("2 MiB"));
    }

    #[test]
    fn rates_are_differences_over_time_and_fit_80_columns() {
        let look = |seconds: f64, times: u64| {
            let kind =
                json!({ "requests": 1000 * times, "bytes": 123_456_789 * times, "busy_ns": 250_000_000 * times });
            json!({
                "uptime_seconds": seconds,
                "devices": [{
                    "name": "/dev/disk/by-id/nvme-INTEL_SSDPED1K375GA_PHKS7481001U375AGN", "reads": kind, "writes": kind,
                    "flushes": kind, "errors": 0,
                }],
                "disks": [
                    { "name": "db", "reads": kind, "writes": kind, "flushes": kind, "discards": { "requests": 0 } },
                    { "name": "quiet", "reads": { "requests": 0, "bytes": 0 } },
                ],
                "exports": [
                    { "name": "db-rw", "reads": kind, "writes": kind, "flushes": kind, "discards": { "requests": 0 } },
                    { "name": "db-ro", "reads": { "requests": 0, "bytes": 0 } },
                ],
                "latency_by_kind": [{
                    "kind": "write", "count": 100 * times, "sum_ns": 50_000 * 100 * times,
                    "below_ns": [[4096, 0], [8192, 60 * times], [16384, 38 * times], [1 << 20, times], [1u64 << 34, times]],
                }],
                "counters": { "stalls": 2 * times },
                "classes": [
                    { "name": "log", "host_written_bytes": (1u64 << 30) * times, "destaged_bytes": (1u64 << 20) * times },
                    { "name": "idle", "host_written_bytes": 7 },
                ],
            })
        };
        let tables = tables(&look(10.0, 1), &look(12.0, 3)).join("\n");
        assert!(tables.contains("1000") && tables.contains("1 GiB"), "{tables}");
        assert!(tables.contains("250 us") && !tables.contains("idle"), "{tables}");
        assert!(tables.contains("db") && !tables.contains("quiet"), "{tables}");
        assert!(tables.contains("EXPORT") && tables.contains("db-rw") && !tables.contains("db-ro"), "{tables}");
        let write = tables.lines().find(|line| line.starts_with("write ")).unwrap();
        assert_eq!(
            write.split_whitespace().collect::<Vec<_>>().join(" "),
            "write 100 50.0 us 8.19 us 1.05 ms",
            "{tables}"
        );
        assert!(tables.contains("waited for space or for the journal 4 times"), "{tables}");
        let widest = tables.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(80), "{widest:?}\n{tables}");
        assert!(head(&Value::Null, &look(10.0, 1)).contains("since the start 10 s"));
    }
}

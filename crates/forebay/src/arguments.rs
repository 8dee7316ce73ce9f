//! Order of the words of a command line: `disk add pool.toml` and `disk pool.toml add` mean the same, and without CONFIG the default file
//! is used.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// The configuration file where the command line names none.
pub const DEFAULT_CONFIG: &str = "/etc/forebay/pool.toml";

/// Verbs with actions; each action follows CONFIG.
const ACTIONS: [(&str, &[&str]); 4] = [
    ("disk", &["list", "add", "remove", "resize"]),
    ("class", &["list", "set", "add", "import"]),
    ("evidence", &["list", "attach", "detach"]),
    ("scrub", &["start", "pause", "status"]),
];

/// Verbs that take a disk after CONFIG.
const OF_A_DISK: [&str; 2] = ["attach", "detach"];

/// Puts CONFIG in front of the action or the disk of such a verb. Other command lines stay as they are.
pub fn config_first(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let is_flag = |argument: &OsString| argument.as_encoded_bytes().starts_with(b"-");
    // Global options may precede the verb.
    let verb = (1..arguments.len()).find(|&at| !is_flag(&arguments[at]) && arguments[at - 1] != "--output");
    let Some(verb) = verb else { return arguments };
    if OF_A_DISK.iter().any(|name| arguments[verb] == *name) {
        let words = arguments.get(verb + 1).filter(|word| !is_flag(word)).zip(arguments.get(verb + 2));
        match (arguments.get(verb + 1), words) {
            (Some(first), _) if is_config(first) => {}
            (_, Some((_, second))) if is_config(second) => arguments.swap(verb + 1, verb + 2),
            // Both CONFIG, of any name, and a disk are given.
            (_, Some((_, second))) if !is_flag(second) => {}
            (Some(flag), _) if is_flag(flag) => {}
            _ => arguments.insert(verb + 1, DEFAULT_CONFIG.into()),
        }
        return arguments;
    }
    let actions = ACTIONS.iter().find(|(name, _)| arguments[verb] == *name).map(|(_, actions)| *actions);
    let Some(actions) = actions else { return arguments };
    let is_action = |argument: &OsString| actions.iter().any(|action| argument == action);
    match (arguments.get(verb + 1), arguments.get(verb + 2)) {
        // CONFIG may have the same name as an action.
        (Some(first), Some(second)) if is_action(first) && is_action(second) => {}
        (Some(first), Some(second)) if is_action(first) && is_config(second) => arguments.swap(verb + 1, verb + 2),
        (Some(first), _) if is_action(first) => arguments.insert(verb + 1, DEFAULT_CONFIG.into()),
        _ => {}
    }
    arguments
}

fn is_config(argument: &OsStr) -> bool {
    let path = Path::new(argument);
    path.extension().is_some_and(|extension| extension == "toml")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn config_comes_first_wherever_it_stood() {
        let cases = [
            ("forebay disk pool.toml add logs 4GiB", "forebay disk pool.toml add logs 4GiB"),
            ("forebay disk add pool.toml logs 4GiB", "forebay disk pool.toml add logs 4GiB"),
            ("forebay --output json class list pool.toml", "forebay --output json class pool.toml list"),
            ("forebay disk list", "forebay disk /etc/forebay/pool.toml list"),
            ("forebay disk add logs 4GiB", "forebay disk /etc/forebay/pool.toml add logs 4GiB"),
            ("forebay evidence detach --disk db", "forebay evidence /etc/forebay/pool.toml detach --disk db"),
            ("forebay scrub status", "forebay scrub /etc/forebay/pool.toml status"),
            ("forebay scrub start pool.toml", "forebay scrub pool.toml start"),
            ("forebay attach pool.toml db", "forebay attach pool.toml db"),
            ("forebay attach db pool.toml", "forebay attach pool.toml db"),
            ("forebay attach db", "forebay attach /etc/forebay/pool.toml db"),
            ("forebay detach pool.toml", "forebay detach pool.toml"),
            ("forebay detach pool.conf db", "forebay detach pool.conf db"),
            ("forebay attach", "forebay attach /etc/forebay/pool.toml"),
            ("forebay attach --help", "forebay attach --help"),
            ("forebay disk list list", "forebay disk list list"),
            ("forebay disk --help", "forebay disk --help"),
            ("forebay status pool.toml", "forebay status pool.toml"),
            ("forebay", "forebay"),
        ];
        for (line, expected) in cases {
            let words = config_first(line.split(' ').map(OsString::from).collect());
            let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
            assert_eq!(words.join(" "), expected);
        }
    }
}

//! On `bench` after `--target`, DiskSpd's grammar applies: its options have one dash, ours two. The two kinds are separated before the
//! command line is parsed.

use std::ffi::OsString;

/// Name of the hidden option that carries DiskSpd's options.
const CARRIER: &str = "--diskspd=";

/// Rewrites a command line so that DiskSpd's options after `bench --target URI` pass through clap unchanged. Other command lines stay as
/// they are.
pub fn rewrite(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let is = |at: usize, text: &str| arguments.get(at).is_some_and(|argument| argument == text);
    // Global options may precede the verb; the value "bench" of such an option is not the verb.
    let verb = (1..arguments.len()).find(|&at| !starts(&arguments[at], "-") && !is(at - 1, "--output"));
    let Some(verb) = verb.filter(|&at| is(at, "bench")) else { return arguments };
    let mut target_seen = false;
    let mut takes_value = false;
    let mut rewritten = Vec::with_capacity(arguments.len());
    for (at, argument) in arguments.iter().enumerate() {
        let foreign = at > verb && target_seen && !takes_value && is_diskspd(argument);
        takes_value = at > verb && !takes_value && starts(argument, "--") && !argument.to_string_lossy().contains('=');
        // Flags take no value, so the word after a flag is judged on its own.
        takes_value &= !["--block-layer", "--destroy-data", "--list", "--quick"].iter().any(|flag| argument == flag);
        target_seen |= at > verb && (starts(argument, "--target") || starts(argument, "--host"));
        if foreign {
            let mut carried = OsString::from(CARRIER);
            carried.push(argument);
            rewritten.push(carried);
        } else {
            rewritten.push(argument.clone());
        }
    }
    rewritten
}

fn starts(argument: &OsString, prefix: &str) -> bool {
    argument.to_string_lossy().starts_with(prefix)
}

/// `-b4k`, `-L`, `#1`: one dash and a letter, or the number of a disk.
fn is_diskspd(argument: &OsString) -> bool {
    let text = argument.to_string_lossy();
    let mut chars = text.chars();
    match (chars.next(), chars.next()) {
        (Some('-'), Some(second)) => second.is_ascii_alphabetic(),
        (Some('#'), _) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(line: &str) -> String {
        let words = rewrite(line.split(' ').map(OsString::from));
        words.iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_guides_lines_are_carried() {
        assert_eq!(
            rewritten("forebay bench --target null:?size=1GiB -b4k -w30 -r -h -L #1 --output json"),
            "forebay bench --target null:?size=1GiB --diskspd=-b4k --diskspd=-w30 --diskspd=-r --diskspd=-h --diskspd=-L \
             --diskspd=#1 --output json"
        );
        assert_eq!(
            rewritten("forebay --output json bench --target=x -b4k --destroy-data -w100"),
            "forebay --output json bench --target=x --diskspd=-b4k --destroy-data --diskspd=-w100"
        );
    }

    #[test]
    fn others_are_left_alone() {
        for line in [
            "forebay bench -h",
            "forebay bench --help",
            "forebay bench job.toml --target x --seed 3",
            "forebay serve pool.toml",
            "forebay --output json serve bench -b",
            "forebay",
        ] {
            assert_eq!(rewritten(line), line);
        }
    }
}

//! Order of the words of a command line: `disk add pool.toml` and `disk pool.toml add` mean the same, and without CONFIG
//! the default file is used.

use crate::cli::{Cli, DEFAULT_CONFIG};
use clap::CommandFactory;
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// What a command line may have behind CONFIG.
enum Behind {
    /// One of these actions.
    Actions(Vec<String>),
    /// The name of a disk.
    Disk,
}

/// What `verb` has behind CONFIG, as the command line is declared. Other verbs have CONFIG last, or none.
fn behind_config(verb: &OsStr) -> Option<Behind> {
    let command = Cli::command();
    let verb = command.find_subcommand(verb)?;
    let positional = |name: &str| verb.get_positionals().find(|argument| argument.get_id() == name);
    positional("config")?;
    if positional("disk").is_some() {
        return Some(Behind::Disk);
    }
    let subcommands = verb.get_subcommands().map(|action| action.get_name().to_owned());
    let values = positional("action").into_iter().flat_map(|action| action.get_possible_values());
    let actions: Vec<_> = subcommands.chain(values.map(|value| value.get_name().to_owned())).collect();
    (!actions.is_empty()).then_some(Behind::Actions(actions))
}

/// Puts CONFIG in front of the action or the disk of such a verb. Other command lines stay as they are.
pub fn config_first(mut arguments: Vec<OsString>) -> Vec<OsString> {
    // Global options may precede the verb.
    let verb = (1..arguments.len()).find(|&at| !is_flag(&arguments[at]) && arguments[at - 1] != "--output");
    let Some(verb) = verb else { return arguments };
    let has_actions = Cli::command().find_subcommand(&arguments[verb]).is_some_and(|verb| verb.has_subcommands());
    for help in verb..=verb + usize::from(has_actions) {
        if arguments.get(help).is_some_and(|word| word == "help") {
            return of_help(arguments, help);
        }
    }
    let actions = match behind_config(&arguments[verb]) {
        None => return arguments,
        Some(Behind::Disk) => return before_disk(arguments, verb),
        Some(Behind::Actions(actions)) => actions,
    };
    let is_action = |argument: &OsString| actions.iter().any(|action| argument == action.as_str());
    match (arguments.get(verb + 1), arguments.get(verb + 2)) {
        // CONFIG may have the same name as an action.
        (Some(first), Some(second)) if is_action(first) && is_action(second) => {}
        (Some(first), Some(second)) if is_action(first) && is_config(second) => arguments.swap(verb + 1, verb + 2),
        (Some(first), _) if is_action(first) => arguments.insert(verb + 1, DEFAULT_CONFIG.into()),
        _ => {}
    }
    arguments
}

/// What `help` at `help` shows where a flag asks it for help: the help of the words behind it, or its own.
fn of_help(mut arguments: Vec<OsString>, help: usize) -> Vec<OsString> {
    let is_asked = |word: &OsString| word == "--help" || word == "-h";
    let behind = arguments.split_off(help + 1);
    let asked = behind.iter().any(is_asked);
    arguments.extend(behind.into_iter().filter(|word| !is_asked(word)));
    if asked && arguments.len() == help + 1 {
        arguments.push("help".into());
    }
    arguments
}

/// Puts CONFIG in front of the disk of the verb at `verb`.
fn before_disk(mut arguments: Vec<OsString>, verb: usize) -> Vec<OsString> {
    let words = arguments.get(verb + 1).filter(|word| !is_flag(word)).zip(arguments.get(verb + 2));
    match (arguments.get(verb + 1), words) {
        (Some(first), _) if is_config(first) => {}
        (_, Some((_, second))) if is_config(second) => arguments.swap(verb + 1, verb + 2),
        // Both CONFIG, of any name, and a disk are given.
        (_, Some((_, second))) if !is_flag(second) => {}
        (Some(flag), _) if is_flag(flag) => {}
        _ => arguments.insert(verb + 1, DEFAULT_CONFIG.into()),
    }
    arguments
}

fn is_flag(argument: &OsString) -> bool {
    argument.as_encoded_bytes().starts_with(b"-")
}

fn is_config(argument: &OsStr) -> bool {
    let path = Path::new(argument);
    path.extension().is_some_and(|extension| extension == "toml")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(line: &str) -> String {
        let words = config_first(line.split(' ').map(OsString::from).collect());
        words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    /// `disk detach-base` had to have CONFIG in front of it, as a list of actions lacked it.
    #[test]
    fn regression_every_action_may_stand_before_config_or_without_one() {
        let command = Cli::command();
        let mut lines = Vec::new();
        for verb in command.get_subcommands() {
            let positionals: Vec<_> = verb.get_positionals().collect();
            if positionals.first().is_none_or(|first| first.get_id() != "config") {
                continue;
            }
            let values = positionals.get(1).map(|action| action.get_possible_values()).unwrap_or_default();
            let actions = verb.get_subcommands().map(|action| action.get_name().to_owned());
            let actions = actions.chain(values.iter().map(|value| value.get_name().to_owned()));
            lines.extend(actions.map(|action| (verb.get_name().to_owned(), action)));
        }
        let has = |verb: &str, action: &str| lines.iter().any(|line| line.0 == verb && line.1 == action);
        assert!(
            has("disk", "detach-base") && has("class", "import") && has("evidence", "list") && has("scrub", "pause")
        );
        for (verb, action) in lines {
            let expected = format!("forebay {verb} pool.toml {action} x");
            assert_eq!(rewritten(&format!("forebay {verb} {action} pool.toml x")), expected);
            assert_eq!(rewritten(&expected), expected);
            let expected = format!("forebay {verb} {DEFAULT_CONFIG} {action} x");
            assert_eq!(rewritten(&format!("forebay {verb} {action} x")), expected);
        }
    }

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
            assert_eq!(rewritten(line), expected);
        }
    }
}

//! The verbs of `forebay --help`, in groups: clap has one list.

use super::{BuildVerb, MeasureVerb, PoolVerb};
use clap::builder::Styles;
use clap::{Command, Subcommand};
use std::fmt::Write;

/// Template of the program's help.
pub fn template() -> String {
    let (head, word) = (*Styles::styled().get_header(), *Styles::styled().get_literal());
    let none = || Command::new("");
    // This verb is clap's.
    let help = Command::new("help").about("Print this text, or the help of a verb");
    let groups = [
        ("Pool", PoolVerb::augment_subcommands(none())),
        ("Measure", MeasureVerb::augment_subcommands(none())),
        ("Build", BuildVerb::augment_subcommands(none()).subcommand(help)),
    ];
    let verbs = groups.iter().flat_map(|(_, group)| group.get_subcommands());
    let width = verbs.map(|verb| verb.get_name().len()).max().unwrap_or_default();
    let mut text = "{about-with-newline}\n{usage-heading} {usage}\n".to_owned();
    for (title, group) in &groups {
        // Writing to a string never fails.
        let _ = writeln!(text, "\n{head}{title}:{head:#}");
        for verb in group.get_subcommands() {
            let (name, about) = (verb.get_name(), verb.get_about().map(ToString::to_string).unwrap_or_default());
            let _ = writeln!(text, "  {word}{name}{word:#}{:1$}  {about}", "", width - name.len());
        }
    }
    let _ = write!(text, "\n{head}Options:{head:#}\n{{options}}{{after-help}}");
    text
}

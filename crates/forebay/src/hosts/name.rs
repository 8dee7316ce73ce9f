//! Naming of hosts: the ssh destination and the target to measure.

use anyhow::{Result, bail};
use std::fmt;

/// A host and its target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostName {
    /// The ssh destination.
    pub host: String,
    /// The target to measure on the host.
    pub target: String,
}

impl HostName {
    /// Parses `HOST`, which uses the common target, or `HOST=TARGET`.
    ///
    /// # Errors
    /// The host is invalid, or it has no target.
    pub fn parse(text: &str, targets: &[String]) -> Result<Self> {
        let (host, target) = match (text.split_once('='), targets) {
            (Some((host, target)), _) if !target.is_empty() => (host, target.to_owned()),
            (Some(_), _) => bail!("--host {text:?}: nothing stands behind the =: HOST=TARGET"),
            (None, [target]) => (text, target.clone()),
            (None, []) => {
                bail!("--host {text}: what is measured there? --target URI for all hosts, or --host {text}=URI")
            }
            (None, _) => {
                bail!("--host {text}: --target is given several times: name one for each host, --host {text}=URI")
            }
        };
        // ssh would interpret it as an option, such as -oProxyCommand=..., which runs a command on this machine.
        if host.is_empty() || host.starts_with('-') || host.chars().any(|c| c.is_whitespace() || c.is_control()) {
            bail!("--host {text:?}: a host is named as ssh takes it: HOST, USER@HOST or ssh://USER@HOST:PORT");
        }
        Ok(Self { host: host.to_owned(), target })
    }

    /// Parses all host names.
    ///
    /// # Errors
    /// A name is invalid or occurs twice, or no host uses a `--target`.
    pub fn parse_all(texts: &[String], targets: &[String]) -> Result<Vec<Self>> {
        let names: Vec<Self> = texts.iter().map(|text| Self::parse(text, targets)).collect::<Result<_>>()?;
        for (number, name) in names.iter().enumerate() {
            if names[..number].contains(name) {
                bail!(
                    "--host {}: {name} is there twice; more load on one target is `threads` or another job",
                    name.host
                );
            }
        }
        if !targets.is_empty() && texts.iter().all(|text| text.contains('=')) {
            bail!("--target has no effect: each --host names its own");
        }
        Ok(names)
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(texts: &[&str], targets: &[&str]) -> Result<Vec<String>, String> {
        let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        let names = HostName::parse_all(&owned(texts), &owned(targets)).map_err(|error| error.to_string())?;
        Ok(names.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn a_host_has_the_target_of_all_or_its_own() {
        assert_eq!(parsed(&["a", "me@b=/dev/y"], &["/dev/x"]).unwrap(), ["a:/dev/x", "me@b:/dev/y"]);
        assert_eq!(parsed(&["a=ram:?size=1GiB", "a=/dev/y"], &[]).unwrap(), ["a:ram:?size=1GiB", "a:/dev/y"]);
        for (texts, targets, what) in [
            (&["a"][..], &[][..], "--target URI"),
            (&["a"], &["/dev/x", "/dev/y"], "one for each host"),
            (&["a="], &["/dev/x"], "behind the ="),
            (&["a", "a"], &["/dev/x"], "there twice"),
            (&["a=/dev/x", "a"], &["/dev/x"], "there twice"),
            (&["a=/dev/y"], &["/dev/x"], "no effect"),
            (&["=/dev/y"], &[], "as ssh takes it"),
            (&["a b"], &["/dev/x"], "as ssh takes it"),
            (&["a\u{1b}[2J"], &["/dev/x"], "as ssh takes it"),
        ] {
            let error = parsed(texts, targets).unwrap_err();
            assert!(error.contains(what), "{texts:?}: {error}");
        }
    }

    #[test]
    fn regression_a_host_is_no_option_of_ssh() {
        assert!(parsed(&["-oProxyCommand=touch /tmp/x"], &["/dev/x"]).unwrap_err().contains("as ssh takes it"));
        assert!(parsed(&["-G"], &["/dev/x"]).unwrap_err().contains("as ssh takes it"));
    }
}

//! The log line for connections that the system does not let the server accept, most often for lack of file
//! descriptors. All listeners share its text.

use super::{Report, Severity};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

/// The cause of these lines, for programs.
pub const NOT_ACCEPTED: &str = "not accepted";

/// The report for connections that wait at listener `door`. It is a lasting state: the listeners retry by themselves.
pub fn not_accepted(door: &str, why: Errno) -> Report<'_> {
    let (why, advice) = match why {
        Errno::MFILE => {
            let limit = getrlimit(Resource::Nofile).current;
            let limit = limit.map_or_else(String::new, |files| format!(", {files}"));
            (
                format!("this process has as many open files as it may{limit}"),
                "Raise the limit (LimitNOFILE= of the unit, or `ulimit -n` before the server is started) and restart, or end clients: they are let in as soon as descriptors are free",
            )
        }
        Errno::NFILE => (
            "this machine has as many open files as it may".to_owned(),
            "Raise fs.file-max (sysctl), or end what has so many open: they are let in as soon as descriptors are free",
        ),
        why => (why.to_string(), "Look at the memory of this machine and at dmesg; it is tried again by itself"),
    };
    let message = format!("connections to {door} wait to be accepted: {why}");
    Report { severity: Severity::Warning, cause: NOT_ACCEPTED, about: door, message, advice }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_says_what_to_do() {
        let said = |why| {
            let report = not_accepted("exports", why);
            (report.message, report.advice)
        };
        let (message, advice) = said(Errno::MFILE);
        assert!(message.starts_with("connections to exports wait to be accepted: this process has as many open files"));
        assert!(advice.contains("LimitNOFILE="), "{advice}");
        assert!(said(Errno::NFILE).1.contains("fs.file-max"));
        let (message, advice) = said(Errno::NOMEM);
        assert!(message.ends_with(&Errno::NOMEM.to_string()) && advice.contains("memory"), "{message} {advice}");
    }
}

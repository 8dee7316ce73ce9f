//! Trees in the repository, and small ones that a test creates.

use forebay_platform::{Machine, Report, Tree, Wanted, audit};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Path of a tree in the repository.
pub fn shipped(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib/machines").join(name)
}

/// The audit of a tree.
pub fn report_of(root: &Path, wanted: Wanted<'_>) -> Report {
    let tree = Tree::open(root).unwrap();
    audit(&Machine::read(&tree, wanted).unwrap())
}

/// The audit of a tree in the repository, with one of its devices.
pub fn shipped_report(name: &str, device: &str) -> Report {
    report_of(&shipped(name), Wanted::Device(device))
}

/// The verdict of a rule: its severity, or `good`, `unknown`, `not here`.
pub fn verdict(report: &Report, rule: &str) -> String {
    let finding = report.findings.iter().find(|entry| entry.name == rule).map(|entry| entry.finding.severity.name());
    let good = report.good.iter().find(|entry| entry.name == rule).map(|_| "good");
    let unknown = report.unknown.iter().find(|entry| entry.name == rule).map(|_| "unknown");
    finding.or(good).or(unknown).unwrap_or("not here").to_owned()
}

/// The text of a rule's result.
pub fn said(report: &Report, rule: &str) -> String {
    let finding = report.findings.iter().find(|entry| entry.name == rule).map(|entry| entry.finding.what.clone());
    let others = report.good.iter().chain(&report.unknown).find(|entry| entry.name == rule);
    finding.or(others.map(|entry| entry.text.clone())).unwrap_or_default()
}

/// A tree created by a test.
pub struct Small {
    pub folder: TempDir,
}

impl Small {
    /// Creates files by their paths; a text that begins with `->` makes a link.
    pub fn new(files: &[(&str, &str)]) -> Self {
        let small = Self { folder: TempDir::new().unwrap() };
        files.iter().for_each(|(path, text)| small.put(path, text));
        small
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path.trim_start_matches('/'))
    }

    pub fn put(&self, path: &str, text: &str) {
        let place = self.path(path);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        match text.strip_prefix("->") {
            Some(target) => std::os::unix::fs::symlink(target, place).unwrap(),
            None => fs::write(place, text).unwrap(),
        }
    }

    pub fn tree(&self) -> Tree {
        Tree::open(self.folder.path()).unwrap()
    }

    pub fn report(&self) -> Report {
        report_of(self.folder.path(), Wanted::Machine)
    }

    pub fn report_with(&self, device: &str) -> Report {
        report_of(self.folder.path(), Wanted::Device(device))
    }
}

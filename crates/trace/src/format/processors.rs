//! The files that blktrace writes, one for each processor: `PATH.blktrace.0`, `PATH.blktrace.1` and so on.

use crate::{Faults, Knows, Names, Request, Source, TraceError};
use std::path::{Path, PathBuf};

/// Most processors for which blktrace may have written files.
const PROCESSORS_MAX: u32 = 8192;
/// Most consecutive files that may be missing, of processors that are off.
const GAP_MAX: u32 = 1024;
/// Between the name of the trace and the number of the processor.
const INFIX: &str = ".blktrace.";

/// The name of the trace, `PATH`, and the number of the processor, if the file is named `PATH.blktrace.N`.
#[must_use]
pub fn processor_of(path: &Path) -> Option<(PathBuf, u32)> {
    let (trace, number) = path.file_name()?.to_str()?.rsplit_once(INFIX)?;
    let number = number.parse().ok().filter(|of: &u32| *of < PROCESSORS_MAX && of.to_string() == number)?;
    (!trace.is_empty()).then(|| (path.with_file_name(trace), number))
}

/// Whether blktrace wrote files for processors under this name.
#[must_use]
pub fn has_processors(trace: &Path) -> bool {
    processors(trace).next().is_some()
}

/// The files of the processors that are there, by number.
pub(super) fn processors(trace: &Path) -> impl Iterator<Item = (u32, PathBuf)> {
    let trace = trace.as_os_str().to_owned();
    let mut missing = 0;
    let file = move |number: u32| {
        let mut name = trace.clone();
        name.push(format!("{INFIX}{number}"));
        let file = PathBuf::from(name);
        let is_there = file.symlink_metadata().is_ok();
        missing = if is_there { 0 } else { missing + 1 };
        (missing <= GAP_MAX).then(|| is_there.then_some((number, file)))
    };
    (0..PROCESSORS_MAX).map_while(file).flatten()
}

/// A source with a note where it is the file of one processor and those of others lie beside it.
pub(super) fn noted(source: Box<dyn Source + Send>, path: &Path) -> Box<dyn Source + Send> {
    let Some((trace, number)) = processor_of(path) else { return source };
    let Some((_, other)) = processors(&trace).find(|(other, _)| *other != number) else { return source };
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let note = format!(
        "{} lies beside this file of processor {number}: blktrace writes one for each processor, and {} names all of them",
        name(&other),
        // As the user would write it.
        trace.display()
    );
    Box::new(Noted { source, note })
}

struct Noted {
    source: Box<dyn Source + Send>,
    note: String,
}

impl Source for Noted {
    fn read(&mut self, into: &mut Vec<Request>, names: &mut Names) -> Result<bool, TraceError> {
        self.source.read(into, names)
    }

    fn faults(&self) -> &Faults {
        self.source.faults()
    }

    fn knows(&self) -> Knows {
        self.source.knows()
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = vec![self.note.clone()];
        notes.append(&mut self.source.notes());
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_files_of_processors() {
        let of =
            |name: &str| processor_of(Path::new(name)).map(|(trace, number)| (trace.display().to_string(), number));
        assert_eq!(of("a/sda.blktrace.17"), Some(("a/sda".to_owned(), 17)));
        for other in ["sda.blktrace", "sda.blktrace.07", "sda.blktrace.+7", ".blktrace.0", "sda.blktrace.8192", "sda"] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}

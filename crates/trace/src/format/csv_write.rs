//! Writes plain CSV: a header, and a line for each request.

use super::csv::{HEADER, op_name};
use super::distinct::DistinctNames;
use crate::{NOT_KNOWN, Names, Request, TraceError};
use std::io::{BufWriter, Write};

/// Writes a CSV file for people, spreadsheets and this program.
pub struct CsvWriter<W: Write> {
    to: BufWriter<W>,
    volumes: DistinctNames,
    is_begun: bool,
}

/// A name as a line can hold it, which must have only its own commas, and whose fields are read without the blanks around them.
fn held(name: &str) -> String {
    let is_bad = |c: char| c == ',' || c == '"' || c.is_control();
    let name = name.replace(is_bad, "_");
    let inner = name.trim();
    let before = name.len() - name.trim_start().len();
    "_".repeat(before) + inner + &"_".repeat(name.len() - before - inner.len())
}

impl<W: Write> CsvWriter<W> {
    /// Writes to `to`.
    pub fn new(to: W) -> Self {
        Self { to: BufWriter::new(to), volumes: DistinctNames::default(), is_begun: false }
    }

    /// Writes requests.
    ///
    /// # Errors
    /// `Write` if the file cannot be written.
    pub fn write(&mut self, requests: &[Request], names: &Names) -> Result<(), TraceError> {
        self.try_write(requests, names).map_err(|source| TraceError::Write { source })
    }

    /// Writes everything that is buffered.
    ///
    /// # Errors
    /// `Write` if the file cannot be written.
    pub fn finish(mut self) -> Result<W, TraceError> {
        self.begin().map_err(|source| TraceError::Write { source })?;
        self.to.into_inner().map_err(|error| TraceError::Write { source: error.into_error() })
    }

    fn begin(&mut self) -> std::io::Result<()> {
        if std::mem::replace(&mut self.is_begun, true) { Ok(()) } else { writeln!(self.to, "{HEADER}") }
    }

    fn try_write(&mut self, requests: &[Request], names: &Names) -> std::io::Result<()> {
        self.begin()?;
        for request in requests {
            let Request { issued_ns, offset_bytes, len_bytes, latency_ns, .. } = *request;
            let latency = if latency_ns == NOT_KNOWN { String::new() } else { latency_ns.to_string() };
            let volume = self.volumes.name(request.volume, &names.volumes, held);
            writeln!(self.to, "{issued_ns},{},{offset_bytes},{len_bytes},{latency},{volume}", op_name(request.op))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Op;
    use crate::format::{Format, from_reader};
    use std::path::Path;

    #[test]
    fn what_is_written_is_read_again() {
        let mut names = Names::default();
        let volume = names.volumes.number("a,b");
        let requests: Vec<Request> = Op::ALL
            .into_iter()
            .zip(0u64..)
            .map(|(op, at)| Request {
                volume,
                latency_ns: if at % 2 == 0 { NOT_KNOWN } else { 7 },
                ..Request::new(
                    at * 1000,
                    op,
                    if op == Op::Flush { 0 } else { at * 4096 },
                    if op == Op::Flush { 0 } else { 512 },
                )
            })
            .collect();
        let mut writer = CsvWriter::new(Vec::new());
        writer.write(&requests, &names).unwrap();
        let text = writer.finish().unwrap();
        let mut source = from_reader(std::io::Cursor::new(text), Path::new("x"), None).unwrap();
        let (mut read, mut found) = (Vec::new(), Names::default());
        while source.read(&mut read, &mut found).unwrap() {}
        assert_eq!(found.volumes.name(read[0].volume), "a_b");
        read.iter_mut().for_each(|request| request.volume = volume);
        assert_eq!(read, requests);
        assert_eq!(source.faults().count, 0);
    }

    #[test]
    fn columns_are_known_by_their_names() {
        let text = "Size,note,Time_us,Op,Offset\n4096,x,1000,W,8192\n512,y,1001.5,trim,0\nx,y,z,w,v\n";
        let mut source = from_reader(std::io::Cursor::new(text), Path::new("x"), Some(Format::Csv)).unwrap();
        let (mut read, mut names) = (Vec::new(), Names::default());
        while source.read(&mut read, &mut names).unwrap() {}
        assert_eq!(read, [Request::new(0, Op::Write, 8192, 4096), Request::new(1500, Op::Discard, 0, 512)]);
        assert_eq!(source.faults().count, 1);
    }
}

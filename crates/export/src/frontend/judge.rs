//! Rules for the requests of all front ends, whatever their protocols have checked.

use super::FrontRequest;
use crate::exports::Export;
use crate::limits::MIN_BLOCK_BYTES;
use forebay_volume::{Op, RequestError};

/// Checks a request against its export. The bounds come from the export's present size, which may have shrunk.
pub(crate) fn judge(request: &FrontRequest, export: &Export, payload_bytes_max: u32) -> Result<(), RequestError> {
    let changes = match &request.op {
        Op::Flush => return Ok(()),
        Op::Write(buf) => {
            if buf.len() as u64 != request.len_bytes {
                return Err(RequestError::OutOfRange);
            }
            true
        }
        Op::Discard | Op::WriteZeroes { .. } | Op::Reclass => true,
        Op::Read | Op::Cache | Op::Status { .. } => false,
    };
    if changes && export.read_only {
        return Err(RequestError::ReadOnly(format!("export {:?} refuses writes", export.name)));
    }
    let is_aligned = (request.offset_bytes | request.len_bytes).is_multiple_of(u64::from(MIN_BLOCK_BYTES));
    let end_bytes = request.offset_bytes.checked_add(request.len_bytes);
    if request.len_bytes == 0 || !is_aligned || end_bytes.is_none_or(|end| end > export.size_bytes) {
        return Err(RequestError::OutOfRange);
    }
    if matches!(request.op, Op::Read | Op::Write(_)) && request.len_bytes > u64::from(payload_bytes_max) {
        return Err(RequestError::OutOfRange);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_block::{Buf, DiskId};

    fn judged(op: Op, offset_bytes: u64, len_bytes: u64, read_only: bool) -> Result<(), RequestError> {
        let export = Export {
            name: "e".to_owned(),
            disk: DiskId(0),
            size_bytes: 1 << 20,
            read_only,
            tag: None,
            description: String::new(),
            access: crate::access::Access::default(),
        };
        let request = FrontRequest { token: 0, offset_bytes, len_bytes, op, fua: false, hints: None };
        judge(&request, &export, 64 << 10)
    }

    #[test]
    fn requests_beyond_the_export_or_against_it_are_refused() {
        let out = Err(RequestError::OutOfRange);
        assert_eq!(judged(Op::Read, 0, 4096, true), Ok(()));
        assert_eq!(judged(Op::Flush, 7, 9, true), Ok(()));
        assert_eq!(judged(Op::Write(Buf::new(512)), (1 << 20) - 512, 512, false), Ok(()));
        assert_eq!(judged(Op::Write(Buf::new(512)), (1 << 20) - 512, 1024, false), out);
        assert_eq!(judged(Op::Write(Buf::new(512)), 0, 1024, false), out, "a payload of another length");
        assert_eq!(judged(Op::Read, 1 << 20, 512, false), out);
        assert_eq!(judged(Op::Read, u64::MAX - 511, 512, false), out);
        assert_eq!(judged(Op::Read, 0, 0, false), out);
        assert_eq!(judged(Op::Read, 100, 512, false), out);
        assert_eq!(judged(Op::Read, 0, 128 << 10, false), out, "longer than what one request may carry");
        assert_eq!(judged(Op::Discard, 0, 1 << 20, false), Ok(()));
        for op in [Op::Write(Buf::new(512)), Op::Discard, Op::WriteZeroes { may_unmap: true }] {
            assert!(matches!(judged(op, 0, 512, true), Err(RequestError::ReadOnly(_))));
        }
    }
}

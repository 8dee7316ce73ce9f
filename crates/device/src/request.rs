//! The checks that every target applies to a request before it touches anything: inside the device, aligned, not
//! empty.

use forebay_block::{Completion, Geometry, IoError, IoErrorKind, Op, Request};

/// Whether the operation changes the content of the device.
#[must_use]
pub fn is_mutation(op: &Op) -> bool {
    matches!(op, Op::Write { .. } | Op::Discard { .. } | Op::WriteZeroes { .. })
}

/// Checks range and alignment, and returns the length in bytes: 0 for a flush, whose offset is ignored.
///
/// # Errors
/// [`IoErrorKind::Invalid`]: the request is empty, not a multiple of the logical block, or not inside the device.
pub fn validate(geometry: &Geometry, request: &Request) -> Result<u64, IoError> {
    let len = request.op.len_bytes();
    if matches!(request.op, Op::Flush) {
        return Ok(0);
    }
    let block = u64::from(geometry.logical_block_bytes);
    let aligned = request.offset_bytes.is_multiple_of(block) && len.is_multiple_of(block);
    let inside = request.offset_bytes.checked_add(len).is_some_and(|end| end <= geometry.size_bytes);
    if aligned && inside && len > 0 { Ok(len) } else { Err(error(IoErrorKind::Invalid, request)) }
}

/// An error without an errno.
#[must_use]
pub fn error(kind: IoErrorKind, request: &Request) -> IoError {
    IoError { kind, operation: request.op.name(), offset_bytes: request.offset_bytes, os_error: 0 }
}

/// Completes `request` with `result`, and returns the buffers of a read.
#[must_use]
pub fn finish(request: Request, result: Result<(), IoError>) -> Completion {
    let bufs = match request.op {
        Op::Read { bufs, .. } => Some(bufs),
        _ => None,
    };
    Completion { tag: request.tag, result, bufs }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_block::{Buf, Vectored};

    fn geometry() -> Geometry {
        Geometry {
            size_bytes: 1 << 20,
            logical_block_bytes: 512,
            optimal_band_bytes: None,
            volatile_cache: false,
            durable_writes: true,
            discards: true,
        }
    }

    fn read(offset_bytes: u64, len: usize) -> Request {
        Request { tag: 0, offset_bytes, stream: 0, op: Op::read(Vectored::One(Buf::new(len))) }
    }

    #[test]
    fn accepts_the_edges_and_refuses_beyond_them() {
        let geometry = geometry();
        for (offset, len, good) in [
            (0, 512, true),
            ((1 << 20) - 512, 512, true),
            (1 << 20, 512, false),
            (0, 0, false),
            (1, 512, false),
            (0, 511, false),
            (u64::MAX - 511, 1024, false),
        ] {
            assert_eq!(validate(&geometry, &read(offset, len)).is_ok(), good, "{offset}+{len}");
        }
        let huge = Request { tag: 0, offset_bytes: 512, stream: 0, op: Op::Discard { len_bytes: u64::MAX - 511 } };
        assert_eq!(validate(&geometry, &huge).unwrap_err().kind, IoErrorKind::Invalid);
        let flush = Request { tag: 0, offset_bytes: 77, stream: 0, op: Op::Flush };
        assert_eq!(validate(&geometry, &flush).unwrap(), 0);
    }
}

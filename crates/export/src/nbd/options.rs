//! Parses the data of options ("Option types"). Every length is checked against the bytes present before it is used.

use super::wire::{STRING_BYTES_MAX, u16_at, u32_at};

/// A malformed option: answered with `NBD_REP_ERR_INVALID` and this text.
pub type Malformed = &'static str;

/// Data of INFO and GO.
#[derive(Debug, PartialEq, Eq)]
pub struct InfoRequest<'a> {
    /// Name of the export; empty for the default one.
    pub name: &'a str,
    /// Requested information types, two bytes each.
    wanted: &'a [u8],
}

impl<'a> InfoRequest<'a> {
    /// Parses the data.
    ///
    /// # Errors
    /// The data is malformed.
    pub fn parse(data: &'a [u8]) -> Result<Self, Malformed> {
        let (name, rest) = string(data)?;
        let count = usize::from(u16_at(rest, 0).ok_or("the option ends within the number of information requests")?);
        let wanted = &rest[2..];
        if wanted.len() != 2 * count {
            return Err("the number of information requests does not match the length of the option");
        }
        Ok(Self { name, wanted })
    }

    /// Whether an information type was requested.
    #[must_use]
    pub fn wants(&self, info: u16) -> bool {
        self.wanted.chunks_exact(2).any(|pair| pair == info.to_be_bytes())
    }
}

/// Data of LIST_META_CONTEXT and SET_META_CONTEXT.
#[derive(Debug, PartialEq, Eq)]
pub struct ContextRequest<'a> {
    /// Name of the export.
    pub name: &'a str,
    /// Count of queries; [`ContextRequest::queries`] returns that many.
    pub count: usize,
    queries: &'a [u8],
}

impl<'a> ContextRequest<'a> {
    /// Parses the data and checks all queries.
    ///
    /// # Errors
    /// The data is malformed.
    pub fn parse(data: &'a [u8]) -> Result<Self, Malformed> {
        let (name, rest) = string(data)?;
        let count = u32_at(rest, 0).ok_or("the option ends within the number of queries")?;
        let queries = &rest[4..];
        let mut left = queries;
        let mut seen = 0u32;
        while !left.is_empty() {
            let (query, rest) = string(left)?;
            if !query.contains(':') {
                return Err("a query has no namespace");
            }
            seen += 1;
            left = rest;
        }
        if seen != count {
            return Err("the number of queries does not match the length of the option");
        }
        Ok(Self { name, count: seen as usize, queries })
    }

    /// The queries, in order.
    pub fn queries(&self) -> impl Iterator<Item = &'a str> {
        let mut left = self.queries;
        std::iter::from_fn(move || {
            let (query, rest) = string(left).ok()?;
            left = rest;
            Some(query)
        })
    }
}

/// A string with its 32-bit length before it, and the data behind it.
fn string(data: &[u8]) -> Result<(&str, &[u8]), Malformed> {
    let len = u32_at(data, 0).ok_or("the option ends within the length of a string")? as usize;
    if len > STRING_BYTES_MAX {
        return Err("a string is longer than 4096 bytes");
    }
    let bytes = data.get(4..4 + len).ok_or("a string is longer than the option")?;
    Ok((text(bytes)?, &data[4 + len..]))
}

/// A string of the protocol: UTF-8 without NUL ("Conventions").
///
/// # Errors
/// The bytes are not such a string.
pub fn text(bytes: &[u8]) -> Result<&str, Malformed> {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => Ok(text),
        _ => Err("a string is not UTF-8 without NUL"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_info_requests_apart() {
        let data = b"\0\0\0\x02ab\0\x02\0\x03\0\x01";
        let request = InfoRequest::parse(data).unwrap();
        assert_eq!(request.name, "ab");
        assert!(request.wants(3) && request.wants(1) && !request.wants(2));
        for cut in 0..data.len() {
            assert!(InfoRequest::parse(&data[..cut]).is_err(), "cut at {cut}");
        }
        assert!(InfoRequest::parse(b"\0\0\0\x02ab\0\x02\0\x03\0\x01\0").is_err());
        assert!(InfoRequest::parse(b"\xff\xff\xff\xffab\0\0").is_err());
    }

    #[test]
    fn takes_context_requests_apart() {
        let data = b"\0\0\0\0\0\0\0\x02\0\0\0\x03a:b\0\0\0\x02c:";
        let request = ContextRequest::parse(data).unwrap();
        assert_eq!((request.name, request.count), ("", 2));
        assert_eq!(request.queries().collect::<Vec<_>>(), ["a:b", "c:"]);
        for cut in 0..data.len() {
            assert!(ContextRequest::parse(&data[..cut]).is_err(), "cut at {cut}");
        }
        assert!(ContextRequest::parse(b"\0\0\0\0\0\0\0\x01\0\0\0\x01a").is_err());
    }
}

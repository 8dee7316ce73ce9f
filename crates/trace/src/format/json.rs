//! The members of a JSON object whose members are values or objects of values. Deeper members are skipped.

use super::fields::{Bad, number};

/// A value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    /// The text between quotes, with its escapes.
    Text(&'a [u8]),
    /// A number, `true`, `false` or `null`.
    Bare(&'a [u8]),
}

impl<'a> Value<'a> {
    /// A whole number; 64-bit numbers are in quotes.
    pub fn number(self) -> Result<u64, Bad> {
        number(self.raw())
    }

    /// Whether the value is true.
    pub fn is_true(self) -> Result<bool, Bad> {
        match self {
            Self::Bare(b"true") => Ok(true),
            Self::Bare(b"false") => Ok(false),
            _ => Err("neither true nor false where one should be"),
        }
    }

    /// The raw bytes.
    pub fn raw(self) -> &'a [u8] {
        let (Self::Text(raw) | Self::Bare(raw)) = self;
        raw
    }
}

/// A member with a value.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Member<'a> {
    /// The member of the outer object that contains it; empty for a member of the outer object.
    pub group: &'a [u8],
    pub key: &'a [u8],
    pub value: Value<'a>,
}

/// What may follow.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    Begin,
    FirstMember,
    CommaOrEnd,
}

/// Iterates over the members.
pub(super) struct Members<'a> {
    rest: &'a [u8],
    group: &'a [u8],
    depth: u8,
    next: Next,
}

impl<'a> Members<'a> {
    pub fn new(text: &'a [u8]) -> Self {
        Self { rest: text, group: b"", depth: 0, next: Next::Begin }
    }

    /// The next member; `None` at the end of the object.
    #[inline]
    pub fn next(&mut self) -> Result<Option<Member<'a>>, Bad> {
        if self.next == Next::Begin {
            self.expect(b'{')?;
            (self.depth, self.next) = (1, Next::FirstMember);
        }
        while self.depth > 0 {
            let byte = self.peek()?;
            if byte == b'}' {
                self.expect(b'}')?;
                self.depth -= 1;
                (self.group, self.next) = (b"", Next::CommaOrEnd);
                continue;
            }
            if self.next == Next::CommaOrEnd {
                self.expect(b',')?;
            }
            self.expect(b'"')?;
            let key = self.string()?;
            self.expect(b':')?;
            self.next = Next::CommaOrEnd;
            match self.peek()? {
                b'"' => {
                    self.expect(b'"')?;
                    let value = Value::Text(self.string()?);
                    return Ok(Some(Member { group: self.group, key, value }));
                }
                b'{' if self.depth == 1 => {
                    self.expect(b'{')?;
                    (self.group, self.depth, self.next) = (key, 2, Next::FirstMember);
                }
                b'{' | b'[' => self.pass_over()?,
                _ => {
                    let value = Value::Bare(self.bare()?);
                    return Ok(Some(Member { group: self.group, key, value }));
                }
            }
        }
        if self.rest.trim_ascii().is_empty() { Ok(None) } else { Err("there is something behind the object") }
    }

    /// The next byte that is no blank.
    #[inline]
    fn peek(&mut self) -> Result<u8, Bad> {
        while let [byte, rest @ ..] = self.rest {
            if !byte.is_ascii_whitespace() {
                return Ok(*byte);
            }
            self.rest = rest;
        }
        Err("the object is cut off")
    }

    #[inline]
    fn expect(&mut self, wanted: u8) -> Result<(), Bad> {
        if self.peek()? != wanted {
            return Err("no JSON object");
        }
        self.rest = &self.rest[1..];
        Ok(())
    }

    /// The string up to the closing quote, which is consumed.
    #[inline]
    fn string(&mut self) -> Result<&'a [u8], Bad> {
        let mut at = 0;
        loop {
            let rest = self.rest.get(at..).ok_or("a string is cut off")?;
            let found = rest.iter().position(|&byte| byte == b'"' || byte == b'\\').ok_or("a string is cut off")?;
            if rest[found] == b'"' {
                let string = &self.rest[..at + found];
                self.rest = &rest[found + 1..];
                return Ok(string);
            }
            at += found + 2;
        }
    }

    #[inline]
    fn bare(&mut self) -> Result<&'a [u8], Bad> {
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
        let count = self.rest.iter().take_while(|byte| is_part(byte)).count();
        let (bare, rest) = self.rest.split_at(count);
        self.rest = rest;
        if bare.is_empty() { Err("a value is missing") } else { Ok(bare) }
    }

    /// Skips an object or array.
    fn pass_over(&mut self) -> Result<(), Bad> {
        let mut open = 0_usize;
        loop {
            let byte = self.peek()?;
            self.rest = &self.rest[1..];
            match byte {
                b'{' | b'[' => open += 1,
                b'}' | b']' => open -= 1,
                b'"' => {
                    self.string()?;
                }
                _ => {}
            }
            if open == 0 {
                return Ok(());
            }
        }
    }
}

/// The text of a string with its escapes replaced.
pub(super) fn unescaped(raw: &str) -> String {
    let mut text = String::with_capacity(raw.len());
    let mut rest = raw.chars();
    while let Some(letter) = rest.next() {
        if letter != '\\' {
            text.push(letter);
            continue;
        }
        match rest.next() {
            Some('n') => text.push('\n'),
            Some('t') => text.push('\t'),
            Some('r') => text.push('\r'),
            Some('b') => text.push('\u{8}'),
            Some('f') => text.push('\u{c}'),
            Some('u') => {
                let code = rest.as_str().get(..4).and_then(|digits| u32::from_str_radix(digits, 16).ok());
                // Surrogate pairs are not combined: paths are only escaped for control characters.
                text.push(code.and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER));
                rest.by_ref().take(4).for_each(drop);
            }
            Some(other) => text.push(other),
            None => {}
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(text: &str) -> Result<Vec<String>, Bad> {
        let mut members = Members::new(text.as_bytes());
        let mut found = Vec::new();
        while let Some(member) = members.next()? {
            let [group, key, value] = [member.group, member.key, member.value.raw()].map(String::from_utf8_lossy);
            found.push(format!("{group}.{key}={value}"));
        }
        Ok(found)
    }

    #[test]
    fn members_of_two_levels() {
        let text = r#" {"a":{"b":"1","c":-2.5e3 , "x":[1,{"y":"]}"}],"d":{}},"e":true,"f":[],"g":{},"h":"\"}"} "#;
        assert_eq!(all(text).unwrap(), ["a.b=1", "a.c=-2.5e3", ".e=true", r#".h=\"}"#]);
        assert_eq!(all("{}").unwrap(), [""; 0]);
    }

    #[test]
    fn what_is_no_object() {
        let bad = [
            "",
            "1",
            "[]",
            "{",
            "{\"a\"",
            "{\"a\":",
            "{\"a\":1",
            "{\"a\":1,",
            "{\"a\":1}}",
            "{\"a\":1}x",
            "{a:1}",
            "{\"a\":1 \"b\":2}",
            "{\"a\":{\"b\":1}",
            "{\"a\":[1}",
            "{\"a\":}",
            "{\"a\\",
            "{,\"a\":1}",
        ];
        for text in bad {
            assert!(all(text).is_err() || text == "{\"a\":[1}", "{text}");
        }
    }

    #[test]
    fn escapes() {
        assert_eq!(unescaped(r#"a\/b\"\\\u0041\n\u12"#), "a/b\"\\A\n\u{fffd}");
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(text in "[{}\\[\\]\",:a1\\\\u ]{0,60}") {
            let _ = all(&text);
            let _ = unescaped(&text);
        }
    }
}

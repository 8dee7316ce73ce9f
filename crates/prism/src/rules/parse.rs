//! A recursive-descent parser with a depth limit; no input causes a panic.

use super::error::{DEPTH_LIMIT, RULE_LIMIT_BYTES, RuleError, RuleErrorKind};
use super::expression::{Comparison, Expression, Number, Predicate};
use super::predicates::{PREDICATES, Shape, find};
use crate::{Direction, Lifetime};
use forebay_block::mistakes::nearest;

pub(super) fn parse(text: &str) -> Result<Expression, RuleError> {
    if text.len() > RULE_LIMIT_BYTES {
        return Err(RuleError { position: 1, kind: RuleErrorKind::TooLong });
    }
    let mut parser = Parser { chars: text.chars().collect(), at: 0 };
    let expression = parser.or(0)?;
    parser.blanks();
    match parser.peek() {
        None => Ok(expression),
        Some(_) => Err(parser.expected("`&`, `|` or the end")),
    }
}

struct Parser {
    chars: Vec<char>,
    at: usize,
}

type Parsed<T> = Result<T, RuleError>;

impl Parser {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn blanks(&mut self) {
        while self.peek().is_some_and(char::is_whitespace) {
            self.at += 1;
        }
    }

    fn eat(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        self.at += usize::from(found);
        found
    }

    fn error_at(at: usize, kind: RuleErrorKind) -> RuleError {
        RuleError { position: at + 1, kind }
    }

    fn expected(&self, expected: &'static str) -> RuleError {
        let found = match self.peek() {
            None => "the end".into(),
            Some(c) => format!("`{c}`"),
        };
        Self::error_at(self.at, RuleErrorKind::Expected { expected, found })
    }

    fn or(&mut self, depth: usize) -> Parsed<Expression> {
        self.chain(depth, '|', Self::and, Expression::Or)
    }

    fn and(&mut self, depth: usize) -> Parsed<Expression> {
        self.chain(depth, '&', Self::unary, Expression::And)
    }

    /// Parses one or more parts separated by `operator`; a single part is returned unchanged.
    fn chain(
        &mut self,
        depth: usize,
        operator: char,
        part: fn(&mut Self, usize) -> Parsed<Expression>,
        join: fn(Vec<Expression>) -> Expression,
    ) -> Parsed<Expression> {
        let first = part(self, depth)?;
        let mut parts = vec![first];
        loop {
            self.blanks();
            if !self.eat(operator) {
                break;
            }
            parts.push(part(self, depth)?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { join(parts) })
    }

    fn unary(&mut self, depth: usize) -> Parsed<Expression> {
        self.blanks();
        if depth >= DEPTH_LIMIT {
            return Err(Self::error_at(self.at, RuleErrorKind::TooDeep));
        }
        if self.eat('!') {
            return Ok(Expression::Not(Box::new(self.unary(depth + 1)?)));
        }
        if self.eat('(') {
            let inner = self.or(depth + 1)?;
            self.blanks();
            return if self.eat(')') { Ok(inner) } else { Err(self.expected("`)`")) };
        }
        self.predicate().map(Expression::Test)
    }

    fn predicate(&mut self) -> Parsed<Predicate> {
        let start = self.at;
        while self.peek().is_some_and(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.') {
            self.at += 1;
        }
        let name: String = self.chars[start..self.at].iter().collect();
        if name.is_empty() {
            return Err(self.expected("a predicate"));
        }
        let Some((name, shape)) = find(&name) else {
            let nearest = nearest(&name, PREDICATES.iter().copied());
            return Err(Self::error_at(start, RuleErrorKind::UnknownPredicate { name, nearest }));
        };
        self.blanks_before_argument();
        match shape {
            Shape::Evidence(test) => self.no_argument(Predicate::Evidence(test)),
            Shape::Done => self.no_argument(Predicate::Done),
            Shape::Number(number) => self.number_test(name, number),
            Shape::Disk => {
                let (_, value) = self.equals_value(name)?;
                Ok(Predicate::Disk(value))
            }
            Shape::Export => {
                let (quoted, value) = self.equals_value(name)?;
                Ok(match value.parse() {
                    Ok(index) if !quoted => Predicate::ExportIndex(index),
                    _ => Predicate::ExportName(value),
                })
            }
            Shape::Direction => {
                let at = self.at;
                match self.equals_value(name)?.1.as_str() {
                    "read" => Ok(Predicate::Direction(Direction::Read)),
                    "write" => Ok(Predicate::Direction(Direction::Write)),
                    other => Err(bad_value(at, name, "`read` or `write`", other)),
                }
            }
            Shape::HostBit(bit) => self.no_argument(Predicate::HostBit(bit)),
            Shape::HostName(host) => {
                let (_, pattern) = self.equals_value(name)?;
                Ok(Predicate::HostName { name: host, pattern })
            }
            Shape::Lifetime => self.lifetime(name),
            Shape::Pending => self.pending(name),
        }
    }

    /// Skips blanks between a name and its argument; leaves other blanks to the next parser.
    fn blanks_before_argument(&mut self) {
        let before = self.at;
        self.blanks();
        let argument = match self.peek() {
            Some('!') => self.chars.get(self.at + 1) == Some(&'='),
            next => matches!(next, Some(':' | '=' | '<' | '>')),
        };
        if !argument {
            self.at = before;
        }
    }

    fn no_argument(&mut self, predicate: Predicate) -> Parsed<Predicate> {
        match self.peek() {
            Some(':' | '=' | '<' | '>') => Err(self.expected("no argument here")),
            _ => Ok(predicate),
        }
    }

    /// Parses `=`, `==`, `!=`, `<`, `<=`, `>` or `>=`, if one is next.
    fn comparison(&mut self) -> Option<Comparison> {
        let pair = (self.peek()?, self.chars.get(self.at + 1).copied());
        let (comparison, length) = match pair {
            ('=', Some('=')) => (Comparison::Eq, 2),
            ('=', _) => (Comparison::Eq, 1),
            ('!', Some('=')) => (Comparison::Ne, 2),
            ('<', Some('=')) => (Comparison::Le, 2),
            ('<', _) => (Comparison::Lt, 1),
            ('>', Some('=')) => (Comparison::Ge, 2),
            ('>', _) => (Comparison::Gt, 1),
            _ => return None,
        };
        self.at += length;
        Some(comparison)
    }

    /// Parses `:value` or `=value`; returns whether the value was quoted, and the value.
    fn equals_value(&mut self, name: &'static str) -> Parsed<(bool, String)> {
        if !self.eat(':') {
            if !self.eat('=') {
                return Err(self.expected("`:` and a value"));
            }
            self.eat('=');
        }
        let at = self.at;
        let (quoted, value) = self.value()?;
        if value.is_empty() {
            return Err(bad_value(at, name, "a value", ""));
        }
        Ok((quoted, value))
    }

    /// Parses a bare word or a quoted string; returns whether it was quoted, and the text.
    fn value(&mut self) -> Parsed<(bool, String)> {
        self.blanks();
        let mut value = String::new();
        if self.eat('"') {
            loop {
                match self.peek() {
                    None => return Err(self.expected("a closing `\"`")),
                    Some('"') => break,
                    Some('\\') => {
                        self.at += 1;
                        value.extend(self.peek());
                    }
                    Some(c) => value.push(c),
                }
                self.at += 1;
            }
            self.at += 1;
            return Ok((true, value));
        }
        while let Some(c) = self.peek().filter(|&c| !super::print::ends_word(c)) {
            value.push(c);
            self.at += 1;
        }
        Ok((false, value))
    }

    fn number_test(&mut self, name: &'static str, number: Number) -> Parsed<Predicate> {
        const NEEDS: &str = "a number (suffixes B, KiB, MiB, GiB, TiB, PiB), a comparison, or a range `a..b`";
        if let Some(comparison) = self.comparison() {
            self.blanks();
            let at = self.at;
            let (_, text) = self.value()?;
            let value = size(&text).ok_or_else(|| bad_value(at, name, NEEDS, &text))?;
            return Ok(Predicate::Compare { number, comparison, value });
        }
        if !self.eat(':') {
            return Err(self.expected("`:` or a comparison"));
        }
        let at = self.at;
        let (_, text) = self.value()?;
        let bad = || bad_value(at, name, NEEDS, &text);
        if let Some((word, value)) = text.split_once(':') {
            let comparison = match word {
                "eq" => Comparison::Eq,
                "ne" => Comparison::Ne,
                "lt" => Comparison::Lt,
                "le" => Comparison::Le,
                "gt" => Comparison::Gt,
                "ge" => Comparison::Ge,
                _ => return Err(bad()),
            };
            let value = size(value).ok_or_else(bad)?;
            return Ok(Predicate::Compare { number, comparison, value });
        }
        if let Some((start, end)) = text.split_once("..") {
            let (start, end) = size(start).zip(size(end)).ok_or_else(bad)?;
            return Ok(Predicate::Range { number, start, end });
        }
        let value = size(&text).ok_or_else(bad)?;
        Ok(Predicate::Compare { number, comparison: Comparison::Eq, value })
    }

    fn lifetime(&mut self, name: &'static str) -> Parsed<Predicate> {
        const NEEDS: &str = "`not-set`, `none`, `short`, `medium`, `long`, `extreme`, or 0 to 5";
        let at = self.at;
        let (_, value) = self.equals_value(name)?;
        let found = Lifetime::ALL.into_iter().enumerate();
        let found = found.filter(|(number, lifetime)| lifetime.name() == value || number.to_string() == value);
        let lifetime = found.map(|(_, lifetime)| lifetime).next();
        lifetime.map(Predicate::Lifetime).ok_or_else(|| bad_value(at, name, NEEDS, &value))
    }

    fn pending(&mut self, name: &'static str) -> Parsed<Predicate> {
        let mut argument = String::new();
        if self.eat(':') {
            argument.push_str(&self.value()?.1);
        } else if let Some(comparison) = self.comparison() {
            argument = format!("{}:{}", super::print::word(comparison), self.value()?.1);
        }
        Ok(Predicate::Pending { name, argument })
    }
}

fn bad_value(at: usize, predicate: &'static str, needs: &'static str, value: &str) -> RuleError {
    RuleError { position: at + 1, kind: RuleErrorKind::BadValue { predicate, needs, value: value.into() } }
}

/// Parses a number with an optional binary suffix, in any case.
fn size(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "kib" => 10,
        "mib" => 20,
        "gib" => 30,
        "tib" => 40,
        "pib" => 50,
        _ => return None,
    };
    // `parse` alone would also accept "+5".
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

//! Rust source as the rules see it: code without comments, strings and tests; comments without code.

/// One `.rs` file taken apart. All four texts have the line structure of the file.
pub struct Source {
    /// Path from the top of the repository.
    pub path: String,
    /// Number of lines.
    pub lines: usize,
    /// Code alone: comments and the insides of literals are blanks.
    pub code: String,
    /// [`Source::code`] without items under `#[cfg(test)]`.
    pub product: String,
    /// Comments alone.
    pub comments: String,
    /// String literals that are one identifier, such as the keys of JSON.
    pub keys: String,
}

impl Source {
    /// Takes `text` apart.
    pub fn new(path: &str, text: &str) -> Self {
        let (code, comments, keys) = split(text);
        let product = if is_test_path(path) { blank(&code) } else { without_tests(&code) };
        Self { path: path.to_owned(), lines: text.lines().count(), code, product, comments, keys }
    }

    /// Files and folders of the modules that this file declares for tests only (`#[cfg(test)] mod x;`).
    pub fn test_modules(&self) -> Vec<String> {
        let (folder, file) = self.path.rsplit_once('/').unwrap_or(("", &self.path));
        let inside = match file {
            "lib.rs" | "main.rs" | "mod.rs" => folder.to_owned(),
            _ => format!("{folder}/{}", file.trim_end_matches(".rs")),
        };
        let declared = |text: &str| -> Vec<String> {
            let words: Vec<(usize, &str)> = words(text).collect();
            let modules = words.windows(2).filter(|pair| pair[0].1 == "mod");
            modules
                .filter(|pair| text[pair[1].0 + pair[1].1.len()..].trim_start().starts_with(';'))
                .map(|pair| pair[1].1.to_owned())
                .collect()
        };
        let in_product = declared(&self.product);
        let only_tests = declared(&self.code).into_iter().filter(|name| !in_product.contains(name));
        only_tests.flat_map(|name| [format!("{inside}/{name}.rs"), format!("{inside}/{name}/")]).collect()
    }

    /// `path:line` of a byte offset into any of the texts.
    pub fn place(&self, text: &str, offset: usize) -> String {
        format!("{}:{}", self.path, text[..offset].matches('\n').count() + 1)
    }
}

/// Whether a path holds nothing but tests by its name alone; see [`Source::test_modules`] for the others.
fn is_test_path(path: &str) -> bool {
    path.split('/').any(|part| matches!(part, "tests" | "tests.rs" | "benches"))
}

fn blank(text: &str) -> String {
    text.chars().map(|c| if c == '\n' { '\n' } else { ' ' }).collect()
}

/// Code, comments and keys of `text`, each with blanks where the others are.
fn split(text: &str) -> (String, String, String) {
    let bytes = text.as_bytes();
    let mut code = vec![b' '; bytes.len()];
    let mut comments = vec![b' '; bytes.len()];
    let mut keys = vec![b' '; bytes.len()];
    for (at, byte) in bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n') {
        (code[at], comments[at], keys[at]) = (*byte, *byte, *byte);
    }
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let in_word = at > 0 && is_word(bytes[at - 1]);
        if rest.starts_with(b"//") || rest.starts_with(b"/*") {
            let end = at + comment_length(rest);
            comments[at..end].copy_from_slice(&bytes[at..end]);
            at = end;
        } else if let Some(length) = (!in_word).then(|| raw_string_length(rest)).flatten() {
            at += length;
        } else if rest[0] == b'"' {
            let end = at + quoted_length(rest);
            let inside = at + 1..end.saturating_sub(1).max(at + 1);
            if bytes[inside.clone()].iter().all(|byte| is_word(*byte)) {
                keys[inside.clone()].copy_from_slice(&bytes[inside]);
            }
            at = end;
        } else if let Some(length) = char_length(rest) {
            at += length;
        } else {
            code[at] = bytes[at];
            at += 1;
        }
    }
    // Only whole ASCII characters and whole comments were copied, so the texts are UTF-8 up to stray bytes.
    let [code, comments, keys] = [code, comments, keys].map(|text| String::from_utf8_lossy(&text).into_owned());
    (code, comments, keys)
}

/// Length of the comment at the start of `rest`; block comments nest.
fn comment_length(rest: &[u8]) -> usize {
    if rest.starts_with(b"//") {
        return rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
    }
    let (mut at, mut depth) = (0, 0);
    while at < rest.len() {
        if rest[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

/// Length of a raw string (`r"`, `r#"`, `br#"`, `cr#"`) at the start of `rest`, if there is one.
fn raw_string_length(rest: &[u8]) -> Option<usize> {
    let prefix = rest.iter().take(2).position(|byte| *byte == b'r')? + 1;
    if prefix == 2 && !matches!(rest[0], b'b' | b'c') {
        return None;
    }
    let hashes = rest[prefix..].iter().take_while(|byte| **byte == b'#').count();
    if rest.get(prefix + hashes) != Some(&b'"') {
        return None;
    }
    let start = prefix + hashes + 1;
    let mut close = vec![b'"'];
    close.extend(vec![b'#'; hashes]);
    let length = rest[start..].windows(close.len()).position(|window| window == close);
    Some(length.map_or(rest.len(), |length| start + length + close.len()))
}

/// Length of the string literal at the start of `rest`, which starts with its quote.
fn quoted_length(rest: &[u8]) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// Length of a character literal at the start of `rest`; `None` for a lifetime or anything else.
fn char_length(rest: &[u8]) -> Option<usize> {
    if rest[0] != b'\'' {
        return None;
    }
    if rest.get(1) == Some(&b'\\') {
        let close = rest.iter().skip(3).position(|byte| *byte == b'\'')?;
        return Some(close + 4);
    }
    let text = std::str::from_utf8(&rest[1..rest.len().min(6)])
        .or_else(|error| std::str::from_utf8(&rest[1..1 + error.valid_up_to()]));
    let length = text.ok()?.chars().next()?.len_utf8();
    (rest.get(1 + length) == Some(&b'\'')).then_some(length + 2)
}

/// `code` with every item under a `cfg` that names `test` blanked, attribute included.
fn without_tests(code: &str) -> String {
    let mut out = code.to_owned();
    let mut from = 0;
    while let Some(start) = out[from..].find("#[cfg(").map(|at| at + from) {
        let Some(attribute) = out[start..].find(']').map(|at| start + at + 1) else {
            break;
        };
        let condition = &out[start..attribute];
        if !words(condition).any(|(_, word)| word == "test") || words(condition).any(|(_, word)| word == "not") {
            from = attribute;
            continue;
        }
        let end = item_end(&out, attribute);
        let blanked = blank(&out[start..end]);
        out.replace_range(start..end, &blanked);
        from = end;
    }
    out
}

/// Where the item ends that starts at `from`: its `;` or the brace that closes its body.
fn item_end(code: &str, from: usize) -> usize {
    let mut depth = 0usize;
    for (at, byte) in code.bytes().enumerate().skip(from) {
        match byte {
            b'{' | b'(' | b'[' => depth += 1,
            b')' | b']' => depth = depth.saturating_sub(1),
            b'}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at + 1;
                }
            }
            b';' if depth == 0 => return at + 1,
            _ => {}
        }
    }
    code.len()
}

fn is_word(byte: u8) -> bool {
    byte == b'_' || byte.is_ascii_alphanumeric()
}

/// The identifiers of `code` with their offsets.
pub fn words(code: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let bytes = code.as_bytes();
        while at < bytes.len() && !is_word(bytes[at]) {
            at += 1;
        }
        let start = at;
        while at < bytes.len() && is_word(bytes[at]) {
            at += 1;
        }
        (start < at).then(|| (start, &code[start..at]))
    })
}

/// Every path that `code` writes (`a::b::c`), `use` trees taken apart: `use std::{fs, io::{self, Read}}` gives
/// `std::fs`, `std::io`, `std::io::self`, `std::io::Read`.
pub fn paths(code: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    // What stands before each open brace of a tree, and the path that is being read.
    let mut trees: Vec<String> = Vec::new();
    let mut path = String::new();
    let (mut in_use, mut at) = (false, 0);
    let bytes = code.as_bytes();
    while at < bytes.len() {
        match bytes[at] {
            byte if is_word(byte) || byte == b'*' && in_use => {
                let end = bytes[at..].iter().position(|byte| !is_word(*byte)).map_or(bytes.len(), |n| at + n.max(1));
                let word = &code[at..end];
                if word == "use" && path.is_empty() {
                    in_use = true;
                } else if word == "as" {
                    path.clear();
                } else {
                    if !path.ends_with("::") {
                        path.clear();
                    }
                    path.push_str(word);
                    let whole = format!("{}{path}", trees.last().map_or("", String::as_str));
                    found.push((at, whole));
                }
                at = end;
                continue;
            }
            b':' if bytes.get(at + 1) == Some(&b':') => {
                path.push_str("::");
                at += 1;
            }
            b'{' if in_use => {
                let outer = trees.last().cloned().unwrap_or_default();
                trees.push(outer + &path);
                path.clear();
            }
            b'}' if in_use => {
                trees.pop();
                path.clear();
            }
            b';' => {
                in_use = false;
                trees.clear();
                path.clear();
            }
            byte if byte.is_ascii_whitespace() && path.ends_with("::") => {}
            byte if byte.is_ascii_whitespace() => {
                // `std :: fs` is a path too.
                if !code[at..].trim_start().starts_with("::") {
                    path.clear();
                }
            }
            _ => path.clear(),
        }
        at += 1;
    }
    found
}

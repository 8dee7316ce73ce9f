//! What the rule of imports reads in a source: modules, items, `use` trees, paths, and `impl` blocks.

use crate::source::Source;

/// A module: a file, or an inline module of one.
#[derive(Debug)]
pub struct Module {
    /// Path from the root of the crate, without `crate`.
    pub path: Vec<String>,
    pub file: String,
    /// Items defined here by name, without modules.
    pub items: Vec<String>,
    /// Every `use`, trees taken apart; those inside of functions too.
    pub uses: Vec<Use>,
    /// Paths of two or more parts elsewhere, with their offsets.
    pub paths: Vec<(usize, Vec<String>)>,
    /// The types of `impl` blocks that implement no trait.
    pub impls: Vec<Vec<String>>,
    /// Where `use` items stand: start and end of each.
    use_spans: Vec<(usize, usize)>,
}

/// One leaf of a `use` tree.
#[derive(Debug)]
pub struct Use {
    pub at: usize,
    /// The name it gives; `None` for `as _` and globs.
    pub name: Option<String>,
    /// What it names; a glob ends in `*`.
    pub path: Vec<String>,
    /// Whether it is a re-export, however far it reaches.
    pub public: bool,
}

impl Use {
    pub fn is_glob(&self) -> bool {
        self.path.last().is_some_and(|last| last == "*")
    }

    /// The path before the `*`.
    pub fn without_glob(&self) -> &[String] {
        &self.path[..self.path.len().saturating_sub(1)]
    }
}

impl Module {
    fn new(path: Vec<String>, file: &str) -> Self {
        Self {
            path,
            file: file.to_owned(),
            items: Vec::new(),
            uses: Vec::new(),
            paths: Vec::new(),
            impls: Vec::new(),
            use_spans: Vec::new(),
        }
    }

    /// Whether an item or a `use` of this module has this name.
    pub fn knows(&self, name: &str) -> bool {
        self.items.iter().any(|item| item == name) || self.uses.iter().any(|used| used.name.as_deref() == Some(name))
    }

    /// Whether this offset of the file lies in a `use` of this module.
    pub fn in_use(&self, at: usize) -> bool {
        self.use_spans.iter().any(|(start, end)| (*start..*end).contains(&at))
    }
}

/// The module that a file is: `src/a/mod.rs` and `src/a.rs` are `a`, the roots are the crate itself.
pub fn module_path(file: &str) -> Vec<String> {
    let inside = file.split_once("/src/").map_or(file, |(_, inside)| inside).trim_end_matches(".rs");
    let mut path: Vec<String> = inside.split('/').map(str::to_owned).collect();
    let root = path.len() == 1 && matches!(inside, "lib" | "main");
    if root || path.last().is_some_and(|last| last == "mod") {
        path.pop();
    }
    path
}

/// Words, `::`, and every other character that is no blank, with their offsets.
fn tokens(code: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut rest = code.char_indices().peekable();
    while let Some((at, character)) = rest.next() {
        let mut end = at + character.len_utf8();
        if character == '_' || character.is_ascii_alphanumeric() {
            while let Some((_, next)) = rest.next_if(|(_, next)| *next == '_' || next.is_ascii_alphanumeric()) {
                end += next.len_utf8();
            }
        } else if character.is_whitespace() {
            continue;
        } else if character == ':' && rest.next_if(|(_, next)| *next == ':').is_some() {
            end += 1;
        }
        found.push((at, &code[at..end]));
    }
    found
}

fn is_name(token: &str) -> bool {
    token.starts_with(|first: char| first == '_' || first.is_ascii_alphabetic())
}

/// The modules of one file: itself first, then its inline modules.
pub fn parse(source: &Source, path: Vec<String>) -> Vec<Module> {
    let tokens = tokens(&source.product);
    let text = |index: usize| tokens.get(index).map_or("", |(_, token)| *token);
    let mut modules = vec![Module::new(path, &source.path)];
    // The module that is open, and the depth of braces at which its items stand.
    let mut open = vec![(0usize, 0usize)];
    let (mut depth, mut index) = (0usize, 0usize);
    while index < tokens.len() {
        let (at, token) = tokens[index];
        let (current, floor) = open.last().copied().unwrap_or((0, 0));
        match token {
            "{" => depth += 1,
            "}" => {
                depth = depth.saturating_sub(1);
                if open.len() > 1 && depth < floor {
                    open.pop();
                }
            }
            "mod" if depth == floor && text(index + 2) == "{" => {
                let mut path = modules[current].path.clone();
                path.push(text(index + 1).to_owned());
                modules.push(Module::new(path, &source.path));
                depth += 1;
                open.push((modules.len() - 1, depth));
                index += 3;
                continue;
            }
            "use" if !matches!(text(index + 1), "<" | ",") => {
                let end = (index..tokens.len()).find(|end| text(*end) == ";").unwrap_or(tokens.len());
                let public = index > 0 && (text(index - 1) == "pub" || text(index - 1) == ")");
                let mut leaves = Vec::new();
                leaves_of(&tokens[index + 1..end], &[], &mut leaves);
                let module = &mut modules[current];
                module.use_spans.push((at, tokens.get(end).map_or(source.product.len(), |(at, _)| *at)));
                module.uses.extend(leaves.into_iter().map(|(at, name, path)| Use { at, name, path, public }));
                index = end;
                continue;
            }
            // Elsewhere it is an `impl Trait` of a signature.
            "impl" if depth == floor && (index == 0 || matches!(text(index - 1), "}" | "{" | ";" | "]" | "unsafe")) => {
                if let Some(path) = own_impl(&tokens[index + 1..]) {
                    modules[current].impls.push(path);
                }
            }
            "fn" | "struct" | "enum" | "union" | "trait" | "type" | "const" | "static" if depth == floor => {
                let name = if text(index + 1) == "mut" { text(index + 2) } else { text(index + 1) };
                if is_name(name) && !matches!(name, "fn" | "unsafe" | "extern" | "async") {
                    modules[current].items.push(name.to_owned());
                }
            }
            "macro_rules" if text(index + 1) == "!" => modules[current].items.push(text(index + 2).to_owned()),
            _ => {}
        }
        // `::a` begins outside of the crate, and `<T as a::B>::c` goes on behind a type.
        if is_name(token) && text(index + 1) == "::" && (index == 0 || text(index - 1) != "::") {
            let mut path = vec![token.to_owned()];
            while text(index + 1) == "::" && is_name(text(index + 2)) {
                path.push(text(index + 2).to_owned());
                index += 2;
            }
            modules[current].paths.push((at, path));
        }
        index += 1;
    }
    modules
}

/// The leaves of a `use` tree: offset, name given, path.
fn leaves_of(tokens: &[(usize, &str)], before: &[String], found: &mut Vec<(usize, Option<String>, Vec<String>)>) {
    let mut path = before.to_vec();
    let (mut name, mut at) = (None, 0);
    let mut index = 0;
    let mut whole = false;
    while index < tokens.len() {
        match tokens[index].1 {
            "{" => {
                let end = closing(tokens, index);
                let inside = &tokens[index + 1..end];
                let mut start = 0;
                for comma in commas(inside).into_iter().chain([inside.len()]) {
                    leaves_of(&inside[start..comma], &path, found);
                    start = comma + 1;
                }
                return;
            }
            "::" => {}
            "as" => {
                name = tokens.get(index + 1).map(|(_, name)| (*name).to_owned());
                index += 1;
            }
            part => {
                // `a::{self}` is `a`.
                if part != "self" || path.is_empty() {
                    path.push(part.to_owned());
                }
                at = tokens[index].0;
                whole = true;
            }
        }
        index += 1;
    }
    if whole {
        let name = name.or_else(|| path.last().cloned()).filter(|name| name != "_" && name != "*");
        found.push((at, name, path));
    }
}

/// Index of the brace that closes the one at `open`.
fn closing(tokens: &[(usize, &str)], open: usize) -> usize {
    let mut depth = 0usize;
    for (index, (_, token)) in tokens.iter().enumerate().skip(open) {
        match *token {
            "{" => depth += 1,
            "}" if depth <= 1 => return index,
            "}" => depth -= 1,
            _ => {}
        }
    }
    tokens.len()
}

/// Indices of the commas that stand in no inner brace.
fn commas(tokens: &[(usize, &str)]) -> Vec<usize> {
    let mut depth = 0usize;
    let mut found = Vec::new();
    for (index, (_, token)) in tokens.iter().enumerate() {
        match *token {
            "{" => depth += 1,
            "}" => depth = depth.saturating_sub(1),
            "," if depth == 0 => found.push(index),
            _ => {}
        }
    }
    found
}

/// The type of an `impl` block whose tokens after `impl` are given; `None` where it implements a trait.
fn own_impl(tokens: &[(usize, &str)]) -> Option<Vec<String>> {
    let (mut angles, mut path, mut whole) = (0usize, Vec::new(), false);
    for (index, (_, token)) in tokens.iter().enumerate() {
        match *token {
            "<" => {
                whole |= !path.is_empty();
                angles += 1;
            }
            // The arrow of a function type closes nothing.
            ">" if index > 0 && tokens[index - 1].1 == "-" => {}
            ">" => angles = angles.saturating_sub(1),
            _ if angles > 0 => {}
            "{" | "where" => break,
            "for" => return None,
            part if is_name(part) && !whole => path.push(part.to_owned()),
            _ => {}
        }
    }
    (!path.is_empty()).then_some(path)
}

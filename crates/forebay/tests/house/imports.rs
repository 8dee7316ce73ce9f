//! Which file of a crate imports which, and where such imports go in a circle.
//!
//! An import is a path that ends at an item of another file of the same crate: in a `use`, or written out in code
//! (`crate::a::b()`, `super::B`, `child::c()`), outside of what is compiled for tests only. It counts against the file
//! that *defines* the item: a re-export (`pub use`) and a private `use` on the way are followed. What does not count:
//! `mod child;`, naming a module and nothing in it, a visibility (`pub(in crate::a)`), and a `pub use` of a name that
//! the file itself does not use.
//! A name that comes through a glob counts where the file uses it. Calls of methods have no path and are not seen; for
//! them see [`spread_structs`].

use crate::source::{Source, words};
use crate::tokens::{Module, Use, module_path, parse};
use std::collections::{BTreeMap, BTreeSet};

/// One file's use of an item that another file of the crate defines.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Import {
    pub from: String,
    /// Line of the path, from 1.
    pub line: usize,
    pub to: String,
    /// The path as it is written, `use` trees taken apart.
    pub path: String,
}

/// Where a path ends.
enum Target<'a> {
    /// An item, or an unknown name, of this module; the name.
    Item(&'a Module, String),
    /// A module itself.
    Module(&'a Module),
    /// Something of another crate, of the language, or of a function's own.
    Outside,
}

/// The modules of one crate by their paths.
struct Tree {
    modules: BTreeMap<Vec<String>, Module>,
}

/// Re-exports are followed this far; a chain that is longer goes in a circle of its own, which the compiler refuses.
const LONGEST_CHAIN: usize = 16;

impl Tree {
    fn new(sources: &[Source]) -> Self {
        let mut modules = BTreeMap::new();
        for source in sources {
            for module in parse(source, module_path(&source.path)) {
                modules.insert(module.path.clone(), module);
            }
        }
        Self { modules }
    }

    fn child(&self, module: &Module, name: &str) -> Option<&Module> {
        let mut path = module.path.clone();
        path.push(name.to_owned());
        self.modules.get(&path)
    }

    /// Whether the file of a re-export uses the name itself. Before `::` it may be the module of that name instead.
    fn is_used(&self, used: &Use, module: &Module, source: &Source) -> bool {
        let name = used.name.as_deref().unwrap_or("");
        words(&source.product).any(|(at, word)| {
            let (before, after) = (source.product[..at].trim_end(), source.product[at + word.len()..].trim_start());
            let is_module = after.starts_with("::") && self.child(module, name).is_some();
            word == name
                && !module.in_use(at)
                && !is_module
                && !before.ends_with("::")
                && !before.ends_with('.')
                && !before.ends_with("mod")
        })
    }

    /// Follows `path` as it is written in `module`.
    fn resolve<'a>(&'a self, module: &'a Module, path: &[String], chain: usize) -> Target<'a> {
        let Some(first) = path.first() else {
            return Target::Outside;
        };
        match first.as_str() {
            "crate" => match self.modules.get(&Vec::new()) {
                Some(root) => self.walk(root, &path[1..], chain),
                None => Target::Outside,
            },
            "self" if path.get(1).is_some_and(|next| next == "super") => self.resolve(module, &path[1..], chain),
            "self" => self.walk(module, &path[1..], chain),
            "super" => {
                let parent = module.path.split_last().and_then(|(_, parent)| self.modules.get(parent));
                match parent {
                    Some(parent) if path.get(1).is_some_and(|next| next == "super") => {
                        self.resolve(parent, &path[1..], chain)
                    }
                    Some(parent) => self.walk(parent, &path[1..], chain),
                    None => Target::Outside,
                }
            }
            name if module.knows(name) || self.child(module, name).is_some() => self.walk(module, path, chain),
            name => self.through_globs(module, name, path, chain).unwrap_or(Target::Outside),
        }
    }

    /// Goes down `path` from `module`. A name that is both, a module and an item, is the module where something follows
    /// it, and the item where nothing does.
    fn walk<'a>(&'a self, module: &'a Module, path: &[String], chain: usize) -> Target<'a> {
        let Some((name, rest)) = path.split_first() else {
            return Target::Module(module);
        };
        if chain > LONGEST_CHAIN {
            return Target::Outside;
        }
        let child = self.child(module, name);
        if let (Some(child), false) = (child, rest.is_empty()) {
            return self.walk(child, rest, chain);
        }
        if module.items.contains(name) {
            return Target::Item(module, name.clone());
        }
        if let Some(binding) = module.uses.iter().find(|binding| binding.name.as_ref() == Some(name)) {
            // `use a::a` names by `a` what is inside the module `a`.
            let inner = child.filter(|_| binding.path.first() == Some(name));
            let whole: Vec<String> = binding.path.iter().chain(rest).cloned().collect();
            return match inner {
                Some(inner) => self.walk(inner, &whole[1..], chain + 1),
                None => self.resolve(module, &whole, chain + 1),
            };
        }
        if let Some(child) = child {
            return self.walk(child, rest, chain);
        }
        self.through_globs(module, name, path, chain).unwrap_or_else(|| Target::Item(module, name.clone()))
    }

    /// What `path` is where `name`, its start, comes into `module` by a glob.
    fn through_globs<'a>(
        &'a self,
        module: &'a Module,
        name: &str,
        path: &[String],
        chain: usize,
    ) -> Option<Target<'a>> {
        if chain > LONGEST_CHAIN {
            return None;
        }
        module.uses.iter().filter(|glob| glob.is_glob()).find_map(|glob| {
            match self.resolve(module, glob.without_glob(), chain + 1) {
                Target::Module(from)
                    if from.path != module.path && (from.knows(name) || self.child(from, name).is_some()) =>
                {
                    Some(self.walk(from, path, chain + 1))
                }
                _ => None,
            }
        })
    }
}

/// The imports of one crate's sources among each other.
pub fn imports(sources: &[Source]) -> Vec<Import> {
    let tree = Tree::new(sources);
    let mut found = BTreeSet::new();
    for module in tree.modules.values() {
        let Some(source) = sources.iter().find(|source| source.path == module.file) else {
            continue;
        };
        let mut import = |target: Target<'_>, path: &[String], at: usize| {
            if let Target::Item(to, _) = target
                && to.file != module.file
            {
                let line = source.product[..at].matches('\n').count() + 1;
                found.insert(Import { from: module.file.clone(), line, to: to.file.clone(), path: path.join("::") });
            }
        };
        for used in &module.uses {
            if used.is_glob() {
                let outer = used.without_glob();
                let target = tree.resolve(module, outer, 0);
                let Target::Module(from) = target else {
                    // A glob of an enumeration.
                    import(target, &used.path, used.at);
                    continue;
                };
                for (at, word) in words(&source.product).filter(|(at, _)| !module.in_use(*at)) {
                    if from.knows(word) && !module.knows(word) && !source.product[..at].ends_with("::") {
                        let path: Vec<String> =
                            outer.iter().map(String::as_str).chain([word]).map(str::to_owned).collect();
                        import(tree.resolve(module, &path, 0), &path, at);
                    }
                }
            } else if !used.public || tree.is_used(used, module, source) {
                import(tree.resolve(module, &used.path, 0), &used.path, used.at);
            }
        }
        for (at, path) in &module.paths {
            import(tree.resolve(module, path, 0), path, *at);
        }
    }
    found.into_iter().collect()
}

/// Files that import one another, directly or by way of others.
#[derive(Debug)]
pub struct Circle {
    /// How many they are.
    pub files: usize,
    /// Their imports of each other, for people.
    pub text: String,
}

/// All circles, a file being in one at most.
pub fn circles(imports: &[Import]) -> Vec<Circle> {
    let mut next: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for import in imports {
        next.entry(&import.from).or_default().insert(&import.to);
    }
    let reached = |from: &str| {
        let (mut seen, mut waiting) = (BTreeSet::new(), vec![from]);
        while let Some(file) = waiting.pop() {
            for other in next.get(file).into_iter().flatten() {
                if seen.insert(*other) {
                    waiting.push(other);
                }
            }
        }
        seen
    };
    let all: BTreeMap<&str, BTreeSet<&str>> = next.keys().map(|file| (*file, reached(file))).collect();
    let mut found = Vec::new();
    let mut done: BTreeSet<&str> = BTreeSet::new();
    for (file, after) in all.iter().filter(|(file, after)| after.contains(*file)) {
        if done.contains(file) {
            continue;
        }
        let group: BTreeSet<&str> =
            after.iter().copied().filter(|other| all.get(other).is_some_and(|back| back.contains(file))).collect();
        let mut needs: BTreeMap<(&str, &str), (usize, Vec<&str>)> = BTreeMap::new();
        for import in imports {
            if group.contains(import.from.as_str()) && group.contains(import.to.as_str()) {
                let need = needs.entry((&import.from, &import.to)).or_insert((import.line, Vec::new()));
                need.1.push(&import.path);
            }
        }
        let mut text = format!("{} files import one another:", group.len());
        for ((from, to), (line, paths)) in needs {
            text += &format!("\n    {from}:{line} needs {to} ({})", paths.join(", "));
        }
        found.push(Circle { files: group.len(), text });
        done.extend(group);
    }
    found
}

/// Structs (enumerations too) whose own methods stand in several files: who reads one of the files does not see who
/// else changes the state. Each as its defining file and name, with the files of its `impl` blocks; implementations of
/// traits do not count.
pub fn spread_structs(sources: &[Source]) -> BTreeMap<String, BTreeSet<String>> {
    let tree = Tree::new(sources);
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for module in tree.modules.values() {
        for path in &module.impls {
            if let Target::Item(home, name) = tree.resolve(module, path, 0) {
                found.entry(format!("{} {name}", home.file)).or_default().insert(module.file.clone());
            }
        }
    }
    found.retain(|_, files| files.len() > 1);
    found
}

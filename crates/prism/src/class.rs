//! Classes and their policies.

mod codec;

use crate::compress::Compress;
use crate::rules::{Need, Rule, RuleError};
use forebay_block::ClassId;
use forebay_block::mistakes::shown;
use thiserror::Error;

/// Longest class name in bytes.
pub const NAME_LIMIT_BYTES: usize = 64;
/// Most rules of one class.
pub const RULES_LIMIT: usize = 64;
/// Most bytes of all rules of a table together, so that the stored form of the table stays bounded.
pub const TABLE_RULES_LIMIT_BYTES: usize = 256 << 10;

/// Where the writes of a class go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// To the fast tier, where they stay.
    Fast,
    /// Acknowledged from the fast tier, and later destaged in bands.
    Stage,
    /// Directly to the capacity tier; short writes that are to be compressed go through the fast tier.
    Capacity,
    /// To both tiers at once.
    Both,
}

/// One class as configured.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassSpec {
    /// Name, unique in the pool: 1 to [`NAME_LIMIT_BYTES`] ASCII letters, digits, `_`, `-`, `.`.
    pub name: String,
    /// Where its writes go.
    pub place: Place,
    /// Whether its reads are cached on the fast tier: `docs/read-cache.md`.
    pub read_cache: bool,
    /// How its data is compressed on the capacity tier.
    pub compress: Compress,
    /// Largest share of the fast tier that it may occupy, 0.0..=1.0.
    pub share: f64,
    /// Priority of its rules: rules are tried in ascending order of this number, and in order of class ids where it
    /// is equal.
    pub priority: u16,
    /// Match expressions (see [`crate::rules`]); a write matches if any one of them does.
    pub rules: Vec<String>,
}

impl ClassSpec {
    /// A class without rules, with the whole fast tier as its limit and priority 100.
    #[must_use]
    pub fn new(name: &str, place: Place) -> Self {
        let (read_cache, compress) = (false, Compress::Off);
        Self { name: name.into(), place, read_cache, compress, share: 1.0, priority: 100, rules: Vec::new() }
    }
}

/// Why a class table was refused.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum ClassError {
    /// Two configured classes have the same name.
    #[error("class `{name}` is configured twice")]
    Duplicate {
        /// The name.
        name: String,
    },
    /// A name that is empty, too long or has other characters.
    #[error("class name `{}` must be 1 to {NAME_LIMIT_BYTES} ASCII letters, digits, `_`, `-` or `.`", shown(name))]
    BadName {
        /// The name.
        name: String,
    },
    /// A share is not a number, or outside 0.0..=1.0.
    #[error("class `{name}`: share {share} is not within 0.0 to 1.0")]
    BadShare {
        /// The class.
        name: String,
        /// The share as given.
        share: f64,
    },
    /// More classes than map entries can encode.
    #[error(
        "{count} classes are too many: a pool holds at most {} (class numbers are never used again)",
        ClassId::LIMIT
    )]
    TooMany {
        /// The number of classes that there would be.
        count: usize,
    },
    /// A class or the table has more rules than the limits allow.
    #[error(
        "class `{name}`: more than {RULES_LIMIT} rules, or more than {TABLE_RULES_LIMIT_BYTES} bytes of rules in all classes"
    )]
    TooManyRules {
        /// The class.
        name: String,
    },
    /// A rule does not parse.
    #[error("class `{name}`, rule `{}`", shown(rule))]
    BadRule {
        /// The class.
        name: String,
        /// The rule as written.
        rule: String,
        /// Position and reason.
        #[source]
        source: RuleError,
    },
    /// No class of that name.
    #[error("no class named `{}`; the classes are {known}", shown(name))]
    Unknown {
        /// The name in the request.
        name: String,
        /// The existing names, separated by commas.
        known: String,
    },
    /// The stored names do not begin with the default class.
    #[error("stored class names begin with `{found}`, not `{}`", DEFAULT_NAME)]
    BadStored {
        /// The first stored name.
        found: String,
    },
    /// The stored bytes are no valid class table.
    #[error("stored class table is damaged: {reason} at byte {offset}")]
    Damaged {
        /// The reason.
        reason: &'static str,
        /// The byte offset.
        offset: usize,
    },
}

/// The class of data that no other class claims.
pub const DEFAULT_NAME: &str = "cold";

/// All classes of a pool; the index is the [`ClassId`] stored in map entries, so entries are never reordered.
#[derive(Clone, Debug)]
pub struct ClassTable {
    classes: Vec<ClassSpec>,
    /// Parsed rules in the order in which they are tried.
    rules: Vec<(ClassId, Rule)>,
    rules_use_address: bool,
    rules_use_place: bool,
    host_facts_keep_fast: bool,
    built_in: BuiltIn,
}

/// Ids of the classes that contents and behaviour can assign.
#[derive(Clone, Copy, Debug)]
pub struct BuiltIn {
    /// File-system metadata.
    pub metadata: ClassId,
    /// Logs and journals.
    pub log: ClassId,
    /// Temporary data.
    pub temp: ClassId,
    /// Data read or overwritten often.
    pub hot: ClassId,
}

/// A change to one class; fields that are `None` do not change.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClassChange {
    /// New policy.
    pub place: Option<Place>,
    /// Whether to cache reads.
    pub read_cache: Option<bool>,
    /// New compression, which applies to data moved from now on.
    pub compress: Option<Compress>,
    /// New share, 0.0..=1.0.
    pub share: Option<f64>,
    /// New priority.
    pub priority: Option<u16>,
    /// New rules, replacing the old ones.
    pub rules: Option<Vec<String>>,
}

impl PartialEq for ClassTable {
    fn eq(&self, other: &Self) -> bool {
        // Everything else is derived from the classes.
        self.classes == other.classes
    }
}

fn built_in() -> Vec<ClassSpec> {
    vec![
        ClassSpec::new(DEFAULT_NAME, Place::Stage),
        ClassSpec::new("metadata", Place::Fast),
        ClassSpec::new("log", Place::Fast),
        ClassSpec::new("temp", Place::Stage),
        ClassSpec::new("hot", Place::Stage),
    ]
}

impl Default for ClassTable {
    fn default() -> Self {
        let id = ClassId;
        let built_in_ids = BuiltIn { metadata: id(1), log: id(2), temp: id(3), hot: id(4) };
        Self {
            classes: built_in(),
            rules: Vec::new(),
            rules_use_address: false,
            rules_use_place: false,
            host_facts_keep_fast: false,
            built_in: built_in_ids,
        }
    }
}

impl ClassTable {
    /// The built-in classes with `configured` merged over them by name: a configured class replaces the built-in
    /// class of the same name; others are appended in order.
    ///
    /// # Errors
    /// See [`ClassError`].
    pub fn from_configured(configured: &[ClassSpec]) -> Result<Self, ClassError> {
        Self::with_stored_names(&[], configured)
    }

    /// Like [`ClassTable::from_configured`], but the classes named in `stored` keep their positions: map entries
    /// contain class ids, so that an id must never change its meaning. A stored class that is no longer configured
    /// stays in the table without rules, staged, because data may still have its id.
    ///
    /// # Errors
    /// See [`ClassError`].
    pub fn with_stored_names(stored: &[String], configured: &[ClassSpec]) -> Result<Self, ClassError> {
        if let Some(first) = stored.first().filter(|first| *first != DEFAULT_NAME) {
            return Err(ClassError::BadStored { found: first.clone() });
        }
        let mut classes: Vec<ClassSpec> = Vec::new();
        for name in stored {
            if classes.iter().any(|class| class.name == *name) {
                return Err(ClassError::Duplicate { name: name.clone() });
            }
            classes.push(ClassSpec::new(name, Place::Stage));
        }
        merge(&mut classes, &built_in());
        for (i, spec) in configured.iter().enumerate() {
            if configured[..i].iter().any(|earlier| earlier.name == spec.name) {
                return Err(ClassError::Duplicate { name: spec.name.clone() });
            }
        }
        merge(&mut classes, configured);
        Self::from_classes(classes)
    }

    /// Checks the classes and derives everything else from them.
    fn from_classes(classes: Vec<ClassSpec>) -> Result<Self, ClassError> {
        if classes.len() > ClassId::LIMIT {
            return Err(ClassError::TooMany { count: classes.len() });
        }
        let mut rules = Vec::new();
        let mut rule_bytes = 0;
        for (class, index) in classes.iter().zip(0u8..) {
            let name = || class.name.clone();
            let plain = class.name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b));
            if class.name.is_empty() || class.name.len() > NAME_LIMIT_BYTES || !plain {
                return Err(ClassError::BadName { name: name() });
            }
            if !(0.0..=1.0).contains(&class.share) {
                return Err(ClassError::BadShare { name: name(), share: class.share });
            }
            rule_bytes += class.rules.iter().map(String::len).sum::<usize>();
            if class.rules.len() > RULES_LIMIT || rule_bytes > TABLE_RULES_LIMIT_BYTES {
                return Err(ClassError::TooManyRules { name: name() });
            }
            for text in &class.rules {
                let rule = Rule::parse(text).map_err(|source| ClassError::BadRule {
                    name: name(),
                    rule: text.clone(),
                    source,
                })?;
                rules.push((class.priority, ClassId(index), rule));
            }
        }
        rules.sort_by_key(|(priority, class, _)| (*priority, *class));
        let id = |name: &str| -> Result<ClassId, ClassError> {
            let index = classes.iter().position(|class| class.name == name);
            let damaged = ClassError::Damaged { reason: "a built-in class is missing", offset: 0 };
            index.and_then(|index| u8::try_from(index).ok()).map(ClassId).ok_or(damaged)
        };
        if id(DEFAULT_NAME)? != ClassId(0) {
            return Err(ClassError::BadStored { found: classes[0].name.clone() });
        }
        let built_in = BuiltIn { metadata: id("metadata")?, log: id("log")?, temp: id("temp")?, hot: id("hot")? };
        let rules: Vec<_> = rules.into_iter().map(|(_, class, rule)| (class, rule)).collect();
        let rules_use_address = rules.iter().any(|(_, rule)| rule.uses_address());
        let rules_use_place = rules.iter().any(|(_, rule)| rule.uses_place());
        let stays = |class: &ClassId| classes.get(usize::from(class.0)).is_some_and(|spec| spec.place == Place::Fast);
        let by_rule = rules.iter().any(|(class, rule)| stays(class) && rule.takes_host_facts());
        // Data that a hint says will die soon becomes temporary without a rule.
        let host_facts_keep_fast = by_rule || stays(&built_in.temp);
        Ok(Self { classes, rules, rules_use_address, rules_use_place, host_facts_keep_fast, built_in })
    }

    /// Changes the class `name`. Nothing changes on error.
    ///
    /// # Errors
    /// [`ClassError::Unknown`], or the error of the changed table.
    pub fn set(&mut self, name: &str, change: ClassChange) -> Result<(), ClassError> {
        let mut classes = self.classes.clone();
        let Some(class) = classes.iter_mut().find(|class| class.name == name) else {
            let known: Vec<&str> = self.classes.iter().map(|class| class.name.as_str()).collect();
            return Err(ClassError::Unknown { name: name.into(), known: known.join(", ") });
        };
        class.place = change.place.unwrap_or(class.place);
        class.read_cache = change.read_cache.unwrap_or(class.read_cache);
        class.compress = change.compress.unwrap_or(class.compress);
        class.share = change.share.unwrap_or(class.share);
        class.priority = change.priority.unwrap_or(class.priority);
        if let Some(rules) = change.rules {
            class.rules = rules;
        }
        *self = Self::from_classes(classes)?;
        Ok(())
    }

    /// Adds `specs` (for example imported ones), merged like those of [`ClassTable::from_configured`]. Nothing
    /// changes on error.
    ///
    /// # Errors
    /// See [`ClassError`].
    pub fn merge(&mut self, specs: &[ClassSpec]) -> Result<(), ClassError> {
        let mut classes = self.classes.clone();
        merge(&mut classes, specs);
        *self = Self::from_classes(classes)?;
        Ok(())
    }

    /// The classes in order of their ids.
    #[must_use]
    pub fn classes(&self) -> &[ClassSpec] {
        &self.classes
    }

    /// The class with this id; `None` if there is none.
    #[must_use]
    pub fn get(&self, id: ClassId) -> Option<&ClassSpec> {
        self.classes.get(usize::from(id.0))
    }

    /// The id of the class `name`; `None` if there is none.
    #[must_use]
    pub fn id_of(&self, name: &str) -> Option<ClassId> {
        let index = self.classes.iter().position(|class| class.name == name)?;
        u8::try_from(index).ok().map(ClassId)
    }

    /// The class of data that no other class claims.
    #[must_use]
    pub fn default_class(&self) -> ClassId {
        ClassId(0)
    }

    /// Rules in the order in which they are tried; the first match decides.
    #[must_use]
    pub fn rules(&self) -> &[(ClassId, Rule)] {
        &self.rules
    }

    /// Predicates of the rules whose facts no source provides: class name and predicate, each once.
    #[must_use]
    pub fn unknown(&self, is_known: impl Fn(Need) -> bool) -> Vec<(String, String)> {
        let mut found = Vec::new();
        for (id, rule) in &self.rules {
            for (_, predicate) in rule.needs().into_iter().filter(|(need, _)| !is_known(*need)) {
                let named = (self.get(*id).map(|class| class.name.clone()).unwrap_or_default(), predicate);
                if !found.contains(&named) {
                    found.push(named);
                }
            }
        }
        found
    }

    pub(crate) fn rules_use_place(&self) -> bool {
        self.rules_use_place
    }

    /// Whether facts from the host, after a block was written, may assign it to a class that stays on the fast tier.
    #[must_use]
    pub fn host_facts_keep_fast(&self) -> bool {
        self.host_facts_keep_fast
    }

    pub(crate) fn rules_use_address(&self) -> bool {
        self.rules_use_address
    }

    /// The classes that contents and behaviour can assign.
    #[must_use]
    pub fn built_in(&self) -> BuiltIn {
        self.built_in
    }

    /// Whether the class exists in every pool.
    pub(crate) fn is_built_in(&self, id: ClassId) -> bool {
        let BuiltIn { metadata, log, temp, hot } = self.built_in;
        [self.default_class(), metadata, log, temp, hot].contains(&id)
    }

    /// Whether a rule of the class uses facts from the host.
    pub(crate) fn takes_host_facts(&self, id: ClassId) -> bool {
        self.rules.iter().any(|(class, rule)| *class == id && rule.takes_host_facts())
    }
}

/// Replaces classes by name and appends the others.
fn merge(classes: &mut Vec<ClassSpec>, over: &[ClassSpec]) {
    for spec in over {
        match classes.iter_mut().find(|class| class.name == spec.name) {
            Some(class) => *class = spec.clone(),
            None => classes.push(spec.clone()),
        }
    }
}

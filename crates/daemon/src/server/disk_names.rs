//! Disks by name, for messages.

use forebay_block::mistakes::{Hint, nearest};
use forebay_volume::Engine;

/// Most disks that an error message lists; the rest are counted.
const NAMED_MAX: usize = 16;

/// Names of all disks whose removal has not begun.
pub fn names(engine: &Engine) -> Vec<&str> {
    engine.disks().filter(|disk| !disk.is_being_removed()).map(|disk| disk.name.as_str()).collect()
}

/// The message that a disk does not exist. It lists the known disks, and names the nearest one where the name looks
/// mistyped.
pub fn no_disk(name: &str, known: &[&str]) -> String {
    let mut named = known.iter().take(NAMED_MAX).copied().collect::<Vec<_>>().join(", ");
    match known.len() {
        0 => named.push_str("none"),
        count if count > NAMED_MAX => named.push_str(&format!(" and {} more", count - NAMED_MAX)),
        _ => {}
    }
    format!("there is no disk {name:?}; the pool has {named}{}", Hint(nearest(name, known.iter().copied())))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: a mistyped name was answered only with the message that there is no such disk.
    #[test]
    fn regression_what_is_there_is_said_beside_what_is_not() {
        assert_eq!(no_disk("accounts", &["db", "logs"]), "there is no disk \"accounts\"; the pool has db, logs");
        assert_eq!(
            no_disk("lgos", &["db", "logs"]),
            "there is no disk \"lgos\"; the pool has db, logs; the nearest known one is `logs`"
        );
        assert_eq!(no_disk("db", &[]), "there is no disk \"db\"; the pool has none");
        let many: Vec<String> = (0..20).map(|at| format!("number-{at}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let text = no_disk("x", &many);
        assert!(text.ends_with("number-15 and 4 more"), "{text}");
    }
}

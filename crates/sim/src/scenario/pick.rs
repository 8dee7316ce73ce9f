//! Choosing one of several.

use forebay_block::Random;

/// One of these, each as likely as the others.
pub(super) fn pick<T: Clone>(random: &mut Random, choices: &[T]) -> T {
    choices[random.index(choices.len())].clone()
}

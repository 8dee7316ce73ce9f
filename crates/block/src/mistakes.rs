//! What a file has of the wrong kind, in words of who writes it: serde names the types of the program.

/// Types as serde names them, and what one would write.
const KINDS: [(&str, &str); 8] = [
    ("u64", "a whole number from 0 on"),
    ("u32", "a whole number from 0 to 4294967295"),
    ("u16", "a whole number from 0 to 65535"),
    ("u8", "a whole number from 0 to 255"),
    ("usize", "a whole number from 0 on"),
    ("f64", "a number"),
    ("a boolean", "true or false"),
    ("a string", "a text in quotation marks"),
];

/// A sentence of serde about a value of the wrong kind; any other as it is, in one line.
#[must_use]
pub fn in_words(message: &str) -> String {
    let message = message.trim().replace('\n', "; ");
    let kinds = ["invalid type: ", "invalid value: "].into_iter().find_map(|begin| message.strip_prefix(begin));
    let Some((found, expected)) = kinds.and_then(|kinds| kinds.split_once(", expected ")) else {
        return message;
    };
    if found == "map" && expected == "a sequence" {
        return "there may be several of these: write its head with two brackets, as in [[disk]] or [[job]]".to_owned();
    }
    let expected = KINDS.iter().find(|(kind, _)| *kind == expected).map_or(expected, |(_, words)| words);
    format!("{expected} belongs here, not {found}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regression_no_type_of_the_program_is_asked_for() {
        assert_eq!(
            in_words("invalid type: string \"x\", expected u32\n"),
            "a whole number from 0 to 4294967295 belongs here, not string \"x\""
        );
        assert!(
            in_words("invalid value: integer `-1`, expected u8").ends_with("to 255 belongs here, not integer `-1`")
        );
        assert!(in_words("invalid type: map, expected a sequence").contains("[[job]]"));
        assert_eq!(in_words("invalid type: integer `4`, expected a set"), "a set belongs here, not integer `4`");
        assert_eq!(in_words("unclosed array\nexpected `]`"), "unclosed array; expected `]`");
    }
}

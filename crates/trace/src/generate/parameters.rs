//! The parameters of a generator, `?key=value&key=value`.

use super::GenerateError;
use forebay_block::mistakes::{cut, nearest};
use forebay_block::size::parse_size_bytes;

/// Parameters with known keys, each at most once.
pub(super) struct Parameters<'a> {
    generator: &'static str,
    pairs: Vec<(&'static str, &'a str)>,
}

impl<'a> Parameters<'a> {
    /// Parses the text behind the name and its colon.
    pub fn parse(
        generator: &'static str,
        known: &'static [&'static str],
        text: &'a str,
    ) -> Result<Self, GenerateError> {
        let query = match text.strip_prefix('?') {
            Some(query) => query,
            None if text.is_empty() => "",
            None => return Err(GenerateError::Form { generator, known: known.join(", ") }),
        };
        let mut pairs: Vec<(&'static str, &str)> = Vec::new();
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            let (word, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            let Some(key) = known.iter().copied().find(|key| *key == word) else {
                let key = shown(word);
                let nearest = nearest(&key, known.iter().copied());
                return Err(GenerateError::UnknownKey { generator, key, nearest, known: known.join(", ") });
            };
            if pairs.iter().any(|(other, _)| *other == key) {
                return Err(GenerateError::Twice { generator, key });
            }
            pairs.push((key, value));
        }
        Ok(Self { generator, pairs })
    }

    /// A number from `least` to `most`.
    pub fn number(&self, key: &'static str, default: f64, least: f64, most: f64) -> Result<f64, GenerateError> {
        let Some(text) = self.text(key) else { return Ok(default) };
        text.parse::<f64>()
            .ok()
            .filter(|number| (least..=most).contains(number))
            .ok_or_else(|| self.refuse(key, text, format!("a number from {least} to {most}")))
    }

    /// A whole number from `least` to `most`.
    pub fn count(&self, key: &'static str, default: u64, least: u64, most: u64) -> Result<u64, GenerateError> {
        let Some(text) = self.text(key) else { return Ok(default) };
        text.parse::<u64>()
            .ok()
            .filter(|count| (least..=most).contains(count))
            .ok_or_else(|| self.refuse(key, text, format!("a whole number from {least} to {most}")))
    }

    /// A size from `least` to `most`, in multiples of `step` bytes.
    pub fn size_bytes(
        &self,
        key: &'static str,
        default: u64,
        (least, most): (u64, u64),
        step: u64,
    ) -> Result<u64, GenerateError> {
        let Some(text) = self.text(key) else { return Ok(default) };
        let fits = |bytes: &u64| (least..=most).contains(bytes) && bytes.is_multiple_of(step);
        parse_size_bytes(text).ok().filter(fits).ok_or_else(|| {
            let of = if step > 1 { format!(" in multiples of {step}") } else { String::new() };
            self.refuse(key, text, format!("a size of whole bytes from {least} to {most}{of}, such as 64KiB or 40MB"))
        })
    }

    /// A rate in bytes per second from `least` to `most`: a size, with or without `/s`.
    pub fn rate_bytes(&self, key: &'static str, default: u64, (least, most): (u64, u64)) -> Result<u64, GenerateError> {
        let Some(text) = self.text(key) else { return Ok(default) };
        parse_size_bytes(text.strip_suffix("/s").unwrap_or(text))
            .ok()
            .filter(|bytes| (least..=most).contains(bytes))
            .ok_or_else(|| {
                self.refuse(key, text, format!("a rate of whole bytes from {least} to {most}/s, such as 40MB/s"))
            })
    }

    /// The text of a parameter; `None` if it is not given.
    pub fn text(&self, key: &str) -> Option<&'a str> {
        self.pairs.iter().find(|(other, _)| *other == key).map(|(_, value)| *value)
    }

    /// The error for a value that is not allowed.
    pub fn refuse(&self, key: &'static str, value: &str, wanted: String) -> GenerateError {
        GenerateError::Value { generator: self.generator, key, value: shown(value), wanted }
    }
}

fn shown(text: &str) -> String {
    cut(text).escape_debug().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[&str] = &["scale", "seed", "size"];

    #[test]
    fn names_the_nearest_parameter() {
        let error = Parameters::parse("g", KNOWN, "?sclae=1").err().unwrap();
        assert!(error.to_string().contains("did you mean scale?"), "{error}");
        let error = Parameters::parse("g", KNOWN, "?qqqqqqqq=1").err().unwrap();
        assert!(!error.to_string().contains("did you mean"), "{error}");
        assert!(matches!(Parameters::parse("g", KNOWN, "?seed=1&seed=2"), Err(GenerateError::Twice { .. })));
        assert!(matches!(Parameters::parse("g", KNOWN, "x?seed=1"), Err(GenerateError::Form { .. })));
    }

    #[test]
    fn holds_values_against_their_ranges() {
        let parameters = Parameters::parse("g", KNOWN, "?scale=nan&seed=-1&size=6KiB").unwrap();
        assert!(parameters.number("scale", 1.0, 0.0, 2.0).is_err());
        assert!(parameters.count("seed", 1, 0, u64::MAX).is_err());
        assert!(parameters.size_bytes("size", 4096, (4096, 1 << 20), 4096).is_err());
        assert_eq!(parameters.size_bytes("size", 4096, (4096, 1 << 20), 2048), Ok(6144));
        assert_eq!(parameters.number("size2", 1.0, 0.0, 2.0), Ok(1.0));
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in ".{0,80}") {
            if let Ok(parameters) = Parameters::parse("g", KNOWN, &text) {
                let _ = parameters.number("scale", 1.0, 0.0, 2.0);
                let _ = parameters.size_bytes("size", 4096, (4096, 1 << 20), 4096);
                let _ = parameters.rate_bytes("seed", 4096, (4096, 1 << 20));
            }
        }
    }
}

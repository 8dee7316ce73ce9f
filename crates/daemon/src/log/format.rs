//! The forms of a log line. Beside its message an event carries `cause`, the same for all events of one cause;
//! `advice`, what to do; and what it concerns (`device`, `export`, ...).

use serde_json::{Map, Value};
use std::fmt;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Form of the lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Time, level, message and advice.
    Text,
    /// One JSON object a line.
    Json,
    /// The priority in angle brackets (sd-daemon(3)), message and advice; the journal adds the time.
    Journal,
}

/// Writes events as lines.
pub struct Lines {
    pub form: Form,
    pub has_colours: bool,
}

/// The fields of an event.
#[derive(Default)]
struct Fields {
    message: String,
    others: Map<String, Value>,
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, Value::String(value.to_owned()));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, Value::String(format!("{value:?}")));
    }
}

impl Fields {
    fn put(&mut self, field: &Field, value: Value) {
        match (field.name(), value) {
            ("message", Value::String(text)) => self.message = text,
            (name, value) => drop(self.others.insert(name.to_owned(), value)),
        }
    }

    /// The message, followed by the advice as a sentence of its own.
    fn text(&self) -> String {
        match self.others.get("advice").and_then(Value::as_str) {
            Some(advice) if !advice.is_empty() => format!("{}. {advice}", self.message),
            _ => self.message.clone(),
        }
    }
}

/// Priority of a level by sd-daemon(3), whose numbers are those of syslog(3).
fn priority(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        _ => 7,
    }
}

fn colour(level: Level) -> &'static str {
    match level {
        Level::ERROR => "31",
        Level::WARN => "33",
        Level::INFO => "32",
        _ => "34",
    }
}

/// Replaces newlines and control characters, which names from configurations and clients may contain: an event must
/// stay on one line.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c == '\n' { ' ' } else { c }).flat_map(harmless).collect()
}

fn harmless(c: char) -> Vec<char> {
    if c.is_control() { c.escape_default().collect() } else { vec![c] }
}

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let level = *event.metadata().level();
        match self.form {
            Form::Text => {
                let text = one_line(&fields.text());
                let mut time = String::new();
                SystemTime.format_time(&mut Writer::new(&mut time))?;
                if self.has_colours {
                    writeln!(writer, "\x1b[2m{time}\x1b[0m \x1b[{}m{level:>5}\x1b[0m {text}", colour(level))
                } else {
                    writeln!(writer, "{time} {level:>5} {text}")
                }
            }
            Form::Journal => writeln!(writer, "<{}>{}", priority(level), one_line(&fields.text())),
            Form::Json => {
                let mut time = String::new();
                SystemTime.format_time(&mut Writer::new(&mut time))?;
                let mut object = Map::new();
                object.insert("time".to_owned(), Value::String(time));
                object.insert("level".to_owned(), Value::String(level.as_str().to_lowercase()));
                object.insert("message".to_owned(), Value::String(fields.message));
                object.extend(fields.others);
                writeln!(writer, "{}", Value::Object(object))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn logged(form: Form, event: impl FnOnce()) -> String {
        let sink = Sink::default();
        let writer = sink.clone();
        let subscriber = tracing_subscriber::fmt()
            .event_format(Lines { form, has_colours: false })
            .with_writer(move || writer.clone())
            .finish();
        tracing::subscriber::with_default(subscriber, event);
        let bytes = sink.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn each_form_has_level_message_and_advice() {
        let event =
            || tracing::warn!(cause = "slow", device = "/dev/x", advice = "Look at it", "device {} is\nslow", 1);
        assert!(logged(Form::Text, event).ends_with("  WARN device 1 is slow. Look at it\n"));
        assert_eq!(logged(Form::Journal, event), "<4>device 1 is slow. Look at it\n");
        let object: Value = serde_json::from_str(&logged(Form::Json, event)).unwrap();
        assert_eq!(object["level"], "warn");
        assert_eq!(object["message"], "device 1 is\nslow");
        assert_eq!((&object["cause"], &object["device"]), (&Value::from("slow"), &Value::from("/dev/x")));
        assert!(object["time"].as_str().unwrap().ends_with('Z'));
        assert_eq!(logged(Form::Journal, || tracing::error!("a\x1b[2J")), "<3>a\\u{1b}[2J\n");
    }
}

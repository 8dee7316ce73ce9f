//! `forebay config check|schema`.

use crate::cli::ConfigAction;
use crate::output::{self, Format};
use anyhow::Result;
use forebay_daemon::config;
use forebay_daemon::evidence::unknown;
use forebay_daemon::finding::finding;
use forebay_prism::rules::Present;
use serde_json::json;

/// Checks a configuration or prints the schema.
///
/// # Errors
/// A finding with what is wrong.
pub fn run(action: &ConfigAction, format: Format) -> Result<()> {
    match action {
        ConfigAction::Check { config: file } => {
            // A file that cannot be read is an error; a file that was checked and is wrong is a finding.
            let text = config::read(file)?;
            let checked = config::of_text(&text, file).and_then(|config| {
                forebay_daemon::server::SocketAccess::of(&config.server)?;
                Ok(config)
            });
            let config = match checked {
                Ok(config) => config,
                Err(error) => {
                    let found = output::chain(&error);
                    if format == Format::Json {
                        output::json(json!({ "config": file, "good": false, "finding": found }))?;
                    }
                    return Err(finding(found));
                }
            };
            let control = forebay_daemon::control::control_path(&config, file)?;
            let table = forebay_prism::ClassTable::from_configured(&config.class_specs())?;
            let (hints, files) = (config.evidence.iter().any(|e| e.hints), config.evidence.iter().any(|e| e.files));
            let pending = unknown(&table, hints, files);
            let disks: Vec<&str> = config.disk.iter().map(|disk| disk.name.as_str()).collect();
            let exports: Vec<(u16, &str)> =
                (0..).zip(config.export.iter().map(|export| config.export_name(export))).collect();
            let notes = config::notes_of_classes(&table, Present { disks: &disks, exports: &exports });
            match format {
                Format::Json => output::json(json!({
                    "config": file,
                    "good": true,
                    "finding": null,
                    "control": control,
                    "notes": notes,
                    "pending": pending.iter()
                        .map(|(class, predicate)| json!({ "class": class, "predicate": predicate }))
                        .collect::<Vec<_>>(),
                })),
                Format::Table => {
                    for note in notes {
                        output::text(&format!("note: {note}"))?;
                    }
                    for (class, predicate) in pending {
                        output::text(&format!(
                            "note: class {class}: {predicate:?} cannot be known without [[evidence]] and matches nothing"
                        ))?;
                    }
                    output::text(&format!(
                        "{}: good; pool {:?}, {}, {}, control socket {}",
                        file.display(),
                        config.pool.name,
                        output::count(config.disk.len() as u64, "disk"),
                        output::count(config.export.len() as u64, "export"),
                        control.display()
                    ))
                }
            }
        }
        // The schema has a standard form, to which `schema_version` must not be added.
        ConfigAction::Schema => output::line(&serde_json::to_string_pretty(&config::schema())?),
    }
}

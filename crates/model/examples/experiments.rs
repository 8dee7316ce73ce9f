//! Prints the published statements that are not tables, beside the models' figures: `cargo run --release -p forebay-model --example
//! experiments [NAME] [full]`.

use forebay_model::conformance::experiment::{Effort, Experiment, Value, claims};
use std::error::Error;
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let full = arguments.iter().any(|word| word == "full");
    let named = arguments.iter().find(|word| *word != "full");
    for experiment in Experiment::ALL {
        if named.is_some_and(|name| name != experiment.name()) {
            continue;
        }
        let begun = Instant::now();
        let found = experiment.run(Effort { full, ..Effort::default() })?;
        println!("== {}: {} ({:.1} s)", experiment.name(), experiment.about(), begun.elapsed().as_secs_f64());
        for data in &found.data {
            println!("{}\n{}", data.title, data.columns.join("\t"));
            for row in &data.rows {
                let cells = row.iter().map(|value| match value {
                    Value::Text(text) => text.clone(),
                    Value::Number(number, decimals) => format!("{number:.decimals$}"),
                });
                println!("{}", cells.collect::<Vec<_>>().join("\t"));
            }
        }
        for claim in claims()?.iter().filter(|claim| claim.experiment == experiment) {
            if let Some(row) = claim.row(&found) {
                println!("{row}");
            }
        }
    }
    Ok(())
}

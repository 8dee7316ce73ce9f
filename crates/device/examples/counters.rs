//! Shows how a drive's own counters change: `counters PATH [COMMAND...]` reads them, runs the command (or waits for
//! Enter), reads them again and prints both with the difference.

use forebay_device::counters::{Counters, Difference};
use std::path::Path;
use std::process::Command;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("say of which device or file: counters PATH [COMMAND...]")?;
    let before = Counters::read(Path::new(&path));
    match arguments.next() {
        Some(program) => println!("{program}: {}", Command::new(&program).args(arguments).status()?),
        None => {
            println!("Enter reads them again");
            std::io::stdin().read_line(&mut String::new())?;
        }
    }
    let after = before.read_again();
    let names: Vec<&str> = before.layers().iter().map(|layer| layer.name.as_str()).collect();
    println!("{path}: {}", names.join(" on "));
    let difference = Difference::between(&before, &after);
    for (name, before, after, change) in difference.rows() {
        println!("{name:<42} {before:>22} {after:>22} {change:>16}");
    }
    for reason in difference.left_out() {
        println!("{reason}");
    }
    Ok(())
}

//! The house's own tools: `cargo xtask verify`, `fix`, `bars`, `fuzz` and `limits`.
//!
//! `verify` never writes; `fix` does. Nothing here is part of the product.

mod bars;
mod citations;
mod compatibility;
mod included;
mod layers;
mod planted;
mod sleeps;
mod verify;

use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask verify|fix|bars|fuzz|limits
    verify   formatting, lints and house rules; writes nothing
    fix      formats and applies what clippy can apply by itself
    bars     measures what Weir promises and writes docs/bars.md; --quick, --only ID, --list, --baseline PROGRAM
    fuzz     gives damaged inputs to every reader; --seconds N, --seed S
    limits   writes what of PostgreSQL's SQL is answered alike and what is refused into docs/limits.md";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("verify") => verify::verify(),
        Some("fix") => verify::fix(),
        Some("bars") => bars::run(&arguments[1..]),
        // A program of its own, so that the house's tools need not wait for the SQL grammar to be built.
        Some("fuzz") => verify::fuzz(&arguments[1..]),
        Some("limits") => compatibility::write(&verify::workspace_root()),
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

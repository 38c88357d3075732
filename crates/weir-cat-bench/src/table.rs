//! Figures and their claims as text.

use comfy_table::Table;
use comfy_table::presets::ASCII_MARKDOWN;
use weir_harness::figure::Figure;

/// The claims of a figure: the paper's number, ours, the verdict.
pub fn claims(figure: &Figure) -> String {
    let mut table = Table::new();
    table.load_preset(ASCII_MARKDOWN).set_header(["claim", "paper", "ours", "verdict"]);
    for claim in &figure.claims {
        table.add_row([&claim.claim, &claim.theirs, &claim.ours, claim.verdict.name()]);
    }
    let kind = figure.kind.name();
    format!("{} ({}, {kind})\n\n{table}\n", figure.title, figure.id)
}

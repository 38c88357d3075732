//! The claims of a figure, with their verdicts: as a table of the terminal, and in the document of `--format json`.

use comfy_table::Cell;
use serde::Serialize;
use weir_harness::figure::{Claim, Figure, Kind};

use crate::output::{STRONG, styled};
use crate::table::table;

/// A claim in the document of `--format json`.
#[derive(Serialize)]
pub struct JudgedClaim<'a> {
    id: &'a str,
    paper: &'static str,
    kind: Kind,
    #[serde(flatten)]
    claim: &'a Claim,
}

impl JudgedClaim<'_> {
    /// Those of a figure.
    pub fn of(figure: &Figure) -> impl Iterator<Item = JudgedClaim<'_>> {
        let Figure { id, paper, kind, .. } = figure;
        figure.claims.iter().map(move |claim| JudgedClaim { id, paper, kind: *kind, claim })
    }
}

/// The claims as a table of the terminal.
pub fn text(figure: &Figure) -> String {
    let row = |claim: &Claim| {
        [&claim.claim, &claim.theirs, &claim.ours, claim.verdict.name()].map(Cell::new).to_vec()
    };
    let rows = figure.claims.iter().map(row).collect();
    let title = format!("{} ({})", figure.title, figure.kind.name());
    let header = ["Claim", "The paper's", "Ours", "Verdict"];
    format!("\n{}\n\n{}\n", styled(STRONG, &title), table(&header, &[], rows))
}

//! Figures with a verdict for each claim of their paper (the crate `weir-reproduce`): data, picture, the page, tables.

use std::path::Path;

use serde::Serialize;
use weir_cat_bench::target::Target;
use weir_harness::figure::{Figure, Verdict};
use weir_harness::machine::Machine;
use weir_reproduce::{Effort, Reproducer, page};

use super::{classes, table2};
use crate::bench;
use crate::cli::{Format, ReproduceArguments};
use crate::output::{Failure, STRONG, print, print_remark, styled, write_file};
use crate::table::table;

/// Shards of the Weir that is measured.
const SHARDS: u16 = 2;

/// A claim in the document of `--format json`.
#[derive(Serialize)]
pub struct JudgedClaim {
    id: String,
    paper: &'static str,
    claim: String,
    theirs: String,
    ours: String,
    kind: weir_harness::figure::Kind,
    verdict: Verdict,
}

/// Measures further figures, and writes what was asked for of all; returns their claims.
pub fn execute(
    arguments: &ReproduceArguments,
    measured: Vec<Figure>,
    ids: &[String],
) -> Result<Vec<JudgedClaim>, Failure> {
    let effort = Effort::of(arguments.tiny, arguments.quick);
    let machine = Machine::here();
    let program = bench::this_program()?;
    let mut listener = |what: &str| print_remark(&format!("weir: {what}"));
    listener(&machine.to_string());
    let mut reproducer =
        Reproducer::new(effort, &Target::FIGURES, (&program, SHARDS), arguments.seed, &mut listener);
    let mut figures = measured;
    for id in ids {
        figures.push(match id.as_str() {
            table2::ID => table2::figure()?,
            classes::ID => classes::figure()?,
            id => reproducer.figure(id).map_err(|why| wrong(id, &why))?,
        });
    }
    let mut claims = Vec::new();
    for figure in &figures {
        if arguments.format == Format::Text {
            print(&text(figure));
        }
        claims.extend(figure.claims.iter().map(|claim| JudgedClaim {
            id: figure.id.clone(),
            paper: figure.paper,
            claim: claim.claim.clone(),
            theirs: claim.theirs.clone(),
            ours: claim.ours.clone(),
            kind: figure.kind,
            verdict: claim.verdict,
        }));
    }
    if let Some(folder) = &arguments.out {
        let ids = arguments.ids.join(" ");
        let command = format!("weir reproduce {ids}{} --seed {}", effort.option(), arguments.seed);
        write(folder, &figures, &machine, &command)?;
    }
    Ok(claims)
}

fn wrong(id: &str, why: &str) -> Failure {
    Failure::input(format!("weir reproduce {id}: error: {why}"))
}

/// The page `index.html`, and data and picture of each figure.
fn write(folder: &Path, figures: &[Figure], machine: &Machine, command: &str) -> Result<(), Failure> {
    page::write(folder, figures, machine, command).map_err(|why| wrong("--out", &why))?;
    for figure in figures {
        let picture = weir_harness::plot::svg(&figure.title, &figure.panels)
            .map_err(|error| wrong(&figure.id, &format!("the picture: {error}")))?;
        write_file(&folder.join(format!("{}.svg", figure.id)), &picture)?;
    }
    Ok(())
}

fn text(figure: &Figure) -> String {
    let row = |claim: &weir_harness::figure::Claim| {
        [&claim.claim, &claim.theirs, &claim.ours, claim.verdict.name()].map(comfy_table::Cell::new).to_vec()
    };
    let rows = figure.claims.iter().map(row).collect();
    let title = format!("{} ({})", figure.title, figure.kind.name());
    let header = ["Claim", "The paper's", "Ours", "Verdict"];
    format!("\n{}\n\n{}\n", styled(STRONG, &title), table(&header, &[], rows))
}

//! Table 1 of operation-partitioning.txt: the classes that the analysis finds for TPC-W and RUBiS.
//!
//! The applications are ours (`examples/tpcw`, `examples/rubis`): the paper does not list its transactions, so its numbers are a comparison.

use serde_json::json;
use weir_harness::figure::{Claim, Figure, Kind, Verdict};
use weir_harness::plot::{Axis, Panel, Series};
use weir_sql::Reading;

use crate::application::Loaded;
use crate::input::example;
use crate::output::Failure;

pub const ID: &str = "elia-table1";

const CLASSES: [&str; 4] = ["local", "global", "commutative", "local/global"];

/// An application: its example, the paper's number of each class, of read-only ones and of all.
struct Row {
    name: &'static str,
    example: &'static str,
    classes: [usize; 4],
    read_only: usize,
    all: usize,
}

const ROWS: [Row; 2] = [
    Row { name: "TPC-W", example: "tpcw", classes: [10, 5, 5, 0], read_only: 13, all: 20 },
    Row { name: "RUBiS", example: "rubis", classes: [11, 4, 3, 8], read_only: 17, all: 26 },
];

/// The table by the analysis.
///
/// # Errors
/// An application is not read, which is a bug.
pub fn figure() -> Result<Figure, Failure> {
    let (mut data, mut claims, mut series) = (Vec::new(), Vec::new(), Vec::new());
    for row in &ROWS {
        let sources = example(row.example).expect("it is an example");
        let plan = Loaded::from_sources(sources, Reading::Strict)?.plan();
        let transactions = plan["transactions"].as_array().cloned().unwrap_or_default();
        let read_only = transactions.iter().filter(|one| one["read_only"] == true).count();
        let mut points = Vec::new();
        for (number, (class, theirs)) in CLASSES.into_iter().zip(row.classes).enumerate() {
            let ours = transactions.iter().filter(|one| one["class"] == class).count();
            points.push((number as f64 + 1.0, ours as f64));
            data.push(
                json!({ "application": row.name, "class": class, "transactions": ours, "published": theirs }),
            );
            // Fewer global ones, or more of what needs no token, are better.
            let is_better =
                if class == "global" { ours < theirs } else { class != "local/global" && ours > theirs };
            let verdict = if is_better { Verdict::Exceeded } else { Verdict::of(ours == theirs) };
            claims.push(Claim::new(
                format!("{}: {class} transactions", row.name),
                theirs.to_string(),
                ours.to_string(),
                verdict,
            ));
        }
        for (what, theirs, ours) in [
            ("transactions", row.all, transactions.len()),
            ("read-only transactions", row.read_only, read_only),
        ] {
            claims.push(Claim::new(
                format!("{}: {what}", row.name),
                theirs.to_string(),
                ours.to_string(),
                Verdict::of(ours == theirs),
            ));
        }
        series.push(Series { name: row.name.to_owned(), points });
    }
    Ok(Figure {
        id: ID.to_owned(),
        paper: "operation-partitioning.txt",
        title: "Table 1: classes of the transactions of TPC-W and RUBiS".to_owned(),
        kind: Kind::Calculated,
        notes: vec![
            "The paper does not list its transactions. Ours were written down before they were analysed (examples/tpcw, examples/rubis)."
                .to_owned(),
        ],
        panels: vec![Panel {
            title: "transactions by class".to_owned(),
            x: Axis::linear("1: local, 2: global, 3: commutative, 4: local/global"),
            y: Axis::linear("transactions"),
            series,
        }],
        data,
        claims,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_applications_are_classified() {
        let figure = figure().map_err(|_| "an application is not read").expect("each is an application");
        assert_eq!((figure.data.len(), figure.claims.len()), (8, 12));
        let count =
            |claim: &str| figure.claims.iter().find(|one| one.claim == claim).map(|one| one.ours.clone());
        assert_eq!(count("TPC-W: transactions").as_deref(), Some("20"));
    }
}

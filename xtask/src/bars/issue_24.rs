//! The bars of issue 24: nothing lies and nothing falls over.

use super::issue_03::analyzed;
use super::triggered_schema::{self, Size};
use super::weir::Weir;
use super::{Bar, Effort, Kind, Seen};

pub const BARS: &[Bar] = &[Bar {
    id: "analyze-triggers",
    issue: 24,
    claim: "`weir analyze` takes 400 tables, 800 foreign keys and 300 triggers of four IFs each, which set off each other",
    bar: "under 10 s and 1 GiB",
    kind: Kind::Real,
    measure: analyze_triggers,
}];

fn analyze_triggers(weir: &Weir, _: Effort) -> Result<Seen, String> {
    let size = Size { tables: 400, foreign_keys: 800, triggers: 300 };
    analyzed(weir, "triggers", |directory| triggered_schema::write(directory, &size))
}

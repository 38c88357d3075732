//! The bars of issue 24: nothing lies and nothing falls over.

use super::triggered_schema::{self, Size};
use super::weir::Weir;
use super::{Bar, Effort, Kind, Seen};

const MIB: u64 = 1024 * 1024;

pub const BARS: &[Bar] = &[Bar {
    id: "analyze-triggers",
    issue: 24,
    claim: "`weir analyze` takes 400 tables, 800 foreign keys and 300 triggers of four IFs each, which set off each other",
    bar: "under 10 s and 1 GiB",
    kind: Kind::Real,
    measure: analyze_triggers,
}];

fn analyze_triggers(weir: &Weir, _: Effort) -> Result<Seen, String> {
    let directory = std::env::temp_dir().join(format!("weir-bars-{}-triggers", std::process::id()));
    let size = Size { tables: 400, foreign_keys: 800, triggers: 300 };
    triggered_schema::write(&directory, &size).map_err(|error| error.to_string())?;
    let path = directory.display().to_string();
    let used = weir.usage(&["analyze", &path, "--format", "json", "--out", &format!("{path}/plan.json")]);
    let _ = std::fs::remove_dir_all(&directory);
    let (time, bytes) = used?;
    Ok(Seen {
        met: time.as_secs_f64() < 10.0 && bytes < 1024 * MIB,
        figure: format!("{:.1} s, {} MiB", time.as_secs_f64(), bytes / MIB),
        interval: "1 run, with its JSON".to_owned(),
    })
}

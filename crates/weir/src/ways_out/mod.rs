//! Output of `weir analyze` for CI: suppressed and known findings are marked, the others may fail the build, and all can be written as
//! SARIF, as GitHub's annotations or as Markdown.
//!
//! Decides nothing about the application: the findings are the analysis'.

mod allow;
mod baseline;
mod fail_on;
mod github;
mod markdown;
mod sarif;

use serde_json::{Value, json};
use weir_analysis::active_active::{self, Conflict};
use weir_analysis::{Reported, Severity};
use weir_sql::Application;

use crate::application::Loaded;
use crate::cli::AnalyzeArguments;
use crate::output::{self, Failure};

pub use fail_on::{Threshold, parse as parse_threshold};

/// One finding, and whether it counts.
pub struct Shown {
    pub reported: Reported,
    /// The reason of the comment that lets it through.
    pub allowed: Option<String>,
    /// It is in the baseline.
    pub known: bool,
}

impl Shown {
    pub fn counts(&self) -> bool {
        self.allowed.is_none() && !self.known
    }
}

pub struct Outcome {
    pub shown: Vec<Shown>,
    pub conflicts: Option<Vec<Conflict>>,
    pub has_baseline: bool,
}

/// Collects the findings and marks those that do not count.
///
/// # Errors
/// A baseline that cannot be read or is none.
pub fn collect(loaded: &Loaded, arguments: &AnalyzeArguments) -> Result<Outcome, Failure> {
    let app = &loaded.application;
    let conflicts = arguments.active_active.then(|| {
        let mut conflicts = active_active::conflicts(app, &loaded.analysis);
        let limits = weir_search::ShowLimits::default();
        weir_search::show::conflicts(app, &loaded.analysis, &mut conflicts, limits);
        conflicts
    });
    let reported = weir_analysis::reported(app, &loaded.analysis, conflicts.as_deref().unwrap_or(&[]));
    let mut shown = allow::apply(app, reported);
    if let Some(path) = &arguments.baseline {
        let known = baseline::read(path)?;
        for one in &mut shown {
            one.known = known.contains(&one.reported.fingerprint);
        }
    }
    Ok(Outcome { shown, conflicts, has_baseline: arguments.baseline.is_some() })
}

impl Outcome {
    /// Exit code 1, if something counts that must not be there.
    ///
    /// # Errors
    /// The number of such findings, and the first of them.
    pub fn verdict(&self, app: &Application, fail_on: &[Threshold]) -> Result<(), Failure> {
        let default = [Threshold::Severity(Severity::Warning)];
        let fail_on = match (fail_on.is_empty(), self.has_baseline) {
            (true, false) => return Ok(()),
            (true, true) => &default[..],
            (false, _) => fail_on,
        };
        let failing: Vec<&Shown> = self
            .shown
            .iter()
            .filter(|one| one.counts() && fail_on.iter().any(|threshold| threshold.is_met(&one.reported)))
            .collect();
        let Some(first) = failing.first() else { return Ok(()) };
        let new = if self.has_baseline { "new " } else { "" };
        let count = match failing.len() {
            1 => format!("1 {new}finding fails"),
            n => format!("{n} {new}findings fail"),
        };
        let place = app.sources.place(first.reported.span);
        let kind = first.reported.kind;
        Err(Failure::Check(Some(format!(
            "weir analyze: {count} the check; the first is\n{place}: {} [{} {}]\n\
             hint: `weir explain {}` says how to mend it; `-- weir:allow {} reason` beside the code lets it through",
            first.reported.message, kind.id, kind.name, kind.id, kind.id
        ))))
    }

    pub fn sarif(&self, app: &Application) -> Value {
        sarif::document(app, self)
    }

    pub fn github(&self, app: &Application) -> String {
        github::annotations(app, self)
    }

    pub fn markdown(&self, loaded: &Loaded) -> String {
        markdown::document(loaded, self)
    }

    /// Adds the fields of the JSON document besides the plan.
    pub fn add_to(&self, app: &Application, plan: &mut Value) {
        let finding = |one: &Shown| {
            let reported = &one.reported;
            let place = app.sources.place(reported.span);
            json!({
                "id": reported.kind.id,
                "name": reported.kind.name,
                "severity": reported.severity.name(),
                "message": reported.message,
                "remedy": reported.remedy,
                "transaction": reported.transaction,
                "invariant": reported.invariant,
                "fingerprint": reported.fingerprint,
                "allowed": one.allowed,
                "known": one.known,
                "source": {"file": place.file, "line": place.line, "column": place.column},
            })
        };
        plan["findings"] = self.shown.iter().map(finding).collect();
        if let Some(conflicts) = &self.conflicts {
            plan["active_active"] = active_active_json(app, conflicts);
        }
    }

    /// Below the plan: what active-active replication would do, and comments that let nothing through.
    pub fn text(&self, app: &Application) -> String {
        let mut text = String::new();
        if let Some(conflicts) = &self.conflicts {
            text.push_str(&active_active_text(app, conflicts, output::width()));
        }
        for one in self.shown.iter().filter(|one| one.reported.kind.id.starts_with("WEIR-W")) {
            let place = app.sources.place(one.reported.span);
            text.push_str(&format!(
                "\nwarning: {} [{}]\n  at {place}\n",
                one.reported.message, one.reported.kind.id
            ));
        }
        let (allowed, known) = (
            self.shown.iter().filter(|one| one.allowed.is_some()).count(),
            self.shown.iter().filter(|one| one.known && one.allowed.is_none()).count(),
        );
        if allowed > 0 {
            text.push_str(&format!("\n{}.\n", let_through(allowed)));
        }
        if self.has_baseline {
            let new = self.shown.iter().filter(|one| one.counts()).count();
            text.push_str(&format!("\n{known} known before, {new} new.\n"));
        }
        text
    }
}

fn let_through(findings: usize) -> String {
    match findings {
        1 => "1 finding is let through by a comment".to_owned(),
        n => format!("{n} findings are let through by comments"),
    }
}

fn active_active_json(app: &Application, conflicts: &[Conflict]) -> Value {
    let transaction = |(at, procedure): (usize, &weir_sql::bound::Procedure)| {
        let of_it = conflicts.iter().filter(|conflict| conflict.transaction == at);
        let conflicts: Vec<Value> = of_it
            .map(|conflict| {
                json!({
                    "id": weir_analysis::registry::id_of(conflict.kind),
                    "name": conflict.kind,
                    "severity": conflict.severity.name(),
                    "with": app.procedures[conflict.with].name,
                    "table": conflict.table.map(|table| app.catalog.table(table).name.clone()),
                    "invariant": conflict.invariant,
                    "message": conflict.message,
                    "left": conflict.left,
                    "right": conflict.right,
                    "merged": conflict.merged,
                    "remedy": conflict.remedy,
                    "execution": conflict.executed.to_json(),
                    "not_shown": conflict.executed.why_not(),
                })
            })
            .collect();
        json!({"transaction": procedure.name, "safe": conflicts.is_empty(), "conflicts": conflicts})
    };
    app.procedures.iter().enumerate().map(transaction).collect()
}

fn active_active_text(app: &Application, conflicts: &[Conflict], width: u16) -> String {
    let mut text = String::from(
        "\nActive-active replication of PostgreSQL, where the later of two rows replaces the other as a whole:\n",
    );
    let mut safe = Vec::new();
    for (at, procedure) in app.procedures.iter().enumerate() {
        let of_it: Vec<&Conflict> = conflicts.iter().filter(|conflict| conflict.transaction == at).collect();
        if of_it.is_empty() {
            safe.push(procedure.name.as_str());
            continue;
        }
        text.push_str(&format!("\n  {} is unsafe:\n", procedure.name));
        for conflict in of_it {
            text.push_str(&active_active::to_text(conflict, width));
        }
    }
    match safe.is_empty() {
        true => text.push_str("\n  No transaction is safe.\n"),
        false => text.push_str(&format!("\n  Safe: {}.\n", safe.join(", "))),
    }
    text
}

//! Tables for a terminal, and a run's report as text.

use comfy_table::{Cell, CellAlignment, Color, ContentArrangement, Table, modifiers, presets};
use serde_json::Value;
use weir_server::report::{RunReport, TransactionReport};

use crate::output::{self, ERROR, FAINT, GOOD, STRONG, styled};
use crate::report::{duration, grouped, plain};

/// Constraints that held are named one by one only up to this many.
const LISTED_MAX: usize = 40;

/// More reasons of aborts are counted, not told.
const REASONS_MAX: usize = 12;

/// A table in the house's look: columns in `right` are numbers.
pub fn table(header: &[&str], right: &[usize], rows: Vec<Vec<Cell>>) -> Table {
    let mut table = Table::new();
    table
        .load_preset(presets::UTF8_FULL_CONDENSED)
        .apply_modifier(modifiers::UTF8_ROUND_CORNERS)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(output::width())
        .enforce_styling();
    table.set_header(header.iter().map(Cell::new));
    for row in rows {
        table.add_row(row);
    }
    for &column in right {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// Throughput, aborts and latencies, then every invariant with its verdict.
pub fn run_report(run: &RunReport) -> String {
    let mut text = String::new();
    text.push_str(&format!(
        "\n{}{}: {} committed in {:.1} s, {} a second\n\n",
        styled(STRONG, "The run"),
        if run.interrupted { ", which was interrupted" } else { "" },
        grouped(run.committed),
        run.seconds,
        styled(STRONG, &grouped(run.throughput.round() as u64)),
    ));
    text.push_str(&transactions(run));
    text.push_str(&aborts(run));
    if let Some(memory) = run.memory
        && memory.raw_row_bytes > 0
    {
        text.push_str(&format!(
            "memory: {} MB for {} MB of rows, {:.2} times\n",
            grouped(memory.stored_bytes >> 20),
            grouped(memory.raw_row_bytes >> 20),
            memory.stored_bytes as f64 / memory.raw_row_bytes as f64
        ));
    }
    text.push_str(&invariants(run));
    text
}

fn transactions(run: &RunReport) -> String {
    let mut names: Vec<&String> = run.by_transaction.keys().collect();
    names.sort_by_key(|name| std::cmp::Reverse(run.by_transaction[*name].committed));
    let row = |name: &str, one: &TransactionReport| {
        let latency = &one.latency_us;
        let mut cells = vec![Cell::new(name)];
        cells.push(Cell::new(grouped(one.committed)));
        cells.push(Cell::new(grouped(one.throughput.round() as u64)));
        cells.push(Cell::new(grouped(one.aborted)));
        cells.extend([latency.p50, latency.p95, latency.p99, latency.max].map(|us| Cell::new(duration(us))));
        cells
    };
    let rows = names.into_iter().map(|name| row(name, &run.by_transaction[name])).collect();
    let header = ["Transaction", "Committed", "A second", "Aborted", "p50", "p95", "p99", "max"];
    format!("{}\n", table(&header, &[1, 2, 3, 4, 5, 6, 7], rows))
}

fn aborts(run: &RunReport) -> String {
    if run.aborted.is_empty() {
        return "no aborts\n".to_owned();
    }
    let calls = (run.committed + run.aborted_total()).max(1) as f64;
    let mut text = String::new();
    let mut reasons: Vec<(&String, u64)> =
        run.aborted.iter().map(|(reason, count)| (reason, *count)).collect();
    reasons.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let share = |count: u64| format!("{} calls ({:.2}%)", grouped(count), 100.0 * count as f64 / calls);
    for (reason, count) in reasons.iter().take(REASONS_MAX) {
        text.push_str(&format!("aborted: {}: {reason}\n", share(*count)));
    }
    if reasons.len() > REASONS_MAX {
        let more: u64 = reasons[REASONS_MAX..].iter().map(|(_, count)| count).sum();
        let kinds = reasons.len() - REASONS_MAX;
        text.push_str(&format!(
            "aborted: {}: for {kinds} other reasons, which --format json has\n",
            share(more)
        ));
    }
    text
}

fn invariants(run: &RunReport) -> String {
    let kind_of = |id: &str| {
        let listed = run.plan["invariants"].as_array().map_or(&[][..], Vec::as_slice);
        listed
            .iter()
            .find(|invariant| invariant["id"] == id)
            .map_or("", |found| found["kind"].as_str().unwrap_or(""))
    };
    let broken = run.invariants.iter().filter(|invariant| !invariant.holds).count();
    let all = run.invariants.len() <= LISTED_MAX;
    let (mut rows, mut unlisted, mut unlisted_rows) = (Vec::new(), 0, 0);
    for invariant in &run.invariants {
        let kind = kind_of(&invariant.id);
        if !all && invariant.holds && !matches!(kind, "assertion" | "") {
            unlisted += 1;
            unlisted_rows += invariant.rows_checked;
            continue;
        }
        let verdict = if invariant.holds && invariant.rows_checked == 0 {
            Cell::new("holds of no rows").fg(Color::Yellow)
        } else if invariant.holds {
            Cell::new("holds").fg(Color::Green)
        } else {
            Cell::new("VIOLATED").fg(Color::Red)
        };
        rows.push(vec![
            Cell::new(&invariant.id),
            Cell::new(kind.replace('_', " ")),
            verdict,
            Cell::new(grouped(invariant.rows_checked)),
        ]);
    }
    let mut text = format!("\n{} after the run\n\n", styled(STRONG, "Invariants"));
    text.push_str(&format!("{}\n", table(&["Invariant", "Kind", "Verdict", "Rows checked"], &[3], rows)));
    if unlisted > 0 {
        let note = format!(
            "and {unlisted} keys, foreign keys, checks and NOT NULLs, over {} rows: all hold",
            grouped(unlisted_rows)
        );
        text.push_str(&format!("{}\n", styled(FAINT, &note)));
    }
    for invariant in run.invariants.iter().filter(|invariant| !invariant.holds) {
        let violation = invariant.violation.as_ref().unwrap_or(&Value::Null);
        text.push_str(&format!("{} {}: {}\n", styled(ERROR, "violated:"), invariant.id, plain(violation)));
    }
    let summary = match (broken, run.converged) {
        (0, true) => styled(GOOD, &format!("All {} invariants hold.", run.invariants.len())),
        (0, false) => styled(ERROR, "Copies of the same data differ."),
        (broken, _) => {
            styled(ERROR, &format!("{broken} of {} invariants are violated.", run.invariants.len()))
        }
    };
    text.push_str(&format!("\n{summary}\n"));
    let vacuous = run.invariants.iter().filter(|one| one.holds && one.rows_checked == 0).count();
    if vacuous > 0 {
        text.push_str(&format!("{vacuous} of them hold of no rows: there were none to check.\n"));
    }
    text.push_str(&never_committed(run));
    text
}

/// Transactions that the run says nothing of, for all their calls were aborted.
fn never_committed(run: &RunReport) -> String {
    let mut text = String::new();
    for name in &run.never_committed {
        let one = &run.by_transaction[name];
        let most = one.abort_reasons.iter().max_by_key(|(_, count)| **count);
        let most = most.map(|(reason, count)| format!("; {} times {reason}", grouped(*count)));
        text.push_str(&format!(
            "{} {name}: {} calls, and none has committed{}\n",
            styled(ERROR, "failed:"),
            grouped(one.aborted),
            most.unwrap_or_default()
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_report_names_what_broke() {
        let run = crate::report::tests::sample();
        let text = super::run_report(&run);
        for expected in [
            "new_order",
            "337,500",
            "c12_balance",
            "VIOLATED",
            "1 of 4 invariants are violated",
            "item number",
        ] {
            assert!(text.contains(expected), "{expected} in\n{text}");
        }
    }
}

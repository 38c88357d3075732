//! The page's head, the plan's table, the invariants' table and the findings.

use std::fmt::Write;

use serde_json::Value;
use weir_server::report::RunReport;

use super::html::{duration, escape, grouped, list, plain, short, text};

pub fn header(title: &str, plan: &Value, run: Option<&RunReport>) -> String {
    let transactions = list(plan, "transactions");
    let free = transactions.iter().filter(|transaction| transaction["confluent"] == true).count();
    let mut tiles = String::new();
    let mut tile = |class: &str, figure: String, caption: String| {
        let _ = writeln!(
            tiles,
            "<div class=\"tile {class}\"><b>{}</b><span>{}</span></div>",
            escape(&figure),
            escape(&caption)
        );
    };
    if let Some(run) = run {
        let broken = run.invariants.iter().filter(|invariant| !invariant.holds).count();
        let total = run.invariants.len();
        if broken == 0 {
            tile("good", format!("{total} of {total}"), "invariants hold".to_owned());
        } else {
            tile("bad", format!("{broken} of {total}"), "invariants are violated".to_owned());
        }
        tile("", format!("{}/s", short(run.throughput)), format!("{} committed", grouped(run.committed)));
        let calls = (run.committed + run.aborted_total()).max(1);
        let share = 100.0 * run.aborted_total() as f64 / calls as f64;
        tile("", format!("{share:.2}%"), "aborted".to_owned());
        tile("", duration(run.latency_us.p50), format!("median; p99 {}", duration(run.latency_us.p99)));
    }
    tile("", format!("{free} of {}", transactions.len()), "transactions need no guard".to_owned());
    let subtitle = match run {
        Some(run) => run_line(run),
        None => format!("{} invariants declared", list(plan, "invariants").len()),
    };
    format!(
        "<header>\n<h1>{}</h1>\n<div class=\"soft\">{}</div>\n<div class=\"tiles\">\n{tiles}</div>\n</header>\n",
        escape(title),
        escape(&subtitle)
    )
}

/// What was run, in one line.
fn run_line(run: &RunReport) -> String {
    let mut line = format!("{:.1} s", run.seconds);
    if run.setup.shards > 0 {
        let _ = write!(
            line,
            " on {} shards, {} clients, protocol {}, seed {}",
            run.setup.shards, run.setup.clients, run.setup.protocol, run.setup.seed
        );
    }
    for (name, value) in &run.setup.parameters {
        let _ = write!(line, ", {name} = {}", plain(value));
    }
    line
}

pub fn invariants(run: &RunReport) -> String {
    let mut shown: Vec<_> = run.invariants.iter().collect();
    shown.sort_by_key(|invariant| invariant.holds);
    let kind_of = |id: &str| {
        list(&run.plan, "invariants")
            .iter()
            .find(|invariant| invariant["id"] == id)
            .map_or_else(String::new, |invariant| text(invariant, "kind"))
    };
    let (mut main, mut rest, mut rest_count) = (String::new(), String::new(), 0);
    for invariant in shown {
        let kind = kind_of(&invariant.id);
        let badge = if invariant.holds {
            "<span class=\"badge good\">holds</span>"
        } else {
            "<span class=\"badge bad\">violated</span>"
        };
        let violation = invariant.violation.as_ref().map(plain).unwrap_or_default();
        let row = format!(
            "<tr><td class=\"tight\">{badge}</td><td class=\"mono\">{}</td><td class=\"soft\">{}</td>\
             <td class=\"number\">{}</td><td class=\"small\">{}</td></tr>\n",
            escape(&invariant.id),
            escape(&kind.replace('_', " ")),
            grouped(invariant.rows_checked),
            escape(&violation)
        );
        // What the application says of itself first; keys and NOT NULLs fill pages.
        if !invariant.holds || kind == "assertion" || kind.is_empty() {
            main.push_str(&row);
        } else {
            rest.push_str(&row);
            rest_count += 1;
        }
    }
    let head =
        "<tr><th></th><th>Invariant</th><th>Kind</th><th class=\"number\">Rows checked</th><th></th></tr>";
    let table = |rows: &str| format!("<div class=\"scroll\"><table>\n{head}\n{rows}</table></div>\n");
    let mut section = String::from("<section>\n<h2>Invariants after the run</h2>\n<p class=\"soft\">");
    section.push_str("Each was evaluated over the whole final state, on its own, without the plan.</p>\n");
    section.push_str("<div class=\"card\">\n");
    if !main.is_empty() {
        section.push_str(&table(&main));
    }
    if rest_count > 0 {
        let _ = write!(
            section,
            "<details><summary>{rest_count} more: keys, foreign keys, checks, NOT NULL</summary>\n{}</details>\n",
            table(&rest)
        );
    }
    if !run.converged {
        section
            .push_str("<p><span class=\"badge bad\">diverged</span> copies of the same data differ.</p>\n");
    }
    section.push_str("</div>\n</section>\n");
    section
}

pub fn plan(plan: &Value) -> String {
    let mut rows = String::new();
    for transaction in list(plan, "transactions") {
        let confluent = if transaction["confluent"] == true {
            "<span class=\"badge good\">confluent</span>"
        } else {
            "<span class=\"badge warn\">needs a guard</span>"
        };
        let mut guards = String::new();
        for guard in list(transaction, "guards") {
            let _ = write!(
                guards,
                "<div><span class=\"badge\">{}</span> <span class=\"mono\">{}</span></div>",
                escape(&text(guard, "kind")),
                escape(&text(guard, "on"))
            );
        }
        let _ = writeln!(
            rows,
            "<tr><td class=\"tight\"><b>{}</b><div class=\"small soft\">{}{}</div></td><td>{confluent}</td>\
             <td class=\"tight\">{}</td><td class=\"number\">{}</td><td>{guards}<div class=\"small soft\">{}</div></td></tr>",
            escape(&text(transaction, "name")),
            escape(&text(transaction, "class")),
            if transaction["read_only"] == true { ", read only" } else { "" },
            escape(&text(transaction, "mechanism")),
            escape(&text(transaction, "round_trips")),
            escape(&text(transaction, "why"))
        );
    }
    format!(
        "<section>\n<h2>The plan</h2>\n<p class=\"soft\">The cheapest mechanism for each transaction that keeps \
         every invariant.</p>\n<div class=\"card scroll\"><table>\n<tr><th>Transaction</th><th>Verdict</th>\
         <th>Mechanism</th><th class=\"number\">Round trips</th><th>Guards, and why</th></tr>\n{rows}</table></div>\n</section>\n"
    )
}

pub fn findings(plan: &Value) -> String {
    let diagnostics = list(plan, "diagnostics");
    if diagnostics.is_empty() {
        return String::new();
    }
    let mut rows = String::new();
    for diagnostic in diagnostics {
        let source = &diagnostic["source"];
        let place = format!("{}:{}:{}", text(source, "file"), text(source, "line"), text(source, "column"));
        let severity = text(diagnostic, "severity");
        let class = if severity == "warning" { "warn" } else { "" };
        let _ = writeln!(
            rows,
            "<tr><td><span class=\"badge {class}\">{}</span></td><td>{}<div class=\"small soft mono\">{}</div></td></tr>",
            escape(&severity),
            escape(&text(diagnostic, "message")),
            escape(&place)
        );
    }
    format!(
        "<section>\n<h2>Findings</h2>\n<div class=\"card scroll\"><table>\n{rows}</table></div>\n</section>\n"
    )
}

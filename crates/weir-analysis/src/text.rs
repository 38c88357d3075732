//! The analysis as a person reads it: the plan as a table, then what is not confluent and why.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use comfy_table::modifiers::UTF8_ROUND_CORNERS;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{Attribute, Cell, Color, ColumnConstraint, ContentArrangement, Table, Width};
use weir_sql::Application;

use crate::Analysis;
use crate::advice_text;
use crate::anomaly::AnomalyKind;
use crate::partitioning::reason;
use crate::plan::{Class, Mechanism, Runs, TransactionPlan};
use crate::registry;
use crate::reported::BREAKS_ALONE;
use crate::verdict::{Alone, Verdict};

/// Parameters of rendering: the width in characters, and whether colours may be used.
#[derive(Clone, Copy, Debug)]
pub struct TextStyle {
    pub width: u16,
    pub colours: bool,
}

impl Default for TextStyle {
    fn default() -> TextStyle {
        TextStyle { width: 100, colours: false }
    }
}

const ALONE: &str = "No procedures were given: insert, update and delete of every table are answered for.";
const BESIDES: &str = "Besides the procedures, insert, update and delete of every table are answered for.";

pub fn to_text(app: &Application, analysis: &Analysis, style: TextStyle) -> String {
    let mut text = String::new();
    if app.synthesised {
        let own = app.procedures.iter().any(|procedure| !procedure.synthesised);
        let _ = writeln!(text, "{}\n", if own { BESIDES } else { ALONE });
    }
    let _ = writeln!(text, "{}", plan_table(app, analysis, style));
    not_run(app, analysis, style, &mut text);
    interactive(app, analysis, style, &mut text);
    advice_text::suggestions(app, analysis, style, &mut text);
    text.push('\n');
    refused(app, analysis, style, &mut text);
    summary(app, analysis, &mut text);
    by_themselves(app, analysis, style, &mut text);
    partitioning(app, analysis, style, &mut text);
    advice_text::anomalies(app, analysis, style, &mut text);
    findings(app, analysis, &mut text);
    text
}

pub(crate) fn cell(style: TextStyle, text: impl ToString, colour: Color) -> Cell {
    let cell = Cell::new(text);
    if style.colours { cell.fg(colour) } else { cell }
}

pub(crate) fn table(style: TextStyle, header: &[&str]) -> Table {
    let mut table = Table::new();
    table
        .load_preset(UTF8_FULL_CONDENSED)
        .apply_modifier(UTF8_ROUND_CORNERS)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(style.width);
    if style.colours {
        table.enforce_styling();
    } else {
        table.force_no_tty();
    }
    table.set_header(header.iter().map(|name| {
        let cell = Cell::new(name);
        if style.colours { cell.add_attribute(Attribute::Bold) } else { cell }
    }));
    table
}

/// Names are not broken but at their blanks (`update orders (status)`), and the last column, which explains, has room.
pub(crate) fn constrain(table: &mut Table, last: usize) {
    const NAME_MAX: usize = 30;
    /// On fewer columns every column gives way.
    const WIDE: u16 = 72;
    if table.width().is_some_and(|width| width < WIDE) {
        return;
    }
    let names: Vec<String> =
        table.row_iter().filter_map(|row| row.cell_iter().next()).map(Cell::content).collect();
    let words = names.iter().flat_map(|name| name.split_whitespace());
    let word = words.map(|word| word.chars().count()).max().unwrap_or(0);
    let long = names.iter().any(|name| name.chars().count() > NAME_MAX);
    if let Some(column) = table.column_mut(0) {
        column.set_constraint(match u16::try_from(word.max(NAME_MAX)) {
            // Two for the blanks around it.
            Ok(width) if long => ColumnConstraint::UpperBoundary(Width::Fixed(width + 2)),
            _ => ColumnConstraint::ContentWidth,
        });
    }
    if let Some(column) = table.column_mut(last) {
        column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(30)));
    }
}

fn plan_table(app: &Application, analysis: &Analysis, style: TextStyle) -> Table {
    let mut table = table(style, &["transaction", "coordination", "mechanism", "rounds", "why"]);
    for plan in &analysis.plan.transactions {
        let (verdict, colour) = verdict_words(plan);
        table.add_row(vec![
            Cell::new(&app.procedures[plan.procedure].name),
            cell(style, verdict, colour),
            cell(style, mechanism_words(plan), mechanism_colour(plan.mechanism)),
            Cell::new(plan.round_trips),
            Cell::new(&plan.why),
        ]);
    }
    constrain(&mut table, 4);
    table
}

/// Number of reasons listed; further ones are counted.
const NOT_RUN_MAX: usize = 20;

/// The transactions that the engine refuses, each reason once.
fn not_run(app: &Application, analysis: &Analysis, style: TextStyle, text: &mut String) {
    let mut told: Vec<(&Runs, Vec<&str>)> = Vec::new();
    for (runs, procedure) in analysis.runs.iter().zip(&app.procedures) {
        if runs.refused.is_none() {
            continue;
        }
        match told.iter_mut().find(|(other, _)| *other == runs) {
            Some((_, names)) => names.push(&procedure.name),
            None => told.push((runs, vec![&procedure.name])),
        }
    }
    if !told.is_empty() {
        let _ = writeln!(text, "\nRefused by this version of Weir:");
    }
    let more = told.len().saturating_sub(NOT_RUN_MAX);
    for (runs, names) in told.into_iter().take(NOT_RUN_MAX) {
        let where_to = match (runs.on_one_shard, runs.single_shard_calls) {
            (false, _) => "everywhere",
            _ if runs.is_refused_by_rows() => "on several shards, where a call meets such a row",
            (true, false) => "on several shards",
            (true, true) => "calls whose rows are on several shards",
        };
        let names = match names.len() == app.procedures.len() && names.len() > 1 {
            true => "every transaction".to_owned(),
            false => names.join(", "),
        };
        let Some(refused) = &runs.refused else { continue };
        hang(&format!("· {names}, {where_to}: {}", refused.reason), "  ", "    ", style.width, text);
    }
    if more > 0 {
        let _ = writeln!(text, "  And {more} more; --format json has them all.");
    }
}

/// The transactions whose calls over several shards are interactive, and why.
fn interactive(app: &Application, analysis: &Analysis, style: TextStyle, text: &mut String) {
    let all: Vec<(&str, &str)> = analysis
        .runs
        .iter()
        .zip(&app.procedures)
        .filter_map(|(runs, procedure)| Some((procedure.name.as_str(), runs.interactive.as_deref()?)))
        .collect();
    if !all.is_empty() {
        let _ = writeln!(
            text,
            "\nInteractive over several shards, where each statement takes its own round trips:"
        );
    }
    let more = all.len().saturating_sub(NOT_RUN_MAX);
    for (name, why) in all.into_iter().take(NOT_RUN_MAX) {
        hang(&format!("· {name}: {why}"), "  ", "    ", style.width, text);
    }
    if more > 0 {
        let _ = writeln!(text, "  And {more} more; --format json has them all.");
    }
}

/// Operation Partitioning: classes, and the conflict that makes an operation global.
fn partitioning(app: &Application, analysis: &Analysis, style: TextStyle, text: &mut String) {
    let found = &analysis.partitioning;
    let quality = match found.gap() {
        gap if gap > 0.0 => format!("within {:.1}% of the least", gap * 100.0),
        _ => "the least".to_string(),
    };
    let _ = writeln!(
        text,
        "\nOperation partitioning: {} conflicts, weight {} left between servers ({quality}; {}).\n",
        found.conflicts.len(),
        found.cost,
        found.method.name()
    );
    let mut table = table(style, &["transaction", "class", "routed by", "why not local"]);
    for (routing, procedure) in found.transactions.iter().zip(&app.procedures) {
        let colour = match routing.class {
            Class::Commutative | Class::Local => Color::Green,
            Class::LocalOrGlobal => Color::Yellow,
            Class::Global => Color::Red,
        };
        let parameters = routing.parameters();
        let names: Vec<&str> = parameters.iter().map(|&at| procedure.parameters[at].name.as_str()).collect();
        let why = routing.because.map(|because| reason(app, found, because));
        table.add_row(vec![
            Cell::new(&procedure.name),
            cell(style, routing.class.name(), colour),
            Cell::new(names.join(", ")),
            Cell::new(why.unwrap_or_default()),
        ]);
    }
    constrain(&mut table, 3);
    let _ = writeln!(text, "{table}");
}

fn verdict_words(plan: &TransactionPlan) -> (&'static str, Color) {
    match (plan.confluent, plan.mechanism.is_ordered_family(), plan.guards.is_empty()) {
        (_, true, _) => ("in order", Color::Red),
        (true, false, true) => ("none", Color::Green),
        (_, false, false) => ("at a guard", Color::Yellow),
        (false, false, true) => ("none left", Color::Yellow),
    }
}

fn mechanism_words(plan: &TransactionPlan) -> String {
    let mut words = plan.mechanism.name().to_string();
    let mut kinds: Vec<&str> = plan.guards.iter().map(|guard| guard.kind.name()).collect();
    kinds.dedup();
    for kind in kinds {
        let _ = write!(words, " + {kind}");
    }
    words
}

fn mechanism_colour(mechanism: Mechanism) -> Color {
    match mechanism {
        Mechanism::Merge | Mechanism::Ramp => Color::Green,
        Mechanism::Ordered => Color::Yellow,
        Mechanism::General => Color::Red,
    }
}

/// Number of refused verdicts listed; further ones are counted.
const REFUSED_MAX: usize = 60;

fn refused(app: &Application, analysis: &Analysis, style: TextStyle, text: &mut String) {
    let refused: Vec<&Verdict> = analysis.verdicts.iter().filter(|verdict| !verdict.confluent).collect();
    if analysis.invariants.is_empty() {
        return;
    }
    if refused.is_empty() {
        let _ = writeln!(text, "Every transaction keeps every invariant without coordination.");
        return;
    }
    let _ = writeln!(text, "Not confluent:\n");
    for verdict in refused.iter().take(REFUSED_MAX) {
        let invariant = &analysis.invariants[verdict.invariant.0 as usize];
        let name = &app.procedures[verdict.transaction].name;
        let beside = match verdict.with {
            Some(with) => format!("{name} beside {}", crate::world::other(app, verdict.transaction, with)),
            None => name.clone(),
        };
        let place = app.sources.place(invariant.span);
        let id = registry::of_verdict(verdict).id;
        let _ = writeln!(text, "  {beside}: {} [{id}]  ({place})", invariant.name);
        let undecided = if verdict.is_undecided() { "Undecided. " } else { "" };
        wrap(
            &format!("{undecided}It {}. {}", verdict.operation, verdict.argument()),
            "      ",
            style.width,
            text,
        );
        if let Some(witness) = &verdict.witness {
            write_steps(&witness.steps(), "      ", style.width, text);
        }
        let mut kept: Vec<String> = analysis.plan.transactions[verdict.transaction]
            .guards
            .iter()
            .filter(|guard| guard.keeps.contains(&verdict.invariant))
            .map(|guard| format!("{} on {}", guard.kind.name(), crate::json::guard_on(app, guard)))
            .collect();
        kept.dedup();
        let kept = if kept.is_empty() { "order".to_owned() } else { kept.join(", ") };
        wrap(&format!("Kept by: {kept}."), "      ", style.width, text);
        text.push('\n');
    }
    if refused.len() > REFUSED_MAX {
        let more = refused.len() - REFUSED_MAX;
        let _ = writeln!(text, "  And {more} more; --format html and --format json have them all.\n");
    }
}

/// Breaks at spaces.
pub(crate) fn wrap(words: &str, indent: &str, width: u16, text: &mut String) {
    hang(words, indent, indent, width, text);
}

/// Each title with its words beside it.
pub(crate) fn write_steps(steps: &[(&str, String)], indent: &str, width: u16, text: &mut String) {
    const TITLE_WIDTH: usize = 13;
    let later = format!("{indent}{:TITLE_WIDTH$}", "");
    for (title, words) in steps {
        hang(words, &format!("{indent}{:TITLE_WIDTH$}", format!("{title}:")), &later, width, text);
    }
}

/// The first line begins otherwise than the later ones.
fn hang(words: &str, first: &str, indent: &str, width: u16, text: &mut String) {
    let width = usize::from(width).max(indent.len() + 20);
    let mut line = first.to_string();
    for word in words.split_whitespace() {
        if line.len() > indent.len() {
            if line.chars().count() + 1 + word.chars().count() > width {
                let _ = writeln!(text, "{line}");
                line = indent.to_string();
            } else {
                line.push(' ');
            }
        }
        line.push_str(word);
    }
    let _ = writeln!(text, "{line}");
}

fn summary(app: &Application, analysis: &Analysis, text: &mut String) {
    let refused = analysis.verdicts.iter().filter(|verdict| !verdict.confluent).count();
    let _ = writeln!(
        text,
        "{} of {} verdicts are confluent: {} invariants × {} transactions.",
        analysis.pairs() - refused,
        analysis.pairs(),
        analysis.invariants.len(),
        app.procedures.len()
    );
    let mut assumed: Vec<&str> = analysis
        .verdicts
        .iter()
        .filter(|verdict| verdict.confluent)
        .flat_map(|verdict| &verdict.assumes)
        .map(String::as_str)
        .collect();
    assumed.sort_unstable();
    assumed.dedup();
    if !assumed.is_empty() {
        let _ = writeln!(text, "They assume:");
        for assumption in assumed {
            let _ = writeln!(text, "  · {assumption}");
        }
    }
}

/// Invariants that a single transaction may violate alone, without a proof or a check.
fn by_themselves(app: &Application, analysis: &Analysis, style: TextStyle, text: &mut String) {
    let open: Vec<&Verdict> = analysis.verdicts.iter().filter(|verdict| verdict.alone == Alone::No).collect();
    let told = |verdict: &Verdict| {
        let invariant = &analysis.invariants[verdict.invariant.0 as usize].name;
        (app.procedures[verdict.transaction].name.as_str(), invariant.as_str())
    };
    let (broken, unknown): (Vec<&Verdict>, Vec<&Verdict>) =
        open.into_iter().partition(|verdict| verdict.alone_witness.is_some());
    if !broken.is_empty() || !unknown.is_empty() {
        text.push('\n');
    }
    if !broken.is_empty() {
        let id = registry::id_of(BREAKS_ALONE);
        wrap(
            &format!(
                "Kept by no mechanism, for one call alone can break it, from a state that is valid but need not be one that your \
                 application ever reaches [{id}]:"
            ),
            "",
            style.width,
            text,
        );
        text.push('\n');
    }
    for verdict in broken {
        let (transaction, invariant) = told(verdict);
        let _ = writeln!(text, "  {transaction}: {invariant}");
        let steps = verdict.alone_witness.iter().flat_map(|witness| witness.steps());
        write_steps(&steps.collect::<Vec<_>>(), "      ", style.width, text);
        text.push('\n');
    }
    if !unknown.is_empty() {
        let mut by_invariant: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (transaction, invariant) in unknown.into_iter().map(told) {
            by_invariant.entry(invariant).or_default().push(transaction);
        }
        let _ = writeln!(text, "Not proved of one call alone, and not checked before it commits:");
        for (invariant, transactions) in by_invariant {
            wrap(&format!("· {invariant}: {}", transactions.join(", ")), "  ", style.width, text);
        }
    }
}

/// Equal findings are listed once, with their number; the JSON has every place.
fn findings(app: &Application, analysis: &Analysis, text: &mut String) {
    let told = |finding: &crate::Finding| AnomalyKind::ALL.iter().any(|kind| kind.finding() == finding.id);
    for (index, finding) in analysis.diagnostics.iter().enumerate().filter(|(_, finding)| !told(finding)) {
        let same = |other: &&crate::Finding| other.id == finding.id && other.message == finding.message;
        if analysis.diagnostics[..index].iter().any(|other| same(&other)) {
            continue;
        }
        let place = app.sources.place(finding.span);
        let (severity, message) = (finding.severity.name(), &finding.message);
        let id = registry::id_of(finding.id);
        let _ = write!(text, "\n{severity}: {message} [{id}]\n  at {place}");
        let _ = match analysis.diagnostics[index + 1..].iter().filter(same).count() {
            0 => writeln!(text),
            more => writeln!(text, ", and {more} more"),
        };
    }
}

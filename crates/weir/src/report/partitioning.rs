//! Operation Partitioning (§3): the graph, the array with each transaction's class and the conflict that makes it so,
//! where the tables live, and the conflicts one by one.

use std::fmt::Write;

use serde_json::Value;

use super::document::Document;
use super::graph::{self, Edge, caption, class_name, number};
use super::html::{escape, grouped, list, plain, text};

/// Conflicts that are told; those between servers come first. The JSON has more.
const CONFLICTS_MAX: usize = 300;

/// The graph, and every conflict with its places.
pub fn conflicts(document: &Document<'_>) -> String {
    if !document.value["partitioning"].is_object() {
        return String::new();
    }
    let edges = graph::edges(document);
    format!(
        "<section id=\"conflicts\">\n<h2>Conflicts</h2>\n<p class=\"soft\">An edge: the two may mean the same \
         row, and one of them writes it. A conflict between servers is what coordination is for; thicker ones cost \
         more.</p>\n{}{}</section>\n",
        graph::figure(document, &edges),
        one_by_one(document, &edges),
    )
}

/// The array of partitioning parameters, and where the tables live.
pub fn section(document: &Document<'_>) -> String {
    let partitioning = &document.value["partitioning"];
    if !partitioning.is_object() {
        return String::new();
    }
    let edges = graph::edges(document);
    format!(
        "<section id=\"partitioning\">\n<h2>Partitioning</h2>\n{}{}{}</section>\n",
        summary(partitioning, &edges),
        array(document, &edges),
        tables(document)
    )
}

fn summary(partitioning: &Value, edges: &[Edge<'_>]) -> String {
    let figure = |field: &str| partitioning[field].as_f64().unwrap_or(0.0);
    let remote = edges.iter().filter(|edge| !edge.local).count();
    let gap = match figure("gap") {
        gap if gap > 0.0 => {
            format!(
                "no array can cost less than {}: the gap is {:.1} %",
                number(figure("bound")),
                gap * 100.0
            )
        }
        _ => "no array costs less".to_owned(),
    };
    format!(
        "<p class=\"soft\">Each call is routed by one parameter. The array of parameters below costs <b>{}</b> \
         ({} of {} conflicts remain between servers, each at the weights of both sides); {gap} ({} search).</p>\n",
        number(figure("cost")),
        remote,
        grouped(partitioning["conflicts_in_all"].as_u64().unwrap_or(edges.len() as u64)),
        escape(&text(partitioning, "search"))
    )
}

fn array(document: &Document<'_>, edges: &[Edge<'_>]) -> String {
    let mut remote = vec![(0usize, 0.0); document.transactions.len()];
    for edge in edges.iter().filter(|edge| !edge.local) {
        let sides = if edge.left == edge.right { vec![edge.left] } else { vec![edge.left, edge.right] };
        for side in sides {
            remote[side].0 += 1;
            remote[side].1 += edge.cost;
        }
    }
    let mut rows = String::new();
    for (index, transaction) in document.transactions.iter().enumerate() {
        let class = text(transaction, "class");
        let parameters: Vec<String> =
            list(transaction, "partitioning_parameters").iter().map(plain).collect();
        let routed = match parameters.as_slice() {
            [] => "<span class=\"soft\">any server</span>".to_owned(),
            [one] => format!("<span class=\"mono\">{}</span>", escape(one)),
            more => format!("<span class=\"mono\">{}</span>", escape(&more.join(" = "))),
        };
        let costs = match remote[index] {
            (0, _) => "<span class=\"soft\">nothing</span>".to_owned(),
            (count, cost) => format!(
                "{}<div class=\"small soft\">{count} conflict{}</div>",
                number(cost),
                if count == 1 { "" } else { "s" }
            ),
        };
        let _ = writeln!(
            rows,
            "<tr class=\"filtered\"{}><td><b>{}</b></td>\
             <td data-label=\"Class\"><span class=\"badge {}\">{}</span></td><td data-label=\"Routed by\">{routed}</td>\
             <td data-label=\"Weight\" class=\"number\">{}</td><td data-label=\"Costs\" class=\"number\">{costs}</td>\
             <td class=\"why\">{}{}</td></tr>",
            document.marks_of(&transaction["name"], class == "global" || class == "local/global"),
            escape(&text(transaction, "name")),
            class_name(&class),
            escape(&class),
            transaction["weight"].as_f64().map(number).unwrap_or_default(),
            because(document, &transaction["global_because"]),
            accesses(document, transaction)
        );
    }
    format!(
        "<div class=\"card scroll\"><table class=\"stacks\">\n<thead><tr><th>Transaction</th><th>Class</th><th>Routed by</th>\
         <th class=\"number\">Weight</th><th class=\"number\">Costs</th><th>The conflict that makes it so</th></tr></thead>\n\
         <tbody>\n{rows}</tbody></table></div>\n"
    )
}

fn because(document: &Document<'_>, because: &Value) -> String {
    if !because.is_object() {
        return String::new();
    }
    format!(
        "<div>{}</div><div class=\"small soft\">{}</div>{}",
        escape(&text(because, "text")),
        escape(&text(because, "rows")),
        sides(document, &because["clause"])
    )
}

/// Where the two sides of a clause stand.
fn sides(document: &Document<'_>, clause: &Value) -> String {
    let (left, right) = (&clause["left"]["source"], &clause["right"]["source"]);
    if left == right { document.place(left) } else { document.place(left) + &document.place(right) }
}

/// The read and write set, folded away.
fn accesses(document: &Document<'_>, transaction: &Value) -> String {
    let accesses = list(transaction, "accesses");
    if accesses.is_empty() {
        return String::new();
    }
    let mut lines = String::new();
    for access in accesses {
        let columns: Vec<String> = list(access, "columns").iter().map(plain).collect();
        let kind = text(access, "access");
        let columns = match (columns.is_empty(), kind.as_str()) {
            (true, _) => String::new(),
            (false, "insert" | "delete") => " (every column)".to_owned(),
            (false, _) => format!(" ({})", columns.join(", ")),
        };
        let line = document.value["tables"].is_array().then(|| text(&access["source"], "line"));
        let _ = write!(
            lines,
            "<li><b>{}</b> <span class=\"mono\">{}{}</span> <span class=\"soft\">line {}</span></li>",
            escape(&kind),
            escape(&text(access, "table")),
            escape(&columns),
            escape(&line.unwrap_or_default())
        );
    }
    format!("<details class=\"small\"><summary>reads and writes</summary><ul>{lines}</ul></details>")
}

fn tables(document: &Document<'_>) -> String {
    let mut chips = String::new();
    for (index, table) in list(document.value, "tables").iter().enumerate() {
        let columns: Vec<String> = list(table, "partition_columns").iter().map(plain).collect();
        let (class, lives) = match table["replicated"] == true {
            true => ("soft", "a copy everywhere".to_owned()),
            false => ("mono", format!("by {}", columns.join(", "))),
        };
        let _ = write!(
            chips,
            "<div class=\"chip filtered\"{}><b>{}</b> <span class=\"{class}\">{}</span></div>",
            format_args!(" data-b=\"{index}\""),
            escape(&text(table, "name")),
            escape(&lives)
        );
    }
    if chips.is_empty() {
        return String::new();
    }
    format!("<h3>Where the rows of each table live</h3>\n<div class=\"chips\">{chips}</div>\n")
}

fn one_by_one(document: &Document<'_>, edges: &[Edge<'_>]) -> String {
    if edges.is_empty() {
        return "<p class=\"soft\">No two transactions conflict.</p>\n".to_owned();
    }
    let mut sorted: Vec<&Edge<'_>> = edges.iter().collect();
    sorted.sort_by(|a, b| a.local.cmp(&b.local).then(b.cost.total_cmp(&a.cost)).then(a.index.cmp(&b.index)));
    let mut items = String::new();
    for edge in sorted.iter().take(CONFLICTS_MAX) {
        items.push_str(&conflict(document, edge));
    }
    let rest = match edges.len().saturating_sub(CONFLICTS_MAX) {
        0 => String::new(),
        more => format!("<p class=\"soft small\">{more} more are in the JSON document.</p>\n"),
    };
    format!(
        "<details class=\"card\" id=\"conflict-list\"><summary>The {} conflicts one by one</summary>\n{items}{rest}</details>\n",
        edges.len()
    )
}

fn conflict(document: &Document<'_>, edge: &Edge<'_>) -> String {
    let marks = document.marks([edge.left, edge.right], graph::tables(document, edge.value), !edge.local);
    let mut clauses = String::new();
    for clause in list(edge.value, "clauses") {
        let equal: Vec<String> = list(clause, "equal")
            .iter()
            .map(|pair| {
                let side =
                    |at: usize| pair[at].as_str().map_or("its own generated ids", |name| name).to_owned();
                format!("{} = {}", side(0), side(1))
            })
            .collect();
        let equal = match equal.as_slice() {
            [] => "no parameter of the one is forced to equal one of the other".to_owned(),
            some => format!("only where {}", some.join(" and ")),
        };
        let side = |side: &str| {
            let side = &clause[side];
            let cause = side["for"].as_str().map(|cause| format!(" (for {cause})")).unwrap_or_default();
            format!(
                "<div><b>{}</b> {}s{} <span class=\"mono\">{}</span>, {}{}</div>",
                escape(&text(side, "transaction")),
                escape(&text(side, "access")),
                escape(&cause),
                escape(&text(clause, "table")),
                escape(&text(side, "rows")),
                document.place(&side["source"])
            )
        };
        let _ = write!(
            clauses,
            "<li>{}{}<div class=\"soft\">{}</div></li>",
            side("left"),
            side("right"),
            escape(&equal)
        );
    }
    let told = list(edge.value, "clauses").len() as u64;
    let in_all = edge.value["clauses_in_all"].as_u64().unwrap_or(told);
    if in_all > told {
        let _ = write!(clauses, "<li class=\"soft\">and {} more pairs of accesses</li>", in_all - told);
    }
    format!(
        "<details class=\"conflict filtered\" id=\"c{}\"{marks}><summary>{}{}</summary><ul class=\"small\">{clauses}</ul></details>\n",
        edge.index,
        if edge.local { "" } else { "<span class=\"badge bad\">between servers</span> " },
        escape(&caption(edge))
    )
}

//! The conflict graph of Operation Partitioning (§3.1): transactions as nodes, conflicts as edges, classes as colours.

use std::collections::BTreeSet;
use std::fmt::Write;

use serde_json::Value;

use super::document::Document;
use super::html::{escape, list, text};
use super::layout::{Half, Point, layout};

/// Largest number of nodes drawn: those with the most conflicts between servers.
const NODES_MAX: usize = 48;
/// Number of edges beyond which only those between servers are drawn.
const EDGES_MAX: usize = 250;
/// Number of edges beyond which all are thin.
const DENSE: usize = 100;
const CHARACTER: f64 = 7.3;
const NAME_MAX: usize = 28;
const HEIGHT: f64 = 15.0;
const MARGIN: f64 = 26.0;
const WIDTH_MIN: f64 = 640.0;

pub struct Edge<'a> {
    /// Position in the document's list of conflicts.
    pub index: usize,
    pub left: usize,
    pub right: usize,
    pub local: bool,
    /// Cost if it is between servers: the sum of both weights (Algorithm 1).
    pub cost: f64,
    pub value: &'a Value,
}

/// All conflicts of the document, with their costs.
pub fn edges<'a>(document: &Document<'a>) -> Vec<Edge<'a>> {
    let weight = |at: usize| document.transactions[at]["weight"].as_f64().unwrap_or(1.0);
    let conflicts = list(&document.value["partitioning"], "conflicts").iter().enumerate();
    let edge = |(index, value): (usize, &'a Value)| {
        let (left, right) = (document.transaction(&value["left"])?, document.transaction(&value["right"])?);
        let cost = weight(left) + weight(right);
        Some(Edge { index, left, right, local: value["local"] == true, cost, value })
    };
    conflicts.filter_map(edge).collect()
}

/// The tables that a conflict is about.
pub fn tables(document: &Document<'_>, conflict: &Value) -> BTreeSet<usize> {
    list(conflict, "clauses").iter().filter_map(|clause| document.table(&clause["table"])).collect()
}

pub fn figure(document: &Document<'_>, edges: &[Edge<'_>]) -> String {
    let drawn = drawn_nodes(document, edges);
    let place: Vec<Option<usize>> = (0..document.transactions.len())
        .map(|transaction| drawn.iter().position(|&node| node == transaction))
        .collect();
    let inside = |edge: &&Edge<'_>| place[edge.left].is_some() && place[edge.right].is_some();
    let mut shown: Vec<&Edge<'_>> = edges.iter().filter(inside).collect();
    let all = shown.len();
    if all > EDGES_MAX {
        shown.retain(|edge| !edge.local);
        shown.truncate(EDGES_MAX);
    }
    // Edges between servers are drawn on top.
    shown.sort_by_key(|edge| !edge.local);
    let names: Vec<String> =
        drawn.iter().map(|&node| short_name(&text(&document.transactions[node], "name"))).collect();
    let halves: Vec<Half> = names
        .iter()
        .map(|name| Half { width: name.chars().count() as f64 * CHARACTER / 2.0 + 13.0, height: HEIGHT })
        .collect();
    let pairs: Vec<(usize, usize)> =
        shown.iter().filter_map(|edge| place[edge.left].zip(place[edge.right])).collect();
    let (at, width, height) = layout(&halves, &pairs, WIDTH_MIN);
    let dense = shown.len() > DENSE;
    let dearest = shown.iter().filter(|edge| !edge.local).map(|edge| edge.cost).fold(1e-9, f64::max);

    let mut svg = format!(
        "<svg class=\"graph{4}\" viewBox=\"{0:.0} {0:.0} {1:.0} {2:.0}\" style=\"max-width:{3:.0}px\" role=\"group\" \
         aria-label=\"Conflicts between transactions\">\n",
        -MARGIN,
        width + 2.0 * MARGIN,
        height + 2.0 * MARGIN,
        (width + 2.0 * MARGIN) * 1.12,
        if dense { " dense" } else { "" }
    );
    for edge in &shown {
        if let Some((left, right)) = place[edge.left].zip(place[edge.right]) {
            let thick = match (edge.local, dense) {
                (true, _) | (_, true) => 1.2,
                _ => 1.4 + 2.6 * edge.cost / dearest,
            };
            svg.push_str(&line(document, edge, (at[left], at[right]), halves[left], thick));
        }
    }
    for (index, &node) in drawn.iter().enumerate() {
        svg.push_str(&label(document, node, &names[index], at[index], halves[index]));
    }
    svg.push_str("</svg>\n");
    let mut remarks = String::new();
    if drawn.len() < document.transactions.len() {
        let _ = writeln!(
            remarks,
            "<p class=\"soft small\">Drawn are the {} transactions of {} that have the most conflicts between \
             servers.</p>",
            drawn.len(),
            document.transactions.len()
        );
    }
    if shown.len() < all {
        let _ = writeln!(
            remarks,
            "<p class=\"soft small\">{} of {all} conflicts among them are drawn, all between servers.</p>",
            shown.len()
        );
    }
    format!("<div class=\"card scroll\">\n{}{svg}{remarks}</div>\n", legend())
}

/// In the document's order: all, or those with the most conflicts between servers.
fn drawn_nodes(document: &Document<'_>, edges: &[Edge<'_>]) -> Vec<usize> {
    let mut nodes: Vec<usize> = (0..document.transactions.len()).collect();
    if nodes.len() <= NODES_MAX {
        return nodes;
    }
    let mut weight = vec![0usize; nodes.len()];
    for edge in edges {
        let by = if edge.local { 1 } else { 1_000 };
        weight[edge.left] += by;
        weight[edge.right] += by;
    }
    nodes.sort_by_key(|&node| (std::cmp::Reverse(weight[node]), node));
    nodes.truncate(NODES_MAX);
    nodes.sort_unstable();
    nodes
}

fn line(
    document: &Document<'_>,
    edge: &Edge<'_>,
    (from, to): (Point, Point),
    half: Half,
    thick: f64,
) -> String {
    let class = if edge.local { "local" } else { "remote" };
    let marks = document.marks([edge.left, edge.right], tables(document, edge.value), !edge.local);
    let path = if edge.left == edge.right {
        let (x, y) = (from.x + half.width - 14.0, from.y - HEIGHT);
        format!("M{:.1} {y:.1} c-6 -22 26 -22 16 {:.1}", x, HEIGHT * 0.35)
    } else {
        format!("M{:.1} {:.1} L{:.1} {:.1}", from.x, from.y, to.x, to.y)
    };
    format!(
        "<a href=\"#c{}\" class=\"edge {class}\"{marks}><title>{}</title><path class=\"wide\" d=\"{path}\"/>\
         <path d=\"{path}\" stroke-width=\"{thick:.1}\"/></a>\n",
        edge.index,
        escape(&caption(edge))
    )
}

/// "payment and delivery: customer (c_balance), between servers, costs 47".
pub fn caption(edge: &Edge<'_>) -> String {
    let (left, right) = (text(edge.value, "left"), text(edge.value, "right"));
    let right = if left == right { "another call of it".to_owned() } else { right };
    let about = list(edge.value, "clauses").first().map(|clause| text(clause, "table")).unwrap_or_default();
    match edge.local {
        true => format!("{left} and {right}: {about}, always on one server"),
        false => format!("{left} and {right}: {about}, between servers, costs {}", number(edge.cost)),
    }
}

fn label(document: &Document<'_>, node: usize, name: &str, at: Point, half: Half) -> String {
    let transaction = &document.transactions[node];
    let class = text(transaction, "class");
    format!(
        "<g class=\"node {}\" data-node=\"{node}\" tabindex=\"0\" role=\"button\"{}><title>{}: {}</title>\
         <rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"8\"/>\
         <text x=\"{:.1}\" y=\"{:.1}\">{}</text></g>\n",
        class_name(&class),
        document.marks_of(&transaction["name"], false),
        escape(&text(transaction, "name")),
        escape(&class),
        at.x - half.width,
        at.y - half.height,
        2.0 * half.width,
        2.0 * half.height,
        at.x,
        at.y + 4.5,
        escape(name)
    )
}

/// The style of a class: fixed words only, whatever the document says.
pub fn class_name(class: &str) -> &'static str {
    match class {
        "commutative" => "commutative",
        "local" => "home",
        "local/global" => "either",
        "global" => "global",
        _ => "",
    }
}

fn legend() -> String {
    let mut legend = String::from("<div class=\"legend\">");
    for (class, words) in [
        ("commutative", "commutative: no conflict"),
        ("local", "local: conflicts on its own server only"),
        ("local/global", "local/global: depends on the arguments"),
        ("global", "global: conflicts with calls on other servers"),
    ] {
        let _ = write!(legend, "<span><i class=\"{}\"></i>{words}</span>", class_name(class));
    }
    legend.push_str(
        "<span><i class=\"line remote\"></i>conflict between servers</span>\
         <span><i class=\"line\"></i>conflict on one server</span></div>\n",
    );
    legend
}

fn short_name(name: &str) -> String {
    match name.chars().count() > NAME_MAX {
        true => name.chars().take(NAME_MAX - 1).chain(['…']).collect(),
        false => name.to_owned(),
    }
}

/// At most three digits behind the point.
pub fn number(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

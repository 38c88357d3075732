//! The page's head, its filters, the matrix' frame, the plan's table, and the table of invariants after a run.

use std::fmt::Write;

use serde_json::Value;
use weir_server::report::RunReport;

use super::document::{Document, Standing};
use super::html::{duration, escape, grouped, list, plain, short, text};

pub fn header(title: &str, document: &Document<'_>, run: Option<&RunReport>) -> String {
    let transactions = document.transactions;
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
        if !run.never_committed.is_empty() {
            tile(
                "bad",
                run.never_committed.len().to_string(),
                format!("never committed: {}", run.never_committed.join(", ")),
            );
        }
        tile("", format!("{}/s", short(run.throughput)), format!("{} committed", grouped(run.committed)));
        let calls = (run.committed + run.aborted_total()).max(1);
        let share = 100.0 * run.aborted_total() as f64 / calls as f64;
        tile("", format!("{share:.2}%"), "aborted".to_owned());
        tile("", duration(run.latency_us.p50), format!("median; p99 {}", duration(run.latency_us.p99)));
    }
    tile("", format!("{free} of {}", transactions.len()), "transactions need no coordination".to_owned());
    if run.is_none() {
        analysis_tiles(document, &mut tile);
    }
    let subtitle = match run {
        Some(run) => run_line(run),
        None => format!(
            "{} invariants, {} transactions, {} tables{}",
            grouped(document.invariants.len() as u64),
            grouped(transactions.len() as u64),
            grouped(list(document.value, "tables").len() as u64),
            match transactions.iter().any(|transaction| transaction["synthesised"] == true) {
                true => "; insert, update and delete of every table are answered for",
                false => "",
            }
        ),
    };
    format!(
        "<header>\n<h1>{}</h1>\n<div class=\"soft\">{}</div>\n<div class=\"tiles\">\n{tiles}</div>\n</header>\n",
        escape(title),
        escape(&subtitle)
    )
}

/// Numbers of pairs, of measures of the plan, and of undeclared assumptions.
fn analysis_tiles(document: &Document<'_>, tile: &mut dyn FnMut(&str, String, String)) {
    let mut pairs = [0usize; 6];
    for verdict in list(document.value, "verdicts") {
        pairs[document.standing(verdict) as usize] += 1;
    }
    let count = |standing: Standing| pairs[standing as usize];
    let ordered = count(Standing::Ordered) + count(Standing::Undecided);
    let touching = pairs[1..].iter().sum::<usize>();
    tile(
        "good",
        grouped(count(Standing::Confluent) as u64),
        format!("of {} touching pairs are confluent", grouped(touching as u64)),
    );
    let class = if count(Standing::Guarded) > 0 { "warn" } else { "" };
    tile(class, grouped(count(Standing::Guarded) as u64), "are kept by a guard".to_owned());
    tile(if ordered > 0 { "bad" } else { "" }, grouped(ordered as u64), "need an order".to_owned());
    let broken = count(Standing::BrokenAlone);
    if broken > 0 {
        let what = if broken == 1 { "is" } else { "are" };
        tile("bad", grouped(broken as u64), format!("{what} broken by one call alone"));
    }
    let anomalies: usize =
        document.transactions.iter().map(|transaction| list(transaction, "anomalies").len()).sum();
    let what = if anomalies == 1 { "anomaly" } else { "anomalies" };
    tile("", anomalies.to_string(), format!("{what} that no invariant forbids"));
}

/// Configuration of the run, in one line.
fn run_line(run: &RunReport) -> String {
    let mut line = format!("{:.1} s{}", run.seconds, if run.interrupted { ", interrupted," } else { "" });
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

/// The transactions that the engine refuses, each reason once.
pub fn refused(document: &Document<'_>) -> String {
    let mut told: Vec<(&serde_json::Value, Vec<String>)> = Vec::new();
    for transaction in document.transactions {
        let runs = &transaction["runs"];
        if runs["refused"].is_null() {
            continue;
        }
        match told.iter_mut().find(|(other, _)| *other == runs) {
            Some((_, names)) => names.push(text(transaction, "name")),
            None => told.push((runs, vec![text(transaction, "name")])),
        }
    }
    if told.is_empty() {
        return String::new();
    }
    let mut section = String::from(
        "<section id=\"refused\">\n<h2>Refused by this version of Weir</h2>\n<div class=\"card scroll\"><table>\n\
         <tr><th>Transactions</th><th>Where</th><th>Why</th><th>Instead</th></tr>\n",
    );
    for (runs, names) in told {
        let where_to = match (runs["on_one_shard"] == true, runs["single_shard_calls"] == true) {
            (false, _) => "everywhere",
            _ if runs["by_rows"] == true => "on several shards, where a call meets such a row",
            (true, false) => "on several shards",
            (true, true) => "calls whose rows are on several shards",
        };
        let _ = writeln!(
            section,
            "<tr><td class=\"mono\">{}</td><td class=\"small\">{where_to}</td><td class=\"small\">{}</td>\
             <td class=\"small soft\">{}</td></tr>",
            escape(&names.join(", ")),
            escape(&text(runs, "refused")),
            escape(&text(runs, "instead"))
        );
    }
    section.push_str("</table></div>\n</section>\n");
    section
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
        let violation = match &invariant.violation {
            Some(violation) => plain(violation),
            None if invariant.rows_checked == 0 => "of no rows: there were none to check".to_owned(),
            None => String::new(),
        };
        let row = format!(
            "<tr><td class=\"tight\">{badge}</td><td class=\"mono\">{}</td><td class=\"soft\">{}</td>\
             <td class=\"number\">{}</td><td class=\"small\">{}</td></tr>\n",
            escape(&invariant.id),
            escape(&kind.replace('_', " ")),
            grouped(invariant.rows_checked),
            escape(&violation)
        );
        // The application's own statements come first; keys and NOT NULLs fill pages.
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
    let mut section =
        String::from("<section id=\"invariants\">\n<h2>Invariants after the run</h2>\n<p class=\"soft\">");
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

/// Controls of the filters, made visible by the script.
pub fn bar(document: &Document<'_>, sections: &[(&str, &str)]) -> String {
    let links: String = sections.iter().map(|(id, title)| format!("<a href=\"#{id}\">{title}</a>")).collect();
    let options = |names: &[Value], field: &str| -> String {
        let mut names: Vec<String> = names.iter().map(|one| text(one, field)).collect();
        names.sort();
        names.iter().map(|name| format!("<option>{}</option>", escape(name))).collect()
    };
    format!(
        "<div class=\"bar\"><nav aria-label=\"Sections\">{links}</nav>\n\
         <form id=\"filter\" role=\"search\" hidden>\n\
         <input type=\"search\" name=\"q\" placeholder=\"Search ( / )\" aria-label=\"Search\" autocomplete=\"off\">\n\
         <select name=\"transaction\" aria-label=\"Transaction\"><option value=\"\">all transactions</option>{}</select>\n\
         <select name=\"table\" aria-label=\"Table\"><option value=\"\">all tables</option>{}</select>\n\
         <select name=\"verdict\" aria-label=\"Verdict\"><option value=\"\">all verdicts</option>\
         <option value=\"touched\">what touches</option><option value=\"confluent\">confluent</option>\
         <option value=\"guard\">needs a guard</option><option value=\"order\">needs an order</option>\
         <option value=\"undecided\">undecided</option><option value=\"broken\">broken by one call</option></select>\n\
         <label><input type=\"checkbox\" name=\"costly\" value=\"1\"> only costly</label>\n\
         <button type=\"reset\">Clear</button>\n</form></div>\n",
        options(document.transactions, "name"),
        options(list(document.value, "tables"), "name")
    )
}

/// The frame that the script fills.
pub fn matrix(document: &Document<'_>) -> String {
    let untouched = document.value["verdicts_untouched"].as_u64().unwrap_or(0);
    let remark = match untouched {
        0 => String::new(),
        count => format!(" {} pairs do not touch each other.", grouped(count)),
    };
    format!(
        "<section id=\"matrix\">\n<h2>Transactions × invariants</h2>\n<p class=\"soft\">May the transaction run on copies \
         of the data side by side and keep the invariant? Every cell opens its reasons; arrow keys move.{remark}</p>\n\
         <div class=\"legend\"><span><i class=\"cell s1\">✓</i>confluent: nothing to do</span>\
         <span><i class=\"cell s2\">C</i>a guard keeps it: <b>C</b>laim, <b>S</b>equence, <b>E</b>scrow</span>\
         <span><i class=\"cell s3\">O</i>only order keeps it</span>\
         <span><i class=\"cell s4\">?</i>undecided, so it runs in order</span>\
         <span><i class=\"cell s5\">!</i>one call alone breaks it</span>\
         <span><i class=\"cell s0\">·</i>not touched</span></div>\n\
         <div class=\"matrix\" id=\"grid\" tabindex=\"-1\"><p class=\"soft\">The matrix needs the page's script; all the rest \
         does not.</p></div>\n</section>\n"
    )
}

pub fn plan(document: &Document<'_>) -> String {
    let mut rows = String::new();
    for transaction in document.transactions {
        let confluent = transaction["confluent"] == true;
        let verdict = match confluent {
            true => "<span class=\"badge good\">confluent</span>",
            false => "<span class=\"badge warn\">coordinated</span>",
        };
        let mut guards = String::new();
        for guard in list(transaction, "guards") {
            let kept: Vec<String> = list(guard, "keeps").iter().map(plain).collect();
            let keeps = if kept.is_empty() { String::new() } else { format!("; keeps {}", kept.join(", ")) };
            let _ = write!(
                guards,
                "<div><span class=\"badge warn\">{}{}</span> <span class=\"mono\">{}</span>\
                 <div class=\"small soft\">{}{}</div>{}</div>",
                if guard["shared"] == true { "shared " } else { "" },
                escape(&text(guard, "kind")),
                escape(&text(guard, "on")),
                escape(&text(guard, "why")),
                escape(&keeps),
                document.place(&guard["source"])
            );
        }
        let mechanism = text(transaction, "mechanism");
        let in_order = matches!(mechanism.as_str(), "ordered" | "general");
        // Where guards are all there is to say, they say it themselves.
        let why = match guards.is_empty() || in_order {
            true => format!("<div>{}</div>", escape(&text(transaction, "why"))),
            false => String::new(),
        };
        let class = text(transaction, "class");
        let mut remarks = String::new();
        if transaction["requirement"] == "serializable" {
            remarks.push_str("<div class=\"small\">declared serializable</div>");
        }
        if let Some(by) = transaction["promoted_by"].as_str() {
            let _ = write!(remarks, "<div class=\"small\">in order because of {}</div>", escape(by));
        }
        let _ = writeln!(
            rows,
            "<tr class=\"filtered\"{}><td><b>{}</b><div class=\"small soft\">{}{}</div></td>\
             <td>{verdict}</td><td data-label=\"Mechanism\"><span class=\"badge {}\">{}</span></td>\
             <td data-label=\"Round trips\" class=\"number\">{}</td><td class=\"why\">{why}{remarks}{guards}</td></tr>",
            document.marks_of(&transaction["name"], !confluent || in_order),
            escape(&text(transaction, "name")),
            if transaction["read_only"] == true { "read only, " } else { "" },
            escape(&class),
            if in_order { "bad" } else { "" },
            escape(&mechanism),
            escape(&text(transaction, "round_trips"))
        );
    }
    format!(
        "<section id=\"plan\">\n<h2>The plan</h2>\n<p class=\"soft\">The cheapest mechanism for each transaction that keeps \
         every invariant.</p>\n<div class=\"card scroll\"><table class=\"stacks\">\n<thead><tr><th>Transaction</th><th>Verdict</th>\
         <th>Mechanism</th><th class=\"number\">Round trips</th><th>Why, and its guards</th></tr></thead>\n<tbody>\n{rows}</tbody>\
         </table></div>\n</section>\n"
    )
}

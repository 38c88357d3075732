//! Plots of a run, drawn as SVG by hand: throughput over time, and the latencies of each transaction.
//!
//! Two shapes do not pay for a plotting library, and CSS variables give both a light and a dark form.

use std::fmt::Write;

use weir_server::report::{Latency, RunReport, Second};

use super::html::{duration, escape, grouped, short};

const WIDTH: f64 = 1000.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 14.0;
const COLOURS: usize = 8;

pub fn section(run: &RunReport) -> String {
    let names: Vec<&str> = names_by_volume(run);
    let mut section = String::from("<section id=\"run\">\n<h2>The run</h2>\n");
    if run.series.len() > 1 {
        section.push_str("<div class=\"card plot\">\n<h3>Committed a second</h3>\n");
        section.push_str(&legend(&names));
        section.push_str(&throughput(&run.series, &names));
        section.push_str("</div>\n");
    }
    if run.by_transaction.values().any(|one| !one.latency_us.histogram.is_empty()) {
        section.push_str("<div class=\"card plot\">\n<h3>Latency of committed calls</h3>\n");
        section.push_str("<div class=\"small soft\">Logarithmic; the lines mark p50, p95 and p99.</div>\n");
        section.push_str(&latencies(run, &names));
        section.push_str("</div>\n");
    }
    section.push_str(&table(run, &names));
    section.push_str("</section>\n");
    section
}

/// The busiest first, so that it is the ground that the others stand on.
fn names_by_volume(run: &RunReport) -> Vec<&str> {
    let mut names: Vec<&str> = run.by_transaction.keys().map(String::as_str).collect();
    names.sort_by_key(|name| std::cmp::Reverse(run.by_transaction[*name].committed));
    names
}

fn legend(names: &[&str]) -> String {
    let mut legend = String::from("<div class=\"legend\">");
    for (index, name) in names.iter().enumerate() {
        let _ = write!(legend, "<span><i class=\"f{}\"></i>{}</span>", index % COLOURS, escape(name));
    }
    legend.push_str("</div>\n");
    legend
}

/// Stacked areas: each band one transaction, the upper edge the total.
fn throughput(series: &[Second], names: &[&str]) -> String {
    const HEIGHT: f64 = 300.0;
    const BOTTOM: f64 = 30.0;
    const TOP: f64 = 10.0;
    let rate = |second: &Second, name: &str| {
        second.committed.get(name).copied().unwrap_or(0) as f64 / second.length.max(1e-3)
    };
    let totals = series.iter().map(|second| names.iter().map(|name| rate(second, name)).sum::<f64>());
    let (ceiling, step) = axis(totals.fold(1.0, f64::max));
    let x = |index: usize| LEFT + (WIDTH - LEFT - RIGHT) * index as f64 / (series.len() - 1).max(1) as f64;
    let y = |value: f64| HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * value / ceiling;

    let mut svg =
        format!("<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"Throughput over time\">\n");
    let mut tick = 0.0;
    while tick <= ceiling * 1.001 {
        let _ = writeln!(
            svg,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{0:.1}\" y1=\"{2:.1}\" y2=\"{2:.1}\"/>\
             <text x=\"{1:.1}\" y=\"{3:.1}\" text-anchor=\"end\">{4}</text>",
            WIDTH - RIGHT,
            LEFT - 8.0,
            y(tick),
            y(tick) + 4.0,
            short(tick),
        );
        tick += step;
    }
    let mut floor = vec![0.0; series.len()];
    for (colour, name) in names.iter().enumerate() {
        let roof: Vec<f64> =
            floor.iter().zip(series).map(|(below, second)| below + rate(second, name)).collect();
        let upper = roof.iter().enumerate().map(|(index, value)| format!("{:.1},{:.1}", x(index), y(*value)));
        let lower =
            floor.iter().enumerate().rev().map(|(index, value)| format!("{:.1},{:.1}", x(index), y(*value)));
        let points: Vec<String> = upper.chain(lower).collect();
        let _ = writeln!(
            svg,
            "<polygon class=\"f{}\" fill-opacity=\"0.85\" points=\"{}\"><title>{}</title></polygon>",
            colour % COLOURS,
            points.join(" "),
            escape(name)
        );
        floor = roof;
    }
    let every = (series.len() / 10).max(1);
    for (index, second) in series.iter().enumerate().step_by(every) {
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{} s</text>",
            x(index),
            HEIGHT - 8.0,
            second.second + 1
        );
    }
    svg.push_str("</svg>\n");
    svg
}

/// The end of an axis and the distance of its ticks: four to eight of them, on round numbers.
fn axis(largest: f64) -> (f64, f64) {
    let magnitude = 10f64.powf((largest / 5.0).log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * magnitude)
        .find(|step| largest / step <= 6.0)
        .unwrap_or(10.0 * magnitude);
    ((largest / step).ceil() * step, step)
}

/// One strip for each transaction over a common logarithmic axis; heights are relative to the strip.
fn latencies(run: &RunReport, names: &[&str]) -> String {
    const STRIP: f64 = 62.0;
    const LABELS: f64 = 150.0;
    const BOTTOM: f64 = 28.0;
    let all = || run.by_transaction.values().flat_map(|one| &one.latency_us.histogram);
    let lowest = all().map(|bucket| bucket.below_us).fold(f64::INFINITY, f64::min).max(1e-3);
    let highest = all().map(|bucket| bucket.below_us).fold(lowest, f64::max);
    let from = (lowest / 2f64.powf(0.125)).log10().floor();
    let to = highest.log10().ceil().max(from + 1.0);
    let x = |us: f64| LABELS + (WIDTH - LABELS - RIGHT) * (us.max(1e-3).log10() - from) / (to - from);
    let height = STRIP * names.len() as f64 + BOTTOM;

    let mut svg =
        format!("<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"Latency distributions\">\n");
    for decade in from as i32..=to as i32 {
        let us = 10f64.powi(decade);
        let anchor = if decade == to as i32 { "end" } else { "middle" };
        let _ = writeln!(
            svg,
            "<line class=\"grid\" x1=\"{0:.1}\" x2=\"{0:.1}\" y1=\"0\" y2=\"{1:.1}\"/>\
             <text x=\"{0:.1}\" y=\"{2:.1}\" text-anchor=\"{anchor}\">{3}</text>",
            x(us),
            height - BOTTOM,
            height - 8.0,
            duration(us).replace(".0 ", " ")
        );
    }
    for (index, name) in names.iter().enumerate() {
        let foot = STRIP * (index + 1) as f64;
        let one = &run.by_transaction[*name];
        let _ = writeln!(
            svg,
            "<text class=\"name\" x=\"0\" y=\"{:.1}\">{}</text><text x=\"0\" y=\"{:.1}\">{} calls</text>",
            foot - 24.0,
            escape(name),
            foot - 8.0,
            grouped(one.committed)
        );
        svg.push_str(&strip(&one.latency_us, index, foot, STRIP - 12.0, &x));
    }
    svg.push_str("</svg>\n");
    svg
}

fn strip(latency: &Latency, colour: usize, foot: f64, height: f64, x: &dyn Fn(f64) -> f64) -> String {
    let mut svg = String::new();
    let most = latency.histogram.iter().map(|bucket| bucket.calls).max().unwrap_or(1).max(1) as f64;
    for bucket in &latency.histogram {
        let (right, left) = (x(bucket.below_us), x(bucket.below_us / 2f64.powf(0.125)));
        let tall = (height * bucket.calls as f64 / most).max(1.0);
        let _ = writeln!(
            svg,
            "<rect class=\"f{}\" x=\"{left:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{tall:.1}\">\
             <title>below {}: {} calls</title></rect>",
            colour % COLOURS,
            foot - tall,
            (right - left - 0.6).max(0.6),
            duration(bucket.below_us),
            grouped(bucket.calls)
        );
    }
    for (label, value) in [("p50", latency.p50), ("p95", latency.p95), ("p99", latency.p99)] {
        let _ = writeln!(
            svg,
            "<line class=\"quantile\" x1=\"{0:.1}\" x2=\"{0:.1}\" y1=\"{1:.1}\" y2=\"{foot:.1}\">\
             <title>{label} {2}</title></line>",
            x(value),
            foot - height * 0.5,
            duration(value)
        );
    }
    svg
}

/// More reasons of a transaction's aborts are counted, not told.
const REASONS_MAX: usize = 5;

fn table(run: &RunReport, names: &[&str]) -> String {
    let mut rows = String::new();
    for name in names {
        let one = &run.by_transaction[*name];
        let mut counted: Vec<(&String, &u64)> = one.abort_reasons.iter().collect();
        counted.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let shown = counted.iter().take(REASONS_MAX);
        let mut reasons: Vec<String> =
            shown.map(|(reason, count)| format!("{} × {reason}", grouped(**count))).collect();
        if counted.len() > REASONS_MAX {
            reasons.push(format!("{} other reasons", counted.len() - REASONS_MAX));
        }
        let _ = writeln!(
            rows,
            "<tr><td class=\"tight\">{}</td><td class=\"number\">{}</td><td class=\"number\">{}</td>\
             <td class=\"number\">{}</td><td class=\"number\">{}</td><td class=\"number\">{}</td>\
             <td class=\"number\">{}</td><td class=\"number\">{}</td><td class=\"small soft\">{}</td></tr>",
            escape(name),
            grouped(one.committed),
            grouped(one.throughput.round() as u64),
            grouped(one.aborted),
            duration(one.latency_us.p50),
            duration(one.latency_us.p95),
            duration(one.latency_us.p99),
            duration(one.latency_us.max),
            escape(&reasons.join(", "))
        );
    }
    format!(
        "<div class=\"card scroll\"><table>\n<tr><th>Transaction</th><th class=\"number\">Committed</th>\
         <th class=\"number\">A second</th><th class=\"number\">Aborted</th><th class=\"number\">p50</th>\
         <th class=\"number\">p95</th><th class=\"number\">p99</th><th class=\"number\">max</th><th></th></tr>\n{rows}</table></div>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::axis;

    #[test]
    fn an_axis_ends_on_a_round_number_above_the_largest() {
        for (largest, expect) in [(1.0, (1.0, 0.2)), (47_000.0, (50_000.0, 10_000.0)), (99.0, (100.0, 20.0))]
        {
            let (ceiling, step) = axis(largest);
            assert!(
                (ceiling - expect.0).abs() < 1e-9 && (step - expect.1).abs() < 1e-9,
                "{largest}: {ceiling} {step}"
            );
        }
    }
}

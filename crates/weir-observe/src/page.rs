//! Figures in Prometheus' text format 0.0.4: all samples of a name are grouped, whichever source they come from.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::figures::{BOUNDS_US, Counts};

/// `Content-Type` of the text.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

pub type Labels<'l> = &'l [(&'static str, &'l str)];

/// Figures while they are gathered.
#[derive(Debug, Default)]
pub struct Page(BTreeMap<&'static str, Family>);

#[derive(Debug)]
struct Family {
    kind: &'static str,
    help: &'static str,
    samples: String,
}

impl Page {
    /// A counter: it only grows. The name ends with `_total`.
    pub fn counter(&mut self, name: &'static str, help: &'static str, labels: Labels<'_>, value: f64) {
        let samples = self.family(name, "counter", help);
        sample(samples, name, "", labels, None, value);
    }

    pub fn gauge(&mut self, name: &'static str, help: &'static str, labels: Labels<'_>, value: f64) {
        let samples = self.family(name, "gauge", help);
        sample(samples, name, "", labels, None, value);
    }

    /// The name ends with `_seconds`.
    pub fn histogram(&mut self, name: &'static str, help: &'static str, labels: Labels<'_>, counts: &Counts) {
        let samples = self.family(name, "histogram", help);
        let mut up_to = 0;
        for (at, count) in counts.buckets.iter().enumerate() {
            up_to += count;
            let bound = BOUNDS_US.get(at).map(|us| (*us as f64 / 1e6).to_string());
            let bound = bound.unwrap_or_else(|| "+Inf".to_owned());
            sample(samples, name, "_bucket", labels, Some(&bound), up_to as f64);
        }
        sample(samples, name, "_sum", labels, None, counts.sum_seconds);
        sample(samples, name, "_count", labels, None, up_to as f64);
    }

    fn family(&mut self, name: &'static str, kind: &'static str, help: &'static str) -> &mut String {
        let family = self.0.entry(name).or_insert_with(|| Family { kind, help, samples: String::new() });
        debug_assert_eq!(family.kind, kind, "{name} is of one kind");
        &mut family.samples
    }

    pub fn into_text(self) -> String {
        let mut text = String::new();
        for (name, Family { kind, help, samples }) in self.0 {
            let help = help.replace('\\', "\\\\").replace('\n', "\\n");
            let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{samples}");
        }
        text
    }
}

fn sample(
    samples: &mut String,
    name: &str,
    suffix: &str,
    labels: Labels<'_>,
    bound: Option<&str>,
    value: f64,
) {
    samples.push_str(name);
    samples.push_str(suffix);
    let bound = bound.map(|bound| ("le", bound));
    let mut before = '{';
    for (label, value) in labels.iter().copied().chain(bound) {
        let _ = write!(samples, "{before}{label}=\"{}\"", escaped(value));
        before = ',';
    }
    if before == ',' {
        samples.push('}');
    }
    let _ = writeln!(samples, " {value}");
}

/// As the value of a label.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::Histogram;

    #[test]
    fn samples_of_a_name_stand_together() {
        let mut page = Page::default();
        page.gauge("weir_b", "Of\nb.", &[("x", "a\"\\\n")], 0.5);
        page.counter("weir_a_total", "Of a.", &[], 3.0);
        page.gauge("weir_b", "Of\nb.", &[("x", "1"), ("y", "2")], 1e15);
        let expected = concat!(
            "# HELP weir_a_total Of a.\n# TYPE weir_a_total counter\nweir_a_total 3\n",
            "# HELP weir_b Of\\nb.\n# TYPE weir_b gauge\n",
            "weir_b{x=\"a\\\"\\\\\\n\"} 0.5\nweir_b{x=\"1\",y=\"2\"} 1000000000000000\n",
        );
        assert_eq!(page.into_text(), expected);
    }

    #[test]
    fn buckets_are_up_to_their_bounds() {
        let histogram = Histogram::default();
        for us in [5, 20, 20_000_000] {
            histogram.add(Duration::from_micros(us));
        }
        let mut page = Page::default();
        page.histogram("weir_took_seconds", "Time.", &[("of", "x")], &histogram.counts());
        let text = page.into_text();
        for line in [
            "weir_took_seconds_bucket{of=\"x\",le=\"0.00001\"} 1\n",
            "weir_took_seconds_bucket{of=\"x\",le=\"0.000025\"} 2\n",
            "weir_took_seconds_bucket{of=\"x\",le=\"10\"} 2\n",
            "weir_took_seconds_bucket{of=\"x\",le=\"+Inf\"} 3\n",
            "weir_took_seconds_sum{of=\"x\"} 20.000025\n",
            "weir_took_seconds_count{of=\"x\"} 3\n",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }
}

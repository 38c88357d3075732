//! A simulated figure of a paper in the form that all figures have.

use serde::Serialize;
use serde_json::{Value, json};
use weir_harness::plot::{Axis, Panel, Series};

/// The series of a simulated figure.
pub(crate) struct Simulated<'a, P> {
    pub x: &'a str,
    /// Name and points of each series.
    pub series: Vec<(&'a str, &'a [P])>,
    /// Where a point stands on the x axis.
    pub at: fn(&P) -> f64,
}

impl<P: Serialize> Simulated<'_, P> {
    pub fn panel(&self, title: &str, y: Axis, value: fn(&P) -> f64) -> Panel {
        let series = self.series.iter().map(|(name, points)| Series {
            name: (*name).to_owned(),
            points: points.iter().map(|point| ((self.at)(point), value(point))).collect(),
        });
        Panel { title: title.to_owned(), x: Axis::linear(self.x), y, series: series.collect() }
    }

    /// One value for each point.
    pub fn data(&self) -> Vec<Value> {
        let of = |(name, points): &(&str, &[P])| -> Vec<Value> {
            points.iter().map(|point| json!({ "series": name, "point": point })).collect()
        };
        self.series.iter().flat_map(of).collect()
    }
}

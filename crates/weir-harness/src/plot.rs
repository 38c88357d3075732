//! Line plots as SVG: panels side by side, one line for each series, the same colour for the same name everywhere.
//!
//! Draws numbers that others have measured, and measures nothing. Axes say their units and may be logarithmic.

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint};
use plotters::prelude::*;

#[derive(Clone, Debug)]
pub struct Axis {
    /// With its unit.
    pub label: String,
    /// By powers of ten; what is not above 0 is left out.
    pub is_log: bool,
}

impl Axis {
    pub fn linear(label: &str) -> Axis {
        Axis { label: label.to_owned(), is_log: false }
    }

    pub fn log(label: &str) -> Axis {
        Axis { label: label.to_owned(), is_log: true }
    }
}

#[derive(Clone, Debug)]
pub struct Series {
    pub name: String,
    /// In order of x.
    pub points: Vec<(f64, f64)>,
}

#[derive(Clone, Debug)]
pub struct Panel {
    pub title: String,
    pub x: Axis,
    pub y: Axis,
    pub series: Vec<Series>,
}

/// Each wide enough for a title of thirty letters.
const PANEL: (u32, u32) = (420, 330);
const PANELS_BESIDE_MAX: usize = 3;
const HEAD: u32 = 40;
/// Height of a row of names.
const LEGEND_ROW: u32 = 22;
const LEGEND_MARGIN: u32 = 12;

/// Colours of the protocols, in order; red and green are never adjacent.
const COLOURS: [RGBColor; 9] = [
    RGBColor(0, 90, 181),
    RGBColor(86, 180, 233),
    RGBColor(0, 133, 102),
    RGBColor(90, 90, 90),
    RGBColor(230, 159, 0),
    RGBColor(213, 94, 0),
    RGBColor(160, 40, 40),
    RGBColor(190, 90, 160),
    RGBColor(20, 20, 20),
];

/// The picture of some panels.
///
/// # Errors
/// The text could not be drawn.
pub fn svg(title: &str, panels: &[Panel]) -> Result<String, String> {
    let beside = panels.len().clamp(1, PANELS_BESIDE_MAX);
    let below = panels.len().div_ceil(beside).max(1);
    let mut names: Vec<&str> = Vec::new();
    for series in panels.iter().flat_map(|panel| &panel.series) {
        if !names.contains(&series.name.as_str()) {
            names.push(&series.name);
        }
    }
    let width = PANEL.0 * beside as u32;
    let places = legend(&names, width as i32);
    let rows = places.last().map_or(0, |(_, row)| row + 1);
    let size = (width, PANEL.1 * below as u32 + HEAD + LEGEND_ROW * rows + LEGEND_MARGIN);
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, size).into_drawing_area();
        draw(&root, title, panels, (&names, &places), (below, beside)).map_err(|error| error.to_string())?;
        root.present().map_err(|error| error.to_string())?;
    }
    Ok(text)
}

type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;
type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

/// Where each name stands: its left, and its row.
fn legend(names: &[&str], width: i32) -> Vec<(i32, u32)> {
    let (mut left, mut row) = (LEGEND_LEFT, 0);
    let place = |name: &&str| {
        let wide = 44 + 8 * name.len() as i32;
        if left + wide > width && left > LEGEND_LEFT {
            (left, row) = (LEGEND_LEFT, row + 1);
        }
        left += wide;
        (left - wide, row)
    };
    names.iter().map(place).collect()
}

const LEGEND_LEFT: i32 = 14;

fn draw(
    root: &Area<'_>,
    title: &str,
    panels: &[Panel],
    (names, places): (&[&str], &[(i32, u32)]),
    grid: (usize, usize),
) -> Drawn {
    root.fill(&WHITE)?;
    let (head, rest) = root.split_vertically(HEAD);
    head.draw(&Text::new(title.to_owned(), (12, 12), ("sans-serif", 18).into_font()))?;
    let (_, height) = rest.dim_in_pixel();
    let rows = places.last().map_or(0, |(_, row)| row + 1);
    let (body, legend) = rest.split_vertically(height - LEGEND_ROW * rows - LEGEND_MARGIN);
    for (area, panel) in body.split_evenly(grid).iter().zip(panels) {
        draw_panel(area, panel, names)?;
    }
    for (number, (name, (at, row))) in names.iter().zip(places).enumerate() {
        let (at, y) = (*at, (LEGEND_ROW * row) as i32);
        let style = colour(number);
        legend.draw(&PathElement::new(vec![(at, y + 14), (at + 22, y + 14)], style.stroke_width(2)))?;
        legend.draw(&Circle::new((at + 11, y + 14), 3, style.filled()))?;
        legend.draw(&Text::new((*name).to_owned(), (at + 28, y + 7), ("sans-serif", 14).into_font()))?;
    }
    Ok(())
}

fn colour(number: usize) -> RGBColor {
    COLOURS[number % COLOURS.len()]
}

fn draw_panel(area: &Area<'_>, panel: &Panel, names: &[&str]) -> Drawn {
    let points = || panel.series.iter().flat_map(|series| &series.points);
    let x = Scale::of(&panel.x, points().map(|point| point.0));
    let y = Scale::of(&panel.y, points().map(|point| point.1));
    let mut chart = ChartBuilder::on(area)
        .caption(&panel.title, ("sans-serif", 15))
        .margin(10)
        .x_label_area_size(38)
        .y_label_area_size(62)
        .build_cartesian_2d(x.clone(), y.clone())?;
    chart
        .configure_mesh()
        .x_desc(&panel.x.label)
        .y_desc(&panel.y.label)
        .x_label_formatter(&|at| x.text(*at))
        .y_label_formatter(&|at| y.text(*at))
        .light_line_style(WHITE.mix(0.0))
        .bold_line_style(BLACK.mix(0.12))
        .label_style(("sans-serif", 12))
        .axis_desc_style(("sans-serif", 13))
        .draw()?;
    for series in &panel.series {
        let number = names.iter().position(|name| *name == series.name).unwrap_or_default();
        let line: Vec<(f64, f64)> =
            series.points.iter().filter_map(|point| Some((x.at(point.0)?, y.at(point.1)?))).collect();
        chart.draw_series(LineSeries::new(line.iter().copied(), colour(number).stroke_width(2)))?;
        chart.draw_series(line.iter().map(|point| Circle::new(*point, 3, colour(number).filled())))?;
    }
    Ok(())
}

/// Where an axis begins and ends, and where it is labelled; of a logarithmic one the logarithms.
#[derive(Clone)]
struct Scale {
    is_log: bool,
    from: f64,
    to: f64,
    labels: Vec<f64>,
}

impl Scale {
    fn of(axis: &Axis, values: impl Iterator<Item = f64>) -> Scale {
        let is_log = axis.is_log;
        let values = values.filter(|value| value.is_finite() && (!is_log || *value > 0.0));
        let values = values.map(|value| if is_log { value.log10() } else { value });
        let (least, most) =
            values.fold((f64::MAX, f64::MIN), |(least, most), at| (least.min(at), most.max(at)));
        let (least, most) = if least > most { (0.0, 1.0) } else { (least, most) };
        if is_log {
            let (from, to) = ((least + 1e-9).floor(), (most - 1e-9).ceil());
            let to = to.max(from + 1.0);
            let labels = (from as i64..=to as i64).map(|power| power as f64).collect();
            return Scale { is_log, from, to, labels };
        }
        // From zero, so that heights compare.
        let from = least.min(0.0);
        let step = nice_step((most - from).max(1e-9) / 5.0);
        let to = (most / step).ceil().max(1.0) * step;
        let labels = (0..).map(|at| (from / step).floor() * step + f64::from(at) * step);
        Scale { is_log, from, to, labels: labels.take_while(|at| *at <= to + step / 2.0).collect() }
    }

    fn at(&self, value: f64) -> Option<f64> {
        match self.is_log {
            true => Some(value).filter(|value| *value > 0.0).map(f64::log10),
            false => Some(value),
        }
    }

    fn text(&self, at: f64) -> String {
        let value = if self.is_log { 10_f64.powf(at) } else { at };
        let (value, unit) = match value.abs() {
            large if large >= 0.9995e9 => (value / 1e9, "G"),
            large if large >= 0.9995e6 => (value / 1e6, "M"),
            large if large >= 0.9995e3 => (value / 1e3, "k"),
            _ => (value, ""),
        };
        let digits =
            if value.abs() >= 0.01 || value == 0.0 { format!("{value:.2}") } else { format!("{value:.5}") };
        let digits = digits.trim_end_matches('0').trim_end_matches('.');
        format!("{digits}{unit}")
    }
}

impl Ranged for Scale {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, at: &f64, limit: (i32, i32)) -> i32 {
        let share = (at - self.from) / (self.to - self.from);
        limit.0 + (share * f64::from(limit.1 - limit.0)).round() as i32
    }

    fn key_points<H: KeyPointHint>(&self, _: H) -> Vec<f64> {
        self.labels.clone()
    }

    fn range(&self) -> std::ops::Range<f64> {
        self.from..self.to
    }
}

/// 1, 2 or 5 times a power of ten, not less.
fn nice_step(least: f64) -> f64 {
    let power = 10_f64.powf(least.log10().floor());
    let nice = [1.0, 2.0, 5.0, 10.0].into_iter().find(|step| step * power >= least * (1.0 - 1e-9));
    nice.unwrap_or(10.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_do_not_fit_go_to_the_next_row() {
        let places = legend(&["weir-confluent", "weir-ordered", "postgres-serializable"], 420);
        assert_eq!(places, [(14, 0), (170, 0), (14, 1)]);
        // One that is too wide for any row has one of its own.
        assert_eq!(legend(&["a", &"b".repeat(99), "c"], 420), [(14, 0), (14, 1), (14, 2)]);
        assert!(legend(&[], 420).is_empty());
    }

    #[test]
    fn axes_are_labelled_at_round_numbers() {
        let labels = |axis: &Axis, values: &[f64]| {
            let scale = Scale::of(axis, values.iter().copied());
            scale.labels.iter().map(|at| scale.text(*at)).collect::<Vec<_>>().join(" ")
        };
        let (linear, log) = (Axis::linear("x"), Axis::log("x"));
        assert_eq!(labels(&linear, &[0.0, 0.95]), "0 0.2 0.4 0.6 0.8 1");
        assert_eq!(labels(&linear, &[12_000.0, 233_000.0]), "0 50k 100k 150k 200k 250k");
        assert_eq!(labels(&log, &[1.0, 128.0]), "1 10 100 1k");
        assert_eq!(labels(&log, &[0.0001, 0.5]), "0.0001 0.001 0.01 0.1 1");
        assert_eq!(labels(&linear, &[]), "0 0.2 0.4 0.6 0.8 1");
    }

    #[test]
    fn a_picture_names_its_axes_and_its_lines() {
        let series = |name: &str| Series { name: name.to_owned(), points: vec![(1.0, 5.0), (100.0, 9.0)] };
        let panel = Panel {
            title: "Clients".to_owned(),
            x: Axis::log("clients"),
            y: Axis::linear("transactions a second"),
            series: vec![series("none"), series("ramp-fast")],
        };
        let picture = svg("Figure", &[panel.clone(), panel]).expect("it can be drawn");
        for text in ["Figure", "Clients", "clients", "transactions a second", "none", "ramp-fast", "<svg"] {
            assert!(picture.contains(text), "{text}");
        }
    }
}

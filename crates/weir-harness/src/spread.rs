//! Median and range of repeated measurements.

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    pub median: f64,
    pub least: f64,
    pub most: f64,
}

impl Spread {
    /// None of none.
    pub fn of(mut values: Vec<f64>) -> Option<Spread> {
        values.sort_by(f64::total_cmp);
        let (least, most) = (*values.first()?, *values.last()?);
        let median = f64::midpoint(values[(values.len() - 1) / 2], values[values.len() / 2]);
        Some(Spread { median, least, most })
    }
}

#[cfg(test)]
mod tests {
    use super::Spread;

    #[test]
    fn the_median_of_none_one_two_three() {
        let check = |values: &[f64], expected: Option<f64>| {
            assert_eq!(Spread::of(values.to_vec()).map(|spread| spread.median), expected, "{values:?}");
        };
        check(&[], None);
        check(&[2.0], Some(2.0));
        check(&[4.0, 2.0], Some(3.0));
        check(&[9.0, 1.0, 2.0], Some(2.0));
        assert_eq!(Spread::of(vec![9.0, 1.0, 2.0]), Some(Spread { median: 2.0, least: 1.0, most: 9.0 }));
    }
}

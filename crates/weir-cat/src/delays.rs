//! Delays of messages: round trips between regions, and tails of a local network.

use std::sync::LazyLock;

use crate::chance::Chance;

/// Regions, and the mean round trips between them.
#[derive(Debug, PartialEq, Eq)]
pub struct World {
    pub regions: Vec<String>,
    /// In microseconds, each region to those after it.
    round_trips_us: Vec<Vec<u32>>,
}

/// EC2's regions in 2013.
pub static EC2: LazyLock<World> =
    LazyLock::new(|| World::parse(include_str!("../data/ec2-regions.txt")).expect("the table is whole"));

impl World {
    /// A line for each region: its name, then the milliseconds of a round trip to each region below it. Empty lines and
    /// those that begin with `#` say nothing.
    ///
    /// # Errors
    /// Error in the text, with its line.
    pub fn parse(text: &str) -> Result<World, String> {
        let said = |line: &&str| !line.is_empty() && !line.starts_with('#');
        let lines: Vec<&str> = text.lines().map(str::trim).filter(said).collect();
        let mut world = World { regions: Vec::new(), round_trips_us: Vec::new() };
        for (at, line) in lines.iter().enumerate() {
            let mut words = line.split_whitespace();
            let region = words.next().unwrap_or_default();
            let in_us = |word: &str| {
                let ms = word.parse::<f64>().ok().filter(|ms| (0.0..=100_000.0).contains(ms));
                ms.map(|ms| (ms * 1e3).round() as u32)
                    .ok_or_else(|| format!("`{region}`: `{word}` is no round trip in milliseconds"))
            };
            let round_trips_us: Vec<u32> = words.map(in_us).collect::<Result<_, _>>()?;
            let below = lines.len() - at - 1;
            if round_trips_us.len() != below {
                return Err(format!(
                    "`{region}` has {} round trips, and {below} regions below it",
                    round_trips_us.len()
                ));
            }
            world.regions.push(region.to_owned());
            world.round_trips_us.push(round_trips_us);
        }
        if world.regions.is_empty() { Err("there are no regions".to_owned()) } else { Ok(world) }
    }

    /// Number of a region. None: it has none of that name.
    pub fn region(&self, name: &str) -> Option<usize> {
        self.regions.iter().position(|region| region == name)
    }

    /// Between two servers, which are put into the regions in turn; 0 within a region.
    pub fn round_trip_us(&self, one: usize, other: usize) -> f64 {
        let (one, other) = (one % self.regions.len(), other % self.regions.len());
        let (low, high) = (one.min(other), one.max(other));
        if low == high { 0.0 } else { f64::from(self.round_trips_us[low][high - low - 1]) }
    }
}

/// Family of distributions of a message's delay, with a shape; the scale is apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Family {
    /// A power law: the larger the shape the shorter the tail.
    Pareto,
    /// The logarithm is normal, and the shape is its deviation.
    LogNormal,
}

impl Family {
    pub const ALL: [Family; 2] = [Family::Pareto, Family::LogNormal];

    pub fn name(self) -> &'static str {
        match self {
            Family::Pareto => "Pareto",
            Family::LogNormal => "log-normal",
        }
    }

    /// The delay that this share of messages exceeds, with a scale of 1.
    fn exceeded_by(self, share: f64, shape: f64) -> f64 {
        match self {
            Family::Pareto => share.powf(-1.0 / shape),
            Family::LogNormal => (shape * -normal_quantile(share)).exp(),
        }
    }

    /// Shapes that are tried, those with the shortest tail first.
    fn shapes(self) -> (f64, f64) {
        match self {
            Family::Pareto => (50.0, 1.05),
            Family::LogNormal => (0.01, 6.0),
        }
    }
}

/// A distribution of delays.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tail {
    pub family: Family,
    pub shape: f64,
    /// The least delay of a Pareto, the median of a log-normal.
    pub scale_us: f64,
}

impl Tail {
    /// The tail whose slowest of so many messages takes these mean times, for two numbers of messages.
    ///
    /// # Errors
    /// No shape of the family does; the text says so.
    pub fn fitted(family: Family, one: (u64, f64), other: (u64, f64)) -> Result<Tail, String> {
        let (few, many) = if one.0 <= other.0 { (one, other) } else { (other, one) };
        let wanted = many.1 / few.1;
        let ratio = |shape| {
            let of = |messages| slowest(family, shape, messages);
            of(many.0) / of(few.0)
        };
        let (mut short, mut long) = family.shapes();
        if !(ratio(short)..=ratio(long)).contains(&wanted) {
            return Err(format!(
                "no {} tail makes the slowest of {} messages take {wanted:.2} times that of {}",
                family.name(),
                many.0,
                few.0
            ));
        }
        for _ in 0..60 {
            let middle = f64::midpoint(short, long);
            if ratio(middle) < wanted { short = middle } else { long = middle }
        }
        Ok(Tail { family, shape: short, scale_us: few.1 / slowest(family, short, few.0) })
    }

    /// The tail with this median, which one message in a hundred exceeds by so much.
    ///
    /// # Errors
    /// The two are no times, or the second is not the longer one.
    pub fn of_quantiles(family: Family, median_us: f64, p99_us: f64) -> Result<Tail, String> {
        let ratio = p99_us / median_us;
        if !(median_us > 0.0 && ratio > 1.0 && ratio.is_finite()) {
            return Err(format!("a 99th percentile of {p99_us} µs is not above a median of {median_us} µs"));
        }
        let shape = match family {
            Family::Pareto => 50f64.ln() / ratio.ln(),
            Family::LogNormal => ratio.ln() / -normal_quantile(0.01),
        };
        Ok(Tail { family, shape, scale_us: median_us / family.exceeded_by(0.5, shape) })
    }

    /// Delay of a message.
    pub fn pick_us(&self, chance: &mut Chance) -> f64 {
        self.pick_slowest_us(1, chance)
    }

    /// Delay of the slowest of so many messages, which takes as long to pick as that of one.
    pub fn pick_slowest_us(&self, messages: u64, chance: &mut Chance) -> f64 {
        let share = chance.share_above_zero();
        self.scale_us * self.family.exceeded_by(exceeding(share, messages), self.shape)
    }

    /// Mean delay of the slowest of so many messages, by integration.
    pub fn slowest_us(&self, messages: u64) -> f64 {
        self.scale_us * slowest(self.family, self.shape, messages)
    }

    /// The delay that this share of messages exceeds.
    pub fn exceeded_by_us(&self, share: f64) -> f64 {
        self.scale_us * self.family.exceeded_by(share, self.shape)
    }
}

/// Mean of the slowest of some messages, with a scale of 1.
fn slowest(family: Family, shape: f64, messages: u64) -> f64 {
    const STEPS: u32 = 4_000;
    /// Steps are narrow where the tail is.
    const POWER: i32 = 12;
    let step = 1.0 / f64::from(STEPS);
    let at = |index: u32| {
        let place = (f64::from(index) + 0.5) * step;
        let exceeding = exceeding(place.powi(POWER), messages);
        family.exceeded_by(exceeding, shape) * f64::from(POWER) * place.powi(POWER - 1)
    };
    (0..STEPS).map(at).sum::<f64>() * step
}

/// The share of messages that are slower than the slowest of some is, in the luckiest `share` of cases.
fn exceeding(share: f64, messages: u64) -> f64 {
    (-((-share).ln_1p() / messages.max(1) as f64).exp_m1()).max(f64::MIN_POSITIVE)
}

/// Acklam's rational approximation; its relative error is below 2e-9.
fn normal_quantile(share: f64) -> f64 {
    const A: [f64; 6] = [
        -3.969_683_028_665_376e1,
        2.209_460_984_245_205e2,
        -2.759_285_104_469_687e2,
        1.383_577_518_672_69e2,
        -3.066_479_806_614_716e1,
        2.506_628_277_459_239,
    ];
    const B: [f64; 5] = [
        -5.447_609_879_822_406e1,
        1.615_858_368_580_409e2,
        -1.556_989_798_598_866e2,
        6.680_131_188_771_972e1,
        -1.328_068_155_288_572e1,
    ];
    const C: [f64; 6] = [
        -7.784_894_002_430_293e-3,
        -3.223_964_580_411_365e-1,
        -2.400_758_277_161_838,
        -2.549_732_539_343_734,
        4.374_664_141_464_968,
        2.938_163_982_698_783,
    ];
    const D: [f64; 4] =
        [7.784_695_709_041_462e-3, 3.224_671_290_700_398e-1, 2.445_134_137_142_996, 3.754_408_661_907_416];
    const LOW: f64 = 0.024_25;
    let polynomial = |of: &[f64], at: f64| of.iter().fold(0.0, |sum, factor| sum * at + factor);
    let tail = |share: f64| {
        let at = (-2.0 * share.ln()).sqrt();
        polynomial(&C, at) / (polynomial(&D, at) * at + 1.0)
    };
    if share < LOW {
        tail(share)
    } else if share > 1.0 - LOW {
        -tail(1.0 - share)
    } else {
        let at = share - 0.5;
        let square = at * at;
        polynomial(&A, square) * at / (polynomial(&B, square) * square + 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_says_each_round_trip_once() {
        let world = World::parse("# two\n a 10 20.5\n\n b 30\n c\n").expect("it is whole");
        for (one, other, us) in [(0, 1, 10_000.0), (2, 0, 20_500.0), (4, 5, 30_000.0), (1, 4, 0.0)] {
            assert_eq!((world.round_trip_us(one, other), world.round_trip_us(other, one)), (us, us));
        }
        for (text, expect) in [
            ("", "there are no regions"),
            ("a 1\nb 2", "`b` has 1 round trips, and 0 regions below it"),
            ("a\nb", "`a` has 0 round trips, and 1 regions below it"),
            ("a x\nb", "`a`: `x` is no round trip in milliseconds"),
            ("a -1\nb", "`a`: `-1` is no round trip in milliseconds"),
        ] {
            assert_eq!(World::parse(text).expect_err(text), expect);
        }
        assert_eq!(EC2.regions.len(), 8);
    }

    #[test]
    fn quantiles_of_the_normal_distribution() {
        for (share, quantile) in
            [(0.5, 0.0), (0.975, 1.959_963_985), (0.01, -2.326_347_874), (0.001, -3.090_232_306)]
        {
            assert!((normal_quantile(share) - quantile).abs() < 1e-6, "{share}");
        }
    }

    #[test]
    fn the_slowest_of_one_is_the_mean() {
        // Means in closed form.
        assert!((slowest(Family::Pareto, 3.0, 1) - 1.5).abs() < 1e-3);
        assert!((slowest(Family::LogNormal, 1.0, 1) - 0.5f64.exp()).abs() < 1e-3);
        // The slowest of two of a Pareto: the product of k/(k - 1/shape).
        assert!((slowest(Family::Pareto, 3.0, 2) - 1.5 * (2.0 / (2.0 - 1.0 / 3.0))).abs() < 1e-3);
    }

    #[test]
    fn a_fit_passes_through_its_points() {
        for family in Family::ALL {
            let tail = Tail::fitted(family, (100, 8_333.0), (2, 666.0)).expect("there is one");
            assert!((tail.slowest_us(2) / 666.0 - 1.0).abs() < 1e-6);
            assert!((tail.slowest_us(100) / 8_333.0 - 1.0).abs() < 1e-3, "{tail:?}");
            assert!(Tail::fitted(family, (2, 100.0), (100, 50.0)).is_err());
        }
    }

    #[test]
    fn picks_follow_the_distribution() {
        for family in Family::ALL {
            let tail = Tail { family, shape: 2.5, scale_us: 100.0 };
            let mut chance = Chance::from_seed(1);
            let slow = tail.exceeded_by_us(0.1);
            let slower = (0..50_000).filter(|_| tail.pick_us(&mut chance) > slow).count();
            assert!((4_700..5_300).contains(&slower), "{slower}");
            // The slowest of twenty exceeds it in 1 - 0.9^20 of the cases.
            let slower = (0..50_000).filter(|_| tail.pick_slowest_us(20, &mut chance) > slow).count();
            assert!((43_600..44_250).contains(&slower), "{slower}");
        }
    }

    #[test]
    fn a_tail_has_the_quantiles_that_it_was_made_of() {
        for family in Family::ALL {
            let tail = Tail::of_quantiles(family, 200.0, 3_000.0).expect("there is one");
            assert!((tail.exceeded_by_us(0.5) - 200.0).abs() < 1e-6, "{tail:?}");
            assert!((tail.exceeded_by_us(0.01) - 3_000.0).abs() < 1e-3, "{tail:?}");
            for (median, p99) in [(0.0, 1.0), (2.0, 2.0), (2.0, f64::INFINITY), (f64::NAN, 1.0)] {
                assert!(Tail::of_quantiles(family, median, p99).is_err());
            }
        }
    }
}

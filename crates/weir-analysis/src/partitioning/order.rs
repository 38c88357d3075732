//! Bounds: is a set of `a ≤ b + n` and `a < b + n` possible? A graph of differences; a cycle with a negative sum,
//! or with sum zero and a strict edge, is a contradiction.

use std::collections::BTreeMap;

/// Above this many values nothing is decided.
const VALUES_MAX: usize = 40;

/// `a - b ≤ bound`, strictly if the flag is set. Smaller is tighter.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Bound(i128, bool);

impl Bound {
    fn is_tighter(self, than: Bound) -> bool {
        self.0 < than.0 || self.0 == than.0 && self.1 && !than.1
    }
}

#[derive(Default)]
pub struct Order {
    /// `None` is the number zero.
    edges: BTreeMap<(Option<usize>, Option<usize>), Bound>,
}

impl Order {
    /// `left ≤ right + offset`; `None` is zero.
    pub fn add(&mut self, left: Option<usize>, right: Option<usize>, offset: i128, strict: bool) {
        let new = Bound(offset, strict);
        let edge = self.edges.entry((left, right)).or_insert(new);
        if new.is_tighter(*edge) {
            *edge = new;
        }
    }

    /// The value is that number.
    pub fn fix(&mut self, value: usize, number: i64) {
        self.add(Some(value), None, i128::from(number), false);
        self.add(None, Some(value), -i128::from(number), false);
    }

    pub fn is_possible(&self) -> bool {
        let mut values: Vec<Option<usize>> =
            self.edges.keys().flat_map(|&(left, right)| [left, right]).collect();
        values.sort();
        values.dedup();
        if values.len() > VALUES_MAX {
            return true;
        }
        let mut edges = self.edges.clone();
        for &via in &values {
            for &left in &values {
                for &right in &values {
                    let (Some(&a), Some(&b)) = (edges.get(&(left, via)), edges.get(&(via, right))) else {
                        continue;
                    };
                    let through = Bound(a.0.saturating_add(b.0), a.1 || b.1);
                    let known = edges.get(&(left, right));
                    if known.is_none_or(|known| through.is_tighter(*known)) {
                        edges.insert((left, right), through);
                    }
                }
            }
        }
        values
            .iter()
            .all(|&value| edges.get(&(value, value)).is_none_or(|bound| !bound.is_tighter(Bound(0, false))))
    }
}

#[cfg(test)]
mod tests {
    use super::Order;

    #[track_caller]
    fn check(edges: &[(usize, usize, i128, bool)], fixed: &[(usize, i64)], possible: bool) {
        let mut order = Order::default();
        edges.iter().for_each(|&(a, b, n, strict)| order.add(Some(a), Some(b), n, strict));
        fixed.iter().for_each(|&(value, number)| order.fix(value, number));
        assert_eq!(order.is_possible(), possible, "{edges:?} {fixed:?}");
    }

    #[test]
    fn cycles() {
        check(&[(1, 2, 0, false), (2, 1, 0, false)], &[], true);
        check(&[(1, 2, 0, true), (2, 1, 0, false)], &[], false);
        check(&[(1, 2, 0, true), (2, 3, 0, true), (3, 1, 1, false)], &[], true);
        check(&[(1, 2, -1, false), (2, 3, 0, false), (3, 1, 0, false)], &[], false);
        check(&[(1, 2, 0, true)], &[(1, 5), (2, 5)], false);
        check(&[(1, 2, 0, false)], &[(1, 5), (2, 5)], true);
        check(&[(1, 2, 0, false)], &[(1, 6), (2, 5)], false);
        check(&[(1, 1, 0, true)], &[], false);
    }
}

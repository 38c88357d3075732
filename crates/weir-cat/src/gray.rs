//! The contention metric after Gray's model (cat-theorem.txt §3, Equation 1).

/// Probability that at least two of `transactions` that run at once access an object in common, each of `length` different objects that are
/// picked uniformly from `objects`. 1 if they cannot all be disjoint; 0 without operations.
pub fn contention(objects: u64, transactions: u64, length: u64) -> f64 {
    let mut disjoint = 1.0;
    for earlier in 0..transactions {
        // C(D - earlier * length, length) / C(D, length), factor by factor: the binomials themselves exceed a float.
        for factor in 0..length {
            let taken = earlier.saturating_mul(length).saturating_add(factor);
            if taken >= objects {
                return 1.0;
            }
            disjoint *= (objects - taken) as f64 / (objects - factor) as f64;
        }
    }
    1.0 - disjoint
}

#[cfg(test)]
mod tests {
    use super::contention;

    #[test]
    fn cases_counted_by_hand() {
        let check = |objects, transactions, length, expected: f64| {
            let found = contention(objects, transactions, length);
            assert!((found - expected).abs() < 1e-12, "{objects} {transactions} {length}: {found}");
        };
        // One transaction meets nobody; none and empty ones neither.
        check(1_000, 1, 8, 0.0);
        check(1_000, 0, 8, 0.0);
        check(1_000, 7, 0, 0.0);
        // Two of one object of ten: one in ten picks the same.
        check(10, 2, 1, 0.1);
        // Two of two objects of four: one of the six pairs is disjoint.
        check(4, 2, 2, 5.0 / 6.0);
        // Birthdays of 23.
        check(365, 23, 1, 0.507_297_234_323_985_4);
        // There is no room for three disjoint ones.
        check(5, 3, 2, 1.0);
        check(0, 2, 1, 1.0);
    }

    #[test]
    fn it_agrees_with_the_binomials() {
        let choose = |n: u64, k: u64| (0..k).map(|i| (n - i) as f64 / (k - i) as f64).product::<f64>();
        let (objects, length) = (100, 4);
        let disjoint: f64 = (0..3).map(|i| choose(objects - i * length, length)).product();
        let expected = 1.0 - disjoint / choose(objects, length).powi(3);
        assert!((contention(objects, 3, length) - expected).abs() < 1e-12);
    }
}

//! Branch and bound against enumeration on random instances, and mistakes that this must catch.

use super::{
    FINE, Problem, Shifted, Solution, branch_and_bound, exhaustive, minimise, search_tree, without_dead_ends,
};

#[path = "../../../tests/support/random.rs"]
mod random;

use random::Random;

/// Up to seven variables with up to four choices; `share` of ten pairs conflict, at costs below `cost`.
fn instance(random: &mut Random, share: u64, cost: u64) -> Problem {
    let variables = 1 + random.below(7) as usize;
    let sizes: Vec<usize> = (0..variables).map(|_| 1 + random.below(4) as usize).collect();
    let mut problem = Problem::default();
    for &size in &sizes {
        problem.single.push((0..size).map(|_| random.below(cost)).collect());
    }
    for a in 0..variables {
        for b in a + 1..variables {
            if random.below(10) < share {
                let row = |random: &mut Random| (0..sizes[b]).map(|_| random.below(cost)).collect();
                problem.pairs.insert((a, b), (0..sizes[a]).map(|_| row(random)).collect());
            }
        }
    }
    problem
}

/// Number of searches that find another least cost than enumeration, over `cases` instances of many kinds.
fn mistakes(cases: u64, search: impl Fn(&Problem, u64) -> Solution) -> u64 {
    let mut random = Random(2026);
    let mut wrong = 0;
    for case in 0..cases {
        let problem = instance(&mut random, 1 + case % 10, [2, 3, 8, 1000, 1 << 20][case as usize % 5]);
        let least = exhaustive(&problem).cost;
        let found = search(&problem, case);
        assert_eq!(problem.cost(&found.choices), found.cost, "the cost is that of the choices");
        wrong += u64::from(found.cost != least || found.bound != least);
    }
    wrong
}

#[test]
fn branch_and_bound_is_exact() {
    assert_eq!(mistakes(4000, |problem, _| branch_and_bound(problem, u64::MAX).0), 0);
    assert_eq!(mistakes(4000, |problem, _| minimise(problem, u64::MAX)), 0);
}

/// Of arrays of equal cost the first.
#[test]
fn ties_go_to_the_first_choice() {
    let problem = Problem { single: vec![vec![1, 0, 0], vec![5, 5]], ..Problem::default() };
    assert_eq!(minimise(&problem, 1000).choices, [1, 0]);
}

/// Planted: a bound that promises too much, here by shifting costs that are then not shifted back.
#[test]
fn a_bound_that_is_too_high_is_caught() {
    let wrong = mistakes(1000, |problem, case| {
        let mut shifted = Shifted::new(problem);
        let variable = case as usize % shifted.single.len();
        shifted.single[variable].iter_mut().for_each(|cost| *cost += 3 * FINE);
        let mut solution = search_tree(problem, &shifted, u64::MAX).0;
        solution.cost = problem.cost(&solution.choices);
        solution
    });
    assert!(wrong > 0);
}

/// Planted: choices are thrown away although the other one may lose a little.
#[test]
fn a_wrong_dead_end_is_caught() {
    let wrong = mistakes(1000, |problem, _| {
        let left = without_dead_ends(problem, 2);
        let all: Vec<usize> = (0..problem.single.len()).collect();
        let part = exhaustive(&problem.parts(&[all], &left)[0]);
        let choices = part.choices.iter().zip(&left).map(|(&choice, left)| left[choice]).collect();
        Solution { choices, ..part }
    });
    assert!(wrong > 0);
}

/// Out of steps: the bound is below the cost, and the truth lies between them.
#[test]
fn without_steps_the_gap_is_honest() {
    let mut random = Random(7);
    let mut gaps = 0;
    for _ in 0..300 {
        let problem = instance(&mut random, 10, 50);
        let least = exhaustive(&problem).cost;
        let found = branch_and_bound(&problem, 0).0;
        assert!(found.bound <= least && least <= found.cost, "{} {least} {}", found.bound, found.cost);
        assert_eq!(found.cost, problem.cost(&found.choices));
        gaps += u64::from(found.bound < found.cost);
    }
    assert!(gaps > 0, "no instance needs a step");
}

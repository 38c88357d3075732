//! The search for the array of least cost (operation-partitioning.txt, Algorithm 1, line 11).
//!
//! Knows nothing of transactions: variables with choices, costs of single choices and of pairs of choices. Finds
//! a choice for each variable with the least sum: by enumeration where that is little work, else by branch
//! and bound, which is exact unless its budget of steps runs out. Deterministic; never looks at a clock.

use std::collections::{BTreeMap, BTreeSet};

/// At most this many arrays of one component are enumerated.
const ARRAYS_MAX: u64 = 20_000;

/// Costs are held finer than they are given, so that shifting them loses no bound to rounding.
const FINE: i64 = 1 << 12;

#[derive(Clone, Debug, Default)]
pub struct Problem {
    /// By variable, by choice. Every variable has a choice.
    pub single: Vec<Vec<u64>>,
    /// By pair of variables, the lower first, by choice of the one and of the other.
    pub pairs: BTreeMap<(usize, usize), Vec<Vec<u64>>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Solution {
    /// By variable.
    pub choices: Vec<usize>,
    pub cost: u64,
    /// No array costs less. Equal to `cost` unless the budget ran out.
    pub bound: u64,
    pub method: Method,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Method {
    Exhaustive,
    BranchAndBound,
}

impl Method {
    pub fn name(self) -> &'static str {
        match self {
            Method::Exhaustive => "exhaustive",
            Method::BranchAndBound => "branch and bound",
        }
    }
}

impl Problem {
    pub fn cost(&self, choices: &[usize]) -> u64 {
        let single: u64 = self.single.iter().zip(choices).map(|(costs, &choice)| costs[choice]).sum();
        let pairs = self.pairs.iter().map(|(&(a, b), costs)| costs[choices[a]][choices[b]]);
        single + pairs.sum::<u64>()
    }

    /// By variable: the variables that it shares a pair with, and whether it is the pair's first.
    pub fn neighbours(&self) -> Vec<Vec<(usize, bool)>> {
        let mut neighbours: Vec<Vec<(usize, bool)>> = vec![Vec::new(); self.single.len()];
        for &(a, b) in self.pairs.keys() {
            neighbours[a].push((b, true));
            neighbours[b].push((a, false));
        }
        neighbours
    }

    fn pair(&self, variable: usize, (other, first): (usize, bool), own: usize, theirs: usize) -> u64 {
        match first {
            true => self.pairs[&(variable, other)][own][theirs],
            false => self.pairs[&(other, variable)][theirs][own],
        }
    }

    /// Cost of one variable's choice beside the others'.
    pub fn cost_at(
        &self,
        around: &[(usize, bool)],
        choices: &[usize],
        variable: usize,
        choice: usize,
    ) -> u64 {
        let pairs = around.iter().map(|&beside| self.pair(variable, beside, choice, choices[beside.0]));
        self.single[variable][choice] + pairs.sum::<u64>()
    }

    fn arrays(&self) -> u64 {
        self.single.iter().fold(1u64, |product, costs| product.saturating_mul(costs.len() as u64))
    }

    /// The part on these variables, with the choices that are left of each.
    fn part(&self, variables: &[usize], left: &[Vec<usize>]) -> Problem {
        let at: BTreeMap<usize, usize> = variables.iter().enumerate().map(|(at, &v)| (v, at)).collect();
        let pick = |costs: &Vec<u64>, v: usize| left[v].iter().map(|&choice| costs[choice]).collect();
        let single = variables.iter().map(|&v| pick(&self.single[v], v)).collect();
        let pairs = self.pairs.iter().filter_map(|(&(a, b), costs)| {
            let rows = left[a].iter().map(|&choice| pick(&costs[choice], b)).collect();
            Some(((*at.get(&a)?, *at.get(&b)?), rows))
        });
        Problem { single, pairs: pairs.collect() }
    }
}

/// The best array, within a budget of steps (each about one look at a cost) for all components together.
pub fn minimise(problem: &Problem, steps_max: u64) -> Solution {
    let mut steps = steps_max;
    let left = without_dead_ends(problem, 0);
    let mut solution =
        Solution { choices: vec![0; problem.single.len()], cost: 0, bound: 0, method: Method::Exhaustive };
    for variables in components(problem) {
        let part = problem.part(&variables, &left);
        let (best, steps_left) = if part.arrays() <= ARRAYS_MAX {
            (exhaustive(&part), steps)
        } else {
            branch_and_bound(&part, steps)
        };
        steps = steps_left;
        for (&variable, &choice) in variables.iter().zip(&best.choices) {
            solution.choices[variable] = left[variable][choice];
        }
        solution.cost += best.cost;
        solution.bound += best.bound;
        solution.method = solution.method.max(best.method);
    }
    solution
}

/// The choices of each variable but those that another can replace at no loss, whatever the rest is. A loss up to
/// `slack` does not count: zero but in the test that plants a mistake.
fn without_dead_ends(problem: &Problem, slack: i128) -> Vec<Vec<usize>> {
    let mut left: Vec<Vec<usize>> = problem.single.iter().map(|costs| (0..costs.len()).collect()).collect();
    let neighbours = problem.neighbours();
    let mut progress = true;
    while progress {
        progress = false;
        for variable in 0..left.len() {
            // Later choices go first, so that of equals the first stays.
            for &choice in left[variable].clone().iter().rev() {
                let replaces = |&other: &usize| {
                    let single = &problem.single[variable];
                    let gain = i128::from(single[choice]) - i128::from(single[other]);
                    let pairs = neighbours[variable].iter().map(|&beside| {
                        let differences = left[beside.0].iter().map(|&y| {
                            i128::from(problem.pair(variable, beside, choice, y))
                                - i128::from(problem.pair(variable, beside, other, y))
                        });
                        differences.min().unwrap_or(0)
                    });
                    other != choice && gain + pairs.sum::<i128>() >= -slack
                };
                if left[variable].iter().any(replaces) {
                    left[variable].retain(|&kept| kept != choice);
                    progress = true;
                }
            }
        }
    }
    left
}

fn components(problem: &Problem) -> Vec<Vec<usize>> {
    let mut component: Vec<usize> = (0..problem.single.len()).collect();
    for &(a, b) in problem.pairs.keys() {
        let (low, high) = (component[a].min(component[b]), component[a].max(component[b]));
        component.iter_mut().filter(|of| **of == high).for_each(|of| *of = low);
    }
    let names: BTreeSet<usize> = component.iter().copied().collect();
    let members = |name| (0..component.len()).filter(|&v| component[v] == name).collect();
    names.into_iter().map(members).collect()
}

/// Looks at every array; of equals the first.
pub fn exhaustive(problem: &Problem) -> Solution {
    let mut choices = vec![0; problem.single.len()];
    let mut best = (problem.cost(&choices), choices.clone());
    while advance(problem, &mut choices) {
        let cost = problem.cost(&choices);
        if cost < best.0 {
            best = (cost, choices.clone());
        }
    }
    Solution { choices: best.1, cost: best.0, bound: best.0, method: Method::Exhaustive }
}

fn advance(problem: &Problem, choices: &mut [usize]) -> bool {
    for variable in (0..choices.len()).rev() {
        choices[variable] += 1;
        if choices[variable] < problem.single[variable].len() {
            return true;
        }
        choices[variable] = 0;
    }
    false
}

/// Exact unless `steps_max` runs out; then the best array found and the bound that is proved. The steps left.
pub fn branch_and_bound(problem: &Problem, steps_max: u64) -> (Solution, u64) {
    search_tree(problem, &Shifted::new(problem), steps_max)
}

fn search_tree(problem: &Problem, shifted: &Shifted, steps_max: u64) -> (Solution, u64) {
    let (choices, cost) = descend(problem, shifted.cheapest());
    let bound = shifted.bound_of_all();
    let mut tree = Tree {
        given: shifted.single.clone(),
        open: (0..problem.single.len()).collect(),
        fixed: vec![0; problem.single.len()],
        best: (fine(cost), choices),
        steps: steps_max,
        complete: true,
        problem: shifted,
    };
    tree.explore(0, tree.problem.open_pairs(&tree.open));
    let cost = problem.cost(&tree.best.1);
    let (complete, left) = (tree.complete, tree.steps);
    // Costs are whole, so a bound may be rounded up.
    let bound = if complete { cost } else { (bound.max(0) as u64).div_ceil(FINE as u64).min(cost) };
    (Solution { choices: tree.best.1, cost, bound, method: Method::BranchAndBound }, left)
}

fn fine(cost: u64) -> i64 {
    i64::try_from(cost).unwrap_or(i64::MAX / FINE / 4).saturating_mul(FINE)
}

/// Changes one choice at a time while that helps.
fn descend(problem: &Problem, mut choices: Vec<usize>) -> (Vec<usize>, u64) {
    let neighbours = problem.neighbours();
    loop {
        let mut progress = false;
        for variable in 0..choices.len() {
            let cost = |choice| problem.cost_at(&neighbours[variable], &choices, variable, choice);
            let costs = (0..problem.single[variable].len()).map(|choice| (cost(choice), choice));
            let Some((least, choice)) = costs.min() else { continue };
            if least < cost(choices[variable]) {
                choices[variable] = choice;
                progress = true;
            }
        }
        if !progress {
            let cost = problem.cost(&choices);
            return (choices, cost);
        }
    }
}

/// The same costs of whole arrays, moved from pairs to single choices so that the sum of all minima, which is a
/// lower bound, is large (min-sum diffusion).
struct Shifted {
    single: Vec<Vec<i64>>,
    /// By variable: neighbour and the costs of (own choice, neighbour's choice).
    pairs: Vec<Vec<(usize, Vec<Vec<i64>>)>>,
}

impl Shifted {
    fn new(problem: &Problem) -> Shifted {
        let fine_all = |costs: &Vec<u64>| costs.iter().map(|&cost| fine(cost)).collect::<Vec<i64>>();
        let mut edges: BTreeMap<(usize, usize), Vec<Vec<i64>>> =
            problem.pairs.iter().map(|(&pair, costs)| (pair, costs.iter().map(fine_all).collect())).collect();
        let mut single: Vec<Vec<i64>> = problem.single.iter().map(fine_all).collect();
        let around: Vec<Vec<(usize, usize)>> = (0..single.len())
            .map(|v| edges.keys().filter(|(a, b)| *a == v || *b == v).copied().collect())
            .collect();
        let mut bound = i64::MIN;
        // The bound creeps up; what the last rounds add is not worth their time.
        const ROUNDS_MAX: usize = 300;
        for _ in 0..ROUNDS_MAX {
            for variable in 0..single.len() {
                diffuse(&mut single[variable], &mut edges, &around[variable], variable);
            }
            let new = bound_of(&single, &edges);
            if new <= bound {
                break;
            }
            bound = new;
        }
        let mut pairs: Vec<Vec<(usize, Vec<Vec<i64>>)>> = vec![Vec::new(); single.len()];
        for ((a, b), costs) in edges {
            let turned = (0..single[b].len()).map(|y| costs.iter().map(|row| row[y]).collect()).collect();
            pairs[b].push((a, turned));
            pairs[a].push((b, costs));
        }
        Shifted { single, pairs }
    }

    fn cheapest(&self) -> Vec<usize> {
        let cheapest = |costs: &Vec<i64>| (0..costs.len()).min_by_key(|&choice| costs[choice]).unwrap_or(0);
        self.single.iter().map(cheapest).collect()
    }

    /// The sum of the cheapest entries of all pairs among these variables.
    fn open_pairs(&self, open: &[usize]) -> i64 {
        let pairs = open.iter().flat_map(|&v| self.pairs[v].iter().filter(move |(other, _)| v < *other));
        pairs.filter(|(other, _)| open.contains(other)).map(|(_, costs)| least(costs)).sum()
    }

    fn bound_of_all(&self) -> i64 {
        let open: Vec<usize> = (0..self.single.len()).collect();
        let single: i64 = self.single.iter().map(|costs| costs.iter().copied().min().unwrap_or(0)).sum();
        single + self.open_pairs(&open)
    }
}

fn least(costs: &[Vec<i64>]) -> i64 {
    costs.iter().flatten().copied().min().unwrap_or(0)
}

fn bound_of(single: &[Vec<i64>], edges: &BTreeMap<(usize, usize), Vec<Vec<i64>>>) -> i64 {
    let single: i64 = single.iter().map(|costs| costs.iter().copied().min().unwrap_or(0)).sum();
    single + edges.values().map(|costs| least(costs)).sum::<i64>()
}

/// Takes from each pair what every partner's choice costs at least, and gives all pairs an equal share back.
fn diffuse(
    own: &mut [i64],
    edges: &mut BTreeMap<(usize, usize), Vec<Vec<i64>>>,
    around: &[(usize, usize)],
    variable: usize,
) {
    for pair in around {
        let Some(costs) = edges.get_mut(pair) else { continue };
        for (choice, own) in own.iter_mut().enumerate() {
            let least = each(costs, pair.0 == variable, choice).map(|cost| *cost).min().unwrap_or(0);
            each(costs, pair.0 == variable, choice).for_each(|cost| *cost -= least);
            *own += least;
        }
    }
    let shares = around.len() as i64 + 1;
    for (choice, own) in own.iter_mut().enumerate() {
        let share = own.div_euclid(shares);
        for pair in around {
            let Some(costs) = edges.get_mut(pair) else { continue };
            each(costs, pair.0 == variable, choice).for_each(|cost| *cost += share);
            *own -= share;
        }
    }
}

/// The costs of one choice with every choice of the partner.
fn each(costs: &mut [Vec<i64>], first: bool, choice: usize) -> Box<dyn Iterator<Item = &mut i64> + '_> {
    if first {
        Box::new(costs[choice].iter_mut())
    } else {
        Box::new(costs.iter_mut().map(move |row| &mut row[choice]))
    }
}

/// Depth first: fixes one open variable after the other, the one with the fewest choices worth a look first.
struct Tree<'a> {
    problem: &'a Shifted,
    /// Cost of each open choice, pairs with fixed variables included.
    given: Vec<Vec<i64>>,
    open: Vec<usize>,
    fixed: Vec<usize>,
    best: (i64, Vec<usize>),
    steps: u64,
    complete: bool,
}

impl Tree<'_> {
    /// `cost` of what is fixed; `pairs`: what the pairs among open variables cost at least.
    fn explore(&mut self, cost: i64, pairs: i64) {
        if self.open.is_empty() {
            if cost < self.best.0 {
                self.best = (cost, self.fixed.clone());
            }
            return;
        }
        let minima: Vec<i64> =
            self.open.iter().map(|&v| self.given[v].iter().copied().min().unwrap_or(0)).collect();
        let bound = cost + pairs + minima.iter().sum::<i64>();
        let looks: usize = self.open.iter().map(|&v| self.given[v].len()).sum();
        if self.steps < looks as u64 {
            self.complete = false;
            return;
        }
        self.steps -= looks as u64;
        // Whole costs are multiples of FINE: a better array is better by as much.
        let worth = |extra: i64| bound + extra <= self.best.0 - FINE;
        let candidates = |at: usize| {
            let costs = self.given[self.open[at]].iter().enumerate();
            let extra = costs.map(|(choice, &cost)| (cost - minima[at], choice));
            let mut list: Vec<(i64, usize)> = extra.filter(|(extra, _)| worth(*extra)).collect();
            list.sort_unstable();
            list
        };
        // Of equally few, the one whose second choice costs most.
        let rank = |list: &Vec<(i64, usize)>| (list.len(), -list.get(1).map_or(0, |(extra, _)| *extra));
        let all = (0..self.open.len()).map(|at| (at, candidates(at)));
        let Some((at, list)) = all.min_by_key(|(_, list)| rank(list)) else { return };
        for (_, choice) in list {
            self.fix(at, choice, cost, pairs);
        }
    }

    fn fix(&mut self, at: usize, choice: usize, cost: i64, pairs: i64) {
        let variable = self.open.remove(at);
        let own = self.given[variable][choice];
        self.fixed[variable] = choice;
        let problem = self.problem;
        let mut less = 0;
        let mut saved = Vec::new();
        for (other, costs) in &problem.pairs[variable] {
            if self.open.contains(other) {
                saved.push((*other, self.given[*other].clone()));
                less += least(costs);
                self.given[*other].iter_mut().zip(&costs[choice]).for_each(|(given, cost)| *given += cost);
            }
        }
        self.explore(cost + own, pairs - less);
        for (other, given) in saved {
            self.given[other] = given;
        }
        self.open.insert(at, variable);
    }
}

#[cfg(test)]
mod tests;

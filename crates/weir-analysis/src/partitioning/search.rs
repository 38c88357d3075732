//! The search for the array of least cost (operation-partitioning.txt, Algorithm 1, line 11).
//!
//! Knows nothing of transactions: variables with choices, costs of single choices and of pairs of choices. Finds
//! a choice for each variable with the least sum: by enumeration where that is little work, else by branch
//! and bound, which is exact unless its budget of steps runs out. Deterministic; never looks at a clock.

use std::collections::BTreeMap;

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

/// A pair seen from one of its variables.
#[derive(Clone, Copy)]
pub struct Beside<'a> {
    other: usize,
    /// The variable is the pair's first.
    first: bool,
    costs: &'a [Vec<u64>],
}

impl Beside<'_> {
    fn cost(self, own: usize, theirs: usize) -> u64 {
        if self.first { self.costs[own][theirs] } else { self.costs[theirs][own] }
    }
}

impl Problem {
    pub fn cost(&self, choices: &[usize]) -> u64 {
        let single: u64 = self.single.iter().zip(choices).map(|(costs, &choice)| costs[choice]).sum();
        let pairs = self.pairs.iter().map(|(&(a, b), costs)| costs[choices[a]][choices[b]]);
        single + pairs.sum::<u64>()
    }

    /// By variable: the pairs that it is in.
    pub fn neighbours(&self) -> Vec<Vec<Beside<'_>>> {
        let mut neighbours: Vec<Vec<Beside<'_>>> = self.single.iter().map(|_| Vec::new()).collect();
        for (&(a, b), costs) in &self.pairs {
            neighbours[a].push(Beside { other: b, first: true, costs });
            neighbours[b].push(Beside { other: a, first: false, costs });
        }
        neighbours
    }

    /// Cost of one variable's choice beside the others'.
    pub fn cost_at(&self, around: &[Beside<'_>], choices: &[usize], variable: usize, choice: usize) -> u64 {
        let pairs = around.iter().map(|beside| beside.cost(choice, choices[beside.other]));
        self.single[variable][choice] + pairs.sum::<u64>()
    }

    fn arrays(&self) -> u64 {
        self.single.iter().fold(1u64, |product, costs| product.saturating_mul(costs.len() as u64))
    }

    /// The parts on these sets of variables, between which there is no pair, with the choices that are left.
    fn parts(&self, sets: &[Vec<usize>], left: &[Vec<usize>]) -> Vec<Problem> {
        let mut at = vec![(0, 0); self.single.len()];
        let mut parts: Vec<Problem> = Vec::new();
        let pick = |costs: &Vec<u64>, v: usize| left[v].iter().map(|&choice| costs[choice]).collect();
        for (set, variables) in sets.iter().enumerate() {
            variables.iter().enumerate().for_each(|(index, &variable)| at[variable] = (set, index));
            let single = variables.iter().map(|&v| pick(&self.single[v], v)).collect();
            parts.push(Problem { single, ..Problem::default() });
        }
        for (&(a, b), costs) in &self.pairs {
            let rows = left[a].iter().map(|&choice| pick(&costs[choice], b)).collect();
            parts[at[a].0].pairs.insert((at[a].1, at[b].1), rows);
        }
        parts
    }
}

/// The best array, within a budget of steps (each about one look at a cost) for all components together.
pub fn minimise(problem: &Problem, steps_max: u64) -> Solution {
    let mut steps = steps_max;
    let left = without_dead_ends(problem, 0);
    let mut solution =
        Solution { choices: vec![0; problem.single.len()], cost: 0, bound: 0, method: Method::Exhaustive };
    let sets = components(problem);
    for (variables, part) in sets.iter().zip(problem.parts(&sets, &left)) {
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
    // Whether anything around the variable has changed since it was looked at.
    let mut changed = vec![true; left.len()];
    while changed.contains(&true) {
        for variable in 0..left.len() {
            if !std::mem::take(&mut changed[variable]) {
                continue;
            }
            // Later choices go first, so that of equals the first stays.
            for &choice in left[variable].clone().iter().rev() {
                let replaces = |&other: &usize| {
                    let single = &problem.single[variable];
                    let gain = i128::from(single[choice]) - i128::from(single[other]);
                    let pairs = neighbours[variable].iter().map(|beside| {
                        let differences = left[beside.other]
                            .iter()
                            .map(|&y| i128::from(beside.cost(choice, y)) - i128::from(beside.cost(other, y)));
                        differences.min().unwrap_or(0)
                    });
                    other != choice && gain + pairs.sum::<i128>() >= -slack
                };
                if left[variable].iter().any(replaces) {
                    left[variable].retain(|&kept| kept != choice);
                    changed[variable] = true;
                    neighbours[variable].iter().for_each(|beside| changed[beside.other] = true);
                }
            }
        }
    }
    left
}

fn components(problem: &Problem) -> Vec<Vec<usize>> {
    let mut parent: Vec<usize> = (0..problem.single.len()).collect();
    fn root(parent: &mut [usize], mut variable: usize) -> usize {
        while parent[variable] != variable {
            parent[variable] = parent[parent[variable]];
            variable = parent[variable];
        }
        variable
    }
    for &(a, b) in problem.pairs.keys() {
        let (a, b) = (root(&mut parent, a), root(&mut parent, b));
        parent[a.max(b)] = a.min(b);
    }
    let mut members: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for variable in 0..parent.len() {
        members.entry(root(&mut parent, variable)).or_default().push(variable);
    }
    members.into_values().collect()
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
        is_open: vec![true; problem.single.len()],
        fixed: vec![0; problem.single.len()],
        best: (fine(cost), choices),
        steps: steps_max,
        complete: true,
        problem: shifted,
    };
    tree.explore(0, shifted.least.iter().sum());
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

/// The costs of one pair, flat: a row for each choice of the first variable.
#[derive(Clone, Debug)]
struct Edge {
    first: usize,
    second: usize,
    /// Choices of the second.
    width: usize,
    costs: Vec<i64>,
}

impl Edge {
    fn least(&self) -> i64 {
        self.costs.iter().copied().min().unwrap_or(0)
    }

    /// The costs of one choice of a variable with every choice of its partner.
    fn each(&mut self, variable: usize, choice: usize) -> impl Iterator<Item = &mut i64> {
        let (skip, step, take) = match variable == self.first {
            true => (choice * self.width, 1, self.width),
            false => (choice, self.width, self.costs.len() / self.width),
        };
        self.costs[skip..].iter_mut().step_by(step).take(take)
    }

    /// Costs of one choice, by the partner's choice.
    fn row(&self, variable: usize, choice: usize) -> impl Iterator<Item = i64> + '_ {
        let (skip, step, take) = match variable == self.first {
            true => (choice * self.width, 1, self.width),
            false => (choice, self.width, self.costs.len() / self.width),
        };
        self.costs[skip..].iter().copied().step_by(step).take(take)
    }
}

/// Costs shifted from pairs to single choices so that the sum of all minima, which is a lower bound, is large (min-sum diffusion). Total
/// costs are unchanged.
struct Shifted {
    single: Vec<Vec<i64>>,
    edges: Vec<Edge>,
    /// By edge: its cheapest entry.
    least: Vec<i64>,
    /// By variable: its edges and the partners.
    around: Vec<Vec<(usize, usize)>>,
}

impl Shifted {
    fn new(problem: &Problem) -> Shifted {
        let mut single: Vec<Vec<i64>> =
            problem.single.iter().map(|costs| costs.iter().map(|&cost| fine(cost)).collect()).collect();
        let edge = |(&(first, second), costs): (&(usize, usize), &Vec<Vec<u64>>)| Edge {
            first,
            second,
            width: single[second].len(),
            costs: costs.iter().flatten().map(|&cost| fine(cost)).collect(),
        };
        let mut edges: Vec<Edge> = problem.pairs.iter().map(edge).collect();
        let mut around: Vec<Vec<(usize, usize)>> = vec![Vec::new(); single.len()];
        for (index, edge) in edges.iter().enumerate() {
            around[edge.first].push((index, edge.second));
            around[edge.second].push((index, edge.first));
        }
        let mut bound = i64::MIN;
        for _ in 0..rounds(&edges) {
            for variable in 0..single.len() {
                diffuse(&mut single[variable], &mut edges, &around[variable], variable);
            }
            let new = bound_of(&single, edges.iter().map(Edge::least));
            if new <= bound {
                break;
            }
            bound = new;
        }
        let least = edges.iter().map(Edge::least).collect();
        Shifted { single, edges, least, around }
    }

    fn cheapest(&self) -> Vec<usize> {
        let cheapest = |costs: &Vec<i64>| (0..costs.len()).min_by_key(|&choice| costs[choice]).unwrap_or(0);
        self.single.iter().map(cheapest).collect()
    }

    fn bound_of_all(&self) -> i64 {
        bound_of(&self.single, self.least.iter().copied())
    }
}

/// The bound creeps up; what the last rounds add is not worth their time, and of many pairs few rounds must do.
fn rounds(edges: &[Edge]) -> usize {
    const ROUNDS_MAX: usize = 300;
    const LOOKS_MAX: usize = 100_000_000;
    let looks: usize = edges.iter().map(|edge| 4 * edge.costs.len()).sum();
    (LOOKS_MAX / looks.max(1)).clamp(1, ROUNDS_MAX)
}

fn bound_of(single: &[Vec<i64>], pairs: impl Iterator<Item = i64>) -> i64 {
    let single: i64 = single.iter().map(|costs| costs.iter().copied().min().unwrap_or(0)).sum();
    single + pairs.sum::<i64>()
}

/// Takes from each pair what every partner's choice costs at least, and gives all pairs an equal share back.
fn diffuse(own: &mut [i64], edges: &mut [Edge], around: &[(usize, usize)], variable: usize) {
    for &(edge, _) in around {
        for (choice, own) in own.iter_mut().enumerate() {
            let least = edges[edge].row(variable, choice).min().unwrap_or(0);
            edges[edge].each(variable, choice).for_each(|cost| *cost -= least);
            *own += least;
        }
    }
    let shares = around.len() as i64 + 1;
    for (choice, own) in own.iter_mut().enumerate() {
        let share = own.div_euclid(shares);
        for &(edge, _) in around {
            edges[edge].each(variable, choice).for_each(|cost| *cost += share);
            *own -= share;
        }
    }
}

/// Depth first: fixes one open variable after the other, the one with the fewest choices worth a look first.
struct Tree<'a> {
    problem: &'a Shifted,
    /// Cost of each open choice, pairs with fixed variables included.
    given: Vec<Vec<i64>>,
    open: Vec<usize>,
    is_open: Vec<bool>,
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
        // Among variables with equally few candidates, the one whose second choice costs most.
        let rank = |list: &Vec<(i64, usize)>| (list.len(), -list.get(1).map_or(0, |(extra, _)| *extra));
        let all = (0..self.open.len()).map(|at| (at, candidates(at)));
        let Some((at, list)) = all.min_by_key(|(_, list)| rank(list)) else { return };
        for (_, choice) in list {
            self.fix(at, choice, cost, pairs);
        }
    }

    fn fix(&mut self, at: usize, choice: usize, cost: i64, pairs: i64) {
        let variable = self.open.remove(at);
        self.is_open[variable] = false;
        let own = self.given[variable][choice];
        self.fixed[variable] = choice;
        let problem = self.problem;
        let mut less = 0;
        let mut saved = Vec::new();
        for &(edge, other) in &problem.around[variable] {
            if self.is_open[other] {
                saved.push((other, self.given[other].clone()));
                less += problem.least[edge];
                let row = problem.edges[edge].row(variable, choice);
                self.given[other].iter_mut().zip(row).for_each(|(given, cost)| *given += cost);
            }
        }
        self.steps = self.steps.saturating_sub(saved.len() as u64);
        self.explore(cost + own, pairs - less);
        for (other, given) in saved {
            self.given[other] = given;
        }
        self.open.insert(at, variable);
        self.is_open[variable] = true;
    }
}

#[cfg(test)]
mod tests;

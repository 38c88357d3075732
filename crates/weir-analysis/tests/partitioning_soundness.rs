//! The conflicts of random statements against all small databases: whatever two calls can meet on must be a conflict,
//! and keys that are said to be equal must be. "Never" and "equal" are proofs, so one model against them is a bug.

use crate::support;

use crate::random::Random;
use weir_analysis::analyze;
use weir_analysis::partitioning::{Conflict, Key};

const PARAMETERS: usize = 2;
/// Columns of the table: `a` and `b` never change, `m` does, `id` is the key of another row that `m` joins.
const COLUMNS: [&str; 3] = ["a", "b", "m"];
const CHANGES: usize = 2;

#[derive(Clone, Debug)]
enum Operand {
    Column(usize),
    Parameter(usize),
    Constant(i64),
    /// A column and a number.
    Sum(usize, i64),
}

#[derive(Clone, Debug)]
enum Condition {
    Compare(&'static str, Operand, Operand),
    In(Operand, Vec<Operand>, bool),
    Null(Operand, bool),
    And(Vec<Condition>),
    Or(Vec<Condition>),
    Not(Box<Condition>),
    /// A row of the joined table whose key equals the operand and whose column equals the other.
    Exists(Operand, Operand),
}

/// Values of columns and parameters, and the joined table: `joined[key]` is its column.
struct Model<'a> {
    columns: [Option<i64>; 3],
    parameters: [Option<i64>; PARAMETERS],
    joined: &'a [Option<i64>],
}

impl Operand {
    fn random(random: &mut Random) -> Operand {
        match random.below(8) {
            0..=2 => Operand::Column(random.below(3) as usize),
            3..=5 => Operand::Parameter(random.below(PARAMETERS as u64) as usize),
            6 => Operand::Constant(random.below(3) as i64),
            _ => Operand::Sum(random.below(3) as usize, random.below(3) as i64 - 1),
        }
    }

    fn sql(&self) -> String {
        match self {
            Operand::Column(column) => format!("t.{}", COLUMNS[*column]),
            Operand::Parameter(index) => format!("p{index}"),
            Operand::Constant(n) => n.to_string(),
            Operand::Sum(column, n) => format!("(t.{} + {n})", COLUMNS[*column]),
        }
    }

    fn value(&self, model: &Model<'_>) -> Option<i64> {
        match self {
            Operand::Column(column) => model.columns[*column],
            Operand::Parameter(index) => model.parameters[*index],
            Operand::Constant(n) => Some(*n),
            Operand::Sum(column, n) => model.columns[*column].map(|value| value + n),
        }
    }
}

/// SQL's OR.
fn any(list: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    let list: Vec<Option<bool>> = list.collect();
    if list.contains(&Some(true)) {
        Some(true)
    } else {
        list.into_iter().all(|one| one.is_some()).then_some(false)
    }
}

impl Condition {
    fn random(random: &mut Random, depth: u32) -> Condition {
        let several = |random: &mut Random| {
            (0..2 + random.below(2)).map(|_| Condition::random(random, depth.saturating_sub(1))).collect()
        };
        match random.below(if depth == 0 { 8 } else { 12 }) {
            0..=3 => Condition::Compare("=", Operand::random(random), Operand::random(random)),
            4 | 5 => {
                let op = ["<", "<=", ">", ">=", "<>"][random.below(5) as usize];
                Condition::Compare(op, Operand::random(random), Operand::random(random))
            }
            6 => {
                let list = (0..1 + random.below(2)).map(|_| Operand::random(random)).collect();
                Condition::In(Operand::random(random), list, random.below(4) == 0)
            }
            7 => match random.below(2) {
                0 => Condition::Null(Operand::random(random), random.below(2) == 0),
                _ => Condition::Exists(Operand::random(random), Operand::random(random)),
            },
            8 | 9 => Condition::And(several(random)),
            10 => Condition::Or(several(random)),
            _ => Condition::Not(Box::new(Condition::random(random, depth - 1))),
        }
    }

    fn sql(&self) -> String {
        let join = |list: &[Condition], word: &str| {
            let parts: Vec<String> = list.iter().map(Condition::sql).collect();
            format!("({})", parts.join(word))
        };
        match self {
            Condition::Compare(op, left, right) => format!("{} {op} {}", left.sql(), right.sql()),
            Condition::In(operand, list, negated) => {
                let list: Vec<String> = list.iter().map(Operand::sql).collect();
                let not = if *negated { "NOT " } else { "" };
                format!("{} {not}IN ({})", operand.sql(), list.join(", "))
            }
            Condition::Null(operand, negated) => {
                format!("{} IS {}NULL", operand.sql(), if *negated { "NOT " } else { "" })
            }
            Condition::And(list) => join(list, " AND "),
            Condition::Or(list) => join(list, " OR "),
            Condition::Not(inner) => format!("NOT ({})", inner.sql()),
            Condition::Exists(key, column) => {
                format!("EXISTS (SELECT 1 FROM u WHERE u.k = {} AND u.c = {})", key.sql(), column.sql())
            }
        }
    }

    fn value(&self, model: &Model<'_>) -> Option<bool> {
        match self {
            Condition::Compare(op, left, right) => {
                let (left, right) = (left.value(model)?, right.value(model)?);
                Some(match *op {
                    "=" => left == right,
                    "<>" => left != right,
                    "<" => left < right,
                    "<=" => left <= right,
                    ">" => left > right,
                    _ => left >= right,
                })
            }
            Condition::In(operand, list, negated) => {
                let one = |item: &Operand| Some(operand.value(model)? == item.value(model)?);
                any(list.iter().map(one)).map(|found| found != *negated)
            }
            Condition::Null(operand, negated) => Some(operand.value(model).is_none() != *negated),
            Condition::And(list) => any(list.iter().map(|item| item.value(model).map(|v| !v))).map(|v| !v),
            Condition::Or(list) => any(list.iter().map(|item| item.value(model))),
            Condition::Not(inner) => inner.value(model).map(|value| !value),
            Condition::Exists(key, column) => {
                let row = key.value(model).and_then(|key| *model.joined.get(usize::try_from(key).ok()?)?);
                Some(row.is_some() && row == column.value(model))
            }
        }
    }
}

/// All values: none and three numbers.
const VALUES: [Option<i64>; 4] = [None, Some(0), Some(1), Some(2)];

/// For each row that may be there (fixed columns, joined row) the parameters that let the statement mean it.
type Meanings = Vec<Vec<[Option<i64>; PARAMETERS]>>;

/// The joined table has a row with key 1, whose column never changes, or none.
fn meanings(condition: &Condition) -> Meanings {
    let mut found = Meanings::new();
    for (a, b, row) in every_three() {
        let joined = [None, row, None];
        let means = |parameters: &[Option<i64>; PARAMETERS]| {
            VALUES.iter().any(|&m| {
                let model = Model { columns: [a, b, m], parameters: *parameters, joined: &joined };
                condition.value(&model) == Some(true)
            })
        };
        let parameters = VALUES.iter().flat_map(|&p| VALUES.iter().map(move |&q| [p, q]));
        found.push(parameters.filter(means).collect());
    }
    found
}

fn every_three() -> impl Iterator<Item = (Option<i64>, Option<i64>, Option<i64>)> {
    let pairs = VALUES.iter().flat_map(|&a| VALUES.iter().map(move |&b| (a, b)));
    pairs.flat_map(|(a, b)| VALUES.iter().map(move |&c| (a, b, c)))
}

/// Claim of the conflict that some pair of calls refutes. `None`: no conflict was reported at all.
fn refuted(conflict: Option<&Conflict>, left: &Meanings, right: &Meanings) -> Option<String> {
    for (row, (left, right)) in left.iter().zip(right).enumerate() {
        for (p, q) in left.iter().flat_map(|p| right.iter().map(move |q| (p, q))) {
            let meeting = || format!("{:?} with {p:?} and {q:?}", every_three().nth(row));
            let Some(conflict) = conflict else {
                return Some(format!("they meet at {}", meeting()));
            };
            let equal = |key: &(Key, Key)| match key {
                (Key::Parameter(a), Key::Parameter(b)) => p[*a] == q[*b],
                _ => false,
            };
            // Some clause covers this meeting: all that it says is equal is equal.
            if !conflict.clauses.iter().any(|clause| clause.keys.iter().all(equal)) {
                return Some(format!("{:?} at {}", conflict.clauses, meeting()));
            }
        }
    }
    None
}

/// Random statements, each reader with each writer. How often the analysis, as changed by `plant`, is refuted.
fn refutations(seeds: u64, plant: impl Fn(Option<Conflict>) -> Option<Conflict>) -> (u64, u64, Vec<String>) {
    const EACH: usize = 24;
    let (mut pairs, mut proofs, mut errors) = (0, 0, Vec::new());
    for seed in 0..seeds {
        let mut random = Random(seed);
        let conditions: Vec<Condition> = (0..2 * EACH).map(|_| Condition::random(&mut random, 2)).collect();
        let mut text = format!(
            "CREATE TABLE t (a integer, b integer, m integer, v integer);
             CREATE TABLE u (k integer PRIMARY KEY, c integer);
             CREATE PROCEDURE change(x integer) LANGUAGE plpgsql AS $$ BEGIN UPDATE t SET {} = x; END; $$;",
            COLUMNS[CHANGES]
        );
        for (index, condition) in conditions.iter().enumerate() {
            let condition = condition.sql();
            let body = match index % 2 {
                0 => format!("PERFORM v FROM t WHERE {condition};"),
                _ => format!("UPDATE t SET v = 1 WHERE {condition};"),
            };
            text.push_str(&format!(
                "CREATE PROCEDURE q{index}(p0 integer, p1 integer) LANGUAGE plpgsql AS $$ BEGIN {body} END; $$;"
            ));
        }
        let app = support::application(&[("random.sql", &text)]);
        let conflicts = analyze(&app).partitioning.conflicts;
        let meanings: Vec<Meanings> = conditions.iter().map(meanings).collect();
        for left in (0..2 * EACH).step_by(2) {
            for right in (1..2 * EACH).step_by(2) {
                let (low, high) = (left.min(right), left.max(right));
                // The first procedure is the one that changes a column.
                let found = conflicts.iter().find(|c| (c.left, c.right) == (low + 1, high + 1));
                let found = plant(found.cloned());
                pairs += 1;
                let proves = |c: &Conflict| c.clauses.iter().all(|clause| !clause.keys.is_empty());
                proofs += u64::from(found.as_ref().is_none_or(proves));
                if let Some(why) = refuted(found.as_ref(), &meanings[low], &meanings[high]) {
                    errors.push(format!("{}\n{}\n{why}", conditions[low].sql(), conditions[high].sql()));
                }
            }
        }
    }
    (pairs, proofs, errors)
}

#[test]
fn conflicts_are_never_missed() {
    let (pairs, proofs, errors) = refutations(20, |conflict| conflict);
    assert!(errors.is_empty(), "{} of {pairs}:\n{}", errors.len(), errors[0]);
    assert!(pairs >= 10_000 && proofs * 10 > pairs, "{proofs} proofs in {pairs} pairs say little");
}

/// Planted: a conflict is overlooked where its keys are not forced equal.
#[test]
fn an_overlooked_conflict_is_caught() {
    let overlook = |conflict: Option<Conflict>| conflict.filter(|c| !c.clauses[0].keys.is_empty());
    assert!(!refutations(1, overlook).2.is_empty());
}

/// Planted: the first parameters are taken for equal.
#[test]
fn keys_that_are_not_forced_are_caught() {
    let force = |conflict: Option<Conflict>| {
        conflict.map(|mut conflict| {
            conflict.clauses.iter_mut().for_each(|c| c.keys.push((Key::Parameter(0), Key::Parameter(0))));
            conflict
        })
    };
    assert!(!refutations(1, force).2.is_empty());
}

/// Planted: of several clauses only the first counts.
#[test]
fn a_lost_clause_is_caught() {
    let lose = |conflict: Option<Conflict>| {
        conflict.map(|mut conflict| {
            conflict.clauses.truncate(1);
            conflict
        })
    };
    assert!(!refutations(3, lose).2.is_empty());
}

//! The SMT solver: `z3` as one process for a whole analysis, behind the trait of `weir-analysis`.
//!
//! Weir works without it; a solver that is absent, fails or takes too long leaves a question open.

use easy_smt::{Context, ContextBuilder, Response, SExpr};
use weir_analysis::proof::Solver;
use weir_analysis::proof::formula::{Formula, Quantity, Question, Sort};

/// Milliseconds for one question; most take less than one.
const TIMEOUT: &str = "-t:1000";

pub struct Z3(Option<Context>);

impl Z3 {
    /// Starts the process; the error says what is missing and how to mend it.
    pub fn start() -> Result<Z3, String> {
        let program = std::env::var("WEIR_Z3").unwrap_or_else(|_| "z3".to_owned());
        let context = ContextBuilder::new().solver(&program).solver_args(["-smt2", "-in", TIMEOUT]).build();
        match context {
            Ok(context) => Ok(Z3(Some(context))),
            Err(_) => Err(format!("{program} not found (Debian's package z3 has it)")),
        }
    }
}

impl Solver for Z3 {
    fn is_possible(&mut self, question: &Question) -> Option<bool> {
        let context = self.0.as_mut()?;
        match ask(context, question) {
            Ok(Response::Sat) => Some(true),
            Ok(Response::Unsat) => Some(false),
            Ok(Response::Unknown) => None,
            // The process is gone or confused: nothing more is asked.
            Err(_) => {
                self.0 = None;
                None
            }
        }
    }
}

fn ask(context: &mut Context, question: &Question) -> std::io::Result<Response> {
    context.push()?;
    let mut names = Vec::new();
    for (index, sort) in question.variables.iter().enumerate() {
        let name = context.atom(format!("x{index}"));
        let of = match sort {
            Sort::Integer => context.int_sort(),
            Sort::Real => context.real_sort(),
            Sort::Truth => context.bool_sort(),
        };
        context.declare_const(format!("x{index}"), of)?;
        names.push(name);
    }
    let text = Text { context, names, sorts: &question.variables };
    let asserted: Vec<SExpr> = question.holds.iter().map(|formula| text.formula(formula)).collect();
    for formula in asserted {
        context.assert(formula)?;
    }
    let answer = context.check()?;
    context.pop()?;
    Ok(answer)
}

/// All arithmetic is in reals; integers are reals that are whole.
struct Text<'a> {
    context: &'a Context,
    names: Vec<SExpr>,
    sorts: &'a [Sort],
}

impl Text<'_> {
    fn call(&self, name: &str, arguments: impl IntoIterator<Item = SExpr>) -> SExpr {
        let head = [self.context.atom(name)];
        self.context.list(head.into_iter().chain(arguments).collect())
    }

    fn number(&self, n: i64) -> SExpr {
        let size = self.context.atom(format!("{}.0", n.unsigned_abs()));
        if n < 0 { self.call("-", [size]) } else { size }
    }

    fn quantity(&self, quantity: &Quantity) -> SExpr {
        match quantity {
            Quantity::Number { mantissa, scale: 0 } => self.number(*mantissa),
            Quantity::Number { mantissa, scale } => {
                let unit = self.context.atom(format!("1{}.0", "0".repeat(usize::from(*scale))));
                self.call("/", [self.number(*mantissa), unit])
            }
            Quantity::Variable(at) if self.sorts[*at] == Sort::Integer => {
                self.call("to_real", [self.names[*at]])
            }
            Quantity::Variable(at) => self.names[*at],
            Quantity::Sum(list) if list.is_empty() => self.number(0),
            Quantity::Sum(list) => self.call("+", list.iter().map(|part| self.quantity(part))),
            Quantity::Product(factor, inner) => self.call("*", [self.number(*factor), self.quantity(inner)]),
            Quantity::Choice(condition, first, second) => {
                self.call("ite", [self.formula(condition), self.quantity(first), self.quantity(second)])
            }
        }
    }

    fn formula(&self, formula: &Formula) -> SExpr {
        let compare = |name: &str, left: &Quantity, right: &Quantity| {
            self.call(name, [self.quantity(left), self.quantity(right)])
        };
        match formula {
            Formula::Constant(truth) => self.context.atom(if *truth { "true" } else { "false" }),
            Formula::Variable(at) => self.names[*at],
            Formula::Less(left, right) => compare("<", left, right),
            Formula::LessOrEqual(left, right) => compare("<=", left, right),
            Formula::Equal(left, right) => compare("=", left, right),
            Formula::Not(inner) => self.call("not", [self.formula(inner)]),
            Formula::All(list) => self.call("and", list.iter().map(|item| self.formula(item))),
            Formula::Any(list) => self.call("or", list.iter().map(|item| self.formula(item))),
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_sql::{Application, Sources};

    use super::*;

    fn load(files: &[(&str, String)]) -> Application {
        let mut sources = Sources::default();
        for (name, text) in files {
            sources.add(*name, text.clone());
        }
        match weir_sql::load(sources) {
            Ok(app) => app,
            Err((_, errors)) => panic!("{errors:?}"),
        }
    }

    /// Table 2's rows on bounds, and multi-column conditions: CHECK and bodies.
    const ROWS: &[(&str, &[&str])] = &[
        ("x > 0", &["x = x + a", "x = greatest(x, a)"]),
        ("x >= 0", &["x = x + 3"]),
        ("x >= 0", &["x = a", "x = b"]),
        ("x < 100", &["x = x - a"]),
        ("x <= 100", &["x = least(x, a)"]),
        ("x = 5", &["x = x + a"]),
        ("x <> 5", &["x = a"]),
        ("x <= y", &["x = a, y = b"]),
        ("x <= y", &["x = x - a, y = y + a"]),
        ("x + 2 * y <= 100", &["y = y - a"]),
        ("x BETWEEN 0 AND 9", &["x = a"]),
        ("x IN (1, 2, 3)", &["x = a", "x = 2"]),
    ];

    /// The rules and the solver agree: what a rule lets merge, no row, arguments and order break.
    #[test]
    fn rules_and_solver_agree() {
        let Ok(mut solver) = Z3::start() else {
            eprintln!("z3 is not installed (ci/install.sh test installs it): nothing is compared");
            return;
        };
        for (check, sets) in ROWS {
            let mut text = format!(
                "CREATE TABLE t (id bigint PRIMARY KEY, x int NOT NULL, y int NOT NULL, CONSTRAINT c CHECK ({check}));"
            );
            for (at, set) in sets.iter().enumerate() {
                text += &format!(
                    "CREATE PROCEDURE p{at}(k bigint, a int, b int) LANGUAGE plpgsql AS $$ BEGIN \
                     IF a <= 0 THEN RAISE EXCEPTION 'no'; END IF; UPDATE t SET {set} WHERE id = k; END; $$;"
                );
            }
            let found = weir_analysis::proof::contradictions(&load(&[("t.sql", text)]), &mut solver);
            assert!(found.is_empty(), "{check}: {found:?}");
        }
        for example in
            ["auction", "escrow-tickets", "payroll", "rubis", "smallbank", "social", "tpcc", "tpcw"]
        {
            let folder =
                std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(example);
            let read = |file| (file, std::fs::read_to_string(folder.join(file)).expect("a file"));
            let app = load(&["schema.sql", "procedures.sql", "invariants.sql"].map(read));
            let found = weir_analysis::proof::contradictions(&app, &mut solver);
            assert!(found.is_empty(), "{example}: {found:?}");
        }
    }
}

//! Procedures bound against a small catalog, printed compactly, and what is said about bad ones.

use pg_query::protobuf::node::Node;

use super::{Surroundings, bind_procedure};
use crate::binder::Context;
use crate::bound::{Expr, IntoTarget, Procedure, Raise, Step, StepKind};
use crate::catalog::Catalog;
use crate::parse::{self, Piece};
use crate::print;
use crate::routine;
use crate::source::{Diagnostic, Sources, Span};

fn catalog() -> Catalog {
    let mut sources = Sources::default();
    let t = "create table t (id int, name text, amount numeric(12, 2));";
    sources.add("s", format!("{t} create table log (at timestamp, what varchar(20));"));
    crate::load(sources).expect("the schema of the tests is right").catalog
}

/// Binds every CREATE PROCEDURE and CREATE FUNCTION of a file.
fn bind_all(catalog: &Catalog, text: &str) -> Result<Vec<Procedure>, Diagnostic> {
    let piece = Piece::new(0, 0, text);
    let statements = parse::parse_statements(piece)?;
    let mut signatures = Vec::new();
    let mut creates = Vec::new();
    for statement in &statements {
        if let Node::CreateFunctionStmt(create) = &statement.node {
            signatures.push(routine::signature(&Context::new(catalog), piece, create, statement.span)?);
            creates.push((create, statement.span));
        }
    }
    let bind = |(index, (create, span)): (usize, &(&Box<_>, Span))| {
        let surroundings =
            Surroundings { catalog, signatures: &signatures, notes: None, mentions: None, late_of: None };
        bind_procedure(surroundings, index, piece, create, *span)
    };
    creates.iter().enumerate().map(bind).collect()
}

struct Printer<'a>(&'a Procedure);

impl Printer<'_> {
    fn name(&self, variable: crate::bound::VariableId) -> &str {
        &self.0.variables[variable.0 as usize].name
    }

    /// Variables by their names instead of numbers.
    fn named(&self, printed: String) -> String {
        let mut text = printed;
        for (i, variable) in self.0.variables.iter().enumerate().rev() {
            text = text.replace(&format!("${}", i + 1), &variable.name);
        }
        text
    }

    fn expr(&self, expr: &Expr) -> String {
        self.named(print::expr(expr))
    }

    fn optional(&self, expr: &Option<Expr>) -> String {
        expr.as_ref().map_or("-".into(), |expr| self.expr(expr))
    }

    fn exprs(&self, exprs: &[Expr]) -> String {
        exprs.iter().map(|expr| self.expr(expr)).collect::<Vec<_>>().join(", ")
    }

    fn targets(&self, targets: &[IntoTarget]) -> String {
        targets.iter().map(|target| self.name(target.variable)).collect::<Vec<_>>().join(", ")
    }

    fn steps(&self, steps: &[Step]) -> String {
        steps.iter().map(|step| self.step(step)).collect::<Vec<_>>().join("; ")
    }

    fn raise(&self, raise: &Raise) -> String {
        let mut text = format!(
            "raise {:?} {} {:?}({})",
            raise.level,
            raise.state,
            raise.format,
            self.exprs(&raise.args)
        );
        for (word, option) in [("message", &raise.message), ("detail", &raise.detail), ("hint", &raise.hint)]
        {
            if let Some(option) = option {
                text += &format!(" {word} {}", self.expr(option));
            }
        }
        text
    }

    fn step(&self, step: &Step) -> String {
        match &step.kind {
            StepKind::Assign { variable, value } => {
                format!("{} := {}", self.name(*variable), self.expr(value))
            }
            StepKind::AssignElement { variable, index, value } => {
                format!("{}[{}] := {}", self.name(*variable), self.expr(index), self.expr(value))
            }
            StepKind::Sql { statement, into } => {
                let into = into.as_ref().map_or(String::new(), |into| {
                    let strict = if into.strict { "strict " } else { "" };
                    format!(" into {strict}{}", self.targets(&into.targets))
                });
                format!("{}{into}", self.named(print::statement(statement)))
            }
            StepKind::If { branches, otherwise } => {
                let branch = |(condition, body): &(Expr, Vec<Step>)| {
                    format!("{} {{{}}}", self.expr(condition), self.steps(body))
                };
                let branches: Vec<String> = branches.iter().map(branch).collect();
                format!("if {} else {{{}}}", branches.join(" "), self.steps(otherwise))
            }
            StepKind::ForRange { variable, from, to, by, reverse, label, body } => format!(
                "for:{} {} in {}{}..{} by {} {{{}}}",
                label.0,
                self.name(*variable),
                if *reverse { "reverse " } else { "" },
                self.expr(from),
                self.expr(to),
                self.optional(by),
                self.steps(body)
            ),
            StepKind::ForQuery { targets, query, label, body } => format!(
                "for:{} {} in {} {{{}}}",
                label.0,
                self.targets(targets),
                self.named(print::query(query)),
                self.steps(body)
            ),
            StepKind::ForEach { variable, array, label, body } => {
                format!(
                    "foreach:{} {} in {} {{{}}}",
                    label.0,
                    self.name(*variable),
                    self.expr(array),
                    self.steps(body)
                )
            }
            StepKind::While { condition, label, body } => {
                format!("while:{} {} {{{}}}", label.0, self.expr(condition), self.steps(body))
            }
            StepKind::Loop { label, body } => format!("loop:{} {{{}}}", label.0, self.steps(body)),
            StepKind::Block { label, body } => format!("block:{} {{{}}}", label.0, self.steps(body)),
            StepKind::Exit { label, when } => format!("exit:{} {}", label.0, self.optional(when)),
            StepKind::Continue { label, when } => format!("continue:{} {}", label.0, self.optional(when)),
            StepKind::Raise(raise) => self.raise(raise),
            StepKind::Return { value } => format!("return {}", self.optional(value)),
            StepKind::ReturnNext { values } => format!("return next {}", self.exprs(values)),
            StepKind::ReturnQuery { query } => format!("return query {}", self.named(print::query(query))),
            StepKind::GetRowCount { variable } => format!("{} := row_count", self.name(*variable)),
            StepKind::Call { procedure, args, targets } => {
                format!("call {procedure}({}) → {}", self.exprs(args), self.targets(targets))
            }
            StepKind::Assert { condition, message } => {
                format!("assert {} {}", self.expr(condition), self.optional(message))
            }
            StepKind::Null => "null".into(),
            StepKind::Opaque(step) => format!("opaque {step:?}"),
        }
    }
}

fn outcome(text: &str) -> String {
    let mut sources = Sources::default();
    sources.add("p", text);
    match bind_all(&catalog(), text) {
        Ok(procedures) => match procedures.last() {
            Some(procedure) => Printer(procedure).steps(&procedure.body),
            None => String::new(),
        },
        Err(error) => {
            let place = sources.place(error.span);
            format!("{}:{} {} {}", place.line, place.column, error.state, error.message)
        }
    }
}

/// The body of a procedure `p(a int, b text, inout o numeric)`.
fn procedure(body: &str) -> String {
    format!("create procedure p(a int, b text, inout o numeric) language plpgsql as $$\n{body}\n$$")
}

fn function(head: &str, body: &str) -> String {
    format!("create function f(a int, b text) {head} language plpgsql as $$\n{body}\n$$")
}

#[track_caller]
fn check_all(cases: &[(&str, &str)], wrap: impl Fn(&str) -> String) {
    let found: Vec<(String, String)> =
        cases.iter().map(|(body, _)| ((*body).to_owned(), outcome(&wrap(body)))).collect();
    let wanted: Vec<(String, String)> =
        cases.iter().map(|(body, expect)| ((*body).to_owned(), (*expect).to_owned())).collect();
    for (found, wanted) in found.iter().zip(&wanted) {
        if found != wanted {
            println!("{:?}\n  found  {:?}\n  wanted {:?}", found.0, found.1, wanted.1);
        }
    }
    assert!(found == wanted);
}

const GOOD: &[(&str, &str)] = &[
    ("begin end", ""),
    (
        "declare x int := a + 1; y constant text not null default b; begin x := 2; end",
        "x := (a Add 1); y := b; x := 2",
    ),
    (
        "begin o := a; a := o; a := b; b := a; end",
        "o := (a)::numeric; a := (o)::integer; a := (b):::integer; b := (a)::text",
    ),
    (
        "declare x int[]; begin x[a] := 1.5; x := array[1, a]; o := x[2]; end",
        "x[a] := 2; x := array[1, a]; o := (x[2])::numeric",
    ),
    (
        "begin select amount, id into o, a from t where id = p.a; end",
        "select #0.2, #0.0 from t#0 where (#0.0 Equal a) into o, a",
    ),
    ("begin select amount into strict o, a from t; end", "select #0.2 from t#0 into strict o; a := null"),
    ("begin select amount, id, name into o from t; end", "select #0.2, #0.0, #0.1 from t#0 into o"),
    (
        "begin insert into t (id, name) values (a, b) returning amount into o; end",
        "insert 0#0 [0, 1] values (a, b) defaults 2 = null returning #0.2 as amount into o",
    ),
    (
        "begin update t set name = b where id = a; if not found then delete from t; end if; end",
        "update 0#0 set 1 = b where (#0.0 Equal a); if not(found) {delete 0#0} else {}",
    ),
    (
        "begin perform id from t where id = a; get diagnostics a = row_count, o = row_count; end",
        "select #0.0 from t#0 where (#0.0 Equal a); a := row_count; row_count~ := row_count; o := (row_count~)::numeric",
    ),
    (
        "declare r record; begin select * into r from t; o := r.amount; r.name := b; end",
        "select #0.0, #0.1, #0.2 from t#0 into r.id, r.name, r.amount; o := r.amount; r.name := b",
    ),
    (
        "declare r t%rowtype; s t; begin select * into r from t; s := r; r := row(1, 'x', r.amount); s := null; end",
        "select #0.0, #0.1, #0.2 from t#0 into r.id, r.name, r.amount; s.id~ := r.id; s.name~ := r.name; s.amount~ := r.amount; s.id := s.id~; s.name := s.name~; s.amount := s.amount~; r.id~ := 1; r.name~ := 'x'; r.amount~ := r.amount; r.id := r.id~; r.name := r.name~; r.amount := r.amount~; s.id := null; s.name := null; s.amount := null",
    ),
    (
        "declare r record; begin for r in select id, name from t loop a := r.id; end loop; end",
        "for:0 r.id, r.name in select #0.0, #0.1 from t#0 {a := r.id}",
    ),
    (
        "begin for i in reverse a..1 by 2 loop continue when i = 3; exit; end loop; end",
        "for:0 i in reverse a..1 by 2 {continue:0 (i Equal 3); exit:0 -}",
    ),
    (
        "declare i text; begin <<l>> for i in 1..a loop declare i int := l.i; begin a := i; exit l; end; end loop; end",
        "for:0 i in 1..a by - {block:1 {i := i; a := i; exit:0 -}}",
    ),
    (
        "declare x int8; begin foreach x in array array[1, 2] loop a := x; end loop; end",
        "foreach:0 x in array[1, 2] {a := (x)::integer}",
    ),
    (
        "begin while a > 0 loop a := a - 1; end loop; <<z>> loop exit z when a is null; end loop; end",
        "while:0 (a Greater 0) {a := (a Subtract 1)}; loop:1 {exit:1 (a is null)}",
    ),
    (
        "begin case a when 1, 2 then b := 'x'; else b := 'y'; end case; case when a = 1 then null; end case; end",
        "case_1~ := a; if (case_1~ in [1, 2]) {b := 'x'} else {b := 'y'}; if (a Equal 1) {null} else {raise Exception 20000 \"case not found\"() hint 'CASE statement is missing ELSE part.'}",
    ),
    (
        "begin raise exception 'no % of %', a, b using errcode = 'unique_violation', hint = b; end",
        "raise Exception 23505 \"no % of %\"((a)::text, b) hint b",
    ),
    (
        "begin raise notice 'is %', a > 1; raise division_by_zero; raise using errcode = '23505'; end",
        "raise Notice 00000 \"is %\"(case when (a Greater 1) then 't' when not((a Greater 1)) then 'f' end); raise Exception 22012 \"division_by_zero\"(); raise Exception 23505 \"23505\"()",
    ),
    (
        "begin raise sqlstate 'TC001' using message = 'x' || a; return; end",
        "raise Exception TC001 \"TC001\"() message ('x' Concat (a)::text); return -",
    ),
    (
        "<<main>> declare a int := p.a; begin main.a := $1; <<in1>> declare x int; begin x := main.a; exit main; end in1; end",
        "block:0 {a := a; a := a; block:1 {x := null; x := a; exit:0 -}}",
    ),
    ("declare x alias for a; y alias for $2; begin x := 1; y := 'z'; end", "a := 1; b := 'z'"),
    (
        "begin assert a > 0, 'bad ' || a; call p(a, b, o); found := true; null; end",
        "assert (a Greater 0) ('bad ' Concat (a)::text); call 0(a, b, o) → o; found := t; null",
    ),
    (
        "declare x t.amount%type; y a%type; z t.id%type[]; begin x := 1; y := 2; z := array[y]; end",
        "x := '1.00'; y := 2; z := array[y]",
    ),
    (
        "declare x int := count(*) from t; begin a := max(id) from t where name = b; end",
        "x := ((select Count() from t#0 group by []))::integer; a := (select Maximum(#0.0) from t#0 where (#0.1 Equal b) group by [])",
    ),
];

#[test]
fn procedures() {
    check_all(GOOD, procedure);
}

const BAD: &[(&str, &str)] = &[
    ("begin x := 1; end", "2:7 42601 \"x\" is not a known variable"),
    ("begin a := y; end", "2:12 42703 column \"y\" does not exist"),
    ("begin a := nothing(1); end", "2:12 42883 function nothing(integer) does not exist"),
    ("begin a := 'x' + 1; end", "2:12 22P02 invalid input syntax for type integer: \"x\""),
    ("begin a := 1 +; end", "2:15 42601 syntax error at end of input"),
    ("begin\n  select idd into a from t;\nend", "3:10 42703 column \"idd\" does not exist"),
    ("begin\n  select id into a\n    from tt;\nend", "4:10 42P01 relation \"tt\" does not exist"),
    ("begin select id from t; end", "2:7 42601 query has no destination for result data"),
    (
        "begin insert into t (id) values (1) returning id; end",
        "2:7 42601 query has no destination for result data",
    ),
    ("begin delete from t into a; end", "2:21 42601 INTO used with a command that cannot return data"),
    ("begin selec id into a from t; end", "2:7 42601 syntax error at or near \"selec\""),
    ("declare id int; begin select id into a from t; end", "2:30 42702 column reference \"id\" is ambiguous"),
    // A table's name is its whole row.
    (
        "declare t int; begin select id into a from t where id = t; end",
        "2:57 42702 column reference \"t\" is ambiguous",
    ),
    ("declare x int; x text; begin end", "2:16 42601 duplicate declaration at or near \"x\""),
    ("declare x constant int := 1; begin x := 2; end", "2:36 22005 variable \"x\" is declared CONSTANT"),
    (
        "declare x constant int := 1; begin select id into x from t; end",
        "2:51 22005 variable \"x\" is declared CONSTANT",
    ),
    (
        "declare x int not null; begin end",
        "2:9 22004 variable \"x\" must have a default value, since it's declared NOT NULL",
    ),
    ("declare x strange; begin end", "2:11 42704 type \"strange\" does not exist"),
    ("declare x json; begin end", "2:11 0A000 type json is not supported"),
    ("declare x time; begin end", "2:11 0A000 type time is not supported"),
    ("declare x t.nope%type; begin end", "2:11 42703 column \"nope\" of relation \"t\" does not exist"),
    ("declare x nope%rowtype; begin end", "2:11 42P01 relation \"nope\" does not exist"),
    ("declare x int y int; begin end", "2:15 42601 syntax error at or near \"y\""),
    ("declare r record; begin a := r.id; end", "2:30 55000 record \"r\" is not assigned yet"),
    (
        "declare r record; begin select id into r from t; a := r.nope; end",
        "2:55 42703 record \"r\" has no field \"nope\"",
    ),
    (
        "declare r record; begin select id into r from t; select name into r from t; end",
        "2:62 0A000 filling record \"r\" with rows of another shape than at first is not supported",
    ),
    (
        "declare r record; begin select id, id into r, a from t; end",
        "2:44 42601 record variable cannot be part of multiple-item INTO list",
    ),
    (
        "declare r record; begin select id into r from t; a := r; end",
        "2:55 0A000 the whole record \"r\" as a value is not supported",
    ),
    (
        "begin a[1] := 2; end",
        "2:7 42804 cannot subscript type integer because it does not support subscripting",
    ),
    (
        "begin for r in select id from t loop end loop; end",
        "2:11 42601 loop variable of loop over rows must be a record variable or list of scalar variables",
    ),
    (
        "begin foreach a in array a loop end loop; end",
        "2:26 42804 FOREACH expression must yield an array, not type integer",
    ),
    ("begin exit; end", "2:7 42601 EXIT cannot be used outside a loop, unless it has a label"),
    ("begin continue; end", "2:7 42601 CONTINUE cannot be used outside a loop"),
    (
        "begin loop exit nope; end loop; end",
        "2:17 42601 there is no label \"nope\" attached to any block or loop enclosing this statement",
    ),
    ("begin <<b>> begin continue b; end; end", "2:28 42601 block label \"b\" cannot be used in CONTINUE"),
    ("begin return 1; end", "2:14 42601 RETURN cannot have a parameter in a procedure"),
    ("begin return next 1; end", "2:7 42804 cannot use RETURN NEXT in a non-SETOF function"),
    ("begin return query select 1; end", "2:7 42804 cannot use RETURN QUERY in a non-SETOF function"),
    ("begin call nope(1); end", "2:12 42883 procedure nope does not exist"),
    (
        "begin call p(1, 'x', 3); end",
        "2:22 42601 procedure parameter \"o\" is an output parameter but corresponding argument is not writable",
    ),
    (
        "begin raise no_such_condition; end",
        "2:13 42704 unrecognized exception condition \"no_such_condition\"",
    ),
    ("begin raise 'x' using errcode = b; end", "2:33 0A000 a computed ERRCODE is not supported"),
    ("begin raise 'x' using message = 'y'; end", "2:33 42601 RAISE option already specified: MESSAGE"),
    ("begin raise sqlstate 'abc'; end", "2:22 42601 invalid SQLSTATE code"),
    ("begin if a then null; end if; if t then null; end if; end", "2:34 42703 column \"t\" does not exist"),
    ("begin create table x (a int); end", "2:7 0A000 CREATE TABLE here is not supported"),
    ("begin execute 'x'; end", "2:7 0A000 EXECUTE (dynamic SQL) is not supported"),
    (
        "begin insert into t values (1, 2, 3, 4); end",
        "2:38 42601 INSERT has more expressions than target columns",
    ),
    ("begin update t set nope = 1; end", "2:20 42703 column \"nope\" of relation \"t\" does not exist"),
    ("begin perform nope from t; end", "2:15 42703 column \"nope\" does not exist"),
];

#[test]
fn errors_have_places() {
    check_all(BAD, procedure);
}

const FUNCTIONS: &[(&str, &str, &str)] = &[
    ("returns int", "begin return a + 1.5; end", "return (((a)::numeric Add '1.5'))::integer"),
    (
        "returns int",
        "begin if a > 0 then return 1; end if; end",
        "if (a Greater 0) {return 1} else {}; raise Exception 2F005 \"control reached end of function without RETURN\"()",
    ),
    (
        "returns int",
        "begin if a > 0 then return 1; else raise 'x'; end if; end",
        "if (a Greater 0) {return 1} else {raise Exception P0001 \"x\"()}",
    ),
    (
        "returns int",
        "begin loop if a > 1 then return 2; end if; end loop; end",
        "loop:0 {if (a Greater 1) {return 2} else {}}",
    ),
    (
        "returns int",
        "begin loop exit; end loop; end",
        "loop:0 {exit:0 -}; raise Exception 2F005 \"control reached end of function without RETURN\"()",
    ),
    ("returns int", "begin return; end", "2:7 42601 missing expression after RETURN"),
    ("returns void", "begin return; end", "return -"),
    ("returns void", "begin a := 1; end", "a := 1"),
    (
        "returns void",
        "begin return 1; end",
        "2:14 42804 RETURN cannot have a parameter in function returning void",
    ),
    (
        "returns table(x int, y text)",
        "begin x := 1; y := b; return next; return query select id, name from t; end",
        "x := 1; y := b; return next x, y; return query select #0.0, #0.1 from t#0",
    ),
    (
        "returns table(x int, y text)",
        "begin return query select id from t; end",
        "2:20 42804 structure of query does not match function result type",
    ),
    (
        "returns table(x int, y text)",
        "begin return query select name, name from t; end",
        "2:20 42804 structure of query does not match function result type",
    ),
    (
        "returns setof int",
        "declare r record; begin return next a; return next b; return; end",
        "return next a; return next (b):::integer; return -",
    ),
    (
        "returns setof t",
        "declare r t; begin for r in select * from t loop return next r; end loop; end",
        "for:0 r.id, r.name, r.amount in select #0.0, #0.1, #0.2 from t#0 {return next r.id, r.name, r.amount}",
    ),
    (
        "returns setof int",
        "begin return 1; end",
        "2:14 42804 RETURN cannot have a parameter in function returning set",
    ),
    (
        "returns int strict",
        "begin return a; end",
        "if or((a is null), (b is null)) {return null} else {}; return a",
    ),
    ("returns trigger", "begin return null; end", "1:42 0A000 type trigger is not supported"),
];

#[test]
fn functions() {
    let mut failed = false;
    for (head, body, expect) in FUNCTIONS {
        let found = outcome(&function(head, body));
        if found != *expect {
            failed = true;
            println!("{:?}\n  found  {found:?}\n  wanted {expect:?}", format!("{head} | {body}"));
        }
    }
    assert!(!failed);
}

const WHOLE: &[(&str, &str)] = &[
    (
        "create function f(a int, out x int, out y text) language plpgsql as $$ begin x := a; y := 'b'; end $$",
        "x := a; y := 'b'; return row(x, y)",
    ),
    (
        "create function f(a int, out x int) language plpgsql as $$ begin x := a; return; end $$",
        "x := a; return x",
    ),
    (
        "create function f(a int, out x int) language plpgsql as $$ begin return 1; end $$",
        "1:73 42804 RETURN cannot have a parameter in function with OUT parameters",
    ),
    (
        "create function f(a int) returns int language sql as $$ select 1; select id from t where id = a $$",
        "select 1; select #0.0 from t#0 where (#0.0 Equal a) into result~; return result~",
    ),
    (
        "create function f(int) returns int language sql as 'select id from t where id = $1'",
        "select #0.0 from t#0 where (#0.0 Equal $1) into result~; return result~",
    ),
    (
        "create function f(id int) returns int language sql as $$ select t.amount from t where t.id = f.id $$",
        "select #0.2 from t#0 where (#0.0 Equal id) into result~; return result~",
    ),
    (
        "create function f(a int) returns setof int language sql as $$ select id from t where id > a $$",
        "return query select #0.0 from t#0 where (#0.0 Greater a)",
    ),
    (
        "create function f(a int) returns void language sql as $$ delete from t where id = a $$",
        "delete 0#0 where (#0.0 Equal a)",
    ),
    ("create function f(a int) returns int language sql return a + 1", "return (a Add 1)"),
    (
        "create procedure p(a int, out o int) begin atomic insert into t (id) values (a); \
         select count(*) from t; end",
        "insert 0#0 [0] values (a) defaults 1 = null, 2 = null; select Count() from t#0 group by [] into o",
    ),
    (
        "create function f(a int) returns int language sql as $$ delete from t $$",
        "1:69 42P13 the final statement returns 0 columns where 1 are declared",
    ),
    (
        "create function f(a int) returns int language sql as $$ $$",
        "1:56 42P13 the final statement of the body must return the declared result",
    ),
    (
        "create function f(a int) returns int language sql as $$ selec 1 $$",
        "1:57 42601 syntax error at or near \"selec\"",
    ),
    (
        "create procedure p(a int) language plpgsql as 'begin a := ''1''; end'",
        "1:47 0A000 a body in single quotes that contains quotes or escapes is not supported",
    ),
    ("create procedure p(a int) language plperl as $$ 1 $$", "1:27 0A000 LANGUAGE plperl is not supported"),
    (
        "create procedure p(a int) language plpgsql security definer as $$ begin end $$",
        "1:44 0A000 SECURITY DEFINER is not supported",
    ),
    (
        "create procedure p(a int) language plpgsql set work_mem = 1 as $$ begin end $$",
        "1:44 0A000 SET work_mem on a procedure is not supported",
    ),
    (
        "create procedure q(x int, out y int, inout z text default 'd') language plpgsql as $$ begin y := x; end $$;\n\
         create procedure p() language plpgsql as $$ declare n int; m text; begin call q(1, n, m); call q(y => n, x => 2, z => m); end $$",
        "call 0(1, m) → n, m; call 0(2, m) → n, m",
    ),
    (
        "create procedure q(x int, out y int) language plpgsql as $$ begin y := x; end $$;\n\
         create procedure p() language plpgsql as $$ begin call q(1, 2); end $$",
        "2:61 42601 procedure parameter \"y\" is an output parameter but corresponding argument is not writable",
    ),
    (
        "create function g() returns int language sql as $$ select 1 $$;\n\
         create procedure p() language plpgsql as $$ begin call g(); end $$",
        "2:51 42809 g is not a procedure",
    ),
];

#[test]
fn whole_statements() {
    check_all(WHOLE, str::to_owned);
}

#[test]
fn the_isolation_level_is_read() {
    let text = "create procedure p() language plpgsql set default_transaction_isolation = 'serializable' \
                as $$ begin end $$";
    let procedures = bind_all(&catalog(), text);
    assert!(procedures.is_ok_and(|procedures| procedures.iter().all(|procedure| procedure.serializable)));
}

/// Cuts good bodies at every byte, and puts every kind of token there: an answer always comes, in place.
#[test]
fn broken_bodies_never_panic() {
    let catalog = catalog();
    for (body, _) in GOOD {
        for at in (0..body.len()).filter(|at| body.is_char_boundary(*at)) {
            for text in [procedure(&body[..at]), procedure(&format!("{} ; {}", &body[..at], &body[at..]))] {
                if let Err(error) = bind_all(&catalog, &text) {
                    assert!(
                        error.span.end as usize <= text.len() && error.span.start <= error.span.end,
                        "{text}"
                    );
                }
            }
        }
    }
}

//! Output of the structure parser for bodies, printed compactly, and its errors for invalid ones.

use super::parser::parse;
use super::structure::*;
use crate::source::{Diagnostic, Sources, Span};

/// Prints the structure with the embedded code quoted as it stands in the file.
struct Printer<'a>(&'a Sources);

impl Printer<'_> {
    fn code(&self, span: Span) -> String {
        format!("‹{}›", self.0.text(span))
    }

    fn optional(&self, span: &Option<Span>) -> String {
        span.map_or("-".into(), |span| self.code(span))
    }

    fn paths(&self, paths: &[Path]) -> String {
        paths.iter().map(Path::dotted).collect::<Vec<_>>().join(",")
    }

    fn label(&self, label: &Option<Name>) -> String {
        label.as_ref().map_or(String::new(), |label| format!("<<{}>>", label.text))
    }

    fn block(&self, block: &Block) -> String {
        let declarations: Vec<String> =
            block.declarations.iter().map(|item| self.declaration(item)).collect();
        let declarations = match declarations.is_empty() {
            true => String::new(),
            false => format!("[{}] ", declarations.join("; ")),
        };
        format!("{}{{{}{}}}", self.label(&block.label), declarations, self.body(&block.body))
    }

    fn declaration(&self, declaration: &Declaration) -> String {
        let name = &declaration.name.text;
        match &declaration.kind {
            DeclarationKind::Refused(refusal) => refusal.message.clone(),
            DeclarationKind::Alias(path) => format!("{name} alias {}", path.dotted()),
            DeclarationKind::Variable { constant, ty, not_null, default } => {
                let ty = match ty {
                    DeclaredType::Named(span) => self.code(*span),
                    DeclaredType::SameAs { path, array } => {
                        format!("type of {}{}", path.dotted(), if *array { "[]" } else { "" })
                    }
                    DeclaredType::RowOf(path) => format!("row of {}", path.dotted()),
                    DeclaredType::Record(_) => "record".into(),
                };
                let constant = if *constant { "constant " } else { "" };
                let not_null = if *not_null { " not null" } else { "" };
                let default = default.map_or(String::new(), |span| format!(" = {}", self.code(span)));
                format!("{name} {constant}{ty}{not_null}{default}")
            }
        }
    }

    fn body(&self, body: &[Statement]) -> String {
        body.iter().map(|statement| self.statement(statement)).collect::<Vec<_>>().join("; ")
    }

    fn branches(&self, branches: &[(Span, Vec<Statement>)]) -> String {
        let branch = |(condition, body): &(Span, Vec<Statement>)| {
            format!("{} {{{}}}", self.code(*condition), self.body(body))
        };
        branches.iter().map(branch).collect::<Vec<_>>().join(" ")
    }

    fn statement(&self, statement: &Statement) -> String {
        match &statement.kind {
            StatementKind::Refused(refusal) => refusal.message.clone(),
            StatementKind::Block(block) => self.block(block),
            StatementKind::Assign { target, index, value } => {
                let index = index.map_or(String::new(), |index| format!("[{}]", self.code(index)));
                format!("{}{index} := {}", target.dotted(), self.code(*value))
            }
            StatementKind::Sql { into } => {
                let into = into.as_ref().map_or(String::new(), |into| {
                    let strict = if into.strict { "strict " } else { "" };
                    format!(" minus {} → {strict}{}", self.code(into.span), self.paths(&into.targets))
                });
                format!("sql {}{into}", self.code(statement.span))
            }
            StatementKind::Perform | StatementKind::Call => self.code(statement.span),
            StatementKind::If { branches, otherwise } => {
                format!("if {} else {{{}}}", self.branches(branches), self.body(otherwise))
            }
            StatementKind::Case { subject, branches, otherwise } => {
                let otherwise =
                    otherwise.as_ref().map_or("-".into(), |body| format!("{{{}}}", self.body(body)));
                format!("case {} {} else {otherwise}", self.optional(subject), self.branches(branches))
            }
            StatementKind::Loop { kind, label, body } => {
                let head = match kind {
                    LoopKind::Refused(refusal) => refusal.message.clone(),
                    LoopKind::Forever => "loop".into(),
                    LoopKind::While(condition) => format!("while {}", self.code(*condition)),
                    LoopKind::Range { variable, from, to, by, reverse } => format!(
                        "for {} in {}{} to {} by {}",
                        variable.text,
                        if *reverse { "reverse " } else { "" },
                        self.code(*from),
                        self.code(*to),
                        self.optional(by)
                    ),
                    LoopKind::Query { targets, query } => {
                        format!("for {} in query {}", self.paths(targets), self.code(*query))
                    }
                    LoopKind::Array { target, array } => {
                        format!("foreach {} in {}", target.dotted(), self.code(*array))
                    }
                };
                format!("{}{head} {{{}}}", self.label(label), self.body(body))
            }
            StatementKind::Leave { resume, label, when } => format!(
                "{}{} when {}",
                if *resume { "continue" } else { "exit" },
                self.label(label),
                self.optional(when)
            ),
            StatementKind::Raise(raise) => {
                let what = match &raise.what {
                    RaiseWhat::Format(format, _) => format!("{format:?}"),
                    RaiseWhat::Condition(name) => name.text.clone(),
                    RaiseWhat::SqlState(code, _) => format!("state {code}"),
                    RaiseWhat::Nothing => "-".into(),
                };
                let args: Vec<String> = raise.args.iter().map(|arg| self.code(*arg)).collect();
                let option =
                    |(option, span): &(RaiseOption, Span)| format!("{option:?}={}", self.code(*span));
                let options: Vec<String> = raise.options.iter().map(option).collect();
                format!("raise {:?} {what} {args:?} {options:?}", raise.level)
            }
            StatementKind::Return { value } => format!("return {}", self.optional(value)),
            StatementKind::ReturnNext { value } => format!("return next {}", self.optional(value)),
            StatementKind::ReturnQuery { query } => format!("return query {}", self.code(*query)),
            StatementKind::GetRowCount { targets } => format!("row_count → {}", self.paths(targets)),
            StatementKind::Assert { condition, message } => {
                format!("assert {} {}", self.code(*condition), self.optional(message))
            }
            StatementKind::Null => "null".into(),
        }
    }
}

/// The body at byte 3 of a file, so that forgetting the base would show.
fn parse_body(body: &str) -> (Sources, Result<Block, Diagnostic>) {
    let mut sources = Sources::default();
    let file = sources.add("p", format!("\n$${body}"));
    let result = parse(file, 3, body);
    (sources, result)
}

fn check(body: &str, expect: &str) {
    let (sources, result) = parse_body(body);
    let found = match result {
        Ok(block) => Printer(&sources).block(&block),
        Err(error) => {
            let place = sources.place(error.span);
            format!("{}:{} {} {}", place.line, place.column, error.state, error.message)
        }
    };
    assert_eq!(found, expect, "{body:.200}");
}

const GOOD: &[(&str, &str)] = &[
    ("begin end", "{}"),
    ("<<a>> declare begin null; end a;", "<<a>>{null}"),
    (
        "declare x int; y constant numeric(4,2) not null := 1.5; z t.c%type = 3; r t%ROWTYPE; q record;\n\
         \"Odd\"\"Name\" varchar(3) collate \"C\" default 'a;b'; p alias for $1; v s.t.c%type[]; begin end",
        "{[x ‹int›; y constant ‹numeric(4,2)› not null = ‹1.5›; z type of t.c = ‹3›; r row of t; q record; \
         Odd\"Name ‹varchar(3)› = ‹'a;b'›; p alias $1; v type of s.t.c[]] }",
    ),
    (
        "begin x := 1; r.f = y.z + 1; a[i+1] := b[2]; x:=-1; x=-1; end",
        "{x := ‹1›; r.f := ‹y.z + 1›; a[‹i+1›] := ‹b[2]›; x := ‹-1›; x := ‹-1›}",
    ),
    ("begin get := 1; raise = 2; end", "{get := ‹1›; raise := ‹2›}"),
    (
        "begin select a, b into strict x, r.f from t where c = 1; end",
        "{sql ‹select a, b into strict x, r.f from t where c = 1› minus ‹into strict x, r.f› → strict x,r.f}",
    ),
    (
        "begin insert into t values (1) returning id into x; with q as (insert into t select 1) select 1 into y; end",
        "{sql ‹insert into t values (1) returning id into x› minus ‹into x› → x; \
         sql ‹with q as (insert into t select 1) select 1 into y› minus ‹into y› → y}",
    ),
    (
        "begin perform f(1), 2 from t; call p(1, x); delete from t; end",
        "{‹perform f(1), 2 from t›; ‹call p(1, x)›; sql ‹delete from t›}",
    ),
    (
        "begin if a then x := 1; elsif b then x := 2; elseif c then null; else x := 3; end if; end",
        "{if ‹a› {x := ‹1›} ‹b› {x := ‹2›} ‹c› {null} else {x := ‹3›}}",
    ),
    ("begin if (case when a then b end) then end if; end", "{if ‹(case when a then b end)› {} else {}}"),
    (
        "begin case x when 1, 2 then null; when 3 then else null; end case; case when a then null; end case; end",
        "{case ‹x› ‹1, 2› {null} ‹3› {} else {null}; case - ‹a› {null} else -}",
    ),
    (
        "begin <<o>> for i in reverse 10..1 by 2 loop continue o when i = 3; exit; end loop o; end",
        "{<<o>>for i in reverse ‹10› to ‹1› by ‹2› {continue<<o>> when ‹i = 3›; exit when -}}",
    ),
    (
        "begin for a, b in select 1, 2 loop end loop; for r in (select x from t) loop end loop; end",
        "{for a,b in query ‹select 1, 2› {}; for r in query ‹(select x from t)› {}}",
    ),
    (
        "begin foreach x in array a || 1 loop end loop; while i < 3 loop i := i + 1; end loop; loop exit; end loop; end",
        "{foreach x in ‹a || 1› {}; while ‹i < 3› {i := ‹i + 1›}; loop {exit when -}}",
    ),
    (
        "begin raise exception 'a % b % %% ''q''', x, f(y, 1) using errcode = '23505', hint := 'h' || x; end",
        "{raise Exception \"a % b % %% 'q'\" [\"‹x›\", \"‹f(y, 1)›\"] \
         [\"ErrCode=‹'23505'›\", \"Hint=‹'h' || x›\"]}",
    ),
    (
        "begin raise division_by_zero; raise notice 'n'; raise sqlstate '22012' using message = 'm'; raise using errcode = 'P0001'; end",
        "{raise Exception division_by_zero [] []; raise Notice \"n\" [] []; \
         raise Exception state 22012 [] [\"Message=‹'m'›\"]; raise Exception - [] [\"ErrCode=‹'P0001'›\"]}",
    ),
    (
        "begin return; return x + 1; return next; return next a; return query select 1; end",
        "{return -; return ‹x + 1›; return next -; return next ‹a›; return query ‹select 1›}",
    ),
    (
        "begin get diagnostics n = row_count, r.m := row_count; assert x > 0, 'bad'; assert y; end",
        "{row_count → n,r.m; assert ‹x > 0› ‹'bad'›; assert ‹y› -}",
    ),
    (
        "begin declare x int; begin x := 1; end; <<b>> begin exit b; end b; end",
        "{{[x ‹int›] x := ‹1›}; <<b>>{exit<<b>> when -}}",
    ),
    ("begin -- end\n /* ; */ x := 'a;--'; end", "{x := ‹'a;--'›}"),
];

#[test]
fn structures() {
    for (body, expect) in GOOD {
        check(body, expect);
    }
}

#[test]
fn errors_have_places() {
    for (body, expect) in [
        ("", "2:3 42601 syntax error at end of input"),
        ("begin", "2:8 42601 syntax error at end of input"),
        ("begin x := 1 end", "2:19 42601 syntax error at end of input"),
        ("begin x := ; end", "2:14 42601 syntax error at or near \";\""),
        ("begin if x y := 1; end if; end", "2:20 42601 syntax error at or near \";\""),
        ("begin x := (1; end", "2:16 42601 mismatched parentheses at or near \";\""),
        ("begin x := 1); end", "2:15 42601 syntax error at or near \")\""),
        ("begin if a then null; end; end", "2:28 42601 syntax error at or near \";\""),
        ("begin\n  els x;\nend loop", "4:5 42601 end label \"loop\" specified for unlabeled block"),
        ("<<a>> begin end b", "2:19 42601 end label \"b\" differs from block's label \"a\""),
        ("begin end; x", "2:14 42601 syntax error at or near \"x\""),
        ("begin x := 'open; end", "2:14 42601 unterminated quoted string at or near \"'open; end\""),
        ("begin /* open end", "2:9 42601 unterminated /* comment at or near \"/* open end\""),
        ("begin select 1 into x into y; end", "2:25 42601 INTO specified more than once"),
        ("begin raise 'a %'; end", "2:15 42601 too few parameters specified for RAISE"),
        ("begin raise 'a', x; end", "2:20 42601 too many parameters specified for RAISE"),
        ("begin raise 'a' using foo = 1; end", "2:25 42601 unrecognized RAISE statement option \"foo\""),
        (
            "begin for a, b in 1..2 loop end loop; end",
            "2:16 42601 integer FOR loop must have only one target variable",
        ),
        ("begin else end", "2:9 42601 syntax error at or near \"else\""),
    ] {
        check(body, expect);
    }
}

#[test]
fn what_is_missing_is_named() {
    for (body, what) in [
        ("begin null; exception when others then null; end", "2:15 0A000 EXCEPTION is not supported"),
        ("begin execute 'select 1'; end", "2:9 0A000 EXECUTE (dynamic SQL) is not supported"),
        ("begin commit; end", "2:9 0A000 COMMIT inside a procedure is not supported"),
        ("begin rollback; end", "2:9 0A000 ROLLBACK inside a procedure is not supported"),
        ("begin savepoint a; end", "2:9 0A000 SAVEPOINT inside a procedure is not supported"),
        ("declare c cursor for select 1; begin end", "2:11 0A000 a cursor is not supported"),
        ("begin open c; end", "2:9 0A000 a cursor is not supported"),
        ("begin fetch c into x; end", "2:9 0A000 a cursor is not supported"),
        (
            "begin for r in execute 'x' loop end loop; end",
            "2:18 0A000 FOR … IN EXECUTE (dynamic SQL) is not supported",
        ),
        (
            "begin return query execute 'x'; end",
            "2:22 0A000 RETURN QUERY EXECUTE (dynamic SQL) is not supported",
        ),
        (
            "begin foreach x slice 1 in array a loop end loop; end",
            "2:19 0A000 FOREACH … SLICE is not supported",
        ),
        (
            "begin get stacked diagnostics x = message_text; end",
            "2:13 0A000 GET STACKED DIAGNOSTICS is not supported",
        ),
        (
            "begin get diagnostics x = pg_context; end",
            "2:29 0A000 GET DIAGNOSTICS … = PG_CONTEXT is not supported",
        ),
        ("begin raise; end", "2:9 0A000 RAISE without parameters is not supported"),
        ("begin raise 'a' using column = 'c'; end", "2:25 0A000 RAISE … USING COLUMN is not supported"),
        ("begin a[1][2] := 3; end", "2:13 0A000 an array of more than one dimension is not supported"),
        ("begin a[1:2] := b; end", "2:12 0A000 assignment to a slice of an array is not supported"),
        ("begin do $x$begin end$x$; end", "2:9 0A000 DO inside a procedure is not supported"),
        ("#variable_conflict use_column\nbegin end", "2:3 0A000 a # option is not supported"),
        (
            "declare x text collate \"de_DE\"; begin end",
            "2:26 0A000 the collation \"de_DE\" is not supported",
        ),
    ] {
        check(body, what);
        let (_, result) = parse_body(body);
        assert!(result.is_err_and(|error| error.hint.is_some()), "no remedy: {body}");
    }
}

/// Cuts every valid body at every byte, and damages every byte of it: the parser always returns.
#[test]
fn broken_bodies_never_panic() {
    for (body, _) in GOOD {
        for at in (0..body.len()).filter(|at| body.is_char_boundary(*at)) {
            let (sources, result) = parse_body(&body[..at]);
            if let Err(error) = result {
                assert!(sources.place(error.span).line >= 1);
            }
            for with in ["'", "(", ")", ";", "\"", "$$", "é", "end", "\0"] {
                let _ = parse_body(&format!("{}{with}{}", &body[..at], &body[at..]));
            }
        }
    }
    let deep = format!("{}{}", "begin ".repeat(5000), "end; ".repeat(5000));
    check(&deep, "2:609 54001 blocks and loops nest too deeply");
}

/// Where PostgreSQL's own PL/pgSQL parser can be asked, it agrees on which bodies are well formed.
#[test]
fn postgresql_agrees_on_the_structure() {
    let names = "x y z i n a b c d m o p q get raise k v w";
    let parameters = names.split(' ').map(|name| format!("\"{name}\" int")).collect::<Vec<_>>().join(", ");
    let cases = [
        "begin null; end",
        "begin x := 1; end",
        "begin x := 1 end",
        "begin if x then null; end if; end",
        "begin if x then null; end; end",
        "begin for j in 1..2 loop null; end loop; end",
        "begin for j in 1..2 loop null; end; end",
        "begin while x loop exit; end loop; end",
        "begin case x when 1 then null; else null; end case; end",
        "begin case x when 1 then null; end; end",
        "begin raise notice 'a %', x; end",
        "begin raise notice 'a %'; end",
        "begin select 1 into x; end",
        "begin select 1 into x into y; end",
        "begin get diagnostics x = row_count; end",
        "<<l>> begin exit l; end l",
        "<<l>> begin end m",
        "begin assert x = 1, 'no'; end",
        "declare r record; begin for r in select 1 as f loop x := r.f; end loop; end",
        "declare begin end",
        "declare j int := 1; begin end",
        "declare j int := ; begin end",
        "begin end; null",
        "begin loop continue when x = 1; end loop; end",
        "begin perform 1; end",
        "begin delete from t; end",
        "begin elsif; end",
        "begin get := 1; end",
        "begin raise = 2; end",
    ];
    for body in cases {
        let function =
            format!("create function f({parameters}) returns void language plpgsql as $body${body}$body$");
        let theirs = pg_query::parse_plpgsql(&function);
        let (_, ours) = parse_body(body);
        assert_eq!(ours.is_ok(), theirs.is_ok(), "{body}\nours: {ours:?}\ntheirs: {theirs:?}");
    }
}

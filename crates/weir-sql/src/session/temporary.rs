//! Functions in pg_temp: CREATE FUNCTION, its call and DROP FUNCTION. Such a function is its session's, so it is none of the schema's.
//!
//! One form is there, by which mappers insert a row and are told that another one has its key: OUT parameters, and a body that is one
//! INSERT, UPDATE or DELETE … RETURNING … INTO, with a handler that tells what was caught.

use pg_query::protobuf::{
    CreateFunctionStmt, DefElem, DropStmt, FuncCall, FunctionParameter, FunctionParameterMode, Node,
    ObjectType, RangeFunction, SelectStmt, TypeName, node,
};
use weir_types::function::{double_quoted, quote_identifier};

use super::constant;
use crate::binder::expr_strings;
use crate::lexer::{Lexer, Token};
use crate::parse::Piece;
use crate::parse::deparse::{deparse, query_template};
use crate::source::{Diagnostic, Span};

#[derive(Clone, Debug, PartialEq)]
pub enum Temporary {
    Create { function: TemporaryFunction, replaces: bool },
    Call { name: String, outputs: Vec<Output> },
    Drop { name: String, if_exists: bool },
}

#[derive(Clone, Debug, PartialEq)]
pub struct TemporaryFunction {
    pub name: String,
    /// OUT parameters: their names and their types.
    pub outputs: Vec<(String, OutputType)>,
    /// The statement, without INTO.
    pub statement: String,
    /// The parameter that the row goes into.
    pub into: String,
    /// Assignments of the handler of `unique_violation`: parameters and their values.
    pub caught: Option<Vec<(String, Caught)>>,
}

/// The type of an OUT parameter. The queries are bound where the function is called.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputType {
    /// Its name without a schema, quoted where it must be.
    pub name: String,
    /// Gives one value of it.
    pub value: String,
    /// Gives the rows of the table whose rows are of the type.
    pub rows: String,
}

/// An item of GET STACKED DIAGNOSTICS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caught {
    State,
    Message,
    Detail,
    Constraint,
}

/// Output of a call of the function: `f.parameter`, `(f.parameter).field`, or, without a field, `(f.parameter).*`.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    Scalar(String),
    Field(String, Option<String>),
}

const REMEDY: &str = "in pg_temp there are functions of OUT parameters, in LANGUAGE plpgsql, whose body is BEGIN … RETURNING … INTO parameter; \
                      [EXCEPTION WHEN unique_violation THEN GET STACKED DIAGNOSTICS …;] END, called by SELECT (f.row).*, f.value FROM pg_temp.f()";

const SCHEMA: &str = "pg_temp";

impl Temporary {
    /// `None`: the statement is not about a function in pg_temp.
    pub(super) fn of(
        piece: Piece<'_>,
        statement: &node::Node,
        span: Span,
    ) -> Result<Option<Temporary>, Diagnostic> {
        let (read, what) = match statement {
            node::Node::CreateFunctionStmt(create) => match in_schema(&create.funcname) {
                Some(name) if !create.is_procedure => (function(name, create), "a function"),
                _ => return Ok(None),
            },
            node::Node::DropStmt(stmt) if stmt.remove_type() == ObjectType::ObjectFunction => {
                match dropped(stmt) {
                    Some(name) => (drop_function(name, stmt), "DROP FUNCTION"),
                    None => return Ok(None),
                }
            }
            node::Node::SelectStmt(select) if select.from_clause.iter().any(is_called) => {
                (call(select), "this call of a function")
            }
            _ => return Ok(None),
        };
        let refused = || {
            let at = piece.token(span.start as i32);
            Diagnostic::unsupported(at, format!("{what} in pg_temp of this form"), REMEDY)
        };
        read.ok_or_else(refused).map(Some)
    }
}

/// The name of a function in pg_temp.
fn in_schema(names: &[Node]) -> Option<&str> {
    match expr_strings(names)[..] {
        [SCHEMA, name] => Some(name),
        _ => None,
    }
}

/// The functions that a list of DROP names.
fn dropped(stmt: &DropStmt) -> Option<&str> {
    stmt.objects.iter().find_map(|object| match &object.node {
        Some(node::Node::ObjectWithArgs(function)) => in_schema(&function.objname),
        _ => None,
    })
}

fn drop_function(name: &str, stmt: &DropStmt) -> Option<Temporary> {
    let [Node { node: Some(node::Node::ObjectWithArgs(function)) }] = &stmt.objects[..] else { return None };
    let has_arguments = !function.objargs.is_empty();
    (!has_arguments).then(|| Temporary::Drop { name: name.to_owned(), if_exists: stmt.missing_ok })
}

fn is_called(from: &Node) -> bool {
    called(from).is_some_and(|(_, call)| in_schema(&call.funcname).is_some())
}

/// The one function of an item of FROM.
fn called(from: &Node) -> Option<(&RangeFunction, &FuncCall)> {
    let Some(node::Node::RangeFunction(range)) = &from.node else { return None };
    let [Node { node: Some(node::Node::List(function)) }] = &range.functions[..] else { return None };
    match function.items.first()?.node.as_ref()? {
        node::Node::FuncCall(call) => Some((range, call)),
        _ => None,
    }
}

/// SELECT … FROM pg_temp.f(), and nothing more.
fn call(select: &SelectStmt) -> Option<Temporary> {
    let [from] = &select.from_clause[..] else { return None };
    let (range, call) = called(from)?;
    let is_plain = range.alias.is_none() && !range.lateral && !range.ordinality && call.args.is_empty();
    let rest = SelectStmt { target_list: Vec::new(), from_clause: Vec::new(), ..select.clone() };
    if !is_plain || rest != *query_template("SELECT").ok()? {
        return None;
    }
    let name = in_schema(&call.funcname)?;
    let outputs = select.target_list.iter().map(|item| output(name, item)).collect::<Option<_>>()?;
    Some(Temporary::Call { name: name.to_owned(), outputs })
}

fn output(function: &str, item: &Node) -> Option<Output> {
    let Some(node::Node::ResTarget(target)) = &item.node else { return None };
    if !target.name.is_empty() {
        return None;
    }
    let parameter = |node: &node::Node| match node {
        node::Node::ColumnRef(column) => {
            match column.fields.iter().map(constant).collect::<Option<Vec<_>>>()?.as_slice() {
                [of, parameter] if of == function => Some(parameter.clone()),
                _ => None,
            }
        }
        _ => None,
    };
    match target.val.as_ref()?.node.as_ref()? {
        node::Node::AIndirection(field) => {
            let of = parameter(field.arg.as_ref()?.node.as_ref()?)?;
            match &field.indirection[..] {
                [Node { node: Some(node::Node::AStar(_)) }] => Some(Output::Field(of, None)),
                [name] => Some(Output::Field(of, Some(constant(name)?))),
                _ => None,
            }
        }
        value => parameter(value).map(Output::Scalar),
    }
}

fn function(name: &str, create: &CreateFunctionStmt) -> Option<Temporary> {
    let outputs = create.parameters.iter().map(out_parameter).collect::<Option<Vec<_>>>()?;
    let returns_record = create.return_type.as_ref().is_none_or(|returned| {
        !returned.setof && matches!(expr_strings(&returned.names)[..], [.., "record"])
    });
    let (mut body, mut is_plpgsql) = (None, false);
    for option in &create.options {
        let Some(node::Node::DefElem(option)) = &option.node else { return None };
        match option.defname.as_str() {
            "language" => is_plpgsql = constant(option.arg.as_deref()?)? == "plpgsql",
            "as" => body = Some(body_text(option)?),
            _ => return None,
        }
    }
    let (statement, into, caught) = body_of(&body?)?;
    let has = |parameter: &String| outputs.iter().any(|(name, _)| name == parameter);
    let knows_all = has(&into) && caught.iter().flatten().all(|(parameter, _)| has(parameter));
    let name = name.to_owned();
    let function = TemporaryFunction { name, outputs, statement, into, caught };
    (is_plpgsql && returns_record && knows_all)
        .then_some(Temporary::Create { function, replaces: create.replace })
}

fn body_text(option: &DefElem) -> Option<String> {
    match &option.arg.as_deref()?.node {
        Some(node::Node::List(list)) if list.items.len() == 1 => constant(&list.items[0]),
        _ => None,
    }
}

fn out_parameter(parameter: &Node) -> Option<(String, OutputType)> {
    let Some(node::Node::FunctionParameter(parameter)) = &parameter.node else { return None };
    let FunctionParameter { name, arg_type: Some(ty), .. } = &**parameter else { return None };
    let is_out = parameter.mode() == FunctionParameterMode::FuncParamOut && !name.is_empty();
    is_out.then(|| Some((name.clone(), output_type(ty)?)))?
}

fn output_type(ty: &TypeName) -> Option<OutputType> {
    let names = expr_strings(&ty.names);
    let name = match names[..] {
        ["pg_catalog", name] => name.to_owned(),
        [.., name] => quote_identifier(name),
        [] => return None,
    };
    let relation: Vec<String> = names.iter().map(|name| double_quoted(name)).collect();
    let mut value = query_template("SELECT CAST(NULL AS int)").ok()?;
    let Some(node::Node::ResTarget(target)) = &mut value.target_list.first_mut()?.node else { return None };
    let Some(node::Node::TypeCast(cast)) = &mut target.val.as_mut()?.node else { return None };
    cast.type_name = Some(ty.clone());
    Some(OutputType {
        name,
        value: deparse(&node::Node::SelectStmt(value)).ok()?,
        rows: format!("SELECT * FROM {}", relation.join(".")),
    })
}

/// Takes tokens one after the other.
struct Reader<'t> {
    text: &'t str,
    tokens: &'t [Token],
}

impl<'t> Reader<'t> {
    /// Takes the words if all of them are next.
    fn words(&mut self, words: &[&str]) -> bool {
        let all = self.tokens.len() >= words.len()
            && self.tokens.iter().zip(words).all(|(token, word)| token.is_word(self.text, word));
        if all {
            self.tokens = &self.tokens[words.len()..];
        }
        all
    }

    fn next(&mut self) -> Option<Token> {
        let (first, rest) = self.tokens.split_first()?;
        self.tokens = rest;
        Some(*first)
    }

    fn name(&mut self) -> Option<String> {
        self.next()?.name(self.text)
    }

    fn written(&self, token: Token) -> &'t str {
        &self.text[token.start..token.end]
    }
}

type Body = (String, String, Option<Vec<(String, Caught)>>);

/// BEGIN statement INTO parameter; [EXCEPTION WHEN unique_violation THEN GET STACKED DIAGNOSTICS …;] END.
fn body_of(body: &str) -> Option<Body> {
    let all: Vec<Token> = Lexer::new(body, 0).collect();
    let mut reader = Reader { text: body, tokens: &all };
    reader.words(&["begin"]).then_some(())?;
    let end = reader.tokens.iter().position(|token| token.is(b';'))?;
    let (statement, rest) = reader.tokens.split_at(end);
    let [first, .., last, into, parameter] = statement else { return None };
    let writes = ["insert", "update", "delete"].iter().any(|word| first.is_word(body, word));
    if !writes || !into.is_word(body, "into") {
        return None;
    }
    let (written, into) = (body.get(first.start..last.end)?.to_owned(), parameter.name(body)?);
    reader.tokens = &rest[1..];
    let mut caught = None;
    if reader.words(&["exception", "when", "unique_violation", "then", "get", "stacked", "diagnostics"]) {
        let mut items = Vec::new();
        loop {
            let parameter = reader.name()?;
            matches!(reader.next().map(|token| reader.written(token)), Some("=" | ":=")).then_some(())?;
            let item = match &*reader.name()? {
                "returned_sqlstate" => Caught::State,
                "message_text" => Caught::Message,
                "pg_exception_detail" => Caught::Detail,
                "constraint_name" => Caught::Constraint,
                _ => return None,
            };
            items.push((parameter, item));
            if reader.next()?.is(b';') {
                break;
            }
        }
        caught = Some(items);
    }
    reader.words(&["end"]).then_some(())?;
    let is_over = matches!(reader.tokens, [] | [_]) && reader.tokens.iter().all(|token| token.is(b';'));
    is_over.then_some((written, into, caught))
}

#[cfg(test)]
mod tests {
    use super::super::{Command, statements};
    use super::*;

    fn read(text: &str) -> Result<Option<Temporary>, String> {
        let said = statements(text).map_err(|wrong| format!("{:?} {}", wrong.state, wrong.message))?;
        Ok(match &said[0].what {
            Command::Temporary(temporary) => Some(temporary.clone()),
            _ => None,
        })
    }

    const CREATE: &str = r#"CREATE OR REPLACE FUNCTION pg_temp.testfunc(OUT response "Users", OUT caught numeric(3, 1)) RETURNS RECORD AS $func_0a$
        BEGIN INSERT INTO "Users" ("id") VALUES (DEFAULT, 'a; b') RETURNING * INTO response;
        EXCEPTION WHEN unique_violation THEN GET STACKED DIAGNOSTICS caught = PG_EXCEPTION_DETAIL; END $func_0a$ LANGUAGE plpgsql"#;

    #[test]
    fn what_mappers_send_is_read() {
        let function = TemporaryFunction {
            name: "testfunc".to_owned(),
            outputs: [
                ("response", "\"Users\"", "SELECT NULL::\"Users\"", "SELECT * FROM \"Users\""),
                (
                    "caught",
                    "numeric",
                    "SELECT NULL::numeric(3, 1)",
                    "SELECT * FROM \"pg_catalog\".\"numeric\"",
                ),
            ]
            .map(|(parameter, name, value, rows)| {
                let [name, value, rows] = [name, value, rows].map(str::to_owned);
                (parameter.to_owned(), OutputType { name, value, rows })
            })
            .into(),
            statement: r#"INSERT INTO "Users" ("id") VALUES (DEFAULT, 'a; b') RETURNING *"#.to_owned(),
            into: "response".to_owned(),
            caught: Some(vec![("caught".to_owned(), Caught::Detail)]),
        };
        assert_eq!(read(CREATE), Ok(Some(Temporary::Create { function, replaces: true })));
        let outputs = vec![
            Output::Field("response".to_owned(), Some("Id".to_owned())),
            Output::Field("response".to_owned(), None),
            Output::Scalar("caught".to_owned()),
        ];
        let call = r#"SELECT (testfunc.response)."Id", (testfunc.response).*, testfunc.caught FROM pg_temp.testfunc()"#;
        assert_eq!(read(call), Ok(Some(Temporary::Call { name: "testfunc".to_owned(), outputs })));
        let drop = Temporary::Drop { name: "testfunc".to_owned(), if_exists: true };
        assert_eq!(read("DROP FUNCTION IF EXISTS pg_temp.testfunc()"), Ok(Some(drop)));
        assert_eq!(read("SELECT 'pg_temp' FROM t"), Ok(None));
    }

    #[test]
    fn other_forms_are_refused_by_name() {
        for text in [
            "CREATE FUNCTION pg_temp.f(a int) RETURNS int AS $$ SELECT 1 $$ LANGUAGE sql",
            "CREATE FUNCTION pg_temp.f(OUT a int) AS $$ BEGIN a := 1; END $$ LANGUAGE plpgsql",
            "CREATE FUNCTION pg_temp.f(OUT a int) AS $$ BEGIN DELETE FROM t RETURNING a INTO b; END $$ LANGUAGE plpgsql",
            "SELECT * FROM pg_temp.f()",
            "SELECT f.a FROM pg_temp.f(1)",
            "SELECT f.a FROM pg_temp.f() WHERE true",
            "SELECT g.a FROM pg_temp.f()",
            "SELECT f.a AS b FROM pg_temp.f()",
            "DROP FUNCTION pg_temp.f(int)",
        ] {
            let said = read(text).unwrap_err();
            assert!(said.contains("pg_temp") && said.contains("not supported"), "{said}");
        }
    }
}

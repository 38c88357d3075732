//! CREATE, ALTER and DROP of functions and procedures: which routine a statement means.

use pg_query::protobuf::{
    AlterFunctionStmt, CreateFunctionStmt, FunctionParameter, FunctionParameterMode, Node, ObjectType,
    ObjectWithArgs, TypeName, VariableSetKind, node,
};
use weir_types::SqlState;

use super::types::object_path;
use super::{PendingRoutine, Schema, settings};
use crate::binder::expr_strings;
use crate::parse::Piece;
use crate::source::{Diagnostic, Span};
use crate::type_name;

/// A type as two statements name it alike: without `pg_catalog`, `public` and modifiers.
fn type_words(name: &TypeName) -> String {
    let words = expr_strings(&name.names);
    let own = match words.as_slice() {
        ["pg_catalog" | "public", rest @ ..] if !rest.is_empty() => rest,
        all => all,
    };
    // The grammar has put other words of PostgreSQL's types into `pg_catalog` already.
    let own = match own {
        ["decimal"] => "numeric".to_owned(),
        ["serial"] => "int4".to_owned(),
        other => other.join("."),
    };
    format!("{own}{}", "[]".repeat(name.array_bounds.len().min(1)))
}

fn parameters(nodes: &[Node]) -> impl Iterator<Item = &FunctionParameter> {
    nodes.iter().filter_map(|node| match &node.node {
        Some(node::Node::FunctionParameter(parameter)) => Some(&**parameter),
        _ => None,
    })
}

fn is_input(parameter: &FunctionParameter) -> bool {
    !matches!(parameter.mode(), FunctionParameterMode::FuncParamOut | FunctionParameterMode::FuncParamTable)
}

/// Argument types by which routines of the same name are distinguished.
fn argument_types(create: &CreateFunctionStmt) -> Vec<String> {
    let own = parameters(&create.parameters).filter(|one| is_input(one));
    own.filter_map(|one| one.arg_type.as_ref()).map(type_words).collect()
}

/// Argument types including OUT parameters, by which procedures may be named.
fn all_types(create: &CreateFunctionStmt) -> Vec<String> {
    parameters(&create.parameters).filter_map(|one| one.arg_type.as_ref()).map(type_words).collect()
}

fn same_routine(left: &CreateFunctionStmt, right: &CreateFunctionStmt) -> bool {
    object_path(&left.funcname) == object_path(&right.funcname)
        && argument_types(left) == argument_types(right)
}

/// Result of a routine: its result type, OUT parameters and the columns of its table.
fn result_words(create: &CreateFunctionStmt) -> Vec<String> {
    let returns = create.return_type.as_ref().map(|ty| {
        let many = if ty.setof { "setof " } else { "" };
        format!("{many}{}", type_words(ty))
    });
    let outputs: Vec<String> = parameters(&create.parameters)
        .filter(|one| {
            !matches!(
                one.mode(),
                FunctionParameterMode::FuncParamIn | FunctionParameterMode::FuncParamDefault
            )
        })
        .map(|one| format!("{} {}", one.name, one.arg_type.as_ref().map(type_words).unwrap_or_default()))
        .collect();
    // RETURNS repeats the OUT parameters.
    match outputs.is_empty() {
        true => returns.into_iter().collect(),
        false => outputs,
    }
}

/// As PostgreSQL writes what DROP and ALTER name.
pub(super) fn written(named: &ObjectWithArgs) -> String {
    let types = named.objargs.iter().filter_map(|node| match &node.node {
        Some(node::Node::TypeName(name)) => Some(expr_strings(&name.names).join(".")),
        _ => None,
    });
    let name = expr_strings(&named.objname).join(".");
    match named.args_unspecified {
        true => name,
        false => format!("{name}({})", types.collect::<Vec<_>>().join(",")),
    }
}

/// The routine has a parameter or a result of that type.
pub(super) fn mentions_type(create: &CreateFunctionStmt, name: &str) -> bool {
    let of_parameters = parameters(&create.parameters).filter_map(|one| one.arg_type.as_ref());
    let all = of_parameters.chain(create.return_type.as_ref());
    all.into_iter().any(|ty| type_words(ty).trim_end_matches("[]") == name)
}

fn gives_many(create: &CreateFunctionStmt) -> bool {
    create.return_type.as_ref().is_some_and(|ty| ty.setof)
        || parameters(&create.parameters).any(|one| one.mode() == FunctionParameterMode::FuncParamTable)
}

fn word_of(kind: ObjectType) -> &'static str {
    match kind {
        ObjectType::ObjectFunction => "function",
        ObjectType::ObjectProcedure => "procedure",
        _ => "routine",
    }
}

impl Schema {
    pub(super) fn add_routine(
        &mut self,
        create: CreateFunctionStmt,
        piece: Piece<'_>,
        span: Span,
    ) -> Result<(), Diagnostic> {
        let place = Span { end: piece.token((span.start - piece.offset) as i32).end, ..span };
        if let [schema, _] = expr_strings(&create.funcname).as_slice() {
            self.schema_is_there(schema, place)?;
        }
        if self.notes.is_none() {
            check_head(&create, place)?;
        }
        let replaced = self.routines.iter().position(|other| same_routine(&other.create, &create));
        let arguments = argument_types(&create).len();
        let has_as_many = |other: &PendingRoutine| {
            object_path(&other.create.funcname) == object_path(&create.funcname)
                && argument_types(&other.create).len() == arguments
        };
        if self.notes.is_none() && replaced.is_none() && self.routines.iter().any(has_as_many) {
            let what = "another routine of this name with as many parameters";
            return Err(Diagnostic::unsupported(
                place,
                what,
                "give it another name: calls tell them by their number",
            ));
        }
        let routine = PendingRoutine { create, file: piece.file, span, serializable: false };
        match replaced {
            None => self.routines.push(routine),
            Some(index) if routine.create.replace => {
                if self.notes.is_none() {
                    replaces(&self.routines[index].create, &routine.create, place)?;
                }
                self.routines[index] = routine;
            }
            Some(_) => {
                let name = expr_strings(&routine.create.funcname).join(".");
                return Err(Diagnostic::new(
                    SqlState::DUPLICATE_FUNCTION,
                    span,
                    format!("function \"{name}\" already exists with same argument types"),
                )
                .with_hint("CREATE OR REPLACE replaces it"));
            }
        }
        Ok(())
    }

    /// The routine that a statement names, by its place among all.
    ///
    /// # Errors
    /// There is none (42883), it is of the other kind (42809), or there are several (42725).
    pub(super) fn routine_named(
        &self,
        piece: Piece<'_>,
        kind: ObjectType,
        named: &ObjectWithArgs,
        head: Span,
    ) -> Result<usize, Diagnostic> {
        let name = object_path(&named.objname);
        let given: Vec<&TypeName> = named
            .objargs
            .iter()
            .filter_map(|node| match &node.node {
                Some(node::Node::TypeName(name)) => Some(name),
                _ => None,
            })
            .collect();
        let mut signature = written(named);
        if self.notes.is_none() && !named.args_unspecified {
            let types = given.iter().map(|ty| type_name::resolve_column(&self.context(), piece, ty));
            let types: Result<Vec<String>, Diagnostic> = types
                .map(|resolved| {
                    resolved.map(|(ty, domain)| domain.map_or(ty.to_string(), |of| of.name.clone()))
                })
                .collect();
            signature = format!("{}({})", expr_strings(&named.objname).join("."), types?.join(","));
        }
        let given: Vec<String> = given.into_iter().map(type_words).collect();
        let fits = |create: &CreateFunctionStmt| {
            object_path(&create.funcname) == name
                && (named.args_unspecified
                    || argument_types(create) == given
                    || create.is_procedure && all_types(create) == given)
        };
        let found: Vec<usize> =
            (0..self.routines.len()).filter(|&at| fits(&self.routines[at].create)).collect();
        let is_of_kind = |at: &usize| match kind {
            ObjectType::ObjectFunction => !self.routines[*at].create.is_procedure,
            ObjectType::ObjectProcedure => self.routines[*at].create.is_procedure,
            _ => true,
        };
        let mut of_kind: Vec<usize> = found.iter().copied().filter(is_of_kind).collect();
        if of_kind.is_empty() && self.notes.is_some() {
            // An application that is only analysed may name types that are not known.
            let named = |at: &usize| object_path(&self.routines[*at].create.funcname) == name;
            of_kind = (0..self.routines.len()).filter(named).collect();
        }
        let word = word_of(kind);
        match (of_kind.as_slice(), found.is_empty()) {
            ([one], _) => Ok(*one),
            ([], false) if !named.args_unspecified => {
                let message = format!("{signature} is not a {word}");
                Err(Diagnostic::new(SqlState::WRONG_OBJECT_TYPE, head, message))
            }
            ([], _) => {
                let message = match named.args_unspecified {
                    true => format!("could not find a {word} named \"{signature}\""),
                    false => format!("{word} {signature} does not exist"),
                };
                Err(Diagnostic::new(SqlState::UNDEFINED_FUNCTION, head, message))
            }
            _ => {
                let message = format!("{word} name \"{signature}\" is not unique");
                let hint = format!("Specify the argument list to select the {word} unambiguously.");
                Err(Diagnostic::new(SqlState::AMBIGUOUS_FUNCTION, head, message).with_hint(hint))
            }
        }
    }

    /// `ALTER FUNCTION … RENAME TO …`.
    pub(super) fn rename_routine(
        &mut self,
        piece: Piece<'_>,
        kind: ObjectType,
        named: &ObjectWithArgs,
        (new, head): (&str, Span),
    ) -> Result<(), Diagnostic> {
        let index = self.routine_named(piece, kind, named, head)?;
        let mut create = self.routines[index].create.clone();
        // Its definition is shown as it was written, with its name (pg_get_functiondef).
        let is_plain = |node: &Node| {
            matches!(&node.node, Some(node::Node::DefElem(option))
                if matches!(option.defname.as_str(), "as" | "language" | "volatility" | "strict"))
        };
        if gives_many(&create) || create.sql_body.is_some() || !create.options.iter().all(is_plain) {
            let what = "another name of a routine that gives rows or has settings";
            return Err(Diagnostic::unsupported(
                head,
                what,
                "create it with its new name, and drop this one",
            ));
        }
        if let Some(Node { node: Some(node::Node::String(name)) }) = create.funcname.last_mut() {
            new.clone_into(&mut name.sval);
        }
        if self.routines.iter().any(|other| same_routine(&other.create, &create)) {
            let message = format!("function {new} already exists with same argument types");
            return Err(Diagnostic::new(SqlState::DUPLICATE_FUNCTION, head, message));
        }
        self.routines[index].create = create;
        Ok(())
    }

    /// `false` where there is none.
    pub(super) fn drop_routine(
        &mut self,
        piece: Piece<'_>,
        kind: ObjectType,
        named: &ObjectWithArgs,
        head: Span,
    ) -> Result<bool, Diagnostic> {
        match self.routine_named(piece, kind, named, head) {
            Ok(at) => {
                self.routines.remove(at);
                Ok(true)
            }
            Err(error) if error.state == SqlState::UNDEFINED_FUNCTION => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// `ALTER PROCEDURE p SET default_transaction_isolation = 'serializable'`, and what has no effect on what a routine does.
    pub(super) fn alter_routine(
        &mut self,
        piece: Piece<'_>,
        alter: &AlterFunctionStmt,
        head: Span,
    ) -> Result<(), Diagnostic> {
        let Some(function) = &alter.func else { return Ok(()) };
        let index = self.routine_named(piece, alter.objtype(), function, head)?;
        for action in &alter.actions {
            let Some(node::Node::DefElem(action)) = &action.node else { continue };
            let span = if action.location >= 0 { piece.token(action.location) } else { head };
            let value = action.arg.as_deref().and_then(|arg| arg.node.as_ref());
            let is_on = matches!(value, Some(node::Node::Boolean(value)) if value.boolval);
            match (action.defname.as_str(), value) {
                ("set", Some(node::Node::VariableSetStmt(set))) => {
                    self.routines[index].serializable = match set.kind() {
                        VariableSetKind::VarSetValue => settings::serializable(set, span)?,
                        VariableSetKind::VarReset | VariableSetKind::VarSetDefault
                            if !set.name.contains("isolation") =>
                        {
                            self.routines[index].serializable
                        }
                        _ => false,
                    };
                }
                ("rows", _) if !gives_many(&self.routines[index].create) => {
                    let message = "ROWS is not applicable when function does not return a set";
                    return Err(Diagnostic::new(SqlState::INVALID_PARAMETER_VALUE, span, message));
                }
                // A body is run as it is written, however it is declared.
                ("volatility" | "cost" | "rows" | "parallel" | "leakproof", _) => {}
                ("strict" | "security", _) if !is_on => {}
                (other, _) => {
                    return Err(Diagnostic::unsupported(
                        span,
                        format!("ALTER … {other} of a routine"),
                        "CREATE OR REPLACE it as it should be; SET default_transaction_isolation is",
                    ));
                }
            }
        }
        Ok(())
    }
}

/// Checks the mandatory clauses: the language, and a function's result.
fn check_head(create: &CreateFunctionStmt, place: Span) -> Result<(), Diagnostic> {
    let invalid = |message: &str| Err(Diagnostic::new(SqlState::INVALID_FUNCTION_DEFINITION, place, message));
    let gives = |one: &FunctionParameter| {
        !matches!(one.mode(), FunctionParameterMode::FuncParamIn | FunctionParameterMode::FuncParamDefault)
    };
    let has_result = create.return_type.is_some() || parameters(&create.parameters).any(gives);
    if !create.is_procedure && !has_result {
        return invalid("function result type must be specified");
    }
    let language = create.options.iter().find_map(|node| match &node.node {
        Some(node::Node::DefElem(option)) if option.defname == "language" => {
            match option.arg.as_deref()?.node.as_ref()? {
                node::Node::String(name) => Some(name.sval.as_str()),
                _ => None,
            }
        }
        _ => None,
    });
    match language {
        None if create.sql_body.is_none() => invalid("no language specified"),
        None | Some("sql" | "plpgsql" | "internal" | "c") => Ok(()),
        Some(name) => {
            let message = format!("language \"{name}\" does not exist");
            Err(Diagnostic::new(SqlState::UNDEFINED_OBJECT, place, message))
        }
    }
}

/// CREATE OR REPLACE keeps what callers rest on: the kind, the result and the names of the parameters.
fn replaces(was: &CreateFunctionStmt, now: &CreateFunctionStmt, place: Span) -> Result<(), Diagnostic> {
    if was.is_procedure != now.is_procedure {
        let message = "cannot change routine kind";
        return Err(Diagnostic::new(SqlState::WRONG_OBJECT_TYPE, place, message));
    }
    let kind = if now.is_procedure { "PROCEDURE" } else { "FUNCTION" };
    let invalid = |message: String| {
        let hint = format!("Use DROP {kind} {} first.", expr_strings(&now.funcname).join("."));
        Err(Diagnostic::new(SqlState::INVALID_FUNCTION_DEFINITION, place, message).with_hint(hint))
    };
    if result_words(was) != result_words(now) {
        return invalid("cannot change return type of existing function".to_owned());
    }
    let names = |create: &CreateFunctionStmt| -> Vec<String> {
        parameters(&create.parameters).filter(|one| is_input(one)).map(|one| one.name.clone()).collect()
    };
    let renamed = names(was).into_iter().zip(names(now)).find(|(was, now)| !was.is_empty() && was != now);
    match renamed {
        Some((was, _)) => invalid(format!("cannot change name of input parameter \"{was}\"")),
        None => Ok(()),
    }
}

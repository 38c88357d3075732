//! Scalar expressions.

use pg_query::protobuf::{
    AConst, AIndices, AIndirection, BoolExpr, BoolExprType, BoolTestType, BooleanTest, CaseExpr, ColumnRef,
    MinMaxExpr, MinMaxOp, Node, NullTest, NullTestType, SqlValueFunction, SqlValueFunctionOp, TypeCast,
    a_const, node,
};
use weir_types::{CastContext, SqlState, SqlType, Value, operator::BinaryOp, text};

use super::Binder;
use super::coerce::{in_units, located, null};
use crate::bound::{Expr, ExprKind};
use crate::source::{Diagnostic, Span};
use crate::type_name;

pub(super) fn boolean(kind: ExprKind, span: Span) -> Expr {
    Expr { kind, ty: SqlType::Bool, span }
}

/// Some value that Weir cannot compute.
pub(super) fn opaque(args: Vec<Expr>, span: Span) -> Expr {
    Expr { kind: ExprKind::Opaque(args), ty: SqlType::Opaque("unknown".into()), span }
}

/// NOT x; of a subquery's test, the opposite test.
fn negation(operand: Expr, span: Span) -> Expr {
    match operand.kind {
        ExprKind::Exists { query, negated } => boolean(ExprKind::Exists { query, negated: !negated }, span),
        ExprKind::QuantifiedSubquery { op: BinaryOp::Equal, left, query, all: false } => {
            boolean(ExprKind::QuantifiedSubquery { op: BinaryOp::NotEqual, left, query, all: true }, span)
        }
        kind => boolean(ExprKind::Not(Box::new(Expr { kind, ..operand })), span),
    }
}

/// From the earlier start to the later end.
pub(super) fn union(left: Span, right: Span) -> Span {
    Span { file: left.file, start: left.start.min(right.start), end: left.end.max(right.end) }
}

/// The strings of a list of `String` nodes.
pub(crate) fn strings(nodes: &[Node]) -> Vec<&str> {
    nodes
        .iter()
        .filter_map(|node| match &node.node {
            Some(node::Node::String(string)) => Some(string.sval.as_str()),
            _ => None,
        })
        .collect()
}

impl<'a> Binder<'a> {
    pub(crate) fn bind_expr(&mut self, node: &'a Node) -> Result<Expr, Diagnostic> {
        let expr = self.deeper(|binder| binder.bind_node(node))?;
        if self.is_of_system() {
            self.keep_catalog_type(node, &expr);
        }
        Ok(expr)
    }

    fn bind_node(&mut self, node: &'a Node) -> Result<Expr, Diagnostic> {
        let Some(node) = &node.node else {
            return Err(self.error(
                SqlState::SYNTAX_ERROR,
                self.piece.span(),
                "an expression is missing here",
            ));
        };
        match node {
            node::Node::AConst(constant) => self.bind_constant(constant),
            node::Node::ColumnRef(column) => self.bind_column(column),
            node::Node::ParamRef(parameter) => {
                let span = self.piece.token(parameter.location);
                match self.template_argument(parameter.number) {
                    Some(argument) => Ok(argument),
                    None => self.resolve_parameter(parameter.number, span),
                }
            }
            node::Node::AExpr(expr) => self.bind_operator(expr),
            node::Node::BoolExpr(expr) => self.bind_logic(expr),
            node::Node::NullTest(test) => self.bind_null_test(test),
            node::Node::BooleanTest(test) => self.bind_boolean_test(test),
            node::Node::TypeCast(cast) => self.bind_cast(cast),
            node::Node::CaseExpr(case) => self.without_sets(|binder| binder.bind_case(case)),
            node::Node::CoalesceExpr(coalesce) => {
                let span = self.piece.bracketed(coalesce.location);
                let args = self.without_sets(|binder| binder.bind_list(&coalesce.args))?;
                let (args, ty) = self.unify(args, "COALESCE")?;
                Ok(Expr { kind: ExprKind::Coalesce(args), ty, span })
            }
            node::Node::GroupingFunc(function) => self.bind_grouping_function(function),
            node::Node::MinMaxExpr(expr) => self.bind_min_max(expr),
            node::Node::FuncCall(call) => self.bind_call(call),
            node::Node::SubLink(link) => self.bind_sublink(link),
            node::Node::SqlvalueFunction(function) => self.bind_value_function(function),
            node::Node::AArrayExpr(array) => {
                let span = self.piece.bracketed(array.location);
                self.bind_array(&array.elements, span, None)
            }
            node::Node::AIndirection(indirection) => self.bind_indirection(indirection),
            node::Node::RowExpr(row) => {
                let span = self.piece.bracketed(row.location);
                // A comparison with another row may still say what type a literal has.
                let fields = self.bind_list(&row.args)?;
                Ok(Expr { kind: ExprKind::Row(fields), ty: SqlType::Record, span })
            }
            node::Node::CollateClause(collate) => {
                let span = self.piece.token(collate.location);
                match (&collate.arg, strings(&collate.collname).last()) {
                    (Some(arg), Some(&("C" | "POSIX" | "default"))) => self.bind_expr(arg),
                    _ => Err(Diagnostic::unsupported(
                        span,
                        "this collation",
                        "text compares by its bytes: use COLLATE \"C\" or none",
                    )),
                }
            }
            node::Node::SetToDefault(default) => Err(self.error(
                SqlState::SYNTAX_ERROR,
                self.piece.token(default.location),
                "DEFAULT is not allowed in this context",
            )),
            other => Err(Diagnostic::unsupported(
                self.piece.span(),
                crate::ddl::expression_name(other),
                "rewrite the expression without it",
            )),
        }
    }

    /// Where a set-returning function may not stand, although it may around it.
    fn without_sets<T>(&mut self, bind: impl FnOnce(&mut Self) -> T) -> T {
        let sets = self.scopes.last_mut().and_then(|scope| scope.sets.take());
        let bound = bind(self);
        if let Some(scope) = self.scopes.last_mut() {
            scope.sets = sets;
        }
        bound
    }

    pub(super) fn bind_list(&mut self, nodes: &'a [Node]) -> Result<Vec<Expr>, Diagnostic> {
        nodes.iter().map(|node| self.bind_expr(node)).collect()
    }

    /// Where the type that is wanted helps: `ARRAY[]` has none of its own.
    pub(crate) fn bind_expr_toward(&mut self, node: &'a Node, ty: &SqlType) -> Result<Expr, Diagnostic> {
        match (&node.node, ty) {
            (Some(node::Node::AArrayExpr(array)), SqlType::Array(element)) => {
                let span = self.piece.bracketed(array.location);
                self.bind_array(&array.elements, span, Some(element))
            }
            _ => self.bind_expr(node),
        }
    }

    fn bind_constant(&mut self, constant: &AConst) -> Result<Expr, Diagnostic> {
        let mut span = self.piece.token(constant.location);
        // The grammar folds a minus sign into the number.
        if self.piece.text.as_bytes().get(constant.location.max(0) as usize) == Some(&b'-') {
            span.end = self.piece.token(constant.location + 1).end;
        }
        let (value, ty) = match &constant.val {
            _ if constant.isnull => (Value::Null, SqlType::Unknown),
            Some(a_const::Val::Ival(number)) => (Value::Int(number.ival.into()), SqlType::Int4),
            Some(a_const::Val::Fval(number)) => self.number(&number.fval, span)?,
            Some(a_const::Val::Boolval(boolean)) => (Value::Bool(boolean.boolval), SqlType::Bool),
            Some(a_const::Val::Sval(string)) => (Value::text(string.sval.as_str()), SqlType::Unknown),
            Some(a_const::Val::Bsval(_)) => {
                return Err(Diagnostic::unsupported(span, "a bit string", "use bytea '\\x…' or a number"));
            }
            None => (Value::Int(0), SqlType::Int4),
        };
        Ok(Expr { kind: ExprKind::Literal(value), ty, span })
    }

    /// Too large for int4: int8 if it fits, or else numeric.
    fn number(&self, digits: &str, span: Span) -> Result<(Value, SqlType), Diagnostic> {
        let digits = digits.replace('_', "");
        let (sign, magnitude) = match digits.strip_prefix('-') {
            Some(rest) => ("-", rest),
            None => ("", digits.as_str()),
        };
        let radix = match magnitude.get(..2).map(str::to_ascii_lowercase).as_deref() {
            Some("0x") => 16,
            Some("0o") => 8,
            Some("0b") => 2,
            _ => 10,
        };
        let body = if radix == 10 { magnitude } else { &magnitude[2..] };
        if let Ok(integer) = i64::from_str_radix(&format!("{sign}{body}"), radix) {
            let small = i32::try_from(integer).is_ok();
            return Ok((Value::Int(integer), if small { SqlType::Int4 } else { SqlType::Int8 }));
        }
        let value =
            text::parse_text(&digits, &SqlType::Numeric(None)).map_err(|error| located(error, span))?;
        Ok((value, SqlType::Numeric(None)))
    }

    fn bind_column(&mut self, column: &'a ColumnRef) -> Result<Expr, Diagnostic> {
        let span = self.column_span(column);
        if column.fields.iter().any(|field| matches!(field.node, Some(node::Node::AStar(_)))) {
            return Err(Diagnostic::unsupported(
                span,
                "* as a value",
                "name the columns; count(*) counts rows",
            ));
        }
        self.resolve_name(&strings(&column.fields), span)
    }

    /// All of `schema.table.column`.
    pub(super) fn column_span(&self, column: &ColumnRef) -> Span {
        let mut span = self.piece.token(column.location);
        for _ in 1..column.fields.len() {
            let dot = (span.end - self.piece.offset) as usize;
            let mut tokens = crate::lexer::Lexer::new(self.piece.text, dot);
            if let (Some(dot), Some(name)) = (tokens.next(), tokens.next())
                && dot.is(b'.')
            {
                span.end = self.piece.offset + name.end as u32;
            }
        }
        span
    }

    fn bind_logic(&mut self, expr: &'a BoolExpr) -> Result<Expr, Diagnostic> {
        let (word, op) = match BoolExprType::try_from(expr.boolop) {
            Ok(BoolExprType::OrExpr) => ("OR", BoolExprType::OrExpr),
            Ok(BoolExprType::NotExpr) => ("NOT", BoolExprType::NotExpr),
            _ => ("AND", BoolExprType::AndExpr),
        };
        let mut operands = Vec::new();
        for arg in &expr.args {
            operands.push(self.bind_condition(arg, word)?);
        }
        let mut span = self.piece.token(expr.location);
        for operand in &operands {
            span = union(span, operand.span);
        }
        if op == BoolExprType::NotExpr {
            return Ok(negation(operands.swap_remove(0), span));
        }
        // a AND (b AND c) is a AND b AND c.
        let mut flat = Vec::new();
        for operand in operands {
            match (op, operand.kind) {
                (BoolExprType::AndExpr, ExprKind::And(inner)) => flat.extend(inner),
                (BoolExprType::OrExpr, ExprKind::Or(inner)) => flat.extend(inner),
                (_, kind) => flat.push(Expr { kind, ..operand }),
            }
        }
        let kind = match op {
            BoolExprType::OrExpr => ExprKind::Or(flat),
            _ => ExprKind::And(flat),
        };
        Ok(boolean(kind, span))
    }

    fn bind_null_test(&mut self, test: &'a NullTest) -> Result<Expr, Diagnostic> {
        let arg = self.required(&test.arg)?;
        let negated = test.nulltesttype == NullTestType::IsNotNull as i32;
        let operand = self.bind_expr(arg)?;
        let operand = self.settle(operand)?;
        let end = self.piece.token(test.location);
        let span = union(operand.span, end);
        // A row IS NOT NULL if all of its fields are, which is not the opposite of IS NULL.
        if let ExprKind::Row(fields) = operand.kind {
            let tests = fields.into_iter().map(|field| {
                let kind = ExprKind::IsNull { operand: Box::new(field), negated };
                boolean(kind, span)
            });
            return Ok(super::row::all_of(tests.collect(), span));
        }
        Ok(boolean(ExprKind::IsNull { operand: Box::new(operand), negated }, span))
    }

    fn bind_boolean_test(&mut self, test: &'a BooleanTest) -> Result<Expr, Diagnostic> {
        let arg = self.required(&test.arg)?;
        let operand = Box::new(self.bind_condition(arg, "IS TRUE")?);
        let span = union(operand.span, self.piece.token(test.location));
        let kind = match BoolTestType::try_from(test.booltesttype) {
            Ok(BoolTestType::IsTrue) => ExprKind::IsBool { operand, value: true, negated: false },
            Ok(BoolTestType::IsNotTrue) => ExprKind::IsBool { operand, value: true, negated: true },
            Ok(BoolTestType::IsFalse) => ExprKind::IsBool { operand, value: false, negated: false },
            Ok(BoolTestType::IsNotFalse) => ExprKind::IsBool { operand, value: false, negated: true },
            Ok(BoolTestType::IsNotUnknown) => ExprKind::IsNull { operand, negated: true },
            _ => ExprKind::IsNull { operand, negated: false },
        };
        Ok(boolean(kind, span))
    }

    pub(super) fn required(&self, node: &'a Option<Box<Node>>) -> Result<&'a Node, Diagnostic> {
        node.as_deref().ok_or_else(|| {
            self.error(SqlState::SYNTAX_ERROR, self.piece.span(), "an expression is missing here")
        })
    }

    fn bind_cast(&mut self, cast: &'a TypeCast) -> Result<Expr, Diagnostic> {
        let arg = self.required(&cast.arg)?;
        let Some(type_node) = &cast.type_name else {
            return Err(self.error(SqlState::SYNTAX_ERROR, self.piece.span(), "a type is missing here"));
        };
        if let Some(bound) = self.bind_system_cast(cast)? {
            return Ok(bound);
        }
        if let Some(sequence) = self.sequence_literal(arg, type_node)? {
            return Ok(sequence);
        }
        let ty = type_name::resolve_in(&self.context, self.piece, type_node)?;
        let modifier = type_name::time_modifier(self.piece, type_node)?;
        let operand = in_units(self.bind_expr_toward(arg, &ty)?, &ty, modifier);
        let name = self.piece.token(type_node.location);
        let span = union(union(operand.span, self.piece.token(cast.location)), name);
        let literal = operand.ty == SqlType::Unknown;
        let mut bound = self.coerce(operand, &ty, CastContext::Explicit)?;
        bound.span = span;
        // varchar to text computes nothing, but what follows sees another type.
        if bound.ty != ty && !literal {
            bound = Expr { kind: ExprKind::Cast { operand: Box::new(bound), explicit: true }, ty, span };
        }
        self.fitted(bound, modifier)
    }

    /// `'name'::regclass`, the argument of nextval: stays the name.
    fn sequence_literal(
        &mut self,
        arg: &'a Node,
        ty: &pg_query::protobuf::TypeName,
    ) -> Result<Option<Expr>, Diagnostic> {
        match strings(&ty.names).last() {
            Some(&"regclass") if self.names_sequence => self.bind_expr(arg).map(Some),
            _ => Ok(None),
        }
    }

    fn bind_case(&mut self, case: &'a CaseExpr) -> Result<Expr, Diagnostic> {
        let span = self.case_span(case);
        let subject = match &case.arg {
            Some(arg) => {
                let subject = self.bind_expr(arg)?;
                Some(self.settle(subject)?)
            }
            None => None,
        };
        let (mut conditions, mut results) = (Vec::new(), Vec::new());
        for when in &case.args {
            let Some(node::Node::CaseWhen(when)) = &when.node else { continue };
            let (condition, result) = (self.required(&when.expr)?, self.required(&when.result)?);
            conditions.push(match &subject {
                Some(subject) => {
                    let value = self.bind_expr(condition)?;
                    let span = value.span;
                    self.compare(BinaryOp::Equal, subject.clone(), value, span)?
                }
                None => self.bind_condition(condition, "CASE/WHEN")?,
            });
            results.push(self.bind_expr(result)?);
        }
        let otherwise = match &case.defresult {
            Some(node) => self.bind_expr(node)?,
            None => null(SqlType::Unknown, span),
        };
        // PostgreSQL considers ELSE first.
        let mut all = vec![otherwise];
        all.extend(results);
        let (mut all, ty) = self.unify(all, "CASE")?;
        let results = all.split_off(1);
        let otherwise = all.pop().filter(|_| case.defresult.is_some()).map(Box::new);
        let whens = conditions.into_iter().zip(results).collect();
        Ok(Expr { kind: ExprKind::Case { whens, otherwise }, ty, span })
    }

    /// From CASE to its END.
    fn case_span(&self, case: &CaseExpr) -> Span {
        let Ok(start) = usize::try_from(case.location) else { return self.piece.span() };
        let mut depth = 0usize;
        for token in crate::lexer::Lexer::new(self.piece.text, start) {
            if token.is_word(self.piece.text, "case") {
                depth += 1;
            } else if token.is_word(self.piece.text, "end") {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return self.piece.range(start, token.end);
                }
            }
        }
        self.piece.range(start, self.piece.text.len())
    }

    fn bind_min_max(&mut self, expr: &'a MinMaxExpr) -> Result<Expr, Diagnostic> {
        let span = self.piece.bracketed(expr.location);
        let greatest = expr.op == MinMaxOp::IsGreatest as i32;
        let args = self.bind_list(&expr.args)?;
        let (args, ty) = self.unify(args, if greatest { "GREATEST" } else { "LEAST" })?;
        if let SqlType::Enum(of) = &ty {
            let what = format!("GREATEST or LEAST of the enumeration {}", of.name);
            return Err(Diagnostic::unsupported(span, what, "compare the values with CASE"));
        }
        let kind = if greatest { ExprKind::Greatest(args) } else { ExprKind::Least(args) };
        Ok(Expr { kind, ty, span })
    }

    fn bind_value_function(&mut self, function: &SqlValueFunction) -> Result<Expr, Diagnostic> {
        let span = self.piece.token(function.location);
        let op = SqlValueFunctionOp::try_from(function.op);
        if let Some(value) = op.as_ref().ok().and_then(|op| self.system_value(*op, span)) {
            return Ok(value);
        }
        let ty = match op {
            Ok(SqlValueFunctionOp::SvfopCurrentTimestamp) => SqlType::Timestamptz,
            Ok(SqlValueFunctionOp::SvfopLocaltimestamp) => SqlType::Timestamp,
            Ok(SqlValueFunctionOp::SvfopCurrentDate) => SqlType::Date,
            _ => {
                let word = self.piece.text.get(function.location.max(0) as usize..).unwrap_or("");
                let word: String = word.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                return Err(Diagnostic::unsupported(
                    span,
                    word,
                    "current_timestamp, localtimestamp and current_date without a precision are",
                ));
            }
        };
        Ok(Expr { kind: ExprKind::TransactionTime, ty, span })
    }

    pub(super) fn bind_array(
        &mut self,
        elements: &'a [Node],
        span: Span,
        element_type: Option<&SqlType>,
    ) -> Result<Expr, Diagnostic> {
        let values = self.bind_list(elements)?;
        if values.iter().any(|value| matches!(value.ty, SqlType::Array(_))) {
            return Err(Diagnostic::unsupported(
                span,
                "an array of more than one dimension",
                "use one dimension, or jsonb",
            ));
        }
        let (values, element) = match element_type {
            Some(element) => {
                let cast = |value| self.coerce(value, element, CastContext::Explicit);
                (values.into_iter().map(cast).collect::<Result<_, _>>()?, element.clone())
            }
            None if values.is_empty() => {
                return Err(self
                    .error(SqlState::INDETERMINATE_DATATYPE, span, "cannot determine type of empty array")
                    .with_hint("explicitly cast to the desired type, for example ARRAY[]::integer[]"));
            }
            None => self.unify(values, "ARRAY")?,
        };
        Ok(Expr { kind: ExprKind::Array(values), ty: SqlType::Array(Box::new(element)), span })
    }

    /// `a[i]`, `a[i:j]`, `json['key']`.
    fn bind_indirection(&mut self, indirection: &'a AIndirection) -> Result<Expr, Diagnostic> {
        if let Some(expanded) = self.bind_expanded(indirection)? {
            return Ok(expanded);
        }
        let arg = self.required(&indirection.arg)?;
        let mut value = self.bind_expr(arg)?;
        for step in &indirection.indirection {
            value = match &step.node {
                Some(node::Node::AIndices(indices)) => self.bind_subscript(value, indices)?,
                _ => {
                    return Err(Diagnostic::unsupported(
                        value.span,
                        "a field of a row value",
                        "select the column instead of the whole row",
                    ));
                }
            };
        }
        Ok(value)
    }

    /// `json['a']`, `json[0]`, and `json['0']` of an array: one step of a path.
    fn jsonb_subscript(&mut self, json: Expr, key: Expr, span: Span) -> Result<Expr, Diagnostic> {
        let place = key.span;
        if !(key.ty == SqlType::Unknown || key.ty.is_string() || key.ty.is_integer()) {
            let message = format!("subscript type {} is not supported", key.ty);
            let error = self.error(SqlState::DATATYPE_MISMATCH, place, message);
            return Err(error.with_hint("jsonb subscript must be coercible to either integer or text."));
        }
        let key = self.coerce(key, &SqlType::Text, CastContext::Explicit)?;
        let kind = ExprKind::Array(vec![key]);
        let path = Expr { kind, ty: SqlType::array_of(SqlType::Text), span: place };
        self.function_of("jsonb #>", vec![json, path], span)
    }

    fn bind_subscript(&mut self, array: Expr, indices: &'a AIndices) -> Result<Expr, Diagnostic> {
        let is_vector = self.is_vector(&array)?;
        let after = (array.span.end - self.piece.offset) as i32;
        let span = union(array.span, self.piece.bracketed(after));
        let mut bound = |node: &'a Option<Box<Node>>| match node {
            Some(node) => self.bind_expr(node).map(Some),
            None => Ok(None),
        };
        let (lower, upper) = (bound(&indices.lidx)?, bound(&indices.uidx)?);
        if array.ty == SqlType::Jsonb {
            return match upper {
                Some(key) if !indices.is_slice => self.jsonb_subscript(array, key, span),
                _ => Err(Diagnostic::unsupported(span, "a slice of jsonb", "use -> with an index")),
            };
        }
        let lower = lower.map(|index| self.counted_from_one(is_vector, index)).transpose()?;
        let upper = upper.map(|index| self.counted_from_one(is_vector, index)).transpose()?;
        if let (true, Some(index)) =
            (self.is_of_system() && array.ty.is_string() && !indices.is_slice, &upper)
        {
            return self.letter(array, index.clone(), span);
        }
        let SqlType::Array(element) = array.ty.clone() else {
            return Err(self.error(
                SqlState::DATATYPE_MISMATCH,
                array.span,
                format!("cannot subscript type {} because it does not support subscripting", array.ty),
            ));
        };
        let mut index = |bound: Option<Expr>| match bound {
            Some(expr) => {
                self.coerce(expr, &SqlType::Int4, CastContext::Assignment).map(|expr| Some(Box::new(expr)))
            }
            None => Ok(None),
        };
        let (lower, upper) = (index(lower)?, index(upper)?);
        if indices.is_slice {
            let ty = array.ty.clone();
            return Ok(Expr { kind: ExprKind::Slice { array: Box::new(array), lower, upper }, ty, span });
        }
        let Some(index) = upper else {
            return Err(self.error(SqlState::SYNTAX_ERROR, span, "a subscript is missing here"));
        };
        Ok(Expr { kind: ExprKind::Subscript { array: Box::new(array), index }, ty: *element, span })
    }
}

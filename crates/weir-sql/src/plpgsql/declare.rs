//! Blocks and their declarations.

use pg_query::protobuf::{Node, TypeName, node};
use weir_types::{SqlState, SqlType};

use super::bind::{Body, null, raise_error};
use super::scope::Entry;
use super::structure::{Block, Declaration, DeclarationKind, DeclaredType, Name, Path};
use crate::bound::{Expr, ExprKind, LoopLabel, OpaqueStep, ProcedureKind, Step, StepKind, VariableId};
use crate::catalog::Table;
use crate::parse::{self, Piece};
use crate::source::{Diagnostic, Span};
use crate::type_name;

/// A declared type, resolved.
enum Shape {
    Scalar(SqlType),
    Row(Vec<(String, SqlType)>),
    Record,
}

impl Body<'_> {
    /// The outermost block, and what happens where control reaches its end.
    pub(super) fn whole_body(&mut self, block: &Block) -> Result<Vec<Step>, Diagnostic> {
        let labelled = block.label.is_some();
        let mut steps = match labelled {
            true => vec![self.block(block)?],
            false => self.block_steps(block, false)?,
        };
        if !falls_through(&steps) {
            return Ok(steps);
        }
        let end = Span { start: block.span.end.saturating_sub(3), ..block.span };
        match &self.kind {
            ProcedureKind::Function { returns: SqlType::Void } => {}
            ProcedureKind::Function { .. } => steps.push(match self.output_value(end) {
                Some(value) => Step { kind: StepKind::Return { value: Some(value) }, span: end },
                None => raise_error(
                    SqlState::FUNCTION_EXECUTED_NO_RETURN_STATEMENT,
                    "control reached end of function without RETURN",
                    None,
                    end,
                ),
            }),
            _ => {}
        }
        Ok(steps)
    }

    /// An inner block, or a labelled outer one.
    pub(super) fn block(&mut self, block: &Block) -> Result<Step, Diagnostic> {
        let name = block.label.as_ref().map(|label| label.text.as_str());
        let label = self.enter_label(name, false);
        let body = self.block_steps(block, true)?;
        self.labels.pop();
        Ok(Step { kind: StepKind::Block { label, body }, span: block.span })
    }

    pub(super) fn enter_label(&mut self, name: Option<&str>, is_loop: bool) -> LoopLabel {
        let id = LoopLabel(self.label_count);
        self.label_count += 1;
        self.labels.push(super::bind::Label { name: name.map(str::to_owned), id, is_loop });
        id
    }

    /// `again`: the block may be entered more than once, so that its variables start as NULL each time.
    fn block_steps(&mut self, block: &Block, again: bool) -> Result<Vec<Step>, Diagnostic> {
        self.scopes.enter(block.label.as_ref().map(|label| label.text.as_str()));
        let mut steps = Vec::new();
        for declaration in &block.declarations {
            if let Err(error) = self.declaration(declaration, again, &mut steps) {
                steps.extend(self.opaque_declaration(declaration, error)?);
            }
        }
        let body = self.steps(&block.body)?;
        match block.handlers.is_empty() {
            true => steps.extend(body),
            false => steps.push(self.handled(body, block)?),
        }
        self.scopes.leave();
        Ok(steps)
    }

    /// In a tolerant reading: the variable is there, with any value.
    fn opaque_declaration(
        &mut self,
        declaration: &Declaration,
        error: Diagnostic,
    ) -> Result<Vec<Step>, Diagnostic> {
        if self.notes.is_none() {
            return Err(error);
        }
        let Declaration { name, kind, span } = declaration;
        let mut default_at = None;
        if let (DeclarationKind::Variable { ty, default, .. }, false) =
            (kind, self.scopes.declared_here(&name.text))
        {
            default_at = *default;
            match self.shape(ty) {
                Ok(Shape::Scalar(ty)) => {
                    self.scopes.add_variable(&name.text, ty);
                }
                Ok(Shape::Row(fields)) => {
                    self.scopes.add_record(&name.text, Some(fields));
                }
                Ok(Shape::Record) => {
                    self.scopes.add_record(&name.text, None);
                }
                Err(_) => {
                    self.scopes.add_variable(&name.text, SqlType::Opaque("unknown".into()));
                }
            }
        }
        if let Some(steps) = default_at.and_then(|value| self.called_value(value, *span, name.span)) {
            return Ok(steps);
        }
        Ok(vec![self.opaque_step(*span, name.span, error)?])
    }

    /// EXCEPTION, in a tolerant reading: either the body happens, or one of the handlers, which finds the
    /// variables with any value.
    fn handled(&mut self, body: Vec<Step>, block: &Block) -> Result<Step, Diagnostic> {
        let span = block.span;
        let either = || Expr { kind: ExprKind::Opaque(Vec::new()), ty: SqlType::Bool, span };
        let assigns = self.scopes.named(&crate::mentions::names_of(self.piece(span).text));
        if let Some(notes) = self.notes {
            let head = Span { end: span.start + 1, ..span };
            notes.only_analysed(Diagnostic::unsupported(head, "EXCEPTION", "test beforehand instead"));
        }
        let mut branches = vec![(either(), body)];
        for handler in &block.handlers {
            self.scopes.enter(None);
            self.scopes.add_variable("sqlerrm", SqlType::Text);
            self.scopes.add_variable("sqlstate", SqlType::Text);
            let found = OpaqueStep { assigns: assigns.clone(), ..OpaqueStep::default() };
            let mut steps = vec![Step { kind: StepKind::Opaque(found), span }];
            steps.extend(self.steps(&handler.body)?);
            self.scopes.leave();
            branches.push((either(), steps));
        }
        let otherwise = vec![raise_error(SqlState::RAISE_EXCEPTION, "the error goes on", None, span)];
        Ok(Step { kind: StepKind::If { branches, otherwise }, span })
    }

    fn declaration(
        &mut self,
        declaration: &Declaration,
        again: bool,
        steps: &mut Vec<Step>,
    ) -> Result<(), Diagnostic> {
        let Declaration { name, kind, span } = declaration;
        if self.scopes.declared_here(&name.text) {
            return Err(Diagnostic::new(
                SqlState::SYNTAX_ERROR,
                name.span,
                format!("duplicate declaration at or near \"{}\"", name.text),
            ));
        }
        match kind {
            DeclarationKind::Refused(refusal) => Err((**refusal).clone()),
            DeclarationKind::Alias(path) => {
                let entry = self.any_entry(path)?;
                self.scopes.name(&name.text, entry);
                Ok(())
            }
            DeclarationKind::Variable { constant, ty, not_null, default } => {
                let shape = self.shape(ty)?;
                let Shape::Scalar(ty) = shape else {
                    return self.record_declaration(
                        name,
                        shape,
                        *constant || *not_null,
                        *default,
                        again,
                        steps,
                    );
                };
                if *not_null && default.is_none() {
                    return Err(Diagnostic::new(
                        SqlState::NULL_VALUE_NOT_ALLOWED,
                        name.span,
                        format!(
                            "variable \"{}\" must have a default value, since it's declared NOT NULL",
                            name.text
                        ),
                    ));
                }
                // The default does not see the variable itself.
                let value = match default {
                    Some(default) => Some(self.value_as(*default, &ty)?),
                    None if again => Some(null(ty.clone(), *span)),
                    None => None,
                };
                let variable = self.scopes.add_variable(&name.text, ty);
                let declared = &mut self.scopes.variables[variable.0 as usize];
                declared.constant = *constant;
                declared.not_null = *not_null;
                steps.extend(
                    value.map(|value| Step { kind: StepKind::Assign { variable, value }, span: *span }),
                );
                Ok(())
            }
        }
    }

    fn record_declaration(
        &mut self,
        name: &Name,
        shape: Shape,
        restricted: bool,
        default: Option<Span>,
        again: bool,
        steps: &mut Vec<Step>,
    ) -> Result<(), Diagnostic> {
        if restricted {
            return Err(Diagnostic::unsupported(
                name.span,
                "CONSTANT or NOT NULL on a record",
                "declare its fields as single variables",
            ));
        }
        let record = self.scopes.add_record(
            &name.text,
            match shape {
                Shape::Row(fields) => Some(fields),
                _ => None,
            },
        );
        if let Some(default) = default {
            return self.assign_record(record, default, name.span).map(|assigned| steps.extend(assigned));
        }
        if again {
            let fields: Vec<VariableId> =
                self.scopes.records[record].fields.iter().flatten().map(|(_, id)| *id).collect();
            steps.extend(fields.into_iter().map(|id| self.assign_null(id, name.span)));
        }
        Ok(())
    }

    pub(super) fn assign_null(&self, variable: VariableId, span: Span) -> Step {
        let value = null(self.scopes.ty(variable).clone(), span);
        Step { kind: StepKind::Assign { variable, value }, span }
    }

    fn any_entry(&self, path: &Path) -> Result<Entry, Diagnostic> {
        let parts: Vec<&str> = path.names.iter().map(|name| name.text.as_str()).collect();
        match self.scopes.look_up(&parts) {
            Some((entry, used)) if used == parts.len() => Ok(entry),
            _ => Err(Diagnostic::new(
                SqlState::UNDEFINED_OBJECT,
                path.span,
                format!("variable \"{}\" does not exist", path.dotted()),
            )),
        }
    }

    fn shape(&self, ty: &DeclaredType) -> Result<Shape, Diagnostic> {
        match ty {
            DeclaredType::Record(_) => Ok(Shape::Record),
            DeclaredType::RowOf(path) => self.row_of(path),
            DeclaredType::SameAs { path, array } => {
                let ty = self.type_of(path)?;
                Ok(match (array, ty) {
                    (true, ty @ SqlType::Array(_)) | (false, ty) => Shape::Scalar(ty),
                    (true, ty) => Shape::Scalar(SqlType::Array(Box::new(ty))),
                })
            }
            DeclaredType::Named(span) => {
                // The grammar reads a type's name in full only as part of a cast.
                let prefix = "CAST(NULL AS ";
                let cast = format!("{prefix}{})", self.piece(*span).text);
                let piece = Piece::new(span.file, span.start.saturating_sub(prefix.len() as u32), &cast);
                let parsed = parse::parse_expression(piece)?;
                let name = cast_type(&parsed).ok_or_else(|| {
                    Diagnostic::new(SqlState::SYNTAX_ERROR, *span, "the name of a type is missing here")
                })?;
                if let Some(table) = type_name::table_of(self.catalog, name) {
                    return Ok(Shape::Row(columns_of(table)));
                }
                let ty = type_name::resolve_in(&self.context(), piece, name)?;
                type_name::refuse_time_modifier(piece, name, "a variable")?;
                match ty {
                    SqlType::Void | SqlType::Record => Err(Diagnostic::new(
                        SqlState::FEATURE_NOT_SUPPORTED,
                        *span,
                        format!("variable has pseudo-type {ty}"),
                    )),
                    ty => Ok(Shape::Scalar(ty)),
                }
            }
        }
    }

    fn row_of(&self, path: &Path) -> Result<Shape, Diagnostic> {
        let name = match path.names.as_slice() {
            [name] => name,
            [schema, name] if schema.text == "public" => name,
            _ => return Err(unknown_relation(path)),
        };
        if let Some(table) = self.catalog.table_by_name(&name.text) {
            return Ok(Shape::Row(columns_of(table)));
        }
        let view = self.catalog.views.iter().find(|view| view.name == name.text);
        let view = view.ok_or_else(|| unknown_relation(path))?;
        Ok(Shape::Row(view.query.columns.iter().map(|c| (c.name.clone(), c.ty.clone())).collect()))
    }

    /// `variable%TYPE` or `table.column%TYPE`.
    fn type_of(&self, path: &Path) -> Result<SqlType, Diagnostic> {
        use crate::binder::Variables;
        let parts: Vec<&str> = path.names.iter().map(|name| name.text.as_str()).collect();
        if let Some((_, ty)) = self.scopes.variable(&parts) {
            return Ok(ty);
        }
        let (table_name, column_name) = match parts.as_slice() {
            [table, column] | ["public", table, column] => (*table, *column),
            _ => {
                return Err(Diagnostic::new(
                    SqlState::UNDEFINED_OBJECT,
                    path.span,
                    format!("variable \"{}\" does not exist", path.dotted()),
                ));
            }
        };
        let table = self.catalog.table_named(table_name, path.span)?;
        let column = table.column_named(column_name, path.span)?;
        Ok(table.columns[column].ty.clone())
    }
}

/// The type of the one cast that `SELECT CAST(NULL AS type)` is.
pub(crate) fn cast_type(parsed: &Node) -> Option<&TypeName> {
    let node::Node::SelectStmt(select) = parsed.node.as_ref()? else { return None };
    let [Node { node: Some(node::Node::ResTarget(target)) }] = select.target_list.as_slice() else {
        return None;
    };
    match target.val.as_ref()?.node.as_ref()? {
        node::Node::TypeCast(cast) => cast.type_name.as_ref(),
        _ => None,
    }
}

fn unknown_relation(path: &Path) -> Diagnostic {
    let message = format!("relation \"{}\" does not exist", path.dotted());
    Diagnostic::new(SqlState::UNDEFINED_TABLE, path.span, message)
}

fn columns_of(table: &Table) -> Vec<(String, SqlType)> {
    let seen = table.columns.iter().filter(|column| !column.is_hidden);
    seen.map(|column| (column.name.clone(), column.ty.clone())).collect()
}

/// Whether control can reach what follows these steps; `true` in doubt.
pub(super) fn falls_through(steps: &[Step]) -> bool {
    use crate::bound::RaiseLevel;
    match steps.last().map(|step| &step.kind) {
        Some(StepKind::Return { .. }) => false,
        Some(StepKind::Opaque(step)) => !step.leaves,
        Some(StepKind::Raise(raise)) => raise.level != RaiseLevel::Exception,
        Some(StepKind::If { branches, otherwise }) => {
            falls_through(otherwise) || branches.iter().any(|(_, body)| falls_through(body))
        }
        Some(StepKind::Block { label, body }) => falls_through(body) || leaves(body, *label),
        Some(StepKind::Loop { label, body }) => leaves(body, *label),
        _ => true,
    }
}

/// Whether an EXIT of this label is among the steps.
fn leaves(steps: &[Step], label: LoopLabel) -> bool {
    steps.iter().any(|step| match &step.kind {
        StepKind::Exit { label: other, .. } => *other == label,
        StepKind::If { branches, otherwise } => {
            leaves(otherwise, label) || branches.iter().any(|(_, body)| leaves(body, label))
        }
        StepKind::ForRange { body, .. }
        | StepKind::ForQuery { body, .. }
        | StepKind::ForEach { body, .. }
        | StepKind::While { body, .. }
        | StepKind::Loop { body, .. }
        | StepKind::Block { body, .. } => leaves(body, label),
        _ => false,
    })
}

//! The plan of a deployment: what the analysis says of an application, in the terms of the protocol.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use weir_analysis::effects::{Read, Term};
use weir_analysis::partitioning::sets::{Entry, Touched};
use weir_analysis::partitioning::{self, Clause, Key, Partitioning};
use weir_analysis::{ProcedureEffects, Weights, effects};
use weir_conveyor::epochs::ServerId;
use weir_conveyor::matching::{Class, Column, Source, StatementTemplate, Template, Templates};
use weir_conveyor::routing::{GeneratedIds, Routing, RoutingValue};
use weir_sql::bound::{ParameterMode, Procedure, StepKind};
use weir_sql::catalog::TableId;
use weir_sql::{Application, Span};

use crate::folder::{Error, read_application};
use crate::local_rows::{self, LocalTable};
use crate::refusals;
use crate::statements::{Form, Place};
use crate::value::Kind;

/// The column that stands for the existence of a row.
const EXISTENCE: u16 = u16::MAX;

/// A parameter that a call gives a value for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    pub name: String,
    pub kind: Kind,
}

/// A transaction of the application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    pub name: String,
    pub class: Class,
    /// IN and INOUT parameters, in order. Partitioning parameters are places in here.
    pub parameters: Vec<Parameter>,
    /// None: any server will do, since what it reads is the same at all of them but for visits that are still to be applied.
    pub home: Option<usize>,
    pub others: Vec<usize>,
    pub is_read_only: bool,
    /// The application sends its statements one by one; otherwise it is a procedure or a function, which is called by its name.
    pub is_sent_as_statements: bool,
    /// Rows that it names by whole primary keys that are its parameters; inserted ones are not among them.
    pub rows: Vec<NamedRow>,
}

/// A row that a call accesses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NamedRow {
    /// Without its schema.
    pub table: String,
    /// The parameters that are the columns of its key.
    pub key: Vec<usize>,
}

/// A table whose changes by global operations travel.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CapturedTable {
    pub schema: String,
    pub name: String,
}

/// A sequence from which operations draw ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sequence {
    pub schema: String,
    pub name: String,
    /// The first number that it gives as the application declares it.
    pub start: i64,
    pub maximum: i64,
}

/// A statement of a client as the templates look it up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    pub text: String,
    pub arguments: Vec<RoutingValue>,
}

/// Everything that agents need of an application.
#[derive(Clone, Debug)]
pub struct Plan {
    /// By transaction, in the application's order.
    pub operations: Vec<Operation>,
    /// Tables that global operations write, sorted.
    pub captured: Vec<CapturedTable>,
    /// Tables that commutative and local operations write, in the order of the schema.
    pub local: Vec<LocalTable>,
    pub sequences: Vec<Sequence>,
    statements: Vec<Vec<StatementTemplate>>,
    local_writes: BTreeSet<Column>,
    /// Tables of the application by name: their number, and that of their columns.
    tables: BTreeMap<String, (u32, u16)>,
    /// By form of a statement: how each of its arguments is read.
    kinds: BTreeMap<String, Vec<Kind>>,
}

/// An application with its analysis.
pub(crate) struct Analysed<'a> {
    pub application: &'a Application,
    pub effects: &'a [ProcedureEffects],
    pub partitioning: &'a Partitioning,
}

impl Analysed<'_> {
    pub fn class(&self, procedure: usize) -> Class {
        match self.partitioning.transactions[procedure].class {
            weir_analysis::Class::Commutative => Class::Commutative,
            weir_analysis::Class::Local => Class::Local,
            weir_analysis::Class::Global => Class::Global,
            weir_analysis::Class::LocalOrGlobal => Class::LocalGlobal,
        }
    }

    /// Writes of the transactions that run under the token, or of those that run without.
    pub fn writes(&self, under_token: bool) -> impl Iterator<Item = (usize, &Entry)> {
        let runs_so = move |procedure: &usize| match self.class(*procedure) {
            Class::LocalGlobal => true,
            class => (class == Class::Global) == under_token,
        };
        let entries = self.partitioning.sets.entries.iter().enumerate();
        let entries = entries.filter(move |(procedure, _)| runs_so(procedure));
        entries.flat_map(|(procedure, entries)| {
            entries.iter().filter(|entry| entry.kind.is_write()).map(move |entry| (procedure, entry))
        })
    }

    /// Tables that global operations write.
    pub fn captured(&self) -> BTreeSet<TableId> {
        self.writes(true).map(|(_, entry)| entry.table).collect()
    }

    /// Returns whether calls of a transaction have to run at the server of its home. They need not if nothing that they read or write is written
    /// by commutative or local operations: all other state is the same at every server, up to the visits that it has applied. A local
    /// operation that writes keeps its home, since its writes stay where it runs.
    pub fn needs_home(&self, procedure: usize) -> bool {
        let may_move = match self.class(procedure) {
            Class::Commutative | Class::Global => true,
            Class::Local => self.effects[procedure].is_read_only(),
            Class::LocalGlobal => false,
        };
        !may_move
            || self.partitioning.conflicts.iter().any(|conflict| {
                let of_others = |other: usize, writes: fn(&Clause) -> bool| {
                    self.class(other) != Class::Global && conflict.clauses.iter().any(writes)
                };
                (conflict.left == procedure && of_others(conflict.right, |clause| clause.right_writes))
                    || (conflict.right == procedure && of_others(conflict.left, |clause| clause.left_writes))
            })
    }

    /// Returns whether a conflict of a transaction is local only since ids that its server generates route back to it.
    pub fn relies_on_generated_ids(&self, procedure: usize) -> bool {
        self.partitioning.conflicts.iter().any(|conflict| {
            let mut pairs = conflict.clauses.iter().flat_map(|clause| &clause.keys);
            pairs.any(|(left, right)| {
                (conflict.left == procedure && *left == Key::Own)
                    || (conflict.right == procedure && *right == Key::Own)
            })
        })
    }
}

impl Plan {
    /// The plan of the application in a folder, which is read as `weir analyze` reads it.
    ///
    /// # Errors
    /// The application cannot be read, or the protocol cannot carry it: each problem with place and remedy.
    pub fn of_folder(folder: &Path) -> Result<Plan, Error> {
        let (application, weights) = read_application(folder)?;
        Plan::of_application(&application, &weights)
    }

    /// # Errors
    /// As [`Plan::of_folder`].
    pub fn of_application(application: &Application, weights: &Weights) -> Result<Plan, Error> {
        let effects = effects::of_all(application);
        let partitioning = partitioning::partition(application, &effects, weights);
        let analysed = Analysed { application, effects: &effects, partitioning: &partitioning };
        let mut problems = refusals::all(&analysed);
        let mut kinds = BTreeMap::new();
        let statements = application.procedures.iter().map(|procedure| {
            statements(application, procedure, &mut kinds).unwrap_or_else(|problem| {
                problems.push(problem);
                Vec::new()
            })
        });
        let statements: Vec<Vec<StatementTemplate>> = statements.collect();
        if !problems.is_empty() {
            return Err(Error::of(&application.sources, &problems));
        }
        Ok(Plan {
            operations: operations(&analysed),
            captured: captured(&analysed),
            local: local_rows::tables(&analysed),
            sequences: sequences(&analysed),
            statements,
            local_writes: analysed
                .writes(false)
                .flat_map(|(_, entry)| columns(entry.table, &entry.touched))
                .collect(),
            tables: application
                .catalog
                .tables
                .iter()
                .map(|table| (table.name.clone(), (table.id.0, table.columns.len() as u16)))
                .collect(),
            kinds,
        })
    }

    /// The templates of the application over these servers.
    pub fn templates(&self, routing: Routing) -> Templates {
        let template = |(operation, statements): (&Operation, &Vec<StatementTemplate>)| Template {
            name: operation.name.clone(),
            class: operation.class,
            home: operation.home,
            others: operation.others.clone(),
            statements: statements.clone(),
        };
        let templates = self.operations.iter().zip(&self.statements).map(template).collect();
        Templates::new(templates, self.local_writes.clone(), routing)
    }

    pub fn operation(&self, name: &str) -> Option<&Operation> {
        self.operations.iter().find(|operation| operation.name == name)
    }

    /// The values of a call, for [`Templates::call`]. None: there is no such transaction, it has another number of parameters, or a value has a
    /// form that does not say which value it is.
    pub fn call(&self, name: &str, arguments: &[Option<&str>]) -> Option<Vec<RoutingValue>> {
        let parameters = &self.operation(name)?.parameters;
        if parameters.len() != arguments.len() {
            return None;
        }
        parameters.iter().zip(arguments).map(|(parameter, text)| parameter.kind.value(*text)).collect()
    }

    /// A statement with the values of `$1`, `$2`, …, as the templates look it up. None: no template has it, there are several statements, or
    /// a value has a form that does not
    /// say which value it is.
    pub fn statement(&self, text: &str, parameters: &[Option<&str>]) -> Option<Bound> {
        let form = Form::of(text)?;
        let kinds = self.kinds.get(&form.text)?;
        let argument = |(place, kind): (&Place, &Kind)| match place {
            Place::Number(number) => kind.value(*parameters.get(number.checked_sub(1)?)?),
            Place::Constant(text) => kind.value(Some(text)),
            Place::Name(_) => None,
        };
        let arguments: Option<Vec<RoutingValue>> = form.places.iter().zip(kinds).map(argument).collect();
        Some(Bound { text: form.text, arguments: arguments? })
    }

    /// Everything that a statement touches which reads these tables, as it names them. None: a name is not that of a table of the application.
    pub fn touched(&self, tables: &[String]) -> Option<BTreeSet<Column>> {
        let mut touched = BTreeSet::new();
        for name in tables {
            let (table, columns) = self.tables.get(name.strip_prefix("public.").unwrap_or(name))?;
            touched.extend((0..*columns).chain([EXISTENCE]).map(|column| (*table, column)));
        }
        Some(touched)
    }

    /// Statements that make the ids of a server's sequences route back to it. They run once, before the first operation. `above`: the database
    /// has no id above that.
    pub fn sequence_statements(&self, routing: &Routing, server: ServerId, above: i64) -> Vec<String> {
        let Some(ids) = routing.generated_ids(server) else { return Vec::new() };
        self.sequences.iter().map(|sequence| sequence.routed(ids, above)).collect()
    }
}

impl Sequence {
    /// The statement that makes its ids route to the server of `ids`. `above`: it has given no id above that.
    pub fn routed(&self, ids: GeneratedIds, above: i64) -> String {
        let first = ids.first_above(above.max(self.start.saturating_sub(1)));
        format!("ALTER SEQUENCE {} INCREMENT BY {} RESTART WITH {first}", self.relation(), ids.increment)
    }

    /// Its name as it stands in a statement.
    pub fn relation(&self) -> String {
        format!("{}.{}", quoted(&self.schema), quoted(&self.name))
    }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Schema and name of what the catalog calls `name` or `schema.name`.
pub(crate) fn split(name: &str) -> (String, String) {
    let (schema, name) = name.split_once('.').unwrap_or(("public", name));
    (schema.to_owned(), name.to_owned())
}

fn columns(table: TableId, touched: &Touched) -> impl Iterator<Item = Column> {
    touched.iter().map(move |column| (table.0, column.map_or(EXISTENCE, |column| column as u16)))
}

/// Indices of the parameters that a call gives values for.
pub(crate) fn inputs(procedure: &Procedure) -> Vec<usize> {
    let parameters = procedure.parameters.iter().enumerate();
    parameters.filter(|(_, parameter)| parameter.mode != ParameterMode::Out).map(|(index, _)| index).collect()
}

fn operations(analysed: &Analysed<'_>) -> Vec<Operation> {
    let operation = |(index, procedure): (usize, &Procedure)| {
        let inputs = inputs(procedure);
        let routing = &analysed.partitioning.transactions[index];
        let place = |parameter: &usize| inputs.iter().position(|input| input == parameter);
        let parameter = |index: &usize| {
            let parameter = &procedure.parameters[*index];
            Parameter { name: parameter.name.clone(), kind: Kind::of(&parameter.ty) }
        };
        let class = analysed.class(index);
        let home = routing.home.as_ref().filter(|_| analysed.needs_home(index));
        Operation {
            name: procedure.name.clone(),
            class,
            home: home.and_then(place),
            others: routing.others.iter().filter_map(place).collect(),
            is_read_only: analysed.effects[index].is_read_only(),
            is_sent_as_statements: is_sent_as_statements(analysed.application, procedure),
            parameters: inputs.iter().map(parameter).collect(),
            rows: rows(analysed, index, &inputs),
        }
    };
    analysed.application.procedures.iter().enumerate().map(operation).collect()
}

fn rows(analysed: &Analysed<'_>, index: usize, inputs: &[usize]) -> Vec<NamedRow> {
    let (application, effects) = (analysed.application, &analysed.effects[index]);
    let parameters = &application.procedures[index].parameters;
    let place = |term| match effects.terms.get(term) {
        Term::Parameter(variable) => inputs.iter().position(|input| parameters[*input].variable == *variable),
        _ => None,
    };
    // The targets of an UPDATE and a DELETE are reads, too.
    let row = |read: &Read| {
        let table = application.catalog.table(read.table);
        let columns = table.primary_key.as_ref()?.columns.iter();
        let of_column = |column| {
            let (_, term) = read.key.iter().find(|(known, _)| known == column)?;
            place(*term)
        };
        let key = columns.map(of_column).collect::<Option<Vec<usize>>>()?;
        Some(NamedRow { table: split(&table.name).1, key })
    };
    let own = effects.reads.iter().filter(|read| read.action.is_none());
    own.filter_map(row).collect::<BTreeSet<NamedRow>>().into_iter().collect()
}

fn captured(analysed: &Analysed<'_>) -> Vec<CapturedTable> {
    let table = |id: TableId| {
        let (schema, name) = split(&analysed.application.catalog.table(id).name);
        CapturedTable { schema, name }
    };
    let tables: BTreeSet<CapturedTable> = analysed.captured().into_iter().map(table).collect();
    tables.into_iter().collect()
}

fn sequences(analysed: &Analysed<'_>) -> Vec<Sequence> {
    let drawn: BTreeSet<_> = analysed.effects.iter().flat_map(|effects| &effects.sequences).collect();
    let sequence = |id: &weir_sql::catalog::SequenceId| {
        let sequence = analysed.application.catalog.sequence(*id);
        let (schema, name) = split(&sequence.name);
        Sequence { schema, name, start: sequence.start, maximum: sequence.maximum }
    };
    drawn.into_iter().map(sequence).collect()
}

/// A transaction of a file of transactions begins with a comment; a routine begins with CREATE.
fn is_sent_as_statements(application: &Application, procedure: &Procedure) -> bool {
    let text = application.sources.text(procedure.span).trim_start();
    text.starts_with("--") || text.starts_with("/*")
}

/// The statements of a transaction that comes statement by statement, and how their arguments are read.
fn statements(
    application: &Application,
    procedure: &Procedure,
    kinds: &mut BTreeMap<String, Vec<Kind>>,
) -> Result<Vec<StatementTemplate>, weir_sql::Diagnostic> {
    if !is_sent_as_statements(application, procedure) {
        return Ok(Vec::new());
    }
    let sent = procedure.body.iter().filter(|step| !matches!(step.kind, StepKind::Null));
    let mut templates = Vec::new();
    for step in sent {
        let form = Form::of_application(text_from(application, step.span));
        let sources: Vec<(Source, Kind)> = form.places.iter().map(|place| source(procedure, place)).collect();
        let read_as: Vec<Kind> = sources.iter().map(|(_, kind)| *kind).collect();
        if kinds.entry(form.text.clone()).or_insert_with(|| read_as.clone()) != &read_as {
            return Err(refusals::two_readings(step.span));
        }
        let arguments = sources.into_iter().map(|(source, _)| source).collect();
        templates.push(StatementTemplate { text: form.text, arguments });
    }
    Ok(templates)
}

/// The text from the begin of a statement up to the end of its transaction. (The end of its place is that of a text with numbers for names.)
fn text_from(application: &Application, span: Span) -> &str {
    let begins = application.procedures.iter().map(|procedure| procedure.span);
    let next = begins
        .filter(|other| other.file == span.file && other.start > span.start)
        .map(|other| other.start)
        .min();
    let file_end = application.sources.files.get(span.file as usize).map_or(0, |file| file.text.len() as u32);
    application.sources.text(Span { end: next.unwrap_or(file_end), ..span })
}

fn source(procedure: &Procedure, place: &Place) -> (Source, Kind) {
    let index = match place {
        Place::Constant(text) => return (Source::Constant(RoutingValue::Text(text.clone())), Kind::Other),
        Place::Number(number) => number.checked_sub(1),
        Place::Name(name) => procedure.parameters.iter().position(|parameter| parameter.name == *name),
    };
    match index.and_then(|index| Some((index, procedure.parameters.get(index)?))) {
        Some((index, parameter)) => (Source::Parameter(index), Kind::of(&parameter.ty)),
        None => (Source::Free, Kind::Other),
    }
}

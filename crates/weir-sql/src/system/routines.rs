//! Procedures, functions and triggers; and what every database has one of.

use pg_query::protobuf::node;
use weir_types::function::quote_identifier;
use weir_types::{SqlType, Value};

use super::deparse::Deparser;
use super::{Rows, split, text};
use crate::binder::expr_strings;
use crate::bound::{ParameterMode, Procedure, ProcedureKind};
use crate::catalog::{EXTENSIONS, Extension, TriggerTiming};
use crate::parse::{self, Piece};

/// A parameter as PostgreSQL shows it.
fn parameter(rows: &Rows<'_>, of: &Procedure, one: &crate::bound::Parameter, with_default: bool) -> String {
    let mode = match one.mode {
        ParameterMode::In if matches!(of.kind, ProcedureKind::Procedure) => "IN ",
        ParameterMode::In => "",
        ParameterMode::Out => "OUT ",
        ParameterMode::InOut => "INOUT ",
    };
    let name = if one.name.is_empty() { String::new() } else { format!("{} ", quote_identifier(&one.name)) };
    let deparser = Deparser { app: rows.app, columns: &[], pretty: false };
    let default = one
        .default
        .as_ref()
        .filter(|_| with_default)
        .map(|expr| format!(" DEFAULT {}", deparser.default(expr)));
    format!("{mode}{name}{}{}", one.ty.name(), default.unwrap_or_default())
}

/// PL/pgSQL's number, which is one of what every database has.
const PLPGSQL: i64 = 13563;

/// Options of a CREATE FUNCTION, besides its parameters.
struct Written {
    body: String,
    language: String,
    volatility: &'static str,
    is_strict: bool,
    /// There are no other options.
    is_plain: bool,
}

impl Written {
    fn of(statement: &str) -> Written {
        let mut written = Written {
            body: statement.to_owned(),
            language: "plpgsql".to_owned(),
            volatility: "v",
            is_strict: false,
            is_plain: false,
        };
        let parsed = parse::parse_statement(Piece::new(0, 0, statement));
        let Ok(parse::ParsedStatement { node: node::Node::CreateFunctionStmt(create), .. }) = parsed else {
            return written;
        };
        written.is_plain = create.sql_body.is_none();
        for option in &create.options {
            let Some(node::Node::DefElem(option)) = &option.node else { continue };
            match (option.defname.as_str(), option.arg.as_ref().and_then(|arg| arg.node.as_ref())) {
                ("as", Some(node::Node::List(list))) => {
                    written.body = expr_strings(&list.items).first().copied().unwrap_or_default().to_owned();
                }
                ("language", Some(node::Node::String(language))) => {
                    written.language.clone_from(&language.sval)
                }
                ("volatility", Some(node::Node::String(word))) => {
                    written.volatility = match word.sval.as_str() {
                        "immutable" => "i",
                        "stable" => "s",
                        _ => "v",
                    };
                }
                ("strict", Some(node::Node::Boolean(strict))) => written.is_strict = strict.boolval,
                _ => written.is_plain = false,
            }
        }
        written
    }
}

impl Rows<'_> {
    pub(super) fn routines(&mut self) {
        let simple = [(2, "heap", "t"), (403, "btree", "i")];
        for (number, name, kind) in simple {
            self.add("pg_am", &[("oid", Value::Int(number)), ("amname", text(name)), ("amtype", text(kind))]);
        }
        for (number, name) in [(12, "internal"), (13, "plpgsql"), (14, "sql")] {
            let is_language = Value::Bool(name == "plpgsql");
            self.add(
                "pg_language",
                &[("oid", Value::Int(number)), ("lanname", text(name)), ("lanispl", is_language)],
            );
        }
        let created =
            |one: &&Extension| one.name == "plpgsql" || self.app.catalog.extensions.contains(one.name);
        for extension in EXTENSIONS.iter().filter(created).collect::<Vec<_>>() {
            self.extension(extension);
        }
        for (number, name) in [(100, "default"), (950, "C")] {
            let given = [
                ("oid", Value::Int(number)),
                ("collname", text(name)),
                ("collcollate", text("C")),
                ("collctype", text("C")),
            ];
            self.add("pg_collation", &given);
        }
        for (number, name) in [(1663, "pg_default"), (1664, "pg_global")] {
            self.add("pg_tablespace", &[("oid", Value::Int(number)), ("spcname", text(name))]);
        }
        self.functions_of_types();
        for procedure in &self.app.procedures {
            if !procedure.synthesised {
                self.routine(procedure);
            }
        }
        self.triggers();
    }

    fn extension(&mut self, extension: &Extension) {
        let (number, namespace) = match extension.name {
            "plpgsql" => (PLPGSQL, 11),
            name => (self.numbers.of("extension", name), 2200),
        };
        let given = [
            ("oid", Value::Int(number)),
            ("extname", text(extension.name)),
            ("extowner", Value::Int(10)),
            ("extnamespace", Value::Int(namespace)),
            ("extrelocatable", Value::Bool(extension.name != "plpgsql")),
            ("extversion", text(extension.version)),
        ];
        self.add("pg_extension", &given);
        let described = [
            ("objoid", Value::Int(number)),
            ("classoid", Value::Int(self.numbers.relation("pg_catalog.pg_extension"))),
            ("objsubid", Value::Int(0)),
            ("description", text(extension.description)),
        ];
        self.add("pg_description", &described);
    }

    /// Input and output functions of types: drivers look for their existence.
    fn functions_of_types(&mut self) {
        let lines = include_str!("type_functions.txt").lines().filter(|line| !line.starts_with('#'));
        for line in lines {
            let words: Vec<&str> = line.split(' ').collect();
            let [number, name, result, volatility, strict, arguments] = words[..] else {
                panic!("a function of a type: {line}")
            };
            let number_of = |word: &str| {
                Value::Int(
                    word.parse().unwrap_or_else(|_| panic!("the number of a function or type: {line}")),
                )
            };
            let arguments: Vec<Value> = arguments.split(',').map(number_of).collect();
            let given = [
                ("oid", number_of(number)),
                ("proname", text(name)),
                ("pronamespace", Value::Int(11)),
                ("prolang", Value::Int(12)),
                ("procost", Value::Float4(1.0)),
                ("proisstrict", Value::Bool(strict == "t")),
                ("provolatile", text(volatility)),
                ("proparallel", text("s")),
                ("pronargs", Value::Int(arguments.len() as i64)),
                ("prorettype", number_of(result)),
                ("proargtypes", Value::array(SqlType::Int8, arguments)),
                ("prosrc", text(name)),
            ];
            self.add("pg_proc", &given);
        }
    }

    fn routine(&mut self, procedure: &Procedure) {
        let inputs: Vec<_> =
            procedure.parameters.iter().filter(|one| one.mode != ParameterMode::Out).collect();
        let types: Vec<Value> = inputs.iter().map(|one| Value::Int(self.numbers.of_type(&one.ty))).collect();
        let shown: Vec<String> = inputs.iter().map(|one| one.ty.name()).collect();
        let number = self.numbers.of("routine", &format!("{}({})", procedure.name, shown.join(",")));
        let (schema, name) = split(&procedure.name);
        let namespace = self.numbers.namespace(schema);
        let outs: Vec<_> = procedure.parameters.iter().filter(|one| one.mode != ParameterMode::In).collect();
        let (kind, returns, is_set, result) = match &procedure.kind {
            ProcedureKind::Procedure => ("p", SqlType::Void, false, None),
            ProcedureKind::Function { .. } if outs.len() > 1 => {
                ("f", SqlType::Record, false, Some("record".to_owned()))
            }
            ProcedureKind::Function { returns } => {
                let returns = outs.first().map_or(returns, |one| &one.ty);
                ("f", returns.clone(), false, Some(returns.name()))
            }
            ProcedureKind::SetReturningFunction { columns } => {
                let shown: Vec<String> = columns
                    .iter()
                    .map(|(name, ty)| format!("{} {}", quote_identifier(name), ty.name()))
                    .collect();
                ("f", SqlType::Record, true, Some(format!("TABLE({})", shown.join(", "))))
            }
        };
        let returned = self.numbers.of_type(&returns);
        let defaults = inputs.iter().filter(|one| one.default.is_some()).count();
        let names = procedure.parameters.iter().map(|one| text(&one.name)).collect();
        let setting = vec![text("default_transaction_isolation=serializable")];
        let settings = match procedure.serializable {
            true => Value::array(SqlType::Text, setting),
            false => Value::Null,
        };
        let Written { body, language, volatility, is_strict, is_plain } =
            Written::of(self.app.sources.text(procedure.span));
        let given = [
            ("oid", Value::Int(number)),
            ("proname", text(name)),
            ("pronamespace", Value::Int(namespace)),
            ("prokind", text(kind)),
            ("proretset", Value::Bool(is_set)),
            ("pronargs", Value::Int(inputs.len() as i64)),
            ("pronargdefaults", Value::Int(defaults as i64)),
            ("prorettype", Value::Int(returned)),
            ("proargtypes", Value::array(SqlType::Int8, types)),
            ("proargnames", Value::array(SqlType::Text, names)),
            ("prosrc", text(&body)),
            ("prolang", Value::Int(if language == "sql" { 14 } else { 13 })),
            ("provolatile", text(volatility)),
            ("proisstrict", Value::Bool(is_strict)),
            ("proconfig", settings),
        ];
        self.add("pg_proc", &given);
        let all = |with_default: bool| {
            let shown: Vec<String> = procedure
                .parameters
                .iter()
                .map(|one| parameter(self, procedure, one, with_default))
                .collect();
            shown.join(", ")
        };
        let (arguments, identity) = (all(true), all(false));
        // pg_get_functiondef: as PostgreSQL writes it, or as it was written if it says more than is known here.
        let written = match (is_plain && !is_set, &result) {
            (false, _) => self.app.sources.text(procedure.span).to_owned(),
            (true, result) => {
                let (word, tag) = match result {
                    Some(_) => ("FUNCTION", "function"),
                    None => ("PROCEDURE", "procedure"),
                };
                let returns = result.as_ref().map_or(String::new(), |result| format!("\n RETURNS {result}"));
                let mut attributes = Vec::new();
                attributes.extend(match volatility {
                    "i" => Some("IMMUTABLE"),
                    "s" => Some("STABLE"),
                    _ => None,
                });
                attributes.extend(is_strict.then_some("STRICT"));
                let attributes = match attributes.is_empty() {
                    true => String::new(),
                    false => format!("\n {}", attributes.join(" ")),
                };
                let set = match procedure.serializable {
                    true => "\n SET default_transaction_isolation TO 'serializable'",
                    false => "",
                };
                format!(
                    "CREATE OR REPLACE {word} {}.{}({arguments}){returns}\n LANGUAGE {language}{attributes}{set}\nAS ${tag}${body}${tag}$\n",
                    quote_identifier(schema),
                    quote_identifier(name)
                )
            }
        };
        self.definition(number, 0, &written, &written);
        self.definition(number, 1, &arguments, &arguments);
        self.definition(number, 2, &identity, &identity);
        if let Some(result) = result {
            self.definition(number, 3, &result, &result);
        }
    }

    fn triggers(&mut self) {
        for trigger in &self.app.catalog.triggers {
            let table = self.app.catalog.table(trigger.table);
            let relation = self.numbers.relation(&table.name);
            let number = self.numbers.of("trigger", &format!("{}.{}", table.name, trigger.name));
            let timing = match trigger.timing {
                TriggerTiming::Before => 2,
                TriggerTiming::After => 0,
                TriggerTiming::InsteadOf => 64,
            };
            let events = [
                (trigger.events.insert, 4),
                (trigger.events.delete, 8),
                (trigger.events.update, 16),
                (trigger.events.truncate, 32),
            ];
            let kind = events.iter().filter(|(is, _)| *is).map(|(_, bit)| bit).sum::<i64>()
                + timing
                + i64::from(trigger.each_row);
            let given = [
                ("oid", Value::Int(number)),
                ("tgrelid", Value::Int(relation)),
                ("tgname", text(&trigger.name)),
                ("tgtype", Value::Int(kind)),
            ];
            self.add("pg_trigger", &given);
            let written = self.app.sources.text(trigger.span).trim_end_matches(';').to_owned();
            self.definition(number, 0, &written, &written);
        }
    }
}

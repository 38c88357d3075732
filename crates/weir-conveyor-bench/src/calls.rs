//! Calls as statements: each procedure gets a function beside it that takes and gives text, so that one statement runs any call.

use std::fmt::Write;

use weir_bench::Call;
use weir_conveyor::schema::Sql;
use weir_conveyor_net::operation::Operation;
use weir_sql::Application;
use weir_sql::bound::{ParameterMode, Procedure, ProcedureKind};
use weir_types::text::to_text;

use crate::application::Bench;

/// The functions of all procedures, in a schema of their own.
pub fn functions(application: &Application) -> String {
    let mut text = String::from("CREATE SCHEMA weir_bench;\n");
    application.procedures.iter().for_each(|procedure| function(procedure, &mut text));
    text
}

fn function(procedure: &Procedure, text: &mut String) {
    let mut given = 0;
    let (mut arguments, mut outputs, mut declared) = (Vec::new(), Vec::new(), String::new());
    for (index, parameter) in procedure.parameters.iter().enumerate() {
        let input = (parameter.mode != ParameterMode::Out).then(|| {
            given += 1;
            format!("arguments[{given}]::{}", parameter.ty)
        });
        match (parameter.mode, input) {
            (ParameterMode::In, Some(input)) => arguments.push(input),
            (_, input) => {
                let initial = input.map(|input| format!(" := {input}")).unwrap_or_default();
                let _ = writeln!(declared, "  out_{index} {}{initial};", parameter.ty);
                arguments.push(format!("out_{index}"));
                outputs.push(format!("out_{index}"));
            }
        }
    }
    let name = &procedure.name;
    let call = match procedure.kind {
        ProcedureKind::Procedure => format!("CALL public.{name}({})", arguments.join(", ")),
        _ => format!("PERFORM public.{name}({})", arguments.join(", ")),
    };
    let result =
        if outputs.is_empty() { "NULL".into() } else { format!("ROW({})::text", outputs.join(", ")) };
    let _ = writeln!(
        text,
        "CREATE FUNCTION weir_bench.{name}(arguments text[]) RETURNS text LANGUAGE plpgsql AS $bench$\n\
         DECLARE\n{declared}BEGIN\n  {call};\n  RETURN {result};\nEND $bench$;"
    );
}

/// The values of a call as text, in the order of its IN and INOUT parameters.
pub fn arguments(application: &Application, call: &Call) -> Vec<Option<String>> {
    let procedure = &application.procedures[call.procedure];
    let inputs = procedure.parameters.iter().filter(|parameter| parameter.mode != ParameterMode::Out);
    let text = |(value, parameter): (&weir_types::Value, &weir_sql::bound::Parameter)| {
        (!value.is_null()).then(|| to_text(value, &parameter.ty))
    };
    call.args.iter().zip(inputs).map(text).collect()
}

/// The operation that runs a call.
pub fn operation(bench: &Bench, call: &Call, arguments: &[Option<String>]) -> Operation {
    let name = &bench.application.procedures[call.procedure].name;
    let text = format!("SELECT weir_bench.{name}($1::text::text[])");
    let mut statements = vec![Sql { text, parameters: vec![Some(array(arguments))] }];
    if bench.pause_ms > 0 {
        let seconds = bench.pause_ms as f64 / 1e3;
        statements
            .insert(0, Sql { text: format!("SELECT pg_sleep({seconds})::text"), parameters: Vec::new() });
    }
    Operation { statements }
}

/// The same operation as one text of statements.
pub fn text(bench: &Bench, call: &Call, arguments: &[Option<String>]) -> String {
    let literal = |text: &str| format!("E'{}'", text.replace('\\', "\\\\").replace('\'', "''"));
    let name = &bench.application.procedures[call.procedure].name;
    let called = format!("SELECT weir_bench.{name}({}::text[])", literal(&array(arguments)));
    match bench.pause_ms {
        0 => called,
        pause_ms => format!("SELECT pg_sleep({}); {called}", pause_ms as f64 / 1e3),
    }
}

/// A text array as PostgreSQL reads it.
fn array(values: &[Option<String>]) -> String {
    let element = |value: &Option<String>| match value {
        Some(text) => format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")),
        None => "NULL".to_owned(),
    };
    format!("{{{}}}", values.iter().map(element).collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_keeps_quotes_and_null() {
        let values = [Some("a\"b\\c".to_owned()), None, Some(String::new())];
        assert_eq!(array(&values), r#"{"a\"b\\c",NULL,""}"#);
    }
}

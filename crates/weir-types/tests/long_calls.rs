//! One call of a function or an operator may take long. It counts as the work that it is, so that a step of a shard gives it to a worker,
//! and a cancel ends it; what it makes counts as the statement's memory before the machine is short.

use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_types::function::{self, CallTypes};
use weir_types::interrupt::{Budget, Interrupts};
use weir_types::numeric::Numeric;
use weir_types::operator::{BinaryOp, resolve_binary, specialise};
use weir_types::text::parse_text;
use weir_types::{SqlError, SqlType, Value, pattern};

/// As a step of a shard has.
const BUDGET: Budget = Budget(64);

/// What takes longer without a look would keep others waiting.
const STEP_MAX: Duration = Duration::from_secs(2);

/// Whether the work was stopped because of its budget.
fn is_stopped<T>(work: impl FnOnce() -> Result<T, SqlError>) -> bool {
    let interrupts = Arc::new(Interrupts::default());
    let watch = interrupts.watch_within((1, 1, 0), Some(BUDGET));
    let begun = Instant::now();
    let result = work();
    assert!(begun.elapsed() < STEP_MAX, "{:?}", begun.elapsed());
    watch.has_spent_its_budget() && result.is_err()
}

fn operator(op: BinaryOp, left: &Value, right: &Value, ty: &SqlType) -> Result<Value, SqlError> {
    specialise(op, ty, ty)(left, right)
}

fn call(name: &str, args: &[Value], types: &[SqlType], result: &SqlType) -> Result<Value, SqlError> {
    let found = function::resolve(name, types).expect("there is such a function");
    found.function.call(args, &CallTypes { args: types, result })
}

fn numbers(count: i64, sign: i64) -> String {
    (1..=count).map(|n| (n * sign).to_string()).collect::<Vec<_>>().join(",")
}

#[test]
fn comparing_all_with_all_is_stopped() {
    let array =
        |sign| parse_text(&format!("{{{}}}", numbers(30_000, sign)), &SqlType::array_of(SqlType::Int4));
    let (left, right) = (array(1).unwrap(), array(-1).unwrap());
    let ty = SqlType::array_of(SqlType::Int4);
    assert!(is_stopped(|| operator(BinaryOp::Overlaps, &left, &right, &ty)));
    assert!(is_stopped(|| operator(BinaryOp::Contains, &left, &left, &ty)));
    let json = parse_text(&format!("[{}]", numbers(30_000, 1)), &SqlType::Jsonb).unwrap();
    assert!(is_stopped(|| operator(BinaryOp::Contains, &json, &json, &SqlType::Jsonb)));
}

#[test]
fn patterns_are_stopped() {
    let text = "a".repeat(300_000);
    let like = format!("%{}b%", "a".repeat(2_000));
    assert!(is_stopped(|| pattern::like(&text, &like, None, false)));
    let regex = format!("({})*c", "a{1,200}b|".repeat(40) + "d");
    assert!(is_stopped(|| pattern::regex_is_match(&text, &regex, false)));
    let lookahead = "(?=[^c]*c)a{100}b";
    assert!(is_stopped(|| pattern::regex_is_match(&text, lookahead, false)));
}

#[test]
fn numbers_of_many_digits_are_stopped_or_refused() {
    let digits = "9".repeat(10_000);
    let number: Numeric = digits.parse().unwrap();
    assert!(is_stopped(|| number.power(&"1.3".parse()?)));
    assert!(!is_stopped(|| "9".repeat(3_000_000).parse::<Numeric>()));
    assert_eq!(
        format!("0.{}", "3".repeat(3_000_000)).parse::<Numeric>().unwrap(),
        format!("0.{}", "3".repeat(16_383)).parse().unwrap()
    );
    assert_eq!("1e-16384".parse::<Numeric>().unwrap(), Numeric::ZERO);
    assert_eq!("5e-16384".parse::<Numeric>().unwrap(), "1e-16383".parse().unwrap());
    assert_eq!("000e-3".parse::<Numeric>().unwrap().to_string(), "0.000");
    assert!(format!("1{}", "0".repeat(131_072)).parse::<Numeric>().is_err());
    assert!(format!("1{}e-1", "0".repeat(131_072)).parse::<Numeric>().is_ok());
}

#[test]
fn values_of_many_parts_are_stopped() {
    let text = Value::text("a,".repeat(100_000));
    let types = [SqlType::Text, SqlType::Text];
    let list = SqlType::array_of(SqlType::Text);
    let comma = Value::text(",");
    assert!(is_stopped(|| call("string_to_array", &[text.clone(), comma.clone()], &types, &list)));
    let elements = numbers(100_000, 1);
    assert!(is_stopped(|| parse_text(&format!("{{{elements}}}"), &SqlType::array_of(SqlType::Int4))));
    assert!(is_stopped(|| parse_text(&format!("[{elements}]"), &SqlType::Jsonb)));
    let array = Value::array(SqlType::Text, vec![Value::text("x".repeat(1_000)); 100_000]);
    let types = [list, SqlType::Text];
    assert!(is_stopped(|| call("array_to_string", &[array, comma], &types, &SqlType::Text)));
}

#[test]
fn sets_of_characters_are_looked_up() {
    let (text, set) = (Value::text("z".repeat(300_000)), Value::text("y".repeat(300_000) + "z"));
    let types = [SqlType::Text, SqlType::Text, SqlType::Text];
    let begun = Instant::now();
    let args = [text.clone(), set.clone(), Value::text("")];
    assert_eq!(call("translate", &args, &types, &SqlType::Text).unwrap(), Value::text(""));
    assert_eq!(call("btrim", &args[..2], &types[..2], &SqlType::Text).unwrap(), Value::text(""));
    assert!(begun.elapsed() < STEP_MAX);
}

/// Characters of several bytes, by number.
#[test]
fn parts_of_texts_are_cut_by_characters() {
    let int = |n| Value::Int(n);
    let ask = |name: &str, args: &[Value]| {
        let types: Vec<SqlType> = args
            .iter()
            .map(|one| if matches!(one, Value::Int(_)) { SqlType::Int4 } else { SqlType::Text })
            .collect();
        match call(name, args, &types, &SqlType::Text) {
            Ok(Value::Text(text)) => text.to_string(),
            other => format!("{other:?}"),
        }
    };
    let text = Value::text("aéßz");
    for (expected, found) in [
        ("aé", ask("left", &[text.clone(), int(2)])),
        ("aéß", ask("left", &[text.clone(), int(-1)])),
        ("", ask("left", &[text.clone(), int(-9)])),
        ("ßz", ask("right", &[text.clone(), int(2)])),
        ("z", ask("right", &[text.clone(), int(-3)])),
        ("éß", ask("substr", &[text.clone(), int(2), int(2)])),
        ("", ask("substr", &[text.clone(), int(9), int(2)])),
        ("z", ask("substr", &[text.clone(), int(4)])),
        ("aéß", ask("rpad", &[text.clone(), int(3)])),
        ("éßéaéßz", ask("lpad", &[text.clone(), int(7), Value::text("éß")])),
        ("aéßzxyx", ask("rpad", &[text.clone(), int(7), Value::text("xy")])),
        ("aéßz", ask("rpad", &[text.clone(), int(7), Value::text("")])),
        ("z", ask("split_part", &[Value::text("é|ß|z"), Value::text("|"), int(-1)])),
        ("é", ask("split_part", &[Value::text("é|ß|z"), Value::text("|"), int(-3)])),
        ("", ask("split_part", &[Value::text("é|ß|z"), Value::text("|"), int(-4)])),
        ("ß", ask("split_part", &[Value::text("é|ß|z"), Value::text("|"), int(2)])),
    ] {
        assert_eq!(expected, found);
    }
    let _ = resolve_binary(BinaryOp::Concat, &SqlType::Text, &SqlType::Text);
}

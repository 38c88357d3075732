//! The expression language of `workload.toml`: text to tree, every node with its place.
//!
//! ```text
//! uniform(1, 10) * 2 + if(index = _lines and _rollback, items + 1, 0)
//! ```
//!
//! Numbers (`1_000`, `0.05`), texts in single quotes, `true`, `false`, `null`, names (`w_id`,
//! `orders.o_id`), calls, `+ - * / %`, comparisons, `and`, `or`, `not`, parentheses.

use weir_sql::{Diagnostic, Span};
use weir_types::SqlState;

#[derive(Clone, Debug)]
pub(crate) struct Expr {
    pub node: Node,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub(crate) enum Node {
    Int(i64),
    Decimal { mantissa: i64, scale: u8 },
    Text(String),
    Bool(bool),
    Null,
    Name(String),
    Call { function: String, args: Vec<Expr> },
    Negate(Box<Expr>),
    Not(Box<Expr>),
    Binary { op: Op, left: Box<Expr>, right: Box<Expr> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    And,
    Or,
}

/// One element of `for = […]`.
#[derive(Clone, Debug)]
pub(crate) enum LoopSyntax {
    /// Every row of a table whose section stands above.
    Rows { table: String, span: Span },
    /// `name in low..high`, both ends included.
    Range { name: String, low: Expr, high: Expr },
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Int(i64),
    Decimal { mantissa: i64, scale: u8 },
    Text(String),
    Name(String),
    Symbol(&'static str),
    End,
}

const SYMBOLS: [&str; 17] =
    ["..", "<>", "!=", "<=", ">=", "==", "<", ">", "=", "+", "-", "*", "/", "%", "(", ")", ","];

/// Nested deeper than this, an expression is refused instead of exhausting the stack.
const DEPTH_MAX: usize = 64;

struct Parser {
    tokens: Vec<(Token, Span)>,
    position: usize,
    depth: usize,
}

pub(crate) fn parse_expression(text: &str, file: u32, offset: u32) -> Result<Expr, Diagnostic> {
    let mut parser = Parser::new(text, file, offset)?;
    let expr = parser.or()?;
    parser.expect_end()?;
    Ok(expr)
}

pub(crate) fn parse_loop(text: &str, file: u32, offset: u32) -> Result<LoopSyntax, Diagnostic> {
    let mut parser = Parser::new(text, file, offset)?;
    let (token, span) = parser.next();
    let Token::Name(name) = token else {
        return Err(syntax(span, "a loop is a table's name or name in low..high"));
    };
    if parser.tokens[parser.position].0 == Token::End {
        return Ok(LoopSyntax::Rows { table: name, span });
    }
    let (token, span) = parser.next();
    if token != Token::Name("in".to_string()) {
        return Err(syntax(span, "expected in, as in d in 1..10"));
    }
    let low = parser.sum()?;
    parser.expect("..")?;
    let high = parser.sum()?;
    parser.expect_end()?;
    Ok(LoopSyntax::Range { name, low, high })
}

fn syntax(span: Span, message: impl Into<String>) -> Diagnostic {
    Diagnostic::new(SqlState::SYNTAX_ERROR, span, message)
}

fn number(text: &str, span: Span) -> Result<Token, Diagnostic> {
    let digits: String = text.chars().filter(|c| *c != '_').collect();
    let too_long = |_| syntax(span, format!("{text} has too many digits (18 are the most)"));
    match digits.split_once('.') {
        None => Ok(Token::Int(digits.parse().map_err(too_long)?)),
        Some((whole, fraction)) if fraction.len() <= 18 => Ok(Token::Decimal {
            mantissa: format!("{whole}{fraction}").parse().map_err(too_long)?,
            scale: fraction.len() as u8,
        }),
        Some(_) => Err(syntax(span, format!("{text} has more than 18 decimals"))),
    }
}

fn tokens(text: &str, file: u32, offset: u32) -> Result<Vec<(Token, Span)>, Diagnostic> {
    let bytes = text.as_bytes();
    let span =
        |start: usize, end: usize| Span { file, start: offset + start as u32, end: offset + end as u32 };
    let run = |from: usize, accept: &dyn Fn(u8) -> bool| {
        bytes[from..].iter().position(|b| !accept(*b)).map_or(bytes.len(), |length| from + length)
    };
    let mut result = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let start = at;
        let byte = bytes[at];
        let token = if byte.is_ascii_whitespace() {
            at += 1;
            continue;
        } else if byte.is_ascii_digit() {
            let is_digit = |b: u8| b.is_ascii_digit() || b == b'_';
            at = run(at, &is_digit);
            // In 1..10 the dot belongs to the range.
            if bytes.get(at) == Some(&b'.') && bytes.get(at + 1).is_some_and(u8::is_ascii_digit) {
                at = run(at + 1, &is_digit);
            }
            number(&text[start..at], span(start, at))?
        } else if byte.is_ascii_alphabetic() || byte == b'_' {
            let is_name = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
            at = run(at, &is_name);
            let after_dot = bytes.get(at + 1).is_some_and(|b| b.is_ascii_alphabetic() || *b == b'_');
            if bytes.get(at) == Some(&b'.') && after_dot {
                at = run(at + 1, &is_name);
            }
            Token::Name(text[start..at].to_string())
        } else if byte == b'\'' {
            let Some(length) = text[at + 1..].find('\'') else {
                return Err(syntax(span(start, bytes.len()), "a text without its closing quote"));
            };
            at += length + 2;
            Token::Text(text[start + 1..at - 1].to_string())
        } else if let Some(symbol) = SYMBOLS.iter().find(|symbol| text[at..].starts_with(**symbol)) {
            at += symbol.len();
            Token::Symbol(symbol)
        } else {
            let character = text[at..].chars().next().unwrap_or(' ');
            let end = at + character.len_utf8();
            return Err(syntax(span(at, end), format!("unexpected character {character}")));
        };
        result.push((token, span(start, at)));
    }
    result.push((Token::End, span(bytes.len(), bytes.len())));
    Ok(result)
}

impl Parser {
    fn new(text: &str, file: u32, offset: u32) -> Result<Parser, Diagnostic> {
        Ok(Parser { tokens: tokens(text, file, offset)?, position: 0, depth: 0 })
    }

    fn peek(&self) -> &Token {
        &self.tokens[self.position].0
    }

    fn next(&mut self) -> (Token, Span) {
        let token = self.tokens[self.position].clone();
        if self.position + 1 < self.tokens.len() {
            self.position += 1;
        }
        token
    }

    fn take(&mut self, symbol: &str) -> bool {
        let found = match self.peek() {
            Token::Symbol(found) => *found == symbol,
            Token::Name(name) => name == symbol,
            _ => false,
        };
        if found {
            self.next();
        }
        found
    }

    fn expect(&mut self, symbol: &str) -> Result<(), Diagnostic> {
        let span = self.tokens[self.position].1;
        if self.take(symbol) { Ok(()) } else { Err(syntax(span, format!("expected {symbol}"))) }
    }

    fn expect_end(&mut self) -> Result<(), Diagnostic> {
        match self.next() {
            (Token::End, _) => Ok(()),
            (_, span) => Err(syntax(span, "expected an operator or the end of the expression")),
        }
    }

    fn binary(op: Op, left: Expr, right: Expr) -> Expr {
        let span = Span { end: right.span.end, ..left.span };
        Expr { node: Node::Binary { op, left: Box::new(left), right: Box::new(right) }, span }
    }

    fn chain(
        &mut self,
        operators: &[(&str, Op)],
        operand: fn(&mut Parser) -> Result<Expr, Diagnostic>,
    ) -> Result<Expr, Diagnostic> {
        let mut left = operand(self)?;
        while let Some((_, op)) = operators.iter().find(|(symbol, _)| self.take(symbol)) {
            let right = operand(self)?;
            left = Parser::binary(*op, left, right);
        }
        Ok(left)
    }

    fn or(&mut self) -> Result<Expr, Diagnostic> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            let span = self.tokens[self.position].1;
            return Err(syntax(span, format!("nested deeper than {DEPTH_MAX} levels")));
        }
        let result = self.chain(&[("or", Op::Or)], Parser::and);
        self.depth -= 1;
        result
    }

    fn and(&mut self) -> Result<Expr, Diagnostic> {
        self.chain(&[("and", Op::And)], Parser::not)
    }

    fn not(&mut self) -> Result<Expr, Diagnostic> {
        let span = self.tokens[self.position].1;
        let mut negations = 0;
        while self.take("not") {
            negations += 1;
        }
        let mut expr = self.comparison()?;
        if negations % 2 == 1 {
            let span = Span { end: expr.span.end, ..span };
            expr = Expr { node: Node::Not(Box::new(expr)), span };
        }
        Ok(expr)
    }

    fn comparison(&mut self) -> Result<Expr, Diagnostic> {
        let left = self.sum()?;
        let operators = [
            ("=", Op::Equal),
            ("==", Op::Equal),
            ("<>", Op::NotEqual),
            ("!=", Op::NotEqual),
            ("<=", Op::LessOrEqual),
            ("<", Op::Less),
            (">=", Op::GreaterOrEqual),
            (">", Op::Greater),
        ];
        match operators.iter().find(|(symbol, _)| self.take(symbol)) {
            Some((_, op)) => Ok(Parser::binary(*op, left, self.sum()?)),
            None => Ok(left),
        }
    }

    fn sum(&mut self) -> Result<Expr, Diagnostic> {
        self.chain(&[("+", Op::Add), ("-", Op::Subtract)], Parser::product)
    }

    fn product(&mut self) -> Result<Expr, Diagnostic> {
        self.chain(&[("*", Op::Multiply), ("/", Op::Divide), ("%", Op::Modulo)], Parser::unary)
    }

    fn unary(&mut self) -> Result<Expr, Diagnostic> {
        let span = self.tokens[self.position].1;
        let mut negations = 0;
        while self.take("-") {
            negations += 1;
        }
        let mut expr = self.primary()?;
        if negations % 2 == 1 {
            let span = Span { end: expr.span.end, ..span };
            expr = Expr { node: Node::Negate(Box::new(expr)), span };
        }
        Ok(expr)
    }

    fn primary(&mut self) -> Result<Expr, Diagnostic> {
        let (token, span) = self.next();
        let node = match token {
            Token::Int(value) => Node::Int(value),
            Token::Decimal { mantissa, scale } => Node::Decimal { mantissa, scale },
            Token::Text(text) => Node::Text(text),
            Token::Name(name) if name == "true" => Node::Bool(true),
            Token::Name(name) if name == "false" => Node::Bool(false),
            Token::Name(name) if name == "null" => Node::Null,
            Token::Name(name) if self.take("(") => {
                let args = self.arguments()?;
                let end = self.tokens[self.position - 1].1.end;
                return Ok(Expr { node: Node::Call { function: name, args }, span: Span { end, ..span } });
            }
            Token::Name(name) => Node::Name(name),
            Token::Symbol("(") => {
                let inner = self.or()?;
                self.expect(")")?;
                return Ok(inner);
            }
            _ => return Err(syntax(span, "expected a number, a 'text', a name or a call")),
        };
        Ok(Expr { node, span })
    }

    fn arguments(&mut self) -> Result<Vec<Expr>, Diagnostic> {
        let mut args = Vec::new();
        if self.take(")") {
            return Ok(args);
        }
        loop {
            args.push(self.or()?);
            if self.take(")") {
                return Ok(args);
            }
            self.expect(",")?;
        }
    }
}

//! `to_char` and `to_number` of numbers, after PostgreSQL's own algorithm, whose corner cases no
//! description covers.

use super::ordinal_suffix;
use crate::error::{SqlError, SqlState};
use crate::numeric::Numeric;

/// The number that is printed.
pub(super) enum Source<'a> {
    Integer(i64),
    Exact(&'a Numeric),
    /// With so many significant digits.
    Float(f64, usize),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Node {
    Nine,
    Zero,
    Point,
    Comma,
    Currency,
    Minus,
    Plus,
    Sign,
    Roman {
        upper: bool,
    },
    Ordinal {
        upper: bool,
    },
    /// Patterns that only set a flag.
    Nothing,
    Plain(char),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum LocaleSign {
    None,
    Before,
    After,
}

#[derive(Debug)]
struct Template {
    nodes: Vec<Node>,
    pre: usize,
    post: usize,
    multi: usize,
    fill: bool,
    zero: bool,
    zero_start: usize,
    zero_end: usize,
    decimal: bool,
    locale_sign: LocaleSign,
    pre_at_sign: usize,
    minus: bool,
    plus: bool,
    bracket: bool,
    roman: bool,
    scientific: bool,
    shift: bool,
}

fn refuse(message: &str) -> SqlError {
    SqlError::new(SqlState::SYNTAX_ERROR, message)
}

const PATTERNS: [&str; 18] =
    ["EEEE", "FM", "MI", "PL", "PR", "RN", "SG", "SP", "TH", ",", ".", "0", "9", "B", "D", "G", "L", "S"];

impl Template {
    fn parse(template: &str) -> Result<Template, SqlError> {
        let mut parsed = Template {
            nodes: Vec::new(),
            pre: 0,
            post: 0,
            multi: 0,
            fill: false,
            zero: false,
            zero_start: 0,
            zero_end: 0,
            decimal: false,
            locale_sign: LocaleSign::None,
            pre_at_sign: 0,
            minus: false,
            plus: false,
            bracket: false,
            roman: false,
            scientific: false,
            shift: false,
        };
        let mut rest = template;
        while let Some(c) = rest.chars().next() {
            let known = PATTERNS.iter().chain(&["V"]).find(|pattern| {
                rest.get(..pattern.len())
                    .is_some_and(|start| start == **pattern || start == pattern.to_ascii_lowercase())
            });
            if let Some(pattern) = known {
                let upper = rest.starts_with(*pattern);
                rest = &rest[pattern.len()..];
                let node = parsed.pattern(pattern, upper)?;
                parsed.nodes.push(node);
            } else if c == '"' {
                rest = &rest[1..];
                while let Some(c) = rest.chars().next() {
                    rest = &rest[c.len_utf8()..];
                    if c == '"' {
                        break;
                    }
                    parsed.nodes.push(Node::Plain(c));
                }
            } else {
                rest = &rest[c.len_utf8()..];
                parsed.nodes.push(Node::Plain(c));
            }
        }
        Ok(parsed)
    }

    fn pattern(&mut self, pattern: &str, upper: bool) -> Result<Node, SqlError> {
        if self.scientific && pattern != "EEEE" {
            return Err(refuse("\"EEEE\" must be the last pattern used"));
        }
        Ok(match pattern {
            "9" => {
                if self.bracket {
                    return Err(refuse("\"9\" must be ahead of \"PR\""));
                }
                if self.shift {
                    self.multi += 1;
                } else if self.decimal {
                    self.post += 1;
                } else {
                    self.pre += 1;
                }
                Node::Nine
            }
            "0" => {
                if self.bracket {
                    return Err(refuse("\"0\" must be ahead of \"PR\""));
                }
                if !self.zero && !self.decimal {
                    self.zero = true;
                    self.zero_start = self.pre + 1;
                }
                if self.decimal {
                    self.post += 1;
                } else {
                    self.pre += 1;
                }
                self.zero_end = self.pre + self.post;
                Node::Zero
            }
            "." | "D" => {
                if self.decimal {
                    return Err(refuse("multiple decimal points"));
                }
                if self.shift {
                    return Err(refuse("cannot use \"V\" and decimal point together"));
                }
                self.decimal = true;
                Node::Point
            }
            "," | "G" => Node::Comma,
            "L" => Node::Currency,
            "S" => self.sign_pattern()?,
            "MI" | "PL" | "SG" => {
                if self.locale_sign != LocaleSign::None {
                    return Err(refuse(&format!("cannot use \"S\" and \"{pattern}\" together")));
                }
                self.minus |= pattern != "PL";
                self.plus |= pattern != "MI";
                match pattern {
                    "MI" => Node::Minus,
                    "PL" => Node::Plus,
                    _ => Node::Sign,
                }
            }
            "PR" => {
                if self.locale_sign != LocaleSign::None || self.plus || self.minus {
                    return Err(refuse("cannot use \"PR\" and \"S\"/\"PL\"/\"MI\"/\"SG\" together"));
                }
                self.bracket = true;
                Node::Nothing
            }
            "RN" => {
                self.roman = true;
                Node::Roman { upper }
            }
            "TH" => Node::Ordinal { upper },
            "EEEE" => {
                let others = self.fill
                    || self.locale_sign != LocaleSign::None
                    || self.bracket
                    || self.minus
                    || self.plus
                    || self.roman
                    || self.shift;
                if others {
                    return Err(refuse("\"EEEE\" is incompatible with other formats").with_detail(
                        "\"EEEE\" may only be used together with digit and decimal point patterns.",
                    ));
                }
                self.scientific = true;
                Node::Nothing
            }
            "V" => {
                if self.decimal {
                    return Err(refuse("cannot use \"V\" and decimal point together"));
                }
                self.shift = true;
                Node::Nothing
            }
            "FM" => {
                self.fill = true;
                Node::Nothing
            }
            _ => Node::Nothing,
        })
    }

    fn sign_pattern(&mut self) -> Result<Node, SqlError> {
        if self.locale_sign != LocaleSign::None {
            return Err(refuse("cannot use \"S\" twice"));
        }
        if self.plus || self.minus || self.bracket {
            return Err(refuse("cannot use \"S\" and \"PL\"/\"MI\"/\"SG\"/\"PR\" together"));
        }
        if self.decimal {
            self.locale_sign = LocaleSign::After;
        } else {
            self.locale_sign = LocaleSign::Before;
            self.pre_at_sign = self.pre;
        }
        Ok(Node::Nothing)
    }
}

fn roman(number: i64) -> String {
    const PARTS: [(i64, &str); 13] = [
        (1000, "M"),
        (900, "CM"),
        (500, "D"),
        (400, "CD"),
        (100, "C"),
        (90, "XC"),
        (50, "L"),
        (40, "XL"),
        (10, "X"),
        (9, "IX"),
        (5, "V"),
        (4, "IV"),
        (1, "I"),
    ];
    if !(1..=3999).contains(&number) {
        return "#".repeat(15);
    }
    let (mut rest, mut out) = (number, String::new());
    for (value, letters) in PARTS {
        while rest >= value {
            out.push_str(letters);
            rest -= value;
        }
    }
    out
}

pub(super) fn print(source: Source<'_>, template: &str) -> Result<String, SqlError> {
    let mut template = Template::parse(template)?;
    if template.scientific {
        return Ok(scientific(&source, template.post));
    }
    if template.roman {
        let number = match source {
            Source::Integer(int) => Some(int),
            Source::Exact(numeric) => numeric.to_i64(),
            Source::Float(float, _) => Some(float.round_ties_even() as i64),
        };
        let digits = number.map_or_else(|| "#".repeat(15), roman);
        return Ok(Printer::new(&template, digits, 0, '+').print());
    }
    template.pre += template.multi;
    let shift = 10f64.powi(template.multi as i32);
    let printed = match source {
        Source::Integer(int) => {
            let shifted = Numeric::from_i64(int).mul(&power_of_ten(template.multi)?)?;
            shifted.round(template.post as i32).to_string()
        }
        Source::Exact(numeric) => {
            numeric.mul(&power_of_ten(template.multi)?)?.round(template.post as i32).to_string()
        }
        Source::Float(float, digits) => {
            let value = float * shift;
            if !value.is_finite() {
                crate::floats::print_f64(value)
            } else {
                let integer = format!("{:.0}", value.abs()).len();
                if integer >= digits {
                    template.post = 0;
                } else if integer + template.post > digits {
                    template.post = digits - integer;
                }
                format!("{value:.*}", template.post)
            }
        }
    };
    let (sign, digits) = match printed.strip_prefix('-') {
        Some(rest) => ('-', rest.to_owned()),
        None => ('+', printed),
    };
    let integer_digits = digits.find('.').unwrap_or(digits.len());
    if integer_digits > template.pre {
        let hashes = format!("{}.{}", "#".repeat(template.pre), "#".repeat(template.post));
        return Ok(Printer::new(&template, hashes, 0, sign).print());
    }
    let spaces = template.pre - integer_digits;
    Ok(Printer::new(&template, digits, spaces, sign).print())
}

fn power_of_ten(exponent: usize) -> Result<Numeric, SqlError> {
    format!("1e{exponent}").parse()
}

fn scientific(source: &Source<'_>, post: usize) -> String {
    let float = match source {
        Source::Integer(int) => *int as f64,
        Source::Exact(numeric) => numeric.to_f64(),
        Source::Float(float, _) => *float,
    };
    if !float.is_finite() {
        return "#".repeat(post + 7);
    }
    let printed = format!("{float:.post$e}");
    let (mantissa, exponent) = printed.split_once('e').unwrap_or((&printed, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let lead = if float < 0.0 { "" } else { " " };
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{lead}{mantissa}e{sign}{:02}", exponent.abs())
}

/// PostgreSQL's NUM_processor.
struct Printer<'a> {
    template: &'a Template,
    number: Vec<char>,
    /// Next character of `number`.
    at: usize,
    spaces: usize,
    sign: char,
    sign_written: bool,
    locale_sign: LocaleSign,
    bracket: bool,
    /// The last character of `number` that fill mode keeps.
    last_relevant: Option<usize>,
    zero_start: usize,
    count: usize,
    current: usize,
    /// A digit was written.
    in_number: bool,
    out: String,
}

impl<'a> Printer<'a> {
    fn new(template: &'a Template, number: String, spaces: usize, sign: char) -> Printer<'a> {
        let number: Vec<char> = number.chars().collect();
        let mut bracket = template.bracket;
        let mut locale_sign = template.locale_sign;
        let sign_written;
        if template.plus || template.minus {
            sign_written = !template.plus || template.minus;
        } else {
            if sign != '-' && template.fill {
                bracket = false;
            }
            sign_written = sign == '+' && template.fill && locale_sign == LocaleSign::None;
            if locale_sign == LocaleSign::Before && template.pre == template.pre_at_sign {
                locale_sign = LocaleSign::After;
            }
        }
        let mut last_relevant = None;
        if template.fill
            && template.decimal
            && let Some(point) = number.iter().position(|c| *c == '.')
        {
            let digits = number.iter().enumerate().skip(point + 1);
            let mut last = digits.filter(|(_, c)| **c != '0').map(|(i, _)| i).next_back().unwrap_or(point);
            if template.zero_end > spaces {
                last = last.max((number.len() - 1).min(template.zero_end - spaces));
            }
            last_relevant = Some(last);
        }
        let mut count = (template.post + template.pre).saturating_sub(1);
        if !sign_written && spaces == 0 {
            count += 1;
        }
        Printer {
            template,
            number,
            at: 0,
            spaces,
            sign,
            sign_written,
            locale_sign,
            bracket,
            last_relevant,
            zero_start: template.zero_start.saturating_sub(1),
            count,
            current: 0,
            in_number: false,
            out: String::new(),
        }
    }

    fn print(mut self) -> String {
        let fill = self.template.fill;
        let template = self.template;
        for node in &template.nodes {
            match *node {
                Node::Nine | Node::Zero | Node::Point => {
                    if !template.roman {
                        self.digit(*node);
                    }
                }
                Node::Comma if self.in_number => self.out.push(','),
                Node::Comma if !fill => self.out.push(' '),
                Node::Comma => {}
                Node::Currency => self.out.push(' '),
                Node::Minus if self.sign == '-' => self.out.push('-'),
                Node::Plus if self.sign == '+' => self.out.push('+'),
                Node::Minus | Node::Plus if !fill => self.out.push(' '),
                Node::Minus | Node::Plus => {}
                Node::Sign => self.out.push(self.sign),
                Node::Roman { upper } => {
                    let digits: String = self.number.iter().collect();
                    let digits = if upper { digits } else { digits.to_lowercase() };
                    self.out.push_str(&if fill { digits } else { format!("{digits:>15}") });
                }
                Node::Ordinal { upper } => {
                    let plain = !template.roman && self.sign != '-' && !template.decimal;
                    if plain && self.number.first() != Some(&'#') {
                        let digits: String = self.number.iter().collect();
                        self.out.push_str(ordinal_suffix(&digits, upper));
                    }
                }
                Node::Nothing => {}
                Node::Plain(c) => self.out.push(c),
            }
        }
        self.out
    }

    fn relevant_is_point(&self) -> bool {
        self.last_relevant.is_some_and(|last| self.number[last] == '.')
    }

    /// A zero before the point that `9` does not show.
    fn hidden_zero(&self) -> bool {
        !self.template.zero && self.at == 0 && self.number.first() == Some(&'0') && self.template.post != 0
    }

    fn write_sign(&mut self) {
        let reached = self.current >= self.spaces || (self.template.zero && self.zero_start == self.current);
        if self.sign_written || !reached || (self.hidden_zero() && !self.relevant_is_point()) {
            return;
        }
        if self.locale_sign != LocaleSign::None {
            if self.locale_sign == LocaleSign::Before {
                self.out.push(self.sign);
                self.sign_written = true;
            }
            return;
        }
        if self.bracket {
            self.out.push(if self.sign == '+' { ' ' } else { '<' });
        } else if self.sign == '-' {
            self.out.push('-');
        } else if !self.template.fill {
            self.out.push(' ');
        }
        self.sign_written = true;
    }

    fn digit(&mut self, node: Node) {
        self.write_sign();
        let template = self.template;
        let padding = self.current < self.spaces;
        if padding && (self.zero_start > self.current || !template.zero) {
            if !template.fill {
                self.out.push(' ');
            }
        } else if padding {
            self.out.push('0');
            self.in_number = true;
        } else {
            match self.number.get(self.at).copied() {
                Some('.') if (!self.relevant_is_point() || template.fill) => {
                    self.out.push('.');
                }
                Some(c) => {
                    let trailing = self.last_relevant.is_some_and(|last| self.at > last);
                    if trailing && node != Node::Zero {
                        // Fill mode drops it.
                    } else if self.hidden_zero() {
                        if !template.fill {
                            self.out.push(' ');
                        } else if self.relevant_is_point() {
                            self.out.push('0');
                        }
                    } else {
                        self.out.push(c);
                        self.in_number = true;
                    }
                }
                None => {}
            }
            if self.at < self.number.len() {
                self.at += 1;
            }
        }
        let mut end = self.count + usize::from(self.spaces > 0) + usize::from(template.decimal);
        if self.last_relevant.is_some_and(|last| last == self.at) {
            end = self.current;
        }
        if self.current + 1 == end {
            if self.sign_written && self.bracket {
                self.out.push(if self.sign == '+' { ' ' } else { '>' });
            } else if self.locale_sign == LocaleSign::After {
                self.out.push(self.sign);
            }
        }
        self.current += 1;
    }
}

/// `to_number`: the digits and the point of the text as far as the template goes; group separators,
/// currency signs and other characters of the template are skipped.
pub(super) fn read(text: &str, template: &str) -> Result<Numeric, SqlError> {
    let template = Template::parse(template)?;
    if template.scientific {
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, "\"EEEE\" not supported for input"));
    }
    if template.roman {
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, "\"RN\" not supported for input"));
    }
    let (mut digits, mut negative) = (String::new(), false);
    let (mut before, mut after) = (0, 0);
    for c in text.chars() {
        match c {
            '-' => negative = true,
            '<' if template.bracket => negative = true,
            '0'..='9' if digits.contains('.') => {
                after += 1;
                if after <= template.post {
                    digits.push(c);
                }
            }
            '0'..='9' => {
                before += 1;
                if before <= template.pre + template.multi {
                    digits.push(c);
                }
            }
            '.' if template.decimal && !digits.contains('.') => digits.push('.'),
            _ => {}
        }
    }
    let digits = digits.trim_end_matches('.');
    if !digits.contains(|c: char| c.is_ascii_digit()) {
        return Err(SqlError::new(
            SqlState::INVALID_TEXT_REPRESENTATION,
            format!("invalid input syntax for type numeric: \"{}\"", " "),
        ));
    }
    let number: Numeric = format!("{}{digits}", if negative { "-" } else { "" }).parse()?;
    if template.multi > 0 {
        return number.div(&power_of_ten(template.multi)?);
    }
    Ok(number)
}

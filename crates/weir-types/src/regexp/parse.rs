//! Text of a regular expression to its tree: PostgreSQL's advanced ones (regcomp.c of Henry Spencer's library).
//!
//! It decides which parts prefer a long and which a short match; it matches nothing.

use super::{Assert, Ast, Class, Flags, Item, Newlines, Op, Set, Sub};
use crate::error::{SqlError, SqlState};

/// Largest bound, as in PostgreSQL.
const REPEATS_MAX: u32 = 255;
/// Parentheses and what stands behind them, before the expression is too complex.
const DEPTH_MAX: usize = 200;

/// It prefers the longest match.
pub(super) const LONGER: u8 = 1;
/// It prefers the shortest match.
pub(super) const SHORTER: u8 = 2;
/// Parts of it have different preferences.
const MIXED: u8 = 4;
const CAPTURES: u8 = 8;
const REFERS: u8 = 16;

fn upward(flags: u8) -> u8 {
    flags & (MIXED | CAPTURES | REFERS) | (flags << 2) & (flags << 1) & MIXED
}

fn combined(one: u8, other: u8) -> u8 {
    let preference = |flags: u8| flags & (LONGER | SHORTER);
    let chosen = if preference(one) != 0 { preference(one) } else { preference(other) };
    upward(one | other) | chosen
}

fn is_messy(flags: u8) -> bool {
    flags & (MIXED | CAPTURES | REFERS) != 0
}

pub(super) fn invalid(reason: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_REGULAR_EXPRESSION, format!("invalid regular expression: {reason}"))
}

fn unbalanced() -> SqlError {
    invalid("parentheses () not balanced")
}

fn bad_operand() -> SqlError {
    invalid("quantifier operand invalid")
}

fn bad_escape() -> SqlError {
    invalid("invalid escape \\ sequence")
}

fn open_bracket() -> SqlError {
    invalid("brackets [] not balanced")
}

fn bad_range() -> SqlError {
    invalid("invalid character range")
}

fn bad_count() -> SqlError {
    invalid("invalid repetition count(s)")
}

pub(super) fn too_complex() -> SqlError {
    invalid("regular expression is too complex")
}

pub(super) struct Parsed {
    pub tree: Sub,
    pub groups: usize,
    pub flags: Flags,
    pub refers: bool,
}

pub(super) fn parse(pattern: &str, flags: Flags) -> Result<Parsed, SqlError> {
    let mut parser = Parser {
        chars: pattern.chars().collect(),
        at: 0,
        flags,
        groups: Vec::new(),
        depth: 0,
        within_look: false,
        refers: false,
    };
    parser.director()?;
    let tree = match parser.flags.literal {
        true => {
            let rest = parser.chars[parser.at..].iter();
            let ast = Ast::Concat(rest.map(|c| Ast::Set(Set::of(*c))).collect());
            Sub { op: Op::Plain, flags: 0, ast }
        }
        false => parser.alternatives(false)?,
    };
    Ok(Parsed { tree, groups: parser.groups.len(), flags: parser.flags, refers: parser.refers })
}

struct Parser {
    chars: Vec<char>,
    at: usize,
    flags: Flags,
    /// By number: what the group matches, once it is closed.
    groups: Vec<Option<Ast>>,
    depth: usize,
    /// Parentheses capture nothing there.
    within_look: bool,
    refers: bool,
}

enum Escaped {
    Char(char),
    Class(Class, bool),
    Assert(Assert),
    Group(usize),
}

/// An atom that is to be repeated.
enum Atom {
    Plain(Ast),
    Group(Sub),
    Reference(usize),
}

impl Parser {
    /// `***:`, `***=` and `(?letters)`.
    fn director(&mut self) -> Result<(), SqlError> {
        if self.flags.literal {
            return Ok(());
        }
        if self.starts("***=") {
            self.at = 4;
            self.flags.literal = true;
            return Ok(());
        }
        if self.starts("***:") {
            self.at = 4;
        } else if self.starts("***") {
            return Err(invalid("invalid regexp (reg version 0.8)"));
        }
        let letters = self.chars.get(self.at + 2);
        if !self.starts("(?") || !letters.is_some_and(char::is_ascii_alphabetic) {
            return Ok(());
        }
        self.at += 2;
        while let Some(c) = self.next_char() {
            match c {
                ')' => return Ok(()),
                'q' => self.flags.literal = true,
                c => self.flags.set(c).map_err(|_| invalid("invalid embedded option"))?,
            }
        }
        Err(invalid("invalid embedded option"))
    }

    fn starts(&self, text: &str) -> bool {
        text.chars().enumerate().all(|(i, c)| self.chars.get(self.at + i) == Some(&c))
    }

    fn next_char(&mut self) -> Option<char> {
        let c = self.chars.get(self.at).copied();
        self.at += usize::from(c.is_some());
        c
    }

    /// Comments, and blanks of the expanded syntax.
    fn skip(&mut self) -> Result<(), SqlError> {
        loop {
            if self.starts("(?#") {
                while self.chars.get(self.at).is_some_and(|c| *c != ')') {
                    self.at += 1;
                }
                self.next_char();
                continue;
            }
            match self.chars.get(self.at) {
                Some(c) if self.flags.expanded && c.is_whitespace() => self.at += 1,
                Some('#') if self.flags.expanded => {
                    while self.chars.get(self.at).is_some_and(|c| *c != '\n') {
                        self.at += 1;
                    }
                }
                _ => return Ok(()),
            }
        }
    }

    fn peek(&mut self) -> Result<Option<char>, SqlError> {
        self.skip()?;
        Ok(self.chars.get(self.at).copied())
    }

    /// Up to the end, or to the parenthesis that closes it, which is taken.
    fn alternatives(&mut self, within: bool) -> Result<Sub, SqlError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(too_complex());
        }
        let mut flags = LONGER;
        let mut branches = Vec::new();
        loop {
            let branch = self.branch(within)?;
            flags |= upward(flags | branch.flags);
            branches.push(branch);
            if self.peek()? != Some('|') {
                break;
            }
            self.at += 1;
        }
        self.depth -= 1;
        match (within, self.peek()?) {
            (true, Some(')')) => self.at += 1,
            (false, None) => {}
            _ => return Err(unbalanced()),
        }
        if branches.len() == 1 {
            return Ok(branches.remove(0));
        }
        let ast = Ast::Alternatives(branches.iter().map(|branch| branch.ast.clone()).collect());
        let op = if is_messy(flags) { Op::Alternatives(branches) } else { Op::Plain };
        Ok(Sub { op, flags, ast })
    }

    fn branch(&mut self, within: bool) -> Result<Sub, SqlError> {
        let (mut plain, mut flags) = (Vec::new(), 0);
        loop {
            match self.peek()? {
                None | Some('|') => break,
                Some(')') if within => break,
                Some(')') => return Err(unbalanced()),
                _ => {}
            }
            let Some(atom) = self.atom(&mut plain)? else { continue };
            let (min, max, preference) = self.quantifier()?;
            if max == Some(0) {
                continue;
            }
            match atom {
                Atom::Plain(ast) if !is_messy(upward(flags | preference)) => {
                    plain.push(repeated(ast, min, max));
                    flags |= preference;
                }
                Atom::Plain(ast) => {
                    let atom = Sub { op: Op::Plain, flags: 0, ast };
                    return self.rest((plain, flags), atom, (min, max, preference), within);
                }
                Atom::Group(atom) => {
                    return self.rest((plain, flags), atom, (min, max, preference), within);
                }
                Atom::Reference(group) => {
                    self.refers = true;
                    let of = self.groups[group - 1].as_ref().map_or(Ast::Empty, unconstrained);
                    let own = REFERS | combined(preference, REFERS);
                    let op = Op::Reference { group, min, max };
                    let atom = Sub { op, flags: own, ast: repeated(of, min, max) };
                    return self.rest((plain, flags), atom, (1, Some(1), 0), within);
                }
            }
        }
        Ok(Sub { op: Op::Plain, flags, ast: Ast::Concat(plain) })
    }

    /// Parts before the atom, the repeated atom, and the rest of the branch.
    fn rest(
        &mut self,
        (plain, flags): (Vec<Ast>, u8),
        atom: Sub,
        (min, max, preference): (u32, Option<u32>, u8),
        within: bool,
    ) -> Result<Sub, SqlError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(too_complex());
        }
        let own = combined(preference, atom.flags);
        let atom = quantified(atom, (min, max, preference), own);
        let rest = self.branch(within)?;
        let mut behind_flags = own;
        behind_flags |= combined(behind_flags, rest.flags);
        let behind = joined(atom, rest, behind_flags);
        self.depth -= 1;
        let before = Sub { op: Op::Plain, flags, ast: Ast::Concat(plain) };
        Ok(joined(before, behind, flags | combined(flags, behind_flags)))
    }

    /// Constraints are put into `plain` at once: they are not repeated.
    fn atom(&mut self, plain: &mut Vec<Ast>) -> Result<Option<Atom>, SqlError> {
        let Some(c) = self.next_char() else { return Ok(None) };
        let newlines = self.flags.newlines;
        let set = match c {
            '*' | '+' | '?' => return Err(bad_operand()),
            '{' if self.chars.get(self.at).is_some_and(char::is_ascii_digit) => return Err(bad_operand()),
            '^' => {
                plain.push(Ast::Assert(if newlines.anchors() { Assert::LineStart } else { Assert::Start }));
                return Ok(None);
            }
            '$' => {
                plain.push(Ast::Assert(if newlines.anchors() { Assert::LineEnd } else { Assert::End }));
                return Ok(None);
            }
            '(' => return self.parenthesis(plain),
            '[' if self.starts("[:<:]]") || self.starts("[:>:]]") => {
                let start = self.starts("[:<:]]");
                self.at += 6;
                plain.push(Ast::Assert(if start { Assert::WordStart } else { Assert::WordEnd }));
                return Ok(None);
            }
            '[' => self.bracket()?,
            '.' => {
                let items = match newlines.any_but() {
                    true => vec![Item::Range('\n', '\n')],
                    false => Vec::new(),
                };
                Set { items, negated: true }
            }
            '\\' => match self.escape()? {
                Escaped::Char(c) => Set::of(c),
                Escaped::Class(class, negated) => Set { items: vec![Item::Class(class, false)], negated },
                Escaped::Assert(assert) => {
                    plain.push(Ast::Assert(assert));
                    return Ok(None);
                }
                Escaped::Group(group) => {
                    let is_closed = self.groups.get(group.wrapping_sub(1)).is_some_and(Option::is_some);
                    if !is_closed || self.within_look {
                        return Err(invalid("invalid backreference number"));
                    }
                    return Ok(Some(Atom::Reference(group)));
                }
            },
            c => Set::of(c),
        };
        Ok(Some(Atom::Plain(Ast::Set(set))))
    }

    fn parenthesis(&mut self, plain: &mut Vec<Ast>) -> Result<Option<Atom>, SqlError> {
        if !self.starts("?") {
            if self.within_look {
                return self.alternatives(true).map(|sub| Some(Atom::Group(sub)));
            }
            self.groups.push(None);
            let number = self.groups.len();
            let inner = self.alternatives(true)?;
            self.groups[number - 1] = Some(inner.ast.clone());
            let (flags, ast) = (inner.flags | CAPTURES, inner.ast.clone());
            return Ok(Some(Atom::Group(Sub { op: Op::Group(number, Box::new(inner)), flags, ast })));
        }
        self.at += 1;
        let ahead = match self.next_char() {
            Some(':') => return self.alternatives(true).map(|sub| Some(Atom::Group(sub))),
            Some('<') => false,
            Some('=' | '!') => {
                self.at -= 1;
                true
            }
            _ => return Err(bad_operand()),
        };
        let negated = match self.next_char() {
            Some('=') => false,
            Some('!') => true,
            _ => return Err(bad_operand()),
        };
        let around = std::mem::replace(&mut self.within_look, true);
        let inner = self.alternatives(true)?;
        self.within_look = around;
        plain.push(Ast::Look { ahead, negated, ast: Box::new(inner.ast) });
        Ok(None)
    }

    /// Bounds of the repetition, and which match is preferred (0: the one that the atom prefers).
    fn quantifier(&mut self) -> Result<(u32, Option<u32>, u8), SqlError> {
        let (min, max, prefers) = match self.peek()? {
            Some('*') => (0, None, true),
            Some('+') => (1, None, true),
            Some('?') => (0, Some(1), true),
            Some('{') if self.chars.get(self.at + 1).is_some_and(char::is_ascii_digit) => {
                self.at += 1;
                let bound = self.bound()?;
                self.at -= 1;
                bound
            }
            _ => return Ok((1, Some(1), 0)),
        };
        self.at += 1;
        let short = self.chars.get(self.at) == Some(&'?');
        self.at += usize::from(short);
        let preference = if short { SHORTER } else { LONGER };
        Ok((min, max, if prefers { preference } else { 0 }))
    }

    /// Behind `{` and up to `}`, which is taken.
    fn bound(&mut self) -> Result<(u32, Option<u32>, bool), SqlError> {
        let min = self.count()?;
        let (max, prefers) = match self.next_char() {
            Some('}') => return Ok((min, Some(min), false)),
            Some(',') if self.chars.get(self.at).is_some_and(char::is_ascii_digit) => {
                (Some(self.count()?), true)
            }
            Some(',') => (None, true),
            None => return Err(invalid("braces {} not balanced")),
            Some(_) => return Err(bad_count()),
        };
        match self.next_char() {
            Some('}') if max.is_none_or(|max| min <= max) => Ok((min, max, prefers)),
            None => Err(invalid("braces {} not balanced")),
            Some(_) => Err(bad_count()),
        }
    }

    fn count(&mut self) -> Result<u32, SqlError> {
        let mut count = 0;
        while let Some(digit) = self.chars.get(self.at).and_then(|c| c.to_digit(10)) {
            count = count * 10 + digit;
            if count > REPEATS_MAX {
                return Err(bad_count());
            }
            self.at += 1;
        }
        Ok(count)
    }

    fn digits(&mut self, radix: u32, min: usize, max: usize) -> Result<char, SqlError> {
        let (mut value, mut taken) = (0_u32, 0);
        while taken < max
            && let Some(digit) = self.chars.get(self.at).and_then(|c| c.to_digit(radix))
        {
            value = value.checked_mul(radix).ok_or_else(bad_escape)? + digit;
            self.at += 1;
            taken += 1;
        }
        if taken < min { Err(bad_escape()) } else { char::from_u32(value).ok_or_else(bad_escape) }
    }

    fn escape(&mut self) -> Result<Escaped, SqlError> {
        let c = self.next_char().ok_or_else(bad_escape)?;
        Ok(match c {
            c if !c.is_ascii_alphanumeric() => Escaped::Char(c),
            'a' => Escaped::Char('\x07'),
            'A' => Escaped::Assert(Assert::Start),
            'b' => Escaped::Char('\x08'),
            'B' => Escaped::Char('\\'),
            'c' => {
                let of = self.next_char().ok_or_else(bad_escape)?;
                Escaped::Char(char::from((of as u32 & 31) as u8))
            }
            'd' => Escaped::Class(Class::Digit, false),
            'D' => Escaped::Class(Class::Digit, true),
            'e' => Escaped::Char('\x1b'),
            'f' => Escaped::Char('\x0c'),
            'm' => Escaped::Assert(Assert::WordStart),
            'M' => Escaped::Assert(Assert::WordEnd),
            'n' => Escaped::Char('\n'),
            'r' => Escaped::Char('\r'),
            's' => Escaped::Class(Class::Space, false),
            'S' => Escaped::Class(Class::Space, true),
            't' => Escaped::Char('\t'),
            'u' => Escaped::Char(self.digits(16, 4, 4)?),
            'U' => Escaped::Char(self.digits(16, 8, 8)?),
            'v' => Escaped::Char('\x0b'),
            'w' => Escaped::Class(Class::Word, false),
            'W' => Escaped::Class(Class::Word, true),
            'x' => Escaped::Char(self.digits(16, 1, 255)?),
            'y' => Escaped::Assert(Assert::Boundary),
            'Y' => Escaped::Assert(Assert::NoBoundary),
            'Z' => Escaped::Assert(Assert::End),
            '1'..='9' => {
                let first = self.at;
                let rest = self.chars[first..].iter().take_while(|c| c.is_ascii_digit()).count();
                let number: String = self.chars[first - 1..first + rest].iter().collect();
                let number: usize = number.parse().unwrap_or(usize::MAX);
                if rest == 0 || number <= self.groups.len() {
                    self.at += rest;
                    return Ok(Escaped::Group(number));
                }
                self.at = first - 1;
                Escaped::Char(self.octal()?)
            }
            '0' => {
                self.at -= 1;
                Escaped::Char(self.octal()?)
            }
            _ => return Err(bad_escape()),
        })
    }

    fn octal(&mut self) -> Result<char, SqlError> {
        let start = self.at;
        let value = self.digits(8, 1, 3)?;
        if value as u32 <= 255 {
            return Ok(value);
        }
        // Three digits may be too many for a byte.
        self.at = start;
        self.digits(8, 1, 2)
    }

    /// Behind `[` and up to its `]`.
    fn bracket(&mut self) -> Result<Set, SqlError> {
        let negated = self.starts("^");
        self.at += usize::from(negated);
        let mut items = Vec::new();
        let mut first = true;
        loop {
            let c = *self.chars.get(self.at).ok_or_else(open_bracket)?;
            if c == ']' && !first {
                self.at += 1;
                break;
            }
            // Only a first or a last one is a character.
            if c == '-' && !first && !self.starts("-]") {
                return Err(bad_range());
            }
            first = false;
            let start = match self.member()? {
                Ok(start) => start,
                Err(item) => {
                    items.push(item);
                    continue;
                }
            };
            if !self.starts("-") || self.starts("-]") {
                items.push(Item::Range(start, start));
                continue;
            }
            self.at += 1;
            match self.member()? {
                Ok(end) if start <= end => items.push(Item::Range(start, end)),
                _ => return Err(bad_range()),
            }
        }
        if negated && self.flags.newlines.any_but() {
            items.push(Item::Range('\n', '\n'));
        }
        Ok(Set { items, negated })
    }

    /// A character of a bracket, or a class.
    fn member(&mut self) -> Result<Result<char, Item>, SqlError> {
        let c = self.next_char().ok_or_else(open_bracket)?;
        let named = match (c, self.chars.get(self.at)) {
            ('\\', _) => {
                return Ok(match self.escape()? {
                    Escaped::Char(c) => Ok(c),
                    Escaped::Class(class, negated) => Err(Item::Class(class, negated)),
                    Escaped::Assert(_) | Escaped::Group(_) => return Err(bad_escape()),
                });
            }
            ('[', Some(kind @ ('.' | '=' | ':'))) => *kind,
            (c, _) => return Ok(Ok(c)),
        };
        self.at += 1;
        let start = self.at;
        while self.chars.get(self.at) != Some(&named) || self.chars.get(self.at + 1) != Some(&']') {
            if self.at >= self.chars.len() {
                return Err(open_bracket());
            }
            self.at += 1;
        }
        let name: String = self.chars[start..self.at].iter().collect();
        self.at += 2;
        if named == ':' {
            let class = Class::named(&name).ok_or_else(|| invalid("invalid character class"))?;
            return Ok(Err(Item::Class(class, false)));
        }
        let mut chars = name.chars();
        match (chars.next(), chars.next()) {
            (Some(c), None) => Ok(Ok(c)),
            _ => Err(invalid("invalid collating element")),
        }
    }
}

fn repeated(ast: Ast, min: u32, max: Option<u32>) -> Ast {
    match (min, max) {
        (1, Some(1)) => ast,
        _ => Ast::Repeat(Box::new(ast), min, max),
    }
}

/// The pattern without constraints that hold only at its original position.
fn unconstrained(ast: &Ast) -> Ast {
    match ast {
        Ast::Assert(_) | Ast::Look { .. } => Ast::Empty,
        Ast::Empty | Ast::Set(_) => ast.clone(),
        Ast::Concat(list) => Ast::Concat(list.iter().map(unconstrained).collect()),
        Ast::Alternatives(list) => Ast::Alternatives(list.iter().map(unconstrained).collect()),
        Ast::Repeat(inner, min, max) => Ast::Repeat(Box::new(unconstrained(inner)), *min, *max),
    }
}

fn joined(left: Sub, right: Sub, flags: u8) -> Sub {
    let ast = Ast::Concat(vec![left.ast.clone(), right.ast.clone()]);
    Sub { op: Op::Concat(Box::new(left), Box::new(right)), flags, ast }
}

fn quantified(atom: Sub, (min, max, preference): (u32, Option<u32>, u8), flags: u8) -> Sub {
    let own = atom.flags & (LONGER | SHORTER | MIXED);
    if (min, max) == (1, Some(1)) && (preference == 0 || own == 0 || preference == own) {
        return atom;
    }
    let ast = repeated(atom.ast.clone(), min, max);
    if atom.flags & (CAPTURES | REFERS) == 0 {
        return Sub { op: Op::Plain, flags, ast };
    }
    if min > 0 && atom.flags & REFERS == 0 {
        // Only the last one's groups are of interest.
        let before = repeated(atom.ast.clone(), min - 1, max.map(|max| max - 1));
        let before = Sub { op: Op::Plain, flags: flags & (LONGER | SHORTER), ast: before };
        return joined(before, atom, flags);
    }
    Sub { op: Op::Repeat { inner: Box::new(atom), min, max }, flags, ast }
}

impl Newlines {
    /// `.` and what is not in brackets match no newline.
    fn any_but(self) -> bool {
        matches!(self, Newlines::Sensitive | Newlines::Partly)
    }

    /// `^` and `$` match at newlines.
    fn anchors(self) -> bool {
        matches!(self, Newlines::Sensitive | Newlines::Weird)
    }
}

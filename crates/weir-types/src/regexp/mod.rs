//! Regular expressions as PostgreSQL has them: the leftmost match, of these the longest one or, where the expression's first quantifier
//! is not greedy, the shortest one; then each part of it, from left to right, by its own preference (PostgreSQL's manual, 9.7.3.5).
//!
//! The `regex` crate, which takes the first alternative, tells only where a match begins. The dialects that are not advanced ones
//! (the options `b` and `e`) are refused by name.

mod automaton;
mod dissect;
mod parse;

use std::cell::{OnceCell, RefCell};
use std::rc::Rc;

use self::automaton::Automaton;
use crate::error::{SqlError, SqlState};
use crate::interrupt::{check, memory_for};

/// Number of compiled expressions that a thread keeps.
const CACHED_MAX: usize = 32;

/// Product of characters and states up to which a text is searched without a check.
const FINDER_WORK_MAX: usize = 1 << 28;

/// Options, as letters give them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    insensitive: bool,
    newlines: Newlines,
    expanded: bool,
    literal: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Newlines {
    #[default]
    Plain,
    Sensitive,
    Partly,
    Weird,
}

impl Flags {
    pub fn of_case(insensitive: bool) -> Flags {
        Flags { insensitive, ..Flags::default() }
    }

    /// 22023 for a letter that is none, 0A000 for another dialect.
    pub fn set(&mut self, letter: char) -> Result<(), SqlError> {
        match letter {
            'i' => self.insensitive = true,
            'c' => self.insensitive = false,
            'm' | 'n' => self.newlines = Newlines::Sensitive,
            'p' => self.newlines = Newlines::Partly,
            'w' => self.newlines = Newlines::Weird,
            's' => self.newlines = Newlines::Plain,
            'x' => self.expanded = true,
            't' => self.expanded = false,
            'q' => self.literal = true,
            'b' | 'e' => {
                let message = format!("the regular expression option \"{letter}\" is not supported");
                let error = SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message);
                return Err(error.with_hint("write it as an advanced regular expression"));
            }
            _ => {
                let message = format!("invalid regular expression option: \"{letter}\"");
                return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
            }
        }
        Ok(())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Alnum,
    Alpha,
    Ascii,
    Blank,
    Cntrl,
    Digit,
    Graph,
    Lower,
    Print,
    Punct,
    Space,
    Upper,
    Xdigit,
    Word,
}

impl Class {
    fn named(name: &str) -> Option<Class> {
        use Class::*;
        Some(match name {
            "alnum" => Alnum,
            "alpha" => Alpha,
            "ascii" => Ascii,
            "blank" => Blank,
            "cntrl" => Cntrl,
            "digit" => Digit,
            "graph" => Graph,
            "lower" => Lower,
            "print" => Print,
            "punct" => Punct,
            "space" => Space,
            "upper" => Upper,
            "xdigit" => Xdigit,
            "word" => Word,
            _ => return None,
        })
    }

    fn has(self, c: char) -> bool {
        match self {
            Class::Alnum => c.is_alphanumeric(),
            Class::Alpha => c.is_alphabetic(),
            Class::Ascii => c.is_ascii(),
            Class::Blank => c == ' ' || c == '\t',
            Class::Cntrl => c.is_control(),
            Class::Digit => c.is_ascii_digit(),
            Class::Graph => !c.is_control() && !c.is_whitespace(),
            Class::Lower => c.is_lowercase(),
            Class::Print => !c.is_control(),
            Class::Punct => !c.is_control() && !c.is_whitespace() && !c.is_alphanumeric(),
            Class::Space => c.is_whitespace(),
            Class::Upper => c.is_uppercase(),
            Class::Xdigit => c.is_ascii_hexdigit(),
            Class::Word => c == '_' || c.is_alphanumeric(),
        }
    }

    /// The class in the syntax of the `regex` crate.
    fn in_crate(self) -> &'static str {
        match self {
            Class::Alnum => r"[\p{Alphabetic}\p{N}]",
            Class::Alpha => r"\p{Alphabetic}",
            Class::Ascii => r"[\x00-\x7f]",
            Class::Blank => r"[ \t]",
            Class::Cntrl => r"\p{Cc}",
            Class::Digit => r"[0-9]",
            Class::Graph => r"[^\p{Cc}\s]",
            Class::Lower => r"\p{Lowercase}",
            Class::Print => r"\P{Cc}",
            Class::Punct => r"[^\p{Cc}\s\p{Alphabetic}\p{N}]",
            Class::Space => r"\s",
            Class::Upper => r"\p{Uppercase}",
            Class::Xdigit => r"[0-9A-Fa-f]",
            Class::Word => r"[_\p{Alphabetic}\p{N}]",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Item {
    Range(char, char),
    /// A class, or its complement.
    Class(Class, bool),
}

/// One character of these, or none of these.
#[derive(Clone, Debug, PartialEq)]
struct Set {
    items: Vec<Item>,
    negated: bool,
}

fn cases(c: char) -> [char; 3] {
    let single = |mut of: Box<dyn ExactSizeIterator<Item = char>>| match of.len() {
        1 => of.next().unwrap_or(c),
        _ => c,
    };
    [c, single(Box::new(c.to_lowercase())), single(Box::new(c.to_uppercase()))]
}

impl Set {
    fn of(c: char) -> Set {
        Set { items: vec![Item::Range(c, c)], negated: false }
    }

    fn has(&self, c: char, insensitive: bool) -> bool {
        let is_in = |c: char| {
            self.items.iter().any(|item| match item {
                Item::Range(first, last) => (*first..=*last).contains(&c),
                Item::Class(class, negated) => class.has(c) != *negated,
            })
        };
        let found = match insensitive {
            true => cases(c).into_iter().any(is_in),
            false => is_in(c),
        };
        found != self.negated
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Assert {
    Start,
    End,
    LineStart,
    LineEnd,
    WordStart,
    WordEnd,
    Boundary,
    NoBoundary,
}

impl Assert {
    fn holds(self, text: &[char], at: usize) -> bool {
        let is_word = |at: Option<usize>| at.and_then(|at| text.get(at)).is_some_and(|c| Class::Word.has(*c));
        let (before, behind) = (is_word(at.checked_sub(1)), is_word(Some(at)));
        match self {
            Assert::Start => at == 0,
            Assert::End => at == text.len(),
            Assert::LineStart => at == 0 || text[at - 1] == '\n',
            Assert::LineEnd => at == text.len() || text[at] == '\n',
            Assert::WordStart => !before && behind,
            Assert::WordEnd => before && !behind,
            Assert::Boundary => before != behind,
            Assert::NoBoundary => before == behind,
        }
    }
}

/// Pattern without preferences.
#[derive(Clone, Debug)]
enum Ast {
    Empty,
    Set(Set),
    Concat(Vec<Ast>),
    Alternatives(Vec<Ast>),
    Repeat(Box<Ast>, u32, Option<u32>),
    Assert(Assert),
    Look { ahead: bool, negated: bool, ast: Box<Ast> },
}

/// A part of the expression that has groups, or a preference of its own.
#[derive(Debug)]
struct Sub {
    op: Op,
    flags: u8,
    /// All that it may match; of a reference, what its group may.
    ast: Ast,
}

#[derive(Debug)]
enum Op {
    Plain,
    Concat(Box<Sub>, Box<Sub>),
    Alternatives(Vec<Sub>),
    Repeat { inner: Box<Sub>, min: u32, max: Option<u32> },
    Group(usize, Box<Sub>),
    Reference { group: usize, min: u32, max: Option<u32> },
}

/// The whole match first, then its groups, in characters.
pub type Groups = Vec<Option<(usize, usize)>>;

/// A compiled regular expression.
#[derive(Debug)]
pub struct Regex {
    whole: dissect::Part,
    /// Number of its groups.
    pub groups: usize,
    insensitive: bool,
    refers: bool,
    /// States of its automaton, about.
    size: usize,
    /// Finds where a match begins, if there is one; none: it cannot tell.
    finder: OnceCell<Option<regex::Regex>>,
}

/// A text and its characters.
pub struct Subject<'t> {
    text: &'t str,
    pub chars: Vec<char>,
    /// The byte at which each character begins; none if each has one byte.
    begins: Vec<u32>,
}

impl<'t> Subject<'t> {
    /// # Errors
    /// The statement may not take so much memory.
    pub fn new(text: &'t str) -> Result<Subject<'t>, SqlError> {
        memory_for(text.len() * size_of::<char>())?;
        let begins = match text.is_ascii() {
            true => Vec::new(),
            false => text.char_indices().map(|(at, _)| at as u32).collect(),
        };
        Ok(Subject { text, chars: text.chars().collect(), begins })
    }

    fn byte_of(&self, at: usize) -> usize {
        match self.begins.is_empty() {
            true => at,
            false => self.begins.get(at).map_or(self.text.len(), |begin| *begin as usize),
        }
    }

    fn char_at(&self, byte: usize) -> usize {
        match self.begins.is_empty() {
            true => byte,
            false => self.begins.partition_point(|begin| (*begin as usize) < byte),
        }
    }

    pub fn part(&self, (start, end): (usize, usize)) -> &'t str {
        &self.text[self.byte_of(start)..self.byte_of(end)]
    }
}

thread_local! {
    /// Compiling costs far more than matching, and a query matches many rows with one expression.
    static COMPILED: RefCell<Vec<(String, Flags, Rc<Regex>)>> = const { RefCell::new(Vec::new()) };
}

/// The compiled expression; 2201B if it is none.
pub fn compile(pattern: &str, flags: Flags) -> Result<Rc<Regex>, SqlError> {
    COMPILED.with(|compiled| {
        let mut compiled = compiled.borrow_mut();
        if let Some((.., regex)) = compiled.iter().find(|(text, of, _)| text == pattern && *of == flags) {
            return Ok(regex.clone());
        }
        let regex = Rc::new(Regex::new(pattern, flags)?);
        if compiled.len() == CACHED_MAX {
            compiled.remove(0);
        }
        compiled.push((pattern.to_owned(), flags, regex.clone()));
        Ok(regex)
    })
}

impl Regex {
    fn new(pattern: &str, flags: Flags) -> Result<Regex, SqlError> {
        let parsed = parse::parse(pattern, flags)?;
        let insensitive = parsed.flags.insensitive;
        let size = Automaton::check_size(&parsed.tree.ast)?;
        let (groups, refers) = (parsed.groups, parsed.refers);
        let whole = dissect::Part::new(parsed.tree, insensitive);
        Ok(Regex { whole, groups, insensitive, refers, size, finder: OnceCell::new() })
    }

    fn finder(&self) -> Option<&regex::Regex> {
        let build = || {
            let mut pattern = String::new();
            let known = !self.refers && automaton::in_crate(&self.whole.ast, &mut pattern);
            let mut builder = regex::RegexBuilder::new(&pattern);
            builder.case_insensitive(self.insensitive).size_limit(1 << 20);
            known.then(|| builder.build().ok()).flatten()
        };
        self.finder.get_or_init(build).as_ref()
    }

    /// # Errors
    /// The statement is to end.
    pub fn is_match(&self, text: &str) -> Result<bool, SqlError> {
        match self.finder() {
            Some(finder) if !self.is_too_long(text) => Ok(finder.is_match(text)),
            Some(_) => self.whole.automaton().occurs(&Subject::new(text)?.chars, 0),
            None => Ok(self.find_at(&Subject::new(text)?, 0)?.is_some()),
        }
    }

    /// Whether the finder, which makes no checks, could need long: at worst it goes through all states at each character.
    fn is_too_long(&self, text: &str) -> bool {
        text.len().saturating_mul(self.size) > FINDER_WORK_MAX
    }

    /// The first match that begins at or behind a character.
    ///
    /// # Errors
    /// The statement is to end.
    pub fn find_at(&self, subject: &Subject<'_>, start: usize) -> Result<Option<Groups>, SqlError> {
        let text = &subject.chars[..];
        let (mut first, mut last) = (start, text.len());
        if self.is_too_long(subject.text) {
            if !self.refers && !self.whole.automaton().occurs(text, start)? {
                return Ok(None);
            }
        } else if let Some(finder) = self.finder() {
            let Some(found) = finder.find_at(subject.text, subject.byte_of(start)) else { return Ok(None) };
            (first, last) = (subject.char_at(found.start()), subject.char_at(found.start()));
        }
        for begin in first..=last {
            if let Some(groups) = self.match_from(text, begin)? {
                return Ok(Some(groups));
            }
        }
        Ok(None)
    }

    fn match_from(&self, text: &[char], begin: usize) -> Result<Option<Groups>, SqlError> {
        let automaton = self.whole.automaton();
        let shorter = self.whole.prefers_short();
        let mut limit = if shorter { begin } else { text.len() };
        loop {
            check()?;
            let end = match shorter {
                true => automaton.shortest(text, begin, limit, text.len())?,
                false => automaton.longest(text, begin, limit)?,
            };
            let Some(end) = end else { return Ok(None) };
            let mut groups: Groups = vec![None; self.groups + 1];
            if self.whole.dissect(text, (begin, end), &mut groups)? {
                groups[0] = Some((begin, end));
                return Ok(Some(groups));
            }
            limit = match shorter {
                true if end < text.len() => end + 1,
                false if end > begin => end - 1,
                _ => return Ok(None),
            };
        }
    }

    /// All matches from a character on, one behind the other.
    pub fn matches<'r>(
        &'r self,
        subject: &'r Subject<'_>,
        start: usize,
    ) -> impl Iterator<Item = Result<Groups, SqlError>> + 'r {
        let mut next = Some(start);
        std::iter::from_fn(move || {
            let start = next.filter(|start| *start <= subject.chars.len())?;
            next = None;
            let groups = match self.find_at(subject, start).transpose()? {
                Ok(groups) => groups,
                Err(error) => return Some(Err(error)),
            };
            let (from, to) = groups.first().copied().flatten()?;
            // An empty match would be found again.
            next = Some(if from == to { to + 1 } else { to });
            Some(Ok(groups))
        })
    }
}

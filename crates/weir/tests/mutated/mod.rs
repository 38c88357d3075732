//! Damaged conversations over sockets, each from a seed and its number, and whether every answer is a message of PostgreSQL's protocol.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::ops::AddAssign;
use std::time::Duration;

use weir_fuzz::chance::Chance;
use weir_fuzz::wire::{self, When};

/// An answer that takes longer does not come.
const PATIENCE: Duration = Duration::from_secs(120);

#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub messages: u64,
    pub answers: u64,
    pub errors: u64,
    /// Connections that the server has ended.
    pub fatal: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.messages += other.messages;
        self.answers += other.answers;
        self.errors += other.errors;
        self.fatal += other.fatal;
    }
}

/// Holds one conversation. `is_closed`: the server asks for a password, which nobody here has.
///
/// # Errors
/// The error in the answers, with the conversation.
pub fn converse(address: SocketAddr, is_closed: bool, seed: u64, number: u64) -> Result<Counts, String> {
    let mut chance = Chance::of(seed, number);
    let when = match When::any(&mut chance) {
        When::LoggedIn if is_closed => When::InAuthentication,
        when => when,
    };
    let said = wire::messages(&mut chance, when, 40);
    let hello = (when != When::First).then(|| wire::startup(&[("user", "ann"), ("database", "weir")]));
    let bytes: Vec<u8> = hello.iter().chain(&said).flatten().copied().collect();
    let heard = exchange(address, &bytes);
    let judged = heard.and_then(|(answers, is_cut)| judge(&answers, when == When::First, is_cut));
    let counts = judged.map_err(|wrong| {
        let said: Vec<String> = said.iter().map(|one| one.escape_ascii().to_string()).collect();
        format!("conversation {number} of seed {seed}, {when:?}: {wrong}\n{}", said.join("\n"))
    })?;
    Ok(Counts { messages: (said.len() + usize::from(hello.is_some())) as u64, ..counts })
}

/// Answers up to the end, and whether the server has closed the connection before it had read everything.
fn exchange(address: SocketAddr, bytes: &[u8]) -> Result<(Vec<u8>, bool), String> {
    let failed = |error: std::io::Error| format!("{error}");
    let mut socket = TcpStream::connect(address).map_err(failed)?;
    socket.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
    // It may have hung up already.
    let mut is_cut = socket.write_all(bytes).is_err();
    let _ = socket.shutdown(Shutdown::Write);
    let mut answers = Vec::new();
    match socket.read_to_end(&mut answers) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::ConnectionReset => is_cut = true,
        Err(error) => return Err(format!("no end after {} bytes: {error}", answers.len())),
    }
    Ok((answers, is_cut))
}

/// Unread bytes of a message.
struct Body<'b>(&'b [u8]);

impl<'b> Body<'b> {
    fn take(&mut self, count: usize) -> Result<&'b [u8], String> {
        let (head, rest) = self.0.split_at_checked(count).ok_or("it is shorter than it says")?;
        self.0 = rest;
        Ok(head)
    }

    fn int2(&mut self) -> Result<usize, String> {
        let bytes = self.take(2)?;
        Ok(usize::from(u16::from_be_bytes([bytes[0], bytes[1]])))
    }

    fn int4(&mut self) -> Result<i32, String> {
        let bytes = self.take(4)?;
        Ok(i32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    fn string(&mut self) -> Result<&'b str, String> {
        let end = self.0.iter().position(|byte| *byte == 0).ok_or("a string has no end")?;
        let string = self.take(end)?;
        self.take(1)?;
        std::str::from_utf8(string).map_err(|error| error.to_string())
    }
}

fn judge(mut answers: &[u8], is_first: bool, is_cut: bool) -> Result<Counts, String> {
    // A request for encryption is answered by a letter alone.
    for _ in 0..2 {
        if is_first && matches!(answers, [b'N', rest @ ..] if rest.is_empty() || rest[0] != 0) {
            answers = &answers[1..];
        }
    }
    let mut counts = Counts::default();
    while let [kind, rest @ ..] = answers {
        let mut head = Body(rest);
        let length = head.int4().map_or(0, |length| length as usize);
        let Some(body) = length.checked_sub(4).and_then(|length| head.0.get(..length)) else {
            return match is_cut {
                true => Ok(counts),
                false => Err(format!("half an answer: {}", answers.escape_ascii())),
            };
        };
        let wrong = |why: String| format!("{why}: {}{}", *kind as char, body.escape_ascii());
        if counts.fatal > 0 {
            return Err(wrong("something follows the last answer".to_owned()));
        }
        counts.answers += 1;
        let mut left = Body(body);
        match kind {
            b'E' | b'N' => {
                let severity = error(&mut left).map_err(wrong)?;
                counts.errors += u64::from(*kind == b'E');
                counts.fatal += u64::from(severity == "FATAL");
            }
            _ => message(*kind, &mut left).map_err(wrong)?,
        }
        if !left.0.is_empty() {
            return Err(wrong("it is longer than it should be".to_owned()));
        }
        answers = &head.0[body.len()..];
    }
    Ok(counts)
}

/// Gives its severity.
fn error<'b>(body: &mut Body<'b>) -> Result<&'b str, String> {
    let (mut severity, mut plain, mut state, mut text) = ("", "", "", "");
    loop {
        match body.take(1)?[0] {
            0 => break,
            b'S' => severity = body.string()?,
            b'V' => plain = body.string()?,
            b'C' => state = body.string()?,
            b'M' => text = body.string()?,
            _ => drop(body.string()?),
        }
    }
    let is_state =
        state.len() == 5 && state.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase());
    if !is_state || text.is_empty() || severity != plain {
        return Err("an error without SQLSTATE, message or severity".to_owned());
    }
    match severity {
        _ if state.starts_with("XX") => Err("a bug".to_owned()),
        "ERROR" | "FATAL" | "WARNING" | "NOTICE" | "INFO" | "LOG" | "DEBUG" => Ok(severity),
        _ => Err("no such severity".to_owned()),
    }
}

fn message(kind: u8, body: &mut Body<'_>) -> Result<(), String> {
    match kind {
        b'R' => match body.int4()? {
            0 => {}
            10 => while !body.string()?.is_empty() {},
            11 | 12 => body.0 = &[],
            code => return Err(format!("authentication {code}")),
        },
        b'S' => {
            body.string()?;
            body.string()?;
        }
        b'K' => drop(body.take(8)?),
        b'Z' if !b"ITE".contains(&body.take(1)?[0]) => return Err("no such status".to_owned()),
        b'Z' | b'1' | b'2' | b'3' | b'n' | b's' | b'I' | b'c' => {}
        b'T' => {
            for _ in 0..body.int2()? {
                body.string()?;
                body.take(18)?;
            }
        }
        b'D' => {
            for _ in 0..body.int2()? {
                match body.int4()? {
                    -1 => {}
                    length => drop(body.take(length as usize)?),
                }
            }
        }
        b'C' => drop(body.string()?),
        b't' => {
            let count = body.int2()?;
            body.take(4 * count)?;
        }
        b'G' | b'H' => {
            body.take(1)?;
            let count = body.int2()?;
            body.take(2 * count)?;
        }
        b'd' => body.0 = &[],
        b'v' => {
            body.int4()?;
            for _ in 0..body.int4()? {
                body.string()?;
            }
        }
        _ => return Err("no such answer".to_owned()),
    }
    Ok(())
}

//! Conversations in PostgreSQL's protocol that follow from a seed: messages of every type, in any order, many of them damaged.
//!
//! Only client messages; independent of the server's answers.

use crate::chance::Chance;

const NAMES: [&str; 4] = ["", "", "a", "b"];

/// Statements for a server with the tables `pair (a int PRIMARY KEY, b int)` and `word (w text)`. None of them makes a table grow.
const TEXTS: [&str; 40] = [
    "",
    ";",
    "SELECT 1",
    "SELECT $1::integer",
    "SELECT $1::text, $2::bytea, $3::numeric",
    "SELECT a, b FROM pair ORDER BY a",
    "SELECT * FROM generate_series(1, 20)",
    "SELECT 1; SELECT 2; SELECT 1 / 0; SELECT 3",
    "INSERT INTO pair VALUES ($1, 1) ON CONFLICT DO NOTHING",
    "INSERT INTO pair VALUES (7, 1) ON CONFLICT DO NOTHING",
    "UPDATE pair SET b = b + 1 WHERE a = 1",
    "UPDATE pair SET b = $2 WHERE a = $1",
    "DELETE FROM pair WHERE a > 5",
    "DELETE FROM word",
    "BEGIN",
    "BEGIN READ ONLY",
    "COMMIT",
    "ROLLBACK",
    "SAVEPOINT s",
    "ROLLBACK TO s",
    "RELEASE s",
    "COPY word FROM STDIN",
    "COPY pair FROM STDIN (FORMAT csv)",
    "COPY pair FROM STDIN (FORMAT binary)",
    "COPY pair TO STDOUT",
    "COPY (SELECT 1, 'x') TO STDOUT (FORMAT binary)",
    "DECLARE c CURSOR FOR SELECT a FROM pair",
    "FETCH 2 FROM c",
    "CLOSE ALL",
    "PREPARE q AS SELECT $1::integer",
    "EXECUTE q (1)",
    "DEALLOCATE ALL",
    "SET application_name = 'x'",
    "SET extra_float_digits = 3",
    "SHOW ALL",
    "DISCARD ALL",
    "SELECT 'ä€𝄞', '\\x00ff'::bytea, ARRAY[1, NULL], '{\"a\": 1}'::jsonb",
    "SELECT nothing FROM nowhere",
    "SELEC",
    "EXPLAIN SELECT 1",
];

const TYPES: [i32; 10] = [0, 16, 17, 20, 23, 25, 705, 1700, 2950, -1];

const MECHANISMS: [&str; 4] = ["SCRAM-SHA-256", "SCRAM-SHA-256-PLUS", "", "PLAIN"];

const SCRAM: [&str; 9] = [
    "n,,n=,r=abcdefghijkl",
    "y,,n=ann,r=abcdefghijkl",
    "p=tls-server-end-point,,n=,r=abc",
    "n,a=ann,n=,r=,x=y",
    "n,,",
    "r=",
    "c=biws,r=abcdefghijkl,p=AAAA",
    "c=,r=,p=",
    ",,,,,,=",
];

const PARAMETERS: [(&str, &str); 12] = [
    ("user", "ann"),
    ("user", ""),
    ("database", "weir"),
    ("database", "nowhere"),
    ("application_name", "a\u{e4}"),
    ("client_encoding", "UTF8"),
    ("options", "-c work_mem=1MB"),
    ("options", "-c \\"),
    ("extra_float_digits", "3"),
    ("replication", "database"),
    ("_pq_.extension", "1"),
    ("nothing", "1"),
];

/// When the messages are said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Instead of a login.
    First,
    /// Behind a startup packet that is right.
    InAuthentication,
    LoggedIn,
}

impl When {
    pub fn any(chance: &mut Chance) -> When {
        *chance.pick(&[When::First, When::InAuthentication, When::LoggedIn, When::LoggedIn, When::LoggedIn])
    }
}

/// Up to `most` messages.
pub fn messages(chance: &mut Chance, when: When, most: usize) -> Vec<Vec<u8>> {
    // Before login the first that is wrong is mostly the last.
    let most = if when == When::LoggedIn { most } else { most.min(5) };
    let mut all: Vec<Vec<u8>> = Vec::new();
    for _ in 0..1 + chance.below(most) {
        let mut one = match when {
            When::First => first(chance),
            When::InAuthentication if chance.below(4) > 0 => message(b'p', password(chance)),
            _ => command(chance),
        };
        if chance.below(5) < 2 {
            damage(&mut one, chance);
        }
        if chance.below(12) == 0 && !all.is_empty() {
            one = all[chance.below(all.len())].clone();
        }
        all.push(one);
    }
    all
}

/// The packet with which a client comes in.
pub fn startup(parameters: &[(&str, &str)]) -> Vec<u8> {
    let words = parameters.iter().flat_map(|(name, value)| [*name, *value]).chain([""]);
    let body = words.fold(vec![0, 3, 0, 0], |mut body, word| {
        body.extend(word.as_bytes());
        body.push(0);
        body
    });
    with_length(&[], body)
}

fn with_length(head: &[u8], body: Vec<u8>) -> Vec<u8> {
    [head, &(body.len() as u32 + 4).to_be_bytes(), &body].concat()
}

fn message(kind: u8, body: Vec<u8>) -> Vec<u8> {
    with_length(&[kind], body)
}

fn string(body: &mut Vec<u8>, text: impl AsRef<str>) {
    body.extend(text.as_ref().as_bytes());
    body.push(0);
}

fn first(chance: &mut Chance) -> Vec<u8> {
    match chance.below(8) {
        0 => with_length(&[], 80_877_103_u32.to_be_bytes().to_vec()),
        1 => with_length(&[], 80_877_104_u32.to_be_bytes().to_vec()),
        2 => with_length(&[], [80_877_102_u32.to_be_bytes(), [0, 0, 0, 1], [1, 2, 3, 4]].concat()),
        3 => command(chance),
        _ => {
            let parameters: Vec<_> = (0..chance.below(6)).map(|_| *chance.pick(&PARAMETERS)).collect();
            let mut packet = startup(&parameters);
            if chance.below(4) == 0 {
                packet[4..8].copy_from_slice(&[0, *chance.pick(&[2, 3, 4]), 0, *chance.pick(&[0, 1, 2, 9])]);
            }
            packet
        }
    }
}

fn password(chance: &mut Chance) -> Vec<u8> {
    let data = *chance.pick(&SCRAM);
    if chance.below(3) == 0 {
        return data.as_bytes().to_vec();
    }
    let mut body = Vec::new();
    string(&mut body, chance.pick(&MECHANISMS));
    body.extend((data.len() as u32).to_be_bytes());
    body.extend(data.as_bytes());
    body
}

fn counted<T: Copy>(body: &mut Vec<u8>, all: &[T], bytes: impl Fn(T) -> Vec<u8>) {
    body.extend((all.len() as u16).to_be_bytes());
    all.iter().for_each(|one| body.extend(bytes(*one)));
}

fn command(chance: &mut Chance) -> Vec<u8> {
    let kind =
        *chance.pick(b"QQQQQQQQPPPPPPPPPPBBBBBBBBBBDDDDDDEEEEEEEESSSSSSSSSSSSSSSSSSSSHHCCCCddddccffFFpX");
    let mut body = Vec::new();
    match kind {
        b'Q' => string(&mut body, chance.pick(&TEXTS)),
        b'P' => {
            string(&mut body, chance.pick(&NAMES));
            string(&mut body, chance.pick(&TEXTS));
            let types: Vec<i32> = (0..chance.below(3)).map(|_| *chance.pick(&TYPES)).collect();
            counted(&mut body, &types, |ty| ty.to_be_bytes().to_vec());
        }
        b'B' => {
            string(&mut body, chance.pick(&NAMES));
            string(&mut body, chance.pick(&NAMES));
            let format = |chance: &mut Chance| *chance.pick(&[0_i16, 0, 1, 1, 2, -1]);
            let formats: Vec<i16> = (0..chance.below(3)).map(|_| format(chance)).collect();
            counted(&mut body, &formats, |format| format.to_be_bytes().to_vec());
            let values: [Option<&[u8]>; 6] =
                [None, Some(b""), Some(b"7"), Some(b"\0\0\0\x07"), Some(b"\xff\xfe"), Some(b"1.5e3")];
            let values: Vec<Option<&[u8]>> = (0..chance.below(4)).map(|_| *chance.pick(&values)).collect();
            counted(&mut body, &values, |value| match value {
                None => vec![0xff; 4],
                Some(value) => [&(value.len() as u32).to_be_bytes()[..], value].concat(),
            });
            let formats: Vec<i16> = (0..chance.below(3)).map(|_| format(chance)).collect();
            counted(&mut body, &formats, |format| format.to_be_bytes().to_vec());
        }
        b'D' | b'C' => {
            body.push(*chance.pick(b"SSSPPPx"));
            string(&mut body, chance.pick(&NAMES));
        }
        b'E' => {
            string(&mut body, chance.pick(&NAMES));
            body.extend(chance.pick(&[0_i32, 0, 1, 2, -1, i32::MAX]).to_be_bytes());
        }
        b'd' => body.extend(*chance.pick(&[
            &b"1\t2\n"[..],
            b"x",
            b"\\.\n",
            b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0",
            b"\0\x02\0\0\0\x04\0\0\0\x01\xff\xff\xff\xff\xff\xff",
            b"\"a,\n",
        ])),
        b'f' => string(&mut body, "enough"),
        b'F' => body.extend(b"\0\0\0\x01\0\0\0\0\0\0"),
        b'p' => body = password(chance),
        _ => {}
    }
    message(kind, body)
}

const LENGTHS: [u32; 12] =
    [0, 1, 3, 4, 5, 8, 10_000, 10_001, 0x3fff_fffe, 0x3fff_ffff, 0x7fff_ffff, 0xffff_ffff];

/// Truncates it, extends it, changes bytes of it, or changes its length or type field.
fn damage(message: &mut Vec<u8>, chance: &mut Chance) {
    let type_bytes = usize::from(message.first() != Some(&0));
    let tell_length = |message: &mut Vec<u8>, length: u32| {
        if let Some(bytes) = message.get_mut(type_bytes..type_bytes + 4) {
            bytes.copy_from_slice(&length.to_be_bytes());
        }
    };
    let body_from = (type_bytes + 4).min(message.len());
    // What ends a connection is seldom, so that the others get somewhere.
    match chance.below(30) {
        // With the length that it then has; where the next one begins is known.
        0..=9 => {
            let end = body_from + chance.below(message.len() - body_from + 1);
            message.truncate(end);
            tell_length(message, (end - type_bytes) as u32);
        }
        10..=18 => {
            for _ in 0..1 + chance.below(6) {
                message.push(chance.byte());
            }
            tell_length(message, (message.len() - type_bytes) as u32);
        }
        19..=27 => {
            for _ in 0..1 + chance.below(4) {
                let at = body_from + chance.below((message.len() - body_from).max(1));
                if let Some(byte) = message.get_mut(at) {
                    *byte = *chance.pick(&[0, 1, 0x7f, 0x80, 0xff, b'a', b'\'', b'\n']);
                }
            }
        }
        28 => tell_length(message, *chance.pick(&LENGTHS)),
        _ => {
            let at = chance.below(message.len());
            message[at] = chance.byte();
        }
    }
}

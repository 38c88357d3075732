//! Every way in which a message can be none, and that nothing of it panics.

use super::*;

const EXPECTED: [Expected; 5] = [
    Expected::Startup,
    Expected::SaslInitialResponse,
    Expected::SaslResponse,
    Expected::Command,
    Expected::CopyIn,
];

/// The first of these bytes, as a session or an authentication would take it: the message, or `state message`, with FATAL where the
/// connection ends.
fn read(bytes: &[u8], expected: Expected) -> String {
    let mut bytes = BytesMut::from(bytes);
    let said = |error: &SqlError| format!("{} {}", error.state().as_str(), error.message());
    match Frame::cut(&mut bytes, expected) {
        Ok(None) => "more".to_owned(),
        Err(error) => format!("FATAL {}", said(&error)),
        Ok(Some(frame)) if expected == Expected::Startup => match frame.opening() {
            Ok(opening) => format!("{opening:?}"),
            Err(error) => format!("FATAL {}", said(&error)),
        },
        Ok(Some(frame)) => match frame.message(expected) {
            Ok(message) => format!("{message:?}"),
            Err(error) => said(&error),
        },
    }
}

#[test]
fn malformed_messages_are_refused_in_postgresql_s_words() {
    let (start, first, next, any, copy) = (EXPECTED[0], EXPECTED[1], EXPECTED[2], EXPECTED[3], EXPECTED[4]);
    for (bytes, expected, message) in [
        // Startup packets.
        (&b"\0\0\0\x03\0\x03\0\0"[..], start, "FATAL 08P01 invalid length of startup packet"),
        (b"\0\0\x27\x11\0\x03\0\0", start, "FATAL 08P01 invalid length of startup packet"),
        (b"GET / HTTP/1.1\r\n\r\n", start, "FATAL 08P01 invalid length of startup packet"),
        (b"\x16\x03\x01\x02\0\x01\0", start, "FATAL 08P01 invalid length of startup packet"),
        (
            b"\0\0\0\x08\0\x02\0\0",
            start,
            "FATAL 0A000 unsupported frontend protocol 2.0: server supports 3.0 to 3.2",
        ),
        (
            b"\0\0\0\x08\0\x03\0\0",
            start,
            "FATAL 08P01 invalid startup packet layout: expected terminator as last byte",
        ),
        (
            b"\0\0\0\x0auser\0\0",
            start,
            "FATAL 0A000 unsupported frontend protocol 30067.25970: server supports 3.0 to 3.2",
        ),
        (
            b"\0\0\0\x0d\0\x03\0\0user\0",
            start,
            "FATAL 08P01 invalid startup packet layout: expected terminator as last byte",
        ),
        (
            b"\0\0\0\x0a\0\x03\0\0\0\0",
            start,
            "FATAL 08P01 invalid startup packet layout: expected terminator as last byte",
        ),
        (
            b"\0\0\0\x0c\x04\xd2\x16\x2e\0\0\0\x01",
            start,
            "FATAL 08P01 invalid length of cancel request packet",
        ),
        (b"\0\0\0\x08\x04\xd2\x16\x2f", start, "SslRequest"),
        (b"\0\0\0\x08\x04\xd2\x16\x30", start, "GssEncRequest"),
        (b"\0\0\0\x09\0\x03\0", start, "more"),
        // Authentication.
        (b"p\0\0\0\x04", first, "08P01 invalid string in message"),
        (b"p\0\0\0\x03", first, "FATAL 08P01 invalid message length"),
        (b"p\0\0\0\x06x\0", first, "08P01 insufficient data left in message"),
        (b"p\0\0\0\x0ax\0\0\0\0\x01", first, "08P01 insufficient data left in message"),
        (b"p\0\0\0\x0ax\0\xff\xff\xff\xfe", first, "08P01 insufficient data left in message"),
        (b"p\0\0\0\x0bx\0\xff\xff\xff\xffx", first, "08P01 invalid message format"),
        (b"p\0\x01\0\0", first, "FATAL 08P01 invalid message length"),
        (b"Q\0\0\0\x05\0", first, "FATAL 08P01 expected SASL response, got message type 81"),
        (b"p\0\0\0\x04", next, "PasswordMessageFamily(SASLResponse(SASLResponse { data: b\"\" }))"),
        // Commands.
        (b"Q\0\0\0\x03", any, "FATAL 08P01 invalid message length"),
        (b"Q\0\0\0\x04", any, "08P01 invalid string in message"),
        (b"Q\0\0\0\x0cSELECT 1", any, "08P01 invalid string in message"),
        (b"Q\0\0\0\x08a\0b\0", any, "08P01 invalid message format"),
        (b"Q\0\0\0\x07a\xc3\0", any, "22021 invalid byte sequence for encoding \"UTF8\": 0xc3"),
        (b"Q\x40\0\0\0", any, "FATAL 08P01 invalid message length"),
        (b"P\0\0\0\x06a\0", any, "08P01 invalid string in message"),
        (b"P\0\0\0\x07\0\0\0", any, "08P01 insufficient data left in message"),
        (b"P\0\0\0\x08\0\0\0\x01", any, "08P01 insufficient data left in message"),
        (b"P\0\0\0\x09\0\0\0\0x", any, "08P01 invalid message format"),
        (b"B\0\0\0\x06\0\0", any, "08P01 insufficient data left in message"),
        (b"B\0\0\0\x0c\0\0\x7f\xff\x7f\xff\0\0", any, "08P01 insufficient data left in message"),
        (b"B\0\0\0\x0e\0\0\0\0\0\x01\xff\xff\xff\xfe", any, "08P01 insufficient data left in message"),
        (b"D\0\0\0\x04", any, "08P01 no data left in message"),
        (b"D\0\0\0\x05S", any, "08P01 invalid string in message"),
        (b"C\0\0\0\x06Sa", any, "08P01 invalid string in message"),
        (b"C\0\0\0\x08Sa\0b", any, "08P01 invalid message format"),
        (b"E\0\0\0\x05\0", any, "08P01 insufficient data left in message"),
        (b"E\0\0\0\x0a\0\0\0\0\0x", any, "08P01 invalid message format"),
        (b"E\0\0\x27\x11", any, "FATAL 08P01 invalid message length"),
        (b"S\0\0\0\x05x", any, "08P01 invalid message format"),
        (b"F\0\0\0\x04", any, "0A000 not supported: function calls by the fast path"),
        (b"\x01\0\0\0\x04", any, "FATAL 08P01 invalid frontend message type 1"),
        (b"p\0\0\0\x04", any, "FATAL 08P01 invalid frontend message type 112"),
        // In a COPY.
        (b"f\0\0\0\x05x", copy, "08P01 invalid string in message"),
        (b"Q\0\0\0\x05\0", copy, "FATAL 08P01 unexpected message type 0x51 during COPY from stdin"),
        (b"S\0\0\0\x05x", copy, "Sync(Sync)"),
    ] {
        assert_eq!(read(bytes, expected), message, "{}", bytes.escape_ascii());
    }
}

/// Well-formed messages of all types, each with the longest it can be without being long.
fn seeds() -> Vec<Vec<u8>> {
    let of = |kind: u8, body: &[u8]| [&[kind][..], &(body.len() as u32 + 4).to_be_bytes(), body].concat();
    let without_type = |body: &[u8]| of(0, body)[1..].to_vec();
    vec![
        without_type(b"\0\x03\0\0user\0ann\0database\0weir\0TimeZone\0Asia/Tokyo\0\0"),
        without_type(b"\x04\xd2\x16\x2e\0\0\0\x07abcd"),
        of(b'p', b"SCRAM-SHA-256\0\0\0\0\x0en,,n=,r=abcdefg"),
        of(b'Q', "SELECT 'ä€𝄞'\0".as_bytes()),
        of(b'P', b"s\0SELECT $1, $2\0\0\x02\0\0\0\x17\0\0\0\0"),
        of(b'B', b"p\0s\0\0\x01\0\x01\0\x03\0\0\0\x041234\xff\xff\xff\xff\0\0\0\0\0\x02\0\0\0\x01"),
        of(b'D', b"Ss\0"),
        of(b'C', b"Pp\0"),
        of(b'E', b"p\0\0\0\0\x07"),
        of(b'd', b"1\t2\n"),
        of(b'f', b"enough\0"),
        of(b'F', b"\0\0\0\x01\0\0\0\0\0\0"),
    ]
}

#[test]
fn no_bytes_make_it_panic_or_read_beyond_the_message() {
    for seed in seeds() {
        for expected in EXPECTED {
            for end in 0..seed.len() {
                // Cut off, and told to be that long.
                read(&seed[..end], expected);
                let mut shorter = seed[..end].to_vec();
                if end > 5 {
                    let type_bytes = usize::from(expected != Expected::Startup);
                    let length = (end - type_bytes) as u32;
                    shorter[type_bytes..type_bytes + 4].copy_from_slice(&length.to_be_bytes());
                    let said = read(&shorter, expected);
                    assert_ne!(said, "more", "{}", shorter.escape_ascii());
                }
                for byte in [0, 1, 0x7f, 0x80, 0xff, b'p'] {
                    let mut other = seed.clone();
                    other[end] = byte;
                    read(&other, expected);
                }
            }
            // The bytes behind a message are left for the next one.
            let mut two = BytesMut::from(&[&seed[..], b"rest"].concat()[..]);
            if let Ok(Some(_)) = Frame::cut(&mut two, expected) {
                assert_eq!(&two[..], b"rest");
            }
        }
    }
}

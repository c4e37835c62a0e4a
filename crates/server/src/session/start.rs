//! From a new connection's first bytes to a session: encryption requests, cancel, start-up.
//!
//! Invariants: nothing here waits; what is answered holds no data, so it need not settle. Until
//! the security issue every role and database but those that the backend knows is refused, and no
//! password is asked for: only loopback and a private directory are listened on.

use atoll_sql::{SqlError, SqlState};

use crate::backend::ClientStart;
use crate::codec::{
    ErrorSeverity, FirstMessage, Malformed, Out, PROTOCOL_LATEST, Protocol, Startup,
    StartupDecoded, decode_startup,
};

use super::conversation::utf8;
use super::wire::write_error;

/// What a new connection's bytes ask for.
pub(super) enum First {
    /// More bytes are needed.
    Wait,
    /// Cancel the statement of the session `process`.
    Cancel { process: u32, secret: Vec<u8> },
    /// Open a session.
    Start { start: ClientStart, protocol: Protocol },
    /// Refuse and close.
    Refuse(SqlError),
}

/// Takes first messages from `bytes` until one decides; answers also how many bytes they had.
/// What is to be said at once goes into `out`.
pub(super) fn first(bytes: &[u8], out: &mut Out) -> (First, usize) {
    let mut taken = 0;
    loop {
        match decode_startup(&bytes[taken..]) {
            Ok(StartupDecoded::Incomplete(_)) => return (First::Wait, taken),
            Ok(StartupDecoded::Message(message, length)) => {
                taken += length;
                match message {
                    FirstMessage::Ssl | FirstMessage::Gss => out.no_encryption(),
                    FirstMessage::Cancel(cancel) => {
                        let (process, secret) = (cancel.process, cancel.secret.to_vec());
                        return (First::Cancel { process, secret }, taken);
                    }
                    FirstMessage::Start(message) => {
                        let first = start(&message, out).unwrap_or_else(First::Refuse);
                        return (first, taken);
                    }
                }
            }
            Err(Malformed(why)) => {
                let error = SqlError::new(SqlState::PROTOCOL_VIOLATION, why);
                return (First::Refuse(error), taken);
            }
        }
    }
}

fn start(message: &Startup<'_>, out: &mut Out) -> Result<First, SqlError> {
    let asked = message.protocol;
    if asked.major != PROTOCOL_LATEST.major {
        return Err(SqlError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            format!(
                "unsupported frontend protocol {}.{}: server supports 3.0 to 3.2",
                asked.major, asked.minor
            ),
        ));
    }
    let protocol = asked.min(PROTOCOL_LATEST);
    let mut start = ClientStart::default();
    let mut unknown = Vec::new();
    for (name, value) in message.parameters() {
        let (name, value) = (utf8(name)?, utf8(value)?);
        match name {
            "user" => value.clone_into(&mut start.user),
            "database" => value.clone_into(&mut start.database),
            "options" => start.settings.splice(0..0, options(value)?).for_each(drop),
            "replication" if !matches!(value, "false" | "off" | "no" | "0") => {
                return Err(SqlError::not_supported("the replication protocol"));
            }
            "replication" => {}
            _ if name.starts_with("_pq_.") => unknown.push(name.as_bytes()),
            _ => start.settings.push((name.to_owned(), value.to_owned())),
        }
    }
    if start.user.is_empty() {
        return Err(SqlError::new(
            SqlState::INVALID_AUTHORIZATION_SPECIFICATION,
            "no PostgreSQL user name specified in startup packet",
        ));
    }
    if start.database.is_empty() {
        start.database.clone_from(&start.user);
    }
    if asked > PROTOCOL_LATEST || !unknown.is_empty() {
        out.negotiate_protocol(protocol, &unknown);
    }
    Ok(First::Start { start, protocol })
}

/// Settings from `-c name=value` and `--name=value`; a backslash escapes a blank.
fn options(text: &str) -> Result<Vec<(String, String)>, SqlError> {
    let invalid = |word: &str| {
        let message = format!("invalid command-line argument for server process: {word}");
        SqlError::new(SqlState::SYNTAX_ERROR, message)
    };
    let words = words(text);
    let mut words = words.iter().map(String::as_str);
    let mut settings = Vec::new();
    while let Some(word) = words.next() {
        let pair = match word {
            "-c" => words.next().ok_or_else(|| invalid(word))?,
            _ => word
                .strip_prefix("--")
                .or_else(|| word.strip_prefix("-c"))
                .ok_or_else(|| invalid(word))?,
        };
        let (name, value) = pair.split_once('=').ok_or_else(|| invalid(word))?;
        settings.push((name.replace('-', "_"), value.to_owned()));
    }
    Ok(settings)
}

fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        let word = words.last_mut().expect("there is always a word");
        match character {
            '\\' => word.extend(characters.next()),
            blank if blank.is_ascii_whitespace() => words.push(String::new()),
            other => word.push(other),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// What a started session is told before its first ReadyForQuery.
pub(super) fn welcome(out: &mut Out, settings: &[(String, String)], process: u32, secret: &[u8]) {
    out.authentication_ok();
    for (name, value) in settings {
        out.parameter_status(name, value);
    }
    out.backend_key(process, secret);
    out.ready_for_query(b'I');
}

/// The error that ends a session, alone.
pub(super) fn farewell(out: &mut Out, error: &SqlError) {
    write_error(out, ErrorSeverity::Fatal, error.fields());
}

/// How much of a session's secret its client gets (protocol 3.2 allows longer ones).
pub(super) fn secret_bytes(protocol: Protocol) -> usize {
    if protocol.minor >= 2 { 16 } else { 4 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(code: u32, pairs: &[u8]) -> Vec<u8> {
        let mut bytes = (pairs.len() as u32 + 8).to_be_bytes().to_vec();
        bytes.extend_from_slice(&code.to_be_bytes());
        bytes.extend_from_slice(pairs);
        bytes
    }

    #[test]
    fn encryption_is_declined_and_start_up_follows() {
        let bytes = [
            message(80_877_104, b""),
            message(80_877_103, b""),
            message(196_608, b"user\0ann\0options\0-c a=1 --b-c=x\\ y\0application_name\0psql\0\0"),
        ]
        .concat();
        let mut out = Out::default();
        let (First::Start { start, protocol }, taken) = first(&bytes, &mut out) else {
            panic!("a session starts")
        };
        assert_eq!((taken, &out.bytes[..]), (bytes.len(), &b"NN"[..]));
        assert_eq!((start.user.as_str(), start.database.as_str()), ("ann", "ann"));
        let settings: Vec<_> =
            start.settings.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(settings, [("a", "1"), ("b_c", "x y"), ("application_name", "psql")]);
        assert_eq!(secret_bytes(protocol), 4);
    }

    #[test]
    fn newer_protocols_are_negotiated_and_others_refused() {
        let mut out = Out::default();
        let grease = message(3 << 16 | 9999, b"user\0ann\0_pq_.test\0on\0\0");
        let (First::Start { protocol, .. }, _) = first(&grease, &mut out) else {
            panic!("a session starts")
        };
        assert_eq!(protocol, PROTOCOL_LATEST);
        assert_eq!(out.bytes[0], b'v');
        assert!(out.bytes.ends_with(b"_pq_.test\0"));
        #[track_caller]
        fn refused(bytes: &[u8], state: SqlState) {
            let (First::Refuse(error), _) = first(bytes, &mut Out::default()) else {
                panic!("refused")
            };
            assert_eq!(error.sqlstate(), state);
        }
        refused(&message(2 << 16, b"anything"), SqlState::FEATURE_NOT_SUPPORTED);
        let replication = message(196_608, b"user\0ann\0replication\0database\0\0");
        refused(&replication, SqlState::FEATURE_NOT_SUPPORTED);
        let nobody = message(196_608, b"database\0d\0\0");
        refused(&nobody, SqlState::INVALID_AUTHORIZATION_SPECIFICATION);
        refused(b"GET / HTTP/1.0\r\n", SqlState::PROTOCOL_VIOLATION);
    }
}

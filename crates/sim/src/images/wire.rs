//! A client of a server's unix socket that knows exactly when an answer has arrived.
//!
//! The messages are coded by `postgres-protocol`, not by Atoll's codec, so that the two do not
//! share a mistake. Invariants: one exchange at a time; [`Wire::exchange`] returns when the server's
//! ReadyForQuery has been read, and everything before it belongs to its answer. What the server
//! says of a transaction's fate is final then, whichever protocol asked.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use bytes::BytesMut;
use fallible_iterator::FallibleIterator;
use postgres_protocol::IsNull;
use postgres_protocol::message::backend::{DataRowBody, ErrorResponseBody, Message};
use postgres_protocol::message::frontend;

/// A server that is silent for so long has lost a wake-up.
const PATIENCE: Duration = Duration::from_secs(60);

/// Which protocol carries a statement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// Query, values in the text.
    Simple,
    /// Bind and Execute of a prepared statement.
    Prepared,
}

/// A value of a statement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Value {
    /// A bigint.
    Number(i64),
    /// A text without quotes or backslashes.
    Text(String),
}

impl Value {
    fn text(&self) -> String {
        match self {
            Value::Number(number) => number.to_string(),
            Value::Text(text) => text.clone(),
        }
    }

    fn literal(&self) -> String {
        match self {
            Value::Number(number) => number.to_string(),
            Value::Text(text) => format!("'{text}'"),
        }
    }
}

/// A statement and its values.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Call {
    /// Its text with `$1` and so on.
    pub text: &'static str,
    /// The values, in order.
    pub values: Vec<Value>,
}

impl Call {
    /// The text with the values in it.
    fn filled(&self) -> String {
        let values = self.values.iter().enumerate().rev();
        values.fold(self.text.to_owned(), |text, (at, value)| {
            text.replace(&format!("${}", at + 1), &value.literal())
        })
    }
}

/// An answer, whole.
#[derive(Default, Debug)]
pub struct Reply {
    /// The command tags.
    pub tags: Vec<String>,
    /// The first column of each row.
    pub rows: Vec<String>,
    /// SQLSTATE and message, if a statement failed.
    pub error: Option<(String, String)>,
}

/// A connection.
pub struct Wire {
    stream: UnixStream,
    received: BytesMut,
    to_send: BytesMut,
    /// What is prepared; a statement's place here is its name.
    prepared: Vec<&'static str>,
}

type Result<T> = std::result::Result<T, String>;

fn broken(error: impl std::fmt::Display) -> String {
    format!("the connection: {error}")
}

impl Wire {
    /// Connects to the socket in `folder` and prepares `statements`.
    pub fn connect(folder: &Path, statements: &[&'static str]) -> Result<Wire> {
        let path = folder.join(".s.PGSQL.5432");
        let stream = UnixStream::connect(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(broken)?;
        let mut wire = Wire {
            stream,
            received: BytesMut::new(),
            to_send: BytesMut::new(),
            prepared: statements.to_vec(),
        };
        let start = [("user", "postgres"), ("database", "postgres")];
        frontend::startup_message(start, &mut wire.to_send).map_err(broken)?;
        wire.exchange()?.done()?;
        for (at, text) in statements.iter().enumerate() {
            frontend::parse(&at.to_string(), text, [], &mut wire.to_send).map_err(broken)?;
        }
        frontend::sync(&mut wire.to_send);
        wire.exchange()?.done()?;
        Ok(wire)
    }

    /// Runs statements in one message, or in one batch up to a Sync: alone they commit together.
    pub fn run(&mut self, form: Form, calls: &[Call]) -> Result<Reply> {
        match form {
            Form::Simple => {
                let texts: Vec<String> = calls.iter().map(Call::filled).collect();
                self.query(&texts.join("; "))
            }
            Form::Prepared => {
                for call in calls {
                    self.bind_and_execute(call)?;
                }
                frontend::sync(&mut self.to_send);
                self.exchange()
            }
        }
    }

    /// Runs a text in the simple protocol.
    pub fn query(&mut self, text: &str) -> Result<Reply> {
        frontend::query(text, &mut self.to_send).map_err(broken)?;
        self.exchange()
    }

    fn bind_and_execute(&mut self, call: &Call) -> Result<()> {
        let put = |value: &Value, out: &mut BytesMut| {
            out.extend_from_slice(value.text().as_bytes());
            Ok(IsNull::No)
        };
        let place = self.prepared.iter().position(|text| *text == call.text);
        let name = place.ok_or_else(|| broken(format!("\"{}\" is not prepared", call.text)))?;
        let (all_text, out) = ([], &mut self.to_send);
        frontend::bind("", &name.to_string(), all_text, &call.values, put, [], out)
            .map_err(|_| broken("a message does not fit"))?;
        frontend::execute("", 0, out).map_err(broken)
    }

    /// Sends what is to be sent and reads up to ReadyForQuery.
    fn exchange(&mut self) -> Result<Reply> {
        self.stream.write_all(&self.to_send).map_err(broken)?;
        self.to_send.clear();
        let mut reply = Reply::default();
        loop {
            match self.next_message()? {
                Message::ReadyForQuery(_) => return Ok(reply),
                Message::CommandComplete(body) => {
                    reply.tags.push(body.tag().map_err(broken)?.to_owned());
                }
                Message::DataRow(body) => reply.rows.push(first_column(&body)?),
                Message::ErrorResponse(body) => {
                    let error = state_and_message(&body)?;
                    // The end of the session: no ReadyForQuery comes after it.
                    if error.0.starts_with("57P") {
                        return Err(format!("{} ({})", error.1, error.0));
                    }
                    reply.error.get_or_insert(error);
                }
                _ => {}
            }
        }
    }

    fn next_message(&mut self) -> Result<Message> {
        loop {
            if let Some(message) = Message::parse(&mut self.received).map_err(broken)? {
                return Ok(message);
            }
            let mut bytes = [0; 4096];
            match self.stream.read(&mut bytes).map_err(broken)? {
                0 => return Err(broken("the server has closed it")),
                n => self.received.extend_from_slice(&bytes[..n]),
            }
        }
    }
}

impl Reply {
    /// Itself if no statement failed.
    pub fn done(self) -> Result<Reply> {
        match self.error {
            None => Ok(self),
            Some((state, message)) => Err(format!("{message} ({state})")),
        }
    }

    /// Whether a statement failed because of what others did: the transaction can be run again.
    pub fn gave_way(&self) -> bool {
        self.error.as_ref().is_some_and(|(state, _)| state == "40001" || state == "40P01")
    }
}

fn first_column(body: &DataRowBody) -> Result<String> {
    let range = body.ranges().next().map_err(broken)?.flatten();
    let bytes = range.map_or(&[][..], |range| &body.buffer()[range]);
    Ok(String::from_utf8_lossy(bytes).into_owned())
}

fn state_and_message(body: &ErrorResponseBody) -> Result<(String, String)> {
    let (mut state, mut message) = (String::new(), String::new());
    let mut fields = body.fields();
    while let Some(field) = fields.next().map_err(broken)? {
        let text = || String::from_utf8_lossy(field.value_bytes()).into_owned();
        match field.type_() {
            b'C' => state = text(),
            b'M' => message = text(),
            _ => {}
        }
    }
    Ok((state, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_take_their_places() {
        let number = |number| Value::Number(number);
        let mut values: Vec<Value> = (1..=9).map(number).collect();
        values.push(Value::Text("ten".to_owned()));
        let call = Call { text: "values ($1, $10, $2), ($3, $4, $9)", values };
        assert_eq!(call.filled(), "values (1, 'ten', 2), (3, 4, 9)");
    }
}

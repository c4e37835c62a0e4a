//! A client that speaks bytes, for what no driver would send.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// One connection.
pub struct Raw {
    pub stream: TcpStream,
}

/// A message with its tag and length.
pub fn framed(tag: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![tag];
    bytes.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
    bytes.extend_from_slice(body);
    bytes
}

/// A simple query.
pub fn query(text: &str) -> Vec<u8> {
    framed(b'Q', format!("{text}\0").as_bytes())
}

/// The SQLSTATE of an ErrorResponse.
pub fn state(body: &[u8]) -> String {
    let field = body.split(|byte| *byte == 0).find(|field| field.first() == Some(&b'C'));
    field.map(|field| String::from_utf8_lossy(&field[1..]).into_owned()).unwrap_or_default()
}

impl Raw {
    /// A started session.
    pub fn start(port: u16) -> Raw {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(90))).unwrap();
        let mut raw = Raw { stream };
        let pairs = b"user\0postgres\0database\0postgres\0\0";
        let mut bytes = (pairs.len() as u32 + 8).to_be_bytes().to_vec();
        bytes.extend_from_slice(&196_608u32.to_be_bytes());
        bytes.extend_from_slice(pairs);
        raw.send(&bytes);
        assert!(raw.until_ready().0.ends_with('Z'));
        raw
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// The next message; `None` at the connection's end.
    pub fn message(&mut self) -> Option<(u8, Vec<u8>)> {
        let mut head = [0; 5];
        self.stream.read_exact(&mut head).ok()?;
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        let mut body = vec![0; length - 4];
        self.stream.read_exact(&mut body).ok()?;
        Some((head[0], body))
    }

    /// Tags up to ReadyForQuery or the end, and the state of the last error.
    pub fn until_ready(&mut self) -> (String, String) {
        let (mut tags, mut error) = (String::new(), String::new());
        while let Some((tag, body)) = self.message() {
            tags.push(char::from(tag));
            match tag {
                b'E' => error = state(&body),
                b'Z' => break,
                _ => {}
            }
        }
        (tags, error)
    }

    /// Asks and answers tags and the last error's state.
    pub fn says(&mut self, text: &str) -> (String, String) {
        self.send(&query(text));
        self.until_ready()
    }

    /// The states of everything that is still to come.
    pub fn rest(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.message()).map(|(_, body)| state(&body)).collect()
    }
}

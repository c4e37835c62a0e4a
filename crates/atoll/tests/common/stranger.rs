//! A server that is not Atoll: it speaks the protocol, answers 0 to every question, and remembers them.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::JoinHandle;

/// Serves one connection.
pub struct Stranger {
    pub port: u16,
    thread: JoinHandle<Vec<String>>,
}

impl Stranger {
    pub fn start() -> Stranger {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        Stranger { port, thread: std::thread::spawn(move || serve(listener.accept().unwrap().0)) }
    }

    /// What it was asked, when its client has gone.
    pub fn asked(self) -> Vec<String> {
        self.thread.join().unwrap()
    }
}

fn serve(mut stream: TcpStream) -> Vec<String> {
    let mut asked = Vec::new();
    body(&mut stream).unwrap();
    answer(&mut stream, &[(b'R', &[0; 4]), (b'Z', b"I")]);
    // One column of type int8, one row.
    let mut column = vec![0, 1];
    column.extend(b"count\0");
    column.extend([0, 0, 0, 0, 0, 0, 0, 0, 0, 20, 0, 8, 255, 255, 255, 255, 0, 0]);
    let mut kind = [0];
    while stream.read_exact(&mut kind).is_ok() {
        let Some(body) = body(&mut stream) else { break };
        if kind[0] == b'Q' {
            asked.push(String::from_utf8(body).unwrap());
            let row = [0, 1, 0, 0, 0, 1, b'0'];
            let end = (b'C', &b"SELECT 1\0"[..]);
            answer(&mut stream, &[(b'T', &column), (b'D', &row), end, (b'Z', b"I")]);
        }
    }
    asked
}

/// What follows a message's length.
fn body(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).ok()?;
    let mut body = vec![0; u32::from_be_bytes(length) as usize - 4];
    stream.read_exact(&mut body).ok()?;
    Some(body)
}

fn answer(stream: &mut TcpStream, messages: &[(u8, &[u8])]) {
    let mut bytes = Vec::new();
    for (kind, body) in messages {
        bytes.push(*kind);
        bytes.extend((body.len() as u32 + 4).to_be_bytes());
        bytes.extend(*body);
    }
    // A client that has gone hears nothing.
    let _ = stream.write_all(&bytes);
}

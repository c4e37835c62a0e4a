//! The body of the wire's fuzz target, shared with `cargo test` (`codec::tests`).

use crate::codec::{
    Decoded, FirstMessage, Frontend, Limits, StartupDecoded, decode, decode_startup,
};

/// Feeds `bytes` to the decoders as a client's stream, before and after start-up, and reads every
/// part of what they find. Panics if a decoder takes more than it was given, or nothing.
pub fn wire(bytes: &[u8]) {
    let mut left = bytes;
    while let Ok(StartupDecoded::Message(message, taken)) = decode_startup(left) {
        assert!(taken > 0 && taken <= left.len(), "a message is within the buffer");
        left = &left[taken..];
        match message {
            FirstMessage::Ssl | FirstMessage::Gss => {}
            FirstMessage::Cancel(cancel) => {
                assert!(cancel.secret.len() <= 256);
                return;
            }
            FirstMessage::Start(start) => {
                std::hint::black_box(start.parameters().count());
                break;
            }
        }
    }
    for stream in [bytes, left] {
        messages(stream);
    }
}

fn messages(mut left: &[u8]) {
    let limits = Limits { large_bytes_max: 1 << 20, ..Limits::default() };
    loop {
        let (message, taken) = match decode(left, &limits) {
            Ok(Decoded::Message(message, taken)) => (Some(message), taken),
            Ok(Decoded::Bad { taken, .. }) => (None, taken),
            Ok(Decoded::Incomplete(_)) | Err(_) => return,
        };
        assert!(taken > 0 && taken <= left.len(), "a message is within the buffer");
        left = &left[taken..];
        let Some(message) = message else { continue };
        match message {
            Frontend::Bind(bind) => {
                let read = bind.parameters.iter().count();
                assert_eq!(read, bind.parameters.len(), "every parameter was checked");
                std::hint::black_box(bind.formats.iter().chain(bind.results.iter()).count());
            }
            Frontend::Parse(parse) => {
                assert_eq!(parse.types.iter().count(), parse.types.len());
            }
            other => {
                std::hint::black_box(other);
            }
        }
    }
}

//! Bytes that nobody wrote, with checksums that hold: decoding answers, and never panics.
//! `ATOLL_FUZZ_SECONDS` says how long (`cargo xtask fuzz`).

use std::time::{Duration, Instant};

use super::super::format::{
    FlushSays, Place, SegmentHeader, encode_chunk, encode_commit, encode_flush, flush_head_bytes,
    place_of,
};
use super::super::fuzz::{Verdict, record as record_of};
use super::super::manifest::Manifest;
use super::super::*;
use super::seed;
use crate::base::{Cts, HomeId, LogPosition, Observed};
use crate::io::trace::{Event, Trace};

fn duration() -> Duration {
    let seconds = std::env::var("ATOLL_FUZZ_SECONDS").ok().and_then(|s| s.parse().ok());
    seconds.map_or(Duration::from_millis(300), Duration::from_secs)
}

/// Changes, cuts or grows bytes in a few places.
fn mutate(random: &mut fastrand::Rng, bytes: &mut Vec<u8>) {
    for _ in 0..random.usize(1..6) {
        let at = random.usize(..bytes.len().max(1));
        match random.u8(..8) {
            0 if !bytes.is_empty() => bytes.truncate(at),
            1 => bytes.extend((0..random.usize(..40)).map(|_| random.u8(..))),
            2 if !bytes.is_empty() => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][random.usize(..5)],
            _ if !bytes.is_empty() => bytes[at] = random.u8(..),
            _ => {}
        }
    }
}

/// A valid record of some kind.
fn record(random: &mut fastrand::Rng) -> Vec<u8> {
    let position = LogPosition(random.u64(..));
    let place = Place { incarnation: random.u32(..), home: HomeId(random.u16(..)), position };
    let observed = Observed { home: HomeId(random.u16(..)), cts: Cts(random.u64(..)) };
    let observed = vec![observed; random.usize(..4)];
    let payload: Vec<u8> = (0..random.usize(..60)).map(|_| random.u8(..)).collect();
    let mut out = vec![0; 1024];
    let n = match random.u8(..3) {
        0 => encode_chunk(&mut out, place, random.u64(..), &payload),
        1 => {
            let chunk = ChunkRef { position, from: 0, to: random.u32(..) };
            let chunks = vec![chunk; random.usize(..3)];
            encode_commit(&mut out, place, Cts(random.u64(..)), &observed, &chunks, &payload)
        }
        _ => {
            let head = flush_head_bytes(5);
            let says = FlushSays {
                durable: position,
                previous_end: position,
                bytes: 999,
                marks: &observed,
                wall_micros: Some(7),
            };
            encode_flush(&mut out, head, place, says);
            head
        }
    };
    out.truncate(n);
    out
}

#[test]
fn fuzz_log_records() {
    let mut random = fastrand::Rng::with_seed(seed());
    let end = Instant::now() + duration();
    let (mut taken, mut refused) = (0u64, 0u64);
    while Instant::now() < end {
        let mut bytes = record(&mut random);
        mutate(&mut random, &mut bytes);
        if bytes.len() >= 32 && random.u8(..8) > 0 {
            // So that what lies behind the checksum is reached.
            let length = u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
            let length = (length as usize).clamp(32, bytes.len());
            bytes[4..8].copy_from_slice(&(length as u32).to_le_bytes());
            let sum = crc32c::crc32c(&bytes[4..length]);
            bytes[..4].copy_from_slice(&sum.to_le_bytes());
            let _ = place_of(&bytes);
        }
        match record_of(&bytes) {
            Verdict::Taken => taken += 1,
            Verdict::Refused => refused += 1,
        }
    }
    assert!(taken > 100 && refused > 100, "{taken} taken, {refused} refused");
}

#[test]
fn fuzz_log_manifests_headers_and_recordings() {
    let mut random = fastrand::Rng::with_seed(seed());
    let end = Instant::now() + duration();
    let span = manifest::LogSpan { start: LogPosition(7), cut: None };
    let manifest = Manifest {
        number: 3,
        database: 5,
        page_bytes: 16384,
        clock_offset: 0,
        homes: 2,
        incarnations: vec![manifest::Incarnation { number: 1, logs: vec![span; 2] }],
        checkpoint: None,
    };
    let whole = manifest.encode();
    let trace = Trace::in_memory();
    trace.record(&Event::Create { file: 1, name: "f".to_owned() });
    trace.note(b"told");
    let recording = trace.bytes();
    let mut taken = 0;
    while Instant::now() < end {
        let mut bytes = whole.clone();
        mutate(&mut random, &mut bytes);
        if bytes.len() > 4 {
            let body = bytes.len() - 4;
            let sum = crc32c::crc32c(&bytes[..body]);
            bytes[body..].copy_from_slice(&sum.to_le_bytes());
        }
        if let Ok(read) = Manifest::decode(&bytes, "m") {
            assert_eq!(read.current().logs.len(), usize::from(read.homes));
            taken += 1;
        }
        let _ = SegmentHeader::decode(&bytes);
        let mut bytes = recording.clone();
        mutate(&mut random, &mut bytes);
        let _ = Trace::parse(&bytes);
    }
    assert!(taken > 0, "some changes leave a manifest that reads");
}

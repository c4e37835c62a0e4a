//! One suite over every form: what a form may not do differently.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::*;
use crate::base::Error;

/// Runs `check` over each form that exists on this machine.
fn over_all(check: impl Fn(&dyn Disk)) {
    over_rings(&check);
    check(&SimDisk::new(SimOptions::seeded(7)));
    let trace = Trace::in_memory();
    check(&RecordingDisk::new(Arc::new(SimDisk::new(SimOptions::seeded(8))), trace));
}

/// Runs `check` over each form that has sockets.
fn over_rings(check: &impl Fn(&dyn Disk)) {
    for choice in [IoChoice::Auto, IoChoice::Threads] {
        let folder = tempfile::tempdir().unwrap();
        check(&RealDisk::open(folder.path(), choice).unwrap());
        check(&MemoryDisk::new(choice));
        let folder = tempfile::tempdir().unwrap();
        let real = Arc::new(RealDisk::open(folder.path(), choice).unwrap());
        check(&RecordingDisk::new(real, Trace::in_memory()));
    }
}

/// Waits for `count` completions.
fn collect(ring: &dyn Ring, count: usize) -> Vec<Completion> {
    let mut out = Vec::new();
    let deadline = Instant::now() + Duration::from_secs(90);
    while out.len() < count {
        assert!(Instant::now() < deadline, "{} of {count} completions came", out.len());
        ring.reap(&mut out);
        if out.len() < count {
            ring.wait(Some(Duration::from_millis(200)));
        }
    }
    out
}

fn filled(bytes: usize, with: u8) -> IoBuffer {
    let mut buffer = IoBuffer::zeroed(bytes);
    buffer.fill(with);
    buffer
}

#[test]
fn names_behave_alike() {
    over_all(|disk| {
        disk.create_dir("log/0003").unwrap();
        assert!(disk.exists("log").unwrap() && disk.exists("log/0003").unwrap());
        let missing = disk.open("log/0003/a", OpenHow::Existing, Direct::No).err();
        assert!(matches!(missing, Some(Error::NotFound { .. })), "{} {missing:?}", disk.kind());
        disk.open("log/0003/a", OpenHow::CreateNew, Direct::No).unwrap();
        let again = disk.open("log/0003/a", OpenHow::CreateNew, Direct::No).err();
        assert!(matches!(again, Some(Error::AlreadyExists { .. })), "{} {again:?}", disk.kind());
        disk.open("log/0003/b", OpenHow::CreateOrOpen, Direct::Yes).unwrap();
        assert_eq!(disk.list("log/0003").unwrap(), ["a", "b"]);
        assert_eq!(disk.list("log").unwrap(), ["0003"]);
        assert!(disk.list("nothing").unwrap().is_empty());
        disk.rename("log/0003/a", "log/0003/b").unwrap();
        assert_eq!(disk.list("log/0003").unwrap(), ["b"]);
        disk.sync_dir("log/0003").unwrap();
        disk.remove("log/0003/b").unwrap();
        assert!(!disk.exists("log/0003/b").unwrap());
        assert!(disk.remove("log/0003/b").is_err());
    });
}

#[test]
fn files_behave_alike() {
    over_all(|disk| {
        for direct in [Direct::No, Direct::Yes] {
            let name = format!("{direct:?}");
            let file = disk.open(&name, OpenHow::CreateNew, direct).unwrap();
            assert!(file.is_empty().unwrap());
            file.allocate(16384).unwrap();
            assert_eq!(file.len().unwrap(), 16384);
            file.write_at(4096, &[5; 8192]).unwrap();
            file.sync().unwrap();
            let mut read = vec![1; 20000];
            assert_eq!(file.read_at(0, &mut read).unwrap(), 16384);
            assert!(read[..4096].iter().all(|&b| b == 0));
            assert!(read[4096..12288].iter().all(|&b| b == 5));
            assert!(read[12288..16384].iter().all(|&b| b == 0));
            assert_eq!(file.read_at(16384, &mut read).unwrap(), 0);
            file.truncate(32768).unwrap();
            assert_eq!(file.len().unwrap(), 16384, "it is made no longer");
            file.truncate(8192).unwrap();
            assert_eq!(file.len().unwrap(), 8192);
            assert_eq!(file.read_at(4096, &mut read).unwrap(), 4096);
            // What was cut off does not come back.
            file.allocate(16384).unwrap();
            assert_eq!(file.read_at(8192, &mut read).unwrap(), 8192);
            assert!(read[..8192].iter().all(|&b| b == 0));
        }
        let file = disk.open("odd", OpenHow::CreateNew, Direct::No).unwrap();
        file.write_at(3, b"abc").unwrap();
        assert_eq!(file.len().unwrap(), 6);
        let mut read = [9; 10];
        assert_eq!(file.read_at(1, &mut read).unwrap(), 5);
        assert_eq!(&read[..5], b"\0\0abc");
    });
}

#[test]
fn ring_files_behave_alike() {
    over_all(|disk| {
        let ring = disk.ring().unwrap();
        let file = disk.open("f", OpenHow::CreateNew, Direct::Yes).unwrap();
        for n in 0..40u8 {
            let durability = if n % 2 == 0 { Durability::Durable } else { Durability::Volatile };
            let op = Op::Write {
                file: file.clone(),
                offset: u64::from(n) * 8192,
                buffer: filled(8192, n + 1),
                durability,
            };
            ring.submit(op, Token(u64::from(n)));
        }
        let mut seen = [0; 40];
        for done in collect(ring.as_ref(), 40) {
            assert_eq!(done.result, Ok(8192), "{}", disk.kind());
            let Returned::Io(buffer) = done.buffer else { panic!("the buffer comes back") };
            assert_eq!(u64::from(buffer[0]), done.token.0 + 1);
            seen[done.token.0 as usize] += 1;
        }
        assert_eq!(seen, [1; 40], "each completes once");
        ring.submit(Op::Sync { file: file.clone() }, Token(100));
        assert_eq!(collect(ring.as_ref(), 1)[0].result, Ok(0));
        // A read over the end comes back shorter.
        let op = Op::Read { file: file.clone(), offset: 39 * 8192, buffer: filled(16384, 0) };
        ring.submit(op, Token(101));
        let done = collect(ring.as_ref(), 1).pop().unwrap();
        assert_eq!(done.result, Ok(8192), "{}", disk.kind());
        let Returned::Io(buffer) = done.buffer else { panic!("the buffer comes back") };
        assert!(buffer[..8192].iter().all(|&b| b == 40));
    });
}

#[test]
fn many_operations_go_through_a_small_queue() {
    over_all(|disk| {
        let ring = disk.ring().unwrap();
        let file = disk.open("f", OpenHow::CreateNew, Direct::No).unwrap();
        for n in 0..1000u64 {
            let op = Op::Write {
                file: file.clone(),
                offset: n * 512,
                buffer: filled(512, 7),
                durability: Durability::Volatile,
            };
            ring.submit(op, Token(n));
        }
        let done = collect(ring.as_ref(), 1000);
        assert!(done.iter().all(|done| done.result == Ok(512)));
        assert_eq!(file.len().unwrap(), 512_000);
    });
}

#[test]
fn a_dropped_ring_leaves_its_writes_whole() {
    over_all(|disk| {
        let file = disk.open("f", OpenHow::CreateNew, Direct::Yes).unwrap();
        let ring = disk.ring().unwrap();
        for n in 0..8 {
            let op = Op::Write {
                file: file.clone(),
                offset: n * 65536,
                buffer: filled(65536, 3),
                durability: Durability::Volatile,
            };
            ring.submit(op, Token(n));
        }
        ring.reap(&mut Vec::new());
        drop(ring);
    });
}

#[test]
fn a_wake_ends_a_wait() {
    over_rings(&|disk: &dyn Disk| {
        let ring = disk.ring().unwrap();
        // A wake before the wait is not lost.
        ring.waker().wake();
        let start = Instant::now();
        ring.wait(Some(Duration::from_secs(90)));
        assert!(start.elapsed() < Duration::from_secs(60), "{}", disk.kind());
        // A wake during the wait, twice: the watch is posted again.
        for _ in 0..2 {
            let waker = ring.waker();
            let thread = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(30));
                waker.wake();
            });
            let start = Instant::now();
            ring.wait(Some(Duration::from_secs(90)));
            assert!(start.elapsed() < Duration::from_secs(60), "{}", disk.kind());
            thread.join().unwrap();
        }
        // Without one, the timeout ends it, and not early.
        let start = Instant::now();
        ring.wait(Some(Duration::from_millis(20)));
        let took = start.elapsed();
        assert!(took >= Duration::from_millis(19), "{} {took:?}", disk.kind());
    });
}

/// Blocking sockets and non-blocking ones behave the same.
#[test]
fn sockets_behave_alike() {
    over_rings(&|disk: &dyn Disk| {
        for nonblocking in [false, true] {
            echo(disk, nonblocking);
        }
    });
}

fn echo(disk: &dyn Disk, nonblocking: bool) {
    let ring = disk.ring().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(nonblocking).unwrap();
    let address = listener.local_addr().unwrap();
    ring.submit(Op::Accept { listener: listener.as_raw_fd() }, Token(1));
    ring.reap(&mut Vec::new());
    let mut client = TcpStream::connect(address).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(90))).unwrap();
    let done = collect(ring.as_ref(), 1).pop().unwrap();
    let fd = i32::try_from(done.result.unwrap()).unwrap();
    // SAFETY: the accept gave the descriptor to us.
    let server = unsafe { TcpStream::from_raw_fd(fd) };
    server.set_nonblocking(nonblocking).unwrap();

    let op = Op::Recv { socket: fd, buffer: vec![0; 64] };
    ring.submit(op, Token(2));
    ring.reap(&mut Vec::new());
    client.write_all(b"hello").unwrap();
    let done = collect(ring.as_ref(), 1).pop().unwrap();
    assert_eq!((done.token, done.result), (Token(2), Ok(5)));
    let Returned::Bytes(buffer) = done.buffer else { panic!("the buffer comes back") };
    assert_eq!((&buffer[..5], buffer.len()), (&b"hello"[..], 64));

    // More than the socket's buffers hold: sends are short or wait, and nothing is lost.
    let total = 8 << 20;
    let reader = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        let mut bytes = vec![0; total];
        client.read_exact(&mut bytes).unwrap();
        assert!(bytes.iter().enumerate().all(|(i, &b)| b == (i % 251) as u8));
        client
    });
    let mut buffer: Vec<u8> = (0..total).map(|i| (i % 251) as u8).collect();
    let mut from = 0;
    while from < total {
        ring.submit(Op::Send { socket: fd, buffer, from }, Token(3));
        let done = collect(ring.as_ref(), 1).pop().unwrap();
        from += done.result.unwrap() as usize;
        let Returned::Bytes(back) = done.buffer else { panic!("the buffer comes back") };
        buffer = back;
    }
    let client = reader.join().unwrap();

    // Cancel ends a receive that waits; its buffer comes back.
    ring.submit(Op::Recv { socket: fd, buffer: vec![0; 8] }, Token(4));
    ring.reap(&mut Vec::new());
    ring.submit(Op::Cancel { token: Token(4) }, Token(5));
    let done = collect(ring.as_ref(), 1).pop().unwrap();
    assert_eq!((done.token, done.result), (Token(4), Err(libc::ECANCELED)));
    assert!(matches!(done.buffer, Returned::Bytes(buffer) if buffer.len() == 8));

    // The peer closes: nothing is received; sending ends in an error, not in a signal.
    drop(client);
    ring.submit(Op::Recv { socket: fd, buffer: vec![0; 8] }, Token(6));
    assert_eq!(collect(ring.as_ref(), 1)[0].result, Ok(0));
    let mut failed = None;
    for _ in 0..3 {
        ring.submit(Op::Send { socket: fd, buffer: vec![0; 8], from: 0 }, Token(7));
        failed = collect(ring.as_ref(), 1)[0].result.err();
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(matches!(failed, Some(libc::EPIPE | libc::ECONNRESET)), "{failed:?}");
    ring.submit(Op::Recv { socket: -1, buffer: vec![0; 8] }, Token(8));
    assert_eq!(collect(ring.as_ref(), 1)[0].result, Err(libc::EBADF));
    let _ = server.into_raw_fd();
    // SAFETY: the descriptor was let go just now.
    unsafe { libc::close(fd) };
}

#[test]
fn a_directory_has_one_holder() {
    over_all(|disk| {
        let held = disk.lock("connect with psql -h /tmp").unwrap();
        let refused = disk.lock("me").err();
        let Some(Error::Unusable { detail }) = refused else { panic!("{refused:?}") };
        assert!(detail.contains(&format!("process {}", std::process::id())), "{detail}");
        assert!(detail.contains("connect with psql -h /tmp"), "{detail}");
        drop(held);
        drop(disk.lock("me").unwrap());
    });
}

/// As it must be of one that is mounted so.
#[test]
fn a_directory_that_is_read_is_not_changed() {
    let folder = tempfile::tempdir().unwrap();
    let disk = RealDisk::open(folder.path(), IoChoice::Threads).unwrap();
    let file = disk.open("a", OpenHow::CreateNew, Direct::No).unwrap();
    file.write_at(0, &[7; 4096]).unwrap();
    let disk = RealDisk::to_read(folder.path());
    let file = disk.open("a", OpenHow::Existing, Direct::Yes).unwrap();
    let mut block = filled(4096, 0);
    assert_eq!(file.read_at(0, &mut block), Ok(4096));
    assert_eq!(block[..], filled(4096, 7)[..]);
    // SAFETY: the descriptor is open for as long as `file` lives.
    let flags = unsafe { libc::fcntl(file.raw_fd().unwrap(), libc::F_GETFL) };
    assert_eq!(flags & libc::O_ACCMODE, libc::O_RDONLY);
    assert!(file.write_at(0, &block).is_err());
    let refused = [
        disk.open("b", OpenHow::CreateNew, Direct::No).map(drop),
        disk.open("b", OpenHow::CreateOrOpen, Direct::No).map(drop),
        disk.rename("a", "b"),
        disk.remove("a"),
        disk.create_dir("b"),
        disk.lock("me").map(drop),
        disk.clear(),
    ];
    for told in refused {
        let is_read_only = matches!(&told, Err(Error::Io { errno, .. }) if *errno == libc::EROFS);
        assert!(is_read_only, "{told:?}");
    }
    assert_eq!(disk.list(""), Ok(vec!["a".to_owned()]));
}

#[test]
fn paths_stay_inside() {
    let folder = tempfile::tempdir().unwrap();
    let disk = RealDisk::open(folder.path(), IoChoice::Auto).unwrap();
    assert!(disk.open("../outside", OpenHow::CreateOrOpen, Direct::No).is_err());
    assert!(disk.open("/tmp/outside", OpenHow::CreateOrOpen, Direct::No).is_err());
}

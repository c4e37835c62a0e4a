//! `atoll serve` as a whole program: start, refusal, stop.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::process::Command;

use common::{Running, atoll};

const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];

fn fails(mut command: Command) -> String {
    let output = command.output().unwrap();
    assert!(!output.status.success());
    assert!(output.stdout.is_empty());
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_server_starts_answers_refuses_a_second_and_stops() {
    let folder = tempfile::tempdir().unwrap();
    let (data, sockets) = (folder.path().join("data"), folder.path().join("sockets"));
    let mut command = atoll(&data);
    command.args(["--listen", "127.0.0.1:0"]).arg("--socket-dir").arg(&sockets);
    let running = Running::start(command);
    let port = running.port();
    let socket = sockets.join(format!(".s.PGSQL.{port}"));
    let mut answer = [0];
    let mut tcp = TcpStream::connect(("127.0.0.1", port)).unwrap();
    tcp.write_all(&SSL_REQUEST).unwrap();
    tcp.read_exact(&mut answer).unwrap();
    assert_eq!(answer, *b"N");
    let mut unix = UnixStream::connect(&socket).unwrap();
    unix.write_all(&SSL_REQUEST).unwrap();
    unix.read_exact(&mut answer).unwrap();
    assert_eq!(answer, *b"N");
    // A second server gets a clear answer and changes nothing.
    let mut second = atoll(&data);
    second.args(["--listen", "127.0.0.1:0"]);
    let told = fails(second);
    assert!(told.contains(&running.child.id().to_string()), "{told}");
    assert!(told.contains(&format!("connect to 127.0.0.1:{port}")), "{told}");
    running.terminate();
    assert!(!socket.exists());
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
    // And again on what is there, after a kill as well.
    for _ in 0..2 {
        let mut command = atoll(&data);
        command.args(["--listen", "127.0.0.1:0"]).arg("--socket-dir").arg(&sockets);
        drop(Running::start(command));
    }
}

#[test]
fn settings_come_from_flags_variables_and_the_file_and_mistakes_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let mut open = atoll(folder.path());
    open.args(["--listen", "0.0.0.0:0"]);
    assert!(fails(open).contains("not a loopback address"));
    let mut wrong = atoll(folder.path());
    wrong.args(["--listen", "127.0.0.1:0"]).env("ATOLL_CLOCK", "sundial");
    assert!(fails(wrong).contains("ATOLL_CLOCK: clock = \"sundial\""));
    std::fs::write(folder.path().join("atoll.toml"), "max_connections = 3\n").unwrap();
    assert!(fails(atoll(folder.path())).contains("there is no setting \"max_connections\""));
    std::fs::write(folder.path().join("atoll.toml"), "listen = \"127.0.0.1:0\"\n").unwrap();
    Running::start(atoll(folder.path())).terminate();
}

#[test]
fn help_and_version_are_everywhere() {
    for arguments in
        [&["--help"][..], &["serve", "--help"], &["--version"], &["serve", "--version"]]
    {
        let output = Command::new(env!("CARGO_BIN_EXE_atoll")).args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}");
        assert!(String::from_utf8(output.stdout).unwrap().contains("atoll"));
    }
}

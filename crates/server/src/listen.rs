//! Listening: loopback TCP and a unix socket in a private folder; nothing else until there are
//! passwords.
//!
//! Invariants: every address is a loopback address or the listener is not made; the socket's
//! folder belongs to nobody else (mode 0700). Connections are accepted on one instance's ring and
//! given to all instances in turn. A socket file is removed with its listener.

use std::cell::{Cell, RefCell};
use std::fs;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use atoll_kernel::base::InstanceId;
use atoll_kernel::io::{Completion, Op, accepted};
use atoll_kernel::runtime::{Instance, InstanceState, Poll, Service, ServiceId};

use crate::backend::Backend;
use crate::error::{Result, ServerError};
use crate::session::Newcomer;

/// A port that a unix socket is named by if nothing else says one.
const PORT_DEFAULT: u16 = 5432;
/// How long accepting pauses after an error (no descriptors left, say).
const PAUSE_NS: u64 = 100_000_000;

enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener, PathBuf),
}

/// Bound sockets that nobody accepts on yet.
pub struct Listeners {
    sockets: Vec<Socket>,
}

impl Listeners {
    /// Binds every address of `addresses` (`host:port`) and a socket in `folder`.
    pub fn bind(addresses: &[String], folder: Option<&Path>) -> Result<Listeners> {
        let mut sockets = Vec::new();
        for address in addresses {
            let problem =
                |problem: String| ServerError::Listen { address: address.clone(), problem };
            let resolved: Vec<SocketAddr> =
                address.to_socket_addrs().map_err(|error| problem(error.to_string()))?.collect();
            if let Some(open) = resolved.iter().find(|address| !address.ip().is_loopback()) {
                return Err(problem(format!(
                    "{} is not a loopback address, and there are no passwords yet",
                    open.ip()
                )));
            }
            for address in resolved {
                let socket =
                    TcpListener::bind(address).map_err(|error| problem(error.to_string()))?;
                sockets.push(Socket::Tcp(socket));
            }
        }
        if let Some(folder) = folder {
            let port = sockets.iter().find_map(Socket::port).unwrap_or(PORT_DEFAULT);
            sockets.push(bind_unix(folder, port)?);
        }
        if sockets.is_empty() {
            let problem = "neither an address nor a socket folder is set".to_owned();
            return Err(ServerError::Listen { address: "nothing".to_owned(), problem });
        }
        Ok(Listeners { sockets })
    }

    /// Where clients connect, for people.
    pub fn addresses(&self) -> Vec<String> {
        let address = |socket: &Socket| match socket {
            Socket::Tcp(socket) => socket
                .local_addr()
                .map_or_else(|error| error.to_string(), |address| address.to_string()),
            Socket::Unix(_, path) => path.display().to_string(),
        };
        self.sockets.iter().map(address).collect()
    }
}

impl Socket {
    fn port(&self) -> Option<u16> {
        match self {
            Socket::Tcp(socket) => socket.local_addr().ok().map(|address| address.port()),
            Socket::Unix(..) => None,
        }
    }

    fn fd(&self) -> i32 {
        match self {
            Socket::Tcp(socket) => socket.as_raw_fd(),
            Socket::Unix(socket, _) => socket.as_raw_fd(),
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if let Socket::Unix(_, path) = self {
            let _ = fs::remove_file(path);
        }
    }
}

/// How long a socket may be listened to by a server that is ending: the system lets go of a killed
/// one's sockets some time after its parent has learnt of its end.
const ENDING: Duration = Duration::from_secs(3);
/// Between two looks at it.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

fn bind_unix(folder: &Path, port: u16) -> Result<Socket> {
    let path = folder.join(format!(".s.PGSQL.{port}"));
    let problem = |problem: String| ServerError::Socket { path: path.clone(), problem };
    make_private(folder).map_err(problem)?;
    if path.as_os_str().len() > 107 {
        return Err(problem("the path is longer than the 107 bytes of a socket's".to_owned()));
    }
    let until = Instant::now() + ENDING;
    while fs::symlink_metadata(&path).is_ok() {
        match UnixStream::connect(&path) {
            Ok(_) if Instant::now() < until => std::thread::sleep(LOOK_AGAIN),
            Ok(_) => return Err(problem("another server listens there".to_owned())),
            // Left behind by a server that was killed.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                fs::remove_file(&path).map_err(|error| problem(error.to_string()))?;
            }
            Err(error) => return Err(problem(error.to_string())),
        }
    }
    let socket = UnixListener::bind(&path).map_err(|error| problem(error.to_string()))?;
    Ok(Socket::Unix(socket, path))
}

/// Makes the folder with mode 0700, or checks that nobody else may enter it.
fn make_private(folder: &Path) -> std::result::Result<(), String> {
    match fs::DirBuilder::new().recursive(true).mode(0o700).create(folder) {
        Ok(()) => {}
        Err(error) => return Err(format!("cannot make its folder: {error}")),
    }
    let found = fs::metadata(folder).map_err(|error| error.to_string())?;
    let mode = found.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(format!(
            "its folder has mode {mode:04o}, but whoever can enter it can use the database: \
             choose one with mode 0700"
        ));
    }
    let own = fs::metadata("/proc/self").map_or(found.uid(), |process| process.uid());
    if found.uid() != own {
        return Err(format!("its folder belongs to another user ({})", found.uid()));
    }
    Ok(())
}

/// Accepts on one instance and spreads connections over all.
pub struct Listener<S: InstanceState, B: Backend<S>> {
    id: Cell<ServiceId>,
    // The sessions' service, under the same number on every instance.
    sessions: ServiceId,
    sockets: RefCell<Vec<Socket>>,
    in_flight: RefCell<Vec<bool>>,
    next: Cell<usize>,
    // After an error: when to accept again.
    paused_until: Cell<Option<u64>>,
    stopping: Cell<bool>,
    kind: std::marker::PhantomData<fn(&S, &B)>,
}

impl<S: InstanceState, B: Backend<S>> Listener<S, B> {
    /// Begins to accept on `instance`; sessions go to the service `sessions` of every instance.
    pub fn register(instance: &Instance<S>, listeners: Listeners, sessions: ServiceId) {
        let count = listeners.sockets.len();
        let listener = Rc::new(Listener::<S, B> {
            id: Cell::new(ServiceId::STATE),
            sessions,
            sockets: RefCell::new(listeners.sockets),
            in_flight: RefCell::new(vec![false; count]),
            next: Cell::new(0),
            paused_until: Cell::new(None),
            stopping: Cell::new(false),
            kind: std::marker::PhantomData,
        });
        listener.id.set(instance.register(listener.clone()));
        listener.accept_all(instance);
    }

    fn accept_all(&self, instance: &Instance<S>) {
        let sockets = self.sockets.borrow();
        let mut in_flight = self.in_flight.borrow_mut();
        for (index, socket) in sockets.iter().enumerate() {
            if !std::mem::replace(&mut in_flight[index], true) {
                let token = self.id.get().token(index as u64);
                instance.ring().submit(Op::Accept { listener: socket.fd() }, token);
            }
        }
    }

    fn spread(&self, instance: &Instance<S>, index: usize, socket: OwnedFd) {
        let is_tcp = matches!(self.sockets.borrow().get(index), Some(Socket::Tcp(_)));
        let (socket, address) = if is_tcp { tcp(socket) } else { (socket, None) };
        let to = self.next.get() % instance.hub().instances();
        self.next.set(to + 1);
        let newcomer = Newcomer { socket, address, refusals: 0 };
        newcomer.send::<S, B>(instance, InstanceId(to as u16), self.sessions);
    }
}

/// Small answers are not to wait for more; and who is it?
fn tcp(socket: OwnedFd) -> (OwnedFd, Option<String>) {
    let stream = TcpStream::from(socket);
    // Without it answers are only slower.
    let _ = stream.set_nodelay(true);
    let address = stream.peer_addr().ok().map(|address| address.ip().to_string());
    (OwnedFd::from(stream), address)
}

impl<S: InstanceState, B: Backend<S>> Service<S> for Listener<S, B> {
    fn completed(&self, instance: &Instance<S>, completion: Completion) {
        let index = ServiceId::split(completion.token).1 as usize;
        if index >= self.in_flight.borrow().len() {
            return;
        }
        self.in_flight.borrow_mut()[index] = false;
        let connection = accepted(completion);
        if self.stopping.get() {
            return;
        }
        match connection {
            Ok(socket) => {
                self.spread(instance, index, socket);
                self.accept_all(instance);
            }
            Err(_) => self.paused_until.set(Some(instance.time().now_ns() + PAUSE_NS)),
        }
    }

    fn poll(&self, instance: &Instance<S>) -> Poll {
        match self.paused_until.get() {
            Some(until) if instance.time().now_ns() < until => Poll::Until(until),
            Some(_) => {
                self.paused_until.set(None);
                self.accept_all(instance);
                Poll::Busy
            }
            None => Poll::Idle,
        }
    }

    fn stop(&self, instance: &Instance<S>) {
        self.stopping.set(true);
        self.paused_until.set(None);
        for (index, in_flight) in self.in_flight.borrow().iter().enumerate() {
            if *in_flight {
                let token = self.id.get().token(index as u64);
                // The answer to the cancelling itself is nobody's.
                let nobody = self.id.get().token(u64::from(u32::MAX));
                instance.ring().submit(Op::Cancel { token }, nobody);
            }
        }
        // Whoever connects from now on is refused by the system.
        self.sockets.borrow_mut().iter_mut().for_each(|socket| {
            if let Socket::Unix(_, path) = socket {
                let _ = fs::remove_file(path);
            }
        });
    }

    fn may_end(&self, _instance: &Instance<S>) -> bool {
        !self.in_flight.borrow().contains(&true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_is_listened_on() {
        for open in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
            let refused = Listeners::bind(&[open.to_owned()], None).err().unwrap().to_string();
            assert!(refused.contains("loopback"), "{refused}");
        }
        assert!(Listeners::bind(&["nonsense".to_owned()], None).is_err());
        assert!(Listeners::bind(&[], None).is_err());
        let bound = Listeners::bind(&["127.0.0.1:0".to_owned()], None).unwrap();
        assert!(bound.addresses()[0].starts_with("127.0.0.1:"));
    }

    #[test]
    fn the_sockets_folder_is_private_and_one_server_has_it() {
        let folder = tempfile::tempdir().unwrap();
        let private = folder.path().join("sockets");
        let bound = Listeners::bind(&[], Some(&private)).unwrap();
        assert_eq!(fs::metadata(&private).unwrap().permissions().mode() & 0o777, 0o700);
        let path = private.join(".s.PGSQL.5432");
        assert_eq!(bound.addresses(), [path.display().to_string()]);
        let second = Listeners::bind(&[], Some(&private)).err().unwrap().to_string();
        assert!(second.contains("another server"), "{second}");
        drop(bound);
        assert!(!path.exists());
        // Left behind by a killed server.
        drop(UnixListener::bind(&path).unwrap());
        assert!(Listeners::bind(&[], Some(&private)).is_ok());
        fs::set_permissions(&private, fs::Permissions::from_mode(0o755)).unwrap();
        let open = Listeners::bind(&[], Some(&private)).err().unwrap().to_string();
        assert!(open.contains("0755"), "{open}");
    }
}

//! An address at which a connect neither succeeds nor fails.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use socket2::{Domain, Socket, Type};

/// Listens with a full queue and accepts nothing, so that the kernel ignores every further connect: what a client's connect
/// time-out is for. Ends when dropped.
pub struct BlackHole {
    address: SocketAddr,
    _listener: Socket,
    _queue: Vec<TcpStream>,
}

impl BlackHole {
    /// Opens it on a free port.
    #[allow(clippy::new_without_default)] // It takes a port and half a second: not a value one has by default.
    pub fn new() -> BlackHole {
        let listener = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        listener.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).expect("a free port on 127.0.0.1");
        listener.listen(1).expect("listening");
        let address = listener.local_addr().ok().and_then(|a| a.as_socket()).expect("the address");
        let mut queue = Vec::new();
        // The kernel takes a few more than the backlog says.
        while let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(300)) {
            queue.push(stream);
            assert!(queue.len() < 64, "the listen queue does not fill up");
        }
        BlackHole { address, _listener: listener, _queue: queue }
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.address
    }

    /// `http://127.0.0.1:PORT` and the path.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

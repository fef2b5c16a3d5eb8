//! Other ways to the test server: a unix socket, an IPv6 address. Bytes go through as they are.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many connections came this way. Relays live as long as their process.
pub type Count = Arc<AtomicUsize>;

/// Relays from `[::1]`; returns the port.
pub fn ipv6(to: SocketAddr) -> io::Result<(u16, Count)> {
    let listener = TcpListener::bind("[::1]:0")?;
    let port = listener.local_addr()?.port();
    let accept = move || {
        let (stream, _) = listener.accept()?;
        Ok((stream.try_clone()?, stream))
    };
    Ok((port, run(accept, to, |stream: &TcpStream| stream.shutdown(Shutdown::Write))))
}

/// Relays from a unix socket: a path, or `@name` for an abstract one.
pub fn unix(name: &str, to: SocketAddr) -> io::Result<Count> {
    let listener = match name.strip_prefix('@') {
        Some(name) => UnixListener::bind_addr(&UnixAddr::from_abstract_name(name)?)?,
        None => UnixListener::bind(name)?,
    };
    let accept = move || {
        let (stream, _) = listener.accept()?;
        Ok((stream.try_clone()?, stream))
    };
    Ok(run(accept, to, |stream: &UnixStream| stream.shutdown(Shutdown::Write)))
}

fn run<S: Read + Write + Send + 'static>(
    accept: impl Fn() -> io::Result<(S, S)> + Send + 'static,
    to: SocketAddr,
    end: impl Fn(&S) -> io::Result<()> + Send + Copy + 'static,
) -> Count {
    let count = Count::default();
    let counter = count.clone();
    std::thread::spawn(move || {
        while let Ok((mut from, mut back)) = accept() {
            counter.fetch_add(1, Ordering::SeqCst);
            let Ok(mut server) = TcpStream::connect(to) else { continue };
            let mut answers = server.try_clone().expect("a socket");
            std::thread::spawn(move || {
                let _ = io::copy(&mut from, &mut server);
                let _ = server.shutdown(Shutdown::Write);
            });
            std::thread::spawn(move || {
                let _ = io::copy(&mut answers, &mut back);
                let _ = end(&back);
            });
        }
    });
    count
}

//! TLS before the test server: a relay that answers with a certificate of its own, which nobody trusts.

use openssl_sys as ssl;
use std::ffi::c_int;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::ptr;

/// Starts a relay to `to`, which lives as long as the process; returns its address. One request at a time on each connection, and the
/// answers need a Content-Length.
pub fn start(to: SocketAddr) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let context = Context::new();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let ssl = context.session();
            std::thread::spawn(move || relay(&ssl, &stream, to));
        }
    });
    Ok(address)
}

struct Context(*mut ssl::SSL_CTX);

// SAFETY: only one thread uses it at a time.
unsafe impl Send for Context {}

impl Context {
    fn new() -> Context {
        // SAFETY: each object is checked, and lives as long as the process, but for the key's maker, which is used no more.
        unsafe {
            let mut key = ptr::null_mut();
            let maker = ssl::EVP_PKEY_CTX_new_id(ssl::EVP_PKEY_ED25519, ptr::null_mut());
            assert!(!maker.is_null() && ssl::EVP_PKEY_keygen_init(maker) == 1);
            assert_eq!(ssl::EVP_PKEY_keygen(maker, &raw mut key), 1);
            ssl::EVP_PKEY_CTX_free(maker);
            let certificate = ssl::X509_new();
            assert!(!certificate.is_null() && ssl::X509_set_version(certificate, 2) == 1);
            ssl::X509_gmtime_adj(ssl::X509_getm_notBefore(certificate), 0);
            ssl::X509_gmtime_adj(ssl::X509_getm_notAfter(certificate), 3600);
            assert_eq!(ssl::X509_set_pubkey(certificate, key), 1);
            assert!(ssl::X509_sign(certificate, key, ptr::null()) > 0);
            let context = ssl::SSL_CTX_new(ssl::TLS_method());
            assert!(!context.is_null());
            assert_eq!(ssl::SSL_CTX_use_certificate(context, certificate), 1);
            assert_eq!(ssl::SSL_CTX_use_PrivateKey(context, key), 1);
            Context(context)
        }
    }

    fn session(&self) -> Ssl {
        // SAFETY: the context is alive.
        Ssl(unsafe { ssl::SSL_new(self.0) })
    }
}

struct Ssl(*mut ssl::SSL);

// SAFETY: only one thread uses it at a time.
unsafe impl Send for Ssl {}

impl Drop for Ssl {
    fn drop(&mut self) {
        // SAFETY: made by SSL_new, and used no more.
        unsafe { ssl::SSL_free(self.0) }
    }
}

impl Ssl {
    /// False: the connection is over.
    fn accept(&self, stream: &TcpStream) -> bool {
        // SAFETY: the stream outlives the use of the session, which is alive.
        unsafe {
            let bio = ssl::BIO_new_socket(stream.as_raw_fd(), 0);
            ssl::SSL_set_bio(self.0, bio, bio);
            ssl::SSL_accept(self.0) == 1
        }
    }

    /// How many bytes came; 0: the connection is over.
    fn read(&self, to: &mut [u8]) -> usize {
        // SAFETY: so many bytes are writable.
        let n = unsafe { ssl::SSL_read(self.0, to.as_mut_ptr().cast(), to.len() as c_int) };
        usize::try_from(n).unwrap_or(0)
    }

    fn write(&self, bytes: &[u8]) -> bool {
        // SAFETY: so many bytes are readable. Without partial writes all of them go out.
        unsafe { ssl::SSL_write(self.0, bytes.as_ptr().cast(), bytes.len() as c_int) == bytes.len() as c_int }
    }
}

fn relay(ssl: &Ssl, stream: &TcpStream, to: SocketAddr) {
    if !ssl.accept(stream) {
        return;
    }
    let mut server = TcpStream::connect(to).expect("the test server");
    let mut buffer = vec![0; 256 << 10];
    while let Some(request) = head_of(|to| ssl.read(to)) {
        server.write_all(&request).expect("the test server");
        let head = head_of(|to| server.read(to).unwrap_or(0)).expect("an answer");
        let text = String::from_utf8_lossy(&head).to_ascii_lowercase();
        let length = text.lines().find_map(|line| line.strip_prefix("content-length:")).expect("a length");
        let mut left: usize = length.trim().parse().expect("a number");
        if !ssl.write(&head) {
            return;
        }
        while left > 0 {
            let n = left.min(buffer.len());
            server.read_exact(&mut buffer[..n]).expect("a body");
            if !ssl.write(&buffer[..n]) {
                return;
            }
            left -= n;
        }
    }
}

/// Everything up to an empty line, byte by byte; `None`: the connection ended.
fn head_of(mut read: impl FnMut(&mut [u8]) -> usize) -> Option<Vec<u8>> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        if read(&mut byte) != 1 {
            return None;
        }
        head.push(byte[0]);
    }
    Some(head)
}

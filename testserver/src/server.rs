//! The server itself: listener, connections, objects and scripts.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, RwLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use socket2::{Domain, SockRef, Socket, Type};

use crate::body::Object;
use crate::knobs::{CONTROL, Knobs};
use crate::plan::plan;
use crate::reply::Reply;
use crate::request::{Incoming, Reader, RequestInfo, percent_decoded};
use crate::script::{Action, Chosen, Match, Rule, Rules};
use crate::send::{self, Next};
use crate::watch::{Counts, Ticket, Watch};

const BACKLOG: i32 = 4096;
/// How long dropping a server waits for its connections. They are shut down first, so only a reply function that blocks
/// can take this long.
const JOIN_LIMIT: Duration = Duration::from_secs(30);

/// How a server is started.
pub struct Builder {
    port: u16,
    stack_size: usize,
    max_log: usize,
    close_after: Option<u64>,
    knobs: Option<Knobs>,
}

impl Builder {
    /// This port instead of a free one.
    pub fn port(mut self, port: u16) -> Builder {
        self.port = port;
        self
    }

    /// Stack of each connection's thread, 256 KiB by default. Only what is touched costs memory.
    pub fn stack_size(mut self, bytes: usize) -> Builder {
        self.stack_size = bytes;
        self
    }

    /// How many requests the log keeps, the first ones; 200,000 by default.
    pub fn max_log(mut self, requests: usize) -> Builder {
        self.max_log = requests;
        self
    }

    /// Closes every connection after `n` requests on it, without announcing it.
    pub fn close_after_requests(mut self, n: u64) -> Builder {
        self.close_after = Some(n);
        self
    }

    /// Obeys query parameters and answers `/ctl/…`, see [`crate::knobs`]. Scripts come first.
    pub fn knobs(mut self, knobs: Knobs) -> Builder {
        self.knobs = Some(knobs);
        self
    }

    /// Starts it; panics if that fails.
    pub fn start(self) -> Server {
        let port = self.port;
        self.try_start().unwrap_or_else(|error| panic!("cannot listen on 127.0.0.1:{port}: {error}"))
    }

    /// Starts it.
    pub fn try_start(self) -> io::Result<Server> {
        let listener = listen(self.port)?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            stack_size: self.stack_size,
            close_after: self.close_after,
            knobs: self.knobs,
            watch: Arc::new(Watch::new(self.max_log)),
            objects: RwLock::default(),
            rules: Mutex::default(),
            connections: Mutex::default(),
            ended: Condvar::new(),
        });
        let acceptor = Acceptor::start(shared.clone(), listener)?;
        Ok(Server { address, shared, acceptor: Mutex::new(Some(acceptor)) })
    }
}

/// A running server. Dropping it ends all connections and waits for its threads; it then panics if a reply function
/// panicked, so that an assertion inside one fails its test.
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Mutex<Option<Acceptor>>,
}

/// # Running
impl Server {
    /// Starts a server on a free port of 127.0.0.1.
    pub fn start() -> Server {
        Server::builder().start()
    }

    /// For other settings.
    pub fn builder() -> Builder {
        Builder { port: 0, stack_size: 256 * 1024, max_log: 200_000, close_after: None, knobs: None }
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.address
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// `http://127.0.0.1:PORT` and the path.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Closes the listener: a connect is refused from now on. Open connections go on.
    pub fn refuse_connections(&self) {
        let acceptor = self.acceptor.lock().unwrap().take();
        drop(acceptor);
    }

    /// Listens again, on the same port.
    pub fn accept_connections(&self) {
        let mut acceptor = self.acceptor.lock().unwrap();
        if acceptor.is_none() {
            let again = listen(self.port()).and_then(|listener| Acceptor::start(self.shared.clone(), listener));
            *acceptor = Some(again.unwrap_or_else(|error| panic!("cannot listen again on {}: {error}", self.address)));
        }
    }

    /// Ends all open connections, in the middle of a reply too. New ones are accepted.
    pub fn drop_connections(&self) {
        self.shared.shut_down_sockets(false);
    }
}

/// # What is served
impl Server {
    /// Puts an object at a path (`"/data"`), or replaces it. Looked up as it stands on the wire, then percent-decoded.
    pub fn put(&self, path: &str, object: impl Into<Object>) {
        assert!(path.starts_with('/'), "the path {path:?} must begin with a slash");
        self.shared.objects.write().unwrap().insert(path.into(), object.into());
    }

    /// Removes an object.
    pub fn remove(&self, path: &str) {
        self.shared.objects.write().unwrap().remove(path);
    }

    /// Replies to matching requests in this order; the last one is repeated. A newer script or function for the same request
    /// takes precedence over an older one. `server.script("/data", […])` means every method, `get("/data")` only GETs.
    pub fn script(&self, matching: impl Into<Match>, replies: impl IntoIterator<Item = Reply>) {
        let replies: Vec<Reply> = replies.into_iter().collect();
        assert!(!replies.is_empty(), "a script needs at least one reply");
        self.rule(matching.into(), Action::List(replies, 0));
    }

    /// Replies to every matching request with what the function says: a [`Reply`], or an `Option` of one, where `None` passes
    /// the request on to older scripts and finally to the object.
    pub fn on<R: Into<Option<Reply>>>(
        &self,
        matching: impl Into<Match>,
        reply: impl Fn(&RequestInfo) -> R + Send + Sync + 'static,
    ) {
        self.rule(matching.into(), Action::Call(Arc::new(move |request| reply(request).into())));
    }

    /// Forgets all scripts and functions.
    pub fn clear_scripts(&self) {
        self.shared.rules.lock().unwrap().0.clear();
    }

    fn rule(&self, matching: Match, action: Action) {
        self.shared.rules.lock().unwrap().0.push(Rule { matching, action });
    }
}

/// # What happened
impl Server {
    /// All counts at this moment.
    pub fn counts(&self) -> Counts {
        self.shared.watch.counts()
    }

    /// Requests so far.
    pub fn requests(&self) -> u64 {
        self.counts().requests
    }

    /// GETs so far.
    pub fn gets(&self) -> u64 {
        self.counts().gets
    }

    /// HEADs so far.
    pub fn heads(&self) -> u64 {
        self.counts().heads
    }

    /// Connections accepted so far.
    pub fn connections(&self) -> u64 {
        self.counts().connections
    }

    /// Requests being answered now.
    pub fn in_flight(&self) -> u64 {
        self.counts().in_flight
    }

    /// The most requests that were ever being answered at once, see [`Counts::in_flight`].
    pub fn max_in_flight(&self) -> u64 {
        self.counts().max_in_flight
    }

    /// Replies that the client did not wait for.
    pub fn aborted(&self) -> u64 {
        self.counts().aborted
    }

    /// Every request so far, in the order of arrival.
    pub fn log(&self) -> Vec<Arc<RequestInfo>> {
        self.shared.watch.log()
    }

    /// The Range headers of all GETs so far, without `bytes=`; an empty text for a GET without one.
    pub fn ranges(&self) -> Vec<String> {
        let gets = self.log().into_iter().filter(|request| request.method == "GET");
        gets.map(|request| request.range_text().unwrap_or_default().to_owned()).collect()
    }

    /// Forgets the log and all counts but those of what is open and in flight.
    pub fn reset_counts(&self) {
        self.shared.watch.reset();
    }

    /// Waits until the condition holds; false when that took longer than `timeout`.
    #[must_use]
    pub fn wait_for(&self, condition: impl Fn(&Counts) -> bool, timeout: Duration) -> bool {
        self.shared.watch.wait_for(condition, timeout)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.refuse_connections();
        let stuck = self.shared.shut_down_and_join();
        let panics = std::mem::take(&mut self.shared.connections.lock().unwrap().panics);
        if !thread::panicking() {
            assert!(stuck == 0, "{stuck} connections of the test server did not end; does a reply function block?");
            assert!(panics.is_empty(), "a reply of the test server panicked: {}", panics.join("; "));
        }
    }
}

struct Shared {
    stack_size: usize,
    close_after: Option<u64>,
    knobs: Option<Knobs>,
    watch: Arc<Watch>,
    objects: RwLock<HashMap<String, Object>>,
    rules: Mutex<Rules>,
    connections: Mutex<Connections>,
    ended: Condvar,
}

#[derive(Default)]
struct Connections {
    stopping: bool,
    next_id: u64,
    /// The only other owners of these sockets are the connections' threads: closing needs no clone to go away.
    sockets: HashMap<u64, Arc<TcpStream>>,
    threads: usize,
    panics: Vec<String>,
}

impl Shared {
    fn shut_down_sockets(&self, stopping: bool) {
        let mut connections = self.connections.lock().unwrap();
        connections.stopping |= stopping;
        for socket in connections.sockets.values() {
            // Wakes whoever reads, writes or polls there.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    fn shut_down_and_join(&self) -> usize {
        self.shut_down_sockets(true);
        let connections = self.connections.lock().unwrap();
        self.ended.wait_timeout_while(connections, JOIN_LIMIT, |c| c.threads > 0).unwrap().0.threads
    }

    /// Gives an accepted connection its thread.
    fn take_on(self: &Arc<Shared>, stream: TcpStream) {
        let stream = Arc::new(stream);
        let id = {
            let mut connections = self.connections.lock().unwrap();
            if connections.stopping {
                return;
            }
            let id = connections.next_id;
            connections.next_id += 1;
            connections.threads += 1;
            connections.sockets.insert(id, stream.clone());
            id
        };
        let shared = self.clone();
        let body = move || {
            let result = catch_unwind(AssertUnwindSafe(|| shared.serve(id, &stream)));
            let mut connections = shared.connections.lock().unwrap();
            connections.sockets.remove(&id);
            if let Err(panic) = result {
                connections.panics.push(panic_text(&*panic));
            }
            // Closes the socket, before the server can count as ended.
            drop(stream);
            connections.threads -= 1;
            shared.ended.notify_all();
        };
        let thread = thread::Builder::new().name(format!("connection {id}")).stack_size(self.stack_size);
        if let Err(error) = thread.spawn(body) {
            eprintln!("test server: no thread for connection {id}, so it is closed: {error}");
            let mut connections = self.connections.lock().unwrap();
            connections.sockets.remove(&id);
            connections.threads -= 1;
        }
    }

    /// One connection from its first request to its end.
    fn serve(&self, id: u64, stream: &TcpStream) {
        let mut connected = self.watch.connected();
        let mut reader = Reader::new(id);
        let next = loop {
            // An error is a client that went away, and nobody is left to tell.
            match reader.next(stream) {
                Ok(Incoming::Request(request)) => {
                    let control = self.knobs.is_some() && request.path().starts_with(CONTROL);
                    if control && request.nth_on_connection == 0 {
                        connected.forget();
                    }
                    let last = self.close_after.is_some_and(|n| request.nth_on_connection + 1 >= n);
                    match self.answer(stream, *request, control) {
                        Ok(Next::KeepAlive) if last => break Next::Close,
                        Ok(Next::KeepAlive) => {}
                        Ok(next) => break next,
                        Err(_) => break Next::Close,
                    }
                }
                Ok(Incoming::Refused(status)) => {
                    let _ = send::refuse(stream, status);
                    break Next::Close;
                }
                Ok(Incoming::Closed) | Err(_) => break Next::Close,
            }
        };
        send::end(stream, next);
    }

    fn answer(&self, stream: &TcpStream, request: RequestInfo, control: bool) -> io::Result<Next> {
        let request = Arc::new(request);
        let (reply, mut ticket) = match &self.knobs {
            Some(knobs) if control => (knobs.control(&request, &self.watch), Ticket::uncounted()),
            _ => {
                let ticket = self.watch.arrived(&request);
                (self.reply_to(&request), ticket)
            }
        };
        if let Some(next) = send::before_head(stream, &reply, &mut ticket)? {
            return Ok(next);
        }
        let plan = plan(&request, self.find(&request), &reply)?;
        send::send(stream, plan, &reply, &mut ticket)
    }

    fn reply_to(&self, request: &RequestInfo) -> Reply {
        let mut below = usize::MAX;
        loop {
            // A function is called without the lock: it may take long, or use the server.
            let chosen = self.rules.lock().unwrap().choose(request, below);
            match chosen {
                Some((_, Chosen::Reply(reply))) => return *reply,
                Some((at, Chosen::Call(function))) => match function(request) {
                    Some(reply) => return reply,
                    None => below = at,
                },
                None => return self.knobs.as_ref().map_or_else(Reply::object, |knobs| knobs.reply(request)),
            }
        }
    }

    fn find(&self, request: &RequestInfo) -> Option<Object> {
        let objects = self.objects.read().unwrap();
        objects.get(request.path()).or_else(|| objects.get(&percent_decoded(request.path()))).cloned()
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref().copied());
    text.unwrap_or("not a text").to_owned()
}

fn listen(port: u16) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    // So that the port can be taken again while old connections linger on it.
    socket.set_reuse_address(true)?;
    socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)).into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// The listener and its thread. Dropped, both are gone.
struct Acceptor {
    listener: TcpListener,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Acceptor {
    fn start(shared: Arc<Shared>, listener: TcpListener) -> io::Result<Acceptor> {
        let stop = Arc::new(AtomicBool::new(false));
        let (its_listener, its_stop) = (listener.try_clone()?, stop.clone());
        let accept = move || {
            let mut warned = false;
            loop {
                let accepted = its_listener.accept();
                if its_stop.load(Ordering::Acquire) {
                    return;
                }
                match accepted {
                    Ok((stream, _)) => {
                        // Without it a reply in two writes would wait for the client's delayed acknowledgement.
                        let _ = stream.set_nodelay(true);
                        shared.take_on(stream);
                    }
                    // Out of files, most likely: connections wait in the queue until one ends.
                    Err(error) => {
                        if !std::mem::replace(&mut warned, true) {
                            eprintln!("test server: cannot accept a connection, trying again: {error}");
                        }
                        thread::sleep(Duration::from_millis(10));
                    }
                }
            }
        };
        let thread = thread::Builder::new().name("acceptor".into()).spawn(accept)?;
        Ok(Acceptor { listener, stop, thread: Some(thread) })
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        // On Linux this ends a blocked accept().
        let _ = SockRef::from(&self.listener).shutdown(Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

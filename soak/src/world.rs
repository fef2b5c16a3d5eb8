//! What a run shares: the servers and what they do, the ledger, and what was found.

use crate::data::{self, WINDOW};
use crate::faults::{self, Ask, FAULTS};
use crate::ledger::Ledger;
use crate::plan::{Kind, OBJECTS, Plan};
use raskio_testserver::{BlackHole, ByteRange, Gate, Object, Reply, RequestInfo, Server, any};
use socket2::{Domain, Socket, Type};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Requests of a million that meet a fault.
const SHARE: u32 = 40_000;
/// The second server closes each connection after so many requests, without a word.
const REQUESTS_A_CONNECTION: u64 = 23;
/// Violations after which the run ends.
pub const ENOUGH: usize = 25;

/// What the servers do with a request.
pub struct Script {
    seed: u64,
    /// Size of every object.
    pub size: u64,
    /// One entry for each operation.
    pub ledger: Ledger,
    /// Holds requests for `/gate`.
    pub gate: Mutex<Gate>,
    /// How often each fault was planted.
    pub planted: Vec<AtomicU64>,
}

impl Script {
    fn reply(&self, request: &RequestInfo) -> Option<Reply> {
        let path = request.path();
        if path == "/gate" {
            return Some(Reply::object().hold(&self.gate.lock().unwrap_or_else(PoisonError::into_inner)));
        }
        let query = request.query().map(|query| format!("?{query}")).unwrap_or_default();
        if let Some(object) = path.strip_prefix("/r") {
            return Some(Reply::redirect(302, &format!("/o{object}{query}")));
        }
        let object: u32 = path.strip_prefix("/o")?.parse().ok()?;
        let named = request.query_value("id").and_then(|id| id.parse().ok());
        let range = match request.range() {
            Some(ByteRange::FromTo(first, last)) => Some((first, last - first + 1)),
            _ => None,
        };
        let id: u64 = named.or(range.map(|(start, _)| start / WINDOW))?;
        let entry = self.ledger.get(id)?;
        let plan = Plan::new(self.seed, id, self.size);
        if plan.kind == Kind::Beyond {
            return None;
        }
        let nth = entry.requests.fetch_add(1, SeqCst);
        // A lie in an answer to "how large" would be believed, and rightly so.
        let bodiless = plan.kind == Kind::Stat;
        let (start, len) = range.unwrap_or((0, 1));
        let number = faults::choose(self.seed, id, start, nth, SHARE, plan.cursed, bodiless)?;
        let ask = Ask { object, total: self.size, start, len, known: named.is_none() };
        let planted = faults::plant(number, &ask, self.seed, id, nth);
        entry.plant(number, planted.kinds, planted.fatal);
        self.planted[usize::from(number) - 1].fetch_add(1, SeqCst);
        Some(planted.reply)
    }
}

/// Everything that a run shares.
pub struct World {
    /// Repeats the run.
    pub seed: u64,
    /// What the servers do.
    pub script: Arc<Script>,
    /// Objects are spread over both.
    pub servers: [Server; 2],
    refused: SocketAddr,
    /// Keeps the port of `refused`.
    _refusing: Socket,
    black_hole: BlackHole,
    violations: Mutex<Vec<String>>,
}

impl World {
    /// Servers for `total` operations.
    pub fn new(seed: u64, total: u64) -> World {
        let size = (total + 1) * WINDOW;
        let script = Arc::new(Script {
            seed,
            size,
            ledger: Ledger::new(total),
            gate: Mutex::new(Gate::new()),
            planted: FAULTS.iter().map(|_| AtomicU64::new(0)).collect(),
        });
        let builders = [Server::builder(), Server::builder().close_after_requests(REQUESTS_A_CONNECTION)];
        let servers = builders.map(|builder| {
            let server = builder.max_log(0).start();
            for object in 0..OBJECTS {
                server.put(&format!("/o{object}"), data::object(object, size));
            }
            server.put("/gate", Object::pattern(1));
            let script = script.clone();
            server.on(any(), move |request| script.reply(request));
            server
        });
        // Bound and not listened on: nobody else gets the port, and every connect is refused.
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).expect("a free port on 127.0.0.1");
        let address = socket.local_addr().ok().and_then(|address| address.as_socket()).expect("its address");
        let violations = Mutex::default();
        World { seed, script, servers, refused: address, _refusing: socket, black_hole: BlackHole::new(), violations }
    }

    /// Where an object is, as it is opened once for many operations.
    pub fn shared_url(&self, object: u32) -> String {
        let server = &self.servers[object as usize % 2];
        let host = if object % 3 == 0 { "localhost" } else { "127.0.0.1" };
        let path = if object % 8 < 2 { "r" } else { "o" };
        format!("http://{host}:{}/{path}{object}", server.port())
    }

    /// Where an operation finds its object when it opens it for itself.
    pub fn fresh_url(&self, id: u64, plan: &Plan) -> String {
        match plan.kind {
            Kind::Refused => format!("http://{}/o0?id={id}", self.refused),
            Kind::BlackHole => self.black_hole.url(&format!("/o0?id={id}")),
            Kind::Read | Kind::Stat | Kind::Beyond => format!("{}?id={id}", self.shared_url(plan.object)),
        }
    }

    /// Something is not as promised.
    pub fn violation(&self, what: String) {
        let mut violations = self.violations.lock().unwrap_or_else(PoisonError::into_inner);
        eprintln!("fault: {what} (--seed {})", self.seed);
        violations.push(what);
    }

    /// How often something was not as promised.
    pub fn violations(&self) -> usize {
        self.violations.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Waits until the servers have noticed that every client is gone.
    pub fn wait_for_quiet(&self) -> bool {
        let quiet = |server: &Server| server.wait_for(|counts| counts.open_connections == 0, Duration::from_secs(20));
        self.servers.iter().all(quiet)
    }
}

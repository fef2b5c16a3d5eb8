//! Misbehaviour by query parameter, for tests in C, Python and the shell: `GET /data?status=503&times=2`.
//!
//! | parameter | effect (see the method of [`Reply`] for what exactly it does) |
//! |---|---|
//! | `status=404` | another status with a text body |
//! | `claim_status=200` | another number in the status line, all else stays |
//! | `redirect=PATH` | 302 to PATH; with `status=307` that status |
//! | `delay_ms=50`, `delay_body_ms=50` | waits before the head, or between head and body |
//! | `rate=N` | the body at N bytes a second |
//! | `stall=1` | never answers |
//! | `stall_after=7`, `reset_after=7`, `close_after=7` | after 7 bytes of the body: nothing more, RST, FIN |
//! | `reset=1`, `close=1` | RST or FIN without a byte |
//! | `close_silently=1`, `announce_close=1` | closes after the reply, unannounced or announced |
//! | `ignore_range=1` | 200 and the whole object |
//! | `short_by=1` | a body one byte shorter, Content-Length too |
//! | `extra=1` | one byte more than announced |
//! | `corrupt=5` | byte 5 of the reply's body is wrong |
//! | `etag=A` | ETag `"A"` |
//! | `no_total=1` | `Content-Range: bytes a-b/*` |
//! | `no_length=1` | no Content-Length |
//! | `header=NAME:VALUE` | sets a header; may be repeated |
//! | `retry_after=1` | `Retry-After: 1` |
//! | `chunked=1`, `gzip=1`, `multipart=1`, `http10=1`, `garbage=1` | as named; gzip whatever was accepted |
//! | `no_head=405` | HEAD is answered with this status |
//! | `hold=NAME` | held until `/ctl/open?gate=NAME` |
//! | `only=get`, `only=head` | the other parameters are for this method |
//! | `times=N` | the other parameters are for the first N requests of exactly this target (and of the `only` method) |
//!
//! A parameter that is not in this table is answered with 400 and a text that names it: a misspelt one cannot go unnoticed.
//!
//! Control, counted nowhere: `GET /ctl/stats` gives lines `key value`, the keys being the fields of [`Counts`](crate::Counts);
//! `/ctl/log` a line `METHOD TARGET RANGE` per request (`-` without a range); `/ctl/reset` starts all counts anew;
//! `/ctl/open?gate=NAME` opens a gate, also one at which nothing has arrived yet; `/ctl/held?gate=NAME` gives the number of
//! replies held there.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Mutex;
use std::time::Duration;

use crate::gate::Gate;
use crate::reply::Reply;
use crate::request::RequestInfo;
use crate::watch::Watch;

/// Paths that begin so are for control.
pub(crate) const CONTROL: &str = "/ctl/";

/// Turns query parameters into replies. Given to [`Builder::knobs`](crate::Builder::knobs).
#[derive(Default)]
pub struct Knobs {
    delay: Duration,
    rate: Option<u64>,
    seen: Mutex<HashMap<String, u64>>,
    gates: Mutex<HashMap<String, Gate>>,
}

impl Knobs {
    /// All parameters of the table, and no misbehaviour without one.
    pub fn new() -> Knobs {
        Knobs::default()
    }

    /// Every reply waits so long before its head.
    pub fn delay(mut self, delay: Duration) -> Knobs {
        self.delay = delay;
        self
    }

    /// Every reply's body comes at this many bytes a second.
    pub fn rate(mut self, bytes_per_second: u64) -> Knobs {
        self.rate = Some(bytes_per_second);
        self
    }

    pub(crate) fn reply(&self, request: &RequestInfo) -> Reply {
        let usual = || {
            let reply = Reply::object().delay(self.delay);
            match self.rate {
                Some(rate) => reply.rate(rate),
                None => reply,
            }
        };
        let pairs = request.query_pairs();
        let parsed = self.parse(request, &pairs, usual());
        match parsed {
            Err(text) => Reply::status(400).body(text + "\n"),
            Ok(Asked { only, times, reply }) => {
                let meant = only.is_none_or(|method| method.eq_ignore_ascii_case(&request.method));
                let due = meant && times.is_none_or(|times| self.count(request) <= times);
                if due { reply } else { usual() }
            }
        }
    }

    /// How many requests of this target there were, this one included.
    fn count(&self, request: &RequestInfo) -> u64 {
        let mut seen = self.seen.lock().unwrap();
        let count = seen.entry(request.target.clone()).or_default();
        *count += 1;
        *count
    }

    fn gate(&self, name: &str) -> Gate {
        self.gates.lock().unwrap().entry(name.into()).or_insert_with(Gate::new).clone()
    }

    fn parse(&self, request: &RequestInfo, pairs: &[(String, String)], usual: Reply) -> Result<Asked, String> {
        let mut asked = Asked { only: None, times: None, reply: usual };
        // These replace the whole reply, so they come before what changes it.
        let find = |name: &str| pairs.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str());
        let status = find("status").map(|value| status_of("status", value)).transpose()?;
        let refused_head = find("no_head").filter(|_| request.method == "HEAD");
        let base = match (refused_head, find("redirect"), status) {
            (Some(status), ..) => Some(Reply::status(status_of("no_head", status)?)),
            (None, Some(path), status) => Some(Reply::redirect(status.unwrap_or(302), path)),
            (None, None, Some(status)) => Some(Reply::status(status)),
            (None, None, None) => None,
        };
        if let Some(base) = base {
            asked.reply = Reply { delay: asked.reply.delay, rate: asked.reply.rate, ..base };
        }
        for (name, value) in pairs {
            let number = || value.parse::<u64>().map_err(|_| format!("{name}={value}: a number is needed"));
            let positive =
                || number().and_then(|n| if n > 0 { Ok(n) } else { Err(format!("{name}=0 is not possible")) });
            // `x=0` is the same as no `x`, so that a program can fill in a 0.
            let switch = |reply: Reply, on: fn(Reply) -> Reply| match value.as_str() {
                "1" => Ok(on(reply)),
                "0" => Ok(reply),
                _ => Err(format!("{name}={value}: must be 0 or 1")),
            };
            let reply = asked.reply;
            asked.reply = match name.as_str() {
                "status" | "no_head" | "redirect" => reply,
                "claim_status" => reply.with_status(status_of(name, value)?),
                "delay_ms" => reply.delay(Duration::from_millis(number()?)),
                "delay_body_ms" => reply.delay_body(Duration::from_millis(number()?)),
                "rate" => reply.rate(positive()?),
                "stall" => switch(reply, Reply::never_answer)?,
                "stall_after" => reply.stall_after(number()?),
                "reset_after" => reply.reset_after(number()?),
                "close_after" => reply.close_after(number()?),
                "reset" => switch(reply, Reply::reset_at_once)?,
                "close" => switch(reply, Reply::close_at_once)?,
                "close_silently" => switch(reply, Reply::close_silently)?,
                "announce_close" => switch(reply, Reply::announce_close)?,
                "ignore_range" => switch(reply, Reply::ignore_range)?,
                "short_by" => reply.short_by(number()?),
                "extra" => reply.extra_body(number()?),
                "corrupt" => reply.corrupt(number()?),
                "etag" => reply.etag(&format!("\"{value}\"")),
                "no_total" => switch(reply, Reply::unknown_total)?,
                "no_length" => switch(reply, |reply| reply.without_header("Content-Length"))?,
                "header" => {
                    let (name, value) = value.split_once(':').ok_or("header needs NAME:VALUE")?;
                    reply.header(name.trim(), value.trim())
                }
                "retry_after" => reply.retry_after(number()?),
                "chunked" => switch(reply, Reply::chunked)?,
                "gzip" => switch(reply, Reply::gzip_always)?,
                "multipart" => switch(reply, Reply::multipart)?,
                "http10" => switch(reply, Reply::http10)?,
                "garbage" => switch(reply, |_| Reply::garbage())?,
                "hold" => reply.hold(&self.gate(value)),
                "only" if value == "get" || value == "head" => {
                    asked.only = Some(value.clone());
                    reply
                }
                "times" => {
                    asked.times = Some(number()?);
                    reply
                }
                _ => {
                    return Err(format!(
                        "unknown parameter {name}={value}; the knobs are listed in the rustdoc of `knobs`"
                    ));
                }
            };
        }
        Ok(asked)
    }

    pub(crate) fn control(&self, request: &RequestInfo, watch: &Watch) -> Reply {
        let gate = || request.query_value("gate").map(|name| self.gate(&name));
        let text = match (&request.path()[CONTROL.len()..], gate()) {
            ("stats", None) => {
                let c = watch.counts();
                format!(
                    "requests {}\ngets {}\nheads {}\nconnections {}\nopen_connections {}\nin_flight {}\nmax_in_flight {}\n\
                     completed {}\naborted {}\ncut {}\n",
                    c.requests,
                    c.gets,
                    c.heads,
                    c.connections,
                    c.open_connections,
                    c.in_flight,
                    c.max_in_flight,
                    c.completed,
                    c.aborted,
                    c.cut
                )
            }
            ("log", None) => watch.log().iter().fold(String::new(), |mut text, request| {
                let range = request.range_text().unwrap_or("-");
                let _ = writeln!(text, "{} {} {range}", request.method, request.target);
                text
            }),
            ("reset", None) => {
                watch.reset();
                self.seen.lock().unwrap().clear();
                "ok\n".into()
            }
            ("open", Some(gate)) => {
                gate.open();
                "ok\n".into()
            }
            ("held", Some(gate)) => format!("{}\n", gate.held()),
            _ => {
                let known = "stats, log, reset, open?gate=NAME, held?gate=NAME";
                return Reply::status(404).body(format!("no such control path; there are {known}\n"));
            }
        };
        Reply::serve(text).ignore_range()
    }
}

struct Asked {
    only: Option<String>,
    times: Option<u64>,
    reply: Reply,
}

fn status_of(name: &str, value: &str) -> Result<u16, String> {
    let status = value.parse().ok().filter(|status| (200..1000).contains(status));
    status.ok_or_else(|| format!("{name}={value}: a status from 200 to 999 is needed"))
}

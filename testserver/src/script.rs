//! Which reply a request gets.

use std::sync::Arc;

use crate::reply::Reply;
use crate::request::RequestInfo;

/// Which requests a script is for: a method, a path, both or neither.
#[derive(Clone, Debug, Default)]
pub struct Match {
    method: Option<String>,
    path: Option<String>,
}

/// Every request.
pub fn any() -> Match {
    Match::default()
}

/// Every request for this path. The path is compared as it stands on the wire, and again percent-decoded; the query does
/// not count.
pub fn path(path: &str) -> Match {
    Match { path: Some(path.into()), ..any() }
}

/// GETs of this path.
pub fn get(of: &str) -> Match {
    path(of).method("GET")
}

/// HEADs of this path.
pub fn head(of: &str) -> Match {
    path(of).method("HEAD")
}

impl Match {
    /// Only requests of this method.
    pub fn method(mut self, method: &str) -> Match {
        self.method = Some(method.into());
        self
    }

    fn is_for(&self, request: &RequestInfo) -> bool {
        self.method.as_ref().is_none_or(|method| *method == request.method)
            && self.path.as_ref().is_none_or(|path| request.path_is(path))
    }
}

impl From<&str> for Match {
    /// The same as [`path`].
    fn from(of: &str) -> Match {
        path(of)
    }
}

pub(crate) type Handler = dyn Fn(&RequestInfo) -> Option<Reply> + Send + Sync;

pub(crate) enum Action {
    /// Replies in order, the last one again and again.
    List(Vec<Reply>, usize),
    Call(Arc<Handler>),
}

pub(crate) struct Rule {
    pub(crate) matching: Match,
    pub(crate) action: Action,
}

/// What a rule says, to be evaluated without the lock on the rules.
pub(crate) enum Chosen {
    Reply(Box<Reply>),
    Call(Arc<Handler>),
}

/// The rules of a server, the newest one last.
#[derive(Default)]
pub(crate) struct Rules(pub(crate) Vec<Rule>);

impl Rules {
    /// The newest matching rule below index `below`, and its index: a function may pass a request on to the rules below it.
    pub(crate) fn choose(&mut self, request: &RequestInfo, below: usize) -> Option<(usize, Chosen)> {
        let below = below.min(self.0.len());
        let at = self.0[..below].iter().rposition(|rule| rule.matching.is_for(request))?;
        let chosen = match &mut self.0[at].action {
            Action::Call(handler) => Chosen::Call(handler.clone()),
            Action::List(replies, next) => {
                let reply = replies[*next].clone();
                *next = (*next + 1).min(replies.len() - 1);
                Chosen::Reply(Box::new(reply))
            }
        };
        Some((at, chosen))
    }
}

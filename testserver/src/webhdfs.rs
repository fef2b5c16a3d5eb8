//! A simulation of WebHDFS, written from Hadoop's "WebHDFS REST API": a name node that knows files and sends readers on to
//! a data node. It is no Hadoop.

use crate::body::pattern_at;
use crate::reply::Reply;
use crate::request::RequestInfo;
use crate::script::path;
use crate::server::Server;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// What both nodes are under.
const PREFIX: &str = "/webhdfs/v1";

/// What one path is.
#[derive(Clone, Debug)]
pub enum Node {
    /// A file with so many bytes of the pattern.
    File(u64),
    /// A folder.
    Folder,
    /// A file that nobody may read.
    Forbidden,
}

/// A name node and a data node.
pub struct WebHdfs {
    /// Knows what there is.
    pub name_node: Server,
    /// Has the bytes.
    pub data_node: Server,
    nodes: Arc<Mutex<HashMap<String, Node>>>,
    user: Arc<Mutex<Option<String>>>,
}

impl WebHdfs {
    /// An empty file system.
    pub fn start() -> WebHdfs {
        let (name_node, data_node) = (Server::start(), Server::start());
        let nodes = Arc::<Mutex<HashMap<String, Node>>>::default();
        let user = Arc::<Mutex<Option<String>>>::default();
        let data_url = data_node.url("");
        let (of_names, of_data, wanted) = (nodes.clone(), nodes.clone(), user.clone());
        name_node.on(crate::script::any(), move |request: &RequestInfo| {
            Some(answer(request, &of_names.lock().unwrap(), wanted.lock().unwrap().as_deref(), Some(&data_url)))
        });
        data_node.on(crate::script::any(), move |request: &RequestInfo| {
            Some(answer(request, &of_data.lock().unwrap(), None, None))
        });
        WebHdfs { name_node, data_node, nodes, user }
    }

    /// Puts something at a path, given as it is called.
    pub fn put(&self, path: &str, node: Node) {
        self.nodes.lock().unwrap().insert(path.into(), node);
    }

    /// Only this user is answered.
    pub fn only_for(&self, user: &str) {
        *self.user.lock().unwrap() = Some(user.into());
    }

    /// The name node answers this to its next requests for a path, before all else.
    pub fn script(&self, of: &str, replies: impl IntoIterator<Item = Reply>) {
        self.name_node.script(path(&format!("{PREFIX}{of}")), replies);
    }

    /// The URL of a path, which is not encoded.
    pub fn url(&self, of: &str) -> String {
        self.name_node.url(&format!("{PREFIX}{of}"))
    }
}

/// `data_node`: where readers are sent; `None`: this is it.
fn answer(request: &RequestInfo, nodes: &HashMap<String, Node>, user: Option<&str>, data_node: Option<&str>) -> Reply {
    let wire = request.path();
    let Some(name) = wire.strip_prefix(PREFIX).map(crate::request::percent_decoded) else {
        return Reply::status(404);
    };
    if user.is_some_and(|user| request.query_value("user.name").as_deref() != Some(user)) {
        return exception(401, "SecurityException", "Failed to obtain user group information: no such user");
    }
    let operation = request.query_value("op").unwrap_or_default().to_ascii_uppercase();
    let node = nodes.get(&name);
    match (operation.as_str(), node) {
        (_, None) => exception(404, "FileNotFoundException", &format!("File does not exist: {name}")),
        ("GETFILESTATUS", Some(node)) => {
            let (length, kind) = match node {
                Node::File(length) => (*length, "FILE"),
                Node::Forbidden => return forbidden(&name),
                Node::Folder => (0, "DIRECTORY"),
            };
            json(format!(
                "{{\"FileStatus\":{{\"accessTime\":1320171722771,\"blockSize\":33554432,\"group\":\"supergroup\",\
                 \"length\":{length},\"modificationTime\":1320171722771,\"owner\":\"webuser\",\"pathSuffix\":\"\",\
                 \"permission\":\"644\",\"replication\":1,\"type\":\"{kind}\"}}}}"
            ))
        }
        ("OPEN", Some(Node::Forbidden)) => forbidden(&name),
        ("OPEN", Some(Node::Folder)) => exception(404, "FileNotFoundException", &format!("Path is not a file: {name}")),
        ("OPEN", Some(Node::File(length))) => {
            let number = |name: &str| request.query_value(name).and_then(|value| value.parse::<u64>().ok());
            let offset = number("offset").unwrap_or(0);
            if offset > 0 && offset >= *length {
                let words = format!("Offset={offset} out of the range [0, {length}); OPEN, path={name}");
                return exception(403, "IOException", &words);
            }
            if let Some(data_node) = data_node {
                // As Hadoop does it: the data node's URL has the query of the request, and the name node's address.
                let query = request.query().unwrap_or_default();
                return Reply::redirect(307, &format!("{data_node}{wire}?{query}&namenoderpcaddress=localhost:9000"));
            }
            let want = number("length").unwrap_or(u64::MAX).min(length - offset);
            Reply::serve(pattern_at(offset, want as usize)).ignore_range().without_header("ETag")
        }
        (other, Some(_)) => {
            exception(400, "IllegalArgumentException", &format!("Invalid value for webhdfs parameter \"op\": {other}"))
        }
    }
}

fn forbidden(name: &str) -> Reply {
    exception(403, "AccessControlException", &format!("Permission denied: user=x, access=READ, inode=\"{name}\""))
}

fn exception(status: u16, name: &str, message: &str) -> Reply {
    let message = message.replace('\\', "\\\\").replace('"', "\\\"");
    let class = format!("org.apache.hadoop.{name}");
    let body = format!(
        "{{\"RemoteException\":{{\"exception\":\"{name}\",\"javaClassName\":\"{class}\",\"message\":\"{message}\"}}}}"
    );
    Reply::status(status).body(body).header("Content-Type", "application/json")
}

fn json(text: String) -> Reply {
    Reply::serve(text).ignore_range().without_header("ETag").header("Content-Type", "application/json")
}

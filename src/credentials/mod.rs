//! Secrets that requests carry: where they come from, and how long they last.
//!
//! | file | what |
//! |---|---|
//! | [`authority`] | keeps what was granted, has it renewed in time on a thread of its own, lets requests wait for it |
//! | [`chain`] | the places where AWS credentials are looked for, in order |
//! | [`profile`] | the shared `config` and `credentials` files |
//! | [`services`] | container and instance metadata, web identity: the questions and what the answers mean |

pub mod authority;
pub mod chain;
pub mod profile;
pub mod services;

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::time::SystemTime;

/// More than this is no file of settings or tokens.
const MOST_OF_A_FILE: u64 = 16 << 20;

/// The text of a small file. A variable may name anything, `/dev/zero` too.
fn read_small(path: &Path) -> io::Result<String> {
    // A pipe that nobody writes to would hold up the caller for ever.
    if std::fs::metadata(path)?.file_type().is_fifo() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is a pipe, not a file"));
    }
    let mut text = String::new();
    File::open(path)?.take(MOST_OF_A_FILE + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MOST_OF_A_FILE {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "more than 16 MiB, which no such file has"));
    }
    Ok(text)
}

/// A text that neither `Debug` nor an error shows.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Secret(String);

impl Secret {
    /// Hides `text`.
    pub fn new(text: impl Into<String>) -> Secret {
        Secret(text.into())
    }

    /// The text itself, for the wire.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("...")
    }
}

/// AWS credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys {
    /// Who asks. Not shown either: it names an account.
    pub access_key_id: Secret,
    /// What signs.
    pub secret_access_key: Secret,
    /// Sent and signed whenever there is one.
    pub session_token: Option<Secret>,
}

/// What a request may carry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Held {
    /// Signs S3 requests.
    Keys(Keys),
    /// Goes into `Authorization: Bearer`.
    Bearer(Secret),
    /// Nothing was found anywhere: requests go out unsigned. The text says where was looked.
    Nothing(String),
}

/// Something held, until it expires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// What.
    pub held: Held,
    /// `None`: never.
    pub expires: Option<SystemTime>,
}

/// Whether a value can stand in a header line.
pub(crate) fn fits_a_header(text: &str) -> bool {
    !text.bytes().any(|byte| byte.is_ascii_control())
}

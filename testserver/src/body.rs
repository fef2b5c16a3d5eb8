//! What is served: bodies and objects, and the test pattern.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::UNIX_EPOCH;

/// The pattern repeats after this many bytes.
const PERIOD: usize = 251;

/// Size of one write. A whole number of periods, so that any offset can be served out of one block.
const BLOCK: usize = PERIOD * 2048;

fn block() -> &'static [u8] {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    BYTES.get_or_init(|| (0..BLOCK + PERIOD).map(|i| ((i * 31 + 7) % PERIOD) as u8).collect())
}

/// The first `len` bytes of the test pattern: byte `i` is `(i * 31 + 7) mod 251`.
pub fn pattern(len: usize) -> Vec<u8> {
    pattern_at(0, len)
}

/// `len` bytes of the test pattern from `offset` on.
pub fn pattern_at(offset: u64, len: usize) -> Vec<u8> {
    let from = (offset % PERIOD as u64) as usize;
    block()[from..from + PERIOD].iter().copied().cycle().take(len).collect()
}

/// CRC-32 (zlib's) of the first `len` bytes of the pattern, by combining the sums of its parts: no time at any size.
pub fn pattern_crc32(len: u64) -> u32 {
    let sum_of = |bytes: &[u8]| {
        let mut sum = crc32fast::Hasher::new();
        sum.update(bytes);
        sum
    };
    let mut total = sum_of(&[]);
    // `power` covers 2^k periods; those of the set bits of the number of periods are put together.
    let mut power = sum_of(&block()[..PERIOD]);
    let mut periods = len / PERIOD as u64;
    while periods > 0 {
        if periods & 1 == 1 {
            total.combine(&power);
        }
        let same = power.clone();
        power.combine(&same);
        periods >>= 1;
    }
    total.combine(&sum_of(&block()[..(len % PERIOD as u64) as usize]));
    total.finalize()
}

type Fill = dyn Fn(u64, &mut [u8]) + Send + Sync;

#[derive(Clone)]
enum Source {
    Bytes(Arc<[u8]>),
    Pattern(u64),
    File(Arc<File>, u64),
    Generated(u64, Arc<Fill>),
}

/// Bytes that can be read at any offset. Cheap to clone.
#[derive(Clone)]
pub struct Body(Source);

impl Body {
    /// These bytes.
    pub fn bytes(bytes: impl Into<Vec<u8>>) -> Body {
        Body(Source::Bytes(bytes.into().into()))
    }

    /// `len` bytes of the test [`pattern`]; takes no memory, so it may be huge.
    pub fn pattern(len: u64) -> Body {
        Body(Source::Pattern(len))
    }

    /// The file as it is while it is read; its length is taken now.
    pub fn file(path: impl AsRef<Path>) -> io::Result<Body> {
        let file = File::open(path)?;
        let len = file.metadata()?.len();
        Ok(Body(Source::File(Arc::new(file), len)))
    }

    /// `len` bytes that `fill(offset, buffer)` computes whenever they are asked for.
    pub fn generated(len: u64, fill: impl Fn(u64, &mut [u8]) + Send + Sync + 'static) -> Body {
        Body(Source::Generated(len, Arc::new(fill)))
    }

    /// Length in bytes.
    pub fn len(&self) -> u64 {
        match &self.0 {
            Source::Bytes(bytes) => bytes.len() as u64,
            Source::Pattern(len) | Source::File(_, len) | Source::Generated(len, _) => *len,
        }
    }

    /// Whether there is no byte in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// CRC-32 (zlib's) of the whole body.
    pub fn crc32(&self) -> io::Result<u32> {
        if let Source::Pattern(len) = self.0 {
            return Ok(pattern_crc32(len));
        }
        let mut sum = crc32fast::Hasher::new();
        let (mut at, mut scratch) = (0, Vec::new());
        while at < self.len() {
            let piece = self.piece(at, BLOCK, &mut scratch)?;
            sum.update(piece);
            at += piece.len() as u64;
        }
        Ok(sum.finalize())
    }

    /// All bytes of `[from, to)`.
    pub fn read(&self, from: u64, to: u64) -> io::Result<Vec<u8>> {
        let (mut bytes, mut at, mut scratch) = (Vec::new(), from, Vec::new());
        while at < to {
            let piece = self.piece(at, (to - at) as usize, &mut scratch)?;
            bytes.extend_from_slice(piece);
            at += piece.len() as u64;
        }
        Ok(bytes)
    }

    /// Some bytes at `at`: at least one, at most `max`; out of memory where the body is there, else through `scratch`.
    pub(crate) fn piece<'a>(&'a self, at: u64, max: usize, scratch: &'a mut Vec<u8>) -> io::Result<&'a [u8]> {
        let max = (self.len() - at).min(max as u64) as usize;
        match &self.0 {
            Source::Bytes(bytes) => Ok(&bytes[at as usize..at as usize + max]),
            Source::Pattern(_) => {
                let from = (at % PERIOD as u64) as usize;
                Ok(&block()[from..from + max.min(BLOCK)])
            }
            Source::File(file, _) => {
                scratch.resize(max.min(BLOCK), 0);
                let got = file.read_at(scratch, at)?;
                if got == 0 {
                    return Err(io::Error::new(
                        io::ErrorKind::UnexpectedEof,
                        "the served file became shorter while it was read",
                    ));
                }
                Ok(&scratch[..got])
            }
            Source::Generated(_, fill) => {
                scratch.resize(max.min(BLOCK), 0);
                fill(at, scratch);
                Ok(scratch)
            }
        }
    }

    fn default_etag(&self) -> String {
        let len = self.len();
        match &self.0 {
            Source::Bytes(bytes) => format!("\"{len:x}-{:08x}\"", crc32fast::hash(bytes)),
            Source::Pattern(len) => format!("\"{len:x}-{:08x}\"", pattern_crc32(*len)),
            Source::File(file, _) => {
                let changed = file.metadata().and_then(|m| m.modified()).ok();
                let changed = changed.and_then(|t| t.duration_since(UNIX_EPOCH).ok()).map_or(0, |d| d.as_nanos());
                format!("\"{len:x}-{changed:x}\"")
            }
            Source::Generated(..) => format!("\"{len:x}-generated\""),
        }
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match &self.0 {
            Source::Bytes(_) => "bytes",
            Source::Pattern(_) => "pattern",
            Source::File(..) => "file",
            Source::Generated(..) => "generated",
        };
        write!(f, "Body({kind}, {} bytes)", self.len())
    }
}

impl<T: Into<Vec<u8>>> From<T> for Body {
    fn from(bytes: T) -> Body {
        Body::bytes(bytes)
    }
}

/// A body with what the server says about it.
#[derive(Clone, Debug)]
pub struct Object {
    pub(crate) body: Body,
    pub(crate) etag: Option<String>,
    pub(crate) content_type: String,
}

impl Object {
    /// An object with this body, a strong ETag computed from it, and `application/octet-stream`.
    pub fn new(body: impl Into<Body>) -> Object {
        let body = body.into();
        let etag = Some(body.default_etag());
        Object { body, etag, content_type: "application/octet-stream".into() }
    }

    /// `len` bytes of the test pattern.
    pub fn pattern(len: u64) -> Object {
        Object::new(Body::pattern(len))
    }

    /// Another ETag, given as it goes on the wire: `"\"a\""`, or `"W/\"a\""` for a weak one.
    pub fn etag(mut self, etag: &str) -> Object {
        self.etag = Some(etag.into());
        self
    }

    /// No ETag.
    pub fn no_etag(mut self) -> Object {
        self.etag = None;
        self
    }

    /// Another Content-Type.
    pub fn content_type(mut self, content_type: &str) -> Object {
        self.content_type = content_type.into();
        self
    }

    /// The body.
    pub fn body(&self) -> &Body {
        &self.body
    }
}

impl<T: Into<Body>> From<T> for Object {
    fn from(body: T) -> Object {
        Object::new(body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pattern_is_the_formula_at_any_offset() {
        for offset in [0_u64, 1, 250, 251, 252, 1 << 40] {
            for (i, byte) in pattern_at(offset, 1000).into_iter().enumerate() {
                assert_eq!(u64::from(byte), ((offset + i as u64) * 31 + 7) % 251);
            }
        }
    }

    #[test]
    fn pattern_sum_equals_the_sum_of_its_bytes() {
        for len in [0, 1, 250, 251, 252, 502, 100_000, 3_000_001] {
            assert_eq!(pattern_crc32(len), crc32fast::hash(&pattern(len as usize)), "of {len} bytes");
        }
    }

    #[test]
    fn every_kind_of_body_reads_the_same() {
        let len = BLOCK as u64 * 2 + 77;
        let file = std::env::temp_dir().join(format!("raskio-testserver-body-{}", std::process::id()));
        std::fs::write(&file, pattern(len as usize)).unwrap();
        let bodies = [
            Body::pattern(len),
            Body::bytes(pattern(len as usize)),
            Body::file(&file).unwrap(),
            Body::generated(len, |at, out| out.copy_from_slice(&pattern_at(at, out.len()))),
        ];
        std::fs::remove_file(&file).unwrap();
        for body in bodies {
            assert_eq!(body.crc32().unwrap(), pattern_crc32(len), "{body:?}");
            assert_eq!(body.read(12_345, 1_012_345).unwrap(), pattern_at(12_345, 1_000_000), "{body:?}");
        }
    }
}

//! What a file must be.

use crate::failure::{Failure, Outcome, code};
use crate::output;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// What the user knows of the bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// As zlib's.
    Crc32(u32),
    /// In lower case.
    Sha256(String),
}

impl Checksum {
    /// `crc32=HEX` or `sha256=HEX`.
    pub fn parse(text: &str) -> Outcome<Checksum> {
        let bad = || {
            Failure::usage(format!("--checksum {text:?} should be crc32= and 8 hexadecimal digits, or sha256= and 64"))
        };
        let (kind, hex) = text.split_once('=').ok_or_else(bad)?;
        let hex = hex.to_ascii_lowercase();
        match (kind.to_ascii_lowercase().as_str(), hex.len(), hex.bytes().all(|byte| byte.is_ascii_hexdigit())) {
            ("crc32", 8, true) => u32::from_str_radix(&hex, 16).map(Checksum::Crc32).map_err(|_| bad()),
            ("sha256", 64, true) => Ok(Checksum::Sha256(hex)),
            _ => Err(bad()),
        }
    }

    /// Compares. `crc32` is known already; for another kind the file is read once more.
    pub fn check(&self, crc32: u32, path: &Path, to: &Path) -> Outcome<()> {
        let then = format!("it was removed, and {} is as it was", output::path(to));
        self.compare(crc32, || sha256(path), &then)
    }

    fn compare(&self, crc32: u32, sha256: impl FnOnce() -> Outcome<String>, then: &str) -> Outcome<()> {
        let (kind, expected, found) = match self {
            Checksum::Crc32(expected) => ("crc32", format!("{expected:08x}"), format!("{crc32:08x}")),
            Checksum::Sha256(expected) => ("sha256", expected.clone(), sha256()?),
        };
        if expected == found {
            return Ok(());
        }
        let message = format!("the {kind} of what was read is {found}, and should be {expected}; {then}");
        Err(Failure::new(code::CHECKSUM, "CHECKSUM", message))
    }
}

/// Sums of bytes that come one after the other.
pub struct Sums {
    crc32: crc32fast::Hasher,
    sha256: Option<Sha256>,
}

impl Sums {
    /// Of nothing yet; those that `wanted` needs, and a CRC-32.
    pub fn new(wanted: Option<&Checksum>) -> Sums {
        let sha256 = matches!(wanted, Some(Checksum::Sha256(_))).then(Sha256::new);
        Sums { crc32: crc32fast::Hasher::new(), sha256 }
    }

    /// These come next.
    pub fn add(&mut self, bytes: &[u8]) {
        self.crc32.update(bytes);
        if let Some(sha256) = &mut self.sha256 {
            sha256.update(bytes);
        }
    }

    /// Compares what there was, and returns its CRC-32.
    pub fn check(self, wanted: Option<&Checksum>) -> Outcome<u32> {
        let crc32 = self.crc32.finalize();
        if let Some(wanted) = wanted {
            let sha256 = || Ok(self.sha256.map(|sum| hex(&sum.finalize())).unwrap_or_default());
            wanted.compare(crc32, sha256, "all of it was written already")?;
        }
        Ok(crc32)
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn sha256(path: &Path) -> Outcome<String> {
    let failed = |error: std::io::Error| Failure::file("read back", path, &error);
    let mut file = File::open(path).map_err(failed)?;
    let (mut sum, mut block) = (Sha256::new(), vec![0; 1 << 20]);
    loop {
        match file.read(&mut block).map_err(failed)? {
            0 => break,
            n => sum.update(&block[..n]),
        }
    }
    Ok(hex(&sum.finalize()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_read() {
        assert_eq!(Checksum::parse("crc32=CBF43926").unwrap(), Checksum::Crc32(0xCBF4_3926));
        assert!(matches!(Checksum::parse(&format!("SHA256={}", "a".repeat(64))), Ok(Checksum::Sha256(_))));
        for bad in ["", "crc32", "crc32=", "crc32=+1234567", "md5=00", "sha256=00"] {
            assert_eq!(Checksum::parse(bad).unwrap_err().code, code::USAGE, "{bad}");
        }
    }
}

//! Which interfaces.

use crate::counters::Reading;

/// Chosen by name, or all that matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    patterns: Vec<String>,
}

impl Selection {
    /// Those whose name fits one of these, in which `*` stands for any characters and `?` for one. Without any: those that are
    /// up, but loopback.
    pub fn new(patterns: Vec<String>) -> Selection {
        Selection { patterns }
    }

    /// Whether this is one.
    pub fn takes(&self, reading: &Reading) -> bool {
        match self.patterns.is_empty() {
            true => reading.is_up && !reading.is_loopback,
            false => self.patterns.iter().any(|pattern| fits(pattern.as_bytes(), reading.name.as_bytes())),
        }
    }
}

fn fits(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern.split_first(), name.split_first()) {
        (None, None) => true,
        (Some((b'*', rest)), _) => fits(rest, name) || (!name.is_empty() && fits(pattern, &name[1..])),
        (Some((b'?', pattern)), Some((_, name))) => fits(pattern, name),
        (Some((a, pattern)), Some((b, name))) if a == b => fits(pattern, name),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_whole_names() {
        for (pattern, name) in
            [("eth0", "eth0"), ("eth*", "eth0"), ("*", ""), ("e?h0", "eth0"), ("*s0*", "enp1s0f1"), ("*0", "e00")]
        {
            assert!(fits(pattern.as_bytes(), name.as_bytes()), "{pattern} {name}");
        }
        for (pattern, name) in [("eth", "eth0"), ("eth0", "eth"), ("?", ""), ("e*1", "eth0"), ("", "a")] {
            assert!(!fits(pattern.as_bytes(), name.as_bytes()), "{pattern} {name}");
        }
    }
}

//! Which call fails with what, and how often each call was made. Names are without version suffixes: `cuMemAlloc`.

use std::collections::BTreeMap;

/// The name under which executed copies are counted: a failure of it is an asynchronous error of the context.
pub const ASYNC: &str = "async";

struct Rule {
    name: String,
    /// Calls until it applies, this one included.
    left: u64,
    /// Applies to every call from then on.
    lasting: bool,
    code: i32,
}

/// Counts and rules.
#[derive(Default)]
pub struct Faults {
    counts: BTreeMap<String, u64>,
    rules: Vec<Rule>,
}

impl Faults {
    /// Rules such as `cuEventRecord:3:700` (the third call), `cuEventQuery:2+:999` (the second and all after it),
    /// `cuInit:*:100` (all), separated by commas.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut faults = Self::default();
        for rule in text.split(',').map(str::trim).filter(|rule| !rule.is_empty()) {
            let wrong =
                || format!("SIM_CUDA_FAIL: {rule:?} is not NAME:NTH:CODE with NTH a number, a number and +, or *");
            let mut parts = rule.split(':');
            let (Some(name), Some(nth), Some(code), None) = (parts.next(), parts.next(), parts.next(), parts.next())
            else {
                return Err(wrong());
            };
            let (nth, lasting) = match nth.strip_suffix('+') {
                Some(nth) => (nth, true),
                None if nth == "*" => ("1", true),
                None => (nth, false),
            };
            let (nth, code) = (nth.parse().map_err(|_| wrong())?, code.parse().map_err(|_| wrong())?);
            faults.arm(name, nth, lasting, code);
        }
        Ok(faults)
    }

    /// The `nth` call from now on (the next is 1) answers `code`; `lasting`: all after it as well. A `code` of 0 removes
    /// the rules of that name.
    pub fn arm(&mut self, name: &str, nth: u64, lasting: bool, code: i32) {
        if code == 0 {
            self.rules.retain(|rule| rule.name != name);
        } else {
            self.rules.push(Rule { name: name.to_owned(), left: nth.max(1), lasting, code });
        }
    }

    /// Counts one call, and says how it fails if it is to.
    pub fn count(&mut self, name: &str) -> Option<i32> {
        match self.counts.get_mut(name) {
            Some(count) => *count += 1,
            None => {
                self.counts.insert(name.to_owned(), 1);
            }
        }
        let mut code = None;
        self.rules.retain_mut(|rule| {
            if rule.name != name {
                return true;
            }
            rule.left -= u64::from(rule.left > 0);
            if rule.left == 0 {
                code = Some(rule.code);
            }
            rule.left > 0 || rule.lasting
        });
        code
    }

    /// How often a call was made, failures included.
    pub fn made(&self, name: &str) -> u64 {
        self.counts.get(name).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nth_call_fails_once_or_from_then_on() {
        let mut faults = Faults::parse("a:2:7, b:*:8,c:2+:9").unwrap();
        assert_eq!([1, 2, 3].map(|_| faults.count("a")), [None, Some(7), None]);
        assert_eq!([1, 2, 3].map(|_| faults.count("b")), [Some(8); 3]);
        assert_eq!([1, 2, 3].map(|_| faults.count("c")), [None, Some(9), Some(9)]);
        assert_eq!((faults.made("a"), faults.made("d")), (3, 0));
        faults.arm("c", 0, false, 0);
        assert_eq!(faults.count("c"), None);
    }

    #[test]
    fn a_rule_that_cannot_be_read_is_named() {
        for wrong in ["a", "a:1", "a:x:1", "a:1:x", "a:1:1:1"] {
            assert!(Faults::parse(wrong).err().is_some_and(|error| error.contains(wrong)), "{wrong}");
        }
    }
}

//! `Retry-After`: whatever a server asks for, the wait is within its bounds.
#![no_main]

use libfuzzer_sys::fuzz_target;
use raskio::retry::{CAP, History, JITTER, MAX_RESUMES, RETRY_AFTER_CEILING, RetryPolicy, parse_retry_after};
use std::time::{Duration, SystemTime};

fuzz_target!(|data: &[u8]| {
    let Some((numbers, text)) = data.split_at_checked(6) else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let now = SystemTime::UNIX_EPOCH
        + Duration::from_secs(u32::from_le_bytes([numbers[0], numbers[1], numbers[2], numbers[3]]).into());
    let asked = parse_retry_after(text, now);
    if !text.trim().is_empty() && text.trim().bytes().all(|byte| byte.is_ascii_digit()) {
        assert!(asked.is_some(), "{text:?} are digits");
    }
    let policy = RetryPolicy { max_attempts: numbers[4].into(), statuses: vec![503] };
    let (mut history, mut attempts) = (History::default(), 0);
    while let Some(wait) =
        policy.next(&mut history, attempts % 3 == 2 && numbers[5] & 1 == 1, asked, f64::from(numbers[5]) / 256.0)
    {
        attempts += 1;
        assert!(wait <= CAP.max(RETRY_AFTER_CEILING).mul_f64(1.0 + JITTER), "{wait:?}");
        assert!(wait >= asked.unwrap_or_default().min(RETRY_AFTER_CEILING), "{wait:?} is less than {asked:?}");
        assert!(attempts <= u32::from(numbers[4]) + MAX_RESUMES, "it never ends");
    }
});

//! `raskio stat`: what a server says about objects, and how long asking took.

use crate::failure::Outcome;
use crate::output::Output;
use crate::{remote, units};
use clap::ArgMatches;
use raskio::client::Client;
use serde_json::json;
use std::sync::Arc;
use std::time::Instant;

/// Runs it.
pub fn run(matches: &ArgMatches, output: &Output) -> Outcome<()> {
    let arguments: Vec<String> = matches.get_many("url").into_iter().flatten().cloned().collect();
    let client = remote::client(&remote::overrides()).map_err(|failure| output.failed("", failure))?;
    let mut first = None;
    for url in remote::urls(&arguments).map_err(|failure| output.failed("", failure))? {
        if let Err(failure) = one(&client, &url, matches, output) {
            let failure = output.failed(&raskio::endpoint::redact::url(&url), failure);
            first.get_or_insert(failure);
        }
    }
    first.map_or(Ok(()), Err)
}

fn one(client: &Arc<Client>, url: &str, matches: &ArgMatches, output: &Output) -> Outcome<()> {
    let before = client.stats();
    let object = client.open(url, remote::object_options(matches))?;
    let started = Instant::now();
    let size = object.stat_sync()?;
    let took_us = started.elapsed().as_micros() as u64;
    let (info, after) = (object.info(), client.stats());
    let kind = remote::kind_name(info.endpoint);
    let etag = info.etag.as_ref().map(|etag| etag.to_string_lossy().into_owned());
    let steps = [
        ("name look-up", "name_lookup_us", after.name_lookup_us - before.name_lookup_us),
        ("connect", "connect_us", after.connect_us - before.connect_us),
        ("TLS", "tls_us", after.tls_us - before.tls_us),
        ("first byte", "first_byte_us", after.wait_us - before.wait_us),
    ];
    let attempts = after.requests_started - before.requests_started + after.requests_retried - before.requests_retried;
    output.result(
        || {
            let mut all = json!({"object": object.name(), "kind": kind, "size": size, "etag": etag, "took_us": took_us, "attempts": attempts});
            steps.iter().for_each(|(_, name, us)| all[name] = (*us).into());
            all
        },
        || {
            let times: Vec<String> =
                steps.iter().filter(|step| step.2 > 0).map(|(name, _, us)| format!("{name} {} ms", units::ms(*us))).collect();
            let times = if times.is_empty() { String::new() } else { format!(" ({})", times.join(", ")) };
            format!(
                "{}\n  size  {size} bytes ({})\n  etag  {}\n  kind  {kind}\n  took  {} ms{times}",
                object.name(),
                units::size(size),
                etag.as_deref().unwrap_or("none"),
                units::ms(took_us),
            )
        },
    );
    Ok(())
}

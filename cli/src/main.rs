//! The command-line tool `raskio`.
//!
//! | file | what |
//! |---|---|
//! | [`args`] | the command line |
//! | [`stat`], [`cp`], [`bench`], [`nic`] | the commands |
//! | [`remote`], [`memory`] | clients, objects, and memory lent to reads |
//! | [`output`], [`failure`], [`units`] | results, errors and exit codes, numbers as people write them |
//!
//! Standard output holds results only; progress, warnings and errors go to standard error.
#![deny(unsafe_code)]

mod args;
mod bench;
mod cp;
mod failure;
#[allow(unsafe_code)]
mod memory;
mod nic;
mod output;
mod remote;
mod stat;
mod stop;
mod units;

use failure::{Failure, Outcome};
use output::Output;
use std::ffi::OsString;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let matches = match args::command().try_get_matches_from(&arguments) {
        Ok(matches) => matches,
        Err(error) => return refused(&arguments, &error),
    };
    let output = Output { json: matches.get_flag("json"), aside: false };
    let outcome = match matches.get_count("verbose") {
        0 => Ok(()),
        1 => output::log_to_stderr(::log::LevelFilter::Info),
        _ => output::log_to_stderr(::log::LevelFilter::Debug),
    };
    let outcome = outcome.and_then(|()| match matches.subcommand() {
        Some(("stat", matches)) => stat::run(matches, &output),
        Some(("cp", matches)) => cp::run(matches, &output),
        Some(("bench", matches)) => bench::run(matches, &output),
        Some(("nic", matches)) => nic::run(matches, &output),
        Some(("completions", matches)) => completions(matches),
        _ => Err(Failure::usage("no command was given; try --help")),
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => ExitCode::from(failure.code),
    }
}

/// What clap says instead of running anything: help, the version, or what is wrong with the command line.
fn refused(arguments: &[OsString], error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        output::print(error.render().to_string().trim_end());
        return ExitCode::SUCCESS;
    }
    let mut text = error.render().to_string();
    // A signed link in a wrong place is still a secret.
    for argument in arguments.iter().filter_map(|argument| argument.to_str()) {
        let url = argument.split_once('=').map_or(
            argument,
            |(name, value)| {
                if name.starts_with("--") { value } else { argument }
            },
        );
        if url.contains("://") {
            text = text.replace(url, &raskio::endpoint::redact::url(url));
        }
    }
    output::say(text.trim_end());
    if arguments.iter().any(|argument| argument == "--json") {
        let message = text.split("\n\n").next().unwrap_or_default().trim_start_matches("error: ");
        output::print(&serde_json::json!({"object": "", "error": Failure::usage(message).json()}).to_string());
    }
    ExitCode::from(failure::code::USAGE)
}

fn completions(matches: &clap::ArgMatches) -> Outcome<()> {
    if let Some(shell) = matches.get_one::<clap_complete::Shell>("shell") {
        let mut text = Vec::new();
        clap_complete::generate(*shell, &mut args::command(), "raskio", &mut text);
        output::print(String::from_utf8_lossy(&text).trim_end());
    }
    Ok(())
}

//! The command line.

use crate::remote::KINDS;
use crate::units::parse_size;
use clap::builder::{PossibleValuesParser, ValueParser};
use clap::{Arg, ArgAction, Command, ValueHint, value_parser};
use std::path::PathBuf;

const CREDENTIALS: &str = "\
Credentials are taken from the environment (AWS_ACCESS_KEY_ID, …), from AWS's files and from metadata services, never from \
arguments, which every user of the machine can read. A signed link is a secret too: write it into a file, and @FILE.";
const EXIT_CODES: &str = "\
Exit codes: 0 done; 1 an object could not be read or a file not written; 2 the command line makes no sense; \
3 a checksum is wrong; 128 + N stopped by signal N (130: Ctrl-C).";

fn flag(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
}

fn option(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value).help(help)
}

fn list<T: Clone + Send + Sync + 'static>(arg: Arg, parser: impl Into<ValueParser>) -> Arg
where
    Vec<T>: Send,
{
    arg.value_delimiter(',').value_parser(parser)
}

fn size_parser() -> ValueParser {
    ValueParser::new(|text: &str| parse_size(text))
}

fn url_arguments() -> Arg {
    Arg::new("url")
        .value_name("URL")
        .required(true)
        .num_args(1..)
        .value_hint(ValueHint::Url)
        .help("http, https, s3, webhdfs, swebhdfs or file, or a path; @FILE: the URLs in a file, one a line")
}

fn with_object_options(command: Command) -> Command {
    command.args([
        option("kind", "KIND", "Kind of endpoint, where the URL alone does not say it")
            .value_parser(PossibleValuesParser::new(KINDS.map(|row| row.0)))
            .help_heading("How objects are opened"),
        option("region", "REGION", "Region of S3").help_heading("How objects are opened"),
        option("endpoint-url", "URL", "A service that is compatible with S3")
            .value_hint(ValueHint::Url)
            .help_heading("How objects are opened"),
        option("ca-file", "FILE", "Certificates that are trusted, in PEM form")
            .value_hint(ValueHint::FilePath)
            .help_heading("How objects are opened"),
    ])
}

fn stat() -> Command {
    with_object_options(
        Command::new("stat")
            .about("Show size, entity tag and kind of objects, and how long asking took")
            .arg(url_arguments())
            .after_help(CREDENTIALS),
    )
}

fn cp() -> Command {
    let destination = Arg::new("to")
        .value_name("FILE|DIR|-")
        .required(true)
        .value_parser(value_parser!(PathBuf))
        .value_hint(ValueHint::AnyPath);
    with_object_options(
        Command::new("cp")
            .about("Copy objects to files, by many ranges at once; goes on where it was interrupted")
            .long_about(
                "Copy objects to files, by many ranges at once.\n\nWhat has come is kept in FILE.raskio-part, and \
                 FILE.raskio-journal says which parts of it are there and what their checksums are. The same command again \
                 checks these and reads only the rest, if size and entity tag of the object are still the same.",
            )
            .arg(url_arguments())
            .arg(destination.help("A file; a directory, if it is one, ends in / or there are several URLs; -: standard output"))
            .args([
                option("checksum", "KIND=HEX", "What the file must be: crc32=HEX or sha256=HEX. One URL only"),
                option("chunk-size", "SIZE", "Bytes of one range request [default: KVIKIO_TASK_SIZE, or 4 MiB]")
                    .value_parser(size_parser()),
                option("memory", "SIZE", "Bytes that may be under way").value_parser(size_parser()).default_value("256MiB"),
                option("jobs", "N", "Objects that are copied at the same time")
                    .value_parser(value_parser!(u32).range(1..=64))
                    .default_value("4"),
                flag("restart", "Do not go on where an earlier copy was interrupted"),
                flag("trust-size", "Go on also where the server has no entity tag, if the size is the same"),
                flag("no-clobber", "Leave files alone that exist"),
                flag("quiet", "No progress, no summary").short('q'),
            ])
            .after_help(CREDENTIALS),
    )
}

fn bench() -> Command {
    with_object_options(
        Command::new("bench")
            .about("Read an object with many settings, and recommend one")
            .long_about(
                "Reads an object again and again, each time with other settings, and recommends those that cost least of what \
                 comes within 5 % of the fastest. The bytes are thrown away. Reads as much as the network gives for the whole \
                 time: mind what that costs.",
            )
            .arg(Arg::new("url").value_name("URL").required(true).value_hint(ValueHint::Url))
            .args([
                list::<u32>(option("reactors", "N,…", "Threads that move bytes [default: 1,2,4, at most one a CPU]"), value_parser!(u32).range(1..=1024)),
                list::<u32>(option("requests", "N,…", "Requests in flight").default_value("16,64,256"), value_parser!(u32).range(1..=65536)),
                list::<u64>(option("task-size", "SIZE,…", "Bytes of a request").default_value("1MiB,4MiB,16MiB"), size_parser()),
                option("seconds", "S", "Time of one measurement").value_parser(value_parser!(f64)).default_value("3"),
                option("rounds", "N", "Measurements of each setting; the median counts")
                    .value_parser(value_parser!(u32).range(1..=99))
                    .default_value("1"),
                option("memory", "SIZE", "Bytes that may be under way; settings that need more are left out")
                    .value_parser(size_parser())
                    .default_value("1GiB"),
                option("plot", "FILE.svg", "Write a plot")
                    .value_parser(value_parser!(PathBuf))
                    .value_hint(ValueHint::FilePath),
                flag("quiet", "No progress").short('q'),
            ])
            .after_help(CREDENTIALS),
    )
}

fn nic() -> Command {
    Command::new("nic").about("Show what goes through the network interfaces, until interrupted").args([
        list::<String>(
            option(
                "device",
                "NAME,…",
                "Interfaces; * and ? stand for any characters [default: all that are up, but loopback]",
            )
            .short('d'),
            value_parser!(String),
        ),
        option("interval", "MS", "Time between two samples")
            .short('i')
            .value_parser(value_parser!(u64).range(1..=3_600_000))
            .default_value("1000"),
        option("count", "N", "Samples to take [default: until interrupted]")
            .short('n')
            .value_parser(value_parser!(u64).range(1..)),
        flag("csv", "As CSV").conflicts_with("json"),
        option("sysfs", "DIR", "Where the counters are")
            .value_parser(value_parser!(PathBuf))
            .default_value("/sys/class/net")
            .hide(true),
    ])
}

/// Everything.
pub fn command() -> Command {
    Command::new("raskio")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Look at remote objects, copy them, measure an endpoint, watch the network")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .arg(flag("json", "Results as JSON on standard output, one object a line").global(true))
        .arg(
            Arg::new("verbose")
                .long("verbose")
                .short('v')
                .global(true)
                .action(ArgAction::Count)
                .help("Log to standard error; twice: more"),
        )
        .subcommands([stat(), cp(), bench(), nic()])
        .subcommand(
            Command::new("completions")
                .about("Print completions for a shell")
                .arg(Arg::new("shell").required(true).value_parser(value_parser!(clap_complete::Shell))),
        )
        .after_help(EXIT_CODES)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_command_line_is_consistent() {
        super::command().debug_assert();
    }
}

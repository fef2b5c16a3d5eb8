//! Writes `include/raskio.h`: cbindgen turns each file of `src/ffi` into a section, headed by that file's `//!` text.
//!
//! What cbindgen cannot do is done to its output: constants get back the type they lose, those of one group stand in one
//! block with their comments beside them, and a comment of one line takes one line.

use std::fmt::Write as _;
use std::fs;

/// The files of `src/ffi` that the header shows, in the order in which C needs them.
pub const SECTIONS: [&str; 14] = [
    "version", "status", "handle", "error", "secrets", "events", "client", "op", "object", "read", "batch", "stats",
    "log", "table",
];

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const WIDTH: usize = 120;

/// The text of one of those files.
pub fn source(section: &str) -> String {
    fs::read_to_string(format!("{ROOT}/src/ffi/{section}.rs")).expect("the sections are files of src/ffi")
}

/// The whole header.
pub fn header() -> String {
    let mut config = cbindgen::Config::from_file(format!("{ROOT}/cbindgen.toml")).expect("cbindgen.toml is valid");
    let mut out = config.header.take().expect("cbindgen.toml has a header");
    let trailer = config.trailer.take().expect("cbindgen.toml has a trailer");
    for section in SECTIONS {
        let bindings = cbindgen::Builder::new()
            .with_config(config.clone())
            .with_src(format!("{ROOT}/src/ffi/{section}.rs"))
            .generate()
            .expect("cbindgen reads src/ffi");
        let mut raw = Vec::new();
        bindings.write(&mut raw);
        let raw = String::from_utf8(raw).expect("cbindgen writes UTF-8");
        let body = tidy(&raw, section == "status");
        let _ = write!(out, "\n{}\n{}\n", banner(&source(section)), body.trim());
    }
    format!("{}\n\n{}\n", out.trim(), trailer.trim())
}

/// The head of a section: the file's `//!` lines, the first one as its title.
fn banner(source: &str) -> String {
    let mut lines = source.lines().map_while(|line| line.strip_prefix("//!"));
    let title = lines.next().expect("each file begins with its title").trim();
    let mut out = format!("/* ---- {title} {} *\n", "-".repeat(WIDTH - title.len() - 11));
    let mut code = false;
    for line in lines {
        if line.trim_start().starts_with("```") {
            code = !code;
        } else {
            let _ = writeln!(out, " *{}{line}", if code { "    " } else { "" });
        }
    }
    out.truncate(out.trim_end().len());
    out.push_str(" */\n");
    out
}

struct Constant {
    name: String,
    value: String,
    comment: String,
}

fn tidy(raw: &str, statuses: bool) -> String {
    let joined = raw
        .replace(")\nRASKIO_NOEXCEPT", ") RASKIO_NOEXCEPT")
        // Every struct has a typedef of its name.
        .replace("typedef struct raskio_", "\u{1}")
        .replace("struct raskio_", "raskio_")
        .replace('\u{1}', "typedef struct raskio_");
    let mut out = String::new();
    let mut constants: Vec<Constant> = Vec::new();
    let mut comment: Vec<&str> = Vec::new();
    let mut function = String::new();
    let mut in_comment = false;
    for line in joined.lines() {
        let text = line.trim();
        if text == "/**" {
            in_comment = true;
            comment = vec![line];
        } else if in_comment {
            comment.push(line);
            in_comment = text != "*/";
        } else if let Some((name, value)) = text.strip_prefix("#define ").and_then(|rest| rest.split_once(' ')) {
            let comment = std::mem::take(&mut comment);
            let text: Vec<&str> = comment.iter().filter_map(|line| line.trim().strip_prefix("* ")).collect();
            constants.push(Constant { name: name.to_owned(), value: typed(value, statuses), comment: text.join(" ") });
        } else if !text.is_empty() || constants.is_empty() {
            flush(&mut constants, &mut out);
            write_comment(&std::mem::take(&mut comment), &mut out);
            if line.starts_with("RASKIO_EXPORT") || !function.is_empty() {
                function.push_str(line.trim_start());
                function.push(' ');
                if text.ends_with(';') {
                    write_function(&std::mem::take(&mut function), &mut out);
                }
            } else {
                let _ = writeln!(out, "{line}");
            }
        }
    }
    flush(&mut constants, &mut out);
    out
}

/// cbindgen writes the bare number of a typed constant.
fn typed(value: &str, statuses: bool) -> String {
    if !value.bytes().all(|byte| byte.is_ascii_digit()) {
        value.to_owned()
    } else if statuses {
        format!("((raskio_status){value})")
    } else {
        format!("{value}u")
    }
}

fn write_comment(comment: &[&str], out: &mut String) {
    if let [first, text, _] = comment {
        let short = format!("{} {} */", first, text.trim().trim_start_matches("* "));
        if short.len() <= WIDTH {
            let _ = writeln!(out, "{short}");
            return;
        }
    }
    for line in comment {
        let _ = writeln!(out, "{}", line.trim_end());
    }
}

/// Writes a declaration: on one line, or with its parameters filled into lines below it.
fn write_function(declaration: &str, out: &mut String) {
    let declaration = declaration.trim();
    let split = declaration.split_once('(').and_then(|(head, rest)| Some((head, rest.rsplit_once(')')?)));
    let Some((head, (parameters, tail))) = split.filter(|_| declaration.len() > WIDTH) else {
        let _ = writeln!(out, "{declaration}");
        return;
    };
    let _ = write!(out, "{head}(");
    let mut column = WIDTH;
    let count = parameters.split(", ").count();
    for (at, parameter) in parameters.split(", ").enumerate() {
        let text = if at + 1 < count { format!("{parameter},") } else { format!("{parameter}){tail}") };
        if column + 1 + text.len() > WIDTH {
            out.push_str("\n   ");
            column = 3;
        }
        column += 1 + text.len();
        let _ = write!(out, " {text}");
    }
    out.push('\n');
}

/// Writes the constants: a group of equal prefix without blank lines, each comment beside its constant.
fn flush(constants: &mut Vec<Constant>, out: &mut String) {
    let group = |name: &str| name.split('_').take(2).collect::<Vec<_>>().join("_").replace("_OK", "_ERR");
    while !constants.is_empty() {
        let prefix = group(&constants[0].name);
        let count = constants.iter().take_while(|constant| group(&constant.name) == prefix).count();
        let members: Vec<Constant> = constants.drain(..count).collect();
        let widest = members.iter().map(|constant| constant.name.len()).max().unwrap_or(0);
        let value = members.iter().map(|constant| constant.value.len()).max().unwrap_or(0);
        for constant in &members {
            let define = format!("#define {:widest$} {:value$}", constant.name, constant.value);
            let line = format!("{define} /**< {} */", constant.comment);
            if line.len() > WIDTH {
                let _ = writeln!(out, "/** {} */\n{}", constant.comment, define.trim_end());
            } else {
                let _ = writeln!(out, "{line}");
            }
        }
        out.push('\n');
    }
}

//! The shared `config` and `credentials` files of AWS. Pure: the text is an argument.

use std::collections::HashMap;

/// The settings of one profile, names in lower case. A nested setting is `outer.inner`.
pub type Profile = HashMap<String, String>;

/// Which of the two files a text is: they name their sections differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// `[profile NAME]`, and `[default]`.
    Config,
    /// `[NAME]`.
    Credentials,
}

/// Adds what the file says of profile `name` to `profile`. Later lines win, and lines that make no sense are passed over,
/// as every SDK does.
pub fn read_into(profile: &mut Profile, text: &str, kind: FileKind, name: &str) {
    let (mut inside, mut outer) = (false, String::new());
    for line in text.lines() {
        let bare = line.trim();
        if bare.is_empty() || bare.starts_with(['#', ';']) {
            continue;
        }
        if let Some(section) = bare.strip_prefix('[') {
            let section = section.split(']').next().unwrap_or_default().trim();
            inside = section_name(section, kind) == Some(name);
            outer.clear();
            continue;
        }
        if !inside {
            continue;
        }
        let Some((key, value)) = bare.split_once('=') else { continue };
        let (key, value) = (key.trim().to_ascii_lowercase(), without_comment(value.trim()));
        if line.starts_with([' ', '\t']) && !outer.is_empty() {
            profile.insert(format!("{outer}.{key}"), value.to_owned());
        } else if value.is_empty() {
            // A setting with settings of its own on indented lines.
            outer = key;
        } else {
            outer.clear();
            profile.insert(key, value.to_owned());
        }
    }
}

fn section_name(section: &str, kind: FileKind) -> Option<&str> {
    match (kind, section) {
        (_, "default") => Some("default"),
        (FileKind::Credentials, name) => Some(name),
        (FileKind::Config, section) => {
            let name = section.strip_prefix("profile")?.strip_prefix([' ', '\t'])?.trim();
            Some(name.trim_matches(['"', '\'']))
        }
    }
}

/// A comment begins with a blank and `#` or `;`.
fn without_comment(value: &str) -> &str {
    let end = [" #", " ;", "\t#", "\t;"].iter().filter_map(|mark| value.find(mark)).min();
    value[..end.unwrap_or(value.len())].trim_end()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, kind: FileKind, name: &str) -> Vec<(String, String)> {
        let mut profile = Profile::new();
        read_into(&mut profile, text, kind, name);
        let mut all: Vec<_> = profile.into_iter().collect();
        all.sort();
        all
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_profile_is_found_in_both_files() {
        let config = "# note\n[default]\nregion = us-east-1 ; why\n\n[profile \"data lake\"]\nREGION=eu-west-1\ns3 =\n  addressing_style = path\noutput = json\n[profile other]\nregion=x\n";
        assert_eq!(read(config, FileKind::Config, "default"), pairs(&[("region", "us-east-1")]));
        assert_eq!(
            read(config, FileKind::Config, "data lake"),
            pairs(&[("output", "json"), ("region", "eu-west-1"), ("s3.addressing_style", "path")])
        );
        assert_eq!(read(config, FileKind::Config, "none"), pairs(&[]));
        let credentials = "[a]\r\naws_access_key_id = K\r\naws_secret_access_key = a=b#c\r\n[b]\naws_access_key_id=L";
        assert_eq!(
            read(credentials, FileKind::Credentials, "a"),
            pairs(&[("aws_access_key_id", "K"), ("aws_secret_access_key", "a=b#c")])
        );
        assert_eq!(read(credentials, FileKind::Config, "a"), pairs(&[]), "a config file says [profile a]");
    }

    #[test]
    fn nonsense_is_passed_over() {
        for text in
            ["[", "[default", "=", "x", "[default]\n=\n x\n==\n", "\u{feff}[default]\na=b", "[default]]]\n a = b"]
        {
            for kind in [FileKind::Config, FileKind::Credentials] {
                read(text, kind, "default");
            }
        }
        assert_eq!(read("[default]\n a = b", FileKind::Config, "default"), pairs(&[("a", "b")]));
    }
}

//! Which keys exist, and the nearest one to a key that doesn't.

use figment::value::{Dict, Value};

/// How alike two keys have to be for one to be taken for the other.
const LIKENESS: f64 = 0.6;

/// The keys that exist, taken from the defaults.
#[derive(Debug)]
pub(super) struct KnownKeys {
    /// Full paths, with whether anything may be below: a table that is empty by default takes any name.
    keys: Vec<(String, bool)>,
}

impl KnownKeys {
    /// The keys of `defaults`, which sets each.
    pub(super) fn new(defaults: &Dict) -> Self {
        let leaves = leaves(defaults).into_iter();
        Self { keys: leaves.map(|(path, value)| (path, value.as_dict().is_some())).collect() }
    }

    /// Every key that holds a value.
    pub(super) fn values(&self) -> impl Iterator<Item = &str> {
        self.keys.iter().filter(|(_, open)| !open).map(|(key, _)| key.as_str())
    }

    /// The keys of `values` that don't exist, each with what to do.
    pub(super) fn unknown(&self, values: &Dict) -> Vec<(String, String)> {
        leaves(values)
            .into_iter()
            .filter(|(path, _)| !self.knows(path))
            .map(|(path, _)| {
                let hint = self.suggest(&path);
                (path, format!("unknown key; {hint}"))
            })
            .collect()
    }

    fn knows(&self, path: &str) -> bool {
        self.keys.iter().any(|(key, open)| {
            // A value in the place of a table has the wrong type; that is found when it is read.
            path == key || (*open && is_below(path, key)) || is_below(key, path)
        })
    }

    fn suggest(&self, path: &str) -> String {
        let nearest = self
            .keys
            .iter()
            .map(|(key, _)| (strsim::normalized_damerau_levenshtein(path, key), key))
            .max_by(|a, b| a.0.total_cmp(&b.0));
        if let Some((likeness, key)) = nearest
            && likeness >= LIKENESS
        {
            return format!("did you mean `{key}`?");
        }
        let section = path.split('.').next().unwrap_or_default();
        let of_section: Vec<&str> =
            self.keys.iter().map(|(key, _)| key.as_str()).filter(|key| is_below(key, section)).collect();
        if !of_section.is_empty() {
            return format!("known are {}", of_section.join(", "));
        }
        let mut sections: Vec<&str> = self.keys.iter().filter_map(|(key, _)| key.split('.').next()).collect();
        sections.dedup();
        format!("sections are {}", sections.join(", "))
    }
}

/// Whether `path` is below `parent`: `lease.ttl` is below `lease`.
pub(super) fn is_below(path: &str, parent: &str) -> bool {
    path.strip_prefix(parent).is_some_and(|rest| rest.starts_with('.'))
}

/// Every value that isn't a table with something in it, by its full path, in order.
pub(super) fn leaves(dict: &Dict) -> Vec<(String, &Value)> {
    let mut found = Vec::new();
    for (name, value) in dict {
        match value.as_dict() {
            Some(inner) if !inner.is_empty() => {
                found.extend(leaves(inner).into_iter().map(|(path, leaf)| (format!("{name}.{path}"), leaf)));
            }
            _ => found.push((name.clone(), value)),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dict(text: &str) -> Dict {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn each_unknown_key_is_told_with_the_nearest_known_one() {
        let known =
            KnownKeys::new(&dict("[lease]\nttl = 1\nmargin = 1\n[http]\nlisten = 1\n[poller.routes]\n"));
        let wrong = dict(
            "[lease]\nttll = 1\nbananas = 1\n[htp]\nlisten = 1\n[zebra]\nx = 1\n[poller.routes.any]\nx = 1\n",
        );
        let told = known.unknown(&wrong);
        let hints: Vec<(&str, &str)> = told.iter().map(|(key, hint)| (key.as_str(), hint.as_str())).collect();
        assert_eq!(
            hints,
            [
                ("htp.listen", "unknown key; did you mean `http.listen`?"),
                ("lease.bananas", "unknown key; known are lease.margin, lease.ttl"),
                ("lease.ttll", "unknown key; did you mean `lease.ttl`?"),
                ("zebra.x", "unknown key; sections are http, lease, poller"),
            ]
        );
    }

    #[test]
    fn a_value_in_the_place_of_a_table_is_no_unknown_key() {
        let known = KnownKeys::new(&dict("[lease]\nttl = 1\n"));
        assert!(known.unknown(&dict("lease = 1\n")).is_empty());
    }
}

//! Hadoop's configuration: which NameNodes a URL means.
//!
//! hdfs-native reads the same files itself, but tells nothing of them. They are read
//! here as well to say in errors who was asked, and to ask another NameNode first
//! after one has hung.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::failure::{Code, Failure};
use crate::location::Location;

const DEFAULT_PORT: u16 = 8020;
/// How long hdfs-native sleeps at most before it asks the NameNodes again.
const LONGEST_PAUSE_MS: u64 = 1000;
const FIRST_PAUSE_MS: u64 = 100;

/// The properties of `core-site.xml` and `hdfs-site.xml`.
#[derive(Debug, Default)]
pub struct Configuration(HashMap<String, String>);

/// Where the files of a URL are.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Cluster {
    pub scheme: String,
    /// `host:port`, a nameservice, or a mount table.
    pub authority: String,
}

impl std::fmt::Display for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}://{}", self.scheme, self.authority)
    }
}

impl Configuration {
    /// What is in `HADOOP_CONF_DIR` or `$HADOOP_HOME/etc/hadoop`, where hdfs-native looks.
    ///
    /// A file that cannot be read counts as empty: hdfs-native says what is wrong with it.
    pub fn read() -> Self {
        let directory = std::env::var_os("HADOOP_CONF_DIR")
            .map(PathBuf::from)
            .or_else(|| Some(PathBuf::from(std::env::var_os("HADOOP_HOME")?).join("etc/hadoop")));
        let mut properties = HashMap::new();
        if let Some(directory) = directory {
            for name in ["core-site.xml", "hdfs-site.xml"] {
                properties.extend(read_properties(&directory.join(name)));
            }
        }
        Self(properties)
    }

    /// The cluster of a file: the one that its URL names, or else the default one.
    pub fn cluster(&self, location: &Location) -> Result<Cluster, Failure> {
        let of = |scheme: &str, authority: &str| Cluster {
            scheme: scheme.to_owned(),
            authority: self.with_port(scheme, authority),
        };
        if !location.authority.is_empty() {
            return Ok(of(&location.scheme, &location.authority));
        }
        let default = self.0.get("fs.defaultFS").map_or("", |text| text.trim());
        let named = Location::parse(default).ok();
        match named.filter(|named| !named.authority.is_empty()) {
            Some(named) if named.scheme == location.scheme => {
                Ok(of(&named.scheme, &named.authority))
            }
            _ => Err(Failure::new(
                Code::FailedPrecondition,
                format!(
                    "{location} names no cluster, and fs.defaultFS {}: write {}://host:port/… or \
                     set HADOOP_CONF_DIR",
                    match default {
                        "" => "is not set".to_owned(),
                        other => format!("is {other}"),
                    },
                    location.scheme,
                ),
            )),
        }
    }

    /// The addresses of a cluster's NameNodes; none if they are unknown.
    pub fn namenodes(&self, cluster: &Cluster) -> Vec<String> {
        if cluster.scheme != "hdfs" {
            return Vec::new();
        }
        let service = &cluster.authority;
        match self.0.get(&ids_key(service)) {
            Some(ids) => ids
                .split(',')
                .filter_map(|id| {
                    let id = id.trim();
                    self.0
                        .get(&format!("dfs.namenode.rpc-address.{service}.{id}"))
                })
                .map(|address| address.trim().to_owned())
                .collect(),
            None => vec![service.clone()],
        }
    }

    /// What hdfs-native has to know beyond the files, for its `round`th client of a cluster.
    ///
    /// It waits for NameNodes as long as it is let, and each client asks another one first.
    pub fn settings(&self, round: usize) -> Vec<(String, String)> {
        let mut settings = vec![
            (
                "dfs.client.failover.max.attempts".into(),
                u32::MAX.to_string(),
            ),
            (
                "dfs.client.failover.sleep.base.millis".into(),
                FIRST_PAUSE_MS.to_string(),
            ),
            (
                "dfs.client.failover.sleep.max.millis".into(),
                LONGEST_PAUSE_MS.to_string(),
            ),
        ];
        for (key, value) in &self.0 {
            if key.starts_with("dfs.ha.namenodes.") {
                let mut ids: Vec<&str> = value.split(',').map(str::trim).collect();
                let count = ids.len();
                ids.rotate_left(round % count);
                settings.push((key.clone(), ids.join(",")));
            }
        }
        settings
    }

    fn with_port(&self, scheme: &str, authority: &str) -> String {
        let is_service = self.0.contains_key(&ids_key(authority));
        if scheme == "hdfs" && !authority.contains(':') && !is_service {
            format!("{authority}:{DEFAULT_PORT}")
        } else {
            authority.to_owned()
        }
    }
}

fn ids_key(nameservice: &str) -> String {
    format!("dfs.ha.namenodes.{nameservice}")
}

fn read_properties(file: &Path) -> Vec<(String, String)> {
    let Ok(text) = std::fs::read_to_string(file) else {
        return Vec::new();
    };
    let options = roxmltree::ParsingOptions {
        allow_dtd: true,
        ..Default::default()
    };
    let Ok(document) = roxmltree::Document::parse_with_options(&text, options) else {
        return Vec::new();
    };
    let text_of = |property: roxmltree::Node, name: &str| {
        let found = property.children().find(|node| node.has_tag_name(name))?;
        Some(found.text()?.to_owned())
    };
    document
        .root_element()
        .children()
        .filter(|node| node.has_tag_name("property"))
        .filter_map(|property| Some((text_of(property, "name")?, text_of(property, "value")?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configuration(pairs: &[(&str, &str)]) -> Configuration {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        Configuration(pairs.iter().map(owned).collect())
    }

    fn cluster(configuration: &Configuration, url: &str) -> String {
        let found = configuration.cluster(&Location::parse(url).unwrap());
        found.map_or_else(|failure| failure.message, |cluster| cluster.to_string())
    }

    #[test]
    fn urls_name_clusters() {
        let pair = configuration(&[
            ("fs.defaultFS", "hdfs://ns/"),
            ("dfs.ha.namenodes.ns", "a, b"),
            ("dfs.namenode.rpc-address.ns.a", "one:9000"),
            ("dfs.namenode.rpc-address.ns.b", "two:9000"),
        ]);
        assert_eq!(cluster(&pair, "hdfs:///x"), "hdfs://ns");
        assert_eq!(cluster(&pair, "hdfs://nn/x"), "hdfs://nn:8020");
        assert_eq!(cluster(&pair, "viewfs://table/x"), "viewfs://table");
        assert!(cluster(&pair, "viewfs:///x").contains("fs.defaultFS is hdfs://ns/"));
        let service = pair
            .cluster(&Location::parse("hdfs://ns/x").unwrap())
            .unwrap();
        assert_eq!(pair.namenodes(&service), ["one:9000", "two:9000"]);
        let second = pair.settings(1);
        assert!(second.contains(&("dfs.ha.namenodes.ns".into(), "b,a".into())));
        assert!(cluster(&Configuration::default(), "hdfs:///x").contains("is not set"));
    }
}

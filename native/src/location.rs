//! URLs of HDFS: `hdfs://host:port/path`, `hdfs://nameservice/path`, `hdfs:///path`, `viewfs://…`.

use crate::failure::{Code, Failure};

/// A file's cluster and its path there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    pub scheme: String,
    /// `host:port` or a nameservice; empty for the cluster that the configuration names.
    pub authority: String,
    /// Absolute, without `.`, `..` and doubled slashes.
    pub path: String,
}

impl Location {
    pub fn parse(url: &str) -> Result<Self, Failure> {
        let Some((scheme, rest)) = url.split_once("://") else {
            return Err(Failure::new(
                Code::InvalidArgument,
                format!("{url}: not a URL"),
            ));
        };
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if path.contains(':') && path.split('/').any(|part| part.contains(':')) {
            return Err(Failure::new(
                Code::InvalidArgument,
                format!("{url}: names in HDFS have no colon"),
            ));
        }
        Ok(Self {
            scheme: scheme.to_owned(),
            authority: authority.to_owned(),
            path: clean(path),
        })
    }

    pub fn parent(&self) -> Self {
        let cut = self.path.rfind('/').unwrap_or(0).max(1);
        Self {
            path: self.path[..cut].to_owned(),
            ..self.clone()
        }
    }

    pub fn is_root(&self) -> bool {
        self.path == "/"
    }
}

impl std::fmt::Display for Location {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}://{}{}", self.scheme, self.authority, self.path)
    }
}

fn clean(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            name => parts.push(name),
        }
    }
    format!("/{}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(url: &str) -> String {
        Location::parse(url).unwrap().to_string()
    }

    #[test]
    fn paths_are_cleaned() {
        assert_eq!(shown("hdfs://nn:8020//a/./b/../c/"), "hdfs://nn:8020/a/c");
        assert_eq!(shown("hdfs://ns"), "hdfs://ns/");
        assert_eq!(shown("hdfs:///user/me"), "hdfs:///user/me");
        assert_eq!(shown("hdfs:///../.."), "hdfs:///");
        assert_eq!(shown("viewfs://c/ä b%20?#"), "viewfs://c/ä b%20?#");
    }

    #[test]
    fn parents() {
        let parent = |url| Location::parse(url).unwrap().parent().to_string();
        assert_eq!(parent("hdfs://ns/a/b"), "hdfs://ns/a");
        assert_eq!(parent("hdfs://ns/a"), "hdfs://ns/");
        assert_eq!(parent("hdfs://ns/"), "hdfs://ns/");
    }

    #[test]
    fn what_hdfs_refuses() {
        assert!(Location::parse("hdfs://nn:8020/a:b").is_err());
        assert!(Location::parse("/a").is_err());
    }
}
